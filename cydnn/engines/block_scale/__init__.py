"""Numbers of few bits with scales for blocks of them."""

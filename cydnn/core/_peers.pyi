"""Memory of other devices."""

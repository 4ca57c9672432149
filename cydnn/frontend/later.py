"""What a pygraph does not have yet: each method says so in one sentence. When an operation comes, its row
here goes."""
from __future__ import annotations

from .errors import cudnnGraphNotSupportedError

ROWS = {                                         # what it needs: the methods
    "linear attention": "gdn gdn_bwd gdn2 gdn2_bwd gdp gdp_bwd kda kda_bwd"}


class Later:
    """Methods that raise cudnnGraphNotSupportedError."""


def _add(method: str, what: str):
    def call(self, *args, **kw):
        raise cudnnGraphNotSupportedError(f"{method}: {what} comes with a later release; help(cydnn.pygraph) "
                                          "lists what is here")

    call.__name__, call.__doc__, call.is_later = method, f"Comes with a later release ({what}).", True
    setattr(Later, method, call)


for _what, _methods in ROWS.items():
    for _method in _methods.split():
        _add(_method, _what)

"""Kernels that are read once in a process, whichever devices and plans run them."""
from __future__ import annotations

from collections import OrderedDict

from ...locks import rlock
from . import parse
from .code import Code

MOST = 100_000                                   # instructions that are kept, of about a KiB each
# (text, entry) -> code that has run nowhere; the last used last
_kept: OrderedDict[tuple, Code] = OrderedDict()
_lock = rlock()


def fresh(text: str, name: str) -> Code:
    """The entry ``name`` of a text, without the addresses of what it declares."""
    module = parse.module(text, f"{name}.ptx")
    return Code(module, parse.PtxProgram(module, name), {})


def code(text: str, name: str) -> Code:
    """The same, of texts that come again; devices run it as ``code(…).on(addresses)``."""
    with _lock:
        found = _kept.pop((text, name), None) or fresh(text, name)
        _kept[text, name] = found
        while len(_kept) > 1 and sum(len(each.instructions) for each in _kept.values()) > MOST:
            _kept.popitem(last=False)
        return found

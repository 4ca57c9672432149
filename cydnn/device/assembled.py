"""Machine code that was assembled before, in the user's cache folder: a kernel that is there costs the driver
nothing. ``tools/build_ptx.py --assemble`` puts it there, and plans that are built through a kernel cache.

A file is named by the hash of its PTX and the card's target; in front of the code stands the code's own hash.
What does not fit is left alone, and the driver compiles the PTX.
"""
from __future__ import annotations

import hashlib
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from .. import files
from ..log import log

HASH_BYTES, MOST_BYTES = 32, 1 << 26             # of a file in front of the code; of a whole file


def folder() -> Path:
    """The user's cache folder."""
    return files.cache_folder()


def place(text: bytes, sm: int) -> Path:
    """The path of a text's machine code for a card, present or not."""
    return folder() / f"{hashlib.sha256(text).hexdigest()}.sm_{sm}.cubin"


def find(text: bytes, sm: int) -> bytes | None:
    """The machine code of a text, whole and unchanged; None where there is none."""
    try:
        path = place(text, sm)
        files.check_own(path.parent)
        data = files.read(path, MOST_BYTES, path.parent)
    except (OSError, RuntimeError):              # also where the user has no home
        return None
    except ValueError as error:
        _say(str(error))
        return None
    code = data[HASH_BYTES:]
    return code if code and hashlib.sha256(code).digest() == data[:HASH_BYTES] else None


@lru_cache(maxsize=16)
def _say(reason: str):
    """Once each."""
    log.warning("assembled code is not used: %s", reason)


_keeps: ContextVar[bool] = ContextVar("keeps", default=False)


@contextmanager
def keeping():
    """What is loaded meanwhile is kept as machine code, assembled by the driver."""
    token = _keeps.set(True)
    try:
        yield
    finally:
        _keeps.reset(token)


def keeps() -> bool:
    """Machine code is kept now."""
    return _keeps.get()


def keep(text: bytes, sm: int, code: bytes) -> Path:
    """Put machine code there, in one step: a reader sees all of it or nothing."""
    path = place(text, sm)
    files.write(path, hashlib.sha256(code).digest() + code)
    return path

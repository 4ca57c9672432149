"""Machine code that was assembled before, in the user's cache folder: a kernel that is there costs the driver
nothing. ``tools/build_ptx.py --assemble`` puts it there.

A file is named by the hash of its PTX and the card's target; in front of the code stands the code's own hash.
What does not fit is left alone, and the driver compiles the PTX.
"""
from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

HASH_BYTES = 32


def folder() -> Path:
    """``CYDNN_CACHE``, or cydnn in the folder that XDG names, or ~/.cache/cydnn."""
    given = os.environ.get("CYDNN_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cydnn"


def place(text: bytes, sm: int) -> Path:
    """Where the machine code of a text for a card is, or would be."""
    return folder() / f"{hashlib.sha256(text).hexdigest()}.sm_{sm}.cubin"


def find(text: bytes, sm: int) -> bytes | None:
    """The machine code of a text, whole and unchanged; None where there is none."""
    try:
        data = place(text, sm).read_bytes()
    except (OSError, RuntimeError):              # also where the user has no home
        return None
    code = data[HASH_BYTES:]
    return code if code and hashlib.sha256(code).digest() == data[:HASH_BYTES] else None


def keep(text: bytes, sm: int, code: bytes) -> Path:
    """Put machine code there, in one step: a reader sees all of it or nothing."""
    path = place(text, sm)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_bytes(hashlib.sha256(code).digest() + code)
    os.replace(part, path)
    return path

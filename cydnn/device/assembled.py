"""Machine code that was assembled before, in the user's cache folder: a kernel that is there costs the driver
nothing. ``tools/build_ptx.py --assemble`` puts it there, and plans that are built through a kernel cache.

A file is named by the hash of its PTX and the card's target; in front of the code stands the code's own hash.
What does not fit is left alone, and the driver compiles the PTX. A spliced text is found without being made:
a file that is named by what it is made of, its recipe, has the hash.
"""
from __future__ import annotations

import hashlib
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from .. import files, fusion
from ..kernels import seal_in_use
from ..kernels.images import Image
from ..log import log

HASH_BYTES, MOST_BYTES = 32, 1 << 26             # of a file in front of the code; of a whole file


def folder() -> Path:
    """The user's cache folder."""
    return files.cache_folder()


def place(digest: str, sm: int) -> Path:
    """The path of the machine code of a text with this hash for a card, present or not."""
    return folder() / f"{digest}.sm_{sm}.cubin"


def hash_of(text: bytes) -> str:
    """By which a text's code is kept."""
    return hashlib.sha256(text).hexdigest()


def recipe(image: Image, programs: tuple, ways: tuple) -> str:
    """A hash of all that a spliced text is made of: the kernel's image, the functions of the manifest, the
    programs, and the splicer itself."""
    return hash_of(repr((image.sha256, programs, ways, seal_in_use(), _splicer())).encode())


@lru_cache(maxsize=1)
def _splicer() -> tuple:
    """What tells one state of its sources from another."""
    found = sorted(Path(fusion.__file__).parent.glob("*.py"))
    return tuple([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in found])


def find(text: bytes, sm: int) -> bytes | None:
    """The machine code of a text, whole and unchanged; None where there is none."""
    return find_hash(hash_of(text), sm)


def find_hash(digest: str, sm: int) -> bytes | None:
    """That of the text with a hash."""
    data = _read(place(digest, sm), MOST_BYTES) or b""
    code = data[HASH_BYTES:]
    return code if code and hashlib.sha256(code).digest() == data[:HASH_BYTES] else None


def find_made(made_of: str, sm: int) -> bytes | None:
    """The machine code of the text of a recipe; None where there is none."""
    digest = _read(folder() / f"{made_of}.text", 2 * HASH_BYTES)
    return find_hash(digest.decode("latin-1"), sm) if digest and digest.isalnum() else None


def _read(path: Path, most: int) -> bytes | None:
    try:
        files.check_own(path.parent)
        return files.read(path, most, path.parent)
    except (OSError, RuntimeError):              # also where the user has no home
        return None
    except ValueError as error:
        _say(str(error))
        return None


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


def keep(text: bytes, sm: int, code: bytes, made_of: str | None = None) -> Path:
    """Put machine code there, in one step: a reader sees all of it or nothing. ``made_of``: the recipe."""
    digest = hash_of(text)
    path = place(digest, sm)
    files.write(path, hashlib.sha256(code).digest() + code)
    if made_of is not None:
        files.write(path.with_name(f"{made_of}.text"), digest.encode())
    return path

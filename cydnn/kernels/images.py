"""Images: the PTX of a kernel for one target, in a pack or a file of its own, verified when it is read."""
from __future__ import annotations

import builtins
import hashlib
import lzma
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .. import files
from ..status import InternalError

BUILD = "python tools/build_ptx.py"
MOST_BYTES = 1 << 24                             # of an image; unpacking may take four times that


@dataclass(frozen=True)
class Image:
    """One kernel compiled for one target. ``version`` is the PTX version, which says what driver can load it;
    ``lies`` where it is in a pack: offset and bytes of a stream, offset and bytes in its text; () in a file
    of its own."""
    target: str
    path: Path
    folder: Path
    sha256: str
    version: str
    nvcc: str
    registers: int
    smem_static: int
    spills: int
    lies: tuple = ()

    @property
    def bytes(self) -> int:
        """Of the text, or of the file that it has alone."""
        return self.lies[3] if self.lies else self.path.stat().st_size

    def text(self) -> builtins.bytes:
        """The PTX, verified when it is read; the last few are kept."""
        return _read_image(self.path, self.folder, self.lies, self.sha256)


def _unpacked(data: bytes) -> bytes:
    """The one stream that a file is. What would be longer than any image is not unpacked to its end."""
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=4 * MOST_BYTES)
    text = reader.decompress(data, MOST_BYTES)
    if not reader.eof or reader.unused_data:
        raise lzma.LZMAError(f"not one stream of at most {MOST_BYTES} bytes")
    return text


@lru_cache(maxsize=2)
def _stream(path: Path, folder: Path, changed_ns: int, start: int, size: int) -> bytes:
    """The text of a stream of a pack."""
    return _unpacked(files.read(path, MOST_BYTES, folder)[start:start + size])


@lru_cache(maxsize=64)
def _read_image(path: Path, folder: Path, lies: tuple, sha256: str) -> bytes:
    try:
        start, size, at, length = lies or (0, MOST_BYTES, 0, MOST_BYTES)
        text = _stream(path, folder, os.stat(path).st_mtime_ns, start, size)[at:at + length]
    except ValueError as error:
        raise InternalError(f"image {path} {error}. Build it with `{BUILD}`") from None
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InternalError(f"image {path} must be readable; got {error}. Build it with `{BUILD}`") from None
    digest = hashlib.sha256(text).hexdigest()
    if digest != sha256:
        raise InternalError(f"image {path} must have sha256 {sha256[:16]}…; got {digest[:16]}…. "
                            f"The file was changed; build it with `{BUILD}`")
    return text


def pick_target(targets, sm: int) -> str | None:
    """The best of ``targets`` for a device:
    ``sm_90a`` for exactly it, ``sm_100f`` of its family, else the highest plain one."""
    def plain(target, end=""):
        found = re.fullmatch(rf"sm_(\d+){end}", target)
        return int(found[1]) if found else 10**9
    if f"sm_{sm}a" in targets:
        return f"sm_{sm}a"
    family = [t for t in targets if plain(t, "f") // 10 == sm // 10 and plain(t, "f") <= sm]
    fit = family or [t for t in targets if plain(t) <= sm]
    return max(fit, key=lambda t: int(re.sub(r"\D", "", t)), default=None)

"""Files that cydnn reads and keeps: what is none of ours is refused before it is opened."""
from __future__ import annotations

import os
import stat
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket",
         stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
# waits for nobody who writes a FIFO, and follows no link that came after the file was looked at
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


def cache_folder() -> Path:
    """The folder of what can be made again: ``CYDNN_CACHE``, or cydnn in the user's cache folder, which the
    system names (XDG's on Linux)."""
    given = os.environ.get("CYDNN_CACHE")
    if given:
        return Path(given)
    if os.name == "nt":
        usual = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(usual) / "cydnn" / "Cache"
    usual = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "cydnn"


def read(path: Path, most: int, folder: Path) -> bytes:
    """A file of at most ``most`` bytes below ``folder``. Raises OSError where it cannot be read, ValueError
    for what is none: a FIFO, a device, a link out of the folder, a larger one."""
    real, home = os.path.realpath(path), os.path.realpath(folder)
    if os.path.commonpath([real, home]) != home:
        raise ValueError(f"must lie in {folder}; got a link to {real}")
    _check(os.stat(real), most)
    with open(os.open(real, FLAGS), "rb") as file:
        return file.read(_check(os.fstat(file.fileno()), most))          # it may be another by now


def _check(found, most: int) -> int:
    """The bytes of a file. Raises ValueError for what is none, and for one that is too large."""
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"must be a file; got {KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}")
    if found.st_size > most:
        raise ValueError(f"must have at most {most} bytes; got {found.st_size}")
    return found.st_size


def write(path: Path, data: bytes):
    """Write a file in one step: a reader sees the old one or the new one, and a failure leaves neither more.
    Folders that are made for it are this user's alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def stamp(path: Path):
    """What changes when a file does; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@contextmanager
def locked(path: Path):
    """A file that one process and one thread at a time read, change and write. The lock lies beside it, since
    ``write`` puts another file in its place."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "ab") as held:
        _lock(held)                              # given up when the file is closed, or the process ends
        yield


def _lock(file):
    """Wait until this process alone has the file."""
    try:
        import fcntl
    except ImportError:                          # Windows
        import msvcrt
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)     # one byte, wherever the file ends
    else:
        fcntl.flock(file, fcntl.LOCK_EX)


def check_own(folder: Path):
    """Raises ValueError where the files of a folder may be somebody else's."""
    found = os.stat(folder)
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise ValueError(f"{folder} must belong to user {os.geteuid()}; got a folder of user {found.st_uid}")
    if found.st_mode & 0o022 and os.name == "posix":
        raise ValueError(f"{folder} must not be writable by others; got mode "
                         f"{stat.S_IMODE(found.st_mode):o}: chmod go-w {folder}")

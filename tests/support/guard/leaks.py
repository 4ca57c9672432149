"""What rounds of calls leave behind: objects, bytes that Python knows of, bytes of the process."""
from __future__ import annotations

import ctypes
import gc
import os
import tracemalloc

from cydnn._core import Descriptor

ROOM = 1 << 20                                   # bytes of resident memory that may come and go
TRACED, MOST = 2000, 28_000                      # rounds, bytes: one object kept in each were 32 KB and more
HELD = 16                                        # bytes of malloc a round: less than any block
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


class _Malloc(ctypes.Structure):
    """struct mallinfo2 of glibc."""
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks "
                                                    "uordblks fordblks keepcost".split()]


def malloced() -> int:
    """Bytes of malloc in use, those of large blocks too; 0 where the C library does not say."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = _Malloc
    found = ask()
    return found.uordblks + found.hblkhd


def descriptors() -> int:
    gc.collect()
    return sum(isinstance(thing, Descriptor) for thing in gc.get_objects())


def growth(step, count, settle=lambda: None, traced=TRACED) -> dict:
    """What ``count`` rounds of ``step`` leave: objects, bytes that Python knows of, bytes of the process.
    As many rounds come before: a driver's queue grows to what it needs once. ``settle`` empties it."""
    for _ in range(max(count, 100)):
        step()
    for _ in range(4):                           # what leaks does so each time, what others do not
        settle()
        alive, before, held = descriptors(), resident(), malloced()
        for _ in range(count):
            step()
        settle()
        found = dict(descriptors=descriptors() - alive, resident=resident() - before,
                     malloced=(malloced() - held) / count)
        if found["resident"] < ROOM and found["malloced"] < HELD:
            break
    for _ in range(3):                           # a table that grows meanwhile counts whole, but once
        tracemalloc.start()
        step()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(traced):
            step()
        gc.collect()
        found["traced"] = tracemalloc.get_traced_memory()[0] - start
        tracemalloc.stop()
        if found["traced"] < MOST:
            break
    return found


def check(found):
    print(found)
    assert found["descriptors"] <= 0 and found["traced"] < MOST and found["resident"] < ROOM and (
        found["malloced"] < HELD), found

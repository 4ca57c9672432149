"""Arrays of the host on an interpreter: copied in before a plan runs, and what it writes out after it."""
from __future__ import annotations

from contextlib import contextmanager

from ..numpy import memory

LINE = 256                                       # bytes: an address keeps its place in a line of this size


@contextmanager
def guests(arena, arrays, space=None):
    """``there(address)``: where a byte of the host is in the arena meanwhile.

    ``arrays``: (address, bytes, is written) of those on the host. They lie to each other as the originals do
    where they overlap, and have dead zones around them. ``space``: (address, bytes) of a workspace, of which
    nothing is read before it is written.
    """
    copies = [_copy(arena, start, stop) for start, stop in _merged(arrays)]
    for start, stop, copy in copies:
        arena.write_host(copy.ptr, memory(start, stop - start))
    if space is not None:
        copies.append(_copy(arena, space[0], sum(space)))

    def there(address: int) -> int:
        return next((copy.ptr + address - start for start, stop, copy in copies if start <= address < stop),
                    address)
    try:
        yield there
        for address, size, is_written in arrays:
            if is_written:
                memory(address, size)[:] = arena.read_host(there(address), size)
    finally:
        for *_, copy in copies:
            copy.free()


def _copy(arena, start: int, stop: int) -> tuple:
    return start, stop, arena.alloc(stop - start, start % LINE)


def _merged(arrays) -> list:
    """Ranges of addresses; those that overlap become one."""
    found: list = []
    for start, size, _ in sorted(arrays):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(start + size, found[-1][1])
        else:
            found.append((start, start + size))
    return found

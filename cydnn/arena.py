"""Areas in a workspace that share it by how long they live."""
from __future__ import annotations

ALIGNMENT = 256                                  # bytes; of every area


def arrange(areas) -> tuple[dict, int]:
    """({area: offset}, bytes of all) for ``(area, bytes, first, last)``: areas whose times overlap lie apart.

    The largest come first, each at the lowest place that is free.
    """
    offsets, placed, size = {}, [], 0            # placed: (offset, end, first, last)
    for area, length, first, last in sorted(areas, key=lambda row: -row[1]):
        length = -(-max(length, 1) // ALIGNMENT) * ALIGNMENT
        at = 0
        for low, high, a, b in sorted(placed):
            if a <= last and first <= b and low < at + length and at < high:
                at = high
        offsets[area] = at
        placed.append((at, at + length, first, last))
        size = max(size, at + length)
    return offsets, size

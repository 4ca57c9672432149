"""Rules of tensor maps, so that every device refuses alike, and their encoding for the driver.

The rules are those of the driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, without
interleaving.
"""
from __future__ import annotations

from typing import Iterator

from ..status import BadParam

RANKS = range(1, 6)
TYPES = {                                        # of elements: CUtensorMapDataType
    "i8": 0, "u8": 0, "f8_e4m3": 0, "f8_e5m2": 0, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
FLOATS = ("f16", "f32", "f64", "bf16")           # those that can be filled with NaN
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}          # bytes: CUtensorMapSwizzle
ALIGNMENT = 16                                   # bytes; of addresses, strides and rows of a box
CORNERS = {3: 32768, 4: 128, 5: 16}              # of pixels, by rank: from -this to this - 1
OFFSETS = {3: 65535, 4: 255, 5: 31}              # of an instruction, by rank: the most


def element_bytes(map_) -> int:
    """Bytes of one element."""
    from ..dtypes import BY_NAME                 # needs NumPy, which importing the tape does not
    return BY_NAME[map_.dtype].bytes


def steps_of(map_) -> tuple:
    """Element strides, one a dim."""
    return tuple(map_.steps) or (1,) * len(map_.dims)


def reasons(map_) -> Iterator[str]:
    """Why the hardware would not take a steps.TensorMap: field, rule and value. Silence is consent."""
    rank = len(map_.dims)
    if map_.dtype not in TYPES:
        yield f"dtype must be one of {' '.join(TYPES)}; got {map_.dtype}"
        return
    if rank not in RANKS:
        yield f"dims must have 1 to 5 entries; got {rank}"
        return
    if map_.corners and (rank not in CORNERS or [len(c) for c in map_.corners] != [rank - 2] * 2):
        yield f"corners must be two, each of the spatial dims of {map_.dims}; got {map_.corners}"
        return
    sides = 2 if map_.corners else rank
    for field, count in (("strides", rank - 1), ("box", sides), ("steps", len(map_.steps) and rank)):
        if len(getattr(map_, field)) != count:
            yield f"{field} must have {count} entries for dims {map_.dims}; got {getattr(map_, field)}"
            return
    row = map_.box[0] * element_bytes(map_)
    for field, rule, bad in (
            ("dims", "be in 1 … 2^32", any(not 1 <= d <= 2**32 for d in map_.dims)),
            ("strides", "be multiples of 16 bytes", any(s % ALIGNMENT for s in map_.strides)),
            ("strides", "be in 0 … 2^40 - 16 bytes", any(not 0 <= s < 2**40 for s in map_.strides)),
            ("box", "be in 1 … 256", not map_.corners and any(not 1 <= b <= 256 for b in map_.box)),
            ("steps", "be in 1 … 8", any(not 1 <= s <= 8 for s in map_.steps)),
            ("swizzle", f"be one of {' '.join(map(str, SWIZZLES))} bytes", map_.swizzle not in SWIZZLES),
            ("box", f"have rows of a multiple of 16 bytes, and these have {row}", row % ALIGNMENT),
            ("box", f"have rows of at most the swizzle's {map_.swizzle} bytes, and these have {row}",
             0 < map_.swizzle < row),
            ("fill_nan", f"be False for {map_.dtype}", map_.fill_nan and map_.dtype not in FLOATS)):
        if bad:
            yield f"{field} must {rule}; got {getattr(map_, field)}"
    if map_.corners:
        yield from _pixel_reasons(map_)
    if map_.pointer.addend % ALIGNMENT:
        yield f"pointer must lie a multiple of 16 bytes behind its tensor; got {map_.pointer.addend}"


def _pixel_reasons(map_):
    rank, (channels, pixels) = len(map_.dims), map_.box
    most, every = CORNERS[rank], [c for corner in map_.corners for c in corner]
    if not (1 <= channels <= 256 and 1 <= pixels <= 1024):
        yield f"box must be 1 … 256 channels of 1 … 1024 pixels; got {map_.box}"
    if any(not -most <= c < most for c in every):
        yield f"corners must be in {-most} … {most - 1} for {rank - 2} spatial dims; got {map_.corners}"
    if any(d - 1 + up < low for d, low, up in zip(map_.dims[1:], *map_.corners)):
        yield f"corners must leave a pixel of {map_.dims}; got {map_.corners}"


def check(where: str, map_):
    """Raise BadParam with the first reason."""
    for reason in reasons(map_):
        raise BadParam(f"{where}: {reason}")


def encoding(map_) -> tuple:
    """The arguments of Context.tensor_map."""
    return (TYPES[map_.dtype], tuple(map_.dims), tuple(map_.strides), tuple(map_.box), steps_of(map_),
            SWIZZLES[map_.swizzle], bool(map_.fill_nan), tuple(map(tuple, map_.corners)))

"""What a tensor map may say, so that every device refuses alike, and how the driver is told.

The rules are those of the driver API, cuTensorMapEncodeTiled, without interleaving.
"""
from __future__ import annotations

from typing import Iterator

from ..status import BadParam

RANKS = range(1, 6)
TYPES = {                                        # of elements: CUtensorMapDataType
    "i8": 0, "u8": 0, "f8_e5m2": 0, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
FLOATS = ("f16", "f32", "f64", "bf16")           # those that can be filled with NaN
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}          # bytes: CUtensorMapSwizzle
ALIGNMENT = 16                                   # bytes; of addresses, strides and rows of a box


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
    for field, count in (("strides", rank - 1), ("box", rank), ("steps", len(map_.steps) and rank)):
        if len(getattr(map_, field)) != count:
            yield f"{field} must have {count} entries for dims {map_.dims}; got {getattr(map_, field)}"
            return
    row = map_.box[0] * element_bytes(map_)
    for field, rule, bad in (
            ("dims", "be in 1 … 2^32", any(not 1 <= d <= 2**32 for d in map_.dims)),
            ("strides", "be multiples of 16 bytes", any(s % ALIGNMENT for s in map_.strides)),
            ("strides", "be in 0 … 2^40 - 16 bytes", any(not 0 <= s < 2**40 for s in map_.strides)),
            ("box", "be in 1 … 256", any(not 1 <= b <= 256 for b in map_.box)),
            ("steps", "be in 1 … 8", any(not 1 <= s <= 8 for s in map_.steps)),
            ("swizzle", f"be one of {' '.join(map(str, SWIZZLES))} bytes", map_.swizzle not in SWIZZLES),
            ("box", f"have rows of a multiple of 16 bytes, and these have {row}", row % ALIGNMENT),
            ("box", f"have rows of at most the swizzle's {map_.swizzle} bytes, and these have {row}",
             0 < map_.swizzle < row),
            ("fill_nan", f"be False for {map_.dtype}", map_.fill_nan and map_.dtype not in FLOATS)):
        if bad:
            yield f"{field} must {rule}; got {getattr(map_, field)}"
    if map_.pointer.addend % ALIGNMENT:
        yield f"pointer must lie a multiple of 16 bytes behind its tensor; got {map_.pointer.addend}"


def check(where: str, map_):
    """Raise BadParam with the first reason."""
    for reason in reasons(map_):
        raise BadParam(f"{where}: {reason}")


def encoding(map_) -> tuple:
    """The arguments of Context.tensor_map."""
    return (TYPES[map_.dtype], tuple(map_.dims), tuple(map_.strides), tuple(map_.box), steps_of(map_),
            SWIZZLES[map_.swizzle], bool(map_.fill_nan))

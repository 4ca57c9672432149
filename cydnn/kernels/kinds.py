"""The kinds of kernel parameters: one row for each C++ type, and one for each way a value is
patched in at execute.

    find("const f16*")           a pointer
    find("Array<FastDiv, 3>")    three neighbours of one kind, which may be pointers
    find("Number<float>")        a number, or the address of one in memory of the device

Read by the build tool (where a parameter lies), the packer (what its bytes are), the tape and the PTX
interpreter (what is written at execute). Standard library only: tools/contract.py loads it by its path.
"""
from __future__ import annotations

import math
import operator
import re
import struct
from typing import Any, Callable, NamedTuple


# ---- What is written at execute ----

class Patch(NamedTuple):
    """``code``: of struct. ``low`` and ``high``: the range of a whole number; None: any number, rounded."""
    bytes: int
    code: str
    low: int | None = None
    high: int | None = None


PATCHES = {
    "pointer": Patch(8, "Q"),                    # the address of a tensor or of an area of the workspace
    "map": Patch(128, "128s"),                   # the address inside a CUtensorMap
    "f32": Patch(4, "f"),
    "f64": Patch(8, "d"),
    "i32": Patch(4, "i", -2**31, 2**31 - 1),
    "i64": Patch(8, "q", -2**63, 2**63 - 1),
}
NUMBERS = ("f32", "f64", "i32", "i64")           # those that numbers are patched by


def number(patch: str, value) -> bytes:
    """The bytes of a number as a patch writes it: rounded to nearest, or a whole number as it is.
    Raises ValueError."""
    _, code, low, high = PATCHES[patch]
    if low is not None:
        return _whole(code, low, high)(value)
    return _real(code)(value)


# ---- Host values to bytes: ValueError("must …") says which rule a value breaks ----

def fastdiv(by: int) -> tuple[int, int, int]:
    """``(mul, shr, by)`` of lib/types.cuh: ``n // by == 2*n*mul >> (32 + shr)`` for 0 <= n < 2**31,
    1 <= by < 2**31."""
    shr = (by - 1).bit_length()
    return -(-(1 << (31 + shr)) // by), shr, by


def _within(low: int, high: int, value) -> int:
    value = operator.index(value)
    if not low <= value <= high:
        raise ValueError(f"must be in {low} … {high}")
    return value


def _whole(code: str, low: int, high: int):
    return lambda value: struct.pack("<" + code, _within(low, high, value))


def _real(code: str):
    def pack(value):
        value = float(value)
        try:
            return struct.pack("<" + code, value)
        except OverflowError:                    # beyond f32: infinite, as a conversion in C makes it
            return struct.pack("<" + code, math.copysign(math.inf, value))
    return pack


def _address(value):
    if value is not None and not (isinstance(value, int) and 0 <= value < 2**64):
        raise ValueError("must be a Pointer, None or an address")
    return struct.pack("<Q", value or 0)


def _divisor(value):
    return struct.pack("<III", *fastdiv(_within(1, 2**31 - 1, value)))


def _array(kind: "ParameterKind", count: int):
    def pack(values):
        if not hasattr(values, "__len__"):
            raise ValueError(f"must be a sequence of {count}")
        if len(values) != count:
            raise ValueError(f"must have {count} entries")
        return b"".join(map(kind.pack, values))
    return pack


def _number(kind: "ParameterKind"):
    return lambda value: kind.pack(value) + bytes(NUMBER_BYTES - kind.bytes)     # of no memory


# ---- The rows ----

class ParameterKind(NamedTuple):
    """One C++ type. ``name``: its spellings in contracts, the first is the usual one.

    ``bytes`` and ``align`` are those of nvcc. ``pack`` gives the bytes of a host value; None: somebody else
    fills it in. ``patch``: a key of PATCHES, for what may be given at execute; "" for what a plan fixes.
    ``address``: where in it the address of memory goes, None where it has none.
    """
    name: str
    bytes: int
    align: int
    pack: Callable[[Any], bytes] | None
    patch: str = ""
    address: int | None = None
    pointers: bool = False                       # neighbours that are addresses of tensors


POINTER = ParameterKind("*", 8, 8, _address, "pointer", 0)
ROWS = (
    POINTER,
    ParameterKind("int i32 int32_t", 4, 4, _whole("i", -2**31, 2**31 - 1), "i32"),
    ParameterKind("unsigned uint32_t", 4, 4, _whole("I", 0, 2**32 - 1)),
    ParameterKind("int64_t i64", 8, 8, _whole("q", -2**63, 2**63 - 1), "i64"),
    ParameterKind("float f32", 4, 4, _real("f"), "f32"),
    ParameterKind("double f64", 8, 8, _real("d"), "f64"),
    ParameterKind("FastDiv", 12, 4, _divisor),            # host: the divisor
    ParameterKind("Fuse", 8, 8, None),                    # what is spliced in, and as long; so it comes last
    # host: a steps.TensorMap; cuda.h before CUDA 13 aligns to 64
    ParameterKind("CUtensorMap", 128, 128, None, "map"),
)
BY_NAME = {name: kind for kind in ROWS for name in kind.name.split()}
_ARRAY = re.compile(r"Array<(\w+\*?), ?(\d+)>")
_NUMBER = re.compile(r"Number<(\w+)>")           # lib/number.cuh: {value, address}; a null one is none
NUMBER_BYTES, NUMBER_ADDRESS = 16, 8


def find(text: str) -> ParameterKind:
    """The kind of a C++ type as a contract spells it. Raises ValueError."""
    if text.endswith("*"):
        return POINTER
    found = _ARRAY.fullmatch(text)
    is_pointer = bool(found) and found[1].endswith("*")
    element = POINTER if is_pointer else BY_NAME.get(found[1]) if found else None
    if element is not None and element.pack is not None and int(found[2]) > 0:
        count = int(found[2])
        return ParameterKind(text, element.bytes * count, element.align, _array(element, count),
                             pointers=is_pointer)
    found = _NUMBER.fullmatch(text)
    element = BY_NAME.get(found[1]) if found else None
    if element is not None and element.patch in NUMBERS:
        return ParameterKind(text, NUMBER_BYTES, 8, _number(element), element.patch, NUMBER_ADDRESS)
    if text not in BY_NAME:
        names = ", ".join(name for name in BY_NAME if name != "*")
        raise ValueError(f"a parameter must be a pointer, Array<T, N>, Number<T> or one of {names}; "
                         f"got {text!r:.80}")
    return BY_NAME[text]

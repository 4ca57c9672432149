"""How arguments become a parameter block: one packer for each parameter of a kernel."""
from __future__ import annotations

import operator
import re
import struct
from typing import NamedTuple

from ..status import BadParam


class Packed(NamedTuple):
    """A launch without its pointers: parameter bytes, what to patch into them at which offset, and the launch shape."""
    data: bytes
    pointers: list                               # (offset, Pointer)
    scalars: list                                # (offset, "f32" or "f64", Scalar)
    grid: tuple
    block: tuple
    smem: int


def fastdiv(by: int) -> tuple[int, int, int]:
    """``(mul, shr, by)`` of lib/types.cuh: ``n // by == 2*n*mul >> (32 + shr)`` for 0 <= n < 2**31, 1 <= by < 2**31."""
    shr = (by - 1).bit_length()
    return -(-(1 << (31 + shr)) // by), shr, by


def _whole(low: int, high: int):
    def convert(value):
        value = operator.index(value)
        if not low <= value <= high:
            raise ValueError(f"must be in {low} … {high}")
        return (value,)
    return convert


def _divisor(value):
    return fastdiv(*_whole(1, 2**31 - 1)(value))


def _real(value):
    return (float(value),)


_INT, _UNSIGNED, _I64 = ("i", _whole(-2**31, 2**31 - 1)), ("I", _whole(0, 2**32 - 1)), ("q", _whole(-2**63, 2**63 - 1))
SCALARS = {                                      # type in a contract -> struct code, host value -> struct values
    "int": _INT, "i32": _INT, "int32_t": _INT, "unsigned": _UNSIGNED, "uint32_t": _UNSIGNED, "int64_t": _I64, "i64": _I64,
    "float": ("f", _real), "f32": ("f", _real), "double": ("d", _real), "f64": ("d", _real), "FastDiv": ("III", _divisor),
}
_ARRAY = re.compile(r"Array<(\w+), ?(\d+)>")


class Packer:
    """Writes one parameter. ``put(block, value, pointers, scalars)`` returns what expressions see of it, None for nothing."""

    def __init__(self, kernel: str, row: dict):
        self.where, self.name, self.type, self.offset = f"{kernel}: {row['name']}", row["name"], row["type"], row["offset"]
        array = _ARRAY.fullmatch(self.type)
        if self.type.endswith("*"):
            self.put = self._pointer
        elif array:
            code, self.convert = SCALARS[array[1]]
            self.count, self.struct = int(array[2]), struct.Struct("<" + code * int(array[2]))
            self.put = self._array
        else:
            code, self.convert = SCALARS[self.type]
            self.kind = {"f": "f32", "d": "f64"}.get(code)
            self.struct = struct.Struct("<" + code)
            self.put = self._scalar

    def refuse(self, rule, value):
        raise BadParam(f"{self.where} {rule}; got {value!r}")

    def _pointer(self, block, value, pointers, scalars):
        if value is None:
            return 0
        if hasattr(value, "uid") and hasattr(value, "addend"):
            pointers.append((self.offset, value))
        elif isinstance(value, int) and 0 <= value < 2**64:
            struct.pack_into("<Q", block, self.offset, value)
        else:
            self.refuse("must be a Pointer, None or an address", value)
        return 1

    def _scalar(self, block, value, pointers, scalars):
        if hasattr(value, "default") and hasattr(value, "key"):
            if self.kind is None:
                self.refuse(f"is {self.type}: only float and double can be given at execute", value)
            scalars.append((self.offset, self.kind, value))
            self.struct.pack_into(block, self.offset, value.default)
            return None
        self.struct.pack_into(block, self.offset, *self._one(value))
        return value

    def _array(self, block, value, pointers, scalars):
        try:
            value = tuple(value)
        except TypeError:
            self.refuse(f"must be a sequence of {self.count}", value)
        if len(value) != self.count:
            self.refuse(f"must have {self.count} entries", value)
        self.struct.pack_into(block, self.offset, *[word for entry in value for word in self._one(entry)])
        return value

    def _one(self, value):
        try:
            return self.convert(value)
        except (TypeError, ValueError) as error:
            rule = str(error) if isinstance(error, ValueError) and str(error).startswith("must") else f"must be {self.type}"
            self.refuse(rule, value)

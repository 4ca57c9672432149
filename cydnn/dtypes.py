"""Data types: one row each. A row knows its size in bits, its rounding, its API number,
its CUDA spelling, its storage.

Host storage is NumPy's where NumPy has the type. bf16 is stored as uint16,
the f8 types and packed booleans as uint8 (``ml_dtypes`` arrays are accepted wherever arrays are).
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from .given import shown
from .status import BadParam, InternalError


@dataclass(frozen=True)
class DType:
    """A storage type.

    ``bits`` of one element (a boolean has one: eight lie in a byte, the first in the lowest bit), ``eps`` the
    distance from 1 to the next value (0 for integers), ``enum`` the CUDNN_DATA_* number, ``numpy`` the host
    storage, ``lowest``/``highest`` the finite range.
    """
    name: str
    bits: int
    kind: str                                   # "float" | "int" | "bool"
    eps: float
    enum: int
    api: str
    numpy: np.dtype = field(compare=False)
    lowest: float = field(compare=False)
    highest: float = field(compare=False)
    tiny: float = field(compare=False)          # distance from 0 to the next value; 0 for integers

    def __str__(self):
        return self.name

    __repr__ = __str__

    @property
    def bytes(self) -> int:
        """Bytes of one element, for types that have whole bytes."""
        if self.bits % 8:
            raise InternalError(f"{self.name}: an element of {self.bits} bits has no bytes of its own")
        return self.bits // 8

    def bytes_of(self, count: int) -> int:
        """Bytes of ``count`` neighbouring elements."""
        return -(-count * self.bits // 8)

    @property
    def compute(self) -> str:
        """The math type that goes with this storage: f64 for f64, else f32."""
        return "f64" if self.name == "f64" else "f32"

    def holds(self, other: "DType") -> bool:
        """Every value of another type is one of this float type."""
        if self is other or other.kind != "float":
            return self is other or max(-other.lowest, other.highest) * self.eps <= 2
        return other.eps >= self.eps and other.highest <= self.highest and other.tiny >= self.tiny

    def decode(self, stored: np.ndarray) -> np.ndarray:
        """Stored values, one an element, as float64 (floats) or int64 (integers, bool)."""
        if self.name == "bf16":
            return (stored.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if self.name in F8:
            return F8[self.name].values()[stored.view(np.uint8)]
        with np.errstate(invalid="ignore"):      # memory that nobody wrote may hold signalling NaN
            return stored.astype(np.float64 if self.kind == "float" else np.int64)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Values rounded once to nearest even (floats; f8 saturates)
        or rounded and saturated (integers), one an element."""
        with np.errstate(all="ignore"):          # inf and 0 are values, whatever a program asks of NumPy
            return self._encode(np.asarray(values))

    def _encode(self, values):
        if self.kind == "bool":
            return (values != 0).astype(self.numpy)
        if self.kind == "int":
            return self._saturate(values)
        if self.name == "bf16":
            return _round_bf16(values.astype(np.float64))
        if self.name in F8:
            return F8[self.name].encode(values.astype(np.float64))
        return values.astype(self.numpy)

    def _saturate(self, values):
        if values.dtype.kind != "f":
            return np.clip(values, self.lowest, self.highest).astype(self.numpy)
        values = np.rint(np.where(np.isnan(values), 0.0, values))
        below_end = values < -float(self.lowest) if self.lowest else values <= self.highest
        inside = (values >= self.lowest) & below_end
        whole = np.where(inside, values, 0).astype(self.numpy)
        return np.where(inside, whole, np.where(values > 0, self.highest, self.lowest).astype(self.numpy))

    def settle(self, values: np.ndarray) -> np.ndarray:
        """The lowest finite float64 (max pooling without a usable cell)
        becomes this type's own lowest value."""
        return np.where(values == np.finfo(np.float64).min, self.lowest, values)

    def round(self, values: np.ndarray) -> np.ndarray:
        """Values after one trip through this type."""
        return self.decode(self.encode(values))


def _round_bf16(values: np.ndarray) -> np.ndarray:
    """float64 to bf16 bits with one rounding: through f32 rounded to odd, which cannot round twice."""
    single = values.astype(np.float32)
    bits = single.view(np.uint32).copy()
    back = single.astype(np.float64)
    inexact = (back != values) & np.isfinite(values) & np.isfinite(single)
    away = inexact & (np.abs(back) > np.abs(values))
    bits[away] -= 1
    bits[inexact] |= 1
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16)


@dataclass(frozen=True)
class _F8:
    """An 8-bit float: the codes 0 … ``top`` are the finite values from 0 up,
    ``nan`` is one that is none."""
    mantissa: int                                # bits
    bias: int
    top: int
    nan: int

    @lru_cache(maxsize=None)
    def values(self) -> np.ndarray:
        """What each of the 256 codes means."""
        code = np.arange(128)
        exponent, fraction = code >> self.mantissa, (code & ((1 << self.mantissa) - 1)) / (1 << self.mantissa)
        scale = np.exp2(np.maximum(exponent, 1) - self.bias)
        half = np.where(code > self.top, np.nan, np.where(exponent > 0, 1 + fraction, fraction) * scale)
        if self.nan > self.top + 1:
            half[self.top + 1] = np.inf
        return np.concatenate([half, -half])

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Nearest code, ties to the even one;
        what is larger than the largest finite value, and infinity, becomes it."""
        finite = self.values()[:self.top + 1]
        size = np.minimum(np.where(np.isnan(values), 0, np.abs(values)), finite[-1])
        above = np.searchsorted(finite, size)                                  # finite[above] >= size
        below = np.maximum(above - 1, 0)
        up, down = finite[above] - size, size - finite[below]
        code = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
        code = np.where(np.isnan(values), self.nan, code)
        return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


class _Exponents:
    """Powers of two from 2^-127 up: an exponent, no sign and no zero; the last code is no number."""

    @lru_cache(maxsize=None)
    def values(self) -> np.ndarray:
        return np.concatenate([np.exp2(np.arange(255.0) - 127), [np.nan]])

    def encode(self, values: np.ndarray) -> np.ndarray:
        """The nearest code, of two the larger; a negative number is no number."""
        fraction, power = np.frexp(np.clip(values, 2.0 ** -127, 2.0 ** 127))       # of a fraction in [1/2, 1)
        return np.where(values >= 0, power + 126 + (fraction >= 0.75), 255).astype(np.uint8)


F8 = {"f8_e4m3": _F8(3, 7, 0x7E, 0x7F), "f8_e5m2": _F8(2, 15, 0x7B, 0x7F), "f8_e8m0": _Exponents()}


def _row(name, bits, kind, eps, enum, api, storage, lowest, highest, tiny=0.0):
    return DType(name, bits, kind, eps, enum, "CUDNN_DATA_" + api, np.dtype(storage), lowest, highest, tiny)


def _range(storage) -> tuple:
    """The finite range of a NumPy float."""
    found = np.finfo(storage)
    return float(found.min), float(found.max)


_BF16_MAX = float.fromhex("0x1.fep127")

f64 = _row("f64", 64, "float", 2.0 ** -52, 1, "DOUBLE", np.float64, *_range(np.float64), 2.0 ** -1074)
f32 = _row("f32", 32, "float", 2.0 ** -23, 0, "FLOAT", np.float32, *_range(np.float32), 2.0 ** -149)
f16 = _row("f16", 16, "float", 2.0 ** -10, 2, "HALF", np.float16, *_range(np.float16), 2.0 ** -24)
bf16 = _row("bf16", 16, "float", 2.0 ** -7, 9, "BFLOAT16", np.uint16, -_BF16_MAX, _BF16_MAX, 2.0 ** -133)
f8_e4m3 = _row("f8_e4m3", 8, "float", 2.0 ** -3, 12, "FP8_E4M3", np.uint8, -448.0, 448.0, 2.0 ** -9)
f8_e5m2 = _row("f8_e5m2", 8, "float", 2.0 ** -2, 13, "FP8_E5M2", np.uint8, -57344.0, 57344.0, 2.0 ** -16)
f8_e8m0 = _row("f8_e8m0", 8, "float", 1.0, 15, "FP8_E8M0", np.uint8, 2.0 ** -127, 2.0 ** 127, 2.0 ** -127)
i8 = _row("i8", 8, "int", 0.0, 3, "INT8", np.int8, -128, 127)
u8 = _row("u8", 8, "int", 0.0, 6, "UINT8", np.uint8, 0, 255)
i32 = _row("i32", 32, "int", 0.0, 4, "INT32", np.int32, -2 ** 31, 2 ** 31 - 1)
i64 = _row("i64", 64, "int", 0.0, 10, "INT64", np.int64, -2 ** 63, 2 ** 63 - 1)
boolean = _row("bool", 1, "bool", 0.0, 11, "BOOLEAN", np.uint8, 0, 1)

ALL = (f64, f32, f16, bf16, f8_e4m3, f8_e5m2, f8_e8m0, i8, u8, i32, i64, boolean)
FLOATS = (f64, f32, f16, bf16)
BY_NAME = {t.name: t for t in ALL}
BY_ENUM = {t.enum: t for t in ALL}

ML_DTYPES = {"bf16": "bfloat16", "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2",   # their names there
             "f8_e8m0": "float8_e8m0fnu"}

MATH = {                                         # compute type: what it is computed in, at least as accurate
    "f32": "f32", "f64": "f64", "i32": "f64",    # f64 holds every i32 and the product of two
    "f16": "f32", "bf16": "f32", "fast_f8": "f32", "bool": "f32"}


_DLPACK = {"bf16": 4, "f8_e4m3": 10, "f8_e5m2": 12, "f8_e8m0": 14}       # codes of types that NumPy has not


def dlpack_types(row: DType) -> tuple:
    """The (code, bits) that arrays of a type may say in DLPack: its own, and that of its host storage."""
    code = {"f": 2, "i": 0, "u": 1}[row.numpy.kind]
    own = 6 if row.kind == "bool" else _DLPACK.get(row.name, code)
    return (own, 8 * row.numpy.itemsize), (code, 8 * row.numpy.itemsize)


def dlpack_type(x) -> tuple | None:
    """The (code, bits) of a type as ``dtype`` takes it; None for one that tensors do not have."""
    try:
        return None if x is None else dlpack_types(dtype(x))[0]
    except BadParam:
        return None


def dtype(x) -> DType:
    """The row for a DType, a name ("bf16"), an API number, a NumPy or ml_dtypes dtype, or a torch dtype."""
    if isinstance(x, DType):
        return x
    if isinstance(x, str):
        name = _FOREIGN.get(x.replace("torch.", "")) or (_WORD.fullmatch(x) and _of_numpy(x))
    elif isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        name = BY_ENUM[int(x)].name if int(x) in BY_ENUM else None
    else:
        name = _named(x) or _of_numpy(x)
    if name is None:
        raise BadParam(f"dtype must be one of {' '.join(BY_NAME)}; got {shown(x)}")
    return BY_NAME[name]


def _named(x) -> str | None:
    """The row of a type that says its name: a torch dtype, a NumPy one of ml_dtypes."""
    name = getattr(x, "name", None) or shown(x).replace("torch.", "")
    return _FOREIGN.get(name) if isinstance(name, str) else None


def _of_numpy(x) -> str | None:
    """The row of a NumPy dtype, of a class that has one, or of a word. No other text comes here: NumPy reads
    it as a little language, and parses it with errors of its own."""
    try:
        return _FOREIGN.get(np.dtype(x).name) if isinstance(x, (type, np.dtype, str)) else None
    except (TypeError, ValueError):
        return None


_WORD = re.compile(r"[<=|]?[A-Za-z?][a-z]*[0-9]{0,3}")       # float32, f4, <f4, ?
_FOREIGN = {"float64": "f64", "float32": "f32", "float16": "f16", "int8": "i8", "uint8": "u8", "int32": "i32",
            "int64": "i64", "bool": "bool", **{t.name: t.name for t in ALL},
            "fp64": "f64", "fp32": "f32", "fp16": "f16", "e4m3": "f8_e4m3", "e5m2": "f8_e5m2",
            **{t.api[11:]: t.name for t in ALL}, **{own: name for name, own in ML_DTYPES.items()}}

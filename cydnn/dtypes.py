"""Data types: one row each. A row knows its size, its rounding, its API number, its CUDA spelling and its NumPy storage.

bf16 has no NumPy type: on the host it is stored as uint16 (arrays of ``ml_dtypes.bfloat16`` are accepted wherever arrays are).
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .status import BadParam


@dataclass(frozen=True)
class DType:
    """A storage type.

    ``eps`` is the distance from 1 to the next value (0 for integers), ``enum`` the CUDNN_DATA_* number, ``ctype`` the name that
    kernels use, ``numpy`` the host storage, ``lowest``/``highest`` the finite range.
    """
    name: str
    bytes: int
    kind: str                                   # "float" | "int" | "bool"
    eps: float
    enum: int
    api: str
    numpy: np.dtype = field(compare=False)
    lowest: float = field(compare=False)
    highest: float = field(compare=False)

    def __str__(self):
        return self.name

    __repr__ = __str__

    @property
    def ctype(self) -> str:
        return self.name

    @property
    def compute(self) -> str:
        """The math type that goes with this storage: f64 for f64, else f32."""
        return "f64" if self.name == "f64" else "f32"

    def decode(self, stored: np.ndarray) -> np.ndarray:
        """Stored values as float64 (floats) or int64 (integers, bool)."""
        if self.name == "bf16":
            return (stored.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return stored.astype(np.float64 if self.kind == "float" else np.int64)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Values rounded once to nearest even (floats) or rounded and saturated (integers), in host storage."""
        values = np.asarray(values)
        if self.kind == "bool":
            return (values != 0).astype(self.numpy)
        if self.kind == "int":
            if values.dtype.kind == "f":
                values = np.nan_to_num(np.rint(values), nan=0.0, posinf=self.highest, neginf=self.lowest)
            return np.clip(values, self.lowest, self.highest).astype(self.numpy)
        if self.name == "bf16":
            return _round_bf16(values.astype(np.float64))
        with np.errstate(over="ignore"):
            return values.astype(self.numpy)

    def settle(self, values: np.ndarray) -> np.ndarray:
        """The lowest finite float64 (max pooling without a usable cell) becomes this type's own lowest value."""
        return np.where(values == _F64.min, self.lowest, values)

    def round(self, values: np.ndarray) -> np.ndarray:
        """Values after one trip through this type."""
        return self.decode(self.encode(values))


def _round_bf16(values: np.ndarray) -> np.ndarray:
    """float64 to bf16 bits with one rounding: through f32 rounded to odd, which cannot round twice."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    bits = single.view(np.uint32).copy()
    back = single.astype(np.float64)
    inexact = (back != values) & np.isfinite(values) & np.isfinite(single)
    away = inexact & (np.abs(back) > np.abs(values))
    bits[away] -= 1
    bits[inexact] |= 1
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16)


def _row(name, bytes, kind, eps, enum, api, storage, lowest, highest):
    return DType(name, bytes, kind, eps, enum, "CUDNN_DATA_" + api, np.dtype(storage), lowest, highest)


_F32, _F64, _F16 = np.finfo(np.float32), np.finfo(np.float64), np.finfo(np.float16)
_BF16_MAX = float.fromhex("0x1.fep127")

f64 = _row("f64", 8, "float", 2.0 ** -52, 1, "DOUBLE", np.float64, float(_F64.min), float(_F64.max))
f32 = _row("f32", 4, "float", 2.0 ** -23, 0, "FLOAT", np.float32, float(_F32.min), float(_F32.max))
f16 = _row("f16", 2, "float", 2.0 ** -10, 2, "HALF", np.float16, float(_F16.min), float(_F16.max))
bf16 = _row("bf16", 2, "float", 2.0 ** -7, 9, "BFLOAT16", np.uint16, -_BF16_MAX, _BF16_MAX)
i8 = _row("i8", 1, "int", 0.0, 3, "INT8", np.int8, -128, 127)
u8 = _row("u8", 1, "int", 0.0, 6, "UINT8", np.uint8, 0, 255)
i32 = _row("i32", 4, "int", 0.0, 4, "INT32", np.int32, -2 ** 31, 2 ** 31 - 1)
i64 = _row("i64", 8, "int", 0.0, 10, "INT64", np.int64, -2 ** 63, 2 ** 63 - 1)
boolean = _row("bool", 1, "bool", 0.0, 11, "BOOLEAN", np.bool_, 0, 1)

ALL = (f64, f32, f16, bf16, i8, u8, i32, i64, boolean)
FLOATS = (f64, f32, f16, bf16)
BY_NAME = {t.name: t for t in ALL}
BY_ENUM = {t.enum: t for t in ALL}


def dtype(x) -> DType:
    """The row for a DType, a name ("bf16"), an API number, a NumPy or ml_dtypes dtype, or a torch dtype."""
    if isinstance(x, DType):
        return x
    if isinstance(x, str) and x in BY_NAME:
        return BY_NAME[x]
    if isinstance(x, int) and x in BY_ENUM:
        return BY_ENUM[x]
    name = _FOREIGN.get(getattr(x, "name", None) or str(x).replace("torch.", ""))
    if name is None:
        try:
            name = _FOREIGN.get(np.dtype(x).name)
        except TypeError:
            pass
    if name is None:
        raise BadParam(f"dtype must be one of {' '.join(BY_NAME)}; got {x!r}")
    return BY_NAME[name]


_FOREIGN = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "uint8": "u8", "int32": "i32",
            "int64": "i64", "bool": "bool", **{t.name: t.name for t in ALL}, **{t.api[11:]: t.name for t in ALL}}

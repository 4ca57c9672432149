"""Arrays of other libraries as the front end reads them: their layout, and the one number of those on the
host.

An array is a NumPy array, a torch tensor, or any object with DLPack. DLPack: the C structures of its
specification, 1.0.
"""
from __future__ import annotations

import ctypes
from math import prod
from typing import NamedTuple

import numpy as np

from ..dtypes import ALL, BY_NAME, DType, dlpack_types, dtype
from ..given import element, reason, unmasked
from ..status import BadParam, CydnnError
from ..tensor import packed_strides

CPU = 1                                          # kDLCPU


class ArrayLayout(NamedTuple):
    """``dtype`` is None for a type that tensors do not have."""
    dims: tuple
    strides: tuple
    dtype: DType | None
    is_host: bool


def is_array(x) -> bool:
    """An array of some library."""
    return hasattr(x, "__dlpack__") or isinstance(x, (np.ndarray, np.generic))


def layout_of(x) -> ArrayLayout:
    """The layout of an array. Raises BadParam for another object."""
    try:
        return _layout(x)
    except CydnnError:
        raise
    except Exception as error:                   # its own methods may raise anything
        raise BadParam(f"tensor_like: {type(x).__name__} must give its layout; got {reason(error)}") from None


def _layout(x) -> ArrayLayout:
    unmasked("tensor_like", x)
    if isinstance(x, (np.ndarray, np.generic)):
        x = np.asarray(x)
        if any(s % x.itemsize for s in x.strides):
            raise BadParam(f"tensor_like: strides must be whole elements of {x.itemsize} bytes; got "
                           f"{x.strides} bytes")
        return ArrayLayout(x.shape, tuple([s // x.itemsize for s in x.strides]), _row(x.dtype), True)
    if not hasattr(x, "__dlpack__"):
        raise BadParam(f"tensor_like: must be given a tensor of a graph or an array with DLPack; got "
                       f"{type(x).__name__}")
    if callable(getattr(x, "stride", None)):
        return ArrayLayout(tuple(x.shape), tuple(x.stride()), _row(x.dtype), is_host(x))
    return _of_capsule(x)


def _row(found) -> DType | None:
    try:
        row = dtype(found)
    except CydnnError:
        return None
    return None if row.name.startswith("f8") else row        # that package takes none from DLPack


def is_host(x) -> bool:
    """Its memory is the host's."""
    if isinstance(x, (np.ndarray, np.generic)):
        return True
    place = getattr(x, "__dlpack_device__", None)
    return place is None or place()[0] == CPU


def number_of(name: str, x):
    """The one number of a host array, or of a number of any library; whole numbers stay whole."""
    if isinstance(x, (bool, int, float)):
        return x
    if not is_array(x):
        raise BadParam(f"execute: {name} must be a number, or an array of one on the host; got "
                       f"{type(x).__name__}")
    try:
        return _one(name, x)
    except CydnnError:
        raise
    except Exception as error:                   # its own methods may raise anything
        raise BadParam(f"execute: {name} must be a number, or an array of one on the host; got "
                       f"{type(x).__name__}: {reason(error)}") from None


def _one(name: str, x):
    """The one number of an array."""
    if not is_host(x):
        raise BadParam(f"execute: {name} is passed by value: it must be a number, or an array of one on the "
                       "host; got memory of a device")
    dims = tuple(x.shape) if hasattr(x, "shape") else np.from_dlpack(x).shape
    if prod(dims) != 1:
        raise BadParam(f"execute: {name} is passed by value: it must hold one number; got dims {dims}")
    found = element(x if hasattr(x, "item") else np.from_dlpack(x))
    is_plain = isinstance(found, (bool, int, float))         # ml_dtypes give scalars of their own
    return found if is_plain else float(found)


def number_at(address: int, row: DType):
    """The number of a type at a host address."""
    stored = np.frombuffer((ctypes.c_uint8 * row.bytes_of(1)).from_address(address), row.numpy)
    return row.decode(stored)[0].item()


# ---- DLPack ----

class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("rank", ctypes.c_int32), ("dtype", _Type),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


# (code, bits) -> row
TYPES = {dlpack_types(row)[0]: row.name for row in ALL if not row.name.startswith("f8")}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _of_capsule(x) -> ArrayLayout:
    """The layout that an object's DLPack capsule says; the capsule frees what it holds."""
    capsule = x.__dlpack__()
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    dims = tuple(tensor.dims[:tensor.rank])
    strides = tuple(tensor.strides[:tensor.rank]) if tensor.strides else packed_strides(dims)
    one = (tensor.dtype.code, tensor.dtype.bits) if tensor.dtype.lanes == 1 else None
    return ArrayLayout(dims, strides, BY_NAME.get(TYPES.get(one, "")), tensor.device.kind == CPU)

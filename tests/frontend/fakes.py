"""Objects that look like those of torch and of other DLPack libraries, over NumPy memory."""
from __future__ import annotations

import ctypes

CPU, CUDA = 1, 2


class Dtype:
    """A torch dtype: its text is "torch.float16"."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"

    __repr__ = __str__


class Size(tuple):
    """A torch.Size."""


class Device:
    def __init__(self, kind):
        self.type = kind


class Tensor:
    """A torch tensor: ``place`` "cpu" or "cuda". Its memory is the array's in both cases."""

    def __init__(self, array, name=None, place="cpu"):
        self.array, self.dtype, self.device = array, Dtype(name or array.dtype.name), Device(place)
        self.requires_grad = False

    @property
    def shape(self):
        return Size(self.array.shape)

    size = lambda self: self.shape

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def data_ptr(self):
        return self.array.ctypes.data

    def item(self):
        return self.array.item()

    def __dlpack_device__(self):
        return (CPU if self.device.type == "cpu" else CUDA), 0

    def __dlpack__(self, **kw):
        return self.array.__dlpack__()


class Plain:
    """An array of a library that has DLPack and nothing else. ``place``: CPU or CUDA; ``kind``: (code,
    bits) of its type, for those that NumPy does not have."""

    def __init__(self, array, place=CPU, kind=None, has_strides=True):
        self.array, self.place, self.kind, self.has_strides = array, place, kind, has_strides

    def __dlpack_device__(self):
        return self.place, 0

    def __dlpack__(self, **kw):
        capsule = self.array.__dlpack__()
        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        start = address(capsule, b"dltensor")    # data, device (kind, number), rank, type …
        ctypes.c_int32.from_address(start + 8).value = self.place
        if self.kind is not None:
            ctypes.memmove(start + 20, bytes(self.kind), 2)
        if not self.has_strides:
            ctypes.c_void_p.from_address(start + 32).value = None
        return capsule

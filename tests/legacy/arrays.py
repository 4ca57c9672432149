"""Tensors and descriptors for the tests of the v5 functions: host memory under strides,
with poison around and between the elements."""
from __future__ import annotations

import numpy as np

from cydnn import cudnn as c
from cydnn.dtypes import BY_ENUM
from cydnn.tensor import packed_strides

FLOAT, DOUBLE, HALF, BFLOAT16 = (c.CUDNN_DATA_FLOAT, c.CUDNN_DATA_DOUBLE,
                                 c.CUDNN_DATA_HALF, c.CUDNN_DATA_BFLOAT16)
NCHW, NHWC = c.CUDNN_TENSOR_NCHW, c.CUDNN_TENSOR_NHWC
FLOATS = (FLOAT, DOUBLE, HALF, BFLOAT16)
GUARD = 64                                       # elements on each side
POISON = 0xFF


class Tensor:
    """A descriptor and its memory. ``values`` reads and writes the elements as float64;
    everything else keeps its poison."""

    def __init__(self, dims, values=None, dtype=FLOAT, layout="nchw", strides=None):
        self.dims, self.dtype = tuple(dims), BY_ENUM[dtype]
        self.strides = packed_strides(self.dims, layout) if strides is None else tuple(strides)
        self.desc = c.createTensorDescriptor()
        c.setTensorNdDescriptor(self.desc, dtype, len(self.dims), self.dims, self.strides)
        self._allocate(values)

    def _allocate(self, values):
        extent = 1 + sum((d - 1) * s for d, s in zip(self.dims, self.strides)) + 2 * GUARD
        self.raw = np.full(extent * self.dtype.bytes, POISON, np.uint8)
        if values is not None:
            self.values = values

    @property
    def stored(self):
        """The elements in host storage, as a view."""
        flat = self.raw.view(self.dtype.numpy)[GUARD:]
        return np.lib.stride_tricks.as_strided(flat, self.dims, [s * self.dtype.bytes for s in self.strides])

    @property
    def values(self):
        return self.dtype.decode(self.stored.copy())

    @values.setter
    def values(self, values):
        self.stored[...] = self.dtype.encode(
            np.broadcast_to(np.asarray(values, float).reshape(self._shape(values)), self.dims))

    def _shape(self, values):
        return self.dims if np.size(values) == np.prod(self.dims) else np.shape(values)

    @property
    def ptr(self) -> int:
        return self.raw.ctypes.data + GUARD * self.dtype.bytes

    def stray_bytes(self) -> int:
        """Bytes outside the elements that are no longer poison."""
        outside = np.ones(len(self.raw) // self.dtype.bytes, bool)
        np.lib.stride_tricks.as_strided(outside[GUARD:], self.dims, self.strides)[...] = False
        return int((self.raw.reshape(-1, self.dtype.bytes)[outside] != POISON).sum())


class Filter(Tensor):
    """A filter (k, c, spatial…) of a format."""

    def __init__(self, dims, values=None, dtype=FLOAT, format=NCHW):
        self.dims, self.dtype = tuple(dims), BY_ENUM[dtype]
        self.strides = packed_strides(self.dims, "nhwc" if format == NHWC else "nchw")
        self.desc = c.createFilterDescriptor()
        c.setFilterNdDescriptor(self.desc, dtype, format, len(self.dims), self.dims)
        self._allocate(values)


def tensor_desc(*dims, dtype=FLOAT, layout="nchw", strides=None):
    """Only the descriptor."""
    return Tensor(dims, dtype=dtype, layout=layout, strides=strides).desc


def filter_desc(*dims, dtype=FLOAT, format=NCHW):
    return Filter(dims, dtype=dtype, format=format).desc


def conv_desc(pad=(0, 0), stride=(1, 1), mode=c.CUDNN_CROSS_CORRELATION, compute=FLOAT):
    desc = c.createConvolutionDescriptor()
    c.setConvolutionNdDescriptor(desc, len(pad), pad, stride, (1,) * len(pad), mode, compute)
    return desc


def ramp(*dims, scale=1.0, offset=0.0):
    """scale * i + offset, i the linear index."""
    return (np.arange(np.prod(dims)) * scale + offset).reshape(dims)


def draw(*dims, seed=0):
    """Small multiples of 1/4: exact in every float type."""
    return np.random.default_rng(seed).integers(-8, 9, dims) / 4.0


def tolerance(dtype, scale=1.0):
    return 4 * max(BY_ENUM[dtype].eps, 2.0 ** -22) * scale

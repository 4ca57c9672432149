"""Where the programs run: arrays, a handle, and the same mathematics in float64 to compare with."""
from __future__ import annotations

import ml_dtypes
import numpy as np

import cydnn.frontend as cudnn
from cydnn.dtypes import ML_DTYPES
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad
from cydnn.ops.pointwise import erf64

TYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8,
         "i32": np.int32, "i64": np.int64, "u8": np.uint8,
         **{kind: getattr(ml_dtypes, name) for kind, name in ML_DTYPES.items()}}


def order(dims, layout) -> tuple:
    """Dim numbers from outermost to innermost."""
    rank = len(dims)
    orders = dict(nhwc=(0, *range(2, rank), 1), nchw=tuple(range(rank)),
                  columns=(*range(rank - 2), rank - 1, rank - 2))
    return orders[layout]


class Exact:
    """What the programs should give, in NumPy float64."""
    exp, sqrt, tanh, where, repeat, stack = np.exp, np.sqrt, np.tanh, np.where, np.repeat, np.stack
    relu = staticmethod(lambda x: np.maximum(x, 0))
    erf = staticmethod(erf64)
    sum = staticmethod(lambda x, dims: x.sum(axis=dims, keepdims=True))
    mean = staticmethod(lambda x, dims: x.mean(axis=dims, keepdims=True))
    amax = staticmethod(lambda x, dims: np.abs(x).max(axis=dims, keepdims=True))

    @staticmethod
    def index(x, dim):
        """The index along a dim, in the shape of x."""
        return np.broadcast_to(np.arange(x.shape[dim]).reshape([-1 if i == dim else 1
                                                                for i in range(x.ndim)]), x.shape)

    @staticmethod
    def conv(x, w, pre, post, stride, dilation=(1, 1)):
        return ConvFprop(pre_pad=pre, post_pad=post, stride=stride, dilation=dilation).reference(x, w)["y"]

    @staticmethod
    def dgrad(dy, w, dims, pre, post, stride):
        return ConvDgrad(pre_pad=pre, post_pad=post, stride=stride).reference(dy, w, dict(dx=dims))["dx"]

    @staticmethod
    def wgrad(x, dy, dims, pre, post, stride):
        return ConvWgrad(pre_pad=pre, post_pad=post, stride=stride).reference(x, dy, dict(dw=dims))["dw"]


class Arrays:
    """NumPy arrays on a device that works on host memory."""
    exact = Exact

    def __init__(self, device):
        self.handle, self.rng = cudnn.create_handle(device), np.random.default_rng(0)

    def close(self):
        cudnn.destroy_handle(self.handle)

    def random(self, dims, kind="f32", layout="nhwc", low=-1.0, high=1.0):
        """An array with values that its type holds."""
        array = self.empty(dims, kind, layout)
        whole = kind in ("i8", "i32", "i64", "u8")
        array[...] = self.rng.integers(-4, 5, dims) if whole else self.rng.uniform(low, high, dims)
        return array

    def empty(self, dims, kind="f32", layout="nhwc"):
        axes = order(dims, layout)
        stored = np.zeros([dims[a] for a in axes], TYPES[kind])
        return stored.transpose(np.argsort(axes))

    def bits(self, count):
        """Memory for packed booleans."""
        return np.zeros(-(-count // 8), np.uint8)

    def whole(self, values, dims=(1, -1, 1)):
        return np.array(values, np.int32).reshape(dims)

    def number(self, value):
        """A number on the host, as an array of one."""
        return np.full((1, 1, 1, 1), value, np.float32)

    def workspace(self, size_bytes):
        return np.full(size_bytes, 0xFF, np.uint8)

    def double(self, x):
        """The values of an array in float64."""
        return x.astype(np.float64)

    def unpacked(self, x, like):
        """Packed booleans in memory order of ``like``, in its shape."""
        axes = sorted(range(like.ndim), key=lambda a: -like.strides[a])
        flat = np.unpackbits(x, bitorder="little")[:like.size].reshape([like.shape[a] for a in axes])
        return flat.transpose(np.argsort(axes)).astype(np.float64)

    def copy(self, x):
        return x.copy(order="K")

    def synchronize(self):
        """Nothing to wait for."""

    def close_to(self, got, want, atol, rtol):
        np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=rtol, atol=atol)

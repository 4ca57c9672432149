"""The windows of images as columns of a matrix."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..tensor import TensorDesc
from .attribute import choice, ints
from .op import Op
from .window import padded, views, window_out


@dataclass(frozen=True)
class Im2col(Op, reads="x", writes="col"):
    """col[(c, r, s), (n, p, q)] = the pixel of channel c that tap (r, s) of the window at output (p, q) of
    image n lies on, 0 in the padding. So a filter (k, c, r, s) as a matrix (k, c*r*s) times col is the
    convolution.

    x (n, c, spatial…) of rank 3 to 5, any strides; col (c * window, n * out), any strides.
    Spec: v5.0.4 header, cudnnIm2Col; the layout is ours, as no guide has one.
    """
    window: tuple = ints(1, lo=1, doc="sizes of the window")
    pre_pad: tuple = ints(0, lo=0, doc="zeros in front of each spatial dim")
    post_pad: tuple = ints(0, lo=0, doc="zeros behind each spatial dim")
    stride: tuple = ints(1, lo=1)
    dilation: tuple = ints(1, lo=1)
    mode: str = choice("cross_correlation", "convolution",
                       doc="convolution: the taps are those of a filter that is flipped in every spatial dim")

    scalars = {}

    def geometry(self, rank) -> tuple:
        """(window, pre_pad, post_pad, stride, dilation), one entry for each spatial dim."""
        fields = ("window", "pre_pad", "post_pad", "stride", "dilation")
        return tuple(self.spread(name, rank - 2) for name in fields)

    def out_dims(self, x_dims) -> tuple:
        """The spatial dims of the windows' places."""
        return window_out(x_dims[2:], *self.geometry(len(x_dims)))

    def check(self, x):
        yield 3 <= x.rank <= 5, f"x must have 1 to 3 spatial dims; got rank {x.rank}"
        out = self.out_dims(x.dims)
        yield (min(out) >= 1, f"window must fit into the padded x; got window {self.window}, x {x.dims[2:]}, "
                              f"padding {self.pre_pad} and {self.post_pad}")

    def infer(self, x):
        rows, columns = x.c * prod(self.geometry(x.rank)[0]), x.n * prod(self.out_dims(x.dims))
        return dict(col=TensorDesc.packed(x.dtype, (rows, columns)))

    def reference(self, x):
        window, pre, post, stride, dilation = self.geometry(x.ndim)
        out = self.out_dims(x.shape)
        taps = np.stack([view for _, view in views(padded(x, pre, post), out, window, stride, dilation)])
        taps = taps[::-1] if self.mode == "convolution" else taps          # (taps, n, c, out…)
        return dict(col=np.moveaxis(taps, 2, 0).reshape(x.shape[1] * prod(window), x.shape[0] * prod(out)))

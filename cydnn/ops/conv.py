"""Convolution in three directions, and the bias gradient.
1 to 3 spatial dims, groups, strides, dilation, asymmetric padding."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from ..status import BadParam
from ..tensor import TensorDesc
from .attribute import choice, ints
from .op import Gradient, Op
from .reduction import Reduction
from .window import padded, views, window_out

MODES = ("cross_correlation", "convolution")


def _api_names(direction: str, parts: tuple) -> dict:
    """What the backend API calls the operands and scalars of a direction."""
    names = {name: f"OPERATION_CONVOLUTION_{direction}_{name.upper()}" for name in (*parts, "alpha", "beta")}
    return {**names, "compute": "CONVOLUTION_COMP_TYPE"}


@dataclass(frozen=True)
class Conv(Op):
    """The base of the three directions: the attributes and the geometry.
    ``parts``: image, filter and output by name."""
    parts: ClassVar[tuple] = ()
    pre_pad: tuple = ints(0, lo=0, api="CONVOLUTION_PRE_PADDINGS", doc="zeros in front of each spatial dim")
    post_pad: tuple = ints(0, lo=0, api="CONVOLUTION_POST_PADDINGS", doc="zeros behind each spatial dim")
    stride: tuple = ints(1, lo=1, api="CONVOLUTION_FILTER_STRIDES",
                         doc="elements of x from one place of the filter to the next")
    dilation: tuple = ints(1, lo=1, api="CONVOLUTION_DILATIONS", doc="elements of x from one tap to the next")
    mode: str = choice(*MODES, api="CONVOLUTION_CONV_MODE", is_required=True,
                       doc="convolution flips the filter in every spatial dim",
                       members=dict(cross_correlation="CROSS_CORRELATION", convolution="CONVOLUTION"))

    def geometry(self, rank):
        """(pre_pad, post_pad, stride, dilation), one entry for each spatial dim."""
        return tuple(self.spread(f, rank - 2) for f in ("pre_pad", "post_pad", "stride", "dilation"))

    def listed(self, name: str, rank: int):
        """The rule against four lists for one dim less: that is the form whose groups are a dim of their
        own."""
        lists = (self.pre_pad, self.post_pad, self.stride, self.dilation)
        yield (any(not isinstance(v, tuple) or len(v) != rank - 3 for v in lists),
               f"{name} of rank {rank} must have {rank - 2} entries in each list, one for each spatial dim; "
               f"got {rank - 3}: where its dims are (n, g, c, spatial…), merge g and c into one")

    def out_dims(self, x_dims, w_dims) -> tuple:
        return (x_dims[0], w_dims[0], *window_out(x_dims[2:], w_dims[2:], *self.geometry(len(x_dims))))

    def free_dims(self, words, options):
        """An image and a filter, such as n32c64h56w56 k64r3s3 (c of the filter follows from the groups)."""
        if len(words) < 2:
            raise BadParam(f"problem: {self.name} takes an image and a filter, such as n32c64h56w56 k64r3s3; "
                           f"got {options['words']}")
        x, w, text = words[0], words[1], options["words"][1]
        if text[0].isalpha():
            w = (w[0], *((x[1] // options["groups"],) if "c" not in text else ()), *w[1:])
        if len(w) != len(x):
            raise BadParam(f"problem: the filter must have {len(x) - 2} spatial dims like the image; "
                           f"got {text!r}")
        self._hold(self.rules(x, w, names=self.parts))
        return dict(zip(self.parts, (x, w, self.out_dims(x, w))))

    def rules(self, x_dims, w_dims, y_dims=None, names=("x", "w", "y")):
        """The rules of a convolution of x with w, whichever of the three tensors is the output."""
        x, w, y = names
        yield 3 <= len(x_dims) <= 5, f"{x} must have 1 to 3 spatial dims; got rank {len(x_dims)}"
        yield from self.listed(x, len(x_dims))
        yield len(w_dims) == len(x_dims), f"{w} must have rank {len(x_dims)} like {x}; got {len(w_dims)}"
        yield x_dims[1] >= 1, f"{x}.c must be >= 1; got {x_dims[1]}"
        yield w_dims[1] >= 1, f"{w}.c must be >= 1; got {w_dims[1]}"
        yield (x_dims[1] % w_dims[1] == 0,
               f"{w}.c must divide {x}.c={x_dims[1]}; got {w}.c={w_dims[1]}")
        groups = x_dims[1] // w_dims[1]
        yield (w_dims[0] % groups == 0,
               f"{w}.k must be a multiple of the {groups} groups; got {w}.k={w_dims[0]}")
        yield min(w_dims[2:]) >= 1, f"{w} must have spatial dims >= 1; got {w_dims[2:]}"
        out = self.out_dims(x_dims, w_dims)
        yield (min(out[2:]) >= 1, f"{w} must fit into the padded {x}; "
                                  f"got output {out[2:]} for {x} {x_dims[2:]}, {w} {w_dims[2:]}")
        if y_dims is not None:
            yield tuple(y_dims) == out, f"{y} must have dims {out}; got {tuple(y_dims)}"

    def magnitude(self, arrays, scalars, results):
        return self.evaluate({n: np.abs(a) for n, a in arrays.items()}, scalars)

    def _flip(self, w):
        return w if self.mode == "cross_correlation" else np.flip(w, tuple(range(2, w.ndim)))


def _flops(w: TensorDesc, y: TensorDesc) -> int:
    return 2 * y.count * prod(w.dims[1:])


@dataclass(frozen=True)
class ConvFprop(Conv, reads="x w", writes="y"):
    """Cross-correlate every image of x with every filter of w.

    x  (n, c, spatial…)            images, any strides
    w  (k, c / groups, window…)    filters
    y  (n, k, out…)                out = (i + pre_pad + post_pad - dilation*(r-1) - 1) // stride + 1
    Sums in the compute type, rounds once.
    Spec: graph API, ConvolutionForward; v5 guide, cudnnConvolutionForward.
    """
    parts = ("x", "w", "y")
    api = "CONVOLUTION_FORWARD"
    api_names = _api_names("FORWARD", parts)

    def check(self, x, w):
        return self.rules(x.dims, w.dims)

    def infer(self, x, w):
        return {"y": x.like(self.out_dims(x.dims, w.dims))}

    def reference(self, x, w):
        pre, post, stride, dilation = self.geometry(x.ndim)
        out = self.out_dims(x.shape, w.shape)[2:]
        groups, k = x.shape[1] // w.shape[1], w.shape[0]
        w = self._flip(w).reshape(groups, k // groups, *w.shape[1:])
        y = np.zeros((groups, k // groups, x.shape[0], *out))
        for tap, view in views(padded(x, pre, post), out, w.shape[3:], stride, dilation):
            view = view.reshape(x.shape[0], groups, w.shape[2], prod(out))
            taps = w[(slice(None), slice(None), slice(None), *tap)]
            y += np.matmul(taps[None], np.moveaxis(view, 0, 0)).transpose(1, 2, 0, 3).reshape(y.shape)
        return {"y": np.moveaxis(y.reshape(k, x.shape[0], *out), 1, 0)}

    def terms(self, x, w, y):
        return prod(w.dims[1:])

    def flops(self, x, w, y):
        return _flops(w, y)


@dataclass(frozen=True)
class ConvDgrad(Conv, reads="dy w", writes="dx", gradient_of=ConvFprop):
    """The gradient of ConvFprop with respect to x: its adjoint applied to dy.

    dy (n, k, out…), w (k, c / groups, window…), dx (n, c, spatial…);
    dx must be given where stride > 1 leaves its size open.
    Spec: graph API, ConvolutionBwdData; v5 guide, cudnnConvolutionBackwardData.
    """
    parts = ("dx", "w", "dy")
    api = "CONVOLUTION_BACKWARD_DATA"
    api_names = _api_names("BWD_DATA", parts)

    @property
    def gradients(self):
        """Of the adjoint, which a transposed convolution is."""
        own = {name: getattr(self, name) for name in self.attributes()}
        return dict(dy=Gradient(ConvFprop(**own), "y", dict(x="ddx", w="w")),
                    w=Gradient(ConvWgrad(**own), "dw", dict(x="ddx", dy="dy")))

    def check(self, dy, w):
        yield 3 <= dy.rank <= 5, f"dy must have 1 to 3 spatial dims; got rank {dy.rank}"
        yield from self.listed("dy", dy.rank)
        yield dy.rank == w.rank, f"w must have rank {dy.rank} like dy; got {w.rank}"
        yield dy.c == w.n, f"w.k must be dy.c={dy.c}; got w.k={w.n}"

    def infer(self, dy, w):
        return {}

    def check_outputs(self, dy, w, dx):
        yield dx is not None, "dx must be given; its size does not follow from dy"
        yield from self.rules(dx.dims, w.dims, dy.dims, names=("dx", "w", "dy"))

    def reference(self, dy, w, shapes):
        dims = shapes["dx"]
        pre, post, stride, dilation = self.geometry(dy.ndim)
        n, c = dims[:2]
        groups, k = c // w.shape[1], w.shape[0]
        w = self._flip(w).reshape(groups, k // groups, *w.shape[1:])
        full = np.zeros((n, c, *(i + a + b for i, a, b in zip(dims[2:], pre, post))))
        g = dy.reshape(n, groups, k // groups, prod(dy.shape[2:]))
        for tap, view in views(full, dy.shape[2:], w.shape[3:], stride, dilation):
            taps = w[(slice(None), slice(None), slice(None), *tap)].swapaxes(1, 2)
            view += np.matmul(taps[None], g).reshape(view.shape)
        cut = tuple(slice(a, a + i) for a, i in zip(pre, dims[2:]))
        return {"dx": full[(slice(None), slice(None), *cut)]}

    def terms(self, dy, w, dx):
        return prod(w.dims) // max(dx.c // w.c, 1) // w.c

    def flops(self, dy, w, dx):
        return _flops(w, dy)


@dataclass(frozen=True)
class ConvWgrad(Conv, reads="x dy", writes="dw", gradient_of=ConvFprop):
    """The gradient of ConvFprop with respect to w.

    x (n, c, spatial…), dy (n, k, out…), dw (k, c / groups, window…);
    dw must be given, its size does not follow.
    Spec: graph API, ConvolutionBwdFilter; v5 guide, cudnnConvolutionBackwardFilter.
    """
    parts = ("x", "dw", "dy")
    api = "CONVOLUTION_BACKWARD_FILTER"
    api_names = _api_names("BWD_FILTER", parts)

    def check(self, x, dy):
        yield 3 <= x.rank <= 5, f"x must have 1 to 3 spatial dims; got rank {x.rank}"
        yield from self.listed("x", x.rank)
        yield x.rank == dy.rank, f"dy must have rank {x.rank} like x; got {dy.rank}"
        yield x.n == dy.n, f"dy.n must be x.n={x.n}; got dy.n={dy.n}"

    def check_outputs(self, x, dy, dw):
        yield dw is not None, "dw must be given; its size does not follow from x and dy"
        yield from self.rules(x.dims, dw.dims, dy.dims, names=("x", "dw", "dy"))

    def reference(self, x, dy, shapes):
        pre, post, stride, dilation = self.geometry(x.ndim)
        dims = shapes["dw"]
        n, groups, k = x.shape[0], x.shape[1] // dims[1], dims[0]
        g = dy.reshape(n, groups, k // groups, prod(dy.shape[2:]))
        dw = np.zeros((groups, k // groups, *dims[1:]))
        for tap, view in views(padded(x, pre, post), dy.shape[2:], dims[2:], stride, dilation):
            columns = view.reshape(n, groups, dims[1], prod(dy.shape[2:]))
            sums = np.einsum("ngkp,ngcp->gkc", g, columns, optimize=True)
            dw[(slice(None), slice(None), slice(None), *tap)] = sums
        return {"dw": self._flip(dw.reshape(dims))}

    def terms(self, x, dy, dw):
        return dy.n * prod(dy.spatial)

    def flops(self, x, dy, dw):
        return _flops(dw, dy)


@dataclass(frozen=True)
class ConvBgrad(Op, reads="dy", writes="db"):
    """The gradient of a bias added per channel:
    db[c] = sum over n and all spatial positions of dy[n, c, …].

    dy (n, c, spatial…) of rank 3 to 5, db (1, c, 1…). Spec: v5 guide, cudnnConvolutionBackwardBias.
    """

    def check(self, dy):
        yield 3 <= dy.rank <= 5, f"dy must have 1 to 3 spatial dims; got rank {dy.rank}"

    def infer(self, dy):
        return {"db": dy.like(1, dy.c, *(1,) * (dy.rank - 2))}

    def lower(self, descs, absent=()):
        total = Reduction(mode="add", compute=self.compute)
        return [(total, dict(x="dy", y="db"), dict(alpha="alpha", beta="beta"))], {}

    def reference(self, dy):
        return {"db": dy.sum(axis=(0, *range(2, dy.ndim)), keepdims=True)}

    def terms(self, dy, db):
        return dy.n * prod(dy.spatial)

    def magnitude(self, arrays, scalars, results):
        return self.evaluate({n: np.abs(a) for n, a in arrays.items() if a is not None}, scalars)

"""Pooling: maximum and two averages, forward and backward."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from .attribute import choice, ints
from .op import Op
from .window import padded, views, window_out

MODES = ("max", "avg_include_padding", "avg_exclude_padding")
NAN = ("ignore", "propagate")


@dataclass(frozen=True)
class Pooling(Op):
    """The base of both directions. Windows never leave the padded area; padding never wins a maximum."""
    mode: str = choice(*MODES)
    window: tuple = ints(2, lo=1)
    pre_pad: tuple = ints(0, lo=0)
    stride: tuple = ints(1, lo=1)
    nan: str = choice(*NAN, doc="max only: ignore skips NaN, propagate lets it win")

    def geometry(self, rank):
        """(window, pad, stride), one entry for each spatial dim; padding is the same on both sides."""
        return tuple(self.spread(f, rank - 2) for f in ("window", "pre_pad", "stride"))

    def out_dims(self, x_dims):
        window, pad, stride = self.geometry(len(x_dims))
        return (*x_dims[:2], *window_out(x_dims[2:], window, pad, pad, stride, (1,) * len(window)))

    def rules(self, dims, name="x"):
        yield 3 <= len(dims) <= 5, f"{name} must have 1 to 3 spatial dims; got rank {len(dims)}"
        out = self.out_dims(dims)
        yield (min(out[2:]) >= 1, f"window must fit into the padded {name}; "
                                  f"got output {out[2:]} for {name} {dims[2:]}, window {self.window}")

    def _views(self, x, fill):
        window, pad, stride = self.geometry(x.ndim)
        room = padded(x, pad, pad, fill)
        return views(room, self.out_dims(x.shape)[2:], window, stride, (1,) * len(window))

    def _divisor(self, shape):
        """Elements that an average divides by, of shape (1, 1, *out)."""
        if self.mode == "avg_include_padding":
            return float(prod(self.geometry(len(shape))[0]))
        ones = np.ones((1, 1, *shape[2:]))
        return np.maximum(sum(view for _, view in self._views(ones, 0.0)), 1.0)

    def _winners(self, x):
        """(maximum, number of the winning tap or -1) of every window:
        the first largest in row-major order."""
        inside = np.ones((1, 1, *x.shape[2:]), bool)
        shape = self.out_dims(x.shape)
        best, winner = np.full(shape, -np.inf), np.full(shape, -1)
        pairs = zip(self._views(x, 0.0), self._views(inside, False))
        for number, ((_, value), (_, valid)) in enumerate(pairs):
            value, valid = np.broadcast_arrays(value, valid)
            if self.nan == "propagate":
                better = valid & ~np.isnan(best) & (np.isnan(value) | (value > best) | (winner < 0))
            else:
                better = valid & ~np.isnan(value) & ((value > best) | (winner < 0))
            best, winner = np.where(better, value, best), np.where(better, number, winner)
        return best, winner

    def magnitude(self, arrays, scalars, results):
        if self.mode == "max" and "dx" not in results:
            return super().magnitude(arrays, scalars, results)
        spread = {n: a if n == "x" and "dx" in results else np.abs(a) for n, a in arrays.items()}
        return self.evaluate(spread, scalars)

    def terms_of_window(self, rank):
        return 1 if self.mode == "max" else prod(self.geometry(rank)[0])


@dataclass(frozen=True)
class PoolingFwd(Pooling, reads="x", writes="y"):
    """Reduce every window of x. x (n, c, spatial…), y (n, c, out…);
    out = (i + 2*pad - window) // stride + 1.

    A max window without a usable value gives the lowest finite value of y's type;
    an exclude-average without cells gives 0.
    Spec: v5 guide, cudnnPoolingForward.
    """

    def check(self, x):
        return self.rules(x.dims)

    def infer(self, x):
        return {"y": x.like(self.out_dims(x.dims))}

    def reference(self, x):
        if self.mode == "max":
            best, winner = self._winners(x)
            return {"y": np.where(winner < 0, -np.finfo(np.float64).max, best)}
        return {"y": sum(view for _, view in self._views(x, 0.0)) / self._divisor(x.shape)}

    def has_nothing(self, rank):
        window, pad, _ = self.geometry(rank)
        return self.mode == "max" and (self.nan == "ignore" or any(p >= w for p, w in zip(pad, window)))

    def terms(self, x, y):
        return self.terms_of_window(x.rank)


@dataclass(frozen=True)
class PoolingBwd(Pooling, reads="y dy x", writes="dx", gradient_of=PoolingFwd):
    """Spread dy over the windows: max gives each dy to the first maximum of its window (found
    in x), averages spread evenly.

    y, dy (n, c, out…), x, dx (n, c, spatial…). Spec: v5 guide, cudnnPoolingBackward.
    """
    unread = frozenset({"y"})

    def check(self, y, dy, x):
        yield from self.rules(x.dims)
        out = self.out_dims(x.dims)
        yield dy.dims == out, f"dy must have dims {out}; got {dy.dims}"
        yield y.dims == out, f"y must have dims {out}; got {y.dims}"

    def free_dims(self, words, options):
        self._hold(self.rules(words[0]))
        out = self.out_dims(words[0])
        return dict(x=words[0], dx=words[0], y=out, dy=out)

    def moved_bytes(self, y, dy, x, dx):
        """The winner of a maximum is found in x; averages need neither x nor y."""
        return sum(d.dtype.bytes_of(d.count) for d in ((dy, x, dx) if self.mode == "max" else (dy, dx)))

    def infer(self, y, dy, x):
        return {"dx": x}

    def reference(self, y, dy, x):
        window, pad, stride = self.geometry(x.ndim)
        full = np.zeros((*x.shape[:2], *(i + 2 * p for i, p in zip(x.shape[2:], pad))))
        taps = views(full, dy.shape[2:], window, stride, (1,) * len(window))
        if self.mode == "max":
            _, winner = self._winners(x)
            for number, (_, view) in enumerate(taps):
                view += np.where(winner == number, dy, 0.0)
        else:
            share = dy / self._divisor(x.shape)
            for _, view in taps:
                view += share
        cut = tuple(slice(p, p + i) for p, i in zip(pad, x.shape[2:]))
        return {"dx": full[(slice(None), slice(None), *cut)]}

    def terms(self, y, dy, x, dx):
        return prod(self.geometry(x.rank)[0])

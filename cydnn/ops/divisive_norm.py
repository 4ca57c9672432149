"""Divisive normalization by the neighbourhood within a channel, with means that are given."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .lrn import LocalNorm
from .window import neighbours, padded, views


@dataclass(frozen=True)
class DivisiveNorm(LocalNorm):
    """The base of both directions: the window has ``window`` cells in each spatial dim; a window's values are
    seen from the mean of its middle cell."""

    def rules(self, x, means, **others):
        return self.shared_rules(x, (3, 5), means=means, **others)

    def cells(self, rank) -> int:
        return self.window ** (rank - 2)

    def _views(self, array, *, transposed=False):
        """Of every cell of the window: the cells there, 0 beyond the ends."""
        before, behind = neighbours(self.window)[::-1 if transposed else 1]
        dims = array.ndim - 2
        room = padded(array, (before,) * dims, (behind,) * dims)
        return [v for _, v in views(room, array.shape[2:], (self.window,) * dims, (1,) * dims, (1,) * dims)]

    def _inside(self, array, transposed=False):
        return self._views(np.ones((1, 1, *array.shape[2:]), bool), transposed=transposed)

    def _folded(self, x, means, function):
        """The sum of ``function(cells, means)`` over the window of every cell."""
        middle = np.zeros_like(x) if means is None else means
        return sum(np.where(inside, function(cells, middle), 0.0)
                   for cells, inside in zip(self._views(x), self._inside(x)))

    def sums(self, x, means):
        """s of every element."""
        mean_of = self.scale / self.cells(x.ndim)
        return self.offset + mean_of * self._folded(x, means, lambda v, m: (v - m) ** 2)

    def most(self, x, means):
        wide = self._folded(x, means, lambda v, m: (np.abs(v) + np.abs(m)) ** 2)
        return abs(self.offset) + abs(self.scale) / self.cells(x.ndim) * wide


@dataclass(frozen=True)
class DivisiveNormFwd(DivisiveNorm, reads="x means?", writes="y"):
    """y = x * s^-power with s = offset + scale / cells * sum of (x - means)^2 over the window around a cell.

    x, means, y (n, c, spatial…) of equal dims, any strides, 1 to 3 spatial dims; no means are zeros. A
    window goes from i - (window - 1) // 2 to i + window // 2 in each spatial dim, its mean is that of cell i.
    Spec: v5 guide, cudnnDivisiveNormalizationForward.
    """

    def check(self, x, means):
        return self.rules(x, means)

    def infer(self, x, means):
        return {"y": x}

    def reference(self, x, means):
        return {"y": x * self.raised(self.sums(x, means))}

    def magnitude(self, arrays, scalars, results):
        x, means = arrays["x"], arrays.get("means")
        with np.errstate(all="ignore"):
            return {"y": np.abs(results["y"]) * self.doubt(self.sums(x, means), self.most(x, means))}

    def terms(self, x, **_):
        return self.cells(x.rank)


@dataclass(frozen=True)
class DivisiveNormBwd(DivisiveNorm, reads="x means? dy", writes="dx dmeans?", gradient_of=DivisiveNormFwd):
    """Gradients of DivisiveNormFwd. With g = -2 * power * scale / cells * dy * x * s^(-power-1):
    dx_j = dy_j * s_j^-power + sum of g_i * (x_j - means_i) over the cells i whose windows have j;
    dmeans_i = -g_i * sum of (x_j - means_i) over the window of i.

    All of equal dims, any strides; both outputs blend. Spec: v5 guide, cudnnDivisiveNormalizationBackward.
    """
    blends = dict(dx=("alpha", "beta"), dmeans=("alpha", "beta"))

    def free_dims(self, words, options):
        return {name: words[0] for name in ("x", "dy", "dx")}

    def check(self, x, means, dy):
        return self.rules(x, means, dy=dy)

    def infer(self, x, means, dy):
        return {"dx": x, "dmeans": x}

    def _slope(self, x):
        return -2 * self.power * self.scale / self.cells(x.ndim)

    def _gradient(self, x, means, own, g, function):
        """dx of its terms."""
        middle = np.zeros_like(x) if means is None else means
        parts = zip(self._views(g, transposed=True), self._views(middle, transposed=True),
                    self._inside(x, transposed=True))
        return own + sum(np.where(inside, cells * function(x, m), 0.0) for cells, m, inside in parts)

    def reference(self, x, means, dy, shapes):
        s = self.sums(x, means)
        g = self._slope(x) * dy * x * self.raised(s, 1)
        dx = self._gradient(x, means, dy * self.raised(s), g, lambda v, m: v - m)
        return dict(dx=dx, dmeans=-g * self._folded(x, means, lambda v, m: v - m)
                    if "dmeans" in shapes else None)

    def magnitude(self, arrays, scalars, results):
        x, dy, means = arrays["x"], np.abs(arrays["dy"]), arrays.get("means")
        wide = lambda v, m: np.abs(v) + np.abs(m)
        with np.errstate(all="ignore"):
            s, most = self.sums(x, means), self.most(x, means)
            g = abs(self._slope(x)) * dy * np.abs(x) * self.raised(s, 1) * self.doubt(s, most, 1)
            own = dy * self.raised(s) * self.doubt(s, most)
            return dict(dx=self._gradient(x, means, own, g, wide), dmeans=g * self._folded(x, means, wide))

    def terms(self, x, **_):
        return 2 * self.cells(x.rank)

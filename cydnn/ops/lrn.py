"""Local response normalization across channels, forward and backward."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attribute import integer, real
from .op import SQUARES, Op
from .window import neighbours, window_sum

MOST = 16                                        # cells of a window in one dim


@dataclass(frozen=True)
class LocalNorm(Op):
    """The base of normalizations by a neighbourhood: s = offset + scale * mean of squares over a window,
    out = x * s^-power. s^-power is NaN where s is negative. A window is cut at the ends, and what its sum is
    divided by is not."""
    window: int = integer(5, lo=1, doc="cells of a window in one dim, at most 16; an even one reaches one "
                                       "further ahead")
    scale: float = real(1e-4, doc="of the mean of squares")
    power: float = real(0.75)
    offset: float = real(2.0, doc="what is added to the scaled mean")
    notes = SQUARES

    def shared_rules(self, x, ranks, **others):
        low, high = ranks
        yield low <= x.rank <= high, f"x must have rank {low} to {high}; got {x.rank}"
        yield self.window <= MOST, f"window must be <= {MOST}; got {self.window}"
        for name, d in others.items():
            yield d is None or d.dims == x.dims, f"{name} must have dims {x.dims} like x; got {d and d.dims}"

    def raised(self, s, extra=0):
        """s^-(power + extra)"""
        return np.exp(-(self.power + extra) * np.log(s))

    def doubt(self, s, most, extra=0):
        """By how much a relative error of s and of the power count in ``raised``; ``most`` is the sum of
        absolute values behind s."""
        return 1 + (abs(self.power) + extra) * (most / np.abs(s) + np.abs(np.log(s)))


@dataclass(frozen=True)
class Lrn(LocalNorm):
    """The base of both directions: the window is one of channels."""

    def spans(self):
        """(channels behind, channels ahead) of the window."""
        return neighbours(self.window)

    def sums(self, x):
        """s of every element."""
        return self.offset + self.scale / self.window * window_sum(x * x, 1, *self.spans())

    def most(self, x):
        return abs(self.offset) + abs(self.scale) / self.window * window_sum(x * x, 1, *self.spans())


@dataclass(frozen=True)
class LrnFwd(Lrn, reads="x", writes="y"):
    """y = x * s^-power with s = offset + scale / window * sum of x^2 over the window of channels.

    x, y (n, c, …) of equal dims, any strides, rank 2 to 5. The window of channel c goes from
    c - (window - 1) // 2 to c + window // 2. Spec: v5 guide, cudnnLRNCrossChannelForward.
    """

    def check(self, x):
        return self.shared_rules(x, (2, 5))

    def infer(self, x):
        return {"y": x}

    def reference(self, x):
        return {"y": x * self.raised(self.sums(x))}

    def magnitude(self, arrays, scalars, results):
        x = arrays["x"]
        with np.errstate(all="ignore"):
            return {"y": np.abs(results["y"]) * self.doubt(self.sums(x), self.most(x))}

    def terms(self, x, y):
        return self.window


@dataclass(frozen=True)
class LrnBwd(Lrn, reads="x dy", writes="dx", gradient_of=LrnFwd):
    """dx = dy * s^-power - 2 * scale * power / window * x * sum of dy * x * s^(-power-1) over the channels
    whose windows have this one.

    x, dy, dx of equal dims, any strides. y is not needed. Spec: v5 guide, cudnnLRNCrossChannelBackward.
    """

    def free_dims(self, words, options):
        return dict(x=words[0], dy=words[0], dx=words[0])

    def check(self, x, dy):
        return self.shared_rules(x, (2, 5), dy=dy)

    def infer(self, x, dy):
        return {"dx": x}

    def _gradient(self, x, dy, own, others):
        """Of the terms: dy times ``own``, and x times the sum of ``others``."""
        behind, ahead = self.spans()
        slope = 2 * self.scale * self.power / self.window
        return dy * own, slope * x * window_sum(dy * x * others, 1, ahead, behind)

    def reference(self, x, dy):
        s = self.sums(x)
        own, others = self._gradient(x, dy, self.raised(s), self.raised(s, 1))
        return {"dx": own - others}

    def magnitude(self, arrays, scalars, results):
        x, dy = np.abs(arrays["x"]), np.abs(arrays["dy"])
        with np.errstate(all="ignore"):
            s, most = self.sums(x), self.most(x)
            own, others = self._gradient(x, dy, self.raised(s) * self.doubt(s, most),
                                         self.raised(s, 1) * self.doubt(s, most, 1))
            return {"dx": own + np.abs(others)}

    def terms(self, x, dy, dx):
        return 2 * self.window

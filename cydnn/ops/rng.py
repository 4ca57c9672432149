"""Random tensors: Bernoulli, uniform and normal numbers from the generator of philox.py."""
from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np

from . import philox
from .attribute import choice, real
from .op import Op

DISTRIBUTIONS = dict(bernoulli="RNG_DISTRIBUTION_BERNOULLI", uniform="RNG_DISTRIBUTION_UNIFORM",
                     normal="RNG_DISTRIBUTION_NORMAL")
STEP = 2.0 ** -24                                # of uniform numbers


@dataclass(frozen=True)
class Rng(Op, reads="", writes="y"):
    """y = random numbers, a function of seed, offset and the place in y alone: the same on every device, in
    any type and strides.

    Element (row, col) of y, whose rows are all dims but the last in logical order, has the 32 bits
    ``philox.numbers``. bernoulli: 1 with ``probability``, else 0; dropout with 1 - probability keeps the same
    elements. uniform: from ``low`` up to but not ``high``, in 2^24 steps. normal: two neighbours by Box and
    Muller.
    seed, offset  64 bits, given at execute, or a tensor of one element
    Spec: graph API, RNG.
    """
    distribution: str = choice(*DISTRIBUTIONS, api="RNG_DISTRIBUTION", members=DISTRIBUTIONS,
                               is_required=True, doc="how they are distributed")
    probability: float = real(0.5, api="RNG_BERNOULLI_DIST_PROBABILITY", doc="of a 1")
    low: float = real(0.0, api="RNG_UNIFORM_DIST_MINIMUM", doc="the least uniform number")
    high: float = real(1.0, api="RNG_UNIFORM_DIST_MAXIMUM", doc="what uniform numbers are below")
    mean: float = real(0.0, api="RNG_NORMAL_DIST_MEAN", doc="of normal numbers")
    stdev: float = real(1.0, api="RNG_NORMAL_DIST_STANDARD_DEVIATION", doc="of normal numbers")

    scalars = dict(seed=0, offset=0)
    api = "RNG"
    api_names = dict(y="OPERATION_RNG_YDESC", seed="OPERATION_RNG_SEED", offset="OPERATION_RNG_OFFSET_DESC")

    def check(self):
        yield 0 <= self.probability <= 1, f"probability must be in 0 to 1; got {self.probability}"
        yield self.low <= self.high, f"low must be <= high={self.high}; got {self.low}"
        yield self.stdev >= 0, f"stdev must be >= 0; got {self.stdev}"

    def check_outputs(self, y):
        yield y is not None, "y must be given"
        yield y.rank >= 1, f"y must have rank >= 1; got {y.rank}"

    def reference(self, seed, offset, shapes):
        shape = shapes["y"]
        bits = philox.numbers(seed, offset, int(np.prod(shape[:-1])), shape[-1] + shape[-1] % 2)
        if self.distribution == "bernoulli":
            values = (bits >= np.uint64(philox.threshold(1 - self.probability))).astype(float)
        elif self.distribution == "uniform":
            values = self.low + (self.high - self.low) * STEP * (bits >> np.uint64(8))
        else:
            radius, angle = self._polar(bits)
            values = self.mean + self.stdev * np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
        return dict(y=values.reshape(bits.shape)[:, :shape[-1]].reshape(shape))

    @staticmethod
    def _polar(bits) -> tuple:
        """(radius, angle) of pairs of neighbours."""
        first, second = (bits[:, i::2] >> np.uint64(8) for i in (0, 1))
        return np.sqrt(-2 * np.log((first + np.uint64(1)) * STEP)), 2 * pi * STEP * second

    def magnitude(self, arrays, scalars, results):
        wide = {"uniform": abs(self.low) + abs(self.high), "normal": abs(self.mean) + 6 * self.stdev}
        return {"y": np.abs(results["y"]) + wide.get(self.distribution, 0.0)}

    def terms(self, y):
        return 4                                 # functions of two ulp

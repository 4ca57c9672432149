"""Gradient of divisive normalization for any strides."""
from __future__ import annotations

from ...graph import core
from ...ops import DivisiveNormBwd
from ...steps import Launch
from .any import Anywhere
from .view import blend, numbers, slope_and_lift


class DivisiveNormBwdStrided(Anywhere):
    """Any strides, 1 to 3 spatial dims, with or without means: a launch leaves what windows are summed from,
    and makes dmeans; another sums."""
    index, takes, kernel = 345, core(DivisiveNormBwd), "divisive_norm_bwd_strided"

    def launches(self, p, dev):
        own, g, of = self.array(p), self.array(p), slope_and_lift(p)
        shared = dict(x=p.ptr("x"), means=p.ptr("means"), own=own, g=g, **self.walk(p), **blend(p),
                      **self.strides(p, "x", "means"))
        terms = dict(shared, dy=p.ptr("dy"), dmeans=p.ptr("dmeans"), **of, **numbers(p),
                     **self.strides(p, "dy", "dmeans"))
        sums = dict(shared, dx=p.ptr("dx"), slope=of["slope"], g_strides=self.scratch_strides(p),
                    **self.strides(p, "dx"))
        return [Launch(f"divisive_norm_bwd_terms_{p.x.dtype}", terms),
                Launch(f"{self.kernel}_{p.x.dtype}", sums)]

"""Divisive normalization for any strides."""
from __future__ import annotations

from ...graph import core
from ...ops import DivisiveNormFwd
from ...steps import Launch
from .any import Anywhere
from .view import blend, numbers


class DivisiveNormFwdStrided(Anywhere):
    """Any strides, 1 to 3 spatial dims, with or without means: a thread walks the window of its element."""
    index, takes, kernel = 340, core(DivisiveNormFwd), "divisive_norm_fwd_strided"

    def launches(self, p, dev):
        args = dict(x=p.ptr("x"), means=p.ptr("means"), y=p.ptr("y"), **self.walk(p), **numbers(p),
                    **self.strides(p, "x", "means", "y"), **blend(p))
        return [Launch(f"{self.kernel}_{p.x.dtype}", args)]

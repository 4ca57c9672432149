"""Gradient of divisive normalization of planes with w innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import DivisiveNormBwd
from .planes import Planes
from .view import slope


class DivisiveNormBwdPlanes(Planes):
    """No means nor their gradient, w innermost: a thread walks down some columns, lanes meet for the sums
    along w."""
    index, takes, kernel = 346, core(DivisiveNormBwd), "divisive_norm_bwd_planes"
    widest, halos = 2, 2

    def more(self, p):
        return dict(slope=slope(p))

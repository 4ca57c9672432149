"""Divisive normalization of planes with w innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import DivisiveNormFwd
from .planes import Planes


class DivisiveNormFwdPlanes(Planes):
    """w innermost, with or without means: a thread walks down some columns, lanes meet for the sums along
    w."""
    index, takes, kernel = 341, core(DivisiveNormFwd), "divisive_norm_fwd_planes"

    @classmethod
    def vectors(cls, p):
        return 4, 2, 1

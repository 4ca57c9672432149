"""Divisive normalization of planes with w innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import DivisiveNormFwd
from .planes import Planes
from .walk import has_means


class DivisiveNormFwdPlanes(Planes):
    """w innermost, with or without means: a thread walks down some columns, lanes meet for the sums along
    w."""
    index, takes, kernel = 341, core(DivisiveNormFwd), "divisive_norm_fwd_planes"

    @classmethod
    def vectors(cls, p):
        return (4, 2, 1) if p.x.dtype.bytes < 8 else (1,) if has_means(p) else (2, 1)

"""Gradient of divisive normalization of planes with w innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import DivisiveNormBwd
from .planes import Planes
from .walk import vectors_of_gradient


class DivisiveNormBwdPlanes(Planes):
    """w innermost, with or without means and their gradient: a thread walks down some columns, lanes meet for
    the sums along w."""
    index, takes, kernel = 346, core(DivisiveNormBwd), "divisive_norm_bwd_planes"
    halos, vectors = 2, staticmethod(vectors_of_gradient)

"""Gradient of divisive normalization with channels innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import DivisiveNormBwd
from .channels import Channels
from .walk import vectors_of_gradient


class DivisiveNormBwdChannels(Channels):
    """Channels innermost, with or without means and their gradient: a thread walks down a column of some
    channels, columns meet in shared memory for the sums along w."""
    index, takes, kernel = 347, core(DivisiveNormBwd), "divisive_norm_bwd_channels"
    halos, vectors = 2, staticmethod(vectors_of_gradient)

"""Divisive normalization with channels innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import DivisiveNormFwd
from .channels import Channels


class DivisiveNormFwdChannels(Channels):
    """Channels innermost, with or without means: a thread walks down a column of some channels, columns meet
    in shared memory for the sums along w."""
    index, takes, kernel = 342, core(DivisiveNormFwd), "divisive_norm_fwd_channels"

    @classmethod
    def vectors(cls, p):
        return 4, 1

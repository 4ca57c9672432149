"""Local response normalization for any strides."""
from __future__ import annotations

from ...graph import core
from ...ops import LrnFwd
from .view import Strided


class LrnFwdStrided(Strided):
    """Any strides, any window: a thread walks the channels of one or two positions."""
    index, takes, kernel = 330, core(LrnFwd), "lrn_fwd_strided"
    most_of_small = 8

"""Gradient of local response normalization for any strides."""
from __future__ import annotations

from ...graph import core
from ...ops import LrnBwd
from .view import Strided


class LrnBwdStrided(Strided):
    """Any strides, any window: a thread walks the channels of one or two positions."""
    index, takes, kernel = 335, core(LrnBwd), "lrn_bwd_strided"

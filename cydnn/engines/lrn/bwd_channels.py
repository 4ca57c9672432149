"""Gradient of local response normalization with channels innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import LrnBwd
from .view import Channels


class LrnBwdChannels(Channels):
    """Channels innermost, any window: a thread makes 16 bytes of channels."""
    index, takes, kernel = 336, core(LrnBwd), "lrn_bwd_channels"

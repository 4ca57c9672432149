"""Local response normalization with channels innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import LrnFwd
from .view import Channels


class LrnFwdChannels(Channels):
    """Channels innermost, any window: a thread makes 16 bytes of channels."""
    index, takes, kernel = 331, core(LrnFwd), "lrn_fwd_channels"

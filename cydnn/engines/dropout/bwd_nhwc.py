"""Gradient of dropout of NHWC tensors, whose mask is in the order of NCHW."""
from ...graph import core
from ...ops import DropoutBwd
from .view import NhwcForm


class DropoutBwdNhwc(NhwcForm):
    """Eight channels at eight positions a thread."""
    index, takes, kernel = 357, core(DropoutBwd), "dropout_bwd_nhwc"
    x, y = "dy", "dx"

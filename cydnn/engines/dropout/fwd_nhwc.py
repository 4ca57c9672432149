"""Dropout of NHWC tensors, whose mask is in the order of NCHW."""
from ...graph import core
from ...ops import DropoutFwd
from .view import NhwcForm, blocks


class DropoutFwdNhwc(NhwcForm):
    """Eight channels at eight positions a thread."""
    index, takes, kernel = 356, core(DropoutFwd), "dropout_fwd_nhwc"
    x, y = "x", "y"

    def extra(self, count, dev):
        return dict(blocks=blocks(count, 16384, dev))

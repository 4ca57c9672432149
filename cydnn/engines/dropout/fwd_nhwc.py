"""Dropout of NHWC tensors, whose mask is in the order of NCHW."""
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import DropoutFwd
from .view import NhwcForm, blocks


class DropoutFwdNhwc(NhwcForm):
    """Eight channels at eight positions a thread; a block's mask is gathered before it is written."""
    index, takes, kernel = 356, core(DropoutFwd), "dropout_fwd_nhwc"
    x, y = "x", "y"

    def shares(self, groups, patches):
        lanes = max([n for n in (1, 2, 4, 8) if 3 * ceil_div(groups, n) * n <= 4 * groups])
        return dict(rows=patches // groups, lanes_log2=lanes.bit_length() - 1, tiles=ceil_div(groups, lanes))

    def extra(self, count, dev):
        return dict(blocks=blocks(count, 16384, dev))

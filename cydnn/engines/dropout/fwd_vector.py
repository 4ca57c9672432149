"""Dropout of packed tensors, 16 bytes an access."""
from ...graph import core
from ...ops import DropoutFwd
from .view import VectorForm, blocks


class DropoutFwdVector(VectorForm):
    """x and y packed, in any dims."""
    index, takes, kernel = 350, core(DropoutFwd), "dropout_fwd_vector"
    x, y = "x", "y"

    def extra(self, count, dev):
        return dict(blocks=blocks(count, 4096, dev))

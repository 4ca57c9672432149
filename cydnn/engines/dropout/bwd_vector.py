"""Gradient of dropout of packed tensors, 16 bytes an access."""
from ...graph import core
from ...ops import DropoutBwd
from .view import VectorForm


class DropoutBwdVector(VectorForm):
    """dy and dx packed, in any dims."""
    index, takes, kernel = 352, core(DropoutBwd), "dropout_bwd_vector"
    x, y = "dy", "dx"

"""Gradient of dropout on any strides."""
from ...graph import core
from ...ops import DropoutBwd
from .view import AnyForm


class DropoutBwdAny(AnyForm):
    """An element a thread."""
    index, takes, kernel = 353, core(DropoutBwd), "dropout_bwd_any"
    x, y = "dy", "dx"

"""Dropout on any strides."""
from ...graph import core
from ...ops import DropoutFwd
from .view import AnyForm


class DropoutFwdAny(AnyForm):
    """Eight elements a thread, one after the other."""
    index, takes, kernel = 351, core(DropoutFwd), "dropout_fwd_any"
    x, y = "x", "y"

"""Copies between any layouts and types: the pointwise identity."""
from ...graph import core
from ...ops import Transform
from ..pointwise.view import AnyForm


class TransformAny(AnyForm):
    """Any strides."""
    index = 292
    takes = core(Transform)

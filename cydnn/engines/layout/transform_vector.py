"""Copies between equal layouts, with or without a conversion: the pointwise identity."""
from ...graph import core
from ...ops import Transform
from ..pointwise.view import VectorForm


class TransformVector(VectorForm):
    """Equal layouts, without gaps."""
    index = 290
    takes = core(Transform)

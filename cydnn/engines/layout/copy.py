"""Copies, with or without a conversion: the pointwise identity."""
from ...ops import Transform
from ..pointwise.view import StridedForm, VectorForm


class TransformVector(VectorForm):
    """Equal layouts, without gaps."""
    index, op = 290, Transform


class TransformStrided(StridedForm):
    """Any strides."""
    index, op = 292, Transform

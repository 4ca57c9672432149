"""Pointwise regions on any strides and types: the generic engine."""
from ...graph import many
from ...ops import Pointwise
from .view import AnyForm


class PointwiseAny(AnyForm):
    """Any DAG of pointwise nodes of one shape, spliced into pointwise_any."""
    index = 271
    takes = many(Pointwise)

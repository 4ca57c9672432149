"""Pointwise regions on gapless tensors: 16-byte accesses, one launch."""
from ...graph import many
from ...ops import Pointwise
from .view import VectorForm


class PointwiseVector(VectorForm):
    """Any DAG of pointwise nodes of one shape, spliced into pointwise_vector."""
    index = 270
    takes = many(Pointwise)

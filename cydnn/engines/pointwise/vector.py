"""Pointwise chains on gapless tensors: 16-byte accesses, one launch."""
from ...ops import Pointwise
from .view import VectorForm


class PointwiseVector(VectorForm):
    """A pointwise op and any that follow, spliced into pointwise_vector."""
    index, op, fuses_epilogue = 270, Pointwise, True

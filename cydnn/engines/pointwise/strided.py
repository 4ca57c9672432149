"""Pointwise chains on any strides: the generic engine."""
from ...ops import Pointwise
from .view import StridedForm


class PointwiseStrided(StridedForm):
    """A pointwise op and any that follow, spliced into pointwise_strided."""
    index, op, fuses_epilogue = 271, Pointwise, True

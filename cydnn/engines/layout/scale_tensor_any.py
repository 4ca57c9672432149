"""y = alpha * y on any strides."""
from ...graph import core
from ...ops import ScaleTensor
from ..pointwise.view import AnyForm


class ScaleTensorAny(AnyForm):
    """Any strides."""
    index = 299
    takes = core(ScaleTensor)

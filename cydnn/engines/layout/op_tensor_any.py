"""c = op(alpha1 * a, alpha2 * b) + beta * c on any strides."""
from ...graph import core
from ...ops import OpTensor
from ..pointwise.view import AnyForm


class OpTensorAny(AnyForm):
    """Any strides."""
    index = 296
    takes = core(OpTensor)

"""c = alpha * a + beta * c on any strides."""
from ...graph import core
from ...ops import AddTensor
from ..pointwise.view import AnyForm


class AddTensorAny(AnyForm):
    """Any strides."""
    index = 294
    takes = core(AddTensor)

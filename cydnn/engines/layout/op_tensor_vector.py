"""c = op(alpha1 * a, alpha2 * b) + beta * c: one pointwise step."""
from ...graph import core
from ...ops import OpTensor
from ..pointwise.view import VectorForm


class OpTensorVector(VectorForm):
    """c without gaps; a laid out like it, b too or broadcast."""
    index = 295
    takes = core(OpTensor)

"""c = alpha * a + beta * c: the pointwise identity of a, blended."""
from ...graph import core
from ...ops import AddTensor
from ..pointwise.view import VectorForm


class AddTensorVector(VectorForm):
    """c without gaps; a laid out like it, or broadcast."""
    index = 293
    takes = core(AddTensor)

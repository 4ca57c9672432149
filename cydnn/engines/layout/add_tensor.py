"""c = alpha * a + beta * c: the pointwise identity of a, blended."""
from ...ops import AddTensor
from ..pointwise.view import StridedForm, VectorForm


class AddTensorVector(VectorForm):
    """c without gaps; a laid out like it, or broadcast."""
    index, op = 293, AddTensor


class AddTensorStrided(StridedForm):
    """Any strides."""
    index, op = 294, AddTensor

"""c = op(alpha1 * a, alpha2 * b) + beta * c: one pointwise step."""
from ...ops import OpTensor
from ..pointwise.view import StridedForm, VectorForm


class OpTensorVector(VectorForm):
    """c without gaps; a laid out like it, b too or broadcast."""
    index, op = 295, OpTensor


class OpTensorStrided(StridedForm):
    """Any strides."""
    index, op = 296, OpTensor

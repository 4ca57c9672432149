"""y = alpha * y: the pointwise identity of y, in place."""
from ...ops import ScaleTensor
from ..pointwise.view import StridedForm, VectorForm


class ScaleTensorVector(VectorForm):
    """y without gaps."""
    index, op = 298, ScaleTensor


class ScaleTensorStrided(StridedForm):
    """Any strides."""
    index, op = 299, ScaleTensor

"""y = alpha * y: the pointwise identity of y, in place."""
from ...graph import core
from ...ops import ScaleTensor
from ..pointwise.view import VectorForm


class ScaleTensorVector(VectorForm):
    """y without gaps."""
    index = 298
    takes = core(ScaleTensor)

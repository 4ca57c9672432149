"""y = value: the pointwise identity of a number, which reads nothing."""
from ...graph import core
from ...ops import SetTensor
from ..pointwise.view import AnyForm, VectorForm

_VECTOR = VectorForm()


class SetTensorFill(AnyForm):
    """In vectors where y has no gaps, else element by element."""
    index = 297
    takes = core(SetTensor)

    def plan(self, p, dev, config):
        return _VECTOR.plan(p, dev, config) if _VECTOR.accepts(p, dev) else super().plan(p, dev, config)

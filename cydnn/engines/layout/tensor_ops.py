"""Transform, AddTensor, OpTensor, ScaleTensor and SetTensor as pointwise kernels."""
from __future__ import annotations

from ...graph import core
from ...ops import AddTensor, OpTensor, ScaleTensor, SetTensor, Transform
from ..pointwise.pointwise import AnyForm, VectorForm


class TransformVector(VectorForm):
    """Equal layouts, without gaps."""
    index = 290
    takes = core(Transform)


class TransformAny(AnyForm):
    """Any strides."""
    index = 292
    takes = core(Transform)


class AddTensorVector(VectorForm):
    """c without gaps; a laid out like it, or broadcast."""
    index = 293
    takes = core(AddTensor)


class AddTensorAny(AnyForm):
    """Any strides."""
    index = 294
    takes = core(AddTensor)


class OpTensorVector(VectorForm):
    """c without gaps; a laid out like it, b too or broadcast."""
    index = 295
    takes = core(OpTensor)


class OpTensorAny(AnyForm):
    """Any strides."""
    index = 296
    takes = core(OpTensor)


class ScaleTensorVector(VectorForm):
    """y without gaps."""
    index = 298
    takes = core(ScaleTensor)


class ScaleTensorAny(AnyForm):
    """Any strides."""
    index = 299
    takes = core(ScaleTensor)


_VECTOR = VectorForm()


class SetTensorFill(AnyForm):
    """In vectors where y has no gaps, else element by element."""
    index = 297
    takes = core(SetTensor)

    def plan(self, p, dev, config):
        return _VECTOR.plan(p, dev, config) if _VECTOR.accepts(p, dev) else super().plan(p, dev, config)

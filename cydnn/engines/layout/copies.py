"""Copies of tensors in another layout, as steps of other plans."""
from __future__ import annotations

from ...ops import Transform
from ..nested import NestedOp, NestedOperand
from .tensor_ops import TransformAny
from .transform_tma import TransformTma
from .transform_transpose import TransformTranspose

COPIES = (TransformTranspose(), TransformTma(), TransformAny())


def copied(x: NestedOperand, y: NestedOperand, **numbers) -> NestedOp:
    """y = x, by the cheapest of the copies; ``numbers``: alpha and beta."""
    return NestedOp(Transform(), COPIES, numbers, x=x, y=y)

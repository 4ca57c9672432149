"""Statistics of each channel: its sum and the sum of its squares."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc
from .attribute import choice
from .op import Op
from .pointwise import Pointwise
from .reduction import Reduction


@dataclass(frozen=True)
class GenStats(Op, reads="x", writes="sum sq_sum"):
    """sum[c] = the sum of x over images and positions, sq_sum[c] = the sum of its squares.

    x (n, c, spatial…) of rank 2 to 8, any strides; sum and sq_sum (1, c, 1…), by default in the type of
    the sums.
    Spec: graph API, GenStats.
    """
    mode: str = choice("sum_sqsum", api="OPERATION_GENSTATS_MODE", is_required=True, doc="which statistics",
                       members=dict(sum_sqsum="GENSTATS_SUM_SQSUM"))

    api = "GEN_STATS"
    api_names = dict(x="OPERATION_GENSTATS_XDESC", sum="OPERATION_GENSTATS_SUMDESC",
                     sq_sum="OPERATION_GENSTATS_SQSUMDESC", compute="OPERATION_GENSTATS_MATH_PREC")
    scalars = {}

    def check(self, x):
        yield x.rank >= 2, f"x must have rank >= 2; got {x.rank}"

    def infer(self, x):
        thin = TensorDesc.packed(self.math, (1, x.c, *(1,) * (x.rank - 2)))
        return dict(sum=thin, sq_sum=thin)

    def lower(self, descs, absent=()):
        x, total = descs["x"], Reduction(mode="add", compute=self.compute)
        square, exact = Pointwise(mode="mul", compute=self.compute), x.like(x.dims, dtype=BY_NAME[self.math])
        return [(total, dict(x="x", y="sum"), {}), (square, dict(x="x", b="x", y="square"), {}),
                (total, dict(x="square", y="sq_sum"), {})], dict(square=exact)

    def reference(self, x):
        axes = (0, *range(2, x.ndim))
        add = lambda v: v.sum(axis=axes, keepdims=True)
        return dict(sum=add(x), sq_sum=add(np.square(x, dtype=np.float64)))

    def magnitude(self, arrays, scalars, results):
        return self.reference(np.abs(arrays["x"]))

    def terms(self, x, **_):
        return x.count // max(x.c, 1)

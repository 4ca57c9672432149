"""Matrix product with batch broadcast."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..tensor import TensorDesc
from .op import Op

MOST_BATCH = 6                                   # kernels_src/matmul/batch.cuh


@dataclass(frozen=True)
class Matmul(Op, reads="a b", writes="c"):
    """c[…, m, n] = sum over k of a[…, m, k] * b[…, k, n].

    a (…, m, k), b (…, k, n), c (…, m, n), equal ranks of 2 to 8, any strides:
    a transposed operand is a stride.
    Batch dims broadcast: equal, or one a multiple of the other. Of 8 and 2, four side by side share one.
    Spec: graph API, MatMul; Fused Flash Attention fprop (heads).
    """
    api = "MATMUL"
    api_names = dict(a="OPERATION_MATMUL_ADESC", b="OPERATION_MATMUL_BDESC", c="OPERATION_MATMUL_CDESC",
                     compute="MATMUL_COMP_TYPE")

    def check(self, a, b):
        yield a.rank >= 2, f"a must have rank >= 2; got {a.rank}"
        yield a.rank == b.rank, f"b must have rank {a.rank} like a; got {b.rank}"
        yield (a.dims[-1] == b.dims[-2],
               f"b.k must be a.k={a.dims[-1]}; got b.k={b.dims[-2]} (a {a.dims}, b {b.dims})")
        batch, got = [*zip(a.dims[:-2], b.dims[:-2])], f"got a {a.dims[:-2]}, b {b.dims[:-2]}"
        yield (all(i == j or 1 in (i, j) or i and j and max(i, j) % min(i, j) == 0 for i, j in batch),
               f"batch dims must be equal, or one a multiple of the other; {got}")
        count = len(batch) + sum(i != j and 1 not in (i, j) for i, j in batch)
        yield (count <= MOST_BATCH,
               f"batch dims must be at most {MOST_BATCH}, each that others share counted twice; {got}")

    def infer(self, a, b):
        batch = tuple(0 if 0 in (i, j) else max(i, j) for i, j in zip(a.dims[:-2], b.dims[:-2]))
        return {"c": TensorDesc.packed(a.dtype, (*batch, a.dims[-2], b.dims[-1]))}

    def reference(self, a, b):
        for axis, (i, j) in enumerate(zip(a.shape[:-2], b.shape[:-2])):
            if i > j > 1:
                b = np.repeat(b, i // j, axis)
            elif j > i > 1:
                a = np.repeat(a, j // i, axis)
        return {"c": np.matmul(a, b)}

    def terms(self, a, b, c):
        return a.dims[-1]

    def flops(self, a, b, c):
        return 2 * prod(c.dims) * a.dims[-1]

    def magnitude(self, arrays, scalars, results):
        return self.evaluate({n: np.abs(a) for n, a in arrays.items() if a is not None}, scalars)

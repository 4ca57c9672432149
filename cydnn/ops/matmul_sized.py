"""Matrix product whose sizes differ from batch to batch."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import BY_NAME
from .attribute import real
from .matmul import Matmul
from .op import Op
from .pointwise import Pointwise

SIZES = dict(m_size=("c", -2), n_size=("c", -1), k_size=("a", -1))       # whose dim each is at most


@dataclass(frozen=True)
class MatmulSized(Op, reads="a b m_size? n_size? k_size?", writes="c"):
    """c[…, m, n] = sum over k < k_size of a[…, m, k] * b[…, k, n] where m < m_size and n < n_size, else
    ``padding``. What lies beyond reaches nothing.

    a, b, c             as in Matmul
    m_size n_size k_size  i32 or i64 of the rank of c, with batch dims of it or 1, then (1, 1); absent: the
    whole Spec: graph API, MatMul (M, N, K override, padding value).
    """
    padding: float = real(0.0, api="MATMUL_PADDING_VALUE", doc="what c holds beyond its sizes")

    scalars = {}
    fixed = frozenset(SIZES)
    api = "MATMUL"
    api_names = dict(Matmul.api_names, **{f"{x}_size": f"OPERATION_MATMUL_GEMM_{x.upper()}_OVERRIDE_DESC"
                                          for x in "mnk"})

    def check(self, a, b, **sizes):
        yield from Matmul(compute=self.compute).check(a, b)
        batch = self.infer(a, b)["c"].dims[:-2]
        for name, d in sizes.items():
            if d is not None:
                yield d.dtype.name in ("i32", "i64"), f"{name} must be i32 or i64; got {d.dtype}"
                yield (d.rank == a.rank and d.dims[-2:] == (1, 1) and all(
                    n in (1, m) for n, m in zip(d.dims, batch)),
                    f"{name} must have dims {(*batch, 1, 1)}, or 1 for some; got {d.dims}")

    def infer(self, a, b, **sizes):
        return Matmul(compute=self.compute).infer(a, b)

    def _masked(self, rows, inner, name, own, size, axis, shape, otherwise, to):
        """``to`` = ``name``, of the form ``own``, where the index along an axis is below a size."""
        point = lambda mode, operands, **more: rows.append(
            (Pointwise(mode=mode, compute=self.unrounded, **more), operands, {}))
        index, mask = f"{to}_index", f"{to}_mask"
        math = BY_NAME[self.math]
        inner |= {index: own.like(own.dims, dtype=math), mask: shape.like(shape.dims, dtype=math)}
        point("gen_index", dict(x=name, y=index), axis=axis % shape.rank)
        point("cmp_lt", dict(x=index, b=size, y=mask))
        point("binary_select", dict(x=name, b=otherwise, t=mask, y=to))

    def lower(self, descs, absent=()):
        rows, inner, factor = [], {}, {}
        for name, axis in (("a", -1), ("b", -2)):
            factor[name] = name
            if "k_size" not in absent:
                d, k = descs[name], descs["k_size"]
                dims = [max(n, m) if m != n else n for n, m in zip(d.dims[:-2], k.dims[:-2])]
                if any(n not in (1, m) for n, m in zip(d.dims, dims)):
                    return None                  # of heads that are shared, with a size for each
                full, factor[name] = d.like((*dims, *d.dims[-2:])), f"{name}_cut"
                inner[factor[name]] = full
                self._masked(rows, inner, name, d, "k_size", axis, full, 0.0, factor[name])
        sizes = [(name, axis) for name, axis in (("m_size", -2), ("n_size", -1)) if name not in absent]
        wide = descs["c"].like(descs["c"].dims, dtype=BY_NAME[self.math])
        made = "product" if sizes else "c"
        rows.append((Matmul(compute=self.compute), dict(a=factor["a"], b=factor["b"], c=made), {}))
        for i, (name, axis) in enumerate(sizes):
            inner[made], to = wide, "c" if i + 1 == len(sizes) else f"cut{i}"
            self._masked(rows, inner, made, wide, name, axis, wide, float(self.padding), to)
            made = to
        return rows, inner

    def reference(self, a, b, m_size, n_size, k_size):
        below = lambda size, n, axis: True if size is None else (
            np.arange(n).reshape([-1 if i == axis % a.ndim else 1 for i in range(a.ndim)]) < size)
        product = Matmul()
        a = np.where(below(k_size, a.shape[-1], -1), a, 0.0)
        b = np.where(below(k_size, b.shape[-2], -2), b, 0.0)
        c = product.reference(a, b)["c"]
        return dict(c=np.where(below(m_size, c.shape[-2], -2) & np.array(below(n_size, c.shape[-1], -1)), c,
                               self.padding))

    def terms(self, a, b, c, **_):
        return a.dims[-1]

    def flops(self, a, b, c, **_):
        return Matmul().flops(a, b, c)

    def magnitude(self, arrays, scalars, results):
        spread = {n: np.abs(v) if n in "ab" else v for n, v in arrays.items() if v is not None}
        return {"c": np.abs(self.evaluate(spread, scalars)["c"])}

    def admit(self, name, values):
        return np.floor(np.abs(values) * 9973) % 40 if name in SIZES else values

"""Keys or values of sequences, gathered from the pages of a cache."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..tensor import TensorDesc
from .op import Op


@dataclass(frozen=True)
class PagedCacheLoad(Op, reads="container seq_len table", writes="y"):
    """y[b, h, t] = container[table[b, t // page], h, t % page] for t below seq_len[b], else 0.

    The number of a page that is not there gives 0, too.

    container  (pages, h, page, d), any strides; table (b, 1, n, 1) and seq_len (b, 1, 1, 1): i32
    y          (b, h, s, d) with s <= n * page
    Spec: graph API, Paged cache load.
    """
    scalars = {}
    fixed = frozenset(["seq_len", "table"])
    api = "PAGED_CACHE_LOAD"
    api_names = dict(container="OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC",
                     seq_len="OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC",
                     table="OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC",
                     y="OPERATION_PAGED_CACHE_LOAD_YDESC")

    def check(self, container, seq_len, table):
        for name, d in dict(container=container, seq_len=seq_len, table=table).items():
            yield d.rank == 4, f"{name} must have rank 4; got {d.rank}"
        for name, d in dict(seq_len=seq_len, table=table).items():
            yield d.dtype.name == "i32", f"{name} must be i32; got {d.dtype}"
        b = table.dims[0]
        yield table.dims[1::2] == (1, 1), f"table must have dims (b, 1, n, 1); got {table.dims}"
        yield seq_len.dims == (b, 1, 1, 1), f"seq_len must have dims {(b, 1, 1, 1)}; got {seq_len.dims}"

    def infer(self, container, seq_len, table):
        pages, h, page, d = container.dims
        return dict(y=TensorDesc.packed(container.dtype, (table.dims[0], h, table.dims[2] * page, d)))

    def complete(self, descs):
        """y may be shorter than all pages of its sequence."""
        y, given = descs.get("y"), self.read_of(descs)
        self._hold(self.check(**given))
        if y is None:
            return super().complete(descs)
        want = self.infer(**given)["y"].dims
        self._hold([(y.rank == 4 and y.dims[2] <= want[2] and (*y.dims[:2], y.dims[3]) == (*want[:2],
                                                                                           want[3]),
                     f"y must have dims {want}, or fewer positions; got {y.dims}"),
                    (not y.is_overlapping,
                     f"y must not overlap itself; got dims {y.dims}, strides {y.strides}")])
        return {**given, "y": y}

    def reference(self, container, seq_len, table, shapes):
        b, h, s, d = shapes["y"]
        at, page = np.arange(s), container.shape[2]
        pages = table.astype(int)[:, 0, at // max(page, 1), 0]             # (b, s)
        there = at < seq_len.astype(int).reshape(b, 1)
        there = there & (pages >= 0) & (pages < len(container))
        pages = np.where(there, pages, 0)
        y = container[pages[:, None], np.arange(h)[:, None], at % max(page, 1)] if container.size else (
            np.zeros(shapes["y"]))
        return dict(y=np.where(there[:, None, :, None], y, 0.0))

    def admit(self, name, values):
        """Every page is the first, which is there; sequences of up to 40."""
        if name == "seq_len":
            return np.floor(np.abs(values) * 9973) % 40
        return np.zeros(values.shape) if name == "table" else values

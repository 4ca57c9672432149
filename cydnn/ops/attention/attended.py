"""What attention and its gradients share: operands, the scores, and which keys a query sees."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import philox
from .. import rows as dag
from ..attribute import choice, integer, real, rows
from ..op import Op

COORDINATES = ("batch", "head", "row", "col")
NAMES = ("s", *COORDINATES)
BLOCK = 128                                      # queries and keys of a block of scores


@dataclass(frozen=True)
class Attended(Op):
    """Attributes and operands of scaled dot product attention, as sdpa.py says them."""
    score: tuple = rows(NAMES, doc="pointwise operations on the scores")
    left: int = integer(0, lo=0, doc="keys that a query sees up to its own, itself counted; 0: all")
    right: int = integer(-1, lo=-1, doc="keys that a query sees behind its own; -1: all")
    diagonal: str = choice("top_left", "bottom_right", doc="where the diagonal begins")
    drop: float = real(0.0, doc="probability that dropout drops a weight")
    keep: tuple = rows(COORDINATES, doc="pointwise operations that make a factor of each weight")
    scalars = dict(scale=1.0, seed=0, offset=0)
    by_value = frozenset({"extras"})
    special = dict(drop="dropout of weights", keep="factors of weights")

    @property
    def tensors_read(self) -> int:
        """How many extras the rows need."""
        return max(dag.tensors_of(self.score), dag.tensors_of(self.keep))

    def keys(self, k, table_k=None) -> int:
        """How many keys a batch has at most."""
        return k.dims[3]

    def space(self, q, k, table_k=None) -> tuple:
        """Dims of the scores."""
        return (*q.dims[:3], self.keys(k, table_k))

    def check(self, q, k, v, len_q, len_kv, extras, sink=None, table_k=None, **_):
        for name, d in dict(q=q, k=k, v=v).items():
            yield d.rank == 4, f"{name} must have rank 4; got {d.rank}"
        b, h, _, depth = q.dims
        for name, d in dict(k=k, v=v).items():
            yield (d.dims[0] == b or table_k is not None,
                   f"{name} must have batch {b} like q; got {d.dims[0]}")
            yield d.dims[1] and h % d.dims[1] == 0, f"{name}'s heads must divide q's {h}; got {d.dims[1]}"
        yield k.dims[2] == depth, f"k must have heads of {depth} elements like q; got {k.dims[2]}"
        yield (v.dims[2] == k.dims[3] or table_k is not None,
               f"v must have {k.dims[3]} keys like k; got {v.dims[2]}")
        yield sink is None or sink.dims == (1, h, 1, 1), f"sink must have dims {(1, h, 1, 1)}; got {sink}"
        for name, d in dict(len_q=len_q, len_kv=len_kv).items():
            yield (d is None or d.dims == (b, 1, 1, 1) and d.dtype.name == "i32",
                   f"{name} must be i32 of dims {(b, 1, 1, 1)}; got {d}")
        yield 0 <= self.drop <= 1, f"drop must be a probability, 0 to 1; got {self.drop}"
        need, have = self.tensors_read, extras or ()
        yield len(have) == need, f"extras must be {need} tensors, those that score reads; got {len(have)}"
        for i, d in enumerate(have):
            space = self.space(q, k, table_k)
            fits = d.rank == 4 and all(n in (1, m) for n, m in zip(d.dims, space))
            yield fits, f"extras.{i} must broadcast to {space}, the dims of the scores; got {d.dims}"

    def admit(self, name, values):
        if name.startswith("extras"):            # scores may raise them
            return np.clip(values, -8, 8)
        if name.startswith("table_"):            # small numbers of pages, one of them none
            return np.floor(np.abs(values) * 4) % 8 - 1
        return np.abs(values) * 8 if name in ("len_q", "len_kv") else values

    # ---- Its meaning ----

    def _scores(self, q, k, len_q, len_kv, extras, scale, blocks=None) -> tuple:
        """The scores, -inf where a query does not see a key; where it does; and the values that rows read."""
        s = scale * (q @ np.repeat(k, q.shape[1] // k.shape[1], 1))
        at = dict(zip(COORDINATES, np.meshgrid(*map(np.arange, s.shape), indexing="ij", sparse=True)))
        values = dict(s=s, **{n: np.float64(v) for n, v in at.items()},
                      **{f"e{i}": np.asarray(e, np.float64) for i, e in enumerate(extras or ())})
        found = np.broadcast_to(dag.evaluate(self.score, values), s.shape)
        n_q, n_kv = self._lengths(s.shape, len_q, len_kv)
        way = at["col"] - at["row"] - (n_kv - n_q if self.diagonal == "bottom_right" else 0)
        seen = (at["row"] < n_q) & (at["col"] < n_kv) & (way <= self.right if self.right >= 0 else True)
        seen = np.broadcast_to(seen & (way > -self.left if self.left else True), s.shape)
        if blocks is not None:
            seen = seen & unpacked(blocks, s.shape)
        return np.where(seen, found, -np.inf), seen, values

    def _factors(self, shape, values, seed, offset):
        """What each weight is multiplied by, behind the softmax."""
        found = dag.evaluate(self.keep, values) if self.keep else 1.0
        if self.drop:
            numbers = philox.numbers(seed, offset, int(np.prod(shape[:3])), shape[3]).reshape(shape)
            is_kept = numbers >= np.uint64(philox.threshold(self.drop))
            found = np.where(is_kept, philox.factor(self.drop), 0.0) * found
        return np.broadcast_to(found, shape)

    @staticmethod
    def _lengths(space, len_q, len_kv) -> tuple:
        """(queries, keys) of each batch, no more than there are."""
        return tuple([np.full((space[0], 1, 1, 1), size) if n is None else np.clip(n, 0, size)
                      for n, size in ((len_q, space[2]), (len_kv, space[3]))])

    def terms(self, q, k, v, **_):
        return q.dims[3] + k.dims[3]

    def pairs(self, space) -> int:
        """How many queries and keys see each other by the bounds, where lengths are the whole."""
        b, h, s_q, s_kv = space
        shift = s_kv - s_q if self.diagonal == "bottom_right" else 0
        ends = rising(s_q, shift + self.right + 1, s_kv) if self.right >= 0 else s_q * s_kv
        return b * h * (ends - (rising(s_q, shift - self.left + 1, s_kv) if self.left else 0))


def rising(count: int, first: int, most: int) -> int:
    """The sum of ``first``, first + 1 … of so many numbers, each at least 0 and at most ``most``."""
    begin = min(max(-first, 0), count)           # those in front are 0, those from ``end`` on most
    end = max(min(max(most - first, 0), count), begin)
    return (end - begin) * (begin + end - 1 + 2 * first) // 2 + (count - end) * most


def unpacked(blocks, space):
    """Which scores a mask of blocks lets be: bit i of a byte is that of the i-th block of ``BLOCK`` keys."""
    row, col = np.arange(space[2])[:, None] // BLOCK, np.arange(space[3]) // BLOCK
    return blocks.astype(int)[..., row, col // 8] >> col % 8 & 1 == 1

"""Products of groups of rows, each with a matrix of its own: the experts of a mixture."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..tensor import TensorDesc
from .attribute import choice, integer
from .op import Op

INDICES = ("i32", "i64")                         # types of offsets


def groups_of(offsets: int, experts: int) -> int:
    """How many groups so many offsets begin: one above a multiple of the experts is where the last ends."""
    has_end = offsets > 1 if experts == 1 else offsets % experts == 1
    return offsets - has_end


def owners(offsets: np.ndarray, groups: int, rows: int) -> np.ndarray:
    """The group of each row, by how many offsets it has reached; -1 where it is in none."""
    found = np.searchsorted(np.sort(offsets, axis=None), np.arange(rows), "right") - 1
    return np.where(found < groups, found, -1)


def _offset_rules(offsets, experts):
    yield (offsets.rank == 3 and offsets.dims[1:] == (1, 1),
           f"offsets must have dims (groups, 1, 1); got {offsets.dims}")
    yield offsets.dtype.name in INDICES, f"offsets must be i32 or i64; got {offsets.dtype}"
    count, most = offsets.dims[0], max(experts, 1)
    yield (count > 0 and count % most in (0, 1 % most) and count >= experts,
           f"offsets must be those of a multiple of {experts} groups, or one more; got {count}")


class Grouped(Op):
    """What both directions share."""
    scalars = {}
    fixed = frozenset(["offsets", "index", "slot"])

    def admit(self, name, values):
        """Offsets up to 24, in any order; rows and places among the first 24."""
        most = dict(offsets=25, index=24, slot=24).get(name)
        return values if most is None else np.floor(np.abs(values) * 9973) % most


@dataclass(frozen=True)
class GroupedMatmul(Grouped, reads="x w offsets index? slot?", writes="y"):
    """y[row] = x[row] @ w[g % e] for the rows offsets[g] <= row < offsets[g + 1] of each group g, 0 for the
    rows of no group. A row's g is the number of offsets that it has reached, less one.

    x        (1, t, k)    tokens
    w        (e, k, n)    a matrix for each of e experts, any strides
    offsets  (g, 1, 1)    i32 or i64, rising: where groups begin, g a multiple of e; the last ends with the
                          rows. Or one more, which is where the last ends
    index    (1, m, 1)    i32; gather: row r reads token index[r], one that is not there is 0; m rows
    slot     (1, t, 1)    i32; scatter: row r goes to index[r] * top_k + slot[r], the last of those that go
                          to one place; to one that is not there none goes, and where none goes is 0
    y        (1, m, n)    m = t but for gather
    Spec: the operation MoE grouped matmul of the front end.
    """
    mode: str = choice("none", "gather", "scatter", doc="what rows are: the tokens in order, those that "
                                                        "index names, or tokens that index puts in order")
    top_k: int = integer(1, lo=1, doc="scatter: places of a token")

    def check(self, x, w, offsets, index, slot):
        for name, d in dict(x=x, w=w).items():
            yield d.rank == 3, f"{name} must have rank 3; got {d.rank}"
        yield x.dims[0] == 1, f"x must have dims (1, t, k); got {x.dims}"
        yield (x.dims[2] == w.dims[1],
               f"w must have dims (e, {x.dims[2]}, n), a row for each column of x; got {w.dims}")
        yield w.dims[0] > 0, f"w must have experts; got dims {w.dims}"
        yield from _offset_rules(offsets, w.dims[0])
        wanted = dict(none=(), gather=("index",), scatter=("index", "slot"))[self.mode]
        for name, d in dict(index=index, slot=slot).items():
            verb = "given" if name in wanted else "absent"
            yield ((d is not None) == (name in wanted),
                   f"{name} must be {verb} for mode {self.mode}; got {'none' if d is None else d.dims}")
            if d is not None:
                rows = x.dims[1] if self.mode == "scatter" else d.dims[1] if d.rank == 3 else 0
                yield d.dims == (1, rows, 1), f"{name} must have dims (1, {rows or 'm'}, 1); got {d.dims}"
                yield d.dtype.name == "i32", f"{name} must be i32; got {d.dtype}"

    def infer(self, x, w, offsets, index, slot):
        rows = index.dims[1] if self.mode == "gather" else x.dims[1]
        return dict(y=TensorDesc.packed(x.dtype, (1, rows, w.dims[2])))

    def reference(self, x, w, offsets, index, slot, shapes):
        rows, experts = shapes["y"][1], len(w)
        groups = groups_of(len(offsets), experts)
        owner = owners(offsets, groups, rows)
        tokens = x[0]
        if self.mode == "gather":
            at = index.astype(np.int64)[0, :, 0]
            there = (at >= 0) & (at < len(tokens))
            found = np.zeros((rows, tokens.shape[1]))
            found[there] = tokens[at[there]]
            tokens = found
        made = np.zeros(shapes["y"][1:])
        for group in range(groups):
            mine = owner == group
            made[mine] = tokens[mine] @ w[group % experts]
        if self.mode == "scatter":
            place = index.astype(np.int64)[0, :, 0] * self.top_k + slot.astype(np.int64)[0, :, 0]
            goes = np.flatnonzero((owner >= 0) & (place >= 0) & (place < rows))
            routed, made = made, np.zeros_like(made)
            for row in goes:
                made[place[row]] = routed[row]
        return dict(y=made[None])

    def terms(self, x, w, y, **_):
        return x.dims[2]

    def flops(self, x, w, y, **_):
        return 2 * y.count * x.dims[2]

    def magnitude(self, arrays, scalars, results):
        return self.evaluate({n: np.abs(a) for n, a in arrays.items() if a is not None}, scalars)


@dataclass(frozen=True)
class GroupedMatmulWgrad(Grouped, reads="x dy offsets", writes="dw"):
    """dw[expert] = the sum of x[row]^T dy[row] over the rows of the groups g with g % e = expert.

    x (1, t, k) and dy (1, t, n); offsets as in GroupedMatmul; dw (e, k, n), e = g unless it is given
    Spec: the operation MoE grouped matmul backward of the front end.
    """

    def check(self, x, dy, offsets):
        for name, d in dict(x=x, dy=dy).items():
            yield d.rank == 3, f"{name} must have rank 3; got {d.rank}"
        yield x.dims[0] == 1, f"x must have dims (1, t, k); got {x.dims}"
        yield dy.dims[:2] == x.dims[:2], f"dy must have dims {x.dims[:2]} and n; got {dy.dims}"
        yield from _offset_rules(offsets, offsets.dims[0])

    def infer(self, x, dy, offsets):
        return dict(dw=TensorDesc.packed(x.dtype, (offsets.dims[0], x.dims[2], dy.dims[2]), (0, 2, 1)))

    def complete(self, descs):
        """dw may have fewer experts than there are groups."""
        dw, given = descs.get("dw"), self.read_of(descs)
        self._hold(self.check(**given))
        if dw is None:
            return super().complete(descs)
        want = self.infer(**given)["dw"].dims
        self._hold([(dw.rank == 3 and dw.dims[1:] == want[1:] and dw.dims[0] > 0,
                     f"dw must have dims (e, {want[1]}, {want[2]}); got {dw.dims}"),
                    *_offset_rules(given["offsets"], dw.dims[0]),
                    (not dw.is_overlapping,
                     f"dw must not overlap itself; got dims {dw.dims}, strides {dw.strides}")])
        return {**given, "dw": dw}

    def reference(self, x, dy, offsets, shapes):
        dw = np.zeros(shapes["dw"])
        rows = x.shape[1]
        begins = [*np.clip(offsets, 0, rows).astype(int).reshape(-1), rows]
        for group in range(groups_of(len(offsets), len(dw))):
            mine = slice(begins[group], max(begins[group:group + 2]))
            dw[group % len(dw)] += x[0, mine].T @ dy[0, mine]
        return dict(dw=dw)

    def terms(self, x, dy, offsets, dw):
        return x.dims[1]

    def flops(self, x, dy, offsets, dw):
        return 2 * x.count * dy.dims[2]

    def magnitude(self, arrays, scalars, results):
        return self.evaluate({n: np.abs(a) for n, a in arrays.items() if a is not None}, scalars)

"""Random graphs whose results are exact, so that every device must give the same numbers.

Values are multiples of a power of two and bounded: every sum, product and rounding of them is the same in
f32, in f64 and in NumPy. ``Drawing`` grows a graph node by node; ``run`` executes it on guarded buffers.
"""
from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from cydnn import dtypes, ops, plan
from cydnn.graph import FromTensor, Graph, Node, Tensor
from cydnn.heuristics import ANYTHING, best
from cydnn.ops import Pointwise
from cydnn.ops.pointwise import MODES
from cydnn.steps import Scalar
from cydnn.tensor import TensorDesc

from ..guard.buffers import Guarded, Space, fill_of, shift_of
from . import STORED, tensor

MOST = 2.0 ** 22                                 # multiples: what f32 holds, with room for a sum
# no larger than what they read
KEEP = ("identity", "abs", "neg", "min", "max", "relu_fwd")
FLAGS = ("cmp_eq", "cmp_neq", "cmp_gt", "cmp_ge", "cmp_lt", "cmp_le", "logical_and", "logical_or",
         "logical_not")
GROW = ("add", "sub", "mul", "add_square", "relu_bwd")
WHOLE = ("ceil", "floor")
MODES_DRAWN = (*KEEP, *FLAGS, *GROW, *WHOLE, "add", "mul", "binary_select", "binary_select", "gen_index")


@dataclass(frozen=True)
class Bound:
    """|value| <= most, and a multiple of step."""
    most: float
    step: float

    @property
    def fits(self) -> bool:
        return self.most <= MOST * self.step

    def times(self, factor: float) -> "Bound":
        return Bound(self.most * abs(factor), self.step * min(abs(factor), 1.0))


def stored(bound: Bound, dtype) -> Bound:
    """What is left of it in a type."""
    if dtype.kind == "bool":
        return Bound(1.0, 1.0)
    if dtype.kind == "int":
        return Bound(min(bound.most + 1, float(dtype.highest)), 1.0)
    return Bound(min(bound.most * (1 + dtype.eps), dtype.highest), max(bound.step, 2.0 ** -12))


class Drawing:
    """A graph that grows."""

    def __init__(self, rng: random.Random, dims: tuple, layout=None):
        self.rng, self.dims, self.layout = rng, dims, layout
        self.tensors, self.nodes, self.bounds, self.values = {}, [], {}, {}
        self._uids = rng.sample(range(1, 400), 60)

    # ---- Tensors ----

    def _add(self, desc, kind="memory", **facts) -> int:
        uid = self._uids.pop()
        self.tensors[uid] = Tensor(uid, desc, kind, name=f"u{uid}", **facts)
        return uid

    def input(self, dims=None, dtype=None, most=4) -> int:
        """A tensor in memory, of small numbers."""
        rng = self.rng
        dtype = dtypes.dtype(dtype or rng.choice((*STORED, "f16", "f32", "bool")))
        alignment = rng.choice([16] * 7 + [dtype.bytes_of(1)])
        uid = self._add(tensor(rng, dtype, dims or self.dims, self._layout()), alignment=alignment)
        step = 0.5 if dtype.kind == "float" else 1.0
        numbers = np.random.default_rng(rng.randrange(2 ** 32)).integers(
            -most, most + 1, dims or self.dims) * step
        self.values[uid] = dtype.round(numbers).astype(np.float64)
        self.bounds[uid] = stored(Bound(most, step), dtype)
        return uid

    def _layout(self):
        """The one that most tensors have, where there is one."""
        return self.layout if self.rng.random() < 0.9 else None

    def number(self) -> int:
        """A number that is given at execute."""
        uid, value = self._uids.pop(), self.rng.choice([0.5, 2.0, -1.0, 3.0])
        desc = TensorDesc.packed(self.rng.choice(["f32", "f64", "i32"]), (1,) * len(self.dims))
        value = float(desc.dtype.round(np.array(value)))
        self.tensors[uid] = Tensor(uid, desc, "value", scalar=Scalar(uid, value), name=f"u{uid}")
        self.bounds[uid] = Bound(3.0, 0.5)
        return uid

    def output(self, dims, bound: Bound, kind=None, dtype=None) -> int:
        """What a node writes: mostly virtual; ``bound`` is that of the values before they are rounded."""
        rng = self.rng
        kind = kind or rng.choice(["virtual", "virtual", "memory"])
        dtype = dtypes.dtype(dtype or rng.choice(("f32", "f32", "f16", "bf16", *STORED, "bool")))
        layout = rng.choice(["nchw", "nhwc", "permuted"]) if dtype.bits < 8 or kind == "virtual" else None
        uid = self._add(tensor(rng, dtype, dims, self._layout() or layout), kind)
        self.bounds[uid] = stored(bound, dtype)
        return uid

    # ---- Nodes ----

    def pointwise(self, sources, dims=None, kind=None, dtype=None, modes=MODES_DRAWN) -> int:
        """A pointwise node that reads one of ``sources`` first; returns what it writes."""
        rng, dims = self.rng, dims or self.dims
        for _ in range(100):
            mode = rng.choice(modes)
            x = rng.choice(sources)
            names = ("x", "b", "t")[:MODES[mode].inputs]
            op = Pointwise(mode=mode, axis=rng.randrange(len(dims)),
                           relu_upper_clip=rng.choice([float("inf"), 3.0]),
                           relu_lower_clip_slope=rng.choice([0.0, 0.5]),
                           nan=rng.choice(["propagate", "ignore"]),
                           compute=rng.choice(["f32", "f32", "f32", "f64", "i32", "bf16"]))
            scalars = self._scalars(names)
            others = [rng.choice(sources) if rng.random() < 0.5 else None for _ in names[1:]]
            bound = self._bound(op, [x, *others], scalars)
            if bound is None or not bound.fits:
                continue
            given = [x, *(self._other(dims) if o is None else o for o in others)]
            dims_out = tuple(map(max, *(self.tensors[u].dims for u in given), (1,) * len(dims)))
            y = self.output(dims_out, bound.times(_default(scalars.get("alpha", 1.0))), kind, dtype)
            self.nodes.append(Node(op, {**dict(zip(names, given)), "y": y}, scalars, f"{mode}{y}"))
            return y
        return self.pointwise(sources, dims, kind, dtype, ("max",))

    def _other(self, dims) -> int:
        """Another input: as large, broadcast, or a number."""
        rng = self.rng
        form = rng.choice(["full", "some", "channel", "number"])
        if form == "number":
            return self.number()
        some = tuple(rng.choice([1, d]) for d in dims)
        channel = tuple(d if i == min(1, len(dims) - 1) else 1 for i, d in enumerate(dims))
        return self.input({"full": dims, "some": some, "channel": channel}[form])

    def _scalars(self, names) -> dict:
        """Factors of a node, now and then."""
        rng, found = self.rng, {}
        for name in ("alpha", "alpha1", *(["alpha2"] if len(names) > 1 else [])):
            if rng.random() < 0.15:
                found[name] = rng.choice([0.5, 2.0, -1.0])
            elif rng.random() < 0.05:
                found[name] = FromTensor(self.number())
        return found

    def _bound(self, op, inputs, scalars):
        """Of the result before alpha; None where it would not be exact."""
        read = [self.bounds[u] if u is not None else Bound(4.0, 0.5) for u in inputs]
        for i, name in enumerate(("alpha1", "alpha2")[:len(read)]):
            read[i] = read[i].times(_default(scalars.get(name, 1.0)))
        if not all(b.fits for b in read):
            return None
        first, second = read[0], read[min(1, len(read) - 1)]
        widest = Bound(max(b.most for b in read), min(b.step for b in read))
        if op.mode == "relu_fwd":
            return Bound(max(first.most, 3.0), first.step * 0.5)
        if op.mode in FLAGS:
            return Bound(1.0, 1.0)
        if op.mode == "gen_index":
            return Bound(float(max(self.dims)), 1.0)
        if op.mode in WHOLE:
            return Bound(first.most + 1, 1.0)
        if op.mode in ("mul", "relu_bwd"):
            return Bound(first.most * max(second.most, 1.0), first.step * min(second.step, 0.5))
        if op.mode == "add_square":
            return Bound(first.most + second.most ** 2, min(first.step, second.step ** 2))
        return Bound(2 * widest.most, widest.step) if op.mode in GROW else widest

    def core(self, op, operands, written, dims, terms, kind=None, dtype=None) -> int:
        """A node that sums products of what it reads (or just sums it); returns what it writes."""
        bounds = [self.bounds[u] for u in operands.values()]
        product = Bound(terms, 1.0)
        for bound in bounds:
            product = Bound(product.most * bound.most, product.step * bound.step)
        assert product.fits, "sums must be exact"
        y = self.output(dims, product, kind, dtype)
        self.nodes.append(Node(op, {**operands, written: y}, {}, f"{op.name}{y}"))
        return y

    # ---- The graph ----

    def graph(self, shuffled=False) -> Graph:
        """All of it; what nobody reads is in memory."""
        read = {u for n in self.nodes for u in n.reads}
        tensors = [replace(t, kind="memory") if t.is_virtual and t.uid not in read else t
                   for t in self.tensors.values() if t.uid in read
                   or any(t.uid in n.writes for n in self.nodes)]
        nodes = self.rng.sample(self.nodes, len(self.nodes)) if shuffled else self.nodes
        return Graph(nodes, tensors)


def _default(value) -> float:
    return 3.0 if isinstance(value, FromTensor) else value


def region(rng, dims=None, count=None, wide=True) -> Drawing:
    """A DAG of pointwise nodes over tensors of every kind; some of its values are smaller where not
    ``wide``."""
    dims = dims or tuple(rng.choice([1, 2, 3, 4, 8]) for _ in range(rng.randint(1, 4)))
    d = Drawing(rng, dims)
    pool = [d.input(), d.input()]
    for i in range(count or rng.randint(1, 6)):
        small = not wide and rng.random() < 0.3
        some = tuple(rng.choice([1, n]) for n in dims) if small else dims
        if small:
            pool_small = [d.input(some)]
            pool.append(d.pointwise(pool_small, some))
        else:
            pool.append(d.pointwise(pool[-1:] if rng.random() < 0.6 else pool[-4:]))
    return d


# ---- Anchors with what may be fused around them ----

SMALL = (*KEEP, *FLAGS, "binary_select", "sub")              # of operands: their products are summed


def anchored(rng, op_class) -> Drawing:
    """An op that sums, its operands perhaps made by pointwise nodes, and pointwise nodes behind it."""
    kind = rng.choice(["f16", "f16", "bf16", "f32", "f64", None, None])          # of both operands, or any
    compute = "f64" if kind == "f64" else rng.choice(["f32", "f32", "f32", "f64", "i32"])
    op, operands, written, dims, terms = FORMS[op_class](rng, op_class, compute)
    d, uids = Drawing(rng, dims, rng.choice(["nhwc", "nhwc", "nchw", None])), {}
    for name, shape in operands.items():
        dtype = kind or rng.choice(("i8", "u8", "i32") if compute == "i32" else (*STORED, "bool"))
        d.dims = shape
        if rng.random() < 0.4:
            source = [d.input(shape, most=2), d.input(shape, most=2)]
            for i in range(rng.randint(1, 3)):
                source = [d.pointwise(source, shape, "virtual", dtype, SMALL)]
            uids[name] = source[0]
        else:
            uids[name] = d.input(shape, dtype, most=3)
    d.dims = dims
    pool = [d.core(op, uids, written, dims, terms, dtype=rng.choice([kind, None, "f32"]))]
    for _ in range(rng.choice([0, 1, 2, 3, 4])):
        pool.append(d.pointwise(pool[-2:]))
    return d


def _conv(rng, op_class, compute):
    groups, layout = rng.choice([1, 1, 1, 2]), rng.choice([8, 1])
    c, k = groups * layout * rng.randint(1, 2), groups * layout * rng.randint(1, 3)
    if rng.random() < 0.15:
        groups = k = c = 8
    pad, stride = rng.randint(0, 2), rng.randint(1, 2)
    op = op_class(pre_pad=pad, post_pad=pad, stride=stride, dilation=rng.choice([1, 1, 2]), compute=compute,
                  mode=rng.choice(["cross_correlation", "cross_correlation", "convolution"]))
    x, w = (rng.randint(1, 2), c, rng.randint(5, 7),
            rng.randint(5, 7)), (k, c // groups, rng.randint(1, 3), rng.randint(1, 3))
    y = op.out_dims(x, w)
    dims = dict(zip(op.parts, (x, w, y)))
    out, terms = op.writes[0], {0: k // groups * w[2] * w[3], 1: y[0] * y[2] * y[3],
                                2: c // groups * w[2] * w[3]}
    return op, {n: dims[n] for n in op.reads}, out, dims[out], terms[op.parts.index(out)]


def _matmul(rng, op_class, compute):
    m, n, k = (rng.choice([1, 8]) * rng.randint(1, 5) for _ in range(3))
    batch = [(), (2,), (2, 3)][rng.choice([0, 0, 1, 2])]
    thin = lambda: tuple(rng.choice([1, b]) for b in batch)
    a, b = (*thin(), m, k), (*thin(), k, n)
    full = tuple(max(i, j) for i, j in zip(a[:-2], b[:-2]))
    return op_class(compute=compute), dict(a=a, b=b), "c", (*full, m, n), k


def _reduction(rng, op_class, compute):
    x = tuple(rng.choice([1, 2, 3, 8, 9]) for _ in range(rng.randint(1, 4)))
    y = tuple(rng.choice([1, n]) for n in x)
    terms = max(int(np.prod(x)) // max(int(np.prod(y)), 1), 1)
    return op_class(compute=compute,
                    mode=rng.choice(["add", "max", "min", "amax", "norm1"])), dict(x=x), "y", y, terms


FORMS = {ops.ConvFprop: _conv, ops.ConvDgrad: _conv, ops.ConvWgrad: _conv, ops.Matmul: _matmul,
         ops.Reduction: _reduction}


# ---- Running ----

def rounded(graph, choice) -> Graph:
    """The graph that a choice computes: x is of the type of w where an engine says that it rounds it."""
    down = [part.match for part in choice.parts if "down_convert_inputs" in part.engine.notes]
    kinds = {p.uids["x"]: p.w.dtype for p in down if p.uids["x"] in graph.tensors}
    tensors = [t.replace(dtype=kinds[uid]) if uid in kinds else t for uid, t in graph.tensors.items()]
    return Graph(graph.nodes, tensors) if kinds else graph


def run(graph, values, device, wish=ANYTHING, fill=None) -> dict:
    """{uid: what a graph writes} of the cheapest plan. Numbers given at execute have their defaults."""
    return execute(plan.made(best(graph, device.facts, wish), device), values, fill)


def execute(built, values, fill=None) -> dict:
    """{uid: what the graph of a plan writes}, on guarded buffers. ``fill``: of what is not written; drawn
    where none is given."""
    placed = Placed(built, values, fill)
    placed.execute()
    return placed.found()


class Placed:
    """A plan and values in guarded buffers: what it reads, what it writes, its workspace."""

    def __init__(self, built, values, fill=None):
        self.built, self.device, graph = built, built.device, built.graph
        self.written = {u for n in graph.nodes for u in n.writes}
        key = str(graph.key)
        fill = fill_of(key) if fill is None else fill
        self.buffers = {t.uid: Guarded(self.device, t.desc, shift_of(t.label, t.desc, t.alignment, key), fill)
                        for t in built.slots}
        for uid, buffer in self.buffers.items():
            if uid not in self.written:
                buffer.write(values[uid])
        self.workspace = Space.for_plan(built, fill)
        self.pointers = [self.buffers[t.uid].ptr for t in built.slots]

    def execute(self):
        self.built.execute(self.pointers, self.workspace.ptr)
        self.device.synchronize()

    def found(self) -> dict:
        """{uid: what was written}; nothing else was."""
        found = {}
        for uid, buffer in self.buffers.items():
            got, raw = buffer.read()
            label = self.built.graph.tensors[uid].label
            assert uid in self.written or (raw == buffer.before).all(), f"input {uid} was changed"
            assert not buffer.stray_bytes(raw), f"{label}: bytes written outside the tensor"
            found.update({uid: got} if uid in self.written else {})
        assert not self.workspace.changed_beside(), "bytes written beside the workspace"
        return found

    def clear(self):
        """What is written is NaN, or as before."""
        for uid in self.written & set(self.buffers):
            self.buffers[uid].clear()

    def raw(self) -> dict:
        """{uid: the bytes of what is written, and of the zones}."""
        return {uid: self.buffers[uid].raw() for uid in self.written & set(self.buffers)}


def differences(graph, got: dict, want: dict) -> list[str]:
    """Sentences about what is not the same number (or NaN)."""
    texts = []
    for uid, there in want.items():
        here = got[uid]
        wrong = ~((here == there) | (np.isnan(here.astype(float)) & np.isnan(there.astype(float))))
        if wrong.any():
            at = tuple(map(int, np.argwhere(wrong)[0]))
            texts.append(f"{graph.tensors[uid].label}: {wrong.sum()} of {here.size} differ, first at {at}: "
                         f"got {here[at]}, want {there[at]}")
    return texts

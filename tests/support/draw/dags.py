"""Random graphs around every family of operations: forks, kept values, several outputs, values made in front
of an operation, by-value numbers, mixed types, any order of nodes."""
from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from cydnn import device as devices, ops, plan
from cydnn.graph import FromTensor, Graph, Node, Tensor
from cydnn.heuristics import ANYTHING
from cydnn.ops import Pointwise
from cydnn.tensor import TensorDesc

from . import dag_families
from .graphs import rounded
from ..guard.buffers import Guarded, Space, fill_of, shift_of

TYPES = ("f16", "bf16", "f32")
MANY = TYPES + ("f64", "i8", "u8", "i32", "i64", "bool", "f8_e5m2")
ONE = ("identity", "abs", "neg", "relu_fwd", "logical_not")
TWO = ("add", "sub", "mul", "min", "max", "add_square", "cmp_ge", "relu_bwd")
STEPS = {"cmp_ge": "max", "logical_not": "abs", "relu_bwd": "mul"}       # and what is no step
SMOOTH = ("sigmoid_fwd", "tanh_fwd", "swish_fwd", "gelu_fwd", "exp")
SIZES = (1, 2, 5, 8, 16, 17, 24, 31, 40, 64, 72, 96, 120, 128, 136, 160, 200, 256, 264)
WIDE = 1 << 20                                   # seeds from here on draw dims of many sizes
INEXACT = (ops.BatchNormTraining, ops.BatchNormInference, ops.BatchNormBwd, ops.SoftmaxFwd, ops.SoftmaxBwd,
           ops.PoolingFwd, ops.PoolingBwd, *dag_families.INEXACT)


@dataclass
class Dag:
    """A graph as it is being made. ``smooth``: results are not sums of small whole numbers."""
    rng: random.Random
    tensors: dict = field(default_factory=dict)
    nodes: list = field(default_factory=list)
    uids: list = field(default_factory=list)
    smooth: bool = False
    is_wide: bool = False

    def size(self, low: int, high: int, unit: int = 1) -> int:
        """A dim: a few units, or in a wide graph one of many sizes."""
        drawn = self.rng.randint(low, high)
        if self.is_wide and self.rng.random() < 0.6:
            drawn = -(-self.rng.choice(SIZES) // unit)
        return unit * drawn

    def __post_init__(self):
        self.uids = self.rng.sample(range(-50, 400), 200)

    def add(self, dtype, dims, kind="memory", layout=None, **facts) -> int:
        layout = layout or self.rng.choice(["nchw", "nhwc"] if len(dims) > 2 else ["nchw"])
        uid = self.uids.pop()
        self.tensors[uid] = Tensor(uid, TensorDesc.packed(dtype, dims, layout), kind, **facts)
        return uid

    def like(self, uid, dtype, kind="virtual") -> int:
        """A tensor of another's dims and order of strides."""
        desc, new = self.tensors[uid].desc, self.uids.pop()
        self.tensors[new] = Tensor(new, desc.like(desc.dims, dtype=dtype), kind)
        return new

    def node(self, op, operands, **scalars):
        self.nodes.append(Node(op, operands, scalars))

    def middle(self) -> str:
        """The type of a value in between."""
        return self.rng.choice(["f32", "f32", "f32", *TYPES])

    def point(self, dims, values, kind="virtual") -> int:
        """A pointwise node of these dims on one or two of the values, extra inputs or numbers; the uid of its
        result."""
        rng = self.rng
        mode = rng.choice(ONE + 2 * TWO + ((SMOOTH) if rng.random() < 0.15 else ()))
        mode = STEPS.get(mode, mode) if self.smooth else mode    # a rounding error would decide
        self.smooth |= mode in SMOOTH
        op = Pointwise(mode=mode, relu_upper_clip=rng.choice([float("inf"), 6.0]))
        fits = [v for v in values if self.tensors[v].dims == dims]
        x = rng.choice(fits) if fits else self.extra(dims, True)
        operands = dict(x=x)
        if "b" in op.inputs():
            operands["b"] = rng.choice(values) if rng.random() < 0.4 else self.extra(dims)
            if rng.random() < 0.2:
                operands["x"], operands["b"] = operands["b"], operands["x"]
        full = next((u for u in operands.values() if self.tensors[u].dims == dims), None)
        operands["y"] = self.like(full if full is not None else x, self.middle(), kind)
        self.node(op, operands)
        return operands["y"]

    def extra(self, dims, full=False) -> int:
        """One more input: of these dims, of some of them, or a number given at execute."""
        rng, thin = self.rng, tuple(d if i == 1 else 1 for i, d in enumerate(dims))
        how = "full" if full else rng.choice(["full", "thin", "some", "number"])
        if how == "number":
            return self.add("f32", (1,) * len(dims), "value")
        shape = {"full": dims, "thin": thin, "some": tuple(rng.choice([1, d]) for d in dims)}[how]
        return self.add(rng.choice(TYPES + ("bool",) if how == "full" else TYPES), shape)

    def before(self, dtype, dims) -> int:
        """An operand: in memory, or made by one or two pointwise nodes."""
        if self.rng.random() < 0.65:
            return self.add(dtype, dims)
        made = self.point(dims, [self.add(self.rng.choice(TYPES), dims)])
        return self.point(dims, [made]) if self.rng.random() < 0.3 else made

    def graph(self) -> Graph:
        """Values that nobody reads become outputs; so do some others. Nodes in any order."""
        read = {u for n in self.nodes for u in n.reads}
        for node in self.nodes:
            for uid in node.writes:
                if self.tensors[uid].is_virtual and (uid not in read or self.rng.random() < 0.2):
                    self.tensors[uid] = self.tensors[uid].replace(kind="memory")
        self.rng.shuffle(self.nodes)
        tensors = list(self.tensors.values())
        self.rng.shuffle(tensors)
        used = read | {u for n in self.nodes for u in n.writes}
        return Graph(self.nodes, [t for t in tensors if t.uid in used])


# ---- Anchors: each adds a node and gives the uids of its results ----

def _conv(dag, op_class):
    rng = dag.rng
    rank, unit = rng.choice([1, 2, 2, 2, 3]), rng.choice([1, 8])
    groups = rng.choice([1, 1, 1, 2])
    c, k = groups * dag.size(1, 3, unit), groups * dag.size(1, 3, unit)
    x = (rng.randint(1, 3), c, *(rng.randint(3, 7) for _ in range(rank)))
    w = (k, c // groups, *(rng.choice([1, 2, 3]) for _ in range(rank)))
    op = op_class(pre_pad=rng.randint(0, 1), post_pad=rng.randint(0, 1), stride=rng.choice([1, 1, 2]),
                  mode=rng.choice(["cross_correlation"] * 3 + ["convolution"]))
    y = op.out_dims(x, w)
    types = [rng.choice(TYPES)] * 2 if rng.random() < 0.6 else rng.choices(TYPES, k=2)
    dims = {ops.ConvFprop: dict(x=x, w=w, y=y), ops.ConvDgrad: dict(dy=y, w=w, dx=x),
            ops.ConvWgrad: dict(x=x, dy=y, dw=w)}[op_class]
    *reads, out = dims
    operands = {n: dag.before(t, dims[n]) for n, t in zip(reads, types)}
    operands[out] = dag.add(dag.middle(), dims[out], "virtual", rng.choice(["nchw", "nhwc"]))
    dag.node(op, operands)
    return [operands[out]]


def _matmul(dag, op_class):
    rng = dag.rng
    unit, batch = rng.choice([1, 8]), rng.choice([(), (2,), (2, 3)])
    m, n, k = (dag.size(1, 5, unit) for _ in range(3))
    types = [rng.choice(TYPES)] * 2 if rng.random() < 0.6 else rng.choices(TYPES, k=2)
    a, b = dag.before(types[0], (*batch, m,
                                 k)), dag.before(types[1], (*(rng.choice([1, d]) for d in batch), k, n))
    c = dag.add(dag.middle(), (*batch, m, n), "virtual", "nchw")
    dag.node(op_class(), dict(a=a, b=b, c=c))
    return [c]


def _image(dag):
    rng = dag.rng
    found = (rng.randint(1, 3), rng.choice([3, 8, 16]), rng.randint(2, 6), rng.randint(2, 9))
    return (found[0], dag.size(*found[1:2] * 2), *found[2:]) if dag.is_wide else found


def _reduction(dag, op_class):
    dims = _image(dag)
    y = tuple(dag.rng.choice([1, d]) for d in dims)
    out = dag.add(dag.middle(), y, "virtual")
    dag.node(op_class(mode=dag.rng.choice(["add", "max", "min", "amax", "norm1", "avg"])),
             dict(x=dag.before(dag.rng.choice(TYPES), dims), y=out))
    return [out]


def _softmax(dag, op_class):
    dims, dtype = _image(dag), dag.rng.choice(TYPES)
    op = op_class(algorithm=dag.rng.choice(["accurate", "log"]), mode=dag.rng.choice(["channel", "instance"]))
    operands = {o: dag.before(dtype, dims) for o in op.reads}
    operands[op.writes[0]] = dag.add(dag.middle(), dims, "virtual")
    dag.node(op, operands)
    return [operands[op.writes[0]]]


def _pooling(dag, op_class):
    rng, dims = dag.rng, _image(dag)
    op = op_class(mode=rng.choice(["max", "avg_include_padding"]), window=2, stride=rng.choice([1, 2]))
    out, dtype, layout = op.out_dims(dims), rng.choice(TYPES), rng.choice(["nchw", "nhwc"])
    shapes = {o: dims if o in ("x", "dx") else out for o in op.operands()}
    operands = {o: dag.add(dtype, shapes[o], "memory" if o in op.reads else "virtual", layout)
                for o in op.operands()}
    dag.node(op, operands)
    return [operands[op.writes[0]]]


def _batch_norm(dag, op_class):
    rng, dims, dtype = dag.rng, _image(dag), dag.rng.choice(TYPES)
    op = op_class(mode=rng.choice(["spatial", "spatial", "per_activation"]))
    skip = op.optional if rng.random() < 0.4 else op.shared
    layout, operands = rng.choice(["nchw", "nhwc"]), {}
    for o in op.operands():
        if o in skip:
            continue
        is_image = o in ("x", "y", "dy", "dx")
        kind = "memory" if o in op.reads or not is_image else "virtual"
        same = dtype if o in op.reads else dag.middle()
        operands[o] = dag.add(same if is_image else "f32",
                              dims if is_image else op.parameter_dims(dims), kind, layout,
                              name="positive" if o in ("var", "running_var", "rstd") else "")
    scalars = dict(epsilon=FromTensor(dag.add("f32", (1,) * 4, "value",
                                              name="epsilon"))) if rng.random() < 0.5 else {}
    dag.node(op, operands, **scalars)
    image = next(o for o in op.writes if o in ("y", "dx"))
    return [operands[image]]


FAMILIES = {ops.ConvFprop: _conv, ops.ConvDgrad: _conv, ops.ConvWgrad: _conv, ops.Matmul: _matmul,
            ops.Reduction: _reduction,
            ops.BatchNormTraining: _batch_norm, ops.BatchNormInference: _batch_norm,
            ops.BatchNormBwd: _batch_norm,
            ops.SoftmaxFwd: _softmax, ops.SoftmaxBwd: _softmax, ops.PoolingFwd: _pooling,
            ops.PoolingBwd: _pooling, **dag_families.FAMILIES}


def dag(seed: int) -> tuple[Graph, bool]:
    """(a random graph, whether its results are more than sums of small whole numbers). Always the same for a
    seed."""
    rng = random.Random(seed)
    made, values = Dag(rng, is_wide=seed >= WIDE), []
    classes = [list(FAMILIES)[seed % len(FAMILIES)]]
    classes += [rng.choice(list(FAMILIES))] if rng.random() < 0.25 else []
    for op_class in classes:
        made.smooth |= op_class in INEXACT
        results = FAMILIES[op_class](made, op_class)
        values += results
        for _ in range(rng.randint(0, 5)):
            dims = made.tensors[results[0]].dims
            fits = [v for v in values if all(a in (1, b) for a, b in zip(made.tensors[v].dims, dims))
                    and len(made.tensors[v].dims) == len(dims)]
            results.append(made.point(dims, fits))
            values.append(results[-1])
        if rng.random() < 0.25:
            x = rng.choice(results)
            thin = tuple(rng.choice([1, d]) for d in made.tensors[x].dims)
            y = made.add("f32", thin, "virtual")
            made.node(ops.Reduction(mode=rng.choice(["add", "max"])), dict(x=x, y=y))
    return made.graph(), made.smooth


# ---- Running them ----

def inputs(graph: Graph, seed: int) -> dict:
    """{uid: values} of every tensor that the graph reads from memory, and numbers."""
    gen, found = np.random.default_rng(seed), {}
    for uid, t in graph.tensors.items():
        if t.is_by_value:
            found[uid] = 1e-3 if t.name == "epsilon" else float(gen.integers(-1, 3))
        elif uid not in graph.producer:
            raw = gen.integers(-2, 3, t.dims) * (2.0 ** -8 if t.name == "small" else 1.0)
            found[uid] = t.dtype.round(np.abs(raw) + 1 if t.name == "positive" else raw)
    return found


def results(graph: Graph, device, values: dict, wish=ANYTHING, built=None) -> tuple[dict, list]:
    """({uid: values} of the outputs, sentences of what was written elsewhere)."""
    built, texts = built or plan.build(graph, device, wish), []
    key = str(graph.key)
    fill = fill_of(key)
    buffers = {t.uid: Guarded(device, t.desc, shift_of(t.label, t.desc, t.alignment, key), fill)
               for t in built.slots}
    for uid, buffer in buffers.items():
        if uid in values:
            buffer.write(values[uid])
    workspace = Space.for_plan(built, fill)
    numbers = {u: v for u, v in values.items() if graph.tensors[u].is_by_value}
    built.run({**numbers, **{u: b.ptr for u, b in buffers.items()}}, workspace.ptr)
    device.synchronize()
    found = {}
    for uid, buffer in buffers.items():
        got, raw = buffer.read()
        if uid in graph.producer:
            found[uid] = got
        stray = buffer.stray_bytes(raw) if uid in graph.producer else int((raw != buffer.before).sum())
        texts += [f"uid {uid}: {stray} bytes changed that are not its own"] if stray else []
    if workspace.changed_beside():
        texts.append("bytes written beside the workspace")
    return found, texts


def check(graph: Graph, smooth: bool, device, seed: int, wish=ANYTHING, built=None) -> list[str]:
    """What is wrong with the results on a device, against the NumPy device; [] where nothing is."""
    values = inputs(graph, seed)
    built = built or plan.build(graph, device, wish)
    want, _ = results(rounded(graph, built.choice), devices.get("numpy"), values)
    got, texts = results(graph, device, values, wish, built)
    for uid, exact in want.items():
        texts += wrong(graph.tensors[uid], got[uid], exact, smooth, graph)
    return texts


def wrong(tensor, got, want, smooth, graph) -> list[str]:
    """Small whole numbers: one rounding. Else what the coarsest type in the graph explains."""
    coarse = max([t.dtype.eps for t in graph.tensors.values() if t.dtype.kind == "float"] + [2.0 ** -20])
    with np.errstate(all="ignore"):
        size = np.abs(want[np.isfinite(want)]).max() if np.isfinite(want).any() else 0.0
        room = tensor.dtype.eps * np.abs(want) + (8 * coarse if smooth else 2e-5) * size
        room += tensor.dtype.kind != "float" and smooth
        good = (np.abs(got - want) <= room) | (np.isnan(got) & np.isnan(want)) | (got == want)
    if good.all():
        return []
    at = np.unravel_index(int(np.argmin(good)), good.shape)
    return [f"uid {tensor.uid} {tensor}: {(~good).sum()} of {good.size} wrong, "
            f"first at {tuple(map(int, at))}: "
            f"got {got[at]!r}, want {want[at]!r}"]

"""Three graphs of the guide, each as descriptors, through the front end and as a native graph: one plan.

    python examples/three_forms.py [device]

Convolution, bias and ReLU in one; a grouped convolution; attention under a causal mask, drawn as products, a
mask and a softmax. Each result is compared with NumPy's in float64. ``device``: "cuda:0" (the
default where there is one), "numpy", "ptx:sm_80" …
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np

import cydnn.frontend as cudnn
from cydnn import Graph, Node, TensorDesc, backend, plan
from cydnn import device as devices
from cydnn.backend import Descriptor, constant
from cydnn.graph import Tensor
from cydnn.ops import ConvFprop, Matmul, Pointwise, Reduction
from cydnn.tensor import packed_strides

F32 = backend.CUDNN_DATA_FLOAT
PAD, ONES = [1, 1], [1, 1]
CONV = {1: (2, 8, 6, 6), 2: (4, 8, 3, 3), 3: (2, 4, 6, 6), 4: (1, 4, 1, 1), 5: (2, 4, 6, 6), 6: (2, 4, 6, 6)}
GROUPED = {1: (2, 6, 5, 5), 2: (8, 3, 3, 3), 3: (2, 8, 5, 5)}
S, ROW = (2, 3, 5, 7), (2, 3, 5, 1)              # batch, heads, queries, keys
QKV = {1: (2, 3, 5, 4), 2: (2, 3, 4, 7), 3: (2, 3, 7, 4), 4: (1, 1, 1, 1), 5: S, 6: S, 7: S, 8: S, 9: S,
       10: ROW, 11: S, 12: S, 13: ROW, 14: S, 15: (2, 3, 5, 4)}
# What each line of the attention computes: the result, a mode or an operation, what it reads, by uid.
STEPS: tuple[tuple[Any, ...], ...] = (
    (5, "matmul", 1, 2), (6, "gen_index", 5, 2), (7, "gen_index", 5, 3), (8, "cmp_ge", 6, 7),
    (9, "binary_select", 5, 4, 8), (10, "max", 9), (11, "sub", 9, 10), (12, "exp", 11), (13, "add", 12),
    (14, "div", 12, 13), (15, "matmul", 14, 3))

GRAPHS = {"convolution, bias, ReLU": (CONV, (1, 2, 4)), "grouped convolution": (GROUPED, (1, 2)),
          "causal attention": (QKV, (1, 2, 3))}


# ---- Descriptors ----

def made(kind: str, **attributes) -> Descriptor:
    """A finalized descriptor; an attribute's name goes without the kind's in front."""
    d = Descriptor(kind)
    for name, value in attributes.items():
        d.set(f"{kind}_{name}", value)
    return d.finalize()


def tensors(dims: dict, virtual=(), by_value=(), booleans=()) -> dict:
    """Descriptors of packed tensors, by uid."""
    return {uid: made("TENSOR", UNIQUE_ID=uid, DIMENSIONS=d, STRIDES=packed_strides(d), BYTE_ALIGNMENT=16,
                      DATA_TYPE=backend.CUDNN_DATA_BOOLEAN if uid in booleans else F32,
                      IS_VIRTUAL=uid in virtual, IS_BY_VALUE=uid in by_value) for uid, d in dims.items()}


def convolution(t: dict) -> Descriptor:
    """y of uid 3: x of uid 1 with the filters of uid 2, in as many groups as their channels say."""
    c = made("CONVOLUTION", SPATIAL_DIMS=2, COMP_TYPE=F32, CONV_MODE=backend.CUDNN_CROSS_CORRELATION,
             PRE_PADDINGS=PAD, POST_PADDINGS=PAD, FILTER_STRIDES=ONES, DILATIONS=ONES)
    return made("OPERATION_CONVOLUTION_FORWARD", X=t[1], W=t[2], Y=t[3], CONV_DESC=c)


def pointwise(mode: str, y, *reads, axis=0) -> Descriptor:
    """One pointwise operation; ``reads`` are x, b and t."""
    p = made("POINTWISE", MODE=constant(f"CUDNN_POINTWISE_{mode.upper()}"), MATH_PREC=F32, AXIS=axis)
    inputs = dict(zip(("XDESC", "BDESC", "TDESC"), reads))
    return made("OPERATION_POINTWISE", PW_DESCRIPTOR=p, YDESC=y, **inputs)


def step(t: dict, y: int, what: str, *reads) -> Descriptor:
    """One line of STEPS."""
    if what == "matmul":
        a, b = (t[u] for u in reads)
        return made("OPERATION_MATMUL", ADESC=a, BDESC=b, CDESC=t[y], DESC=made("MATMUL", COMP_TYPE=F32))
    if y in (10, 13):
        r = made("REDUCTION", OPERATOR=constant(f"CUDNN_REDUCE_TENSOR_{what.upper()}"), COMP_TYPE=F32)
        return made("OPERATION_REDUCTION", XDESC=t[reads[0]], YDESC=t[y], DESC=r)
    if what == "gen_index":
        return pointwise(what, t[y], t[reads[0]], axis=reads[1])
    return pointwise(what, t[y], *(t[u] for u in reads))


def descriptors(name: str) -> list:
    """The operations of one of the graphs, as descriptors."""
    if name == "grouped convolution":
        return [convolution(tensors(GROUPED))]
    if name == "convolution, bias, ReLU":
        t = tensors(CONV, virtual=(3, 5))
        return [convolution(t), pointwise("add", t[5], t[3], t[4]), pointwise("relu_fwd", t[6], t[5])]
    t = tensors(QKV, virtual=range(5, 15), by_value=(4,), booleans=(8,))
    return [step(t, *line) for line in STEPS]


def run_descriptors(name: str, device, pack: dict) -> str:
    """Graph, heuristics, plan, variant pack; what was chosen."""
    graph = made("OPERATIONGRAPH", OPS=descriptors(name), HANDLE=device)
    found = made("ENGINEHEUR", OPERATION_GRAPH=graph, MODE=backend.CUDNN_HEUR_MODE_A)
    p = made("EXECUTION_PLAN", ENGINE_CONFIG=found.get("ENGINEHEUR_RESULTS")[0], HANDLE=device)
    workspace = device.alloc(max(p.get("EXECUTION_PLAN_WORKSPACE_SIZE")[0], 1))
    backend.cudnnBackendExecute(device, p, made("VARIANT_PACK", UNIQUE_IDS=list(pack), WORKSPACE=workspace,
                                                DATA_POINTERS=list(pack.values())))
    return p.made.layout.choice.text


# ---- The front end ----

def front_end(name: str, device) -> cudnn.pygraph:
    """The same graph, in calls."""
    f32 = cudnn.data_type.FLOAT
    g = cudnn.pygraph(handle=device, io_data_type=f32, intermediate_data_type=f32, compute_data_type=f32)
    of = lambda dims, uid, **more: g.tensor(dim=dims[uid], stride=packed_strides(dims[uid]), uid=uid, **more)
    shaped = lambda t, dims, uid: t.set_uid(uid).set_dim(dims[uid]).set_stride(packed_strides(dims[uid]))
    if name == "grouped convolution":
        y = g.conv_fprop(of(GROUPED, 1), of(GROUPED, 2), padding=PAD, stride=ONES, dilation=ONES)
        shaped(y, GROUPED, 3).set_output(True)
    elif name == "convolution, bias, ReLU":
        y = shaped(g.conv_fprop(of(CONV, 1), of(CONV, 2), padding=PAD, stride=ONES, dilation=ONES), CONV, 3)
        shaped(g.relu(shaped(g.add(y, of(CONV, 4)), CONV, 5)), CONV, 6).set_output(True)
    else:
        s = g.matmul(of(QKV, 1), of(QKV, 2)).set_uid(5)
        is_seen = g.cmp_ge(g.gen_index(s, axis=2).set_uid(6), g.gen_index(s, axis=3).set_uid(7)).set_uid(8)
        is_seen.set_data_type(cudnn.data_type.BOOLEAN)
        masked = g.binary_select(s, of(QKV, 4, is_pass_by_value=True), is_seen).set_uid(9)
        top = shaped(g.reduction(masked, cudnn.reduction_mode.MAX), QKV, 10)
        raised = g.exp(g.sub(masked, top).set_uid(11)).set_uid(12)
        total = shaped(g.reduction(raised, cudnn.reduction_mode.ADD), QKV, 13)
        g.matmul(g.div(raised, total).set_uid(14), of(QKV, 3)).set_uid(15).set_output(True)
    return g


def run_front_end(name: str, device, pack: dict) -> str:
    """Build and execute; what was chosen."""
    g = front_end(name, device)
    g.build([cudnn.heur_mode.A])
    g.execute(pack, device.alloc(max(g.get_workspace_size(), 1)))
    return g.plan.layout.choice.text


# ---- The native graph ----

def native(name: str) -> Graph:
    """The same graph, as nodes over tensors."""
    kinds = {"grouped convolution": (GROUPED, ()), "convolution, bias, ReLU": (CONV, (3, 5))}
    dims, virtual = kinds.get(name, (QKV, range(5, 15)))
    kind = lambda uid: "virtual" if uid in virtual else "value" if dims is QKV and uid == 4 else "memory"
    ts = [Tensor(uid, TensorDesc.packed("bool" if dims is QKV and uid == 8 else "f32", d), kind=kind(uid))
          for uid, d in dims.items()]
    if dims is QKV:
        return Graph([node(*line) for line in STEPS], ts)
    op = ConvFprop(pre_pad=(1, 1), post_pad=(1, 1), stride=(1, 1), dilation=(1, 1))
    nodes = [Node(op, dict(x=1, w=2, y=3))]
    if dims is CONV:
        nodes += [Node(Pointwise(mode="add"), dict(x=3, b=4, y=5)),
                  Node(Pointwise(mode="relu_fwd"), dict(x=5, y=6))]
    return Graph(nodes, ts)


def node(y: int, what: str, *reads) -> Node:
    """One line of STEPS."""
    if what == "matmul":
        return Node(Matmul(), dict(a=reads[0], b=reads[1], c=y))
    if y in (10, 13):
        return Node(Reduction(mode=what), dict(x=reads[0], y=y))
    if what == "gen_index":
        return Node(Pointwise(mode=what, axis=reads[1]), dict(x=reads[0], y=y))
    return Node(Pointwise(mode=what), dict(zip("xbt", reads), y=y))


def run_native(name: str, device, pack: dict) -> str:
    """Build and run; what was chosen."""
    p = plan.build(native(name), device)
    p.run(pack, device.alloc(max(p.workspace_bytes, 1)))
    return p.layout.choice.text


# ---- Compared ----

def convolved(x, w, groups: int):
    """The convolution in float64."""
    x, w = np.pad(np.asarray(x, "f8"), ((0, 0), (0, 0), (1, 1), (1, 1))), np.asarray(w, "f8")
    c, k = w.shape[1], len(w) // groups
    views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.concatenate([np.einsum("ncpqrs,kcrs->nkpq", views[:, g * c:(g + 1) * c], w[g * k:(g + 1) * k])
                           for g in range(groups)], axis=1)


def expected(name: str, a: dict):
    """The result in float64."""
    if name == "grouped convolution":
        return convolved(a[1], a[2], 2)
    if name == "convolution, bias, ReLU":
        return np.maximum(convolved(a[1], a[2], 1) + a[4], 0)
    s = np.asarray(a[1], "f8") @ np.asarray(a[2], "f8")
    s[..., ~np.tri(*S[2:], dtype=bool)] = -np.inf
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ np.asarray(a[3], "f8")


def main(name=None) -> float:
    """Run each graph in each form; the largest error."""
    device, random, worst = devices.get(name), np.random.default_rng(0), 0.0
    for title, (dims, inputs) in GRAPHS.items():
        arrays = {uid: random.normal(size=dims[uid]).astype("f") for uid in inputs}
        result = np.empty(dims[max(dims)], "f")
        chosen = set()
        for run in (run_descriptors, run_front_end, run_native):
            pack = {uid: device.alloc(a.nbytes) for uid, a in (*arrays.items(), (max(dims), result))}
            for uid, a in arrays.items():
                device.copy_in(pack[uid], a)
            number = {4: np.array(-np.inf, "f")} if dims is QKV else {}
            chosen.add(run(title, device, pack | number))
            device.copy_out(pack[max(dims)], result)
            worst = max(worst, float(np.abs(result - expected(title, arrays)).max()))
        print(f"{title}: {'; '.join(min(chosen).splitlines())}: largest error {worst:.1e}")
        if len(chosen) > 1:
            raise SystemExit(f"{title}: the three forms were planned in {len(chosen)} ways")
    return worst


if __name__ == "__main__":
    main(*sys.argv[1:2])

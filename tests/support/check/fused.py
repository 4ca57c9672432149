"""A product with bias, residual and a function behind it, for one engine in one configuration: what it gives
against the NumPy device."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from cydnn import device as devices, kernels, plan
from cydnn.graph import Graph, Node, Tensor
from cydnn.heuristics import candidates
from cydnn.ops import Pointwise
from cydnn.tensor import TensorDesc

from ..draw import graphs

X, W, B, R, SUM, BIASED, ADDED, Y, MASK = range(1, 10)       # uids


def graph_of(problem, keeps="", mode="relu_fwd", alpha=1.0) -> Graph:
    """mode(product + bias + residual); what is before it may be kept, or whether it is above the residual."""
    names = *problem.op.reads[:2], problem.op.writes[0]
    x, w, y = (problem.operands[name] for name in names)
    bias = [d if axis == (1 if y.rank in (4, 5) else y.rank - 1) else 1 for axis, d in enumerate(y.dims)]
    between = TensorDesc("f32", y.dims, y.strides)
    tensors = [Tensor(X, x), Tensor(W, w), Tensor(B, TensorDesc.packed(y.dtype, bias)), Tensor(Y, y),
               Tensor(R, TensorDesc(y.dtype, y.dims, y.strides)), Tensor(SUM, between, "virtual"),
               Tensor(BIASED, between, "virtual"),
               Tensor(ADDED, between, "memory" if keeps == "sum" else "virtual")]
    nodes = [Node(problem.op, dict(zip(names, (X, W, SUM))), dict(problem.op.scalars, alpha=alpha)),
             Node(Pointwise(mode="add"), dict(x=SUM, b=B, y=BIASED)),
             Node(Pointwise(mode="add"), dict(x=BIASED, b=R, y=ADDED)),
             Node(Pointwise(mode=mode), dict(x=ADDED, y=Y))]
    if keeps == "mask":
        tensors.append(Tensor(MASK, TensorDesc("bool", y.dims, y.strides)))
        nodes.append(Node(Pointwise(mode="cmp_gt"), dict(x=ADDED, b=R, y=MASK)))
    return Graph(nodes, tensors)


def choice_of(engine, graph, facts, is_meant):
    """The choice of one part, by an engine in the first configuration that is meant."""
    choice = next(c for c in candidates(graph, facts) if [p.engine for p in c.parts] == [engine])
    return configured(choice, facts, is_meant)


def configured(choice, facts, is_meant):
    """A choice of one part in the first configuration that is meant."""
    part, = choice.parts
    config = next(c for c in part.engine.configs(part.match, facts) if is_meant(c))
    return replace(choice, parts=(replace(part, config=config),))


def values_of(graph) -> dict:
    """Small whole numbers for all that is read."""
    rng = np.random.default_rng(0)
    return {t.uid: rng.integers(-2, 3, t.dims).astype(np.float32)
            for t in graph.tensors.values() if t.uid in (X, W, B, R)}


def differences(device, engine, graph, is_meant, form, kernel="", is_rounded=False) -> list:
    """Of a graph in the first configuration that is meant; it must leave by that way out of a kernel of that
    name (or its end). ``is_rounded``: the last place of the output may differ."""
    choice = choice_of(engine, graph, device.facts, is_meant)
    part, = choice.parts
    launch = engine.plan(part.match, device.facts, part.config)[-1]
    found, = [launch.args[name] for name in ("y_form", "c_form", "dw_form") if name in launch.args]
    assert found == form and "pairs" in kernels.get(launch.kernel).marks and launch.kernel.endswith(kernel)
    values = values_of(graph)
    values[W] /= 64 if is_rounded else 1         # far out GELU is 0 in NumPy, and nearly so in the kernel
    want = graphs.run(graph, values, devices.get("numpy"))
    got = graphs.execute(plan.made(choice, device), values)
    if not is_rounded:
        return graphs.differences(graph, got, want)
    return [uid for uid in want if not np.allclose(got[uid], want[uid], graph.tensors[Y].dtype.eps, 1e-6)]

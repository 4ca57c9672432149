"""What is fused behind Hopper's tile program where whole tiles lie in the output: it works on the sums, and
leaves by TMA. Beside them tiles that end outside, and graphs with a second output, which take other ways."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cydnn import device as devices, kernels, plan
from cydnn.engines import BY_INDEX
from cydnn.engines.matmul.blocks import FUSED, ROWS
from cydnn.graph import Graph, Node, Tensor
from cydnn.heuristics import candidates
from cydnn.ops import Pointwise, Problem
from cydnn.tensor import TensorDesc
from support import graphs, hopper

X, W, B, R, SUM, BIASED, ADDED, Y, MASK = range(1, 10)       # uids
LINES = {"conv": (117, "conv_fprop n2c72h9w16 k136r1s2 pad1 bf16 nhwc", ("x", "w", "y")),
         "product": (189, "matmul a=2x200x72 b=2x72x320 c=2x200x320 f16", ("a", "b", "c"))}
IN_TURN = {"a tile is deeper than the ring": (117, "conv_fprop n1c8h9w24 k264r3s3 pad1 bf16 nhwc"),
           "a tile is a stage": (117, "conv_fprop n1c40h13w24 k264r1s1 f16 nhwc"),
           "a tile is the ring": (117, "conv_fprop n1c72h10w24 k264r2s1 f16 nhwc"),
           "product": (189, "matmul a=200x456 b=456x320 c=200x320 f16"),
           "product across": (189, "matmul a=300x200 b=200x264@1,200 c=300x264 bf16")}
FIRST = {"few": "conv_fprop n1c3h3w150 k72r3s7 stride=1,2 pad=1,3 bf16 nhwc",
         "many": "conv_fprop n1c1h2w300 k136r3s20 stride=1,2 pad=1,9 f16 nhwc"}


def graph_of(problem, names, keeps="", mode="relu_fwd") -> Graph:
    """mode(product + bias + residual); what is before it may be kept, or whether it is above the residual."""
    x, w, y = (problem.operands[name] for name in names)
    bias = [d if axis == (1 if y.rank == 4 else y.rank - 1) else 1 for axis, d in enumerate(y.dims)]
    between = TensorDesc("f32", y.dims, y.strides)
    tensors = [Tensor(X, x), Tensor(W, w), Tensor(B, TensorDesc.packed(y.dtype, bias)), Tensor(Y, y),
               Tensor(R, TensorDesc(y.dtype, y.dims, y.strides)), Tensor(SUM, between, "virtual"),
               Tensor(BIASED, between, "virtual"),
               Tensor(ADDED, between, "memory" if keeps == "sum" else "virtual")]
    nodes = [Node(problem.op, dict(zip(names, (X, W, SUM)))),
             Node(Pointwise(mode="add"), dict(x=SUM, b=B, y=BIASED)),
             Node(Pointwise(mode="add"), dict(x=BIASED, b=R, y=ADDED)),
             Node(Pointwise(mode=mode), dict(x=ADDED, y=Y))]
    if keeps == "mask":
        tensors.append(Tensor(MASK, TensorDesc("bool", y.dims, y.strides)))
        nodes.append(Node(Pointwise(mode="cmp_gt"), dict(x=ADDED, b=R, y=MASK)))
    return Graph(nodes, tensors)


def differences(engine, graph, is_meant, form, kernel="", is_rounded=False) -> list:
    """Of a graph on three SMs, in the configuration that is meant; it must leave by that way out.
    ``is_rounded``: the last place of the output may differ."""
    machine = hopper.device(3)
    choice = next(c for c in candidates(graph, machine.facts) if [p.engine for p in c.parts] == [engine])
    match = choice.parts[0].match
    config = next(c for c in engine.configs(match, machine.facts) if is_meant(c))
    launch = engine.plan(match, machine.facts, config)[-1]
    found, = [launch.args[name] for name in ("y_form", "c_form") if name in launch.args]
    assert found == form and "pairs" in kernels.get(launch.kernel).marks and launch.kernel.endswith(kernel)
    rng = np.random.default_rng(0)
    values = {t.uid: rng.integers(-2, 3, t.dims).astype(np.float32)
              for t in graph.tensors.values() if t.uid in (X, W, B, R)}
    values[W] /= 64 if is_rounded else 1         # far out GELU is 0 in NumPy, and nearly so in the kernel
    want = graphs.run(graph, values, devices.get("numpy"))
    part = replace(choice.parts[0], config=config)
    got = graphs.execute(plan.made(replace(choice, parts=(part,)), machine), values)
    if not is_rounded:
        return graphs.differences(graph, got, want)
    return [uid for uid in want if not np.allclose(got[uid], want[uid], graph.tensors[Y].dtype.eps, 1e-6)]


@pytest.mark.share(7)
@pytest.mark.parametrize("keeps", ["", "sum"], ids=["one output", "two outputs"])
@pytest.mark.parametrize("tile", ["128x256", "128x128", "64x256", "64x128", "128x64"])
@pytest.mark.parametrize("kind", LINES)
def test_values(kind, tile, keeps):
    index, line, names = LINES[kind]
    assert not differences(BY_INDEX[index], graph_of(Problem.parse(line), names, keeps),
                           lambda c: (c.tile, c.splits, c.team) == (tile, 1, 1), ROWS if keeps else FUSED)


@pytest.mark.share(2)
@pytest.mark.parametrize("keeps", ["", "sum", "mask"], ids=["one output", "two outputs", "mask"])
@pytest.mark.parametrize("kind, tile", [(kind, tile) for kind, (index, _) in IN_TURN.items()
                                        for tile in ("128x256", "128x128", "128x64")
                                        if index == 117 or tile != "128x64"])
def test_values_in_turn(kind, tile, keeps):
    """The second warpgroup behind the first."""
    index, line = IN_TURN[kind]
    problem = Problem.parse(line)
    graph = graph_of(problem, (*problem.op.reads[:2], problem.op.writes[0]), keeps, "gelu_fwd")
    assert not differences(BY_INDEX[index], graph, lambda c: c.tile == tile and c.get("turns"),
                           ROWS if keeps else FUSED, "_turns", is_rounded=True)


@pytest.mark.share(1)
@pytest.mark.parametrize("line", FIRST.values(), ids=FIRST)
def test_values_of_first_layers(line):
    graph = graph_of(Problem.parse(line), ("x", "w", "y"), mode="gelu_fwd")
    assert not differences(BY_INDEX[118], graph, lambda c: c.get("out") == "pairs", FUSED, "_pairs",
                           is_rounded=True)

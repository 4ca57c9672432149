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

X, W, B, R, SUM, BIASED, ADDED, Y = range(1, 9)  # uids
LINES = {"conv": (117, "conv_fprop n2c72h9w16 k136r1s2 pad1 bf16 nhwc", ("x", "w", "y")),
         "product": (189, "matmul a=2x200x72 b=2x72x320 c=2x200x320 f16", ("a", "b", "c"))}


def graph_of(problem, names, keeps: bool) -> Graph:
    """relu(product + bias + residual); what is before it may be kept."""
    x, w, y = (problem.operands[name] for name in names)
    bias = [d if axis == (1 if y.rank == 4 else y.rank - 1) else 1 for axis, d in enumerate(y.dims)]
    between = TensorDesc("f32", y.dims, y.strides)
    tensors = [Tensor(X, x), Tensor(W, w), Tensor(B, TensorDesc.packed(y.dtype, bias)), Tensor(Y, y),
               Tensor(R, TensorDesc(y.dtype, y.dims, y.strides)), Tensor(SUM, between, "virtual"),
               Tensor(BIASED, between, "virtual"),
               Tensor(ADDED, between, "memory" if keeps else "virtual")]
    return Graph([Node(problem.op, dict(zip(names, (X, W, SUM)))),
                  Node(Pointwise(mode="add"), dict(x=SUM, b=B, y=BIASED)),
                  Node(Pointwise(mode="add"), dict(x=BIASED, b=R, y=ADDED)),
                  Node(Pointwise(mode="relu_fwd"), dict(x=ADDED, y=Y))], tensors)


@pytest.mark.share(7)
@pytest.mark.parametrize("keeps", [False, True], ids=["one output", "two outputs"])
@pytest.mark.parametrize("tile", ["128x256", "128x128", "64x256", "64x128", "128x64"])
@pytest.mark.parametrize("kind", LINES)
def test_values(kind, tile, keeps):
    index, line, names = LINES[kind]
    engine, machine, graph = BY_INDEX[index], hopper.device(3), graph_of(Problem.parse(line), names, keeps)
    choice = next(c for c in candidates(graph, machine.facts) if [p.engine for p in c.parts] == [engine])
    match = choice.parts[0].match
    every = engine.configs(match, machine.facts)
    config = next(c for c in every if (c.tile, c.splits, c.team) == (tile, 1, 1))
    launch = engine.plan(match, machine.facts, config)[-1]
    form, = [launch.args[name] for name in ("y_form", "c_form") if name in launch.args]
    assert form == (ROWS if keeps else FUSED) and "pairs" in kernels.get(launch.kernel).marks
    rng = np.random.default_rng(0)
    values = {t.uid: rng.integers(-2, 3, t.dims).astype(np.float32)
              for t in graph.tensors.values() if t.uid in (X, W, B, R)}
    want = graphs.run(graph, values, devices.get("numpy"))
    part = replace(choice.parts[0], config=config)
    got = graphs.execute(plan.made(replace(choice, parts=(part,)), machine), values)
    assert not graphs.differences(graph, got, want)

"""What is fused behind the sums of splits of conv_wgrad, where these lie with channels filled up: an operand
that has one value for each filter, channel or tap of dw, or some of them.
"""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn import device as devices, kernels, plan
from cydnn.graph import Graph, Node, Tensor
from cydnn.ops import Pointwise, Problem
from cydnn.tensor import TensorDesc
from support.draw import alone, graphs
from support.check import fused

import watched

KERNEL, ENGINE = "conv_wgrad_mma_sum_f16", alone.BY_NAME["conv_wgrad_mma"]
PROBLEM = Problem.parse("conv_wgrad n2c5h12w15 k6r3s3 pad1 f16 dw=6x5x3x3:f16 nhwc")    # 5 channels of 8
X, DY, B, SUM, DW = range(1, 6)                  # uids
SHAPES = [(6, 1, 1, 1), (1, 5, 1, 1), (1, 1, 3, 3), (1, 5, 3, 1), (6, 1, 1, 3)]
COLUMN = r"(mad\.lo\.s32\s+%r\d+, %r\d+, )%r\d+(, %r\d+;\s+// begin inline asm\s+// @fuse\.epilogue)"


def graph_of(problem, dims) -> Graph:
    """The sums plus an operand of some of their dims."""
    x, dy, dw = (problem.operands[name] for name in ("x", "dy", "dw"))
    tensors = [Tensor(X, x), Tensor(DY, dy), Tensor(B, TensorDesc.packed("f16", dims)), Tensor(DW, dw),
               Tensor(SUM, TensorDesc("f32", dw.dims, dw.strides), "virtual")]
    return Graph([Node(problem.op, dict(x=X, dy=DY, dw=SUM)),
                  Node(Pointwise(mode="add"), dict(x=SUM, b=B, y=DW))], tensors)


def differences(device, dims) -> list:
    graph, rng = graph_of(PROBLEM, dims), np.random.default_rng(0)
    choice = fused.choice_of(ENGINE, graph, device.facts, lambda config: config.get("splits", 1) > 1)
    values = {u: rng.integers(-2, 3, graph.tensors[u].dims).astype(np.float32) for u in (X, DY, B)}
    want = graphs.run(graph, values, devices.get("numpy"))
    return graphs.differences(graph, graphs.execute(plan.made(choice, device), values), want)


@pytest.mark.parametrize("dims", SHAPES, ids=str)
def test_right(dims):
    with watched.watching():
        assert not differences(watched.PtxDevice("sm_80"), dims)


def test_columns_of_what_is_filled_up():
    """A column that counts the channels which are filled up."""
    device, text = watched.PtxDevice("sm_80"), kernels.get(KERNEL).image_for(80).text().decode()
    device.replaced[KERNEL] = re.sub(COLUMN, r"\g<1>8\2", text)
    assert device.replaced[KERNEL] != text
    with watched.watching():
        assert any(differences(device, dims) for dims in SHAPES)

"""Why this engine, and how fast: a convolution and what follows it, on cards that need not be here.

    python examples/explain.py [card]

Prints what would run on the card ("h200" by default; t4 a100 rtx4090 h100 b200), which engines refused and
why, and what fusing saves by the estimates. Computes the same on the NumPy device and compares.
"""
from __future__ import annotations

import sys

import numpy as np

import cydnn
from cydnn import TensorDesc, plan
from cydnn.device.facts import KNOWN
from cydnn.graph import Graph, Node, Tensor
from cydnn.layout import Layout
from cydnn.ops import ConvFprop, Pointwise


def fused(dims=(32, 64, 56, 56), filters=64) -> Graph:
    """relu(conv(x, w) + bias) in f16, channels last; sums and what lies between in f32."""
    x, w = TensorDesc.packed("f16", dims, "nhwc"), TensorDesc.packed("f16", (filters, dims[1], 3, 3), "nhwc")
    y = TensorDesc.packed("f32", (dims[0], filters, *dims[2:]), "nhwc")
    bias = TensorDesc.packed("f16", (1, filters, 1, 1))
    tensors = [Tensor(1, x, name="x"), Tensor(2, w, name="w"), Tensor(3, y, "virtual"),
               Tensor(4, bias, name="bias"), Tensor(5, y, "virtual"),
               Tensor(6, y.replace(dtype="f16"), name="y")]
    return Graph([Node(ConvFprop(pre_pad=(1, 1), post_pad=(1, 1)), dict(x=1, w=2, y=3)),
                  Node(Pointwise(mode="add"), dict(x=3, b=4, y=5)),
                  Node(Pointwise(mode="relu_fwd"), dict(x=5, y=6))], tensors)


def saved(graph: Graph, facts) -> tuple[float, float]:
    """(microseconds of the plan, of its nodes one by one) by the estimates."""
    apart = 0.0
    for node in graph.nodes:
        absent = {o: None for o in node.op.optional if o not in node.operands}
        descs = {o: d.replace(dtype="f16") for o, d in graph.described(node).items()}
        apart += Layout.of(Graph.single(node.op, {**absent, **descs}), facts).choice.us
    return Layout.of(graph, facts).choice.us, apart


def main(card="h200") -> dict:
    graph, facts = fused(), KNOWN[card]
    print(plan.explain(graph, card))
    together, apart = saved(graph, facts)
    print(f"\nin one {together:.1f} us, node by node {apart:.1f} us")
    x = np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype("f4")
    w = np.ones((4, 4, 3, 3), "f4")
    y = cydnn.relu(cydnn.conv(x, w, w[:, 0, 0, 0], padding=1))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    right = np.maximum(windows.sum((1, 4, 5))[:, None] + 1, 0)
    error = float(abs(y - right).max())
    print(f"largest error on the NumPy device: {error:.1g}")
    return dict(together=together, apart=apart, error=error)


if __name__ == "__main__":
    main(*sys.argv[1:])

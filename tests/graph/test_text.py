"""Graphs as text: rows that read back, a digest that every process agrees on, lines for errors and logs."""
from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nodes import binary, t, unary, v
from cydnn.graph import FromTensor, Graph, Match, Node, Tensor
from cydnn.graph.text import describe, digest, from_rows, problems, rows
from cydnn.ops import ConvFprop, Pointwise
from cydnn.status import BadParam
from cydnn.steps import Scalar
from cydnn.tensor import TensorDesc
from support.draw import graphs


def full() -> Graph:
    """A graph with everything that rows have to say."""
    conv = Node(ConvFprop(pre_pad=(1, 0), stride=2, compute="f64", mode="convolution"), dict(x=1, w=2, y=3),
                dict(alpha=0.5),
                name="stem")
    relu = Node(Pointwise(mode="relu_fwd", relu_upper_clip=6.0, nan="ignore"), dict(x=3, y=4),
                dict(alpha1=FromTensor(9)))
    return Graph([conv, relu, unary(4, 5)],
                 [t(1, (2, 8, 9, 9), "f16", layout="nhwc", alignment=2, name="image"),
                  t(2, (4, 8, 3, 3), "i8", reordering="int8x32"),
                  v(3, (2, 4, 4, 4)), t(4, (2, 4, 4, 4), "f8_e5m2"),
                  Tensor(5, TensorDesc("bool", (2, 4, 4, 4), (200, 1, 40, 10))),
                  t(9, (1, 1, 1, 1), kind="value", scalar=Scalar(9, 2.5)), t(11, (2, 1, 1, 1), "i32"),
                  t(12, (1, 1, 1, 1), ragged=11),
                  Tensor(13, TensorDesc("i8", (2, 1, 3, 3), (9, 9, 3, 1), 4))], "block")


def test_rows_read_back():
    graph = full()
    again = from_rows(json.loads(json.dumps(rows(graph))))
    assert again.key == graph.key and rows(again) == rows(graph)
    assert [n.name for n in again.nodes] == ["stem", "pointwise", "abs45"] and again.name == "block"
    assert again.tensors[1].name == "image" and again.tensors[9].scalar == Scalar(9, 2.5)


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_read_back(seed):
    rng = random.Random(seed)
    drawn = graphs.region(rng) if seed % 2 else graphs.anchored(rng, list(graphs.FORMS)[seed // 2 % 5])
    graph = drawn.graph()
    again = from_rows(json.loads(json.dumps(rows(graph))))
    assert again.key == graph.key and digest(again) == digest(graph) == digest(drawn.graph(shuffled=True))


def test_a_digest_says_what_a_graph_is():
    """Not what people call it; the same in every process."""
    graph, made = full(), "from test_text import full, digest; print(digest(full()))"
    unnamed = Graph([Node(n.op, n.operands, n.scalars)
                     for n in graph.nodes], [x.replace(name="") for x in graph.tensors.values()])
    assert digest(unnamed) == digest(graph) and len(digest(graph)) == 32
    assert digest(Graph(graph.nodes, [x.replace(alignment=32)
                                      for x in graph.tensors.values()])) != digest(graph)
    said = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parent,
                          env=dict(os.environ, PYTHONHASHSEED="7",
                                   PYTHONPATH=":".join(map(str, Path(__file__).parents[1:3]))))
    assert said.stdout.strip() == digest(graph)


def test_lines_for_people():
    graph = Graph([binary(1, 1, 2, "mul"), unary(2, 3)], [t(1), v(2), t(3, dtype="f16")])
    assert problems(graph) == ("pointwise x=2x4:f32 b=2x4:f32 y=2x4:f32 mode=mul -> "
                               "pointwise x=2x4:f32 y=2x4:f16 mode=abs")
    assert describe(Match.single(graph, 0)) == "x=2x4:f32:nchw b=2x4:f32:nchw y=2x4:f32:nchw"


@pytest.mark.parametrize("change, sentence", [
    (lambda r: r.pop("nodes"),
     "graph: rows must be those that a graph was written as; got KeyError: 'nodes'"),
    (lambda r: r["nodes"][0].update(op="convolve"), "graph: op must be one of conv_fprop .*; got 'convolve'"),
    (lambda r: r["nodes"][0].update(op="conv_fprop stride=x"), "graph: rows must be .*; got ValueError"),
    (lambda r: r["nodes"][0].update(op="conv_fprop stripe=1"),
     "graph: rows must be .*; got KeyError: 'stripe'"),
    (lambda r: r["nodes"][0]["operands"].update(x=77), "stem: x must be a tensor of the graph; got uid 77"),
    (lambda r: r["tensors"][0].update(dtype="f12"), "dtype must be one of .*; got 'f12'"),
    (lambda r: r["tensors"][0].update(colour="red"), "graph: rows must be .*; got TypeError"),
    (lambda r: r["tensors"].append(7), "graph: rows must be .*; got TypeError"),
])
def test_rows_that_are_none(change, sentence):
    found = rows(full())
    change(found)
    with pytest.raises(BadParam, match=sentence):
        from_rows(found)

"""Transform, AddTensor, OpTensor, SetTensor, ScaleTensor without a GPU: choices, refusals,
and the transpose's geometry."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.engines import engines_for
from cydnn.steps import Scalar
from cydnn.engines.layout.transpose import TILE, TransformTranspose
from cydnn.graph import Graph
from cydnn.heuristics import rank
from cydnn.heuristics.cover import match_of
from cydnn.ops import AddTensor, OpTensor, ScaleTensor, SetTensor, Transform
from cydnn.tensor import TensorDesc
from support.draw import draw
from support.matrix import graph_of

H200 = KNOWN["h200"]
TRANSPOSE = TransformTranspose()
packed = TensorDesc.packed


def match(op, **descs):
    graph = Graph.single(op, descs)
    return match_of(graph, graph.nodes[0])


def transform(x, y):
    return match(Transform(), x=x, y=y)


@pytest.mark.parametrize("want, x, y", [
    ("transform_transpose", packed("f16", (8, 64, 28, 28)), packed("f16", (8, 64, 28, 28), "nhwc")),
    ("transform_transpose", packed("f32", (8, 64, 28, 28), "nhwc"), packed("f16", (8, 64, 28, 28))),
    ("transform_vector", packed("f16", (8, 64, 28, 28), "nhwc"), packed("f32", (8, 64, 28, 28), "nhwc")),
    ("transform_strided", packed("f16", (8, 64, 28, 28)),
     TensorDesc("f16", (8, 64, 28, 28), (200704, 2, 7168, 256))),
    ("transform_strided", packed("i8", (8, 64, 28, 28)), packed("f32", (8, 64, 28, 28), "nhwc")),
])
def test_first_choice(want, x, y):
    accepted, _ = rank(transform(x, y), H200)
    assert accepted[0][1].name == want


@pytest.mark.parametrize("want, x, y", [
    ("must be contiguous along different dims", packed("f16", (8, 64, 28, 28)),
     packed("f16", (8, 64, 28, 28))),
    ("y must be one of f64 f32 f16 bf16; got i8", packed("f16", (8, 64, 3, 3)),
     packed("i8", (8, 64, 3, 3), "nhwc")),
    ("x and y must both be f64 or neither; got f32 and f64", packed("f32", (8, 64, 3, 3)),
     packed("f64", (8, 64, 3, 3), "nhwc")),
])
def test_transpose_refuses(want, x, y):
    assert any(want in r for r in TRANSPOSE.refuse(transform(x, y), H200))


def permuted(rng, dims):
    order = list(range(len(dims)))
    rng.shuffle(order)
    return order


@pytest.mark.parametrize("seed", range(60))
def test_transpose_geometry(seed):
    """Over all tiles, (x address, y address) are the pairs of Transform, and vectors are aligned."""
    rng = random.Random(seed)
    dims = tuple(rng.choice([1, 2, 3, 8, 17, 70]) for _ in range(rng.randint(2, 4)))
    dtype = rng.choice(["f32", "f16"])
    p = transform(packed(dtype, dims, permuted(rng, dims)), packed(dtype, dims, permuted(rng, dims)))
    if not TRANSPOSE.accepts(p, H200):
        return
    (launch,) = TRANSPOSE.plan(p, H200)
    a = launch.args
    grid = kernels.get(launch.kernel).pack(a, **launch.extra).grid[0]
    pairs = set()
    for block in range(grid):
        row_tile, rest = block % a["row_tiles"], block // a["row_tiles"]
        col_tile, batch = rest % a["col_tiles"], rest // a["col_tiles"]
        for r in range(row_tile * TILE, min(row_tile * TILE + TILE, a["rows"])):
            for c in range(col_tile * TILE, min(col_tile * TILE + TILE, a["cols"])):
                pairs.add((batch * a["x_batch"] + r * a["x_row"] + c,
                           batch * a["y_batch"] + c * a["y_col"] + r))
    index = np.indices(dims).reshape(len(dims), -1)
    at = lambda d: sum(i * s for i, s in zip(index, d.strides)).tolist()
    assert pairs == set(zip(at(p.x), at(p.y)))
    bytes = p.x.dtype.bytes
    assert not any(v * bytes % a["x_bytes"] for v in (a["cols"], a["x_row"], a["x_batch"]))
    assert not any(v * bytes % a["y_bytes"] for v in (a["rows"], a["y_col"], a["y_batch"]))


@pytest.mark.parametrize("size, alignment, x_bytes",
                         [(56, 16, 16), (56, 8, 8), (56, 2, 2), (14, 16, 8), (7, 16, 2)])
def test_transpose_accesses_of_resnet_layers(size, alignment, x_bytes):
    x, y = packed("f16", (4, 64, size, size), alignment=alignment), packed("f16", (4, 64, size, size), "nhwc")
    (launch,) = TRANSPOSE.plan(transform(x, y), H200)
    assert launch.args["x_bytes"] == x_bytes and launch.args["y_bytes"] == 16


@pytest.mark.parametrize("op", [Transform, AddTensor, OpTensor, SetTensor, ScaleTensor])
@pytest.mark.parametrize("seed", range(20))
def test_something_takes_every_problem(op, seed):
    graph = graph_of(draw(op, random.Random(seed)), {})
    p = match_of(graph, graph.nodes[0])
    takers = [e for e in engines_for(op) if e.accepts(p, H200)]
    assert any("strided" in e.name or "fill" in e.name for e in takers)
    for engine in takers:
        for launch in engine.plan(p, H200):
            kernels.get(launch.kernel).pack(launch.args, **launch.extra)


def test_scalars():
    """Who blends with what: the kernel with alpha and beta, the program with the rest."""
    d = packed("f32", (2, 8, 4, 4))
    plan = lambda op, **descs: engines_for(op)[0].plan(match(op, **descs), H200)[0]
    launch = plan(OpTensor(), a=d, b=packed("f32", (1, 8, 1, 1)), c=d)
    assert launch.args["alpha"] == 1.0 and launch.args["beta"] == Scalar((0, "beta"), 0.0)
    assert [s.key for s in launch.fuse.scalars] == [(0, "alpha1"), (0, "alpha2")]
    launch = plan(ScaleTensor(), y=d)
    assert launch.args["alpha"] == Scalar((0, "alpha"), 1.0) and launch.args["beta"] == 0.0
    assert launch.fuse.pointers == (launch.args["y"],)
    launch = plan(SetTensor(), y=d)
    assert [s.key for s in launch.fuse.scalars] == [(0, "value")] and launch.fuse.pointers == ()


def test_set_takes_vectors_where_it_can():
    plan = lambda y: engines_for(SetTensor)[0].plan(match(SetTensor(), y=y), H200)[0].kernel
    assert plan(packed("f16", (2, 8))) == "pointwise_vector_f16"
    assert plan(TensorDesc("f16", (2, 8), (16, 1))) == "pointwise_strided_f16"
    assert plan(packed("i32", (2, 8))) == "pointwise_strided_i32"


def test_empty():
    d = packed("f16", (0, 8, 3, 3))
    assert TRANSPOSE.plan(transform(d, d), H200) == []

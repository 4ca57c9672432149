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
from cydnn.engines.layout.transform_transpose import TILE, TransformTranspose
from cydnn.heuristics import best
from cydnn.ops import AddTensor, OpTensor, ScaleTensor, SetTensor, Transform
from cydnn.tensor import TensorDesc
from support.draw import alone
from support.draw.alone import steps
from support.draw import draw

H200 = KNOWN["h200"]
TRANSPOSE = TransformTranspose()
packed = TensorDesc.packed


match = alone.of


def transform(x, y, **facts):
    return match(Transform(), x=x, y=y, **facts)


@pytest.mark.parametrize("want, x, y", [
    ("transform_transpose", packed("f16", (8, 64, 28, 28)), packed("f16", (8, 64, 28, 28), "nhwc")),
    ("transform_transpose", packed("f32", (8, 64, 28, 28), "nhwc"), packed("f16", (8, 64, 28, 28))),
    ("transform_vector", packed("f16", (8, 64, 28, 28), "nhwc"), packed("f32", (8, 64, 28, 28), "nhwc")),
    ("transform_any", packed("f16", (8, 64, 28, 28)),
     TensorDesc("f16", (8, 64, 28, 28), (200704, 2, 7168, 256))),
    ("transform_any", packed("i8", (8, 64, 28, 28)), packed("f32", (8, 64, 28, 28), "nhwc")),
])
def test_first_choice(want, x, y):
    assert best(transform(x, y).graph, H200).engine.name == want


@pytest.mark.parametrize("want, x, y", [
    ("must be contiguous along different dims", packed("f16", (8, 64, 28, 28)),
     packed("f16", (8, 64, 28, 28))),
    ("y must be one of f64 f32 f16 bf16; got i8", packed("f16", (8, 64, 3, 3)),
     packed("i8", (8, 64, 3, 3), "nhwc")),
    ("x and y must both be f64 or neither; got f32 and f64", packed("f32", (8, 64, 3, 3)),
     packed("f64", (8, 64, 3, 3), "nhwc")),
])
def test_transpose_refuses(want, x, y):
    assert any(want in r for r in TRANSPOSE.reasons(transform(x, y), H200))


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
    (launch,) = steps(TRANSPOSE, p, H200)
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
    x, y = packed("f16", (4, 64, size, size)), packed("f16", (4, 64, size, size), "nhwc")
    (launch,) = steps(TRANSPOSE, transform(x, y, alignment=alignment), H200)
    y_bytes = alignment if alignment >= 8 else 2
    assert (launch.args["x_bytes"], launch.args["y_bytes"]) == (x_bytes, y_bytes)


@pytest.mark.parametrize("op", [Transform, AddTensor, OpTensor, SetTensor, ScaleTensor])
@pytest.mark.parametrize("seed", range(20))
def test_something_takes_every_problem(op, seed):
    p = alone.match(draw(op, random.Random(seed)))
    takers = alone.takers(p, H200)
    assert any("any" in e.name or "fill" in e.name for e in takers)
    for engine in takers:
        for launch in steps(engine, p, H200):
            kernels.get(launch.kernel).pack(launch.args, **launch.extra)


def test_scalars():
    """Who blends with what: the kernel with alpha and beta, the program with the rest."""
    d = packed("f32", (2, 8, 4, 4))
    plan = lambda op, **descs: steps(engines_for(op)[0], match(op, **descs), H200)[0]
    launch = plan(OpTensor(), a=d, b=packed("f32", (1, 8, 1, 1)), c=d)
    assert launch.args["alpha"] == 1.0 and launch.args["beta"] == Scalar((3, "beta"), 0.0)
    assert [s.key for s in launch.fuse["value"].scalars] == [(3, "alpha1"), (3, "alpha2")]
    launch = plan(ScaleTensor(), y=d)
    assert launch.args["alpha"] == Scalar((1, "alpha"), 1.0) and launch.args["beta"] == 0.0
    assert launch.fuse["value"].pointers == (launch.args["y"],)
    launch = plan(SetTensor(), y=d)
    assert [s.key for s in launch.fuse["value"].scalars] == [(1, "value")]
    assert launch.fuse["value"].pointers == ()


def test_set_takes_vectors_where_it_can():
    plan = lambda y: steps(engines_for(SetTensor)[0], match(SetTensor(), y=y), H200)[0].kernel
    assert plan(packed("f16", (2, 8))) == "pointwise_vector_f16"
    assert plan(TensorDesc("f16", (2, 8), (16, 1))) == "pointwise_any_f32_1"
    assert plan(packed("i32", (2, 8))) == "pointwise_any_f64_1"


def test_empty():
    d = packed("f16", (0, 8, 3, 3))
    assert steps(TRANSPOSE, transform(d, d), H200) == []

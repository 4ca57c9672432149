"""The elementwise engines without a GPU: refusals, places, parameters, and the kernels'
index arithmetic in NumPy."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import fusion, kernels, ops
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import PtxDevice
from cydnn.engines import engines_for
from cydnn.engines.pointwise.view import InSlots, InVectors, program
from cydnn.engines.pointwise.strided import PointwiseStrided
from cydnn.engines.pointwise.vector import PointwiseVector
from cydnn.fusion import At, CannotPlace
from cydnn.graph import Graph, Node
from cydnn.heuristics.cover import match_of
from cydnn.ops import Pointwise
from cydnn.tensor import TensorDesc
from support import matrix
from support.draw import draw
from support.matrix import graph_of

H200 = KNOWN["h200"]
VECTOR, STRIDED = PointwiseVector(), PointwiseStrided()


def match(mode="add", scalars=(), y=None, **operands):
    graph = Graph.single(Pointwise(mode=mode), {**operands, **({"y": y} if y else {})}, scalars)
    return match_of(graph, graph.nodes[0])


def nhwc(*dims, dtype="f32", **facts):
    return TensorDesc.packed(dtype, dims, "nhwc", **facts)


@pytest.mark.parametrize("want, p", [
    ("output must be one of f64 f32 f16 bf16; got i8",
     lambda: match(x=nhwc(2, 8, 3, 3), b=nhwc(2, 8, 3, 3), y=nhwc(2, 8, 3, 3, dtype="i8"))),
    ("output must have no gaps", lambda: match("exp", x=nhwc(2, 8), y=TensorDesc("f32", (2, 8), (16, 1)))),
    ("output must be aligned to 16 bytes; got 4",
     lambda: match("exp", x=nhwc(2, 8), y=nhwc(2, 8, alignment=4))),
    ("must repeat in multiples of 4 elements of the output; got 6",
     lambda: match(x=nhwc(2, 6, 3, 3), b=nhwc(1, 6, 1, 1))),
    ("be gapless along one dim of it and constant along the others",
     lambda: match(x=nhwc(2, 8, 4, 4), b=TensorDesc.packed("f32", (2, 8, 4, 4)))),
    ("must broadcast along the same dims",
     lambda: match("binary_select", x=nhwc(2, 8, 4, 4), b=nhwc(1, 8, 1, 1), t=nhwc(2, 1, 1, 1))),
    ("gen_index needs coordinates", lambda: match("gen_index", x=nhwc(2, 8))),
    ("must be one of f64 f32 f16 bf16 i8 u8 i32 bool; got i64",
     lambda: match("exp", x=nhwc(2, 8, dtype="i64"), y=nhwc(2, 8))),
])
def test_vector_refuses(want, p):
    reasons = list(VECTOR.refuse(p(), H200))
    assert any(want in r for r in reasons), reasons


def test_strided_refuses():
    assert "device is numpy" in next(
        STRIDED.refuse(match("exp", x=nhwc(2, 8)), type(H200)("numpy", "", 0, 1, 0, 0, 1.0)))
    assert "output must be one of" in next(
        STRIDED.refuse(match("exp", x=nhwc(2, 8), y=nhwc(2, 8, dtype="i64")), H200))
    assert "beta must be 0" in next(STRIDED.refuse(
        match("cmp_eq", dict(beta=1.0), x=nhwc(2, 8), b=nhwc(2, 8), y=nhwc(2, 8, dtype="bool")), H200))


def test_five_layouts_are_too_many():
    place = InSlots(nhwc(2, 8, 3, 3))
    for i in range(4):
        assert place(TensorDesc("f32", (2, 8, 3, 3), (500 + i, 1, 48, 16))) == At(f"in{i}", 1)
    assert place(TensorDesc("f16", (2, 8, 3, 3), (500, 1, 48, 16))) == At("in0", 1)
    with pytest.raises(CannotPlace, match="at most 4 tensors"):
        place(TensorDesc("f32", (2, 8, 3, 3), (600, 1, 48, 16)))


def offsets(desc, output):
    """Offset in ``desc`` of the element behind each offset of ``output`` (-1 in its gaps)."""
    index = np.indices(output.dims).reshape(output.rank, -1)
    there = sum(np.where(d == 1, 0, i) * s for i, d, s in zip(index, desc.dims, desc.strides))
    out = np.full(max(output.extent, 1), -1, np.int64)
    out[sum(i * s for i, s in zip(index, output.strides))] = there
    return out


def broadcast(rng, output):
    """A tensor that broadcasts to the output."""
    dims = rng.choice([output.dims, (1, output.c, *(1,) * (output.rank - 2)),
                       tuple(rng.choice([1, d]) for d in output.dims)])
    return TensorDesc.packed("f16", dims, rng.choice(["nchw", "nhwc"]))


@pytest.mark.parametrize("seed", range(40))
def test_vector_addresses(seed):
    """Every element of a vector finds its operand where pointwise_vector and the spliced code look for it."""
    rng = random.Random(seed)
    output = TensorDesc.packed(rng.choice(["f32", "f16", "f64"]),
                               (rng.randint(1, 3), rng.choice([1, 3, 8, 16]), rng.choice([1, 4, 5]), 4),
                               rng.choice(["nchw", "nhwc"]))
    desc, place = broadcast(rng, output), InVectors(output)
    try:
        at = place(desc)
    except CannotPlace:
        return
    inner, channels, step = place.column or (1, 1, 0)
    off = np.arange(output.count)
    vector = off // place.lanes
    col = vector // inner % channels * step
    base = {"off": vector * place.lanes, "col": col, "": 0 * off}[at.key]
    assert (base + off % place.lanes * at.step == offsets(desc, output)).all()
    assert not (base[::place.lanes] % at.vector).any() or not at.step


def unravelled(a) -> dict:
    """The offsets that a launch of pointwise_strided with these arguments reaches,
    by the name of the strides."""
    left, at = np.arange(a["count"]), {k: np.full(a["count"], start) for k, start in zip(
        ("strides", *(f"strides{i}" for i in range(4))), a["starts"])}
    for d in range(a["rank"]):
        outer = left // a["sizes"][d] if d + 1 < a["rank"] else 0 * left
        for k in at:
            at[k] += (left - outer * a["sizes"][d]) * a[k][d]
        left = outer
    return at


def test_strided_takes_several_launches():
    """Elements are counted in 32 bits: more of them are boxes of the outer dims, each begun
    where the one before ended."""
    big = match("exp", x=TensorDesc("f16", (3, 70000, 70000), (1, 3, 210000)),
                y=TensorDesc("f16", (3, 70000, 70000), (4900070000, 70001, 1)))
    launches = [launch.args for launch in STRIDED.plan(big, H200)]
    assert ([(a["count"], a["sizes"][:2], a["rank"]) for a in launches]
            == 3 * [(n * 70000, (70000, 1), 2) for n in (30678, 30678, 8644)])
    assert [a["starts"][:2] for a in launches] == [(d * 4900070000 + h * 70001, d + h * 3)
                                                   for d in range(3) for h in (0, 30678, 61356)]


@pytest.mark.parametrize("most", [2 ** 31, 100, 7])
@pytest.mark.parametrize("seed", range(40))
def test_strided_addresses(seed, most):
    """unravel() of pointwise_strided reaches each element of y once, and the operands'
    elements that belong to it."""
    rng = random.Random(seed)
    dims = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 5))) + (3,)
    order = list(range(len(dims)))
    rng.shuffle(order)
    output = TensorDesc.packed("f32", dims, order)
    inputs, place = [broadcast(rng, output) for _ in range(3)], InSlots(output)
    ats = [place(d) for d in inputs]
    axis = place.coordinate(rng.randrange(len(dims)))
    launches = [unravelled(a) for a in place.arguments(most)]
    assert all(len(launch["strides"]) < most for launch in launches)
    at = {k: np.concatenate([launch[k] for launch in launches]) for k in launches[0]}
    assert sorted(at["strides"]) == list(range(output.count))
    for desc, where in zip(inputs, ats):
        found = {"off": at["strides"], "": 0 * at["strides"]}.get(where.key)
        found = at["strides" + where.key[2:]] if found is None else found
        assert (found == offsets(desc, output)[at["strides"]]).all()
    assert at["strides" + axis[2:]].max() < max(dims)


@pytest.mark.parametrize("seed", range(60))
def test_plans_pack_and_splice(seed):
    """Every launch packs, its grid covers y, and its text has the program at every mark."""
    problem = draw(Pointwise, random.Random(seed))
    graph = graph_of(problem, {})
    p = match_of(graph, graph.nodes[0])
    assert STRIDED.accepts(p, H200)
    for engine in (VECTOR, STRIDED):
        if engine.accepts(p, H200):
            (launch,) = engine.plan(p, H200)
            kernel = kernels.get(launch.kernel)
            packed = kernel.pack(launch.args, **launch.extra)
            each = 8192 // p.y.dtype.bytes if engine is VECTOR else 1024
            assert packed.grid[0] * each >= p.y.count > (packed.grid[0] - 1) * each
            text = fusion.splice(kernel.image_for(90).text(), kernel, launch.fuse)
            assert b"@fuse" not in text and text.count(b"// v = n0") >= 2


def test_empty_tensors_launch_nothing():
    p = match(x=nhwc(0, 8, 3, 3), b=nhwc(1, 8, 1, 1))
    assert VECTOR.plan(p, H200) == [] == STRIDED.plan(p, H200)


def test_a_chain_is_one_program():
    t = lambda uid, **k: nhwc(8, 64, dtype="bf16", uid=uid, **k)
    graph = Graph([Node(Pointwise(mode="swish_fwd"), dict(x=1, y=2), dict(alpha=2.0)),
                   Node(Pointwise(mode="mul"), dict(x=2, b=3, y=4))],
                  {1: t(1), 2: t(2, is_virtual=True).replace(dtype="f32"), 3: t(3), 4: t(4)})
    p = match_of(graph, graph.nodes[0], graph.nodes[1:])
    fuse, alpha, beta = program(p, InVectors(p.out))
    assert (alpha, beta) == (1.0, 0.0) and fuse.program.fast
    assert [str(s) for s in fuse.program.steps] == ["s1 * swish_fwd(s0 * t0; 1)", "mul(n0, t1)"]
    assert [s.key for s in fuse.scalars] == [(0, "alpha1"), (0, "alpha")]


def test_a_lone_op_blends_in_the_kernel():
    p = match("relu_fwd", dict(alpha=0.5, beta=2.0), x=nhwc(8, 64))
    (launch,) = VECTOR.plan(p, H200)
    assert launch.args["alpha"].default == 0.5 and launch.args["beta"].default == 2.0


def test_math_type():
    """f64 where an operand needs it: i32 and f64 are not exact in f32."""
    assert program(match(x=nhwc(2, 8), b=nhwc(2, 8, dtype="i32")),
                   InSlots(nhwc(2, 8)))[0].program.math == "f64"
    assert program(match(x=nhwc(2, 8), b=nhwc(2, 8, dtype="i8")),
                   InSlots(nhwc(2, 8)))[0].program.math == "f32"


def test_strided_runs_in_several_launches(monkeypatch):
    """The interpreter runs as many launches as a tensor needs where a launch has fewer elements."""
    monkeypatch.setattr(PointwiseStrided, "most", 100)
    device = PtxDevice("sm_80")
    problem = ops.Problem.parse(
        "pointwise x=2x3x5x11:f32@1,2,66,6 b=1x3x1x1:f32 y=2x3x5x11:f32@200,60,11,1 mode=add")
    graph = matrix.graph_of(problem)
    assert len(STRIDED.plan(match_of(graph, graph.nodes[0]), device.facts)) == 6
    engine = next(e for e in engines_for(problem.op) if e.index == STRIDED.index)
    assert not matrix.run(problem, device, engines=[engine]).findings

"""The elementwise engines without a GPU: refusals, programs, launches that pack and cover, and large tensors
cut into boxes. Where tensors lie beside a mark is in tests/fusion/test_sites.py."""
from __future__ import annotations

import itertools
import random
from math import prod

import numpy as np
import pytest

from cydnn import fusion, kernels, ops, plan
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.pointwise import pointwise
from cydnn.graph import FromTensor, Graph, Match, Node, Tensor
from cydnn.ops import Pointwise
from cydnn.ops.pointwise import MODES
from cydnn.tensor import TensorDesc
from support.draw import alone
from support.check import matrix
from support.draw.alone import steps
from support.draw import draw

H200 = KNOWN["h200"]
VECTOR, ANY = BY_INDEX[270], BY_INDEX[271]


def match(mode="add", scalars=(), alignment=16, axis=0, **operands):
    return alone.of(Pointwise(mode=mode, axis=axis), scalars, alignment=alignment, **operands)


def nhwc(*dims, dtype="f32"):
    return TensorDesc.packed(dtype, dims, "nhwc")


@pytest.mark.parametrize("want, p", [
    ("output must be one of f64 f32 f16 bf16; got i8",
     lambda: match(x=nhwc(2, 8, 3, 3), b=nhwc(2, 8, 3, 3), y=nhwc(2, 8, 3, 3, dtype="i8"))),
    ("output must have no gaps; got dims (2, 8), strides (16, 1)",
     lambda: match("exp", x=nhwc(2, 8), y=TensorDesc("f32", (2, 8), (16, 1)))),
    ("output must be aligned to 16 bytes; got 4",
     lambda: match("exp", x=nhwc(2, 8), y=nhwc(2, 8), alignment=4)),
    ("output must have at most 2^31 - 512 vectors of 16 bytes; got 17179869184 elements",
     lambda: match("exp", x=nhwc(1 << 17, 1 << 17, dtype="f16"), y=nhwc(1 << 17, 1 << 17))),
    ("compute must be f32 for an output of f16; got f64",
     lambda: alone.of(Pointwise(mode="exp", compute="f64"), x=nhwc(2, 8), y=nhwc(2, 8, dtype="f16"))),
    ("the dims of a tensor must be in multiples of 4 elements; got 6",
     lambda: match(x=nhwc(2, 6, 3, 3), b=nhwc(1, 6, 1, 1))),
    ("tensor b must be contiguous or constant along the innermost dim of the output; got 2x8x4x4:f32:nchw",
     lambda: match(x=nhwc(2, 8, 4, 4), b=TensorDesc.packed("f32", (2, 8, 4, 4)))),
])
def test_vector_refuses(want, p):
    reasons = list(VECTOR.reasons(p(), H200))
    assert want in reasons, reasons
    assert ANY.accepts(p(), H200)


def test_a_kernel_that_adds_gets_beta_at_execute():
    """alpha may lie in memory, and beta where spliced code adds."""
    def reasons(engine, name):
        d = nhwc(2, 8)
        p = Match.single(Graph([Node(Pointwise(mode="exp"), dict(x=1, y=2), {name: FromTensor(3)})],
                               [Tensor(1, d), Tensor(2, d), Tensor(3, nhwc(1, 1))]))
        return list(engine.reasons(p, H200))
    assert reasons(ANY, "alpha") == reasons(VECTOR, "alpha") == reasons(ANY, "beta") == []
    assert reasons(VECTOR, "beta") == ["beta must be given at execute; got a tensor in memory"]


@pytest.mark.parametrize("p", [
    lambda: match("binary_select", x=nhwc(2, 8, 4, 4), b=nhwc(1, 8, 1, 1), t=nhwc(2, 1, 1, 1)),
    lambda: match("binary_select", x=nhwc(2, 8, 4, 4), b=nhwc(1, 8, 1, 4), t=nhwc(2, 1, 4, 1, dtype="bool")),
    lambda: match("gen_index", axis=1, x=nhwc(2, 8, 4, 4)),
    lambda: match("exp", x=nhwc(2, 8, dtype="i64"), y=nhwc(2, 8)),
    lambda: match("cmp_eq", dict(beta=1.0), x=nhwc(2, 8), b=nhwc(2, 8), y=nhwc(2, 8)),
], ids=range(5))
def test_vector_takes(p):
    """Broadcasts along different dims, coordinates, any type of input."""
    assert list(VECTOR.reasons(p(), H200)) == []


def test_any_refuses():
    numpy = type(H200)("numpy", "", 0, 1, 0, 0, 1.0)
    assert list(ANY.reasons(match("exp", x=nhwc(2, 8)), numpy)) == ["runs CUDA kernels; device is numpy"]
    gaps = match("cmp_eq", x=nhwc(2, 8), b=nhwc(2, 8), y=TensorDesc("bool", (2, 8), (16, 1)))
    assert list(ANY.reasons(gaps, H200)) == [
        "tensor y: packed booleans are written eight at once, where the kernel walks them in the order of "
         "memory; "
        "got 2x8:bool:strides=16,1"]
    large = match("gen_index", x=nhwc(2, 1 << 30))
    assert list(ANY.reasons(large, H200)) == [
        "packed booleans and indices must have fewer than 2^31 elements; got 2147483648"]


def region(count) -> Match:
    """A sum of ``count`` tensors of different layouts, as one region."""
    dims, last = (2, 8, 3, 3), 1000 + count - 1
    tensors = [Tensor(i, TensorDesc("f32", dims, (500 + i, 1, 48, 16))) for i in range(count + 1)]
    tensors += [Tensor(1000 + i, nhwc(*dims), "memory" if 1000 + i == last else "virtual")
                for i in range(count)]
    nodes = [Node(Pointwise(mode="add"), dict(x=999 + i if i else 0, b=i + 1, y=1000 + i))
             for i in range(count)]
    graph = Graph(nodes, tensors)
    return Match.elementwise(graph, (1 << count) - 1)


def test_parameters_have_room_for_many_tensors_but_not_for_any_number():
    assert ANY.accepts(region(30), H200)
    assert "what is fused must take at most 2048 bytes of parameters; got" in next(
        iter(ANY.reasons(region(130), H200)))


def test_what_is_stored_needs_room_beside_the_value():
    assert list(ANY.reasons(region(124), H200)) == [
        "what is fused must take at most 2048 bytes of parameters; got 2056"]
    (launch,) = steps(ANY, region(123), H200)
    kernel = kernels.get(launch.kernel)
    assert b"@fuse" not in fusion.splice(kernel.image_for(90).text(), kernel, launch.fuse)


# ---- Launches ----

@pytest.mark.parametrize("seed", range(60))
def test_plans_pack_and_splice(seed):
    """Every launch packs, its grid covers y, and its text has a program at every mark."""
    problem = draw(Pointwise, random.Random(seed))
    p = alone.match(problem)
    assert ANY.accepts(p, H200)
    for engine in (VECTOR, ANY):
        if engine.accepts(p, H200):
            (launch,) = steps(engine, p, H200)
            kernel = kernels.get(launch.kernel)
            packed = kernel.pack(launch.args, **launch.extra)
            any_each = 2048 if launch.kernel[-1] == "8" else 1024
            each = 8192 // p.y.dtype.bytes_of(1) if engine is VECTOR else any_each
            assert packed.grid[0] * each >= p.y.count > (packed.grid[0] - 1) * each
            text = fusion.splice(kernel.image_for(90).text(), kernel, launch.fuse)
            assert b"@fuse" not in text and text.count(b"// t0: ") >= 2


def test_empty_tensors_launch_nothing():
    p = match(x=nhwc(0, 8, 3, 3), b=nhwc(1, 8, 1, 1))
    assert steps(VECTOR, p, H200) == [] == steps(ANY, p, H200)


def chain() -> Match:
    t = lambda uid, dtype="bf16", kind="memory": Tensor(uid, nhwc(8, 64, dtype=dtype), kind)
    graph = Graph([Node(Pointwise(mode="swish_fwd"), dict(x=1, y=2), dict(alpha=2.0)),
                   Node(Pointwise(mode="mul"),
                        dict(x=2, b=3, y=4))], [t(1), t(2, "f32", "virtual"), t(3), t(4)])
    return Match.elementwise(graph, 0b11)


@pytest.mark.parametrize("engine, mark", [(VECTOR, "value"), (ANY, "value")])
def test_a_chain_is_one_program(engine, mark):
    (launch,) = steps(engine, chain(), H200)
    fused = launch.fuse[mark]
    assert [str(s) for s in fused.program.steps] == ["s0 * swish_fwd(t0; 1)", "mul(n0, t1)"]
    assert [s.key for s in fused.scalars] == [(2, "alpha")] and fused.program.fast
    if engine is VECTOR:
        assert (launch.args["alpha"], launch.args["beta"]) == (1.0, 0.0)
    else:
        assert not launch.fuse["store"].program.alpha and not launch.fuse["store"].program.blend


@pytest.mark.parametrize("engine", [VECTOR, ANY], ids=str)
def test_a_lone_op_is_blended_behind_its_program(engine):
    """By numbers that are read at execute, whatever they are when the plan is built."""
    p = match("relu_fwd", dict(alpha=0.5, beta=2.0), x=nhwc(8, 64))
    (launch,) = steps(engine, p, H200)
    assert [str(s) for s in launch.fuse["value"].program.steps] == ["relu_fwd(s0 * t0; 0, inf, 0)"]
    if engine is VECTOR:
        assert launch.args["alpha"].default == 0.5 and launch.args["beta"].default == 2.0
    else:
        store = launch.fuse["store"]
        assert [(s.key, s.default) for s in store.scalars] == [((2, "alpha"), 0.5), ((2, "beta"), 2.0)]
        assert (store.program.alpha, store.program.blend) == ("s0", ("t0", "s1"))


@pytest.mark.parametrize(
    "b, math", [("i32", "f64"), ("i64", "f64"), ("f64", "f64"), ("i8", "f32"), ("f8_e5m2", "f32"),
                                     ("bool", "f32")])
def test_math_type(b, math):
    """f64 where an operand needs it: i32 and f64 are not exact in f32."""
    (launch,) = steps(ANY, match(x=nhwc(2, 8), b=nhwc(2, 8, dtype=b)), H200)
    assert launch.kernel == f"pointwise_any_{math}_1"
    assert {f.program.math for f in launch.fuse.values()} == {math}


# ---- More elements than a launch counts ----

def test_large_tensors_take_several_launches():
    """Elements are counted in 32 bits: more of them are boxes, each begun where the one before ended."""
    big = match("exp", x=TensorDesc("f16", (3, 70000, 70000), (1, 3, 210000)),
                y=TensorDesc("f16", (3, 70000, 70000), (4900070000, 70001, 1)))
    launches = steps(ANY, big, H200)
    assert [launch.args["count"] for launch in launches] == 3 * [n * 70000 for n in (30678, 30678, 8644)]
    begun = [{p.uid: p.addend for f in launch.fuse.values() for p in f.pointers} for launch in launches]
    assert begun == [{1: 2 * (d + h * 3), 2: 2 * (d * 4900070000 + h * 70001)}
                     for d in range(3) for h in (0, 30678, 61356)]


@pytest.mark.parametrize("most", [100, 7])
@pytest.mark.parametrize("seed", range(40))
def test_boxes_fill_the_space(seed, most, monkeypatch):
    monkeypatch.setattr(pointwise, "MOST", most)
    rng = random.Random(seed)
    dims = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 5))) + (3,)
    order = [a for a in rng.sample(range(len(dims)), len(dims)) if dims[a] > 1]
    seen = np.zeros(dims, int)
    for size, starts in pointwise.boxes(dims, tuple(order)):
        assert 0 < prod(size) < most
        seen[tuple(slice(a, a + n) for a, n in zip(starts, size))] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("line, launches", [
    ("pointwise x=2x3x5x11:f32@1,2,66,6 b=1x3x1x1:f32 y=2x3x5x11:f32@200,60,11,1 mode=add", 6),
    ("pointwise x=2x3x5x11:i8@nhwc b=2x1x5x1:f16 y=2x3x5x11:i64@nhwc mode=mul", 4),
    ("add_tensor a=1x3x1x11:bf16 c=2x3x5x11:f32@330,55,11,1", 6),
])
def test_several_launches_on_the_interpreter(line, launches, monkeypatch):
    """The interpreter runs as many launches as a tensor needs where a launch has fewer elements."""
    monkeypatch.setattr(pointwise, "MOST", 100)
    plan.forget()
    device, problem = get("ptx:sm_80"), ops.Problem.parse(line)
    engine = next(e for e in alone.takers(alone.match(problem), device.facts) if e.name.endswith("_any"))
    assert len(steps(engine, alone.match(problem), device.facts)) == launches
    for scalars in (matrix.plain(problem.op), matrix.blended(problem.op)):
        assert not matrix.run(problem, device, engines=[engine], scalars=scalars).findings


# ---- Packed booleans ----

@pytest.mark.parametrize("line", [
    "scale_tensor y=3x5x11:bool", "add_tensor a=3x5x11:f32 c=3x5x11:bool", "set_tensor 13 bool",
    "pointwise x=3x5x11:f32 b=3x5x1:i8 y=3x5x11:bool@nhwc mode=sub", "transform x=3x5x11:bool y=3x5x11:bool",
    "pointwise x=165:bool b=1:bool y=165:bool mode=logical_and",
                                  "op_tensor a=8:f32 b=1:i32 c=8:bool mode=mul",
    "pointwise x=3x5x11:bool b=3x1x11:bool t=1x5x11:bool y=3x5x11:f16 mode=binary_select",
])
@pytest.mark.parametrize("seed", range(3))
def test_packed_booleans(line, seed):
    """Whole bytes and the last bits, plain and blended; what is read in place is read before it is
    written."""
    problem = ops.Problem.parse(line)
    scalars = (matrix.plain, matrix.blended, lambda op: None)[seed](problem.op)
    outcome = matrix.run(problem, get("ptx:sm_80"), seed, scalars=scalars)
    assert outcome.ran and not outcome.findings, outcome


@pytest.mark.parametrize("mode", ["identity", "logical_not"])
def test_packed_booleans_in_place(mode):
    device, problem = get("ptx:sm_80"), ops.Problem.parse(f"pointwise 165 mode={mode} bool")
    made = matrix.Prepared(problem, 1, matrix.plain(problem.op))
    built = plan.build(made.graph, device)
    assert built.layout.inplace == [(1, 0)]
    buffers, _ = matrix.execute(built, problem, made.values, ["x"], device, [("y", "x")])
    assert (buffers["y"].read()[0] == made.want["y"]).all()


# ---- Whole numbers ----

@pytest.mark.share(50)
@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
@pytest.mark.parametrize("mode", MODES)
def test_whole_numbers(mode, device):
    """Every mode on integers, in f32 and i32: both devices agree with the reference on the same values as
    floats."""
    operands = " ".join(f"{name}=7x5:{kind}" for name,
                        kind in zip(("x", "b", "t")[:MODES[mode].inputs], ("i32", "i8", "i8")))
    for compute, stored, flavour in itertools.product(("f32", "i32"), ("f32", "i32"), ("drawn", "ties")):
        problem = ops.Problem.parse(f"pointwise {operands} y=7x5:{stored} mode={mode} acc={compute}")
        scalars = (matrix.plain if flavour == "drawn" else matrix.blended)(problem.op)
        with np.errstate(all="ignore"):
            outcome = matrix.run(problem, get(device), 1, scalars=scalars, flavour=flavour)
        assert outcome.ran and not outcome.findings, f"{problem}: {outcome}"

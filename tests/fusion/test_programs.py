"""From graph nodes to programs: names, places, roundings, stores, refusals."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "graph"))
from nodes import t
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.conv.mma import image_tail
from cydnn.fusion import (At, CannotPlace, Extra, Fused, Program, Site, attempt, before, behind, math_before,
                          math_of, reasons, region)
from cydnn.graph import FromTensor, Graph, Lead, Match, Node
from cydnn.ops import ConvFprop, Matmul, Pointwise
from cydnn.steps import Pointer, Scalar
from cydnn.tensor import TensorDesc

H200 = KNOWN["h200"]
DIMS = (2, 24, 5, 5)


def conv_match(*nodes, dtype="f16", virtual="f32", layout="nhwc", core=(), **tensors) -> Match:
    """conv -> uid 3 (virtual where there are nodes), then ``nodes`` over uids; 10 + i is the output
    of node i, the last one real. ``core``: scalars of the convolution."""
    make = lambda uid, d, kind=dtype, **k: t(uid, d, kind, layout=layout, name=f"u{uid}", **k)
    all_of = {1: make(1, (2, 16, 5, 5)), 2: make(2, (24, 16, 3, 3)),
              3: make(3, DIMS, virtual).replace(kind="virtual") if nodes else make(3, DIMS)}
    all_of |= {int(name[1:]): x.replace(uid=int(name[1:]), name=name) for name, x in tensors.items()}
    made = [Node(ConvFprop(pre_pad=1, post_pad=1), dict(x=1, w=2, y=3), dict(core))]
    for i, (op, operands, scalars) in enumerate(nodes):
        last = i == len(nodes) - 1
        all_of.setdefault(10 + i,
                          make(10 + i, DIMS,
                               dtype if last else virtual).replace(kind="memory" if last else "virtual"))
        made.append(Node(op, {**operands, "y": 10 + i}, scalars))
    graph = Graph(made, all_of)
    return Match.around(graph, 0, (1 << len(made)) - 1)


def node(mode, operands, attributes=(), **scalars):
    return Pointwise(mode=mode, **dict(attributes)), operands, scalars


def program_of(match):
    """What the tensor-core engine splices behind its sums."""
    fused = image_tail(match)[1]
    assert not list(reasons(fused)), fused
    return fused


BIAS = t(0, (1, 24, 1, 1))


def test_places_of_tensors():
    match = conv_match(node("add", dict(x=3, b=20)), node("mul", dict(x=10, b=21)),
                       node("add", dict(x=11, b=22)), u20=BIAS, u21=t(0, (1, 1, 1, 1)),
                       u22=t(0, DIMS, "f16", layout="nhwc"))
    fused = program_of(match)
    program = fused.program
    assert [e.at for e in program.tensors] == [At((("col", 1),), 1, 4), At(), At((("off", 1),), 1, 8)]
    assert fused.pointers == (Pointer(20), Pointer(21), Pointer(22))
    assert [s.inputs for s in program.steps] == [("v", "t0"), ("n0", "t1"), ("n1", "t2")]
    assert program.result == "n2" and program.fast and program.math == "f32" and not program.entry


def test_nothing_behind():
    assert image_tail(conv_match())[1] is None


def test_a_broadcast_of_another_layout_has_a_place():
    """Channels are a coordinate and pixels are in the offset: from these any strides follow."""
    match = conv_match(node("add", dict(x=3, b=20)), u20=t(0, DIMS, "f16"))
    extra, = program_of(match).program.tensors
    assert str(extra.at) == "col * k0 + d0 + d1 * k1, k0 apart, 1 at once"


def test_narrow_virtual_tensors_round():
    match = conv_match(node("add", dict(x=3, b=20)), node("relu_fwd", dict(x=10)), virtual="f16", u20=BIAS)
    program = program_of(match).program
    assert program.entry == "f16" and [s.dtype for s in program.steps] == ["f16", ""]


def test_a_kept_intermediate_is_stored():
    """Where the kernel stores the last output itself, the other one is stored by spliced code, and rounded
    for whoever reads it here."""
    match = conv_match(node("add", dict(x=3, b=20)), node("relu_fwd", dict(x=10)), u20=BIAS,
                       u10=t(0, DIMS, "f16", layout="nhwc"))
    program = program_of(match).program
    assert program.stores == (("n0", "t1"),) and program.tensors[1].at == At((("off", 1),), 1, 8)
    assert [s.dtype for s in program.steps] == ["f16", ""] and program.result == "n1"


def test_the_core_s_own_result_may_be_kept_too():
    match = conv_match(node("relu_fwd", dict(x=3)), u3=t(0, DIMS, "f16", layout="nhwc"))
    program = program_of(match).program
    assert program.entry == "f16" and program.stores == (("v", "t0"),) and program.result == "n0"


def test_several_outputs_of_several_types():
    """The kernel stores the last that it can, spliced code the others, in types that the kernel does not
    know."""
    match = conv_match(node("add", dict(x=3, b=20)), node("relu_fwd", dict(x=10)),
                       node("cmp_gt", dict(x=11, b=21)), u20=BIAS,
                       u21=t(0, (1, 1, 1, 1)), u10=t(0, DIMS, "i8", layout="nhwc"),
                       u12=t(0, DIMS, "bool", layout="nhwc"),
                       u11=t(0, DIMS, "f16", layout="nhwc"))
    lead, fused = image_tail(match)
    assert (lead.uid, lead.is_native) == (11, True)
    program = fused.program
    assert {program.tensors[int(name[1:])].dtype for _, name in program.stores} == {"i8", "bool"}
    assert program.result == "n1" and program.fast                           # all are of 16 bits or less
    bits = next(e for e in program.tensors if e.dtype == "bool")
    assert bits.at.vector == 8


def test_factors_and_by_value_tensors():
    scale = t(0, (1, 1, 1, 1), kind="value")
    match = conv_match(node("mul", dict(x=3, b=21), alpha1=0.5),
                       node("add", dict(x=10, b=20), alpha2=FromTensor(21)), u20=BIAS, u21=scale)
    fused = program_of(match)
    assert fused.scalars == (Scalar(21, 0.0), Scalar((10, "alpha1"), 0.5))
    first, second = fused.program.steps
    assert first.inputs == ("v", "s0") and first.scales == ("s1", "") and second.scales == ("", "s0")


def test_a_factor_may_lie_in_memory():
    match = conv_match(node("mul", dict(x=3, b=20), alpha=FromTensor(21)), u20=BIAS,
                       u21=t(0, (1, 1, 1, 1), "f64"))
    program = program_of(match).program
    assert program.steps[0].alpha == "t1" and program.tensors[1].dtype == "f64" and program.math == "f64"


def test_the_same_tensor_is_read_once():
    match = conv_match(node("add", dict(x=3, b=20)), node("mul", dict(x=10, b=20)), u20=BIAS)
    fused = program_of(match)
    assert len(fused.pointers) == 1 and [s.inputs for s in fused.program.steps] == [("v", "t0"), ("n0", "t0")]


def test_attributes_are_in_the_structure():
    match = conv_match(node("relu_fwd", dict(x=3), dict(relu_upper_clip=6, nan="ignore")))
    step = program_of(match).program.steps[0]
    assert step.mode == "relu_fwd_ignore" and step.attributes == (0.0, 6.0, 0.0)


def test_coordinates_are_inputs():
    match = conv_match(node("gen_index", dict(x=3), dict(axis=1)), node("gen_index", dict(x=3), dict(axis=3)),
                       node("add", dict(x=10, b=11)), u10=t(0, DIMS, "i32", kind="virtual", layout="nhwc"))
    program = program_of(match).program
    assert [s.inputs for s in program.steps] == [("@col+1",), ("@d0",), ("n0", "n1")]
    assert [str(d) for d in program.digits] == ["at / f0 % f1"]


def test_division_of_whole_numbers_is_cut():
    match = conv_match(node("div", dict(x=3, b=20), dict(compute="i32"), alpha=2.0), virtual="i32", u20=BIAS)
    program = program_of(match).program
    assert [str(s) for s in program.steps] == ["div(v, t0)", "s0 * trunc(n0)"]
    assert program.entry == "i32" and program.math == "f64"


@pytest.mark.parametrize("want, match", [
    ("pointwise: beta must be 0 where operations are fused; got 1.0",
     lambda: conv_match(node("add", dict(x=3, b=20), beta=1.0), u20=BIAS)),
    ("beta must be 0 where operations follow; got 1.0",
     lambda: conv_match(node("add", dict(x=3, b=20)), u20=BIAS, u3=t(0, DIMS, "f16", layout="nhwc"),
                        core=dict(beta=1.0))),
    ("what is fused must take at most 2048 bytes of parameters; got 2408",
     lambda: conv_match(*(node("add", dict(x=3 if i == 0 else 9 + i, b=340 + i)) for i in range(301)),
                        **{f"u{340 + i}": BIAS for i in range(301)})),
    ("tensor u10: packed booleans are written eight at once, where the kernel walks them in the order of "
     "memory; "
     "got 2x24x5x5:bool:nchw",
     lambda: conv_match(node("cmp_gt", dict(x=3, b=20)), node("identity", dict(x=3)), u20=BIAS,
                        u10=t(0, DIMS, "bool"))),
])
def test_refusals(want, match):
    said = list(reasons(image_tail(match())[1]))
    assert said == [want]


def test_programs_of_one_launch_share_its_parameters():
    half = Fused(Program("f32", (), (Extra("f32", At()),) * 150))
    assert list(reasons(half, None)) == []
    assert list(reasons(half, half)) == ["what is fused must take at most 2048 bytes of parameters; got 2400"]
    assert list(reasons(half, half, CannotPlace("why"))) == ["why"]


def test_matmul_counts_columns_along_the_last_dim():
    graph = Graph([Node(Matmul(), dict(a=1, b=2, c=3)), Node(Pointwise(mode="add"), dict(x=3, b=4, y=5))],
                  [t(1, (2, 8, 16), "f16"), t(2, (2, 16, 24), "f16"), t(3, (2, 8, 24), "f16", "virtual"),
                   t(4, (1, 1, 24), "f16"),
                   t(5, (2, 8, 24), "f16")])
    match = Match.around(graph, 0, 0b11)
    assert BY_INDEX[190]._tail(match).program.tensors[0].at == At((("col", 1),), 1, 8)


# ---- The math type ----

def test_the_math_type_is_the_least_that_is_exact():
    f32, f64 = (Node(Pointwise(mode="abs", compute=c), dict(x=1, y=2)) for c in ("f32", "i32"))
    assert math_of([f32], [t(1), t(2, dtype="i8"), t(3, dtype="bf16")]) == "f32"
    assert math_of([f64], [t(1)]) == math_of([f32], [t(1, dtype="i32")]) == "f64"
    assert math_of([f32], [t(1, dtype="f64")]) == "f64"


def test_operands_of_integer_sums_are_only_moved():
    """In i32 where nothing is computed on the way, else in f64, which holds every i32."""
    graph = Graph([Node(Pointwise(mode="neg"), dict(x=1, y=2)),
                   Node(Matmul(compute="i32"), dict(a=2, b=3, c=4))],
                  [t(1, (4, 4), "u8"), t(2, (4, 4), "i8", "virtual"), t(3, (4, 4), "i32"),
                   t(4, (4, 4), "i32")])
    p = Match.around(graph, 1, 0b11, {"a": 0b01})
    assert (math_before(p, "a", "i32"), math_before(p, "b", "i32"),
            math_before(p, "b", "f64")) == ("f64", "i32", "f64")
    site = Site((4, 4), graph.tensors[1], (("row", (0,)), ("depth", (1,))))
    fused = before(p, "a", site, "f64")
    assert str(fused.program) == "n0 = i8(neg(t0))\nt0: u8 at off, one for all, 1 at once\nv = n0, in f64"
    plain = before(p, "b", Site((4, 4), graph.tensors[3], (("depth", (0,)), ("col", (1,)))), "i32")
    assert str(plain.program) == "t0: i32 at off, one for all, 1 at once\nv = t0, in i32"


# ---- The three places ----

def test_a_kernel_may_leave_scaling_and_storing_to_the_program():
    """alpha and beta of the core, where the kernel does not blend: v = alpha * v, plus beta * what was
    there."""
    p = conv_match()
    lead = p.lead()._replace(is_native=False)
    site = Site(DIMS, lead.tensor, (("row", (0, 2, 3)), ("col", (1,))))
    fused = behind(p, site, lead, mark_type="f32", alpha="alpha", beta="beta")
    assert str(fused.program).splitlines()[:3] == ["v = s0 * v", "v += s1 * t0, unless it is 0",
                                                   "store t0 = v"]
    assert [s.key for s in fused.scalars] == [(3, "alpha"), (3, "beta")] and fused.program.result == ""


def test_a_region_stores_all_but_the_lead():
    graph = Graph([Node(Pointwise(mode="exp"), dict(x=1, y=2)), Node(Pointwise(mode="neg"), dict(x=2, y=3))],
                  [t(1, (4, 8)), t(2, (4, 8), "f16"), t(3, (4, 8))])
    p = Match.elementwise(graph, 0b11)
    lead = p.graph.tensors[3]
    site = Site((4, 8), lead, (("i", (0, 1)),))
    native = region(p, site, Lead(3, lead, True))
    assert native.program.stores == (("n0", "t1"),) and native.program.result == "n1"


def test_attempts_are_remembered_by_the_match():
    p, calls = conv_match(), []

    @attempt
    def behind(p, place):
        calls.append(place)
        if not place:
            raise CannotPlace("there is no place")
        return place
    for _ in range(2):
        assert list(reasons(behind(p, 0))) == ["there is no place"] and behind(p, 7) == 7
    assert calls == [0, 7]


def test_spliced_outputs_of_any_type():
    """An engine whose kernel cannot store the output leaves it to spliced code: alpha and beta as well."""
    graph = Graph.single(Matmul(),
                         dict(a=TensorDesc.packed("f16", (8, 8)), b=TensorDesc.packed("f16", (8, 8)),
                                        c=TensorDesc.packed("i8", (8, 8))), dict(beta=1.0))
    for index in (190, 199, 180):
        engine, p = BY_INDEX[index], Match.single(graph)
        step = engine.plan(p, H200, engine.best(p, H200))[-1]
        (fused,) = (f for mark, f in step.fuse.items() if mark in ("epilogue", "store"))
        assert any(e.dtype == "i8" for e in fused.program.tensors) and fused.program.blend
        assert step.args.get("c") is None

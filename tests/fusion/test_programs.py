"""From graph nodes to programs: names, places, roundings, refusals."""
from __future__ import annotations

import pytest

from cydnn.fusion import At, Epilogue, refuse
from cydnn.fusion.functions import find
from cydnn.graph import ByValue, Graph, Node
from cydnn.heuristics.cover import match_of
from cydnn.ops import ConvFprop, Matmul, Pointwise
from cydnn.ops.pointwise import MODES
from cydnn.tensor import TensorDesc

DIMS = (2, 24, 5, 5)


def conv_match(*nodes, dtype="f16", virtual="f32", layout="nhwc", **tensors):
    """conv -> uid 3 (virtual), then ``nodes`` over uids; 10 + i is the output
    of node i, the last one real."""
    t = lambda uid, d, kind=dtype, **k: TensorDesc.packed(kind, d, layout, uid=uid, name=f"u{uid}", **k)
    descs = {1: t(1, (2, 16, 5, 5)), 2: t(2, (24, 16, 3, 3)), 3: t(3, DIMS, virtual, is_virtual=True)}
    descs |= {int(name[1:]): d.replace(uid=int(name[1:]), name=name) for name, d in tensors.items()}
    graph_nodes = [Node(ConvFprop(pre_pad=1, post_pad=1), dict(x=1, w=2, y=3))]
    for i, (op, operands, scalars) in enumerate(nodes):
        last = i == len(nodes) - 1
        descs.setdefault(10 + i, t(10 + i, DIMS, dtype if last else virtual, is_virtual=not last))
        graph_nodes.append(Node(op, {**operands, "y": 10 + i}, scalars))
    graph = Graph(graph_nodes, descs)
    return match_of(graph, graph.nodes[0], graph.nodes[1:])


def node(mode, operands, **scalars):
    return Pointwise(mode=mode), operands, scalars


BIAS = TensorDesc.packed("f32", (1, 24, 1, 1))


def test_places_of_tensors():
    match = conv_match(node("add", dict(x=3, b=20)), node("mul", dict(x=10, b=21)),
                       node("add", dict(x=11, b=22)), u20=BIAS, u21=TensorDesc.packed("f32", (1, 1, 1, 1)),
                       u22=TensorDesc.packed("f16", DIMS, "nhwc"))
    program = Epilogue.from_match(match).program
    assert [e.at for e in program.tensors] == [At("col", 1, 4), At("", 0), At("off", 1, 8)]
    assert [s.inputs for s in program.steps] == [("v", "t0"), ("n0", "t1"), ("n1", "t2")]
    assert program.fast and program.math == "f32" and not program.dtype


def test_nothing_behind():
    match = conv_match(node("identity", dict(x=3)))
    match.epilogue = ()
    assert Epilogue.from_match(match) is None


def test_vectors_shrink_with_the_strides():
    """24 channels: 8 at once; 6: 2; and an unaligned tensor: one."""
    dims = (2, 6, 5, 5)
    out = TensorDesc.packed("f16", dims, "nhwc")
    t = lambda uid, d, **k: TensorDesc.packed("f16", d, "nhwc", uid=uid, **k)
    graph = Graph([Node(ConvFprop(), dict(x=1, w=2, y=3)), Node(Pointwise(mode="add"), dict(x=3, b=4, y=5)),
                   Node(Pointwise(mode="add"), dict(x=5, b=6, y=7))],
                  {1: t(1, (2, 8, 5, 5)), 2: t(2, (6, 8, 1, 1)), 3: t(3, dims, is_virtual=True),
                   4: t(4, dims), 5: t(5, dims, is_virtual=True),
                   6: t(6, dims, alignment=2), 7: out.replace(uid=7)})
    program = Epilogue.from_match(match_of(graph, graph.nodes[0], graph.nodes[1:])).program
    assert [e.at.vector for e in program.tensors] == [2, 1]


def test_narrow_virtual_tensors_round():
    match = conv_match(node("add", dict(x=3, b=20)), node("relu_fwd", dict(x=10)), virtual="f16", u20=BIAS)
    program = Epilogue.from_match(match).program
    assert program.dtype == "f16" and [s.dtype for s in program.steps] == ["f16", ""]


def test_kept_intermediate_is_stored():
    match = conv_match(node("add", dict(x=3, b=20)), node("relu_fwd", dict(x=10)), u20=BIAS,
                       u10=TensorDesc.packed("f16", DIMS, "nhwc"))
    program = Epilogue.from_match(match).program
    assert (program.steps[0].store == "t1" and program.tensors[1].at.key == "off"
            and program.steps[0].dtype == "f16")


def test_factors_and_by_value_tensors():
    scale = TensorDesc.packed("f32", (1, 1, 1, 1), is_by_value=True)
    match = conv_match(node("mul", dict(x=3, b=21), alpha1=0.5),
                       node("add", dict(x=10, b=20), alpha2=ByValue(21)), u20=BIAS, u21=scale)
    epilogue = Epilogue.from_match(match)
    assert [s.key for s in epilogue.scalars] == [21, (1, "alpha1")] and epilogue.scalars[1].default == 0.5
    first, second = epilogue.program.steps
    assert first.inputs == ("v", "s0") and first.scales == ("s1", "") and second.scales == ("", "s0")


def test_attributes_are_in_the_structure():
    match = conv_match((Pointwise(mode="relu_fwd", relu_upper_clip=6, nan="ignore"), dict(x=3), {}))
    step = Epilogue.from_match(match).program.steps[0]
    assert step.mode == "relu_fwd_ignore" and step.attributes == (0.0, 6.0, 0.0)


@pytest.mark.parametrize("want, match", [
    ("beta must be 0", lambda: conv_match(node("add", dict(x=3, b=20), beta=1.0), u20=BIAS)),
    ("must have one element, one for each channel (1x24x1x1, gapless), or the dims and strides of the output",
     lambda: conv_match(node("add", dict(x=3, b=20)), u20=TensorDesc.packed("f16", DIMS, "nchw"))),
    ("gen_index needs coordinates", lambda: conv_match(node("gen_index", dict(x=3)))),
    ("must be one of f64 f32 f16",
     lambda: conv_match(node("add", dict(x=3, b=20)), u20=TensorDesc.packed("i64", (1, 24, 1, 1)))),
    ("at most 128 bytes",
     lambda: conv_match(*(node("add", dict(x=3 if i == 0 else 9 + i, b=40 + i)) for i in range(17)),
                        **{f"u{40 + i}": TensorDesc.packed("f32", (1, 24, 1, 1)) for i in range(17)})),
])
def test_refusals(want, match):
    reasons = list(refuse(match()))
    assert len(reasons) == 1 and want in reasons[0]


def test_matmul_counts_columns_along_the_last_dim():
    t = lambda uid, d, **k: TensorDesc.packed("f16", d, uid=uid, **k)
    graph = Graph([Node(Matmul(), dict(a=1, b=2, c=3)), Node(Pointwise(mode="add"), dict(x=3, b=4, y=5))],
                  {1: t(1, (2, 8, 16)), 2: t(2, (2, 16, 24)), 3: t(3, (2, 8, 24), is_virtual=True),
                   4: t(4, (1, 1, 24)), 5: t(5, (2, 8, 24))})
    assert Epilogue.from_match(match_of(graph, graph.nodes[0],
                                        graph.nodes[1:])).program.tensors[0].at == At("col", 1, 8)


@pytest.mark.parametrize("math, fast", [("f32", False), ("f32", True), ("f64", False)])
def test_every_mode_has_a_function(math, fast):
    """With as many parameters as the mode's row has inputs and numbers."""
    for mode, row in MODES.items():
        if mode != "gen_index":
            for name in [mode] + [mode + "_ignore"] * ("nan" in row.uses):
                numbers = [u for u in row.uses if u not in ("nan", "axis")]
                assert find(name, math, fast)[1].parameters == row.inputs + len(numbers), name

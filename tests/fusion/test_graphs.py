"""Random graphs on the interpreter against the NumPy device: the same numbers, whatever is spliced where.

Regions of pointwise nodes with every type in memory (packed booleans, f8, 64-bit integers), numbers given at
execute, several stores, coordinates, values that are smaller than others; anchors with nodes in front and
behind, on every engine that takes them, in several configurations. Buffers are guarded, and what nobody wrote
may not be read. ``CYDNN_GRAPHS=10`` draws ten times as many.
"""
from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "device" / "ptx"),
                str(Path(__file__).resolve().parent)]
from fusion_rules import PTXAS, assemble
from watched import PtxDevice, watching
from cydnn import fusion, kernels, ops, plan
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.graph import FromTensor, Graph, Node, Tensor
from cydnn.heuristics import Wish, best, candidates
from cydnn.heuristics.choice import Part
from cydnn.layout import Layout
from cydnn.ops import Matmul, Pointwise
from cydnn.steps import Launch
from cydnn.tensor import TensorDesc
from support.draw import graphs

NUMPY, TIMES = get("numpy"), int(os.environ.get("CYDNN_GRAPHS", 1))


def check(choices, graph, values, device):
    """Every choice gives what the NumPy device gives."""
    for choice in choices:
        with np.errstate(all="ignore"):
            want = graphs.run(graphs.rounded(graph, choice), values, NUMPY)
        with watching():
            got = graphs.execute(plan.made(choice, device), values)
        wrong = graphs.differences(graph, got, want)
        assert not wrong, f"{choice.text}\n" + "\n".join(wrong)


@pytest.mark.share(4)
@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
@pytest.mark.parametrize("wide", [True, False], ids=["wide", "also small"])
@pytest.mark.parametrize("part", range(2))
def test_regions(part, wide, target):
    """Fused as the cost model likes it, and node by node."""
    device = PtxDevice(target)
    for seed in range(20 * TIMES):
        drawn = graphs.region(random.Random(f"{wide} {target} {part} {seed}"), wide=wide)
        graph = drawn.graph(shuffled=True)
        choices = [best(graph, device.facts), best(graph, device.facts, Wish(mode="fallback"))]
        check(choices, graph, drawn.values, device)


def configured(choice, rng, facts):
    """The choice with other configurations of its engines."""
    parts = []
    for part in choice.parts:
        config = rng.choice(list(part.engine.configs(part.match, facts))[:6])
        parts.append(Part(part.match, part.engine, config, part.us))
    return replace(choice, parts=tuple(parts))


@pytest.mark.share(3)
@pytest.mark.parametrize("op", graphs.FORMS, ids=lambda o: o.name)
@pytest.mark.parametrize("part", range(2))
def test_anchors(op, part):
    """Every engine that takes an anchor, with what can be fused around it; the best configuration and
    another."""
    device = PtxDevice("sm_80")
    for seed in range(8 * TIMES):
        rng = random.Random(f"{op.name} {part} {seed}")
        drawn = graphs.anchored(rng, op)
        graph = drawn.graph(shuffled=True)
        found = candidates(graph, device.facts)
        check([*found, *(configured(c, rng, device.facts) for c in found)], graph, drawn.values, device)


def test_the_drawn_anchors_reach_every_engine():
    """With nodes behind it where it takes some, and in front where it takes these."""
    seen = set()
    for op in graphs.FORMS:
        for seed in range(160):
            graph = graphs.anchored(random.Random(f"{op.name} {seed % 2} {seed // 2}"), op).graph()
            for part in (p for c in candidates(graph, KNOWN["a100"]) for p in c.parts):
                seen |= {(part.engine.name, bool(part.match.before), bool(part.match.behind))}
    for name in ("conv_fprop_any", "conv_dgrad_any", "conv_wgrad_any", "matmul_any", "reduction_any"):
        assert {(name, False, True), (name, True, False), (name, True, True)} <= seen, name
    for name in ("conv_fprop_simt", "conv_dgrad_simt", "conv_wgrad_simt", "conv_fprop_mma", "conv_dgrad_mma",
                 "conv_wgrad_mma", "matmul_simt", "matmul_mma"):
        assert (name, False, True) in seen, name


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
@pytest.mark.parametrize("form", ["region", *graphs.FORMS], ids=lambda f: getattr(f, "name", f))
def test_ptxas_takes_what_is_spliced(form, tmp_path):
    """The interpreter is more patient than ptxas: registers have one declaration, operands their types."""
    done = set()
    for seed in range(12):
        rng = random.Random(f"ptxas {seed}")
        drawn = graphs.region(rng) if form == "region" else graphs.anchored(rng, form)
        for facts in (KNOWN["t4"], KNOWN["h200"]):
            for _, step in best(drawn.graph(), facts).steps:
                if not isinstance(step, Launch) or not step.fuse:
                    continue
                kernel = kernels.get(step.kernel)
                image = kernel.image_for(facts.sm)
                text = fusion.splice(image.text(), kernel, step.fuse)
                if text not in done:
                    done.add(text)
                    assert assemble(text, image.target, tmp_path) == "", step
    assert len(done) >= 8


# ---- Corners beside the draws ----

def t(uid, dims, dtype="f32", kind="memory", layout="nchw", **facts):
    return Tensor(uid, TensorDesc.packed(dtype, dims, layout), kind, **facts)


def p(mode, operands, scalars=(), **attributes):
    return Node(Pointwise(mode=mode, **attributes), operands, scalars)


def numbers(graph):
    """Small numbers for every input of a graph."""
    rng = np.random.default_rng(5)
    written = {u for n in graph.nodes for u in n.writes}
    return {u: x.dtype.round(rng.integers(-8, 9, x.dims) / 2) for u, x in graph.tensors.items()
            if x.kind == "memory" and u not in written}


CORNERS = {
    "packed booleans kept, whole bytes and a last one": lambda: Graph(
        [p("cmp_gt", dict(x=1, b=2, y=3)), p("logical_not", dict(x=3, y=4)),
         p("binary_select", dict(x=1, b=2, t=3, y=5))],
        [t(1, (3, 7)), t(2, (3, 7), "i8"), t(3, (3, 7), "bool"), t(4, (3, 7), "bool"), t(5, (3, 7), "bf16")]),
    "scattered lanes: bits walked in another order than their inputs": lambda: Graph(
        [p("cmp_lt", dict(x=1, b=2, y=3))],
        [t(1, (2, 3, 5, 7), "f8_e5m2"), t(2, (1, 3, 1, 7), "i64"),
         t(3, (2, 3, 5, 7), "bool", layout="nhwc")]),
    "coordinates along every dim": lambda: Graph(
        [p("gen_index", dict(x=1, y=2), axis=0), p("gen_index", dict(x=1, y=3), axis=1),
         p("mul", dict(x=2, b=3, y=4)),
         p("gen_index", dict(x=1, y=5), axis=2), p("add", dict(x=4, b=5, y=6))],
        [t(1, (3, 4, 5)),
         *(t(u, (3, 4, 5), k, "virtual") for u, k in ((2, "i32"), (3, "f32"), (4, "f16"), (5, "i64"))),
         t(6, (3, 4, 5))]),
    "the same value written three times": lambda: Graph(
        [p("add", dict(x=1, b=1, y=2)), p("identity", dict(x=2, y=3)), p("identity", dict(x=2, y=4))],
        [t(1, (8, 16), "f16"), t(2, (8, 16), "f8_e5m2"), t(3, (8, 16), "i8"),
         t(4, (8, 16), "f64", layout=(1, 0))]),
    "a blend of the only node": lambda: Graph(
        [p("mul", dict(x=1, b=2, y=3),
           dict(alpha=0.5, beta=0.0))], [t(1, (4, 6), "i8"), t(2, (4, 1), "bool"), t(3, (4, 6), "u8")]),
    "factors from numbers given at execute": lambda: Graph(
        [p("sub", dict(x=1, b=2, y=3), dict(alpha1=FromTensor(9), alpha2=2.0)),
         p("max", dict(x=3, b=9, y=4))],
        [t(1, (4, 6)), t(2, (4, 6), "i32"), t(3, (4, 6), "f16", "virtual"), t(4, (4, 6)),
         t(9, (1, 1), "f32", "value",)]),
    "sums of integers through spliced code": lambda: Graph(
        [p("neg", dict(x=1, y=2)), Node(Matmul(compute="i32"), dict(a=2, b=3, c=4)),
         p("add", dict(x=4, b=5, y=6))],
        [t(1, (5, 40), "u8"), t(2, (5, 40), "i8", "virtual"), t(3, (40, 6), "i32"),
         t(4, (5, 6), "i32", "virtual"),
         t(5, (1, 6), "f32"), t(6, (5, 6), "i64")]),
    "nothing": lambda: Graph([p("add", dict(x=1, b=2, y=3)), p("exp", dict(x=3, y=4))],
                             [t(1, (0, 4)), t(2, (1, 4)), t(3, (0, 4), kind="virtual"), t(4, (0, 4))]),
    "five dims, one of them 1": lambda: Graph(
        [p("add", dict(x=1, b=2, y=3)), p("mul", dict(x=3, b=4, y=5))],
        [t(1, (2, 3, 1, 2, 5), layout="nhwc"), t(2, (1, 3, 1, 1, 5), "bf16"),
         t(3, (2, 3, 1, 2, 5), "bf16", "virtual"),
         t(4, (2, 1, 1, 2, 1), "f64"), t(5, (2, 3, 1, 2, 5), "f16", layout=(4, 0, 3, 1, 2))]),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner):
    device, graph = PtxDevice("sm_80"), CORNERS[corner]()
    choices = [best(graph, device.facts), best(graph, device.facts, Wish(mode="fallback"))]
    check(choices, graph, numbers(graph), device)
    assert len(choices[0].parts) == 1, choices[0].text


@pytest.mark.parametrize("seed", range(6))
def test_a_layout_on_paper_is_the_same_plan(seed):
    """Fused launches too read back from JSON."""
    facts = KNOWN["h200"]
    drawn = graphs.anchored(random.Random(seed), list(graphs.FORMS)[seed % 5])
    layout = Layout(best(drawn.graph(), facts))
    again = Layout.from_json(layout.to_json())
    assert again.to_json() == layout.to_json() and again.choice.text == layout.choice.text

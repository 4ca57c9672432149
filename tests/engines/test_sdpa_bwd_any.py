"""The gradients of attention of any types: on the PTX device and a GPU what the op means, the same bits each
time, no memory of the size of the scores."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.graph import Match
from cydnn.heuristics import candidates
from cydnn.layout import Layout
from cydnn.ops import Problem
from support.draw import graphs
from support.check import matrix

ENGINE, H200 = BY_INDEX[430], KNOWN["h200"]
OPTIONS = ("extras=1x6x21x38:f16+1x6x1x1:f32 score=mul(s,#0.1);add(n0,e0);exp(e1);sub(col,row);mul(n2,n3);"
           "add(n1,n4);mul(n5,#0.1);tanh_fwd(n6);mul(n7,#10.0) dbias=1x6x1x38:f32 dbias_of=0")
LINES = [
    "sdpa_bwd 2x6x21x24 2x2x24x38 2x3x38x40 f16 right=0 diagonal=bottom_right " + OPTIONS,
    "sdpa_bwd 1x2x5x8 1x1x8x70 1x2x70x4 left=1 right=0", "sdpa_bwd 1x2x33x8 1x2x8x1 1x2x1x8 bf16",
    "sdpa_bwd 1x1x1x200 1x1x200x35 1x1x35x200 score=mul(s,#0.05)",
    "sdpa_bwd 2x2x9x8 2x2x8x40 2x1x40x8 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 left=3 extras=1x1x1x1:f32 "
    "score=mul(s,e0) dbias=1x1x1x1:f32 dbias_of=0"]


def wrong(device, line, seed) -> list:
    return matrix.run(Problem.parse(line), device, seed, [ENGINE]).findings


@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("line", LINES)
def test_on_the_interpreter(line, target):
    assert not wrong(get(f"ptx:{target}"), line, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("line", LINES)
def test_on_a_gpu(line, gpu):
    assert not [text for seed in range(4) for text in wrong(gpu, line, seed)]


def values_of(line, graph):
    gen, op = np.random.default_rng(2), Problem.parse(line).op
    return {t.uid: op.admit(t.name, gen.uniform(-1, 1, t.dims)) for t in graph.tensors.values()}


@pytest.mark.gpu
def test_the_same_bits_each_time(gpu):
    line = "sdpa_bwd 2x8x300x64 2x2x64x300 2x2x300x64 f16 right=0 stats=2x8x300x1:f32 score=mul(s,#0.1)"
    graph = graph_of(Problem.parse(line))
    built, values = plan.build(graph, gpu), values_of(line, graph)
    first = graphs.execute(built, values)
    for _ in range(20):
        for uid, found in graphs.execute(built, values).items():
            np.testing.assert_array_equal(found, first[uid])


def test_what_lies_beyond_a_length_reaches_nothing():
    line = "sdpa_bwd 2x2x9x8 2x1x8x40 2x2x40x8 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32"
    graph, found = graph_of(Problem.parse(line)), []
    names = {t.name: uid for uid, t in graph.tensors.items()}
    values = values_of(line, graph)
    values |= {names[n]: np.reshape(lengths, (2, 1, 1, 1)) for n, lengths in
               (("len_q", [5, 3]), ("len_kv", [33, 0]))}
    for filled in (0.0, np.nan):
        for name in ("q", "o", "do", "stats"):
            values[names[name]][0, :, 5:] = values[names[name]][1, :, 3:] = filled
        values[names["k"]][0, ..., 33:] = values[names["v"]][0, :, 33:] = filled
        values[names["k"]][1] = values[names["v"]][1] = filled
        found.append(graphs.execute(plan.build(graph, get("ptx:sm_80")), values))
    for uid, clean in found[0].items():
        np.testing.assert_array_equal(found[1][uid], clean)
    dq, dk, dv = (found[1][names[n]] for n in ("dq", "dk", "dv"))
    assert dq[0, :, :5].all() and not dq[0, :, 5:].any() and not dq[1].any()
    assert not dk[0, ..., 33:].any() and not dk[1].any() and not dv[0, :, 33:].any() and not dv[1].any()


def test_workspace_is_linear_and_launches_are_few():
    line = "sdpa_bwd 4x32x4096x128 4x8x128x4096 4x8x4096x128 f16 right=0"
    layout = Layout.of(graph_of(Problem.parse(line)), H200)
    assert layout.workspace_bytes <= 4 * 4 * 32 * 4096 + 256
    assert [s.kernel for s in layout.steps] == ["sdpa_bwd_any_dq_f32", "sdpa_bwd_any_dkv_f32"]
    other = Layout.of(graph_of(Problem.parse(line.replace("4x8x4096x128", "4x4x4096x128"))), H200)
    assert len(other.steps) == 3 and str(candidates(other.graph, H200)[0]) == "part 0: 430"


def test_refusals():
    for line, reason in (("1x1x3x300 1x1x300x8 1x1x8x8", "d_qk must be at most 256; got 300"),
                         ("1x1x3x8 1x1x8x8 1x1x8x300", "d_v must be at most 256; got 300")):
        assert reason in ENGINE.reasons(Match.single(graph_of(Problem.parse(f"sdpa_bwd {line}"))), H200)

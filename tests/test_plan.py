"""Plans: built once, bounded, run with positions or a variant pack; what is refused before anything runs."""
from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "graph"))
from nodes import binary, t, tensors, unary
from cydnn import log, plan as plans
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.graph import FromTensor, Graph, Node
from cydnn.heuristics import Wish, best
from cydnn.ops import LrnFwd, Pointwise, Problem, SoftmaxFwd, Transform
from cydnn.status import BadParam
from cydnn.steps import Scalar
from cydnn.tensor import TensorDesc


# ---- Running ----

def test_nodes_run_in_order(numpy_device):
    graph = Graph([unary(3, 4, "sqrt"), unary(1, 2, "abs"), unary(2, 3, "identity")],
                  tensors(a="memory", b="virtual", c="virtual", d="memory"))
    plan = plans.build(graph, numpy_device)
    x, y = np.full((2, 4), -9, np.float32), np.empty((2, 4), np.float32)
    workspace = np.empty(plan.workspace_bytes, np.uint8)
    plan.run({1: x, 4: y}, workspace)
    assert (y == 3).all() and plan.workspace_bytes == 512


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_pointers_and_scalars_may_come_one_by_one(device):
    device = get(device)
    graph = Graph([binary(1, 4, 2, alpha=FromTensor(3))],
                  tensors(a="memory", b="memory", s="value", k="value"))
    plan, x = plans.build(graph, device), np.full((2, 4), 3, np.float32)
    buffers = [device.alloc(32) for _ in plan.slots]
    device.copy_in(buffers[0].ptr, x)
    values = [2.0 if key in (3, 4) else default for key, default in plan.scalars]
    for given in (tuple, list, iter):
        device.memset(buffers[-1].ptr, 0xFF, 32)
        plan.execute(given([b.ptr for b in buffers]), scalars=given(values))
        device.synchronize()
        found = device.copy_out(buffers[-1].ptr, np.empty_like(x))
        assert (found == 2 * (3 + 2)).all()


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_scalars_by_value(device):
    """A factor and an operand that are given at execute; what is not given has its default."""
    device = get(device)
    graph = Graph([binary(1, 4, 2, alpha=FromTensor(3))],
                  tensors(a="memory", b="memory", s="value", k="value"))
    plan = plans.build(graph, device)
    x, y = device.alloc(32), device.alloc(32)
    device.copy_in(x.ptr, np.full(8, 2, np.float32))
    for given, want in (({3: 2.5, 4: 1.0}, 7.5), ({3: -1.0, 4: 2.0}, -4.0), ({3: 1.0}, 2.0)):
        plan.run({1: x, 2: y, **given})
        assert (device.copy_out(y.ptr, np.empty(8, np.float32)) == want).all(), given


def test_transform_between_layouts_and_types(numpy_device):
    x, y = TensorDesc.packed("f32", (2, 3, 2, 2)), TensorDesc.packed("bf16", (2, 3, 2, 2), "nhwc")
    plan = plans.build(Graph.single(Transform(), dict(x=x, y=y)), numpy_device)
    a, b = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2), np.empty((2, 2, 2, 3), np.uint16)
    plan.run({1: a, 2: b})
    assert ((b.astype(np.uint32) << 16).view(np.float32) == a.transpose(0, 2, 3, 1)).all()


def test_whole_numbers_stay_exact(numpy_device):
    """64-bit integers pass through a copy as they are, beyond what a double holds."""
    plan = plans.build(Graph.single(Transform(),
                                    dict(x=TensorDesc.packed("i64", (4,)), y=TensorDesc.packed("i64", (4,)))),
                       numpy_device)
    x, y = np.array([2 ** 62 + 1, -(2 ** 62) - 1, 2 ** 53 + 1, 7]), np.empty(4, np.int64)
    plan.run({1: x, 2: y})
    assert (y == x).all()


@pytest.mark.parametrize("op, dtype", [(Transform(), "bool"), (Transform(), "f32"), (LrnFwd(), "f32")])
def test_beside_a_dim_of_zero_another_may_have_any_size(numpy_device, op, dtype):
    """There is nothing to compute, so no memory is asked for: 8 TiB of numbers before."""
    none = TensorDesc.packed(dtype, (0, 2 ** 40))
    plans.build(Graph.single(op, dict(x=none, y=none)), numpy_device).run({1: 0, 2: 0})


# ---- What is refused ----

@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_execute_checks_before_it_runs(device):
    device, alignment = get(device), 4 if device == "numpy" else 16
    desc = TensorDesc.packed("f32", (4, 8))
    plan = plans.build(Graph.single(SoftmaxFwd(), dict(x=desc)), device)
    buffer = device.alloc(65 * 4)
    device.copy_in(buffer.ptr, np.zeros(65, np.float32))
    address = int(buffer.ptr)
    for pointers, sentence in [((0, address), "x: pointer must not be null"),
                               ((address + 2, address + 128),
                                f"x: pointer must be aligned to {alignment} bytes"),
                               ((address, address + 64), "y: output must not overlap x"),
                               ((address,), "pointers must have 2 entries; got 1")]:
        with pytest.raises(BadParam, match=sentence):
            plan.execute(pointers)
    plan.execute((address, address))             # in place is allowed for softmax
    assert np.allclose(device.copy_out(address, np.empty(32, np.float32)), 1 / 8)


@pytest.mark.parametrize("alignment, offset, bytes", [(16, 4, 16), (64, 16, 64), (8, 4, 8), (1, 2, 4)])
def test_an_address_keeps_to_what_is_promised(alignment, offset, bytes):
    """And to its elements: nothing runs."""
    device, desc = get("ptx:sm_80"), TensorDesc.packed("f32", (4, 8))
    plan = plans.build(Graph.single(SoftmaxFwd(), dict(x=desc), alignment=alignment), device)
    x, y = device.alloc(192), device.alloc(192)
    device.copy_in(x.ptr, np.zeros(48, np.float32))
    with pytest.raises(BadParam, match=f"^x: pointer must be aligned to {bytes} bytes; got 0x"):
        plan.execute([x.ptr + offset, y.ptr])
    plan.execute([x.ptr + bytes, y.ptr])
    assert np.allclose(device.copy_out(y.ptr, np.empty(32, np.float32)), 1 / 8)


def test_variant_packs_and_workspaces_that_lack_something(numpy_device):
    graph = Graph([unary(1, 2), unary(2, 3)], tensors(a="memory", b="virtual", c="memory"))
    plan = plans.build(graph, numpy_device)
    x = np.zeros((2, 4), np.float32)
    with pytest.raises(BadParam, match=r"execute: the variant pack must hold tensor c; got uids \[1\]"):
        plan.run({1: x})
    with pytest.raises(BadParam, match="workspace: it must have at least 256 bytes; got a null pointer"):
        plan.run({1: x, 3: x.copy()})
    with pytest.raises(BadParam, match="workspace: it must have at least 256 bytes; got 255"):
        plan.run({1: x, 3: x.copy()}, np.empty(255, np.uint8))
    with pytest.raises(BadParam, match="execute: scalars must have 0 entries; got 1"):
        plan.execute((x, x.copy()), np.empty(256, np.uint8), scalars=(1.0,))


def test_an_output_may_lie_in_the_gaps_of_an_input(numpy_device):
    """Channels 0 to 2 of an NHWC buffer become channels 3 to 5 of it; one channel less
    of distance is an overlap."""
    desc = TensorDesc("f32", (2, 3, 4, 4), (96, 1, 24, 6))
    plan = plans.build(Graph.single(Pointwise(mode="neg"), dict(x=desc, y=desc)), numpy_device)
    image = np.random.default_rng(0).standard_normal((2, 4, 4, 6)).astype(np.float32)
    before, at = image.copy(), image.ctypes.data
    plan.execute((at, at + 12))
    assert (image[..., 3:] == -before[..., :3]).all() and (image[..., :3] == before[..., :3]).all()
    with pytest.raises(BadParam, match="y: output must not overlap x"):
        plan.execute((at, at + 8))


# ---- The cache ----

def line(text):
    return graph_of(Problem.parse(text))


def test_plans_are_remembered_by_graph_device_and_wish(numpy_device):
    plans.forget()
    plan = plans.build(line("matmul 4x4 4x4 f32"), numpy_device)
    assert plans.build(line("matmul 4x4 4x4 f32"), "numpy") is plan
    assert plans.build(line("matmul 4x4 4x4 f16"), numpy_device) is not plan
    assert plans.build(line("matmul 4x4 4x4 f32 align=4"), numpy_device) is not plan
    assert plans.build(line("matmul 4x4 4x4 f32"), numpy_device, Wish(mode="fallback")) is not plan
    assert plans.build(line("matmul 4x4 4x4 f32"), "ptx:sm_80") is not plan
    plans.forget()
    assert plans.build(line("matmul 4x4 4x4 f32"), numpy_device) is not plan


def test_plans_of_other_names_are_others(numpy_device):
    """Errors call tensors by their names. Those of virtual tensors and of nodes are in no error of
    execute."""
    chain = lambda x, middle, name: Graph([Node(Pointwise(mode="abs"), dict(x=1, y=2), name=name),
                                           unary(2, 3, "neg")],
                                          [t(1, name=x), t(2, kind="virtual", name=middle), t(3)])
    plan = plans.build(chain("x", "middle", "abs"), numpy_device)
    assert plans.build(chain("x", "other", "other"), numpy_device) is plan
    renamed = plans.build(chain("image", "middle", "abs"), numpy_device)
    for each, name in ((plan, "x"), (renamed, "image")):
        with pytest.raises(BadParam, match=f"hold tensor {name};"):
            each.run({3: np.empty(8, np.float32)})


@pytest.mark.parametrize("one, other", [(0.0, -0.0), (1, 1.0)])
def test_numbers_that_compare_equal_are_others(one, other, numpy_device):
    times = lambda value: Graph([Node(Pointwise(mode="identity"), dict(x=1, y=2), dict(alpha=value))],
                                [t(1), t(2)])
    plus = lambda value: Graph([Node(Pointwise(mode="identity"), dict(x=1, y=2))], [
        t(1, (1, 1), kind="value", scalar=Scalar(1, value)), t(2, (1, 1))])
    for make, key in ((times, (2, "alpha")), (plus, 1)):
        plan = plans.build(make(one), numpy_device)
        assert plans.build(make(one), numpy_device) is plan
        found = [dict(plans.build(make(value), numpy_device).scalars)[key] for value in (one, other)]
        assert list(map(repr, found)) == [repr(one), repr(other)]


def test_the_one_not_asked_for_longest_is_forgotten(numpy_device, monkeypatch):
    plans.forget()
    monkeypatch.setattr(plans._built, "most", 3)
    built = [plans.build(line(f"matmul {n}x4 4x4 f32"), numpy_device) for n in (1, 2, 3)]
    assert plans.build(line("matmul 1x4 4x4 f32"), numpy_device) is built[0]
    plans.build(line("matmul 4x4 4x4 f32"), numpy_device)
    assert plans.build(line("matmul 1x4 4x4 f32"), numpy_device) is built[0]
    assert plans.build(line("matmul 2x4 4x4 f32"), numpy_device) is not built[1]
    plans.forget()


def test_a_plan_of_a_choice_is_not_remembered(numpy_device):
    graph = line("matmul 4x4 4x4 f32")
    choice = best(graph, numpy_device.facts)
    plan = plans.made(choice, numpy_device)
    assert plan.choice is choice and plans.made(choice, numpy_device) is not plan
    assert (plan.name, plan.engines[0].name, plan.cost_us,
            len(plan.parts)) == ("0:reference", "reference", choice.us, 1)
    assert plan.explain() == plan.layout.explain()


# ---- The log ----

def test_the_log_says_the_choice_and_why_others_refused(caplog):
    plans.forget()
    with caplog.at_level(logging.DEBUG, "cydnn"):
        plans.build(line("softmax_fwd 8x64 f16"), "ptx:sm_80")
    first, *rest = [r.message for r in caplog.records if r.name == "cydnn"]
    assert first.startswith("softmax_fwd x=8x64:f16 y=8x64:f16: engine=")
    assert first.endswith("device=ptx:sm_80")
    assert any("212:softmax_fwd_cluster refused: needs sm_90 or newer; device is sm_80" in text
               for text in rest)
    assert all(text.startswith("softmax_fwd x=8x64:f16 y=8x64:f16: ") for text in rest)


def test_a_level_of_the_log_that_is_none_is_said(caplog):
    with caplog.at_level(logging.WARNING, "cydnn"):
        log.configure("loud")
    assert [r.message for r in caplog.records] == [
        "CYDNN_LOG must be 0 to 4, or trace; got 'loud', taken as 0"]


def test_numpy_runs_no_reference_for_empty_results(monkeypatch):
    """A reference may pad what is empty: here to 4 * 2^40 elements."""
    monkeypatch.setattr(LrnFwd, "evaluate", lambda *given: pytest.fail("the reference was called"))
    line = f"lrn_fwd x={2 ** 40}x0:f32"
    plans.build(graph_of(Problem.parse(line)), get("numpy")).execute([np.zeros(0, np.float32)] * 2)

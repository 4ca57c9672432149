"""Tuning: what is fastest and right is taken and kept; what is wrong is said, however fast it is."""
from __future__ import annotations

import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace as Row

import ml_dtypes
import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import bench, device, plan, tune
from cydnn.__main__ import main
from cydnn.dtypes import bf16, f16
from cydnn.engines import TABLE
from cydnn.graph import Graph, Node, Tensor
from cydnn.heuristics import Wish, best, tuned
from cydnn.heuristics.rivals import rivals
from cydnn.ops import Pointwise, Problem
from cydnn.status import AllocFailed, BadParam, ExecutionFailed, NotSupported
from cydnn.tensor import TensorDesc

SM90 = device.get("ptx:sm_90")
LINE, B = "softmax_fwd 9x70 f16", Wish(mode="b")


class Said:
    """A clock that says what it was told: microseconds of each choice, by its place in the race."""

    def __init__(self, *us):
        self.us, self.known = us, {}

    def times(self, calls, repeat):
        for call in calls:
            self.known.setdefault(id(call), self.us[min(len(self.known), len(self.us) - 1)])
        return [[self.known[id(call)]] * repeat for call in calls]


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("CYDNN_TUNED", str(tmp_path / "tuned.txt"))
    monkeypatch.setattr(tuned, "SHIPPED", tmp_path / "shipped")
    plan.forget()
    return tuned.place()


def raced(*us, line=LINE, **options):
    case = bench.Case(Problem.parse(line), SM90)
    pack = {t.uid: case.buffers[name].ptr for name, t in zip(case.names, case.plan.slots)}
    return tune.tune(case.plan.graph, pack, SM90, clock=Said(*us), **dict(most=5) | options)


def chosen_elsewhere(line: str) -> str:
    """What mode B takes in another process."""
    return best(bench.graph_of(Problem.parse(line)), SM90.facts, B).text


def test_the_fastest_is_taken_by_mode_b_in_another_process():
    found = raced(10.0, 9.0, 5.0, 7.0)
    assert found.best is found.runs[2] and found.gain == 2 and not any(run.wrong for run in found.runs)
    found.save()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(chosen_elsewhere, LINE).result() == found.best.choice.text
    assert best(found.graph, SM90.facts).text == found.default.choice.text != found.best.choice.text
    row = tuned.current().rows[tuned.key_of(found.graph, SM90.facts)[0]]
    assert [(r.us, r.default_us) for r in row.values()] == [(5.0, 10.0)]


@pytest.mark.parametrize("us", [(10.0, 11.0), (10.0, 9.9)])
def test_the_default_stays_where_little_is_won(us):
    found = raced(*us)
    assert found.best is found.default and found.gain == 1
    assert "mode A's choice is not beaten" in str(found)


def spoiled(made, choice, spoil):
    """A plan of a choice that goes wrong as ``spoil(device, pointers)`` does it."""
    found = made(choice, SM90)
    plain = found.execute

    def execute(pointers, *others):
        plain(pointers, *others)
        spoil(pointers[-1])
    found.execute = execute
    return found


def failing(at):
    raise ExecutionFailed("the launch failed")


def put(offset, *data):
    return lambda at: SM90.copy_in(at + offset, np.array(data, np.uint8))


@pytest.mark.parametrize("spoil, why", [
    (put(0, 0, 0x3C), "y: 1 of 630 elements differ by up to"),
    (put(2, 0, 0x7E), "y: 1 of 630 elements differ"),           # a NaN
    (put(-1, 0), "writes 1 bytes beside y"), (put(1260, 1, 2), "writes 2 bytes beside y"),
    (failing, "the launch failed")])
def test_who_is_wrong_is_said_and_not_taken(monkeypatch, spoil, why):
    made, count = plan.made, []

    def some(choice, at):
        count.append(choice)
        return spoiled(made, choice, spoil) if len(count) == 3 else made(choice, at)
    monkeypatch.setattr(plan, "made", some)
    found = raced(10.0, 9.0, 8.0, 7.0)
    wrong = [run for run in found.runs if run.wrong]
    assert [run.choice for run in wrong] == [count[2]] and wrong[0].us != wrong[0].us
    assert found.best not in wrong and f"WRONG  {count[2].text}" in str(found)
    assert re.search(why, wrong[0].wrong)


def test_who_finds_no_room_is_not_wrong(monkeypatch):
    made = plan.made

    def crowded(choice, at):
        if choice.text == last.text:
            raise AllocFailed("cuMemAlloc: out of memory")
        return made(choice, at)
    last = raced(10.0, 9.0, 8.0, 7.0).runs[-1].choice
    monkeypatch.setattr(plan, "made", crowded)
    found = raced(10.0, 9.0, 8.0, 7.0)
    assert found.best.choice.text != last.text and f"NOT RUN  {last.text}: cuMemAlloc" in str(found)


def test_a_default_that_fails_is_an_error(monkeypatch):
    made = plan.made
    monkeypatch.setattr(plan, "made", lambda choice, at: spoiled(made, choice, put(-1, 0)))
    with pytest.raises(NotSupported, match="the cost model's choice must run; got writes 1 bytes beside y"):
        raced(1.0)


def test_a_default_that_fails_behind_the_race_is_an_error(monkeypatch):
    made, count = plan.made, []
    spoil = lambda at: count.append(at) or len(count) > 1 and put(0, 0, 0x3C)(at)
    monkeypatch.setattr(plan, "made", lambda choice, at: spoiled(made, choice, spoil))
    with pytest.raises(NotSupported, match="the cost model's choice must run; got y: 1 of 630 elements"):
        raced(1.0, most=1)


def test_buffers_stay_as_they_were_and_blends_add_once():
    """alpha softmax(x) + beta y: every choice adds to what y held when tuning began."""
    problem = Problem.parse("softmax_fwd 4x6 f32")
    graph = Graph.single(problem.op, problem.operands, dict(alpha=2.0, beta=3.0))
    arrays = {t.uid: np.full(t.dims, 1.0, np.float32) for t in plan.build(graph, SM90).slots}
    found = tune.tune(graph, arrays, SM90, clock=Said(2.0, 1.0))
    assert all((a == 1).all() for a in arrays.values()) and not any(run.wrong for run in found.runs)
    with pytest.raises(BadParam, match="must have at least 96 bytes; got 4"):
        tune.tune(graph, arrays | {max(arrays): np.zeros(1, np.float32)}, SM90, clock=Said(1.0))


def test_booleans_and_integers_are_compared():
    x, mask = Tensor(1, TensorDesc.packed("f32", (2, 64))), Tensor(2, TensorDesc.packed("bool", (2, 64)))
    graph = Graph([Node(Pointwise(mode="cmp_gt"), dict(x=1, b=1, y=2))], [x, mask])
    arrays = {1: np.ones((2, 64), np.float32), 2: np.zeros(16, np.uint8)}
    assert not any(run.wrong for run in tune.tune(graph, arrays, SM90, clock=Said(1.0)).runs)
    bits = TensorDesc.packed("bool", (8,)).dtype, TensorDesc.packed("i32", (1,)).dtype
    for dtype, size in zip(bits, (1, 4)):
        zero, other = np.zeros(size, np.uint8), np.full(size, 3, np.uint8)
        said = lambda got: tune.Apart.of(dtype, got, zero, 0.0).said(dtype, 0.0, 1.0)
        assert said(zero) == "" and "are others" in said(other)


def test_outputs_are_compared_in_pieces(monkeypatch):
    """Each by a thread: what is wrong in any of them is counted, and a choice that is right stays so."""
    monkeypatch.setattr(tune, "PIECE", 512)
    made = plan.made
    spoils = {2: put(0, 0, 0x3C), 3: put(600, 0, 0x7E), 4: put(1258, 0, 0x3C)}     # the first is of the case
    count = []

    def some(choice, at):
        count.append(choice)
        return spoiled(made, choice, spoils[len(count) - 1]) if len(count) - 1 in spoils else made(choice, at)
    monkeypatch.setattr(plan, "made", some)
    found = raced(10.0, 9.0, 8.0, 7.0, 6.0)
    assert [bool(run.wrong) for run in found.runs[:5]] == [False, True, True, True, False]
    assert all("y: 1 of 630 elements differ" in run.wrong for run in found.runs[1:4])


def test_the_race_has_every_candidate_and_their_configurations():
    graph = bench.graph_of(Problem.parse("matmul 256x512 512x128 f16"))
    found = rivals(graph, SM90.facts, B, 12)
    assert found[0].text == best(graph, SM90.facts).text and len({c.text for c in found}) == len(found) == 12
    assert len({c.name for c in found}) > 3 and max(sum(c.name == d.name for d in found) for c in found) > 2
    limited = Wish(workspace_bytes=0)
    assert all(c.workspace_bytes == 0 for c in rivals(graph, SM90.facts, limited, 30))


@pytest.mark.parametrize("change, why", [
    (dict(clock=None), "tune: device must be a GPU, or a clock be given; got ptx:sm_90"),
    (dict(most=0), "tune: most must be >= 1; got 0"), (dict(pack={}), "must hold tensor x, y; got uids"),
    (dict(lets=lambda choice: False), "there must be a choice to measure; got none")])
def test_what_cannot_be_tuned(change, why):
    graph = bench.graph_of(Problem.parse(LINE))
    given = dict(pack={1: 0, 2: 0}, clock=Said(1.0)) | change
    with pytest.raises((BadParam, NotSupported), match=why):
        tune.tune(graph, device=SM90, **given)


def test_ragged_outputs_are_refused():
    x, offsets = TensorDesc.packed("f32", (2, 8)), Tensor(3, TensorDesc.packed("i32", (3, 1)))
    graph = Graph([Node(Pointwise(mode="relu_fwd"), dict(x=1, y=2))],
                  [Tensor(1, x), Tensor(2, x, ragged=3), offsets])
    with pytest.raises(NotSupported, match="outputs must not be ragged, .*; got uid 2"):
        tune.tune(graph, {1: 0, 2: 0, 3: 0}, "numpy", clock=Said(1.0))


# ---- pygraph ----

def soft(handle, **options):
    kinds = cudnn.data_type
    g = cudnn.pygraph(io_data_type=kinds.FLOAT, intermediate_data_type=kinds.FLOAT,
                      compute_data_type=kinds.FLOAT, handle=handle, **options)
    x, scale = g.tensor([6, 40], [40, 1]), g.tensor([1, 1], [1, 1], is_pass_by_value=True)
    return g, x, scale, g.exp(g.scale(x, scale)).set_output(True)


@pytest.fixture
def sm90():
    number = cudnn.create_handle("ptx:sm_90")
    yield number
    cudnn.destroy_handle(number)


def test_a_pygraph_is_tuned(sm90):
    g, x, scale, y = soft(sm90)
    given, out = np.ones((6, 40), np.float32), np.zeros((6, 40), np.float32)
    g.build_operation_graph()
    found = g.autotune({x: given, scale: 2.0, y: out}, clock=Said(4.0, 3.0, 1.0))
    assert found.gain > 1 and not out.any() and g.plan.choice == found.best.choice
    assert g._left()[0].choice == found.best.choice
    g.execute({x: given, scale: 2.0, y: out}, np.empty(g.get_workspace_size(), np.uint8))
    assert np.allclose(out, np.exp(2.0))
    other, *_ = soft(sm90, kernel_cache=cudnn.create_kernel_cache())
    other.build([cudnn.heur_mode.B])
    assert other.plan.choice.text == found.best.choice.text
    g.deselect_engines([g.get_plan_name_at_index(0)])
    again = g.autotune({x: given, scale: 2.0, y: out}, save=False, clock=Said(4.0, 3.0))
    assert found.best.choice not in [run.choice for run in again.runs]


def test_attention_is_tuned_on_the_arrays_that_execute_takes(sm90):
    """Keys are given as (b, h, s, d), which lie the other way round in the graph; an array of another type is
    used as it lies, with a warning."""
    kinds = cudnn.data_type
    g = cudnn.pygraph(io_data_type=kinds.HALF, intermediate_data_type=kinds.FLOAT, handle=sm90)
    q, k = g.tensor([1, 1, 4, 8]), g.tensor([1, 1, 6, 8])
    o = g.sdpa(q, k, k, generate_stats=False)[0].set_output(True)
    g.build_operation_graph()
    arrays = [np.ones((1, 1, rows, 8), kind) for rows, kind in ((4, "f4"), (6, "f2"), (4, "f2"))]
    with pytest.warns(UserWarning, match="array must be of type float16"):
        found = g.autotune(dict(zip((q, k, o), arrays)), clock=Said(2.0, 1.0))
    assert len(found.runs) > 1 and not any(run.wrong for run in found.runs)


def test_engines_that_round_in_between_are_not_wrong(sm90):
    """Weights of attention in 8 bits, where the largest of the results has 32."""
    kinds = cudnn.data_type
    g = cudnn.pygraph(io_data_type=kinds.FP8_E4M3, intermediate_data_type=kinds.FLOAT, handle=sm90)
    scale, qkv = g.tensor([1, 1, 1, 1], data_type=kinds.FLOAT), [g.tensor([1, 1, 64, 64]) for _ in range(3)]
    o, _, _, amax = g.sdpa_fp8(*qkv, *[scale] * 6, generate_stats=False, attn_scale=0.125)
    o.set_output(True).set_data_type(kinds.HALF), amax.set_output(True)
    g.build_operation_graph()
    x = np.random.default_rng(0).normal(0, 1, (3, 1, 1, 64, 64)).astype(ml_dtypes.float8_e4m3fn)
    pack = dict(zip(qkv, x)) | {scale: np.ones((1, 1, 1, 1), "f4"), o: np.zeros((1, 1, 64, 64), "f2"),
                                    amax: np.zeros((1, 1, 1, 1), "f4")}
    found = g.autotune(pack, clock=Said(2.0), save=False)
    assert {420, 423} <= {part.engine.index for run in found.runs for part in run.choice.parts}
    assert not any(run.wrong for run in found.runs)


def test_what_engines_round_to():
    """What tensor cores take of f32, and weights of attention; no other engine has a rounding of its own."""
    p = Row(q=Row(dtype=f16), v=Row(dtype=bf16), w=Row(dtype=f16))
    found = {engine.index: kind.name for engine in TABLE if (kind := engine.rounded_to(p))}
    assert found == {161: "f16", 162: "f16", 421: "bf16", 422: "bf16", 423: "f8_e4m3", 431: "f16", 432: "f16",
                     433: "bf16"}


def test_what_a_pygraph_cannot_tune(sm90):
    g, x, scale, y = soft(sm90)
    g.build([cudnn.heur_mode.A])
    with pytest.raises(BadParam, match="autotune: the handle must be of the device that the plans are for"):
        g.autotune({}, handle="numpy")
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="tune: device must be a GPU, or a clock"):
        g.autotune({})
    assert not [*tuned.place().parent.iterdir()]
    with pytest.raises(BadParam, match="the variant pack must hold"):
        g.autotune({x: np.ones((6, 40), np.float32)}, clock=Said(1.0))
    kinds = cudnn.data_type
    g = cudnn.pygraph(io_data_type=kinds.FLOAT, compute_data_type=kinds.FLOAT, handle=sm90)
    x = g.tensor([2, 8], [8, 1])
    y = g.cmp_gt(x, x).set_output(True).set_data_type(kinds.BOOLEAN)
    with pytest.raises(BadParam, match="autotune: build_operation_graph must come first"):
        g.autotune({})
    g.build_operation_graph()
    with pytest.raises(BadParam, match="autotune: booleans must be packed"):
        g.autotune({x: np.ones((2, 8), np.float32), y: np.zeros((2, 8), np.bool_)}, clock=Said(1.0))
    tuned.place().write_text("cut")              # told before anything is measured
    with pytest.raises(BadParam, match="tuned table: the last line must be `end`; got 'cut'"):
        g.autotune({}, clock=Said(1.0))


# ---- python -m cydnn tune ----

def test_the_command(capsys, monkeypatch, table, tmp_path):
    monkeypatch.setattr(tune, "clock_of", lambda device: Said(2.0, 1.0))
    (tmp_path / "lines").write_text(f"{LINE}  # the first\n\nscale_tensor 8x8 f32\n")
    assert main(["tune", f"@{tmp_path / 'lines'}", "--device", "ptx:sm_90", "--most", "3"]) == 0
    said = capsys.readouterr().out
    assert said.count("100.0 % faster than mode A (2.00 us)") == 2 and f"saved in {table}" in said
    assert len(tuned.current().rows) == 2
    other = tmp_path / "other.txt"
    assert main(["tune", LINE, "nonsense", "--device", "ptx:sm_90", "--json", "--table", str(other)]) == 1
    out, error = capsys.readouterr()
    row, = json.loads(out)
    assert row["gain"] == 2 and len(row["runs"]) > 3 and "cydnn: nonsense: " in error and other.exists()
    assert main(["tune", LINE, "--device", "ptx:sm_90", "--dry-run", "--table", str(tmp_path / "no")]) == 0
    assert not (tmp_path / "no").exists()


def test_the_command_needs_a_gpu(capsys):
    assert main(["tune", LINE, "--device", "numpy"]) == 1
    assert "tune: device must be a GPU, or a clock be given; got numpy" in capsys.readouterr().err

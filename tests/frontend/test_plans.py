"""Plans: what the heuristics give, what is left of it, knobs."""
from __future__ import annotations

import json
import re

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import engines
from cydnn.frontend.notes import notes_of
from cydnn.status import BadParam, NotSupported

from .conftest import conv, floats, names, nhwc

T, MODE, KNOB = cudnn.data_type, cudnn.heur_mode, cudnn.knob_type


# ---- Modes ----

def test_the_steps_one_by_one(h200):
    g, _ = conv(device_property=h200)
    g.validate()
    g.build_operation_graph()
    g.create_execution_plans([MODE.A, MODE.B, MODE.FALLBACK, MODE.OPENSOURCE])
    assert g.check_support() is True
    g.build_plans()
    assert g.get_execution_plan_count() > 3
    assert g.get_workspace_size() == g.get_workspace_size_plan_at_index(0)


def test_modes_are_merged_in_order(h200):
    found = {}
    for modes in ([MODE.A], [MODE.FALLBACK], [MODE.A, MODE.FALLBACK], [MODE.FALLBACK, MODE.A],
                  [MODE.OPENSOURCE], MODE.A):
        g, _ = conv(n=256, device_property=h200)
        g.create_execution_plans(modes)
        found[str(modes)] = names(g)
    a, fallback = found[str([MODE.A])], found[str([MODE.FALLBACK])]
    assert found[str([MODE.A, MODE.FALLBACK])] == list(dict.fromkeys(a + fallback))
    assert found[str([MODE.FALLBACK, MODE.A])] == list(dict.fromkeys(fallback + a))
    assert found[str([MODE.OPENSOURCE])] == found[str(MODE.A)] == a
    assert a[0] == "119:conv_fprop_halo"
    assert fallback[0].startswith("1:composite(119:conv_fprop_halo")


def test_wrong_modes(g):
    g.relu(g.tensor([2], [1])).set_output(True)
    with pytest.raises(BadParam, match="modes must be one of heur_mode.B .*; got 'A'"):
        g.build(["A"])


def test_a_graph_that_no_engine_takes(h200):
    """The exception that the package has, with what every engine said."""
    g = floats(device_property=h200)
    offsets = g.tensor([3, 1], [1, 1], T.INT32)
    g.relu(g.tensor([2, 8], [8, 1], ragged_offset=offsets, name="X")).set_output(True)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError,
                       match="no engine takes .*\n.*270:pointwise_vector: does not understand ragged: X"):
        g.build([MODE.A, MODE.FALLBACK])
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="no plan is left of 0"):
        g.check_support()
    assert g.get_engine_count() == 0


@pytest.mark.parametrize("feature, kind", [("vector", T.INT8x32), ("ragged", T.HALF)])
def test_a_refusal_names_the_operation_that_was_called(h200, feature, kind):
    """Neither the cast in front of it nor that cast's engines."""
    g = floats(device_property=h200)
    offsets = g.tensor([3, 1, 1, 1], [1, 1, 1, 1], T.INT32)
    x, w = (g.tensor(*nhwc(n, 2, 6, 6), kind, name=name) for n, name in ((2, "image"), (32, "weight")))
    x.set_ragged_offset(offsets if feature == "ragged" else None)
    g.conv_fprop(x, w, name="stem").set_output(True).set_data_type(kind)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError) as error:
        g.build([MODE.A])
    assert str(error.value).startswith("stem: no engine takes image=2x2x6x6:")
    assert f"110:conv_fprop_mma: does not understand {feature}: image" in str(error.value)
    assert "pointwise" not in str(error.value)
    facts = error.value.facts
    assert (facts["node"], facts["operand"]) == ("stem", "image") and facts["given"].startswith("image=2x2x6")
    assert facts["needed"] == (f"does not understand {feature}: image",)


# ---- Leaving out ----

def planned(h200):
    g, _ = conv(device_property=h200)
    g.create_execution_plans([MODE.A, MODE.FALLBACK])
    return g


def test_names(h200):
    g = planned(h200)
    before = names(g)
    assert g.deselect_engines(["conv_fprop_mma", "conv_fprop_any"]) is g
    left = names(g)
    assert left == [n for n in before if "conv_fprop_mma" not in n and "conv_fprop_any" not in n]
    assert 0 < len(left) < len(before)
    g.deselect_engines(["conv"])
    with pytest.raises(cudnn.cudnnGraphNotSupportedError,
                       match=r"no plan is left of \d+; deselected 'conv_fprop_mma', .* 'conv'"):
        g.check_support()
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="no plan is left"):
        g.build_plans()
    with pytest.raises(BadParam, match="names must be a list of parts of plan names; got 'conv'"):
        g.deselect_engines("conv")


def test_workspace(h200):
    g = planned(h200)
    sizes = [g.get_workspace_size_plan_at_index(i) for i in range(g.get_execution_plan_count())]
    assert 0 in sizes and max(sizes) > 0
    g.deselect_workspace_greater_than(max(sizes) - 1)
    left = [g.get_workspace_size_plan_at_index(i) for i in range(g.get_execution_plan_count())]
    assert max(left) < max(sizes) and set(left) >= {size for size in sizes if size < max(sizes)}


def test_plans_are_asked_for_first(h200):
    g = cudnn.pygraph(io_data_type=T.FLOAT, compute_data_type=T.FLOAT, device_property=h200)
    g.relu(g.tensor([2, 8], [8, 1])).set_output(True)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="create_execution_plans must come first"):
        g.check_support()
    g.create_execution_plans([MODE.A])
    assert g.check_support() and g.get_plan_name_at_index(np.int64(0)) == g.get_plan_name_at_index(0)
    with pytest.raises(BadParam, match="workspace must be 0 bytes or more; got -1"):
        g.deselect_workspace_greater_than(-1)


def test_engines_do_with_less_workspace(h200):
    """What splits its sums when it may, does not when it may not; in whichever order it is said."""
    kept = []
    for is_early in (False, True):
        g = cudnn.pygraph(io_data_type=T.HALF, compute_data_type=T.FLOAT, device_property=h200)
        x, dy = g.tensor(*nhwc(8, 64, 28, 28)), g.tensor(*nhwc(8, 64, 28, 28))
        g.conv_wgrad(x, dy, [1, 1], [1, 1], [1, 1]).set_dim([64, 64, 3, 3]).set_output(True)
        g.build_operation_graph()
        if is_early:
            g.deselect_workspace_greater_than(0)
        g.create_execution_plans([MODE.A])
        assert is_early or g.get_workspace_size_plan_at_index(0) > 0
        g.deselect_workspace_greater_than(0)
        g.build_plans()
        assert g.get_workspace_size() == 0
        kept.append(names(g))
    assert kept[0] == kept[1] and all("splits=1" in name for name in kept[0]) and len(kept[0]) > 1


def test_notes(h200):
    note, numeric = cudnn.behavior_note, cudnn.numerical_note
    g = planned(h200)
    count, before = g.get_execution_plan_count(), names(g)
    tensor_cores = [n for n in before if "mma" in n or "halo" in n]
    assert 0 < len(tensor_cores) < count
    g.select_numeric_notes([numeric.TENSOR_CORE])
    assert names(g) == tensor_cores
    g = planned(h200)
    g.deselect_numeric_notes([numeric.TENSOR_CORE, numeric.NONDETERMINISTIC])
    assert names(g) == [n for n in before if n not in tensor_cores]
    g.select_numeric_notes([numeric.STRICT_NAN_PROP])
    assert names(g)
    g = planned(h200)
    g.deselect_behavior_notes([note.RUNTIME_COMPILATION])
    assert g.get_execution_plan_count() == 0          # every plan of this graph splices
    g = planned(h200)
    g.select_behavior_notes([note.SUPPORTS_CUDA_GRAPH_NATIVE_API])
    assert names(g) == before
    with pytest.raises(BadParam, match="notes must be one of behavior_note.RUNTIME_COMPILATION"):
        g.select_behavior_notes([numeric.TENSOR_CORE])


def test_a_note_that_every_candidate_has_is_deselected(h200):
    """Engines without it are asked then, in all parts of the graph."""
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.HALF, compute_data_type=T.FLOAT,
                      device_property=h200, kernel_cache=cudnn.create_kernel_cache())
    a, b, c = (g.tensor([1, 256, 256], [65536, 256, 1]) for _ in range(3))
    g.matmul(g.matmul(a, b), c).set_output(True)
    g.create_execution_plans([MODE.A])
    assert all(cudnn.numerical_note.TENSOR_CORE in notes_of(c.choice) for c in g._left())
    g.deselect_numeric_notes([cudnn.numerical_note.TENSOR_CORE])
    assert names(g) and not any("mma" in name or "small" in name for name in names(g))


@pytest.mark.parametrize("note, engine", [("WINOGRAD", "winograd"), ("FFT", "fft"), ("NONDETERMINISTIC", "")])
@pytest.mark.parametrize("is_early", [False, True])
def test_notes_that_must_be_asked_for(h200, note, engine, is_early):
    """Before the heuristics are asked or after."""
    g = cudnn.pygraph(io_data_type=T.FLOAT, compute_data_type=T.FLOAT, device_property=h200)
    x, dy = (g.tensor([8, 64, 28, 28], [50176, 784, 28, 1]) for _ in range(2))
    if note == "NONDETERMINISTIC":
        g.conv_wgrad(x, dy, [1, 1], [1, 1], [1, 1]).set_dim([64, 64, 3, 3]).set_output(True)
    else:
        w = g.tensor([64, 64, 3, 3], [576, 9, 3, 1])
        g.conv_fprop(x, w, [1, 1], [1, 1], [1, 1]).set_output(True)
    g.build_operation_graph()
    if is_early:
        g.select_numeric_notes([cudnn.numerical_note[note]])
    g.create_execution_plans([MODE.A])
    g.select_numeric_notes([cudnn.numerical_note[note]])
    found = names(g)
    assert found and all(engine in name for name in found)


def test_a_fused_bias_is_compiled_at_run_time(h200):
    note = cudnn.behavior_note
    for tail in (True, False):
        want = [note.RUNTIME_COMPILATION] * tail + [note.SUPPORTS_CUDA_GRAPH_NATIVE_API]
        g, _ = conv(tail, device_property=h200)
        g.build([MODE.A])
        assert g.get_behavior_notes() == g.get_behavior_notes_for_plan_at_index(0) == want


# ---- Building ----

def test_policies_and_indices(handle):
    g = floats(handle=handle)
    x = g.tensor([2, 3], [3, 1])
    y = g.relu(g.exp(x)).set_output(True)
    g.build_operation_graph()
    g.create_execution_plans([MODE.A, MODE.FALLBACK])
    assert names(g) == ["0:reference+0:reference", "1:composite(0:reference+0:reference)"]
    with pytest.raises(BadParam, match="a plan must be built first: build"):
        g.get_workspace_size()
    g.build_plans()
    pack, space = {x: np.zeros((2, 3), np.float32), y: np.empty((2, 3), np.float32)}, np.empty(9999, np.uint8)
    with pytest.raises(BadParam, match=r"plan 1 must be built first \(build_plans, build_plan_at_index\); "
                       r"built are \[0\]"):
        g.execute_plan_at_index(pack, space, 1)
    g.build_plans(cudnn.build_plan_policy.ALL)
    g.execute_plan_at_index(pack, space, 1)
    assert (pack[y] == 1).all()
    g.build_plan_at_index(1)
    g.execute(pack, space)
    for call in (g.get_plan_name_at_index, g.build_plan_at_index, g.get_behavior_notes_for_plan_at_index):
        with pytest.raises(BadParam, match="plan index must be below 2, .*; got 9"):
            call(9)
    with pytest.raises(BadParam,
                       match="policy must be one of build_plan_policy.HEURISTICS_CHOICE .*; got 'ALL'"):
        g.build_plans("ALL")


def test_plans_none_of_which_can_be_built(g, monkeypatch):
    """Each says why."""
    def cannot(choice, device):
        raise NotSupported(f"{choice.name} cannot")
    monkeypatch.setattr("cydnn.frontend.planning.refuse_images", cannot)
    g.exp(g.tensor([2, 3], [3, 1])).set_output(True)
    g.build_operation_graph()
    g.create_execution_plans([MODE.A])
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match=r"no plan can be built:\n  .* cannot"):
        g.build_plans()


def test_what_was_chosen_still_runs_when_it_is_deselected(handle):
    g = floats(handle=handle)
    x = g.tensor([2, 3], [3, 1])
    y = g.exp(x).set_output(True)
    g.build([MODE.A])
    g.deselect_engines(["reference"])
    out = np.empty((2, 3), np.float32)
    g.execute({x: np.ones((2, 3), np.float32), y: out})
    assert np.allclose(out, np.e)
    with pytest.raises(BadParam, match="plan index must be below 0"):
        g.get_workspace_size_plan_at_index(0)


def test_build_without_modes_takes_the_plans_that_are_there(g):
    g.relu(g.exp(g.tensor([2, 3], [3, 1]))).set_output(True)
    g.create_execution_plans([MODE.A, MODE.FALLBACK])
    g.select_plan(1)
    g.build()
    assert g.chosen is g._left()[1] and not g._left()[0].is_built
    g.build_plans(cudnn.build_plan_policy.ALL)
    assert g.chosen is g._left()[1] and g._left()[0].is_built
    g.deselect_engines(["composite"])
    g.build_plans()
    assert g.chosen is g._left()[0]


# ---- Engines and knobs ----

def test_a_plan_by_hand_for_every_configuration(h200):
    """As test_conv_bias of the package does it: each engine, each value of KERNEL_CFG."""
    g, _ = conv(device_property=h200)
    g.build_operation_graph()
    made = 0
    for engine in range(g.get_engine_count()):
        for knob in g.get_knobs_for_engine(engine):
            assert knob.min_value <= knob.max_value and knob.stride >= 1
            assert json.loads(repr(knob))["knob_type"] == knob.type.name
            if knob.type == KNOB.KERNEL_CFG:
                for value in range(knob.min_value, knob.max_value + 1, knob.stride):
                    g.create_execution_plan(engine, {KNOB.KERNEL_CFG: value})
                    made += 1
                    assert g.check_support() and g.get_execution_plan_count() == made
    assert made > 8 and len(set(names(g))) == made
    g.build_plans()
    assert re.match(r"110:conv_fprop_mma\[tile=m128n64\]|117:conv_fprop_wgmma\[(tile|resident)=", names(g)[0])


def test_knobs_of_several_kinds(h200):
    g = cudnn.pygraph(io_data_type=T.HALF, compute_data_type=T.FLOAT, device_property=h200)
    x, dy = g.tensor(*nhwc(8, 64, 28, 28)), g.tensor(*nhwc(8, 64, 28, 28))
    g.conv_wgrad(x, dy, [1, 1], [1, 1], [1, 1]).set_dim([64, 64, 3, 3]).set_output(True)
    g.build_operation_graph()
    kinds = lambda i: {k.type for k in g.get_knobs_for_engine(i)}
    at = next(i for i in range(g.get_engine_count()) if kinds(i) == {KNOB.KERNEL_CFG, KNOB.SPLIT_K_SLC})
    for k in g.get_knobs_for_engine(at):         # each number that is advertised, alone
        for value in range(k.min_value, k.max_value + 1, k.stride):
            g.create_execution_plan(at, {k.type: value})
    assert all(f" splits={splits}]" in " ".join(names(g)) for splits in (1, 2, 8, 64))
    for wrong, sentence in (({KNOB.KERNEL_CFG: 99},
                             "KERNEL_CFG of 150:conv_wgrad_mma must be from 0 to 4; got 99"),
                            ({KNOB.SPLIT_K_SLC: -1}, "SPLIT_K_SLC of 150:conv_wgrad_mma must be .*; got -1"),
                            ({KNOB.SPLIT_K_SLC: 0.0}, "SPLIT_K_SLC must be a whole number"),
                            ({KNOB.STAGES: 2},
                             "knobs of 150:conv_wgrad_mma are KERNEL_CFG SPLIT_K_SLC; got STAGES")):
        with pytest.raises(BadParam, match=sentence):
            g.create_execution_plan(at, wrong)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="150:conv_wgrad_mma offers together .*; got "
                       "SPLIT_K_SLC=4 KERNEL_CFG=1"):
        g.create_execution_plan(at, {KNOB.SPLIT_K_SLC: 4, KNOB.KERNEL_CFG: 1})
    for wrong in (-1, 99, "0"):
        with pytest.raises(BadParam, match="engine_id must be below"):
            g.get_knobs_for_engine(wrong)


def test_a_plan_by_hand_runs(handle):
    g = floats(handle=handle)
    x = g.tensor([2, 3], [3, 1])
    y = g.exp(x).set_output(True)
    g.build_operation_graph()
    assert g.get_engine_count() == 1 and g.get_knobs_for_engine(0) == []
    g.create_execution_plan(0, {})
    g.build_plans()
    out = np.empty((2, 3), np.float32)
    g.execute({x: np.zeros((2, 3), np.float32), y: out})
    assert (out == 1).all()


# ---- Explained ----

def test_a_plan_explains_itself(h200):
    """Before anything is built, for a card that is not there; the plans of the list by index."""
    g, _ = conv(device_property=h200)
    with pytest.raises(BadParam, match="plans must be chosen first: create_execution_plans, or build"):
        g.estimate()
    said = g.explain()                           # nothing need be chosen
    g.create_execution_plans([MODE.A, MODE.FALLBACK])
    (row,) = g.estimate()
    assert said == g.explain() == g.explain(0) != g.explain(1)
    assert f"{row['us']:.1f} us  {row['engine']}" in g.explain() and "refused: " in g.explain()
    assert f"{row['bytes']:,} bytes ({100 * row['bandwidth']:.0f} % of the bandwidth), " in g.explain()
    assert row["flops"] > 0 and row["engine"] == g.get_plan_name_at_index(0).split("[")[0]
    with pytest.raises(BadParam, match=f"plan index must be below {g.get_execution_plan_count()}"):
        g.explain(10_000)


def test_the_plan_that_execute_runs():
    g, _ = conv()
    assert g.plan is None
    g.build([MODE.A])
    assert g.plan is g.plan and g.plan.explain() == g.explain() == g.explain(0)
    assert g.estimate()[0]["us"] is None and g.explain().startswith("no estimate  0:reference: ")

"""What can be sent to another process is; what cannot says what to send in its place."""
import copy
import pickle

import numpy as np
import pytest

import cydnn
from cydnn._core import Executor
from cydnn import cudnn, device, frontend, functional, plan

X, W = np.ones((1, 2, 4, 4), "f4"), np.ones((3, 2, 3, 3), "f4")
CALL = functional.conv.prepare(X, W)


def built():
    g = cydnn.pygraph("three", cydnn.data_type.FLOAT, handle=cydnn.create_handle("numpy"))
    g.conv_fprop(g.tensor_like(X), g.tensor_like(W)).set_output(True)
    g.build([cydnn.heur_mode.A])
    return g


def written():
    with frontend.Graph(io_data_type=cydnn.data_type.FLOAT) as graph:
        graph.relu(X).set_output(True)
    return graph


def test_a_graph_its_choice_and_its_layout_come_through():
    graph, layout = CALL.plan.graph, CALL.plan.layout
    for make in (lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy):
        assert make(graph).key == graph.key and make(graph).names == graph.names
        assert make(layout.choice) == layout.choice and make(layout).to_json() == layout.to_json()
    again = plan.made(pickle.loads(pickle.dumps(layout.choice)), "numpy")
    y = np.empty((1, 3, 2, 2), "f4")
    again.execute([X, W, y])
    assert np.array_equal(y, cydnn.conv(X, W))


def test_a_cache_of_plans_comes_through_as_its_choices():
    cache = cydnn.create_kernel_cache()
    g = cydnn.pygraph(io_data_type=cydnn.data_type.FLOAT, handle=cydnn.create_handle("numpy"),
                      kernel_cache=cache)
    g.relu(g.tensor_like(X)).set_output(True)
    g.build([cydnn.heur_mode.A])
    found = pickle.loads(pickle.dumps(cache))
    assert found.serialize() == cache.serialize() and found.size() == 1


def test_what_is_one_in_a_process_is_itself_in_copies():
    handle = cydnn.create_handle("numpy")
    assert copy.copy(handle) is copy.deepcopy(handle) is handle
    assert pickle.loads(pickle.dumps(device.get("numpy"))) is device.get("numpy")
    assert pickle.loads(pickle.dumps(device.get("numpy").facts)) == device.get("numpy").facts


def test_what_is_printed_says_what_it_is():
    given, layout = "conv_fprop x=1x2x4x4:f32 w=3x2x3x3:f32 y=1x3x2x2:f32", CALL.plan.layout
    assert repr(CALL.plan) == f"<plan of {given}: 0:reference on numpy>"
    assert repr(layout) == f"<layout of {given}: 0:reference for numpy>"
    assert repr(layout.choice) == "<choice of 0:reference for numpy>"
    assert repr(layout.graph) == "<graph conv_fprop>"
    assert repr(layout.choice.parts[0].match) == "<match of conv_fprop>"
    assert repr(cydnn.create_kernel_cache()) == "<kernel_cache of 0 choices, 0 plans>"


def test_what_a_prepared_call_has_of_its_plan_is_said():
    with pytest.raises(AttributeError, match="Prepared object has no attribute 'workspace_bytes'; it is"):
        CALL.workspace_bytes


@pytest.mark.parametrize("make, words", [
    (lambda: CALL, "prepared call belongs to its process; .*: pickle cydnn.functional.conv, and prepare it"),
    (lambda: Executor(CALL.plan), "an executor belongs to its process; got <Executor of"),
    (lambda: CALL.plan, "plan belongs to its process; .* keep plan.layout.to_json()"),
    (built, "graph belongs to its process; got the pygraph 'three': keep g.serialize()"),
    (lambda: cydnn.pygraph().tensor_like(X), r"tensor belongs to its graph; got .*: keep serialize\(\)"),
    (written, "graph belongs to its process; got a Graph: keep serialize()"),
    (lambda: cydnn.create_handle("numpy"), r"handle belongs to its process; got \d+: create_handle\(\)"),
    (cudnn.create, "handle belongs to its process; got <Handle on numpy"),
    (lambda: device.get("ptx:sm_80"), "device belongs to its process; .*: name it where it is needed, cydnn"),
    (lambda: device.get("numpy").alloc(8), "copy: a buffer has one owner; .* allocate another")])
def test_what_belongs_to_its_process_says_so(make, words):
    with pytest.raises(TypeError, match=words):
        pickle.dumps(make())

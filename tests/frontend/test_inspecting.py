"""Graphs that are looked at: operations, tensors, plans, engines and knobs."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam

from .conftest import floats, nhwc

HALF = cudnn.data_type.HALF


@pytest.fixture
def conv(h200):
    """A convolution with a bias, and its plans for a GPU."""
    g = cudnn.pygraph(io_data_type=HALF, intermediate_data_type=cudnn.data_type.FLOAT,
                      compute_data_type=cudnn.data_type.FLOAT, device_property=h200)
    X, W = g.tensor(*nhwc(8, 64, 14, 14), name="X"), g.tensor(*nhwc(64, 64, 3, 3), name="W")
    y = g.conv_fprop(X, W, padding=[1, 1], stride=[1, 1], dilation=[1, 1], name="c")
    g.bias(y, g.tensor(*nhwc(1, 64, 1, 1), name="B"), name="b").set_output(True).set_name("Y")
    g.build_operation_graph()
    g.create_execution_plans([cudnn.heur_mode.A])
    return g


def test_what_was_written_down(conv):
    assert [(n.name, n.op) for n in conv.nodes] == [("c", "conv_fprop"), ("b", "pointwise")]
    assert conv.get_node("c").inputs["x"] is conv.find_tensor("X")
    assert conv.get_node("b").attributes["mode"] == "add"
    assert [t.get_name() for t in conv.get_inputs()] == ["X", "W", "B"]
    assert [t.get_name() for t in conv.get_outputs()] == ["Y"]
    for method, known in ((conv.get_node, "b c"), (conv.find_tensor, "B W X Y c::Y")):
        with pytest.raises(BadParam, match=f"name must be one of {known}; got 'nobody'"):
            method("nobody")


def test_engines_and_knobs_make_the_plan_again(conv):
    for index in range(min(conv.get_execution_plan_count(), 4)):
        engine, knobs = conv.get_engine_and_knobs_at_index(index)
        wanted = conv.get_plan_name_at_index(index)
        count = conv.get_execution_plan_count()
        conv.create_execution_plan(engine, knobs)
        names = [plan.name for plan in conv.plans]
        assert wanted in names[count:] or names.count(wanted) == 1 and len(names) == count


def test_a_plan_is_selected(g):
    X = g.tensor([4, 4], [4, 1])
    Y = g.relu(X, name="r").set_output(True)
    assert g.selected_engine is None
    g.create_execution_plans([cudnn.heur_mode.A])
    g.select_plan(0)
    assert g.selected_engine == 0 and [p.is_selected for p in g.plans][0]
    told = g.inspect()
    assert told["outputs"] == [Y] and told["nodes"] == g.nodes and told["plans"] == g.plans


def test_a_boolean_a_byte(g):
    x, y = np.array([[-1, 0, 2]], np.float32), np.full((1, 3), 7, np.uint8)
    X = g.tensor_like(x)
    Y = g.cmp_gt(X, g.tensor_scalar(-0.5, cudnn.scalar_type.COMPILE_TIME_CONST)).set_output(True)
    Y.set_data_type(cudnn.data_type.BYTE_BOOLEAN)
    g.build([cudnn.heur_mode.A])
    g.execute({X: x, Y: y}, np.empty(g.get_workspace_size() + 1, np.uint8))
    assert y.tolist() == [[0, 1, 1]] and Y.get_data_type() is cudnn.data_type.BYTE_BOOLEAN

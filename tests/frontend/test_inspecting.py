"""Graphs that are looked at: operations, tensors, plans, engines and knobs."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.ops import BY_NAME
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
    assert str(conv.nodes) == "[Node('c', CONV_FPROP), Node('b', POINTWISE)]"
    X, b = conv.find_tensor("X"), conv.get_node("b")
    assert conv.get_node("c").inputs["image"] is X is conv.find_tensor(X.get_uid()) is conv.tensors["X"]
    assert b.params == {"mode": "add"} and [*b.inputs, *b.outputs] == ["IN_0", "IN_1", "OUT_0"]
    assert conv.context.io_data_type is HALF
    assert [t.get_name() for t in conv.get_inputs()] == ["X", "W", "B"]
    assert [t.get_name() for t in conv.get_outputs()] == ["Y"]
    assert conv.get_node("nobody") is conv.find_tensor("nobody") is conv.find_tensor(99) is None
    with pytest.raises(BadParam, match="find_tensor: key must be a whole number"):
        conv.find_tensor(1.5)


def test_operations_in_the_words_of_their_calls(g):
    """What is found there has the names that the caller wrote."""
    x, one = g.tensor([2, 3, 4, 8], name="x"), g.tensor([1, 1, 1, 8], name="twice")
    g.tensor([1], name="twice")
    g.relu_backward(x, x, negative_slope=0.5)
    number = g.tensor_scalar(1e-5, cudnn.scalar_type.COMPILE_TIME_CONST)
    g.layernorm(cudnn.norm_forward_phase.INFERENCE, x, one, one, number)
    g.rope_backward(x, cos=g.tensor([4, 8]), sin=g.tensor([4, 8]))
    g.sdpa(x, x, x, is_inference=True)
    assert [n.node_type.name for n in g.nodes] == ["POINTWISE", "LAYERNORM", "ROPE_BWD", "SDPA"]
    relu, norm, _, attention = g.nodes
    assert relu.params == {"mode": "relu_backward", "negative_slope": 0.5}
    assert norm.inputs["input"] is x and norm.inputs["scale"] is one
    assert attention.inputs["v"] is x and [*attention.outputs] == ["O"]
    with pytest.raises(BadParam, match="find_tensor: name must not be ambiguous; got 'twice', that of 2"):
        g.find_tensor("twice")
    g.matmul(x, g.tensor([2, 3, 8, 5]))
    assert g.nodes[4].params == {"padding": 0.0} and g.nodes[4].outputs["C"].get_name() == "matmul.4::C"
    g.steps[1].op = BY_NAME["dropout_states"]     # as a graph of the backend's may be
    assert g.nodes[1].node_type is cudnn.NodeType.COMPOSITE and "twice" not in g.tensors


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
    g.create_execution_plans([cudnn.heur_mode.A])
    assert g.select_plan(0) is g and g.selected_engine is None
    plan, told = g.plans[0], g.inspect()
    assert plan.is_selected and (plan.cpp_index, plan.engine_id, plan.knobs) == (0, 0, {})
    assert told["outputs"] == [Y] and told["plans"] == g.plans == g.backend_plan_entries()
    assert told["nodes"] == [dict(name="r", type="POINTWISE", inputs={"IN_0": ""},
                                  outputs={"OUT_0": "r::OUT_0"}, params={"mode": "relu"})]
    assert told["tensors"]["r::OUT_0"]["dim"] == [4, 4]


def test_a_boolean_a_byte(g):
    x, y = np.array([[-1, 0, 2]], np.float32), np.full((1, 3), 7, np.uint8)
    X = g.tensor_like(x)
    Y = g.cmp_gt(X, g.tensor_scalar(-0.5, cudnn.scalar_type.COMPILE_TIME_CONST)).set_output(True)
    Y.set_data_type(cudnn.data_type.BYTE_BOOLEAN)
    g.build([cudnn.heur_mode.A])
    g.execute({X: x, Y: y}, np.empty(g.get_workspace_size() + 1, np.uint8))
    assert y.tolist() == [[0, 1, 1]] and Y.get_data_type() is cudnn.data_type.BYTE_BOOLEAN

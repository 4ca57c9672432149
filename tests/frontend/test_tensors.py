"""Tensors: what is set, what is found, what stands in the graph."""
from __future__ import annotations

import enum
import json

import ml_dtypes
import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam

from .conftest import floats
from .fakes import CUDA, Dtype, Plain, Size, Tensor

T = cudnn.data_type


def test_setters_chain_and_getters_tell(g):
    t = g.tensor(Size((2, 3)), Size((3, 1)), Dtype("float16"))
    assert t.get_dim() == [2, 3] and t.get_stride() == [3, 1] and t.get_data_type() is T.HALF
    other = g.tensor([1], [1])
    chained = (t.set_name("t").set_dim([4, 5]).set_stride((5, 1)).set_data_type(T.INT8).set_uid(9)
               .set_is_virtual(False).set_is_pass_by_value(True).set_output(True).set_alignment(32)
               .set_ragged_offset(other).set_reordering_type(cudnn.tensor_reordering.F16x16)
               .set_vector_count_and_dimension(4, 1).set_ragged_offset_multiplier(64))
    assert chained is t and t.get_ragged_offset_multiplier() == 64
    assert (t.get_name(), t.get_dim(), t.get_uid(), t.get_alignment()) == ("t", [4, 5], 9, 32)
    assert t.get_is_pass_by_value() and not t.get_is_virtual() and not t.get_has_compile_time_constant()
    assert (t.get_vector_count(), t.get_vector_dimension()) == (4, 1)
    assert t.get_reordering_type() is cudnn.tensor_reordering.F16x16
    assert (other.get_alignment(), other.get_vector_count(), other.get_vector_dimension()) == (16, 1, -1)


def test_the_text_is_json(g):
    t = g.tensor([2, 3], [3, 1], name="x", uid=5)
    row = json.loads(repr(t))
    assert (row["name"], row["uid"], row["dim"], row["stride"], row["data_type"]) == ("x", 5, [2, 3], [3, 1],
                                                                                      "NOT_SET")


def test_tensors_are_keys(g):
    a, b = g.tensor([2], [1]), g.tensor([2], [1])
    assert a != b and {a: 1, b: 2}[a] == 1


def test_uids(g):
    """Any number is a uid; those that are not set count from 1 past the ones that are, from the
    beginning; one that is set elsewhere makes way."""
    class Uid(enum.IntEnum):
        X = 0
    x, b = g.tensor([2, 3], [3, 1], uid=Uid.X), g.tensor([2, 3], [3, 1])
    c = g.tensor([2, 3], [3, 1]).set_uid(-1)
    first = g.add(x, b)
    assert [t.get_uid() for t in (x, b, c, first)] == [0, 1, -1, 2] == [t.uid for t in (x, b, c, first)]
    y = g.mul(first, c).set_uid(2).set_output(True)
    assert [t.get_uid() for t in (x, b, c, first, y)] == [0, 1, -1, 3, 2]
    g.build_operation_graph()
    assert [t.get_uid() for t in (x, b, c, first, y)] == [0, 1, -1, 3, 2]
    assert g.query_tensor_attributes_of_uid(-1) is c and g.query_tensor_attributes_of_uid(0) is x
    with pytest.raises(BadParam, match=r"uid must be one of \[-1, 0, 1, 2, 3\]; got 9"):
        g.query_tensor_attributes_of_uid(9)


def test_a_uid_belongs_to_one_tensor(g):
    x, b = g.tensor([2], [1], uid=0), g.tensor([2], [1], uid=0)
    g.add(x, b).set_output(True)
    with pytest.raises(BadParam, match=r"uids must differ; got \[0\] more than once"):
        g.validate()


def test_what_is_set_wins_and_what_is_found_can_change(g):
    x = g.tensor([2, 3, 4, 5], [60, 20, 5, 1])
    y = g.relu(x).set_output(True)
    g.validate()
    assert y.get_dim() == [2, 3, 4, 5] and y.get_stride() == [60, 20, 5, 1] and y.get_data_type() is T.FLOAT
    x.set_dim([2, 3, 4, 4]).set_stride([48, 16, 4, 1])
    y.set_data_type(T.HALF)
    g.validate()
    assert y.get_dim() == [2, 3, 4, 4] and y.get_data_type() is T.HALF


def test_a_built_graph_does_not_change(g):
    x = g.tensor([2, 3], [3, 1], name="X")
    y = g.exp(x).set_output(True)
    g.build([cudnn.heur_mode.A])
    y.set_output(True).set_dim(y.get_dim()).set_uid(y.get_uid()).set_data_type(T.FLOAT)      # what it is
    with pytest.raises(BadParam,
                       match=r"tensor X: must be set before build_operation_graph; got dim \(3, 3\)"):
        x.set_dim([3, 3])
    with pytest.raises(BadParam, match="must be added before build_operation_graph"):
        g.relu(y)


def test_tensors_like_a_result_have_what_was_found(g):
    y = g.exp(g.tensor([2, 3], [3, 1], T.HALF)).set_data_type(T.FLOAT)
    assert y.dim == [2, 3] and y.stride == [3, 1] and y.found is None     # before the graph is validated
    assert g.reshape(y).dim == [] and y.dim == [2, 3] and g.find_tensor(y.uid) is y
    like = g.tensor_like(y)
    assert (like.get_dim(), like.get_stride(), like.get_data_type()) == ([2, 3], [3, 1], T.FLOAT)


def test_a_tensor_of_a_built_graph_is_the_next_ones(g):
    """Programs make the tensors of a backward graph from a forward graph that is built."""
    g.exp(g.tensor([2, 3], [3, 1])).set_output(True)
    g.build([cudnn.heur_mode.A])
    late = g.tensor_like(g.tensor([2, 3], [3, 1], T.FLOAT))
    with pytest.raises(BadParam, match="must be added before build_operation_graph"):
        g.relu(late)
    other = cudnn.pygraph(handle=g.own_handle, io_data_type=T.FLOAT, compute_data_type=T.FLOAT)
    y = other.relu(late).set_output(True)
    other.build([cudnn.heur_mode.A])
    x, found = np.float32([[-1, 2, 3], [4, -5, 6]]), np.zeros((2, 3), np.float32)
    other.execute({late: x, y: found}, np.empty(other.get_workspace_size(), np.uint8))
    np.testing.assert_array_equal(found, np.maximum(x, 0))
    third = cudnn.pygraph(handle=g.own_handle)
    with pytest.raises(BadParam, match="must be a tensor of the graph; got one of another graph"):
        third.relu(late)


# ---- Arrays ----

def test_the_layout_of_arrays(g):
    column = np.zeros((4, 6), np.float16)[:, :3].T
    for x, kind in ((column, T.HALF), (Tensor(column), T.HALF), (Plain(column), T.HALF),
                    (Tensor(np.zeros((3, 2), np.uint16), "bfloat16"), T.BFLOAT16),
                    (np.zeros((3, 2), ml_dtypes.bfloat16), T.BFLOAT16), (np.zeros((3, 2), bool), T.BOOLEAN),
                    (np.zeros((3, 2), np.int64), T.INT64),
                    (Plain(np.zeros((3, 2), np.uint16), kind=(4, 16)), T.BFLOAT16),
                    (Tensor(np.zeros((3, 2), np.uint8), "float8_e5m2"), T.NOT_SET),
                    (np.zeros((3, 2), complex), T.NOT_SET)):
        t = g.tensor_like(x)
        assert t.get_data_type() is kind
        assert t.get_stride() == ([1, 6] if kind is T.HALF else [2, 1]), x
        assert not t.get_is_virtual() and not t.get_is_pass_by_value()
    assert g.tensor_like(Plain(np.zeros((2, 3), np.int32), has_strides=False)).get_stride() == [3, 1]
    with pytest.raises(BadParam, match="must be given a tensor of a graph or an array with DLPack; got list"):
        g.tensor_like([1, 2])


def test_like_another_tensor(g):
    x = g.tensor([2, 3], [3, 1], T.INT8, uid=7, name="x").set_alignment(4).set_is_pass_by_value(True)
    y = g.tensor_like(x)
    assert (y.get_dim(), y.get_data_type(), y.get_alignment(), y.get_is_pass_by_value()) == ([2, 3], T.INT8,
                                                                                             4, True)
    assert (y.get_uid(), y.get_name()) == (1, "") and g.tensor_like(x, "copy").get_name() == "copy"
    assert g.tensor_like(y, is_virtual=True).get_is_virtual() and g.tensor_like(x, "", True).get_is_virtual()
    assert g.tensor([2], alignment_value=8).set_alignment_value(4).alignment_value == 4
    assert x.uid_assigned and x.dim_assigned and not y.uid_assigned and x.pass_by_value is None
    with pytest.raises(BadParam, match="tensor: alignment_value must be >= 1; got 0"):
        g.tensor([2], alignment_value=0)


def test_arrays_on_the_host_are_numbers(g, h200):
    """On a GPU's graph all of them; where memory is the host's, those of one element."""
    far, one, many = floats(device_property=h200), np.ones((1, 1)), np.ones((2, 2))
    for x in (one, many, Tensor(many), Plain(many), np.float32(3)):
        assert far.tensor_like(x).get_is_pass_by_value()
    assert not far.tensor_like(Tensor(many, place="cuda")).get_is_pass_by_value()
    assert not far.tensor_like(Plain(one, place=CUDA)).get_is_pass_by_value()
    assert g.tensor_like(one).get_is_pass_by_value() and not g.tensor_like(many).get_is_pass_by_value()
    assert g.tensor_like(np.array(1.0)).get_dim() == [1]
    assert g.tensor_like(Plain(np.array(1.0))).get_is_pass_by_value()
    x, filters = far.tensor([1, 8, 4, 4], [128, 16, 4, 1]), far.tensor_like(np.ones((8, 8, 3, 3), np.float32),
                                                                            "W")
    far.conv_fprop(x, filters, [0, 0], [1, 1], [1, 1]).set_output(True)
    with pytest.raises(BadParam, match="weight must be in memory; got pass-by-value tensor W of dims"):
        far.validate()


@pytest.mark.parametrize("value, kind", [(1.5, T.FLOAT), (np.float64(1.5), T.DOUBLE),
                                         (np.float16(1.5), T.HALF), (3, T.INT32),
                                         (2 ** 40, T.INT64), (np.int64(3), T.INT64), (np.int8(3), T.INT8)],
                         ids=repr)
def test_scalars(g, value, kind):
    for way in cudnn.scalar_type:
        t = g.tensor_scalar(value, way, "number")
        assert t.get_name() == "number"
        assert (t.get_dim(), t.get_stride(), t.get_data_type()) == ([1], [1],
                                                                    kind) and t.get_is_pass_by_value()
        assert t.get_has_compile_time_constant() == (way is cudnn.scalar_type.COMPILE_TIME_CONST)
        assert json.loads(repr(t))["value"] == float(value)
    with pytest.raises(BadParam, match="value must be a float, or an int of 64 bits; got '1'"):
        g.tensor_scalar("1", cudnn.scalar_type.RUNTIME_PARAM)


# ---- What stands in the graph ----

def built(g, x):
    """The tensor of the graph below for an input of a ReLU."""
    y = g.relu(x).set_output(True)
    g.validate()
    return g.graph.tensors[x.found.uid], g.graph.tensors[y.found.uid]


def test_kinds(g):
    x = g.tensor([2, 3], [3, 1])
    number = g.tensor([1, 1], [1, 1], is_pass_by_value=True)
    middle = g.add(x, number)
    y = g.relu(middle).set_output(True)
    g.validate()
    assert [t.found.kind for t in (x, number, middle, y)] == ["memory", "value", "virtual", "memory"]
    with pytest.raises(BadParam, match="must not be virtual and passed by value at once"):
        middle.set_is_pass_by_value(True)
        g.validate()


def test_alignment_offsets_and_reordering_are_carried(g):
    offsets = g.tensor([3, 1, 1, 1], [1, 1, 1, 1], T.INT32, name="offsets")
    x = g.tensor([2, 3, 4, 4], [48, 16, 4, 1], ragged_offset=offsets,
                 reordering_type=cudnn.tensor_reordering.F16x16)
    low, _ = built(g, x.set_alignment(4))
    assert low.alignment == 4 and low.ragged == offsets.found.uid and low.reordering == "f16x16"
    assert offsets.found.uid in g.graph.slots


@pytest.mark.parametrize("given, count", [(T.INT8x4, 4), (T.UINT8x4, 4), (T.INT8x32, 32), (T.INT8, 1)])
def test_types_of_several_neighbours(g, given, count):
    x = g.tensor([2, 3, 4, 4], [48, 1, 12, 3], given)
    low, _ = built(g, x)
    assert low.desc.vector == count and low.dtype.name == ("u8" if given is T.UINT8x4 else "i8")
    assert x.get_data_type() is given


def test_vector_counts(g):
    low, _ = built(g, g.tensor([2, 3], [3, 1], T.INT8).set_vector_count_and_dimension(32, 1))
    assert low.desc.vector == 32
    for count, dimension, kind, sentence in ((4, 0, T.INT8,
                                              "vector_dimension must be 1, the channels; got 0"),
                                             (8, 1, T.INT8x4,
                                              "vector_count must be 4, that of its type; got 8")):
        other = floats(handle=g.own_handle)
        x = other.tensor([2, 3], [3, 1], kind).set_vector_count_and_dimension(count, dimension)
        other.relu(x).set_output(True)
        with pytest.raises(BadParam, match=sentence):
            other.validate()


FEATURES = [
    (lambda g, x: x.set_ragged_offset(g.tensor([3, 1, 1, 1], [1, 1, 1, 1], T.INT32)),
     "does not understand ragged"),
    (lambda g, x: x.set_reordering_type(cudnn.tensor_reordering.INT8x32), "does not understand reordering"),
    (lambda g, x: x.set_vector_count_and_dimension(4, 1).set_data_type(T.INT8), "does not understand vector")]


@pytest.mark.parametrize("device, change, sentence", [
    pytest.param(device, *row, id=f"{device}-{row[1].split()[-1]}") for device in ("numpy", "h200")
    for row in FEATURES if device == "h200" or "ragged" not in row[1]])
def test_engines_refuse_what_they_do_not_understand(handle, h200, device, change, sentence):
    g = floats(handle=handle) if device == "numpy" else floats(device_property=h200)
    x = g.tensor([2, 3, 4, 4], [48, 16, 4, 1], name="X")
    change(g, x)
    g.relu(x).set_output(True)
    g.build_operation_graph()
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match=sentence):
        g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])


def test_types_that_have_no_row(g):
    g.relu(g.tensor([2], [1], T.FP4_E2M1)).set_output(True)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError,
                       match="data_type must be one of FLOAT .*; got FP4_E2M1"):
        g.validate()


def test_what_is_none_is_not_set():
    """As the package's newest versions have it; strides are row-major then."""
    g = cudnn.pygraph("graph", None, None, None, is_cuda_graph_replay_expected=True)
    t = g.tensor([2, 3, 4], None, None, reordering_type=None, uid=None)
    assert (t.get_stride(), t.get_data_type(), t.get_uid()) == ([12, 4, 1], cudnn.data_type.NOT_SET, 1)
    g.add(t.set_data_type(cudnn.data_type.HALF), t, compute_data_type=None).set_output(True).set_data_type(
        cudnn.data_type.HALF)
    assert g.tensor([5]).set_data_type(None).get_stride() == [1]
    g.validate()


def test_wrong_fields(g):
    with pytest.raises(BadParam, match="dim must be a list of whole numbers .*; got 3"):
        g.tensor(3, [1])
    with pytest.raises(BadParam, match="ragged_offset must be a tensor of the graph; got int"):
        g.tensor([3], [1], ragged_offset=4)
    with pytest.raises(BadParam, match="ragged_offset_multiplier must be >= 1; got 0"):
        g.tensor([3], [1]).set_ragged_offset_multiplier(0)
    with pytest.raises(BadParam, match="reordering_type must be one of tensor_reordering.NONE"):
        g.tensor([3], [1], reordering_type="none")
    g.relu(g.tensor([3, 2], [1], name="X")).set_output(True)
    with pytest.raises(BadParam, match=r"tensor X: stride must have as many entries as dim; got dim \[3, "
                       r"2\], stride \[1\]"):
        g.validate()

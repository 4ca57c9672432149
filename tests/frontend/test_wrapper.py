"""``Graph``, ``graph``, ``jit``, ``graph_cache``: graphs written in a block or a function."""
from __future__ import annotations

import sys

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import device as devices
from cydnn.frontend import wrapper
from cydnn.status import BadParam

from .fakes import Dtype, Tensor

T = cudnn.data_type
TYPES = dict(io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT)
A, B, BIAS = (np.random.default_rng(0).normal(size=s).astype(np.float32)
              for s in ((1, 4, 6), (1, 6, 5), (1, 1, 5)))


def written(handle, **options):
    """relu(a @ b + bias) on arrays themselves; its result's tensor."""
    with cudnn.Graph(handle=handle, **TYPES, **options) as graph:
        c = graph.matmul(name="mm", A=A, B=B)
        y = graph.relu(name="relu", input=graph.bias(c, BIAS, name="bias"))
        y.set_output(True)
    return graph, y


WANT = np.maximum(A @ B + BIAS, 0)


# ---- A dict ----

def test_a_dict_by_names(handle):
    """Of the arguments, by name or place; what it lacks of the results is made, added and given back."""
    graph, y = written(handle)
    given = {"mm::A": A, "mm::B": B, "bias::1": BIAS}
    found = graph(given)
    assert found is given and list(found) == ["mm::A", "mm::B", "bias::1", "relu::OUT_0"]
    np.testing.assert_allclose(found["relu::OUT_0"], WANT, rtol=1e-5)


def test_a_dict_by_tensors_names_and_uids(handle):
    with cudnn.Graph(handle=handle, **TYPES) as graph:
        a, b = graph.tensor([1, 4, 6], [24, 6, 1], name="left"), graph.tensor_like(B)
        c = graph.matmul(a, b).set_output(True).set_name("product").set_uid(77)
    out = np.empty((1, 4, 5), np.float32)
    for given in ({"left": A, b: B, "product": out}, {a: A, b.get_uid(): B, 77: out},
                  {"matmul.0::0": A, "matmul.0::1": B, c: out}):
        out[:] = 0
        graph(given)
        np.testing.assert_allclose(out, A @ B, rtol=1e-5)


def test_what_a_dict_lacks(handle):
    graph, _ = written(handle)
    with pytest.raises(RuntimeError, match="the dict must hold the inputs mm::B, bias::1; got mm::A"):
        graph({"mm::A": A})


# ---- Positions ----

@pytest.mark.parametrize("late", [False, True])
def test_positions(handle, late):
    inputs, outputs = [A, "mm::B", "bias::1"], ["relu::OUT_0"]
    graph, _ = written(handle, **({} if late else dict(inputs=inputs, outputs=outputs)))
    if late:
        with pytest.raises(ValueError,
                           match="put in order by set_io_tuples first, or by inputs and outputs of"):
            graph(A, B, BIAS)
        graph.set_io_tuples(inputs, outputs)
    np.testing.assert_allclose(graph(A, B, BIAS), WANT, rtol=1e-5)
    np.testing.assert_allclose(graph(2 * A, B, BIAS), np.maximum(2 * A @ B + BIAS, 0), rtol=1e-5)
    with pytest.raises(ValueError, match="arguments must be 3; got 2"):
        graph(A, B)


def test_several_results(handle):
    with cudnn.Graph(handle=handle, inputs=["exp.0::0"], outputs=["exp.0::OUT_0", "neg.0::OUT_0"],
                     **TYPES) as graph:
        middle = graph.exp(A).set_output(True)
        graph.neg(middle).set_output(True)
    found = graph(A)
    assert isinstance(found, tuple)
    np.testing.assert_allclose(found[0], np.exp(A), rtol=1e-6)
    np.testing.assert_array_equal(found[1], -found[0])


def test_wrong_orders(handle):
    graph, y = written(handle)
    for inputs, outputs, sentence in (
            (["mm::A", "mm::B"], ["relu::OUT_0"], "must be an input or an output; got neither for bias::1"),
            (["mm::A", "mm::B", "bias::1"], [], "got neither for relu::OUT_0"),
            (["mm::A", "mm::A", "bias::1"], [y], "must be named once; got 'mm::A' twice"),
            (["mm::A", "mm::B", "bias::1", "bias::0"], [y], "inputs must not be virtual; got mm::C"),
            (["nobody"], [y], "input must be one of mm::A, mm::B, .*; got nobody"),
                                      ("mm::A", [y], "inputs must be a list")):
        with pytest.raises(ValueError, match=sentence):
            graph.set_io_tuples(inputs, outputs)


# ---- The block ----

def test_what_the_block_does_itself(handle):
    with cudnn.Graph(handle=handle, **TYPES) as graph:
        graph.relu(A).set_output(True)
        for name in wrapper.BUILT_BY_ITSELF:
            assert name == "key" or hasattr(cudnn.pygraph, name), name
            with pytest.raises(RuntimeError,
                               match=f"{name} must not be called, as the block builds the graph itself"):
                getattr(graph, name)
        with pytest.raises(RuntimeError, match="its block must end before it is called"):
            graph({})
        with pytest.raises(ValueError, match="names of operations must differ; got relu.0 twice"):
            graph.neg(A, name="relu.0")
    assert graph.get_workspace_size() == 0 and len(graph.serialize()) > 100
    with pytest.raises(ValueError, match="its block must be entered once"):
        graph.__enter__()
    for wrong in (dict(inputs="x"), dict(outputs=3), dict(heuristics=3)):
        with pytest.raises(ValueError, match="must be a list( of heur_mode)?; got"):
            cudnn.Graph(**wrong)
    with pytest.raises(AttributeError, match="its block must be entered first"):
        cudnn.Graph().relu


@pytest.mark.parametrize("modes", [cudnn.heur_mode.A, np.array([cudnn.heur_mode.FALLBACK], object)])
def test_modes_alone_or_in_any_sequence(handle, modes):
    graph, _ = written(handle, heuristics=modes)
    found = graph({"mm::A": A, "mm::B": B, "bias::1": BIAS})
    np.testing.assert_allclose(found["relu::OUT_0"], WANT, rtol=1e-5)


def test_a_written_graph_is_looked_at(handle):
    graph, y = written(handle)
    assert graph.explain() == graph.explain(0) and "matmul" in graph.explain()
    assert graph.inspect()["nodes"] and [t.get_name() for t in graph.get_outputs()] == [y.get_name()]
    assert len(graph.get_inputs()) == 3 and graph.find_tensor(y.get_name()) is y
    assert graph.estimate() and graph.backend_plan_entries() and graph.get_node("mm")
    assert graph({"mm::A": A, "mm::B": B, "bias::1": BIAS})


def test_errors_leave_the_block(handle):
    with pytest.raises(ZeroDivisionError):
        with cudnn.Graph(handle=handle, **TYPES):
            1 / 0
    with pytest.raises(ValueError, match="it must have at least one operation"):
        with cudnn.Graph(handle=handle, **TYPES):
            pass


def test_what_was_refused_is_said_again(handle):
    """By the next error, whichever it is; what was refused leaves no name and no input behind."""
    refused = "gdn: linear attention comes with a later release"
    again = f"\n.*refused before it: .*{refused}"
    with pytest.raises(RuntimeError, match=f"must have at least one operation.*{again}"):
        with cudnn.Graph(handle=handle, **TYPES) as graph:
            with pytest.raises(cudnn.cudnnGraphNotSupportedError, match=refused):
                graph.gdn(A, B, name="mm")
            with pytest.raises(ValueError, match=f"got NoneType.*{again}"):
                graph.relu(None)
    for wrong in (lambda: graph({}), lambda: graph.__enter__()):
        with pytest.raises(RuntimeError, match="block must (end without an error; got .*|be entered once)"):
            wrong()
    with cudnn.Graph(handle=handle, **TYPES) as graph:
        with pytest.raises(cudnn.cudnnGraphNotSupportedError):
            graph.gdn(BIAS, B, name="mm")
        c = graph.matmul(A, B, name="mm").set_output(True)
    np.testing.assert_allclose(graph({"mm::0": A, "mm::1": B})[c.get_name()], A @ B, rtol=1e-5)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError):
        with cudnn.Graph(handle=handle, **TYPES) as graph:
            graph.gdn(A, B)
    for wrong in (lambda: graph(A, B), lambda: graph.get_workspace_size()):
        with pytest.raises((RuntimeError, AttributeError), match=f"its block .*{refused[:30]}"):
            wrong()


def test_one_array_is_one_tensor(handle):
    with cudnn.Graph(handle=handle, **TYPES) as graph:
        y = graph.mul(A, A).set_output(True)
    out = graph({"mul.0::0": A})[y.get_name()]
    np.testing.assert_array_equal(out, A * A)


def test_handle_and_workspace_of_the_call(handle):
    graph, _ = written(None, workspace_alloc=False)
    given = {"mm::A": A, "mm::B": B, "bias::1": BIAS}
    space = np.empty(graph.get_workspace_size() + 1, np.uint8)
    with pytest.raises(RuntimeError, match="handle must be given, to the call or to the graph; got None"):
        graph(given, workspace=space)
    with pytest.raises(RuntimeError, match="workspace must be given, as workspace_alloc is False; got None"):
        graph(given, handle=handle)
    np.testing.assert_allclose(graph(given, handle=handle, workspace=space)["relu::OUT_0"], WANT, rtol=1e-5)


def test_a_handle_of_another_device_at_the_call(handle):
    """Plans are made for it, once; the others stay."""
    graph, _ = written(None, inputs=["mm::A", "mm::B", "bias::1"], outputs=["relu::OUT_0"])
    ptx = cudnn.create_handle("ptx:sm_80")
    for at in (ptx, handle, ptx):
        np.testing.assert_allclose(graph(A, B, BIAS, handle=at), WANT, rtol=1e-5)
    made = dict(graph._planned)
    graph(A, B, BIAS, handle=ptx)
    assert graph._planned == made


KINDS = [T.FLOAT, T.HALF, T.BFLOAT16, T.INT32, T.BOOLEAN]


def compared(handle, x, kinds):
    """x > 0 of types, each a result that the call makes."""
    with cudnn.Graph(handle=handle, **TYPES) as graph:
        for kind in kinds:
            zero = graph.tensor_scalar(0.0, cudnn.scalar_type.COMPILE_TIME_CONST)
            graph.cmp_gt(x, zero, name=kind.name).set_output(True).set_data_type(kind)
    return graph({"FLOAT::0": x})


def test_results_are_numpys_where_arguments_are(handle):
    """bf16 and f8 of ml_dtypes, booleans of one byte."""
    found = compared(handle, A, KINDS + [T.FP8_E4M3])
    for name, kind in dict(FLOAT="float32", HALF="float16", BFLOAT16="bfloat16", INT32="int32",
                           BOOLEAN="bool", FP8_E4M3="float8_e4m3fn").items():
        got = found[f"{name}::OUT_0"]
        assert got.dtype.name == kind
        np.testing.assert_array_equal(got.astype(float), A > 0)


def test_results_are_torchs_where_arguments_are(handle):
    torch = pytest.importorskip("torch")
    found = compared(handle, torch.from_numpy(A), KINDS)
    for kind in KINDS:
        got = found[f"{kind.name}::OUT_0"]
        assert got.device.type == "cpu" and cudnn.datatypes._library_type(got.dtype) is kind
        assert torch.equal(got.double(), torch.from_numpy(A > 0).double())


def test_the_handle_of_the_process():
    graph, _ = written("auto")
    given = {"mm::A": A, "mm::B": B, "bias::1": BIAS}
    if devices.default().context is None:
        np.testing.assert_allclose(graph(given)["relu::OUT_0"], WANT, rtol=1e-5)
        assert wrapper.auto_handle() == wrapper.auto_handle()


def test_memory_of_a_gpu_comes_from_torch(monkeypatch):
    """Of the device that the graph is on, with dims, strides and type."""
    class torch:
        uint8, float16 = Dtype("uint8"), Dtype("float16")
        empty_strided = staticmethod(lambda dims, strides, device, dtype: (dims, strides, device, dtype))

    class Gpu:
        context, name = object(), "cuda:1"
    monkeypatch.setitem(sys.modules, "torch", torch)
    t = cudnn.tensor().set_dim([2, 3]).set_stride([1, 2]).set_data_type(T.HALF)
    assert wrapper.empty_like(Gpu, False, t) == ((2, 3), (1, 2), "cuda:1", torch.float16)
    assert wrapper.empty(Gpu, False, (64,), (1,)) == ((64,), (1,), "cuda:1", torch.uint8)
    with pytest.raises(BadParam, match="torch has no type for .*; got data_type.INT8x32: give its memory"):
        wrapper.empty_like(Gpu, False, t.set_data_type(T.INT8x32))


def test_arguments_in_tuples_and_arrays_of_torch(handle):
    """Arrays in a tuple become tensors too, and are named by their place in it."""
    with cudnn.Graph(handle=handle, **TYPES) as graph:
        seen = []
        graph._graph.dropout = lambda x, mask, name: seen.append(mask) or graph._graph.relu(x, name=name)
        y = graph._operation("dropout", graph._graph.dropout, [Tensor(A)], dict(mask=(0.5, B)))
        y.set_output(True)
    (probability, t), = seen
    assert probability == 0.5 and t.get_dim() == [1, 6, 5]
    assert list(graph._inputs) == ["dropout.0::0", "dropout.0::mask::1"]


# ---- Functions ----

def test_graph_builds_nothing(handle):
    with cudnn.graph(handle) as (g, tensors):
        assert isinstance(g, cudnn.pygraph) and tensors == []
        x = g.tensor([2, 3], [3, 1])
        y = g.relu(g.neg(x)).set_output(True)
    assert g.get_execution_plan_count() == 0
    g.validate()
    assert y.get_data_type() is T.HALF and g.steps[0].outputs["y"].get_data_type() is T.FLOAT


def test_jit_and_cache(handle):
    made = []

    @cudnn.jit(heur_modes=[cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    @cudnn.graph_cache(key_fn=lambda n, scale=1: (n, scale), maxsize=2)
    def net(n, scale=1):
        """A net."""
        made.append(n)
        with cudnn.graph(handle, io_data_type=T.FLOAT) as (g, _):
            x = g.tensor([n, 3], [3, 1], name="x", uid=10)
            y = g.exp(x).set_output(True)
        return g, [x, y]

    g, uids = net(2)
    assert uids == [10, 1] and net(2)[0] is g and made == [2] and net.__doc__ == "A net."
    out = np.empty((2, 3), np.float32)
    g.execute(dict(zip(uids, (np.zeros((2, 3), np.float32), out))), 0)
    assert (out == 1).all()
    net(3)
    net(4)                                       # two are kept: the first in is the first out
    assert net(4)[0] is net(4)[0] and made == [2, 3, 4] and net(2)[0] is not g
    assert cudnn.jit(cudnn.heur_mode.A)(lambda: (g, []))() == (g, [])

"""What leaves the library is its own exception, TypeError or ValueError, and names function, argument and
value."""
import copy
import json
import pickle
import re
from dataclasses import asdict, replace

import numpy as np
import pytest

import cydnn
from cydnn import _core, backend, bench, cudnn, device, frontend, kernels, plan
from cydnn.device.facts import KNOWN
from cydnn.graph import Node, Tensor
from cydnn.heuristics import Wish
from cydnn.layout import Layout
from cydnn.ops import BY_NAME, ConvFprop, Pointwise, Problem
from cydnn.status import AllocFailed, BadParam
from support.hostile.values import Changing, Raises, Shape

MASKED = np.ma.zeros((4, 8), np.float32)
SOFTMAX, FLOATS, H200 = "softmax_fwd 4x8 f32", cydnn.TensorDesc.packed("f32", (4, 8)), KNOWN["h200"]


def built(line=SOFTMAX, where="numpy"):
    return plan.build(bench.graph_of(Problem.parse(line)), where)


def pygraph(**kw):
    return frontend.pygraph(io_data_type=cydnn.data_type.FLOAT, handle=frontend.create_handle("numpy"), **kw)


def ready():
    g = pygraph()
    g.tensor([4, 8], [8, 1], uid=1)
    g.relu(g._tensors[0]).set_output(True).set_uid(2)
    g.build([cydnn.heur_mode.A])
    return g


def executed(pack):
    ready().execute(pack)


def ragged(g, other):
    x = g.tensor([2, 4, 4, 8], [128, 32, 8, 1])
    g.relu(x.set_ragged_offset(other.tensor([3, 1, 1, 1], [1, 1, 1, 1]))).set_output(True)
    g.validate()


def destroyed():
    desc = cudnn.createTensorDescriptor()
    cudnn.destroyTensorDescriptor(desc)
    return desc


class Says:
    """An object that says odd things of its memory."""

    def __init__(self, **interface):
        if interface:
            self.__cuda_array_interface__ = interface

    def __dlpack__(self, **_):
        return 5


def with_scalar(value):
    p = built()
    return p.execute([np.zeros((4, 8), np.float32)] * 2, scalars=[value, 0.0])


def described(text):
    d = cudnn.createTensorDescriptor()
    cudnn.setTensor4dDescriptor(d, 0, 0, text, 2, 3, 4)


def softmax(**other):
    x, memory = cudnn.createTensorDescriptor(), np.zeros(24, np.float32)
    cudnn.setTensor4dDescriptor(x, 0, 0, 1, 2, 3, 4)
    given = dict(handle=cudnn.create("numpy"), algorithm=1, mode=0, alpha=1.0, xDesc=x, x=memory, beta=0.0,
                 yDesc=x, y=np.zeros(24, np.float32))
    cudnn.softmaxForward(**{**given, **other})


def dropped(size):
    d, x, handle = cudnn.createDropoutDescriptor(), cudnn.createTensorDescriptor(), cudnn.create("numpy")
    cudnn.setTensor4dDescriptor(x, 0, 0, 1, 2, 3, 4)
    states, memory = np.zeros(cudnn.dropoutGetStatesSize(handle), np.uint8), np.zeros(64, np.float32)
    cudnn.setDropoutDescriptor(d, handle, .5, states, states.nbytes, 7)
    cudnn.dropoutForward(handle, d, x, memory, x, memory, memory, size)


def multiplied(number):
    g = pygraph()
    x, one = g.tensor([4], [1], uid=1), g.tensor([1], [1], uid=2, is_pass_by_value=True)
    g.mul(x, one).set_output(True).set_uid(3)
    g.build([cydnn.heur_mode.A])
    g.execute({1: np.zeros(4, np.float32), 2: number, 3: np.zeros(4, np.float32)})


def network():
    net, dropout = cudnn.createRNNDescriptor(), cudnn.createDropoutDescriptor()
    cudnn.setDropoutDescriptor(dropout, cudnn.create("numpy"), 0.0, None, 0, 0)
    cudnn.setRNNDescriptor(net, 4, 1, dropout, 0, 0, 0, 0)
    return net


CALLS = {
    "enumerant: no text": (lambda: backend.number({}), "must be one of the API's enumerants; got {}"),
    "enumerant: a long text": (lambda: backend.number("1" * 5000), "enumerants; got '1{100,120}…"),
    "legacy: an index that raises": (lambda: cudnn.getLastErrorString(Raises()), "max_size must be an int"),
    "legacy: an enum that raises": (lambda: softmax(mode=Raises()), "mode must be a cudnnSoftmaxMode"),
    "legacy: a number that raises": (lambda: softmax(alpha=Raises()), "alpha must be a number"),
    "legacy: many digits for a handle": (lambda: cudnn.setStream(1 << 20000, 0),
                                         "handle must be a library handle"),
    "legacy: a size that is none": (lambda: dropped({}), "reserveSpaceSizeInBytes must be an int; got {}"),
    "memory: DLPack that raises": (lambda: softmax(x=Shape(__dlpack__=lambda **kw: 1 / 0)),
                                   "x must be a pointer: Shape does not give its memory: ZeroDivisionError"),
    "memory: a size below 0": (lambda: softmax(x=Shape(__array_interface__=dict(
        shape=(-4,), typestr="<f4", data=(64, False)))), r"memory must have dims >= 0; got \(-4,\)"),
    "tensor_scalar: 10**400": (lambda: pygraph().tensor_scalar(10 ** 400, cydnn.scalar_type.RUNTIME_PARAM),
        "tensor_scalar: value must be a float, or an int of 64 bits; got 10"),
    "graph: a name that is none": (lambda: cydnn.Graph([], [], name=[0]), r"name must be a text; got \[0\]"),
    "node: a name that is none": (lambda: cydnn.Node(ConvFprop(), {}, name=[0]), "conv_fprop: name must be"),
    "tensor: a name that is none": (lambda: Tensor(1, FLOATS, name=[0]), "tensor: name must be a text"),
    "tensor_like: DLPack that is a number": (lambda: pygraph().tensor_like(Shape(__dlpack__=7)),
        "tensor_like: Shape must give its layout; got TypeError: 'int' object is not callable"),
    "tensor_like: elements without bytes": (lambda: pygraph().tensor_like(np.zeros(3, "V0")),
        "tensor_like: ndarray must give its layout; got ZeroDivisionError"),
    "a number: DLPack that raises": (lambda: multiplied(Shape(__dlpack__=lambda: 1 / 0)),
        "must be a number, or an array of one on the host; got Shape: ZeroDivisionError"),
    "rnn: a sequence that is none": (lambda: cudnn.getRNNWorkspaceSize(
        cudnn.create("numpy"), network(), 1, np.array(1.5)),
        "xDesc must be a sequence of tensor descriptors, not an address; got array"),
    "stream: an object that raises": (lambda: cudnn.setStream(cudnn.create("numpy"), Shape(
        __cuda_stream__=lambda: 1 / 0)), "streamId Shape must give its address; got division by zero"),
    "scalar: an object that raises": (lambda: with_scalar(Raises()), "scalar alpha: must be a number"),
    "dtype: a text for NumPy's parser": (lambda: cydnn.dtype(",f16"),
                 "dtype must be one of f64 .*; got ',f16'"),
    "dtype: no type": (lambda: cydnn.dtype(None), "dtype must be one of .*; got None"),
    "dtype: half a character": (lambda: cydnn.dtype("\ud800"), "dtype must be one of"),
    "dtype: many digits": (lambda: cydnn.dtype("1" * 5000), "dtype must be one of .*; got '1{100,120}…"),
    "dims: a fraction": (lambda: cydnn.TensorDesc("f32", (1.9, 2), (2, 1)),
                         r"tensor: dims must be a list of whole numbers .*; got \(1.9, 2\)"),
    "dims: infinite": (lambda: cydnn.TensorDesc("f32", (float("inf"),), (1,)), "tensor: dims must be a list"),
    "dims: a text": (lambda: cydnn.TensorDesc("f32", "22", (2, 1)),
                 "tensor: dims must be a list .*; got '22'"),
    "dims: 2**63": (lambda: cydnn.TensorDesc("f32", (2 ** 63,), (1,)),
                 r"dims and strides must be below 2\*\*63"),
    "vector: a list": (lambda: cydnn.TensorDesc("f32", (1,), (1,), []),
                 "tensor: vector must be a whole number"),
    "layout": (lambda: cydnn.TensorDesc.packed("f32", (2, 3), "nchv"), "layout must be one of nchw nhwc, or"),
    "set_dim": (lambda: pygraph().tensor([1.9], [1]), r"dim must be a list of whole numbers .*; got \[1.9\]"),
    "set_uid": (lambda: pygraph().tensor([1], [1], uid=float("inf")),
                 "tensor: uid must be a whole number .*inf"),
    "tensor_like": (lambda: pygraph().tensor_like(None), "tensor_like: must be given .*; got NoneType"),
    "key": (lambda: pygraph().key(), "graph: it must have at least one operation; got none"),
    "parse: no text": (lambda: Problem.parse(5), "problem: must be a line of text; got 5"),
    "parse: groups": (lambda: Problem.parse("conv_fprop n1c4h6w6 k4r3s3 groups=0"),
                      "problem: groups must be >= 1; got 0"),
    "parse: a list without end": (lambda: Problem.parse("pooling_fwd n1c2h4w4 window=1*99999999999"),
                                  "'window=.*' cannot be read: a list must have 1 to 65536 numbers"),
    "parse: alignment": (lambda: Problem.parse(SOFTMAX + " align=3"), "align must be a power of two; got 3"),
    "build": (lambda: plan.build(Problem.parse(SOFTMAX)), "build: graph must be a Graph; got Problem"),
    "build: device": (lambda: built(where=object()),
                 'device: must be "cuda:N", "ptx:sm_N", "numpy" or a device; got <obj'),
    "device": (lambda: device.get("cuda:99999999999999999999"), "device: must be .*got 'cuda:9{20}'"),
    "device: a digit that is none": (lambda: device.get("cuda:²"), "device: must be .*; got 'cuda:²'"),
    "device: number": (lambda: cudnn.create(2 ** 64), "device: must be .*; got '18446744073709551616'"),
    "device: an array": (lambda: device.get(np.zeros(3)), "device: must be"),
    "properties": (lambda: frontend.create_device_properties(2 ** 40),
                 "device: must be .*; got '1099511627776'"),
    "scalar: 10**400": (lambda: with_scalar(10 ** 400), "scalar alpha: must be a number, or an array of one"),
    "scalar: a text": (lambda: with_scalar("1"), "scalar alpha: must be a number, or an array of one"),
    "scalars: none": (lambda: built().execute([0, 0], scalars=5), "scalars must be a list of numbers; got 5"),
    "pointers": (lambda: built().execute(5), "execute: pointers must be a list of pointers; got 5"),
    "run": (lambda: built().run([1, 2]), r"execute: the variant pack must be a dict .*; got \[1, 2\]"),
    "attribute: 10**400": (lambda: BY_NAME["lrn_fwd"](offset=10 ** 400), "lrn_fwd: offset must be a number"),
    "attribute: infinite": (lambda: BY_NAME["rnn_fwd"](hidden=float("inf")), "hidden must be a whole number"),
    "attribute: a list": (lambda: ConvFprop(mode=[]), r"conv_fprop: mode must be one of .*; got \[\]"),
    "operand": (lambda: Problem(ConvFprop(), dict(x=5, w=5)), "conv_fprop: x must be a TensorDesc; got 5"),
    "rank 0": (lambda: Problem(BY_NAME["conv_wgrad"](), dict.fromkeys("x dy dw".split(),
                                                                     cydnn.TensorDesc("f32", (), ()))),
               "conv_wgrad: x must have 1 to 3 spatial dims; got rank 0"),
    "graph: nodes": (lambda: cydnn.Graph([5], []), "graph: nodes must be a list of Nodes; got 5"),
    "graph: too large": (lambda: built(f"pointwise x={2 ** 62}:f32 mode=exp"),
                         r"tensor x: must reach at most 2\*\*44 bytes; got 18446744073709551616"),
    "stream": (lambda: cudnn.setStream(cudnn.create("numpy"), 2 ** 64),
               r"cudnnSetStream: streamId must be an address, from 0 to 2\*\*64 - 1; got 1844"),
    "front stream": (lambda: frontend.set_stream(frontend.create_handle("numpy"), -1),
                     "set_stream: stream: must be an address, .*; got -1"),
    "legacy: an array for a size": (lambda: described([1]), r"n must be an int; got \[1\]"),
    "legacy: a large size": (lambda: described(10 ** 400),
                 "cudnnSetTensor4dDescriptor: n must have at most 64 bits"),
    "workspace": (lambda: pygraph().deselect_workspace_greater_than("x"),
                 "workspace must be a whole number .*'x'"),
    "a list for a pack": (lambda: executed([0, 4, 8, 12]), "the variant pack must be a dict .*; got list"),
    "an address": (lambda: built().execute([2 ** 70, 0]), "x: must be an address, .*; got 118059162"),
    "bytes of a workspace": (lambda: built().execute([0, 0], np.zeros(8), workspace_bytes=-1),
                             "execute: workspace_bytes must be >= 0; got -1"),
    "wish": (lambda: plan.build(bench.graph_of(Problem.parse(SOFTMAX)), wish=5),
             "build: wish must be a Wish; got 5"),
    "plan of another format": (
        lambda: Layout.from_json(built().layout.to_json().replace('"format": 1', '"format": 99')),
        "plan: format must be 1; got 99"),
    "facts: a number": (lambda: replace(H200, sm=-1),
                        "facts: sm must be a whole number, at least 0; got -1"),
    "facts: a text": (lambda: replace(H200, name=5), "facts: name must be a text; got 5"),
    "facts: a kind": (lambda: replace(H200, kind="tpu"), "facts: kind must be one of cuda numpy; got 'tpu'"),
    "memory of many dims": (lambda: _core.pointer_of(Says(data=(16, False), typestr="<f4", shape=(1,) * 17)),
                            r"pointer: memory must have <= 16 dims; got \(1, "),
    "no capsule": (lambda: _core.pointer_of(Says()),
                   r"pointer: __dlpack__\(\) must give a capsule named dltensor; got 5 from Says"),
    "copy of a handle": (lambda: copy.copy(cudnn.create("numpy")), "copy: a handle is the library on a dev"),
    "pickle of a handle": (lambda: pickle.dumps(cudnn.create("numpy")), "pickle: a handle belongs to its"),
    "copy of nothing": (lambda: copy.copy(destroyed()), "copy: the descriptor must not be destroyed; got T"),
    "kernel": (lambda: kernels.get(5), "kernels: name must be a text; got 5"),
    "node: op": (lambda: Node(5, {}), "node: op must be an operation; got 5"),
    "node: operands": (lambda: Node(ConvFprop(), 5), "conv_fprop: operands must be a dict by name; got 5"),
    "node: no output": (lambda: cydnn.Graph([Node(BY_NAME["softmax_fwd"](), dict(x=1))], [Tensor(1, FLOATS)]),
                        r"softmax_fwd: must write at least one tensor; got only \['x'\]"),
    "tensor: desc": (lambda: Tensor(1, 5), "tensor uid 1: desc must be a TensorDesc; got 5"),
    "set_is_virtual": (lambda: pygraph().tensor([1], [1]).set_is_virtual(np.array([1, 0])),
                       r"tensor without a name: is_virtual must be True or False; got array\(\[1, 0\]\)"),
    "set_name": (lambda: pygraph().tensor([1], [1], name=5), "tensor: name must be a text; got 5"),
    "tensor_like: parts of an element": (
        lambda: pygraph().tensor_like(np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (3,), (6,))),
        r"tensor_like: strides must be whole elements of 4 bytes; got \(6,\) bytes"),
    **{f"{where}: a mask": (call, f"^{where}: must have no mask, as .*; got MaskedArray: pass its data") for
       where, call in {
           "pointer": lambda: _core.pointer_of(MASKED), "workspace": lambda: _core.scratch_of(MASKED),
           "y": lambda: built().execute([np.zeros((4, 8), np.float32), MASKED]),
           "copy_in": lambda: device.get("numpy").copy_in(0, MASKED),
           "copy_out": lambda: device.get("numpy").copy_out(0, MASKED),
           "tensor_like": lambda: pygraph().tensor_like(MASKED)}.items()},
    "attribute: a text": (lambda: Pointwise(mode="elu_fwd", elu_alpha=np.array("2")),
                          "elu_alpha must be a number; got array"),
    "attribute: a mask": (lambda: ConvFprop(stride=np.ma.array(2)), "stride must be a .* got masked_array"),
    "properties: a kind": (
        lambda: frontend.create_device_properties(json.dumps({**asdict(H200), "kind": "tpu"})),
        "create_device_properties: facts: kind must be one of cuda numpy; got 'tpu'"),
    "ragged offsets of another graph": (lambda: ragged(pygraph(), pygraph()),
                                        "ragged_offset must be a tensor of the graph; got one of another"),
    "knobs": (lambda: ready().create_execution_plan(0, 5),
              "create_execution_plan: knobs must be a dict of knob_type to number; got 5"),
    "deselect_engines": (lambda: ready().deselect_engines([5]),
                         r"deselect_engines: names must be a list of parts of plan names; got \[5\]"),
    "operation: name": (lambda: pygraph().relu(None, name=5), "relu: name must be a text; got 5"),
    "pygraph: name": (lambda: pygraph(name=5), "pygraph: name must be a text; got 5"),
    "pygraph: cache": (lambda: pygraph(kernel_cache=5), "kernel_cache must be a kernel_cache; got 5"),
    "deserialize: nothing": (lambda: pygraph().deserialize(), "deserialize: takes data, or .*; got 0 argum"),
    "deserialize: a number": (lambda: pygraph().deserialize(5), "data must be the bytes of serialize.*got 5"),
    "deserialize: an attribute": (
        lambda: pygraph().deserialize(repr(ready()).replace('"mode"', '"blue"')),
        "pointwise: attributes must be some of compute mode .*; got blue"),
    "file": (lambda: pygraph().deserialize('{"format": 1}'),
                 "the text must be JSON of a pygraph; got KeyError"),
    "like: dims": (lambda: FLOATS.like(np.float32(1.5)), "tensor: dims must be a list of whole numbers"),
    "like: dtype": (lambda: FLOATS.like(4, 8, dtype=np.zeros(3)), "dtype must be one of .*; got array"),
    "same_layout": (lambda: FLOATS.same_layout(5), "tensor: other must be a TensorDesc; got 5"),
    "is_packed": (lambda: FLOATS.is_packed("ab"), "tensor: layout must be one of nchw nhwc.*; got 'ab'"),
    "Layout.of: graph": (lambda: Layout.of(5, H200), "plan: graph must be a Graph; got 5"),
    "Layout.of: wish": (lambda: Layout.of(built().graph, H200, "x"), "plan: wish must be a Wish; got 'x'"),
    "graph_of": (lambda: bench.graph_of(5), "graph_of: problem must be a Problem; got 5"),
    "words: op": (lambda: backend.words(5, "mode"), "backend: op must be one of the operations; got 5"),
    "words: field": (lambda: backend.words(ConvFprop, "x"),
                     "field must be an attribute of conv_fprop: .*'x'"),
    "wish: mode": (lambda: Wish(mode=np.zeros(2)), "wish: mode must be one of a b fallback; got array"),
    "wish: notes": (lambda: Wish(notes=(5,)), "wish: notes must be a text; got 5"),
    "wish: config": (lambda: Wish(config=5), "wish: config must be a Config; got 5"),
    "jit: function": (lambda: frontend.jit()(5), "jit: function must be a function; got 5"),
    "jit: what it returns": (lambda: frontend.jit()(lambda: 5)(),
                             r"jit: the function must return \(graph, \[tensors\]\); got 5"),
    "jit: what raises": (lambda: frontend.jit()(Raises)(), r"must return \(graph, \[tensors\]\); got an obj"),
    "jit: a graph": (lambda: frontend.jit()(lambda: (5, []))(), "jit: the graph must be a pygraph; got 5"),
    "graph_cache: key_fn": (lambda: frontend.graph_cache(5),
                            "graph_cache: key_fn must be a function; got 5"),
    "graph_cache: maxsize": (lambda: frontend.graph_cache(len, 0),
                             "graph_cache: maxsize must be >= 1; got 0"),
    "graph_cache: a key": (lambda: frontend.graph_cache(lambda: [])(list)(),
                           r"graph_cache: key_fn must return what has a hash; got \[\]"),
    "Graph: workspace_alloc": (lambda: frontend.Graph(workspace_alloc=np.zeros(2)),
                               "Graph: workspace_alloc must be True or False; got array"),
    "Graph: handle": (lambda: frontend.Graph(handle=np.zeros(2)).__enter__(),
                      "handle: must be one of create_"),
    "Graph: its end": (lambda: frontend.Graph().__exit__(None, None, None),
                       "Graph: its block must be entered before it ends"),
    "Graph: a name": (lambda: frontend.Graph(handle="numpy").__enter__().relu(np.zeros(4), name=[]),
                      r"relu: name must be a text; got \[\]"),
    "Graph: io tuples": (lambda: frontend.Graph().set_io_tuples(Raises(), []),
                         "Graph: inputs must be a list; got an object of type Raises"),
}


@pytest.mark.parametrize("call, sentence", CALLS.values(), ids=CALLS)
def test_what_comes_out(call, sentence):
    with pytest.raises((BadParam, TypeError), match=sentence):
        call()


def test_memory_that_is_not_there_is_said(monkeypatch):
    def full(*args):
        raise MemoryError("Unable to allocate 16.0 GiB")
    p = built()
    monkeypatch.setattr(type(p.layout.steps[0].op), "evaluate", full)
    with pytest.raises(AllocFailed, match="softmax_fwd: the host must have the memory .*; got: Unable"):
        p.execute([np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float32)])


@pytest.mark.parametrize("attribute", ["mode=relu_fwd relu_lower_clip_slope", "mode=elu_fwd elu_alpha",
                                       "mode=softplus_fwd softplus_beta", "mode=swish_fwd swish_beta"])
@pytest.mark.parametrize("value", [1e308, -1e308, 1e39])
def test_numbers_beyond_f32_are_infinite_on_every_device(attribute, value):
    """As a conversion in C makes them: zero times such a number is NaN in a kernel, so it is in NumPy."""
    x, found = np.array([0, 1, -1, .5, -2, 1e-38, 3e38, -3e38], np.float32), []
    for name in ("numpy", "ptx:sm_80"):
        p, where = built(f"pointwise x=8:f32 {attribute}={value!r}", name), device.get(name)
        buffers = [where.alloc(32), where.alloc(32)]
        where.copy_in(buffers[0].ptr, x)
        p.execute([int(b.ptr) for b in buffers])
        found.append(where.copy_out(buffers[1].ptr, np.empty(8, np.float32)))
    np.testing.assert_array_equal(*found)


def test_a_wish_is_read_once():
    """What stands for True or for a number is that: a plan is remembered by its wish."""
    wish = Wish(deterministic=[], workspace_bytes=np.int64(1 << 20))
    assert wish == Wish(workspace_bytes=1 << 20) and type(wish.workspace_bytes) is int
    assert plan.build(built().graph, "numpy", wish) is plan.build(built().graph, "numpy", wish)


@pytest.mark.parametrize("line", [
    "softmax_fwd x=3x4:f16@3,1 align=4", "softmax_fwd 3x4 f16 align=2", "transform x=2x3:i8x4 y=2x3:i8x4",
    "pointwise x=:f32 mode=exp", "matmul 8x4 4x3 bf16 align=64"])
def test_texts_parse_back(line):
    problem = Problem.parse(line)
    assert Problem.parse(str(problem)) == problem
    from cydnn.graph.text import problems
    made = bench.graph_of(problem)
    again = Problem.parse(problems(made))
    assert bench.graph_of(again).key == made.key             # the line of a log, too


def test_numbers_that_change_are_read_once():
    """What was checked is what counts, whatever the object says the next time."""
    x, w, net = cudnn.createTensorDescriptor(), cudnn.createFilterDescriptor(), cudnn.createRNNDescriptor()
    cudnn.setTensor4dDescriptor(x, 0, 0, Changing(-5, 1), 2, 3, Changing(-5, 4))
    cudnn.setFilter4dDescriptor(w, 0, 0, Changing(-5, 1), 2, 3, 4)
    dropout, handle = cudnn.createDropoutDescriptor(), cudnn.create("numpy")
    cudnn.setDropoutDescriptor(dropout, handle, 0.0, None, 0, 0)
    cudnn.setRNNDescriptor(net, Changing(-5, 8), 1, dropout, 0, 0, 0, 0)
    assert cudnn.getTensor4dDescriptor(x)[1:5] == (1, 2, 3, 4)
    assert cudnn.getFilter4dDescriptor(w)[2:] == (1, 2, 3, 4) and net.fields.hidden == 8
    values, out, mode = np.arange(24, dtype=np.float32), np.zeros(24, np.float32), Changing(0, 1, 1, 1)
    cudnn.softmaxForward(handle, 1, mode, 1.0, x, values, 0.0, x, out)       # by images, or by channels
    one, two = out.copy(), out.copy()
    for way, kept in ((0, one), (1, two)):
        cudnn.softmaxForward(handle, 1, way, 1.0, x, values, 0.0, x, kept)
        want = np.exp(values.reshape(1, 2, 3, 4) - values.max())
        want /= want.sum(axis=(1, 2, 3) if way == 0 else 1, keepdims=True)
        np.testing.assert_allclose(kept, want.ravel(), rtol=1e-5)

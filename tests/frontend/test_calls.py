"""The operations' calls: arguments by place and by name, the forms of a convolution, what each writes
down."""
from __future__ import annotations

import array
import inspect
from collections import Counter

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Pointwise
from cydnn.status import BadParam

from .conftest import floats
from .fakes import Dtype

T, NOT_SET = cudnn.data_type, cudnn.data_type.NOT_SET
CONVS = [("conv_fprop", "image", "weight", ConvFprop, "Y"), ("conv_dgrad", "loss", "filter", ConvDgrad, "DX"),
         ("conv_wgrad", "image", "loss", ConvWgrad, "DW")]
ARGUMENTS = {                                    # tensors in the order of the call -> the methods
    "a b": "add sub mul div add_square logical_and logical_or", "input0 input1": "max min mod pow",
    "input bias": "bias", "input scale": "scale",
             "input comparison": "cmp_eq cmp_neq cmp_gt cmp_ge cmp_lt cmp_le",
    "input0 input1 mask": "binary_select",
    "input": "sqrt rsqrt exp log neg abs ceil floor sin cos tan erf identity reciprocal logical_not tanh "
             "sigmoid elu gelu "
             "softplus gelu_approx_tanh",
    "loss input": "tanh_backward sigmoid_backward elu_backward gelu_backward softplus_backward "
             "gelu_approx_tanh_backward"}
POINTWISE = [(name, names.split()) for names, methods in ARGUMENTS.items() for name in methods.split()]
LATER = "gdn gdn_bwd gdn2 gdn2_bwd gdp gdp_bwd kda kda_bwd".split()


def pair(g):
    return g.tensor([2, 8, 6, 6], [288, 36, 6, 1]), g.tensor([8, 8, 3, 3], [72, 9, 3, 1])


# ---- Convolution ----

@pytest.mark.parametrize("method, first, second, op, end", CONVS, ids=[c[0] for c in CONVS])
def test_both_forms_by_place_and_by_name(g, method, first, second, op, end):
    x, w = pair(g)
    call, mode = getattr(g, method), cudnn.convolution_mode.CONVOLUTION
    pads, pre, post, s, d = [1, 2], [0, 1], [2, 0], [2, 1], [1, 3]
    one = dict(pre_pad=pads, post_pad=pads, stride=s, dilation=d)
    two = dict(pre_pad=pre, post_pad=post, stride=s, dilation=d)
    calls = [
        (lambda: call(x, w, pads, s, d), one),
        (lambda: call(x, w, tuple(pads), s, d, mode, T.DOUBLE, "n"), dict(one, mode="convolution")),
        (lambda: call(x, w, padding=pads, stride=s, dilation=d), one),
        (lambda: call(**{first: x, second: w}, stride=s, dilation=d, padding=pads, convolution_mode=mode,
                      name="n",
                      compute_data_type=T.DOUBLE), dict(one, mode="convolution")),
        (lambda: call(x, w, pre, post, s, d), two),
        (lambda: call(x, w, pre, post, s, d, mode, T.DOUBLE, "n"), dict(two, mode="convolution")),
        (lambda: call(x, w, pre, post, stride=s, dilation=d), two),
        (lambda: call(**{first: x, second: w}, pre_padding=pre, post_padding=post, stride=s, dilation=d),
         two)]
    for make, want in calls:
        result, step = make(), g.steps[-1]
        assert step.op is op and step.attributes == dict(dict(mode="cross_correlation"), **want)
        assert list(step.inputs.values()) == [x, w] and list(step.outputs.values()) == [result]
        assert result.get_is_virtual() and result.get_name() == f"{step.name}::{end}"
        assert step.compute == ("f64" if step.name == "n" else None)


@pytest.mark.parametrize("two", [np.array([1, 2]), range(1, 3), array.array("i", [1, 2])], ids=repr)
def test_lists_are_sequences_of_any_kind(g, two):
    """In both forms, by place and by name; an array of one number is one for all."""
    x, w = pair(g)
    want = dict(pre_pad=[1, 2], post_pad=[1, 2], stride=[1, 2], dilation=[1, 2])
    for args, kw in (((two, two, two), {}), ((two, two, two, two), {}),
                     ((), dict(padding=two, stride=two, dilation=two))):
        g.conv_fprop(x, w, *args, **kw)
        assert attributes(g) == want
    g.conv_fprop(x, w, padding=np.array(1))
    assert attributes(g) == dict(pre_pad=1, post_pad=1, stride=1, dilation=1)


@pytest.mark.parametrize("method, first, second, op, end", CONVS, ids=[c[0] for c in CONVS])
def test_groups_as_a_dim_of_their_own(g, method, first, second, op, end):
    """(n, g, c, h, w) with lists for two spatial dims is no 3-d convolution."""
    x, w = g.tensor([1, 2, 8, 4, 4], [256, 128, 16, 4, 1]), g.tensor([2, 4, 8, 3, 3], [288, 72, 9, 3, 1])
    getattr(g, method)(x, w, [1, 1], [1, 1], [1, 1]).set_dim([1, 2, 4, 4, 4]).set_output(True)
    with pytest.raises(BadParam, match=fr"{first} of rank 5 must have 3 entries in each list, one for each "
                       r"spatial dim; got 2: where its dims are \(n, g, c, spatial…\), merge g and c"):
        g.validate()


def test_the_operands_of_the_gradients(g):
    x, w = pair(g)
    g.conv_dgrad(x, w, [1, 1], [1, 1], [1, 1])
    assert g.steps[-1].inputs == dict(dy=x, w=w)
    g.conv_wgrad(x, w, [1, 1], [1, 1], [1, 1])
    assert g.steps[-1].inputs == dict(x=x, dy=w)


WRONG = [
    (dict(stride="1"),
     r"stride must have one integer for each spatial dim, such as \[1, 1\], or be one for all; got '1'"),
    (dict(padding=[1.5, 1]), r"padding must have one integer for each spatial dim.*; got \[1.5, 1\]"),
    (dict(dilation=[]), r"dilation must have one integer for each spatial dim.*; got \[\]"),
    (dict(convolution_mode="conv"),
     "convolution_mode must be one of convolution_mode.CONVOLUTION .*; got 'conv'"),
    (dict(compute_data_type=T.INT64), "compute_data_type must be one of FLOAT DOUBLE .*; got INT64"),
    (dict(compute_data_type="float"), "data_type: must be one of .*; got 'float'")]


@pytest.mark.parametrize("changed, sentence", WRONG, ids=[next(iter(c)) for c, _ in WRONG])
def test_wrong_arguments_of_a_convolution(g, changed, sentence):
    with pytest.raises(BadParam, match=sentence):
        g.conv_fprop(*pair(g), **{**dict(padding=[1, 1], stride=[1, 1], dilation=[1, 1]), **changed})


def test_arguments_that_fit_neither_form(g):
    x, w = pair(g)
    for kw in (dict(padding=[1, 1], pre_padding=[1, 1]), dict(pads=[1, 1])):
        with pytest.raises(TypeError, match="conv_fprop: .*\n.*its arguments are image, weight, pre_padding, "
                           "post_padding"):
            g.conv_fprop(x, w, stride=[1, 1], dilation=[1, 1], **kw)
    with pytest.raises(TypeError):
        g.conv_fprop(x)
    g.conv_fprop(x, w, pre_padding=[1, 1])
    assert attributes(g) == dict(pre_pad=[1, 1], post_pad=0, stride=1, dilation=1)


# ---- Pointwise ----

@pytest.mark.parametrize("method, names", POINTWISE, ids=[m for m, _ in POINTWISE])
def test_pointwise_arguments(g, method, names):
    tensors = [g.tensor([2, 3], [3, 1]) for _ in names]
    call = getattr(g, method)
    assert list(inspect.signature(call).parameters)[-len(names) - 2:] == [*names, "compute_data_type", "name"]
    for result, name in ((call(*tensors), f"{method}.0"), (call(**dict(zip(names, tensors))), f"{method}.1"),
                         (call(*tensors, T.DOUBLE, "given"), "given"),
                         (call(name="again", compute_data_type=Dtype("float64"), **dict(zip(names, tensors))),
                          "again")):
        step = g.steps[-1] if name == "again" else next(s for s in g.steps if s.name == name)
        assert step.op is Pointwise and list(step.inputs) == ["x", "b", "t"][:len(names)]
        assert list(step.inputs.values()) == tensors and step.outputs["y"] is result
        assert step.compute == (None if "." in name else "f64") and result.get_name() == f"{name}::OUT_0"
        Pointwise(**step.attributes)             # there is such a mode
    for args, kw in (([*tensors, T.FLOAT, "n", 1], {}), (tensors, dict(surplus=1)), (tensors[1:], {})):
        with pytest.raises(TypeError, match=f"{method}\\(" if method != "pow" else "pow"):
            call(*args, **kw)


def attributes(g):
    return {k: v for k, v in g.steps[-1].attributes.items() if k != "mode"}


def test_pointwise_with_numbers(g):
    x, dy = g.tensor([2, 3], [3, 1]), g.tensor([2, 3], [3, 1])
    clips = dict(relu_lower_clip_slope=0.1, relu_lower_clip=-1.0, relu_upper_clip=6.0)
    g.relu(x, 0.1, -1, 6, T.FLOAT, "a")
    assert attributes(g) == clips and g.steps[-1].name == "a"
    g.relu(input=x, upper_clip=6.0, lower_clip=-1, negative_slope=0.1)
    assert attributes(g) == clips
    g.relu(x)
    assert attributes(g) == {}
    g.relu_backward(dy, x, 0.1, -1, 6, T.FLOAT, "b")
    assert attributes(g) == clips and g.steps[-1].inputs == dict(x=dy, b=x)
    g.leaky_relu(x, 0.1)
    assert attributes(g) == dict(relu_lower_clip_slope=0.1)
    g.leaky_relu_backward(loss=dy, input=x, negative_slope=0.2)
    assert attributes(g) == dict(relu_lower_clip_slope=0.2)
    g.swish(x, 2, T.FLOAT, "c")
    assert attributes(g) == dict(swish_beta=2.0)
    g.swish_backward(dy, x, T.DOUBLE, 2.0, "d")
    assert attributes(g) == dict(swish_beta=2.0) and g.steps[-1].compute == "f64" and g.steps[-1].name == "d"
    g.gen_index(x, 1)
    assert attributes(g) == dict(axis=1)
    with pytest.raises(TypeError):
        g.leaky_relu(x)


@pytest.mark.parametrize("call, meaning", [
    (lambda g, x: g.relu(x, 0.5, -1.0, 2.0),
     lambda x: np.minimum(np.where(x > -1, x, -1 + 0.5 * (x + 1)), 2)),
    (lambda g, x: g.leaky_relu(x, 0.25), lambda x: np.where(x > 0, x, 0.25 * x)),
    (lambda g, x: g.swish(x, 2.0), lambda x: x / (1 + np.exp(-2 * x))),
    (lambda g, x: g.gen_index(x, 1), lambda x: np.broadcast_to(np.arange(5.0), x.shape)),
    (lambda g, x: g.binary_select(x, g.neg(x), g.cmp_gt(x, g.abs(x))), lambda x: -x),
    (lambda g, x: g.binary_select(x, g.neg(x), g.cmp_ge(x, x)), lambda x: x),
    (lambda g, x: g.leaky_relu_backward(x, x, 0.5), lambda x: np.where(x > 0, x, 0.5 * x)),
    (lambda g, x: g.sub(x, g.add_square(x, x)), lambda x: -x * x)], ids=range(8))
def test_what_they_mean(g, call, meaning):
    values = np.linspace(-3, 3, 15, dtype=np.float32).reshape(3, 5)
    x = g.tensor_like(values)
    y = call(g, x).set_output(True)
    g.build([cudnn.heur_mode.A])
    out = np.empty((3, 5), np.float32)
    g.execute({x: values, y: out}, np.empty(g.get_workspace_size(), np.uint8))
    np.testing.assert_allclose(out, meaning(values.astype(float)), rtol=1e-5, atol=1e-6)


# ---- Matmul, reduction, normalization ----

def test_matmul_and_reduction(g):
    a, b = g.tensor([2, 3, 4], [12, 4, 1]), g.tensor([2, 4, 5], [20, 5, 1])
    c = g.matmul(a, b, T.FLOAT, 0.0, "mm")
    assert c.get_name() == "mm::C" and g.steps[-1].compute == "f32"
    g.matmul(A=a, B=b, padding=1.0, name="mm2")  # of no sizes: nothing is padded
    for mode in cudnn.reduction_mode:
        if mode is not mode.NOT_SET:
            assert g.reduction(c, mode, T.DOUBLE, "r").get_name() == "r::Y"
            assert g.steps[-1].attributes == dict(mode=mode.name.lower())
    with pytest.raises(BadParam, match="mode must be set; got reduction_mode.NOT_SET"):
        g.reduction(c, cudnn.reduction_mode.NOT_SET)
    with pytest.raises(BadParam, match="mode must be one of reduction_mode.ADD .*; got 'add'"):
        g.reduction(c, "add")
    assert g.reduction(c, cudnn.reduction_mode.ADD, out_dims=[2, 3, 1]).get_dim() == [2, 3, 1]
    with pytest.raises(BadParam, match="reduction.12: out_dims must be .*; got 'wide'"):
        g.reduction(c, cudnn.reduction_mode.ADD, out_dims="wide")


@pytest.mark.parametrize("mode, meaning", [
    ("ADD", np.sum), ("MUL", np.prod), ("MIN", np.min), ("MAX", np.max), ("AVG", np.mean),
    ("AMAX", lambda x, **kw: np.abs(x).max(**kw)), ("NORM1", lambda x, **kw: np.abs(x).sum(**kw)),
    ("NORM2", lambda x, **kw: np.sqrt((x * x).sum(**kw))),
    ("MUL_NO_ZEROS", lambda x, **kw: np.where(x == 0, 1, x).prod(**kw))])
def test_every_reduction(g, mode, meaning):
    values = np.random.default_rng(0).integers(-3, 4, (2, 3, 4)).astype(np.float32)
    x = g.tensor_like(values)
    y = g.reduction(x, cudnn.reduction_mode[mode]).set_dim([2, 1, 1]).set_output(True)
    g.build([cudnn.heur_mode.A])
    out = np.empty((2, 1, 1), np.float32)
    g.execute({x: values, y: out}, 0)
    np.testing.assert_allclose(out, meaning(values.astype(float), axis=(1, 2), keepdims=True), rtol=1e-6)


def column(g, **kw):
    return g.tensor([1, 4, 1, 1], [4, 1, 1, 1], **kw)


def test_batchnorm_calls(g):
    x, grad = g.tensor([2, 4, 3, 3], [36, 1, 12, 4]), g.tensor([2, 4, 3, 3], [36, 1, 12, 4])
    s, b, m, v, eps, mom = (column(g) for _ in range(6))
    eps.set_dim([1, 1, 1, 1])
    mom.set_dim([1, 1, 1, 1])
    five = g.batchnorm(x, s, b, m, v, eps, mom, [], T.FLOAT, "BN")
    assert [t.get_name() for t in five] == [f"BN::{n}" for n in "Y MEAN INV_VARIANCE NEXT_RUNNING_MEAN "
                                            "NEXT_RUNNING_VAR".split()]
    assert g.steps[-1].scalars == dict(epsilon=eps, factor=mom)
    y, mean, rstd, *none = g.batchnorm(input=x, scale=s, bias=b, in_running_mean=None, in_running_var=None,
                                       epsilon=eps,
                                       momentum=None)
    assert none == [None, None] and g.steps[-1].scalars == dict(epsilon=eps)
    three = g.batchnorm_backward(grad, x, s, mean, rstd, (), T.FLOAT, "DBN")
    assert [t.get_name() for t in three] == ["DBN::DX", "DBN::DSCALE", "DBN::DBIAS"]
    assert g.steps[-1].inputs == dict(x=x, dy=grad, scale=s, mean=mean, rstd=rstd)
    assert g.batchnorm_inference(x, m, v, s, b, T.FLOAT, "BNI").get_name() == "BNI::Y"
    for call in (lambda **k: g.batchnorm(x, s, b, None, None, eps, None, [m, v], **k),
                 lambda **k: g.batchnorm_backward(grad, x, s, m, v, peer_stats=[m, v], **k)):
        with pytest.raises(BadParam, match="rank must be given, as no GPU of the handle says which of 2 "):
            call()
        with pytest.raises(BadParam, match="rank must be a whole number of at most 64 bits; got 'a'"):
            call(rank="a")
        call(rank=1)
        assert (g.steps[-1].attributes["rank"], g.steps[-1].inputs["peer_stats.1"]) == (1, v)


@pytest.mark.parametrize("missing", ["epsilon", "momentum", "in_running_var", "bias"])
def test_what_batchnorm_lacks(g, missing):
    given = dict(zip(("scale", "bias", "in_running_mean", "in_running_var", "epsilon", "momentum"),
                     (column(g) for _ in range(6))))
    with pytest.raises(BadParam, match=f"batchnorm.0: {missing} must be a tensor of the graph; got NoneType"):
        g.batchnorm(g.tensor([2, 4, 3, 3], [36, 1, 12, 4]), **{**given, missing: None})
    with pytest.raises(BadParam, match="epsilon must be a tensor of the graph; got float"):
        g.batchnorm(g.tensor([2, 4, 3, 3], [36, 1, 12, 4]), **{**given, "epsilon": 1e-5})


# ---- Types of computations ----

@pytest.mark.parametrize("kind, word", [
    ("FLOAT", "f32"), ("DOUBLE", "f64"), ("HALF", "f16"), ("BFLOAT16", "bf16"), ("INT32", "i32"),
                                        ("BOOLEAN", "bool"),
    ("FAST_FLOAT_FOR_FP8", "fast_f8")])
def test_compute_types_stay_what_they_are(handle, kind, word):
    """As the operation's own, and as the graph's default."""
    for options, own in ((dict(compute_data_type=T[kind]), NOT_SET),
                         (dict(compute_data_type=T.DOUBLE), T[kind])):
        g = cudnn.pygraph(io_data_type=T.FLOAT, handle=handle, **options)
        x = g.tensor([2, 8, 6, 6], [288, 36, 6, 1])
        w = g.tensor([8, 8, 3, 3], [72, 9, 3, 1])
        g.conv_fprop(x, w, [1, 1], [1, 1], [1, 1], compute_data_type=own).set_output(True)
        g.validate()
        assert g.graph.nodes[0].op.compute == word
        g.build([cudnn.heur_mode.A])


def test_without_a_compute_type_doubles_stay_doubles(handle):
    for kind, word in ((T.DOUBLE, "f64"), (T.HALF, "f32"), (T.INT8, "f32")):
        g = cudnn.pygraph(io_data_type=kind, handle=handle)
        g.relu(g.tensor([2], [1])).set_output(True)
        g.validate()
        assert g.graph.nodes[0].op.compute == word


# ---- What is not there ----

@pytest.mark.parametrize("method", LATER)
def test_what_comes_later_says_so(g, method):
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match=f"^{method}: .* comes with a later release"):
        getattr(g, method)(g.tensor([1], [1]), axis=2)


def test_arrays_in_place_of_operands(g):
    """The first example of the package's newer versions."""
    a, b, c = (np.random.default_rng(0).random((1, 4, 4), np.float32) for _ in range(3))
    y = g.add(g.matmul(a, b, name="mm"), b).set_output(True)
    assert [t.get_name() for t in g.get_inputs()] == ["mm::A", "mm::B"]
    for given, right in (({}, b), ({g.nodes[0].inputs["B"]: c}, c)):
        out = np.empty_like(a)
        g.execute({y: out} | given, np.empty(4096, np.uint8))
        np.testing.assert_allclose(out, a @ right + right, rtol=1e-5)


def test_operands_are_tensors_of_the_graph(g, handle):
    mine, theirs = g.tensor([2], [1]), floats(handle=handle).tensor([2], [1])
    for wrong, got in (([1.0, 1.0], "list"), (np.float32(1), "float32"), (None, "NoneType"),
                       (theirs, "one of another graph")):
        with pytest.raises(BadParam, match=f"add.0: b must be a tensor of the graph; got {got}"):
            g.add(mine, wrong)
    with pytest.raises(BadParam, match="conv_fprop.0: weight must be a tensor of the graph; got int"):
        g.conv_fprop(mine, 3, [0], [1], [1])


def test_an_operation_of_several_is_written_down_whole_or_not_at_all(g):
    x, other = g.tensor([2, 3, 4, 4], [48, 16, 4, 1]), cudnn.pygraph().tensor([2, 3, 4, 4], [48, 16, 4, 1])
    with pytest.raises(BadParam, match="scale must be a tensor of the graph; got one of another graph"):
        g.batchnorm_inference(x, x, x, other, x)
    assert len(g._tensors) == 1 and not g.steps


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_operations_that_nobody_needs_are_no_part_of_others(device):
    """A convolution and what follows it, all virtual and read by nobody, beside what is asked for."""
    g = floats(handle=device)
    x, w = g.tensor([1, 8, 4, 4], [128, 1, 32, 8]), g.tensor([8, 8, 3, 3], [72, 1, 24, 8])
    g.relu(g.conv_fprop(x, w, padding=1))
    y = g.neg(x).set_output(True)
    g.build([cudnn.heur_mode.A])
    values, out = np.arange(128, dtype=np.float32).reshape(1, 4, 4, 8), np.zeros((1, 4, 4, 8), np.float32)
    g.execute({x: values, w: np.ones((8, 3, 3, 8), np.float32), y: out},
              np.empty(g.get_workspace_size(), np.uint8))
    np.testing.assert_array_equal(out, -values)


def test_no_part_of_a_pygraph_hides_a_name_of_another():
    parts = [vars(part).keys() for part in cudnn.pygraph.__mro__[1:-1]]
    names = Counter(name for part in parts for name in part if not name.startswith("__"))
    assert not [name for name, count in names.items() if count > 1]

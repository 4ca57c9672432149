"""Arrays given to functions of the v5 API: compared with their descriptors, whichever function it is."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam

from .arrays import FLOAT, NHWC, Filter, Tensor, conv_desc, draw
from .recurrent import Network

X, W, Y = (2, 8, 9, 7), (16, 8, 3, 3), (2, 16, 9, 7)


@pytest.fixture(params=["numpy", "ptx:sm_80"])
def handle(request):
    found = c.create(request.param)
    yield found
    c.destroy(found)


def conv(handle, x, w, y, workspace=0, size=0, descs=None):
    a, b, d = descs or (Tensor(X).desc, Filter(W).desc, Tensor(Y).desc)
    c.convolutionForward(handle, 1, a, x, b, w, conv_desc((1, 1)), 0, workspace, size, 0, d, y)


def test_arrays_run_on_both_devices():
    x, w = draw(*X).astype(np.float32), draw(*W, seed=1).astype(np.float32)
    found = []
    for device in ("numpy", "ptx:sm_80"):
        handle, y = c.create(device), np.full(Y, np.nan, np.float32)
        for _ in range(2):
            conv(handle, x, w, y)
        found.append(y)
        c.destroy(handle)
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("change, sentence", [
    (dict(x=np.zeros(X)), "x: array must be of type float32, .*; got float64"),
    (dict(w=np.zeros(W, ">f4")), "w: array must be of type float32, .*; got byte-swapped float32"),
    (dict(y=np.zeros(Y, np.int32)), "y: array must be of type float32, .*; got int32"),
    (dict(x=np.zeros((*X[:3], 14), np.float32)[..., ::2]), "x: array must have shape .* and strides"),
    (dict(y=np.zeros((2, 9, 7, 16), np.float32).transpose(0, 3, 1, 2)), "y: array must have shape"),
    (dict(w=np.zeros(W, object)), "w: array must be of type float32, .*; got the type O"),
    (dict(y=np.zeros(4, np.float32)), "y: array must have at least 8064 bytes, .*; got 16 bytes"),
])
def test_what_does_not_fit(handle, change, sentence):
    given = dict(x=np.zeros(X, np.float32), w=np.zeros(W, np.float32), y=np.zeros(Y, np.float32))
    for _ in range(2):                            # before and after the plan is known
        with pytest.raises(BadParam, match="cudnnConvolutionForward: " + sentence):
            conv(handle, **{**given, **change})
        conv(handle, **given)


def test_channels_last_arrays(handle):
    """(n, h, w, c) as it lies in memory."""
    t, values = Tensor((2, 3, 4, 5), layout="nhwc"), draw(2, 4, 5, 3).astype(np.float32)
    out = np.empty_like(values)
    c.activationForward(handle, relu(), 1, t.desc, values, 0, t.desc, out)
    np.testing.assert_array_equal(out, np.maximum(values, 0))


def relu():
    found = c.createActivationDescriptor()
    c.setActivationDescriptor(found, c.CUDNN_ACTIVATION_RELU, c.CUDNN_NOT_PROPAGATE_NAN, 0.0)
    return found


FIND = {                                         # function: (descriptors and arrays in order, which is small)
    "Forward": lambda h, x, w, y, s, n: c.findConvolutionForwardAlgorithmEx(
        h, Tensor(X).desc, x, Filter(W).desc, w, conv_desc((1, 1)), Tensor(Y).desc, y, 3, s, n),
    "BackwardData": lambda h, x, w, y, s, n: c.findConvolutionBackwardDataAlgorithmEx(
        h, Filter(W).desc, w, Tensor(Y).desc, y, conv_desc((1, 1)), Tensor(X).desc, x, 3, s, n),
    "BackwardFilter": lambda h, x, w, y, s, n: c.findConvolutionBackwardFilterAlgorithmEx(
        h, Tensor(X).desc, x, Tensor(Y).desc, y, conv_desc((1, 1)), Filter(W).desc, w, 3, s, n),
}


@pytest.mark.parametrize("name", FIND)
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_search_keeps_to_the_arrays(name, wrong):
    handle = c.create("numpy")
    arrays = [np.zeros(d, np.float32) for d in (X, W, Y)]
    arrays[wrong] = np.zeros(4, np.float32)
    with pytest.raises(BadParam, match=f"cudnnFindConvolution{name}AlgorithmEx: \\w+: array must have at"):
        FIND[name](handle, *arrays, 0, 0)
    arrays[wrong] = np.zeros((X, W, Y)[wrong])
    with pytest.raises(BadParam, match=r"\w+: array must be of type float32, .*; got float64"):
        FIND[name](handle, *arrays, 0, 0)
    arrays[wrong] = np.zeros((X, W, Y)[wrong], np.float32)
    for given, size in ((np.zeros(16, np.uint8), 1 << 20), (b"0123456789abcdef", 16)):
        with pytest.raises(BadParam, match="workspace: must (have the 1048576 bytes .*; got 16|be writ)"):
            FIND[name](handle, *arrays, given, size)
    assert FIND[name](handle, *arrays, np.zeros(1 << 16, np.uint8), 1 << 16)[0].status == 0
    c.destroy(handle)


def test_a_workspace_has_the_bytes_that_are_said(handle):
    given = [np.zeros(d, np.float32) for d in (X, W, Y)]
    for _ in range(2):
        with pytest.raises(BadParam, match="ConvolutionForward: workspace: must have the 4096 bytes .* 64"):
            conv(handle, *given, np.zeros(64, np.uint8), 4096)
        for size in (64.0, 63.9, "64"):              # C would take a float
            with pytest.raises(TypeError, match="ConvolutionForward: workSpaceSizeInBytes must be an int"):
                conv(handle, *given, np.zeros(64, np.uint8), size)
        conv(handle, *given, np.zeros(64, np.uint8), np.int64(64))


def test_states_of_dropout_live_as_long_as_the_descriptor(handle):
    """The array that holds them may be dropped."""
    desc = c.createDropoutDescriptor()
    size = c.dropoutGetStatesSize(handle)
    c.setDropoutDescriptor(desc, handle, 0.5, np.zeros(size, np.uint8), size, 7)
    t, x = Tensor((1, 2, 8, 8)).desc, np.ones((1, 2, 8, 8), np.float32)
    y, space = np.empty_like(x), np.empty(c.dropoutGetReserveSpaceSize(t), np.uint8)
    c.dropoutForward(handle, desc, t, x, t, y, space, space.nbytes)
    assert set(np.unique(y)) == {0, 2}
    with pytest.raises(BadParam, match="cudnnSetDropoutDescriptor: states: "):
        c.setDropoutDescriptor(desc, handle, 0.5, np.zeros(4, np.uint8), size, 7)


@pytest.mark.parametrize("x, y", [((3, 4, 5), (3, 4, 6)), ((12, 5), (12, 6)), ((60,), (72,))])
def test_steps_by_sequences_by_inputs(x, y):
    """What users of recurrent networks have, though the tensor is rows by inputs."""
    net = Network(c.create("numpy"), hidden=6, inputs=5, batches=(4, 4, 4)).run("RNNForwardTraining")
    given, found = net["x"].astype(np.float32).reshape(x), np.zeros(y, np.float32)
    net.run("RNNForwardTraining", x=given, y=found)
    np.testing.assert_array_equal(found.reshape(-1), net["y"].reshape(-1))
    with pytest.raises(BadParam, match="x: array must have shape"):
        net.run("RNNForwardTraining", x=np.zeros((4, 5, 3), np.float32), y=found)

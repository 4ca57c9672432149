"""Arguments of a compute call that are no pointers or numbers: function, argument
and value are in the error."""
import numpy as np
import pytest

from cydnn import cudnn as c, plan
from cydnn.device import get
from cydnn.graph import Graph
from cydnn.ops import AddTensor
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc

from .arrays import Tensor
from .test_activation import act_desc

IMAGE = np.arange(24, dtype=np.float32)


@pytest.fixture
def call():
    handle, t = c.create("numpy"), Tensor((1, 2, 3, 4))
    yield lambda x=IMAGE, y=None, alpha=1.0: c.softmaxForward(handle, 0, 1, alpha, t.desc, x, 0.0, t.desc,
                                                              np.empty_like(IMAGE) if y is None else y)
    c.destroy(handle)


@pytest.mark.parametrize("given, kind, sentence", [
    (dict(x="text"), BadParam,
     "cudnnSoftmaxForward: x must be a pointer: must be an int address, .*; got str"),
    (dict(x=1.5), BadParam, "cudnnSoftmaxForward: x must be a pointer: .*; got float"),
    (dict(y=2 ** 70), BadParam, "cudnnSoftmaxForward: y must be an address; got 1180591620717411303424"),
    (dict(x=np.ma.array(IMAGE)), BadParam, "cudnnSoftmaxForward: x must be a pointer: must have no mask"),
    *[(dict(alpha=alpha), TypeError, "cudnnSoftmaxForward: alpha must be a number; got ") for alpha in (
        "one", b"2", memoryview(b"2"), np.str_("2"), np.array("2", object), np.ma.array(2.0), np.ones(3))],
])
def test_refused(call, given, kind, sentence):
    for _ in range(2):                            # before and after the plan is known
        with pytest.raises(kind, match=sentence):
            call(**given)
        call()


def test_a_buffer_of_the_numpy_device_is_a_pointer(call):
    x, y = get("numpy").alloc(IMAGE.nbytes), get("numpy").alloc(IMAGE.nbytes)
    get("numpy").copy_in(x, IMAGE)
    for _ in range(2):
        call(x=x, y=y)
    found = get("numpy").copy_out(y, np.empty_like(IMAGE)).reshape(2, 12)
    np.testing.assert_allclose(found.sum(0), 1, rtol=1e-6)


def test_slices_of_one_buffer():
    """docs/numerics.md: tensors in each other's gaps share nothing; one element further they do."""
    handle, buffer = c.create("numpy"), np.zeros((2, 16), np.float32)
    half, at = Tensor((2, 8, 1, 1), strides=(16, 1, 1, 1)), buffer.ctypes.data
    c.softmaxForward(handle, 0, 1, 1.0, half.desc, at, 0.0, half.desc, at + 32)
    assert (buffer[:, :8] == 0).all() and (buffer[:, 8:] == 1 / 8).all()
    with pytest.raises(BadParam, match="y: output must not overlap x"):
        c.softmaxForward(handle, 0, 1, 1.0, half.desc, at, 0.0, half.desc, at + 28)
    c.destroy(handle)


T, B, ACTIVATION = Tensor((1, 2, 3, 4)).desc, Tensor((1, 2, 1, 1)).desc, act_desc(0)
SMALL = np.zeros(1, np.float32)
NAMED = {                                        # function: (arguments behind the handle, where arrays go)
    "addTensor": ((1, T, "A", 0, T, "C"), "A C"),
    "activationBackward": ((ACTIVATION, 1, T, "y", T, "dy", T, "x", 0, T, "dx"), "y dy dx"),
    "convolutionBackwardBias": ((1, T, "dy", 0, B, "db"), "dy db"),
    "batchNormalizationForwardTraining": (
        (1, 1, 0, T, "x", T, "y", B, "bnScale", "bnBias", 0.5, "resultRunningMean", "resultRunningVariance",
         1.0, "resultSaveMean", "resultSaveInvVariance"),
        "x y bnScale bnBias resultRunningMean resultRunningVariance resultSaveMean resultSaveInvVariance"),
    "batchNormalizationBackward": (
        (1, 1, 0, 1, 0, T, "x", T, "dy", T, "dx", B, "bnScale", "resultBnScaleDiff", "resultBnBiasDiff", 1.0,
         0, 0),
        "x dy dx bnScale resultBnScaleDiff resultBnBiasDiff"),
}


@pytest.mark.parametrize("function, wrong",
                         [(f, name) for f, (_, names) in NAMED.items() for name in names.split()])
def test_what_runs_says_the_names_of_the_parameters(function, wrong):
    """Also where the same graph, with names of its own, has a plan already."""
    packed = TensorDesc.packed("f32", (1, 2, 3, 4))
    plan.build(Graph.single(AddTensor(compute="f32"), dict(a=packed, c=packed)), "numpy")
    handle, (arguments, _) = c.create("numpy"), NAMED[function]
    arrays = lambda small: [np.ones(24, np.float32) if isinstance(a, str) and a != small else
                            SMALL if isinstance(a, str) else a for a in arguments]
    sentence = f"cudnn{function[0].upper()}{function[1:]}: {wrong}: array must have"
    for _ in range(2):                            # before and after the plan is known
        with pytest.raises(BadParam, match=sentence):
            getattr(c, function)(handle, *arrays(wrong))
        getattr(c, function)(handle, *arrays(None))
    c.destroy(handle)

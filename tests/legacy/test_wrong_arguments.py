"""Arguments of a compute call that are no pointers or numbers: function, argument
and value are in the error."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.device import get
from cydnn.status import BadParam

from .arrays import Tensor

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
    (dict(alpha="one"), TypeError, "cudnnSoftmaxForward: alpha must be a number; got 'one'"),
    (dict(alpha=np.ones(3)), TypeError, "cudnnSoftmaxForward: alpha must be a number; got array"),
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

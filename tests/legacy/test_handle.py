"""g1 to g6: version, errors, handles, streams."""
import pickle
import threading

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn import device
from cydnn.status import BadParam, CydnnError, NotInitialized

from .arrays import Tensor, ramp


def test_version():
    assert c.getVersion() == c.CUDNN_VERSION == 5005


@pytest.mark.parametrize("number, text", [(0, "SUCCESS"), (1, "NOT_INITIALIZED"), (2, "ALLOC_FAILED"),
                                          (3, "BAD_PARAM"), (4, "INTERNAL_ERROR"), (5, "INVALID_VALUE"),
                                          (6, "ARCH_MISMATCH"), (7, "MAPPING_ERROR"), (8, "EXECUTION_FAILED"),
                                          (9, "NOT_SUPPORTED"), (10, "LICENSE_ERROR"), (77, "UNKNOWN")])
def test_error_strings(number, text):
    assert c.getErrorString(number) == "CUDNN_STATUS_" + text


def test_a_block_destroys_its_handle():
    with pytest.raises(ZeroDivisionError), c.create("numpy") as handle:
        1 / 0
    with c.create("numpy") as other:
        c.destroy(other)
    assert handle.is_destroyed and other.is_destroyed and "on numpy" not in repr(handle)


def test_last_error_is_of_this_thread():
    with pytest.raises(BadParam):
        c.setTensor4dDescriptor(0, 0, 0, 1, 1, 1, 1)
    assert "tensorDesc must not be NULL" in c.getLastErrorString() and len(c.getLastErrorString(5)) == 5
    seen = []
    thread = threading.Thread(target=lambda: seen.append(c.getLastErrorString()))
    thread.start(), thread.join()
    assert seen == [""]


def test_an_error_has_its_status_and_survives_a_pickle():
    with pytest.raises(c.CuDNNError) as caught:
        c.setTensor4dDescriptor(None, 0, 0, 1, 1, 1, 1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.status, str(again)) == (3, str(caught.value)) and c.getErrorString(3) in str(again)
    assert isinstance(again, CydnnError) and isinstance(again, RuntimeError)


def test_a_handle_is_bound_to_its_device():
    assert c.create("numpy").device is device.get("numpy")
    assert c.create().device is device.default()
    with pytest.raises(BadParam, match="device"):
        c.create("tpu")


def test_destroy(refused):
    h = c.create("numpy")
    x = Tensor((1, 2, 3, 4), ramp(1, 2, 3, 4))
    c.scaleTensor(h, x.desc, x.ptr, 2.0)
    assert c.destroy(h) is None
    refused(c.destroy, NotInitialized, "handle must be a library handle that was created", h)
    refused(c.destroy, NotInitialized, "handle must not be NULL", 0)
    refused(c.scaleTensor, BadParam, "cudnnScaleTensor: handle must be .*destroyed", h, x.desc, x.ptr, 2.0)
    refused(c.setStream, BadParam, "handle", h, 0)
    refused(c.getStream, BadParam, "handle", h)
    np.testing.assert_array_equal(x.values, ramp(1, 2, 3, 4) * 2)


@pytest.mark.parametrize("wrong", [0, None, 12345])
def test_wrong_handles(refused, wrong):
    x = Tensor((1, 1, 1, 1), 1)
    refused(c.setStream, BadParam, "cudnnSetStream: handle must", wrong, 0)
    refused(c.getStream, BadParam, "cudnnGetStream: handle must", wrong)
    refused(c.scaleTensor, BadParam, "cudnnScaleTensor: handle must", wrong, x.desc, x.ptr, 2.0)
    refused(c.scaleTensor, BadParam, "handle must be a library handle", x.desc, x.desc, x.ptr, 2.0)
    refused(c.scaleTensor, TypeError, "handle must be a library handle", "cuda", x.desc, x.ptr, 2.0)


def test_an_int_stands_for_a_handle_or_descriptor():
    address = int(c.create("numpy"))             # nothing but the address is kept, as in C
    x = Tensor((1, 2, 3, 4), ramp(1, 2, 3, 4))
    for _ in range(2):
        c.scaleTensor(address, int(x.desc), x.ptr, 2.0)
    np.testing.assert_array_equal(x.values, ramp(1, 2, 3, 4) * 4)
    c.destroy(address)
    with pytest.raises(BadParam):
        c.getStream(address)


class Queue:
    def __cuda_stream__(self):
        return (0, 0x1234)


class OldTorch:
    cuda_stream = 0x5678


@pytest.mark.parametrize("stream, address",
                         [(0, 0), (None, 0), (0xABC, 0xABC), (Queue(), 0x1234), (OldTorch(), 0x5678)])
def test_streams(stream, address):
    h = c.create("numpy")
    assert c.getStream(h) == 0
    c.setStream(h, stream)
    assert c.getStream(h) == address == h.stream
    c.destroy(h)


def test_each_stream_has_its_own_workspace():
    h = c.create("numpy")
    first = h.reserve(1000)
    assert h.reserve(10) == first and first[1] >= 1000
    h.use(7)
    second = h.reserve(10)
    assert second[0] != first[0]
    grown = h.reserve(5000)
    assert grown[1] >= 5000 and grown[0] != second[0]
    h.use(0)
    assert (h.scratch, h.scratch_bytes) == first
    c.destroy(h)


def test_threads_share_a_handle(handle):
    wrong = []

    def work(seed):
        for i in range(30):
            x = Tensor((1, 2, 3, 1 + (i + seed) % 7), 1)
            c.scaleTensor(handle, x.desc, x.ptr, float(seed))
            if not (x.values == seed).all():
                wrong.append(seed)
    threads = [threading.Thread(target=work, args=(s,)) for s in range(1, 5)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong

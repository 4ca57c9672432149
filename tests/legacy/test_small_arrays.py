"""An output array that is too small is refused by name on the NumPy device,
on the slow path and on the fast one."""
import numpy as np
import pytest

from cydnn import cudnn
from cydnn.status import BadParam


def test_small_output_is_refused_twice():
    handle = cudnn.create("numpy")
    desc = cudnn.createTensorDescriptor()
    cudnn.setTensor4dDescriptor(desc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 2, 3, 4, 4)
    x, y, small = (np.ones((2, 3, 4, 4), np.float32), np.empty((2, 3, 4, 4), np.float32),
                   np.empty(3, np.float32))
    call = lambda out: cudnn.softmaxForward(handle, cudnn.CUDNN_SOFTMAX_ACCURATE,
                                            cudnn.CUDNN_SOFTMAX_MODE_CHANNEL, 1.0, desc, x, 0.0, desc, out)
    for _ in range(2):
        with pytest.raises(BadParam, match="y"):
            call(small)
        call(y)
    assert np.allclose(y, 1 / 3)

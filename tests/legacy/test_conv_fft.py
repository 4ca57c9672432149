"""The algorithms by Fourier transforms, called: against plain loops, with gaps that hold NaN, in the
workspace that they ask for."""
import numpy as np
import pytest

from cydnn import cudnn as c

from .arrays import BFLOAT16, DOUBLE, FLOAT, HALF, Filter, Tensor, conv_desc, draw, tolerance
from .test_conv_compute import loop

CASES = [                                        # x, w, pad
    ((2, 3, 5, 4), (4, 3, 3, 2), (1, 0)), ((1, 2, 4, 9), (3, 2, 1, 5), (0, 3)),
    ((3, 1, 3, 3), (2, 1, 3, 3), (2, 2)), ((2, 2, 3, 4, 3), (2, 2, 2, 3, 1), (1, 2, 0)),
]
FWD = {4: (c.CUDNN_CONVOLUTION_FWD_ALGO_FFT, c.CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING),
       5: (c.CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,)}
DATA = {4: (c.CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, c.CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING),
        5: (c.CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING,)}


def gapped(dims, axis: int) -> list[int]:
    """Row-major strides with room behind the elements from ``axis`` on."""
    strides, step = [], 1
    for number, n in reversed(list(enumerate(dims))):
        step += 3 * (number == axis - 1)
        strides.insert(0, step)
        step *= n
    return strides


def wanted(x, w, dy, pad, flip) -> dict:
    want = {"y": np.zeros(dy.shape), "dx": np.zeros(x.shape), "dw": np.zeros(w.shape)}
    for out, image, tap in loop(x, w, dy.shape, pad, (1,) * len(pad), flip):
        want["y"][out] += x[image] * w[tap]
        want["dx"][image] += dy[out] * w[tap]
        want["dw"][tap] += dy[out] * x[image]
    return want


def room(size: int) -> np.ndarray:
    return np.full(size, 0xFF, np.uint8)


def check(got, want, old, dtype):
    np.testing.assert_allclose(got.values, 2 * want + 0.5 * old, rtol=tolerance(dtype),
                               atol=4 * tolerance(dtype) * max(1.0, np.abs(want).max()))
    assert got.stray_bytes() == 0


def run(handle, size_of, call, before, after, conv, algo, out):
    """alpha 2, beta 0.5, in a workspace of the size that is asked for."""
    size = size_of(handle, *[t.desc for t in before], conv, out.desc, algo)
    given = [part for t in before for part in (t.desc, t.ptr)]
    call(handle, 2.0, *given, conv, algo, room(size), size, 0.5, out.desc, out.ptr)
    check(out, *after)


@pytest.mark.share(26)
@pytest.mark.parametrize("mode", (c.CUDNN_CONVOLUTION, c.CUDNN_CROSS_CORRELATION))
@pytest.mark.parametrize("x_dims, w_dims, pad, dtype", [
    (*case, dtype) for case in CASES for dtype in (FLOAT, HALF, BFLOAT16, DOUBLE)
    if dtype != DOUBLE or len(case[0]) == 5])
def test_against_plain_loops(handle, x_dims, w_dims, pad, dtype, mode):
    rank, math = len(x_dims), DOUBLE if dtype == DOUBLE else FLOAT
    conv = conv_desc(pad, (1,) * len(pad), mode, math)
    w = Filter(w_dims, draw(*w_dims, seed=1), dtype)
    image = lambda dims, seed, axis: Tensor(dims, draw(*dims, seed=seed), dtype, strides=gapped(dims, axis))
    x, packed = image(x_dims, 0, 2), image(x_dims, 0, 1)
    y_dims = c.getConvolutionNdForwardOutputDim(conv, x.desc, w.desc, rank)
    dy = image(y_dims, 2, 1)
    want = wanted(x.values, w.values, dy.values, pad, mode == c.CUDNN_CONVOLUTION)
    for algo in FWD[rank]:
        y = image(y_dims, 3, 2)
        run(handle, c.getConvolutionForwardWorkspaceSize, c.convolutionForward, (x, w),
            (want["y"], y.values, dtype), conv, algo, y)
    for algo in DATA[rank]:
        dx = image(x_dims, 4, 2)
        run(handle, c.getConvolutionBackwardDataWorkspaceSize, c.convolutionBackwardData, (w, dy),
            (want["dx"], dx.values, dtype), conv, algo, dx)
    if rank == 4:
        dw = Filter(w_dims, draw(*w_dims, seed=5), dtype)
        run(handle, c.getConvolutionBackwardFilterWorkspaceSize, c.convolutionBackwardFilter, (packed, dy),
            (want["dw"], dw.values, dtype), conv, c.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, dw)

"""g93 and g94: divisive normalization, forward and backward, with and without means, in place."""
import itertools

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from .arrays import DOUBLE, FLOAT, FLOATS, HALF, Tensor, draw, tensor_desc, tolerance
from .test_lrn import norm_desc

MODE = c.CUDNN_DIVNORM_PRECOMPUTED_MEANS


def windows(shape, n):
    """(cell, slice of its window) of every cell."""
    for at in itertools.product(*map(range, shape)):
        behind, ahead = (n - 1) // 2, n // 2
        yield at, (*at[:2], *(slice(max(0, i - behind), i + ahead + 1) for i in at[2:]))


def plain(x, m, dy, n, alpha, beta, k):
    """(y, dx, dmeans) by loops over the cells: the derivative of sum(dy * x * s^-beta)."""
    share = alpha / n ** (x.ndim - 2)
    y, dx, dmeans = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape)
    for at, window in windows(x.shape, n):
        s = k + share * ((x[window] - m[at]) ** 2).sum()
        y[at] = x[at] * s ** -beta
        dx[at] += dy[at] * s ** -beta
        g = -2 * beta * share * dy[at] * x[at] * s ** (-beta - 1)
        dx[window] += g * (x[window] - m[at])
        dmeans[at] = -g * (x[window] - m[at]).sum()
    return y, dx, dmeans


def run(handle, dims, facts, dtype=FLOAT, layout="nchw", strides=None, with_means=True, wants_dmeans=True):
    make = lambda seed: Tensor(dims, draw(*dims, seed=seed), dtype, layout, strides)
    norm, x, means, dy, dx, dmeans, y = norm_desc(*facts), *map(make, range(6))
    temp = Tensor(dims, None, dtype, layout, strides)
    m = means.values if with_means else np.zeros(dims)
    want = plain(x.values, m, dy.values, *facts)
    old = [t.values for t in (y, dx, dmeans)]
    given, wanted = (means.ptr if with_means else None), (dmeans.ptr if wants_dmeans else None)
    c.divisiveNormalizationForward(handle, norm, MODE, 1.5, x.desc, x.ptr, given, temp.ptr, temp.ptr, -0.5,
                                   y.desc, y.ptr)
    c.divisiveNormalizationBackward(handle, norm, MODE, 2.0, x.desc, x.ptr, given, dy.ptr, temp.ptr, temp.ptr,
                                    0.5, dx.desc, dx.ptr, wanted)
    near = lambda got, r, scale: np.testing.assert_allclose(got, r, rtol=tolerance(dtype, 4),
                                                            atol=tolerance(dtype, scale))
    near(y.values, 1.5 * want[0] - 0.5 * old[0], 8)
    near(dx.values, 2 * want[1] + 0.5 * old[1], 32)
    near(dmeans.values, 2 * want[2] + 0.5 * old[2] if wants_dmeans else old[2], 32)
    assert all(t.stray_bytes() == 0 for t in (y, dx, dmeans))


@pytest.mark.parametrize("n", range(1, 17))
@pytest.mark.parametrize("with_means", (False, True))
def test_every_window(handle, n, with_means):
    run(handle, (1, 2, 9, 12), (n, 1.5, 0.75 if n % 2 else 1.25, 1.0), with_means=with_means)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("wants_dmeans", (False, True))
@pytest.mark.parametrize("dims, layout, strides", [
    ((2, 3, 5, 8), "nchw", None), ((2, 3, 6, 5), "nhwc", None), ((1, 2, 3, 4, 3), "nchw", None),
    ((2, 2, 2, 3, 3), "nhwc", None), ((2, 3, 4, 5), None, (90, 29, 7, 1)),
    ((2, 3, 4, 4), None, (1, 3, 50, 11))])
def test_types_and_strides(handle, dtype, wants_dmeans, dims, layout, strides):
    run(handle, dims, (3, 2.0, 0.75, 1.0), dtype, layout, strides, wants_dmeans=wants_dmeans)


@pytest.mark.parametrize("beta", (0.0, 0.5))
@pytest.mark.parametrize("dtype", FLOATS)
def test_in_place(handle, dtype, beta):
    dims, norm = (2, 3, 5, 8), norm_desc(5, 2.0, 0.75, 1.0)
    strides = (150, 50, 9, 1)
    x, means, temp = (Tensor(dims, draw(*dims, seed=s), dtype, strides=strides) for s in range(3))
    want = 1.5 * plain(x.values, means.values, x.values, 5, 2.0, 0.75, 1.0)[0] + beta * x.values
    c.divisiveNormalizationForward(handle, norm, MODE, 1.5, x.desc, x.ptr, means.ptr, temp.ptr, temp.ptr,
                                   beta, x.desc, x.ptr)
    np.testing.assert_allclose(x.values, want, rtol=tolerance(dtype, 4), atol=tolerance(dtype, 8))
    assert x.stray_bytes() == temp.stray_bytes() == 0


def test_arrays_in_place():
    handle, norm = c.create("numpy"), norm_desc(3)
    x, temp = np.ones((1, 1, 4, 4), np.float32), np.empty((1, 1, 4, 4), np.float32)
    desc = tensor_desc(1, 1, 4, 4)
    want = plain(x, 0 * x, x, 3, 1e-4, 0.75, 2.0)[0]
    for other in (x, x.reshape(16)):             # the same array, and another one of the same memory
        x[:] = 1
        c.divisiveNormalizationForward(handle, norm, MODE, 1, desc, x, None, temp, temp, 0, desc, other)
        np.testing.assert_allclose(x, want, rtol=1e-6)
    c.destroy(handle)


def test_old_outputs_are_not_read(handle):
    """Poison is NaN in every type."""
    dims, norm = (1, 2, 4, 4), norm_desc(4, 1.0)
    x, y, dx, dmeans = Tensor(dims, draw(*dims)), Tensor(dims), Tensor(dims), Tensor(dims)
    c.divisiveNormalizationForward(handle, norm, MODE, 1, x.desc, x.ptr, None, dx.ptr, dx.ptr, 0, y.desc,
                                   y.ptr)
    c.divisiveNormalizationBackward(handle, norm, MODE, 1, x.desc, x.ptr, None, x.ptr, y.ptr, y.ptr, 0,
                                    dx.desc, dx.ptr, dmeans.ptr)
    assert np.isfinite(y.values).all() and np.isfinite(dx.values).all() and np.isfinite(dmeans.values).all()


X, Y, DY, DX, DM, TEMP = (Tensor((2, 3, 4, 5), 1.0) for _ in range(6))
FORWARD = dict(normDesc=norm_desc(), mode=MODE, alpha=1, xDesc=X.desc, x=X.ptr, means=None, temp=TEMP.ptr,
               temp2=TEMP.ptr, beta=0, yDesc=Y.desc, y=Y.ptr)
BACKWARD = dict(normDesc=norm_desc(), mode=MODE, alpha=1, xDesc=X.desc, x=X.ptr, means=0, dy=DY.ptr,
                temp=TEMP.ptr, temp2=TEMP.ptr, beta=0, dxDesc=DX.desc, dx=DX.ptr, dMeans=DM.ptr)
T = tensor_desc
LAST, THREE, SIX = T(2, 3, 4, 5, layout="nhwc"), T(2, 3, 4), T(1, 1, 2, 2, 2, 2)
REFUSALS = [
    ("Forward", dict(normDesc=None), BadParam, "normDesc must not be NULL"),
    ("Forward", dict(normDesc=X.desc), BadParam, "normDesc must be a LRN descriptor"),
    ("Forward", dict(mode=1), BadParam, r"mode must be one of CUDNN_DIVNORM_PRECOMPUTED_MEANS \(0\); got 1"),
    ("Forward", dict(xDesc=THREE, yDesc=THREE), BadParam, "xDesc must have rank 4 or 5; got 3"),
    ("Forward", dict(xDesc=SIX, yDesc=SIX), BadParam, "xDesc must have rank 4 or 5; got 6"),
    ("Forward", dict(yDesc=T(2, 3, 5, 4)), BadParam, r"yDesc must have dims \(2, 3, 4, 5\) like xDesc"),
    ("Forward", dict(yDesc=T(2, 3, 4, 5, dtype=HALF)), BadParam, "yDesc must have data type f32 like xDesc"),
    ("Forward", dict(yDesc=LAST), NotSupported, r"yDesc must have strides \(60, 20, 5, 1\) like xDesc"),
    ("Forward", dict(yDesc=LAST, y=X.ptr), BadParam, r"yDesc must have strides \(60, 20, 5, 1\) like xDesc"),
    ("Forward", dict.fromkeys(("xDesc", "yDesc"), T(2, 3, 4, 5, strides=(60, 20, 4, 1))), NotSupported,
     "yDesc must not overlap itself"),
    ("Forward", dict(x=0), BadParam, ": x must not be NULL"),
    ("Forward", dict(y=0), BadParam, ": y must not be NULL"),
    ("Forward", dict(temp=None), BadParam, ": temp must not be NULL"),
    ("Forward", dict(temp2=0), BadParam, ": temp2 must not be NULL"),
    ("Forward", dict(temp=0, y=X.ptr), BadParam, ": temp must not be NULL"),
    ("Forward", dict(alpha=None), BadParam, "alpha must not be NULL"),
    ("Forward", dict(beta=None), BadParam, "beta must not be NULL"),
    ("Forward", dict(y=X.ptr + 4), BadParam, "must not overlap"),
    ("Backward", dict(mode=-1), BadParam, "mode must be one of"),
    ("Backward", dict(xDesc=THREE, dxDesc=THREE), BadParam, "xDesc must have rank 4 or 5; got 3"),
    ("Backward", dict(dxDesc=T(2, 3, 4, 6)), BadParam, "dxDesc must have dims"),
    ("Backward", dict(dxDesc=T(2, 3, 4, 5, dtype=DOUBLE)), BadParam, "dxDesc must have data type"),
    ("Backward", dict(dxDesc=LAST), NotSupported, "dxDesc must have strides"),
    ("Backward", dict(x=0), BadParam, ": x must not be NULL"),
    ("Backward", dict(dy=0), BadParam, ": dy must not be NULL"),
    ("Backward", dict(dx=0), BadParam, ": dx must not be NULL"),
    ("Backward", dict(temp=0), BadParam, ": temp must not be NULL"),
    ("Backward", dict(temp2=0), BadParam, ": temp2 must not be NULL"),
    ("Backward", dict(beta=None), BadParam, "beta must not be NULL"),
    ("Backward", dict(dx=X.ptr), BadParam, "must not overlap"),
    ("Backward", dict(dx=DY.ptr), BadParam, "must not overlap"),
]


@pytest.mark.parametrize("direction, broken, error, words", REFUSALS)
def test_refusals(handle, refused, direction, broken, error, words):
    arguments = dict(Forward=FORWARD, Backward=BACKWARD)[direction]
    function = getattr(c, "divisiveNormalization" + direction)
    function(handle, **arguments)
    refused(function, error, f"cudnnDivisiveNormalization{direction}: .*{words.removeprefix(': ')}", handle,
            **{**arguments, **broken})

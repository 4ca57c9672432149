"""g95 to g98: batch normalization."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam

from .arrays import BFLOAT16, DOUBLE, FLOAT, FLOATS, HALF, Tensor, draw, ramp, tensor_desc, tolerance

PER_ACTIVATION, SPATIAL = c.CUDNN_BATCHNORM_PER_ACTIVATION, c.CUDNN_BATCHNORM_SPATIAL
DIMS = (3, 2, 4, 5)


def derived(dims, mode, dtype=FLOAT):
    desc = c.createTensorDescriptor()
    c.deriveBNTensorDescriptor(desc, tensor_desc(*dims, dtype=dtype), mode)
    kind, rank, out, _ = c.getTensorNdDescriptor(desc, 8)
    return kind, out


def parameters(dims, mode, dtype, count, seed=10):
    """Tensors of the parameter shape with positive values, and their values."""
    kind, shape = derived(dims, mode, dtype)
    tensors = [Tensor(shape, np.abs(draw(*shape, seed=seed + i)) + 0.25, kind) for i in range(count)]
    return tensors, [t.values for t in tensors]


def axes(dims, mode):
    return (0, *range(2, len(dims))) if mode == SPATIAL else (0,)


@pytest.mark.parametrize("dtype, want", [(FLOAT, FLOAT), (HALF, FLOAT), (BFLOAT16, FLOAT), (DOUBLE, DOUBLE)])
@pytest.mark.parametrize("dims", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_derive(dtype, want, dims):
    assert derived(dims, SPATIAL, dtype) == (want, (1, 3, *(1,) * (len(dims) - 2)))
    assert derived(dims, PER_ACTIVATION, dtype) == (want, (1, *dims[1:]))


def test_derive_refusals(refused):
    desc = c.createTensorDescriptor()
    refused(c.deriveBNTensorDescriptor, BadParam,
            r"mode must be one of CUDNN_BATCHNORM_PER_ACTIVATION \(0\).*got 2", desc,
            tensor_desc(1, 1, 1, 1), 2)
    refused(c.deriveBNTensorDescriptor, BadParam, "xDesc must have rank 4 or 5; got 3", desc,
            tensor_desc(1, 1, 1), 0)
    refused(c.deriveBNTensorDescriptor, BadParam, "xDesc must be set", desc, c.createTensorDescriptor(), 0)
    refused(c.deriveBNTensorDescriptor, BadParam, "derivedBnDesc must not be NULL", 0,
            tensor_desc(1, 1, 1, 1), 0)
    refused(c.getTensor4dDescriptor, BadParam, "must be set", desc)


@pytest.mark.parametrize("mode", (PER_ACTIVATION, SPATIAL))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [DIMS, (3, 2, 2, 3, 2)])
def test_inference(handle, mode, dtype, dims):
    x, y = Tensor(dims, draw(*dims), dtype), Tensor(dims, draw(*dims, seed=1), dtype, "nhwc")
    (s, b, m, v), (sv, bv, mv, vv) = parameters(dims, mode, dtype, 4)
    c.batchNormalizationForwardInference(handle, mode, 2.0, 0.5, x.desc, x.ptr, y.desc, y.ptr,
                                         s.desc, s.ptr, b.ptr, m.ptr, v.ptr, 0.25)
    want = 2 * (sv * (x.values - mv) / np.sqrt(vv + 0.25) + bv) + 0.5 * draw(*dims, seed=1)
    np.testing.assert_allclose(y.values, want, rtol=tolerance(dtype), atol=tolerance(dtype))


@pytest.mark.parametrize("running", (False, True))
@pytest.mark.parametrize("saved", (False, True))
@pytest.mark.parametrize("mode", (PER_ACTIVATION, SPATIAL))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [DIMS, (3, 2, 2, 3, 2)])
def test_training_and_backward(handle, running, saved, mode, dtype, dims):
    x, y = Tensor(dims, draw(*dims), dtype, "nhwc"), Tensor(dims, draw(*dims, seed=1), dtype)
    (s, b, rm, rv, sm, si), (sv, bv, rmv, rvv, _, _) = parameters(dims, mode, dtype, 6)
    pairs = [(rm.ptr, rv.ptr) if running else (0, None), (sm.ptr, si.ptr) if saved else (None, 0)]
    for _ in range(2):
        y.values, rm.values, rv.values = draw(*dims, seed=1), rmv, rvv
        c.batchNormalizationForwardTraining(handle, mode, 2.0, 0.5, x.desc, x.ptr, y.desc, y.ptr,
                                            s.desc, s.ptr, b.ptr, 0.25, *pairs[0], 0.5, *pairs[1])
    over = axes(dims, mode)
    m = np.prod([dims[a] for a in over])
    mean, var = x.values.mean(axis=over, keepdims=True), x.values.var(axis=over, keepdims=True)
    rstd = 1 / np.sqrt(var + 0.5)
    hat = (x.values - mean) * rstd
    close = dict(rtol=tolerance(dtype, 4), atol=tolerance(dtype, 4))
    np.testing.assert_allclose(y.values, 2 * (sv * hat + bv) + 0.5 * draw(*dims, seed=1), **close)
    if running:
        np.testing.assert_allclose(rm.values, 0.75 * rmv + 0.25 * mean, **close)
        np.testing.assert_allclose(rv.values, 0.75 * rvv + 0.25 * var * m / (m - 1), **close)
    if saved:
        np.testing.assert_allclose(sm.values, mean, **close)
        np.testing.assert_allclose(si.values, rstd, **close)
    dy, dx = Tensor(dims, draw(*dims, seed=2), dtype), Tensor(dims, draw(*dims, seed=3), dtype)
    (ds, db), (dsv, dbv) = parameters(dims, mode, dtype, 2, seed=20)
    c.batchNormalizationBackward(handle, mode, 2.0, 0.5, 3.0, 0.25, x.desc, x.ptr, dy.desc, dy.ptr,
                                 dx.desc, dx.ptr, s.desc, s.ptr, ds.ptr, db.ptr, 0.5, *pairs[1])
    g = dy.values
    dbias, dscale = g.sum(axis=over, keepdims=True), (g * hat).sum(axis=over, keepdims=True)
    close = dict(rtol=tolerance(dtype, 4), atol=tolerance(dtype, 16))
    np.testing.assert_allclose(db.values, 3 * dbias + 0.25 * dbv, **close)
    np.testing.assert_allclose(ds.values, 3 * dscale + 0.25 * dsv, **close)
    np.testing.assert_allclose(
        dx.values, 2 * sv * rstd * (g - dbias / m - hat * dscale / m) + 0.5 * draw(*dims, seed=3), **close)


RECORDED = (2, 4, 5, 5)


@pytest.mark.parametrize("mode, means, variances", [
    (PER_ACTIVATION, [5.4, 6.4], [500, 500.9]),
    (SPATIAL, [6.6, 10, 13.4, 16.8], [260.408, 261.308, 262.208, 263.108])])
def test_recorded_training(handle, mode, means, variances):
    x, y = Tensor(RECORDED, ramp(*RECORDED, offset=4)), Tensor(RECORDED)
    _, shape = derived(RECORDED, mode)
    one, rm, rv = Tensor(shape, 1.0), Tensor(shape, ramp(*shape)), Tensor(shape, ramp(*shape))
    c.batchNormalizationForwardTraining(handle, mode, 1, 0, x.desc, x.ptr, y.desc, y.ptr, one.desc, one.ptr,
                                        one.ptr, 0.1, rm.ptr, rv.ptr, 1e-5, 0, 0)
    np.testing.assert_allclose(rm.values.ravel()[:len(means)], means, rtol=1e-5)
    np.testing.assert_allclose(rv.values.ravel()[:len(variances)], variances, rtol=1e-5)


def test_recorded_inference(handle):
    x, y = Tensor(RECORDED, ramp(*RECORDED, offset=4)), Tensor(RECORDED, 1.0)
    p = Tensor((1, 4, 1, 1), np.arange(4))
    c.batchNormalizationForwardInference(handle, SPATIAL, 2.5, 1.5, x.desc, x.ptr, y.desc, y.ptr,
                                         p.desc, p.ptr, p.ptr, p.ptr, p.ptr, 0.5)
    np.testing.assert_allclose(y.values.ravel()[[0, 25, 26]], [1.5, 61.1548, 63.196], rtol=1e-5)


@pytest.mark.parametrize("saved", (False, True))
def test_recorded_backward(handle, saved):
    x, dy, dx = (Tensor(RECORDED, ramp(*RECORDED, scale=1.5, offset=4)),
                 Tensor(RECORDED, ramp(*RECORDED, scale=100)), Tensor(RECORDED, 0))
    one, ds, db = Tensor((1, 4, 1, 1), 1.0), Tensor((1, 4, 1, 1), 0), Tensor((1, 4, 1, 1), 0)
    mean, var = (f(x.values, axis=(0, 2, 3)) for f in (np.mean, np.var))
    keep = Tensor((1, 4, 1, 1), mean), Tensor((1, 4, 1, 1), 1 / np.sqrt(var + 1))
    pair = (keep[0].ptr, keep[1].ptr) if saved else (0, 0)
    c.batchNormalizationBackward(handle, SPATIAL, 2.5, 1.5, 2.5, 1.5, x.desc, x.ptr, dy.desc, dy.ptr,
                                 dx.desc, dx.ptr, one.desc, one.ptr, ds.ptr, db.ptr, 1.0, *pair)
    np.testing.assert_allclose(db.values.ravel(), [775000, 1087500, 1400000, 1712500], rtol=1e-6)
    np.testing.assert_allclose(ds.values.ravel(), [631412] * 4, rtol=1e-5)


def test_factor_1_does_not_read_and_one_value_has_a_variance(handle):
    x, y = Tensor((1, 1, 1, 1), 3.0), Tensor((1, 1, 1, 1))
    one, rm, rv = Tensor((1, 1, 1, 1), 1.0), Tensor((1, 1, 1, 1)), Tensor((1, 1, 1, 1))
    c.batchNormalizationForwardTraining(handle, SPATIAL, 1, 0, x.desc, x.ptr, y.desc, y.ptr,
                                        one.desc, one.ptr, one.ptr, 1.0, rm.ptr, rv.ptr, 1e-5, 0, 0)
    assert (rm.values.item(), rv.values.item(), y.values.item()) == (3, 0, 1)


def test_in_place_and_strided_parameters(handle):
    x = Tensor(DIMS, draw(*DIMS))
    s = Tensor((1, 2, 1, 1), [[2.0, 3.0]], strides=(99, 5, 7, 3))
    c.batchNormalizationForwardTraining(handle, SPATIAL, 1, 0, x.desc, x.ptr, x.desc, x.ptr, s.desc, s.ptr,
                                        s.ptr, 1, 0, 0, np.float32(1e-5), 0, 0)
    v = draw(*DIMS)
    mean, var = v.mean(axis=(0, 2, 3), keepdims=True), v.var(axis=(0, 2, 3), keepdims=True)
    np.testing.assert_allclose(x.values,
                               s.values * (v - mean) / np.sqrt(var + 1e-5) + s.values, rtol=1e-5, atol=1e-5)


X, Y, Z = (Tensor(DIMS, 1.0) for _ in range(3))
P = [Tensor((1, 2, 1, 1), 1.0) for _ in range(7)]
B = P[0].desc
INFERENCE = dict(mode=SPATIAL, alpha=1, beta=0, xDesc=X.desc, x=X.ptr, yDesc=Y.desc, y=Y.ptr,
                 bnScaleBiasMeanVarDesc=B, bnScale=P[0].ptr, bnBias=P[1].ptr, estimatedMean=P[2].ptr,
                 estimatedVariance=P[3].ptr, epsilon=1e-5)
TRAINING = dict(mode=SPATIAL, alpha=1, beta=0, xDesc=X.desc, x=X.ptr, yDesc=Y.desc, y=Y.ptr,
                bnScaleBiasMeanVarDesc=B, bnScale=P[0].ptr, bnBias=P[1].ptr, exponentialAverageFactor=0.5,
                resultRunningMean=P[2].ptr, resultRunningVariance=P[3].ptr, epsilon=1e-5,
                resultSaveMean=P[4].ptr, resultSaveInvVariance=P[5].ptr)
BACKWARD = dict(mode=SPATIAL, alphaDataDiff=1, betaDataDiff=0, alphaParamDiff=1, betaParamDiff=0,
                xDesc=X.desc, x=X.ptr, dyDesc=Y.desc, dy=Y.ptr, dxDesc=Z.desc, dx=Z.ptr,
                bnScaleBiasDiffDesc=B, bnScale=P[0].ptr, resultBnScaleDiff=P[1].ptr,
                resultBnBiasDiff=P[2].ptr, epsilon=1e-5, savedMean=P[3].ptr, savedInvVariance=P[4].ptr)
CALLS = dict(ForwardInference=INFERENCE, ForwardTraining=TRAINING, Backward=BACKWARD)
OUT = dict(ForwardInference="yDesc", ForwardTraining="yDesc", Backward="dxDesc")
PARAMETER = dict(ForwardInference="bnScaleBiasMeanVarDesc", ForwardTraining="bnScaleBiasMeanVarDesc",
                 Backward="bnScaleBiasDiffDesc")
OPTIONAL = {"resultRunningMean", "resultRunningVariance", "resultSaveMean",
            "resultSaveInvVariance", "savedMean", "savedInvVariance"}


@pytest.mark.parametrize("name", CALLS)
def test_refusals(handle, refused, name):
    function, arguments = getattr(c, "batchNormalization" + name), CALLS[name]
    function(handle, **arguments)

    def broken(words, error=BadParam, **change):
        refused(function, error, f"cudnnBatchNormalization{name}: .*{words}", handle,
                **{**arguments, **change})
    out, parameter = OUT[name], PARAMETER[name]
    broken("mode must be one of", mode=2)
    broken(f"{out} must have dims", **{out: tensor_desc(3, 2, 4, 6)})
    broken(f"{out} must have data type", **{out: tensor_desc(*DIMS, dtype=HALF)})
    broken(rf"{parameter} must have dims \(1, 2, 1, 1\) for mode spatial; got",
           **{parameter: tensor_desc(1, 3, 1, 1)})
    broken(rf"{parameter} must have dims \(1, 2, 4, 5\) for mode per_activation", mode=PER_ACTIVATION)
    broken(f"{parameter} must have data type f32 for xDesc of f32; got f64",
           **{parameter: tensor_desc(1, 2, 1, 1, dtype=DOUBLE)})
    broken("xDesc must have rank 4 or 5; got 3", xDesc=tensor_desc(3, 2, 4))
    for epsilon in (0.99e-5, 0.0, -1.0, np.nan, None):
        broken("epsilon must be >= CUDNN_BN_MIN_EPSILON", epsilon=epsilon)
    for key, value in arguments.items():
        if key.endswith("Desc"):
            broken(f"{key} must not be NULL", **{key: 0})
        elif key.startswith(("alpha", "beta")):
            broken("must not be NULL", **{key: None})
            broken("must be a number, not the address", TypeError, **{key: 1 << 40})
        elif key in OPTIONAL:
            broken("must be both given or both NULL", **{key: 0})
            broken("must be both given or both NULL", **{key: None})
        elif key not in ("mode", "epsilon", "exponentialAverageFactor"):
            broken(f"{key} must not be NULL", **{key: 0})


def test_half_data_has_float_parameters(handle, refused):
    x, y = Tensor(DIMS, 1.0, HALF), Tensor(DIMS, 0, HALF)
    change = dict(xDesc=x.desc, x=x.ptr, yDesc=y.desc, y=y.ptr)
    c.batchNormalizationForwardInference(handle, **{**INFERENCE, **change})
    refused(c.batchNormalizationForwardInference, BadParam,
            "must have data type f32 for xDesc of f16; got f16", handle,
            **{**INFERENCE, **change, "bnScaleBiasMeanVarDesc": tensor_desc(1, 2, 1, 1, dtype=HALF)})

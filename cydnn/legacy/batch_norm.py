"""Batch normalization: cudnnBatchNormalizationForwardInference to cudnnDeriveBNTensorDescriptor.
Spec: legacy API, 3.15 and 4.11.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, mode = cudnn.create("numpy"), cudnn.CUDNN_BATCHNORM_SPATIAL
>>> xDesc, bnDesc = cudnn.createTensorDescriptor(), cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 2, 1, 2)
>>> cudnn.deriveBNTensorDescriptor(bnDesc, xDesc, mode)
>>> x, y = np.array([1, 3, 10, 30], np.float32), np.zeros(4, np.float32)
>>> scale, bias, mean, var = (np.full(2, value, np.float32) for value in (1, 0, 2, 1))
"""
from __future__ import annotations

from .._core import attempt
from ..dtypes import BY_ENUM, BY_NAME
from ..ops import BatchNormBwd, BatchNormInference, BatchNormTraining
from ..status import require
from ..tensor import packed_strides
from .arguments import number, public
from .call import Compute, Work, same_dims, same_types, writable
from .enums import BATCH_NORM_MODE, CONSTANTS
from .tensor import TENSOR, TensorFields

# float32(1e-5) is slightly below 1e-5 and must pass
LEAST_EPSILON = CONSTANTS["CUDNN_BN_MIN_EPSILON"] * (1 - 1e-6)


def _epsilon(call, epsilon) -> None:
    call.require(epsilon is not None and number(call.function, "epsilon", epsilon) >= LEAST_EPSILON,
                 f"epsilon must be >= CUDNN_BN_MIN_EPSILON = 1e-5; got {epsilon}")


def _pair(call, given, one: str, other: str) -> bool:
    """Is an optional pair given? Raises BadParam where half of it is."""
    call.require((one in given) == (other in given), f"{one} and {other} must be both given or both NULL")
    return one in given


def _parameter_dims(mode: str, dims: tuple) -> tuple:
    return (1, dims[1], *((1,) * (len(dims) - 2) if mode == "spatial" else dims[2:]))


def _rules(call, mode, parameters, parameter_name, **data) -> None:
    (name, x), *_ = data.items()
    call.require(x.rank in (4, 5), f"{name} must have rank 4 or 5; got {x.rank}")
    same_dims(call, **data)
    want = _parameter_dims(mode, x.dims)
    call.require(parameters.dims == want,
                 f"{parameter_name} must have dims {want} for mode {mode}; got {parameters.dims}")
    same_types(call, **data)
    call.require(parameters.dtype.name == x.dtype.compute,
                 f"{parameter_name} must have data type {x.dtype.compute} for {name} of {x.dtype}; "
                 f"got {parameters.dtype}")


def _inference(call, mode, x, y, p) -> Work:
    _rules(call, mode, p, "bnScaleBiasMeanVarDesc", xDesc=x, yDesc=y)
    writable(call, yDesc=y)
    return Work(BatchNormInference(mode=mode, compute=x.dtype.compute),
                dict(x=x, scale=p, bias=p, mean=p, var=p, y=y))


def _training(call, mode, x, y, p, given) -> Work:
    is_running = _pair(call, given, "resultRunningMean", "resultRunningVariance")
    is_saved = _pair(call, given, "resultSaveMean", "resultSaveInvVariance")
    _rules(call, mode, p, "bnScaleBiasMeanVarDesc", xDesc=x, yDesc=y)
    writable(call, yDesc=y, bnScaleBiasMeanVarDesc=p)
    running = dict(running_mean=p, running_var=p, next_running_mean=p,
                   next_running_var=p) if is_running else {}
    saved = dict(mean=p, rstd=p) if is_saved else {}
    wanted = dict(x=x, scale=p, bias=p, y=y, **running, **saved)
    absent = tuple(n for n in BatchNormTraining.writes if n not in wanted)
    return Work(BatchNormTraining(mode=mode, compute=x.dtype.compute), wanted, absent=absent)


def _backward(call, mode, x, dy, dx, p, given) -> Work:
    is_saved = _pair(call, given, "savedMean", "savedInvVariance")
    _rules(call, mode, p, "bnScaleBiasDiffDesc", xDesc=x, dyDesc=dy, dxDesc=dx)
    writable(call, dxDesc=dx, bnScaleBiasDiffDesc=p)
    saved = dict(mean=p, rstd=p) if is_saved else {}
    return Work(BatchNormBwd(mode=mode, compute=x.dtype.compute),
                dict(x=x, dy=dy, scale=p, **saved, dx=dx, dscale=p, dbias=p))


_FORWARD_KEYS = dict(mode=BATCH_NORM_MODE, xDesc=TENSOR, yDesc=TENSOR, bnScaleBiasMeanVarDesc=TENSOR)
INFERENCE = Compute("cudnnBatchNormalizationForwardInference", _FORWARD_KEYS,
                    "x bnScale bnBias estimatedMean estimatedVariance y", "epsilon alpha beta", _inference)
TRAINING = Compute("cudnnBatchNormalizationForwardTraining", _FORWARD_KEYS,
                   "x bnScale bnBias resultRunningMean? resultRunningVariance? y resultSaveMean? "
                   "resultSaveInvVariance? resultRunningMean? resultRunningVariance?",    # read, then written
                   "epsilon exponentialAverageFactor=factor alpha beta", _training)
BACKWARD = Compute("cudnnBatchNormalizationBackward",
                   dict(mode=BATCH_NORM_MODE, xDesc=TENSOR, dyDesc=TENSOR, dxDesc=TENSOR,
                        bnScaleBiasDiffDesc=TENSOR),
                   "x dy bnScale savedMean? savedInvVariance? dx resultBnScaleDiff resultBnBiasDiff",
                   "epsilon alphaDataDiff=alpha betaDataDiff=beta alphaParamDiff=alpha_param "
                   "betaParamDiff=beta_param", _backward)


@public("g95")
def batchNormalizationForwardInference(handle, mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc,
                                       bnScale, bnBias, estimatedMean, estimatedVariance, epsilon):
    """y = alpha * (bnScale * (x - mean) / sqrt(variance + epsilon) + bnBias) + beta * y.

    >>> cudnn.batchNormalizationForwardInference(handle, mode, 1.0, 0.0, xDesc, x, xDesc, y, bnDesc,
    ...                                          scale, bias, mean, var, 1e-5)
    >>> y.round(2).tolist()
    [-1.0, 1.0, 8.0, 28.0]
    """
    keys, scalars = (mode, xDesc, yDesc, bnScaleBiasMeanVarDesc), (epsilon, alpha, beta)
    pointers = (x, bnScale, bnBias, estimatedMean, estimatedVariance, y)
    if (isinstance(epsilon, float) and epsilon >= LEAST_EPSILON
            and attempt(INFERENCE, handle, keys, pointers, scalars)):
        return
    _epsilon(INFERENCE, epsilon)
    INFERENCE.run(handle, keys, pointers, scalars)


@public("g96")
def batchNormalizationForwardTraining(handle, mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc,
                                      bnScale, bnBias, exponentialAverageFactor, resultRunningMean,
                                      resultRunningVariance, epsilon, resultSaveMean, resultSaveInvVariance):
    """y = alpha * normalized(x) + beta * y with the statistics of the batch; updates the running pair,
    stores mean and 1 / sqrt(var + epsilon).

    running = (1 - factor) * running + factor * (mean or unbiased variance); both pairs are
    optional, each as a whole.

    >>> saved_mean, saved_rstd = np.zeros(2, np.float32), np.zeros(2, np.float32)
    >>> cudnn.batchNormalizationForwardTraining(handle, mode, 1.0, 0.0, xDesc, x, xDesc, y, bnDesc, scale,
    ...                                         bias, 1.0, mean, var, 1e-5, saved_mean, saved_rstd)
    >>> y.round(2).tolist(), saved_mean.tolist(), var.tolist()
    ([-1.0, 1.0, -1.0, 1.0], [2.0, 20.0], [2.0, 200.0])
    """
    keys, scalars = ((mode, xDesc, yDesc, bnScaleBiasMeanVarDesc),
                     (epsilon, exponentialAverageFactor, alpha, beta))
    pointers = (x, bnScale, bnBias, resultRunningMean, resultRunningVariance, y, resultSaveMean,
                resultSaveInvVariance, resultRunningMean, resultRunningVariance)
    if (isinstance(epsilon, float) and epsilon >= LEAST_EPSILON
            and attempt(TRAINING, handle, keys, pointers, scalars)):
        return
    _epsilon(TRAINING, epsilon)
    TRAINING.run(handle, keys, pointers, scalars)


@public("g97")
def batchNormalizationBackward(handle, mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff,
                               xDesc, x, dyDesc, dy, dxDesc, dx, bnScaleBiasDiffDesc, bnScale,
                               resultBnScaleDiff, resultBnBiasDiff, epsilon, savedMean, savedInvVariance):
    """dx is blended with the DataDiff pair, both parameter gradients with the ParamDiff pair;
    the saved pair is optional as a whole.

    >>> dy, dx = np.array([1, 2, 3, 4], np.float32), np.zeros(4, np.float32)
    >>> dscale, dbias = np.zeros(2, np.float32), np.zeros(2, np.float32)
    >>> cudnn.batchNormalizationBackward(handle, mode, 1.0, 0.0, 1.0, 0.0, xDesc, x, xDesc, dy, xDesc, dx,
    ...                                  bnDesc, scale, dscale, dbias, 1e-5, None, None)
    >>> dbias.tolist(), dscale.round(2).tolist()
    ([3.0, 7.0], [1.0, 1.0])
    """
    keys = (mode, xDesc, dyDesc, dxDesc, bnScaleBiasDiffDesc)
    scalars = (epsilon, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff)
    pointers = (x, dy, bnScale, savedMean, savedInvVariance, dx, resultBnScaleDiff, resultBnBiasDiff)
    if (isinstance(epsilon, float) and epsilon >= LEAST_EPSILON
            and attempt(BACKWARD, handle, keys, pointers, scalars)):
        return
    _epsilon(BACKWARD, epsilon)
    BACKWARD.run(handle, keys, pointers, scalars)


@public("g98")
def deriveBNTensorDescriptor(derivedBnDesc, xDesc, mode) -> None:
    """Set derivedBnDesc to what the parameters of this mode look like: packed, FLOAT unless x is DOUBLE.

    >>> cudnn.deriveBNTensorDescriptor(bnDesc, xDesc, cudnn.CUDNN_BATCHNORM_PER_ACTIVATION)
    >>> bnDesc
    TensorDescriptor(f32 n1c2h1w2 nchw)
    """
    function = "cudnnDeriveBNTensorDescriptor"
    found = TENSOR.resolve(function, "derivedBnDesc", derivedBnDesc)
    fields = TENSOR.fields(function, "xDesc", xDesc)
    word = BATCH_NORM_MODE.content(function, "mode", mode)
    require(len(fields.dims) in (4, 5), f"{function}: xDesc must have rank 4 or 5; got {len(fields.dims)}")
    dims = _parameter_dims(word, fields.dims)
    TENSOR.set(found, TensorFields(BY_NAME[BY_ENUM[fields.dtype].compute].enum, dims, packed_strides(dims)))

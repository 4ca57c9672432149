"""Batch normalization: 3.15."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import DOUBLE, HALF, tensor_desc as T
from . import NUMPY, E

D, P, OTHER, LOW = T(2, 3, 4, 5), T(1, 3, 1, 1), T(2, 3, 5, 4), T(2, 3, 4)
AS_HALF, AS_DOUBLE, TIGHT = (T(2, 3, 4, 5, dtype=HALF), T(2, 3, 4, 5, dtype=DOUBLE),
                             T(2, 3, 4, 5, strides=(0, 20, 5, 1)))
big, small = lambda: np.ones(120, np.float32), lambda: np.ones(3, np.float32)
INFERENCE, TRAINING, BACKWARD = ("batchNormalizationForwardInference", "batchNormalizationForwardTraining",
                                 "batchNormalizationBackward")
DERIVE = "deriveBNTensorDescriptor"
FORWARD = lambda: dict(handle=NUMPY, mode=E(1), alpha=1.0, beta=0.0, xDesc=D, x=big(), yDesc=D, y=big(),
                       bnScaleBiasMeanVarDesc=P, bnScale=small(), bnBias=small())
GOOD = {
    INFERENCE: lambda: dict(**FORWARD(), estimatedMean=small(), estimatedVariance=small(), epsilon=1e-3),
    TRAINING: lambda: dict(**FORWARD(), exponentialAverageFactor=0.5, resultRunningMean=small(),
                           resultRunningVariance=small(), epsilon=1e-3, resultSaveMean=small(),
                           resultSaveInvVariance=small()),
    BACKWARD: lambda: dict(handle=NUMPY, mode=E(1), alphaDataDiff=1.0, betaDataDiff=0.0, alphaParamDiff=1.0,
                           betaParamDiff=0.0, xDesc=D, x=big(), dyDesc=D, dy=big(), dxDesc=D, dx=big(),
                           bnScaleBiasDiffDesc=P, bnScale=small(), resultBnScaleDiff=small(),
                           resultBnBiasDiff=small(), epsilon=1e-3, savedMean=small(),
                           savedInvVariance=small()),
    DERIVE: lambda: dict(derivedBnDesc=c.createTensorDescriptor(), xDesc=D, mode=E(1)),
}
PARAMETERS = {INFERENCE: "bnScaleBiasMeanVarDesc", TRAINING: "bnScaleBiasMeanVarDesc",
              BACKWARD: "bnScaleBiasDiffDesc"}
OUTPUTS = {INFERENCE: ("yDesc",), TRAINING: ("yDesc",), BACKWARD: ("dyDesc", "dxDesc")}
ROWS = [
    (DERIVE, "the rank is not 4 or 5", dict(xDesc=LOW), BadParam, "xDesc must have rank 4 or 5; got 3"),
    *((f, "`epsilon` is below CUDNN_BN_MIN_EPSILON", dict(epsilon=9e-6), BadParam,
       "epsilon must be >= CUDNN_BN_MIN_EPSILON = 1e-5; got 9e-06") for f in PARAMETERS),
    (TRAINING, "`exponentialAverageFactor` is NULL (None)", dict(exponentialAverageFactor=None), BadParam,
     "exponentialAverageFactor must not be NULL"),
    *((f, "the rank is not 4 or 5", {"xDesc": LOW, **dict.fromkeys(names, LOW)}, BadParam,
       "xDesc must have rank 4 or 5; got 3") for f, names in OUTPUTS.items()),
    *((f, f"dims of xDesc and {name} differ", {name: OTHER}, BadParam,
       f"{name} must have dims .* like xDesc; got")
      for f, names in OUTPUTS.items() for name in names),
    *((f, f"types of xDesc and {name} differ", {name: AS_HALF}, BadParam,
       f"{name} must have data type f32 like xDesc; got f16") for f, names in OUTPUTS.items()
      for name in names),
    *((f, "parameters have not the dims that deriveBNTensorDescriptor gives", {name: T(1, 3, 4, 5)}, BadParam,
       rf"{name} must have dims \(1, 3, 1, 1\) for mode spatial; got") for f, name in PARAMETERS.items()),
    *((f, "PER_ACTIVATION, and parameters are those of SPATIAL", dict(mode=0), BadParam,
       rf"{name} must have dims \(1, 3, 4, 5\) for mode per_activation; got") for f,
      name in PARAMETERS.items()),
    *((f, "parameters are not FLOAT (DOUBLE for DOUBLE data)", {name: T(1, 3, 1, 1, dtype=HALF)}, BadParam,
       f"{name} must have data type f32 for xDesc of f32; got f16") for f, name in PARAMETERS.items()),
    *((f, f"{name} overlaps itself", {name: TIGHT}, NotSupported, f"{name} must not overlap itself")
      for f, name in ((INFERENCE, "yDesc"), (TRAINING, "yDesc"), (BACKWARD, "dxDesc"))),
]

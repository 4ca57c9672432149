# Printed by tools/print_stubs.py.

from typing import Any

from .legacy import AlgoPerf as AlgoPerf, Handle as Handle
from .status import CydnnError as CuDNNError

CuDNNAlgoPerf = AlgoPerf
available: bool
def get_build_version() -> int: ...

def getVersion() -> Any:
    """The generation of the API that is here, in that generation's encoding: 5005.

    >>> cudnn.getVersion()
    5005"""
def getErrorString(status: Any) -> Any:
    """The name of a status; never fails.

    >>> cudnn.getErrorString(3)
    'CUDNN_STATUS_BAD_PARAM'"""
def getLastErrorString(max_size: Any = ...) -> Any:
    """The text of the last error in this thread, "" when there was none; at most ``max_size`` characters.

    >>> try:
    ...     cudnn.getStream(None)
    ... except cudnn.CuDNNError:
    ...     print(cudnn.getLastErrorString())
    CUDNN_STATUS_BAD_PARAM: cudnnGetStream: handle must not be NULL"""
def create(device: Any = ...) -> Any:
    """A handle on ``device``: "cuda:0", 0, "numpy"; by default the first CUDA device,
    or "numpy" where there is none. ``with cudnn.create() as handle:`` destroys it at the end.

    >>> cudnn.create("numpy")
    <Handle on numpy, stream 0x0>"""
def destroy(handle: Any) -> Any:
    """Wait for the device and free what the handle holds.

    >>> cudnn.destroy(handle)
    >>> handle
    <Handle destroyed>"""
def setStream(handle: Any, streamId: Any) -> Any:
    """Later calls use this stream: an int, an object with __cuda_stream__, a torch or cupy stream;
    None or 0 is the NULL stream.

    >>> cudnn.setStream(handle, 0x1230)
    >>> handle
    <Handle on numpy, stream 0x1230>"""
def getStream(handle: Any) -> Any:
    """The stream as the driver's handle, 0 by default.

    >>> cudnn.getStream(handle)
    0"""
def createTensorDescriptor() -> Any:
    """A tensor descriptor that is not set yet.

    >>> cudnn.createTensorDescriptor()
    TensorDescriptor(not set)"""
def setTensor4dDescriptor(tensorDesc: Any, format: Any, dataType: Any, n: Any, c: Any, h: Any, w: Any) -> Any:
    """Rank 4, packed in ``format``. Mind the order: format, then data type.

    >>> cudnn.setTensor4dDescriptor(tensorDesc, cudnn.CUDNN_TENSOR_NHWC, cudnn.CUDNN_DATA_HALF, 2, 8, 6, 6)
    >>> tensorDesc
    TensorDescriptor(f16 n2c8h6w6 nhwc)"""
def setTensor4dDescriptorEx(tensorDesc: Any, dataType: Any, n: Any, c: Any, h: Any, w: Any, nStride: Any, cStride: Any, hStride: Any, wStride: Any) -> Any:
    """Rank 4 with explicit strides: any order, gaps and zeros allowed.

    >>> cudnn.setTensor4dDescriptorEx(tensorDesc, cudnn.CUDNN_DATA_FLOAT, 2, 3, 4, 5, 100, 1, 17, 3)
    >>> tensorDesc
    TensorDescriptor(f32 n2c3h4w5 strides=100,1,17,3)"""
def getTensor4dDescriptor(tensorDesc: Any) -> Any:
    """(dataType, n, c, h, w, nStride, cStride, hStride, wStride)

    >>> cudnn.getTensor4dDescriptor(tensorDesc)
    (0, 2, 3, 4, 5, 60, 20, 5, 1)"""
def setTensorNdDescriptor(tensorDesc: Any, dataType: Any, nbDims: Any, dimA: Any, strideA: Any) -> Any:
    """Rank 3 to 8 with explicit strides.

    >>> cudnn.setTensorNdDescriptor(tensorDesc, cudnn.CUDNN_DATA_DOUBLE, 3, (2, 3, 4), (12, 4, 1))
    >>> tensorDesc
    TensorDescriptor(f64 n2c3w4 nchw)"""
def getTensorNdDescriptor(tensorDesc: Any, nbDimsRequested: Any) -> Any:
    """(dataType, nbDims, dimA, strideA); the arrays have min(nbDimsRequested, nbDims) entries.

    >>> cudnn.getTensorNdDescriptor(tensorDesc, 8)
    (0, 4, (2, 3, 4, 5), (60, 20, 5, 1))"""
def destroyTensorDescriptor(tensorDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyTensorDescriptor(tensorDesc)
    >>> tensorDesc
    TensorDescriptor(destroyed)"""
def createActivationDescriptor() -> Any:
    """An activation descriptor that is not set yet.

    >>> cudnn.createActivationDescriptor()
    ActivationDescriptor(not set)"""
def setActivationDescriptor(activationDesc: Any, mode: Any, reluNanOpt: Any, reluCeiling: Any) -> Any:
    """``reluCeiling`` is used by CLIPPED_RELU only.

    >>> cudnn.setActivationDescriptor(activationDesc, cudnn.CUDNN_ACTIVATION_CLIPPED_RELU,
    ...                               cudnn.CUDNN_NOT_PROPAGATE_NAN, 6.0)
    >>> activationDesc
    ActivationDescriptor(mode=clipped_relu nan=ignore ceiling=6.0)"""
def getActivationDescriptor(activationDesc: Any) -> Any:
    """(mode, reluNanOpt, reluCeiling)

    >>> cudnn.getActivationDescriptor(activationDesc)
    (1, 1, 0.0)"""
def destroyActivationDescriptor(activationDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyActivationDescriptor(activationDesc)
    >>> activationDesc
    ActivationDescriptor(destroyed)"""
def activationForward(handle: Any, activationDesc: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * f(x) + beta * y. x may be y with an equal descriptor.

    >>> cudnn.activationForward(handle, activationDesc, 1.0, xDesc, x, 0.0, xDesc, y)
    >>> y.tolist()
    [0.0, 0.0, 1.0, 2.0]"""
def activationForward_v4(handle: Any, activationDesc: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * f(x) + beta * y. x may be y with an equal descriptor.

    >>> cudnn.activationForward(handle, activationDesc, 1.0, xDesc, x, 0.0, xDesc, y)
    >>> y.tolist()
    [0.0, 0.0, 1.0, 2.0]"""
def activationBackward(handle: Any, activationDesc: Any, alpha: Any, yDesc: Any, y: Any, dyDesc: Any, dy: Any, xDesc: Any, x: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """dx = alpha * gradient + beta * dx, from y for SIGMOID and TANH, from x for the others.
    dx may be dy with an equal descriptor.

    >>> dy = np.array([1, 2, 3, 4], np.float32)
    >>> cudnn.activationBackward(handle, activationDesc, 1.0, xDesc, y, xDesc, dy, xDesc, x, 0.0, xDesc, dx)
    >>> dx.tolist()
    [0.0, 0.0, 3.0, 4.0]"""
def activationBackward_v4(handle: Any, activationDesc: Any, alpha: Any, yDesc: Any, y: Any, dyDesc: Any, dy: Any, xDesc: Any, x: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """dx = alpha * gradient + beta * dx, from y for SIGMOID and TANH, from x for the others.
    dx may be dy with an equal descriptor.

    >>> dy = np.array([1, 2, 3, 4], np.float32)
    >>> cudnn.activationBackward(handle, activationDesc, 1.0, xDesc, y, xDesc, dy, xDesc, x, 0.0, xDesc, dx)
    >>> dx.tolist()
    [0.0, 0.0, 3.0, 4.0]"""
def activationForward_v3(handle: Any, mode: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """Deprecated: a mode in place of the descriptor.

    >>> cudnn.activationForward_v3(handle, cudnn.CUDNN_ACTIVATION_RELU, 2.0, xDesc, x, 0.0, xDesc, y)
    >>> y.tolist()
    [0.0, 0.0, 2.0, 4.0]"""
def activationBackward_v3(handle: Any, mode: Any, alpha: Any, yDesc: Any, y: Any, dyDesc: Any, dy: Any, xDesc: Any, x: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """Deprecated: a mode in place of the descriptor.

    >>> dy = np.array([1, 2, 3, 4], np.float32)
    >>> cudnn.activationBackward_v3(handle, cudnn.CUDNN_ACTIVATION_RELU, 1.0, xDesc, y, xDesc, dy, xDesc, x,
    ...                             0.0, xDesc, dx)
    >>> dx.tolist()
    [0.0, 0.0, 3.0, 4.0]"""
def batchNormalizationForwardInference(handle: Any, mode: Any, alpha: Any, beta: Any, xDesc: Any, x: Any, yDesc: Any, y: Any, bnScaleBiasMeanVarDesc: Any, bnScale: Any, bnBias: Any, estimatedMean: Any, estimatedVariance: Any, epsilon: Any) -> Any:
    """y = alpha * (bnScale * (x - mean) / sqrt(variance + epsilon) + bnBias) + beta * y.

    >>> cudnn.batchNormalizationForwardInference(handle, mode, 1.0, 0.0, xDesc, x, xDesc, y, bnDesc,
    ...                                          scale, bias, mean, var, 1e-5)
    >>> y.round(2).tolist()
    [-1.0, 1.0, 8.0, 28.0]"""
def batchNormalizationForwardTraining(handle: Any, mode: Any, alpha: Any, beta: Any, xDesc: Any, x: Any, yDesc: Any, y: Any, bnScaleBiasMeanVarDesc: Any, bnScale: Any, bnBias: Any, exponentialAverageFactor: Any, resultRunningMean: Any, resultRunningVariance: Any, epsilon: Any, resultSaveMean: Any, resultSaveInvVariance: Any) -> Any:
    """y = alpha * normalized(x) + beta * y with the statistics of the batch; updates the running pair,
    stores mean and 1 / sqrt(var + epsilon).

    running = (1 - factor) * running + factor * (mean or unbiased variance); both pairs are
    optional, each as a whole.

    >>> saved_mean, saved_rstd = np.zeros(2, np.float32), np.zeros(2, np.float32)
    >>> cudnn.batchNormalizationForwardTraining(handle, mode, 1.0, 0.0, xDesc, x, xDesc, y, bnDesc, scale,
    ...                                         bias, 1.0, mean, var, 1e-5, saved_mean, saved_rstd)
    >>> y.round(2).tolist(), saved_mean.tolist(), var.tolist()
    ([-1.0, 1.0, -1.0, 1.0], [2.0, 20.0], [2.0, 200.0])"""
def batchNormalizationBackward(handle: Any, mode: Any, alphaDataDiff: Any, betaDataDiff: Any, alphaParamDiff: Any, betaParamDiff: Any, xDesc: Any, x: Any, dyDesc: Any, dy: Any, dxDesc: Any, dx: Any, bnScaleBiasDiffDesc: Any, bnScale: Any, resultBnScaleDiff: Any, resultBnBiasDiff: Any, epsilon: Any, savedMean: Any, savedInvVariance: Any) -> Any:
    """dx is blended with the DataDiff pair, both parameter gradients with the ParamDiff pair;
    the saved pair is optional as a whole.

    >>> dy, dx = np.array([1, 2, 3, 4], np.float32), np.zeros(4, np.float32)
    >>> dscale, dbias = np.zeros(2, np.float32), np.zeros(2, np.float32)
    >>> cudnn.batchNormalizationBackward(handle, mode, 1.0, 0.0, 1.0, 0.0, xDesc, x, xDesc, dy, xDesc, dx,
    ...                                  bnDesc, scale, dscale, dbias, 1e-5, None, None)
    >>> dbias.tolist(), dscale.round(2).tolist()
    ([3.0, 7.0], [1.0, 1.0])"""
def deriveBNTensorDescriptor(derivedBnDesc: Any, xDesc: Any, mode: Any) -> Any:
    """Set derivedBnDesc to what the parameters of this mode look like: packed, FLOAT unless x is DOUBLE.

    >>> cudnn.deriveBNTensorDescriptor(bnDesc, xDesc, cudnn.CUDNN_BATCHNORM_PER_ACTIVATION)
    >>> bnDesc
    TensorDescriptor(f32 n1c2h1w2 nchw)"""
def createFilterDescriptor() -> Any:
    """A filter descriptor that is not set yet.

    >>> cudnn.createFilterDescriptor()
    FilterDescriptor(not set)"""
def setFilter4dDescriptor(filterDesc: Any, dataType: Any, format: Any, k: Any, c: Any, h: Any, w: Any) -> Any:
    """Rank 4. Mind the order: data type, then format.

    >>> cudnn.setFilter4dDescriptor(filterDesc, cudnn.CUDNN_DATA_HALF, cudnn.CUDNN_TENSOR_NHWC, 4, 8, 3, 5)
    >>> filterDesc
    FilterDescriptor(f16 k4c8r3s5 nhwc)"""
def setFilter4dDescriptor_v4(filterDesc: Any, dataType: Any, format: Any, k: Any, c: Any, h: Any, w: Any) -> Any:
    """Rank 4. Mind the order: data type, then format.

    >>> cudnn.setFilter4dDescriptor(filterDesc, cudnn.CUDNN_DATA_HALF, cudnn.CUDNN_TENSOR_NHWC, 4, 8, 3, 5)
    >>> filterDesc
    FilterDescriptor(f16 k4c8r3s5 nhwc)"""
def getFilter4dDescriptor(filterDesc: Any) -> Any:
    """(dataType, format, k, c, h, w)

    >>> cudnn.getFilter4dDescriptor(filterDesc)
    (0, 0, 16, 8, 3, 3)"""
def getFilter4dDescriptor_v4(filterDesc: Any) -> Any:
    """(dataType, format, k, c, h, w)

    >>> cudnn.getFilter4dDescriptor(filterDesc)
    (0, 0, 16, 8, 3, 3)"""
def setFilter4dDescriptor_v3(filterDesc: Any, dataType: Any, k: Any, c: Any, h: Any, w: Any) -> Any:
    """Deprecated: format NCHW.

    >>> cudnn.setFilter4dDescriptor_v3(filterDesc, cudnn.CUDNN_DATA_FLOAT, 4, 8, 1, 1)
    >>> filterDesc
    FilterDescriptor(f32 k4c8r1s1 nchw)"""
def getFilter4dDescriptor_v3(filterDesc: Any) -> Any:
    """Deprecated: (dataType, k, c, h, w)

    >>> cudnn.getFilter4dDescriptor_v3(filterDesc)
    (0, 16, 8, 3, 3)"""
def setFilterNdDescriptor(filterDesc: Any, dataType: Any, format: Any, nbDims: Any, filterDimA: Any) -> Any:
    """Rank 3 to 8.

    >>> cudnn.setFilterNdDescriptor(filterDesc, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 5,
    ...                             (4, 8, 1, 3, 3))
    >>> filterDesc
    FilterDescriptor(f32 k4c8t1r3s3 nchw)"""
def setFilterNdDescriptor_v4(filterDesc: Any, dataType: Any, format: Any, nbDims: Any, filterDimA: Any) -> Any:
    """Rank 3 to 8.

    >>> cudnn.setFilterNdDescriptor(filterDesc, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 5,
    ...                             (4, 8, 1, 3, 3))
    >>> filterDesc
    FilterDescriptor(f32 k4c8t1r3s3 nchw)"""
def getFilterNdDescriptor(wDesc: Any, nbDimsRequested: Any) -> Any:
    """(dataType, format, nbDims, filterDimA); the array has min(nbDimsRequested, nbDims) entries.

    >>> cudnn.getFilterNdDescriptor(filterDesc, 8)
    (0, 0, 4, (16, 8, 3, 3))"""
def getFilterNdDescriptor_v4(wDesc: Any, nbDimsRequested: Any) -> Any:
    """(dataType, format, nbDims, filterDimA); the array has min(nbDimsRequested, nbDims) entries.

    >>> cudnn.getFilterNdDescriptor(filterDesc, 8)
    (0, 0, 4, (16, 8, 3, 3))"""
def setFilterNdDescriptor_v3(filterDesc: Any, dataType: Any, nbDims: Any, filterDimA: Any) -> Any:
    """Deprecated: format NCHW.

    >>> cudnn.setFilterNdDescriptor_v3(filterDesc, cudnn.CUDNN_DATA_FLOAT, 3, (4, 8, 3))
    >>> filterDesc
    FilterDescriptor(f32 k4c8s3 nchw)"""
def getFilterNdDescriptor_v3(wDesc: Any, nbDimsRequested: Any) -> Any:
    """Deprecated: (dataType, nbDims, filterDimA)

    >>> cudnn.getFilterNdDescriptor_v3(filterDesc, 2)
    (0, 4, (16, 8))"""
def destroyFilterDescriptor(filterDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyFilterDescriptor(filterDesc)
    >>> filterDesc
    FilterDescriptor(destroyed)"""
def createConvolutionDescriptor() -> Any:
    """A convolution descriptor that is not set yet.

    >>> cudnn.createConvolutionDescriptor()
    ConvolutionDescriptor(not set)"""
def setConvolution2dDescriptor(convDesc: Any, pad_h: Any, pad_w: Any, u: Any, v: Any, upscalex: Any, upscaley: Any, mode: Any) -> Any:
    """Two spatial dims: u is the vertical stride, v the horizontal one; the padding
    is symmetric. upscale must be 1.

    >>> cudnn.setConvolution2dDescriptor(convDesc, 0, 1, 1, 2, 1, 1, cudnn.CUDNN_CONVOLUTION)
    >>> convDesc
    ConvolutionDescriptor(pad0,1 stride1,2 mode=convolution)"""
def setConvolution2dDescriptor_v4(convDesc: Any, pad_h: Any, pad_w: Any, u: Any, v: Any, upscalex: Any, upscaley: Any, mode: Any) -> Any:
    """Two spatial dims: u is the vertical stride, v the horizontal one; the padding
    is symmetric. upscale must be 1.

    >>> cudnn.setConvolution2dDescriptor(convDesc, 0, 1, 1, 2, 1, 1, cudnn.CUDNN_CONVOLUTION)
    >>> convDesc
    ConvolutionDescriptor(pad0,1 stride1,2 mode=convolution)"""
def setConvolution2dDescriptor_v5(convDesc: Any, pad_h: Any, pad_w: Any, u: Any, v: Any, upscalex: Any, upscaley: Any, mode: Any, dataType: Any) -> Any:
    """The same, with the math type.

    >>> cudnn.setConvolution2dDescriptor_v5(convDesc, 1, 1, 1, 1, 1, 1, cudnn.CUDNN_CROSS_CORRELATION,
    ...                                     cudnn.CUDNN_DATA_FLOAT)
    >>> convDesc
    ConvolutionDescriptor(pad1,1 stride1,1 mode=cross_correlation acc=f32)"""
def getConvolution2dDescriptor(convDesc: Any) -> Any:
    """(pad_h, pad_w, u, v, upscalex, upscaley, mode)

    >>> cudnn.getConvolution2dDescriptor(convDesc)
    (1, 1, 2, 2, 1, 1, 1)"""
def getConvolution2dDescriptor_v5(convDesc: Any) -> Any:
    """(pad_h, pad_w, u, v, upscalex, upscaley, mode, dataType)

    >>> cudnn.getConvolution2dDescriptor_v5(convDesc)
    (1, 1, 2, 2, 1, 1, 1, 0)"""
def setConvolutionNdDescriptor(convDesc: Any, arrayLength: Any, padA: Any, filterStrideA: Any, upscaleA: Any, mode: Any, dataType: Any) -> Any:
    """``arrayLength`` spatial dims (2 or 3 are usable); ``dataType`` is the math type. upscale must be 1.

    >>> cudnn.setConvolutionNdDescriptor(convDesc, 3, (0, 1, 1), (1, 2, 2), (1, 1, 1),
    ...                                  cudnn.CUDNN_CROSS_CORRELATION, cudnn.CUDNN_DATA_FLOAT)
    >>> convDesc
    ConvolutionDescriptor(pad0,1,1 stride1,2,2 mode=cross_correlation acc=f32)"""
def setConvolutionNdDescriptor_v3(convDesc: Any, arrayLength: Any, padA: Any, filterStrideA: Any, upscaleA: Any, mode: Any, dataType: Any) -> Any:
    """``arrayLength`` spatial dims (2 or 3 are usable); ``dataType`` is the math type. upscale must be 1.

    >>> cudnn.setConvolutionNdDescriptor(convDesc, 3, (0, 1, 1), (1, 2, 2), (1, 1, 1),
    ...                                  cudnn.CUDNN_CROSS_CORRELATION, cudnn.CUDNN_DATA_FLOAT)
    >>> convDesc
    ConvolutionDescriptor(pad0,1,1 stride1,2,2 mode=cross_correlation acc=f32)"""
def getConvolutionNdDescriptor(convDesc: Any, arrayLengthRequested: Any) -> Any:
    """(arrayLength, padA, filterStrideA, upscaleA, mode, dataType); arrays have
    min(arrayLengthRequested, arrayLength) entries.

    >>> cudnn.getConvolutionNdDescriptor(convDesc, 8)
    (2, (1, 1), (2, 2), (1, 1), 1, 0)"""
def getConvolution2dForwardOutputDim(convDesc: Any, inputTensorDesc: Any, filterDesc: Any) -> Any:
    """(n, c, h, w) of the output: 1 + (i + 2 pad - filter) // stride in each spatial dim.

    >>> cudnn.getConvolution2dForwardOutputDim(convDesc, xDesc, wDesc)
    (2, 16, 3, 3)"""
def getConvolutionNdForwardOutputDim(convDesc: Any, inputTensorDesc: Any, filterDesc: Any, nbDims: Any) -> Any:
    """The first ``nbDims`` dims of the output.

    >>> cudnn.getConvolutionNdForwardOutputDim(convDesc, xDesc, wDesc, 4)
    (2, 16, 3, 3)"""
def destroyConvolutionDescriptor(convDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyConvolutionDescriptor(convDesc)
    >>> convDesc
    ConvolutionDescriptor(destroyed)"""
def findConvolutionForwardAlgorithm(handle: Any, xDesc: Any, wDesc: Any, convDesc: Any, yDesc: Any, requestedAlgoCount: Any) -> Any:
    """[AlgoPerf]: every algorithm timed by itself, the fastest first, those that cannot at the end; where
    one plan serves several, they share its time. On buffers that are allocated here. Blocks.

    >>> best, = cudnn.findConvolutionForwardAlgorithm(handle, xDesc, wDesc, convDesc, yDesc, 1)
    >>> best.status, best.memory, best.time > 0
    (0, 0, True)"""
def findConvolutionForwardAlgorithmEx(handle: Any, xDesc: Any, x: Any, wDesc: Any, w: Any, convDesc: Any, yDesc: Any, y: Any, requestedAlgoCount: Any, workSpace: Any, workSpaceSizeInBytes: Any) -> Any:
    """The same on the caller's buffers; y is overwritten.

    >>> best, = cudnn.findConvolutionForwardAlgorithmEx(handle, xDesc, x, wDesc, w, convDesc, yDesc, y,
    ...                                                 1, 0, 0)
    >>> best.status, best["memory"]
    (0, 0)"""
def getConvolutionForwardAlgorithm(handle: Any, xDesc: Any, wDesc: Any, convDesc: Any, yDesc: Any, preference: Any, memoryLimitInBytes: Any) -> Any:
    """The algorithm that should be fastest under the preference; nothing is launched.

    >>> cudnn.getConvolutionForwardAlgorithm(handle, xDesc, wDesc, convDesc, yDesc,
    ...                                      cudnn.CUDNN_CONVOLUTION_FWD_PREFER_FASTEST, 0)
    1"""
def getConvolutionForwardAlgorithm_v6(handle: Any, xDesc: Any, wDesc: Any, convDesc: Any, yDesc: Any, preference: Any, memoryLimitInBytes: Any) -> Any:
    """The algorithm that should be fastest under the preference; nothing is launched.

    >>> cudnn.getConvolutionForwardAlgorithm(handle, xDesc, wDesc, convDesc, yDesc,
    ...                                      cudnn.CUDNN_CONVOLUTION_FWD_PREFER_FASTEST, 0)
    1"""
def getConvolutionForwardWorkspaceSize(handle: Any, xDesc: Any, wDesc: Any, convDesc: Any, yDesc: Any, algo: Any) -> Any:
    """Bytes that the plan of this algorithm needs.

    >>> cudnn.getConvolutionForwardWorkspaceSize(handle, xDesc, wDesc, convDesc, yDesc,
    ...                                          cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM)
    0"""
def convolutionForward(handle: Any, alpha: Any, xDesc: Any, x: Any, wDesc: Any, w: Any, convDesc: Any, algo: Any, workSpace: Any, workSpaceSizeInBytes: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * conv(x, w) + beta * y.

    >>> cudnn.convolutionForward(handle, 1.0, xDesc, x, wDesc, w, convDesc,
    ...                          cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, None, 0, 0.0, yDesc, y)
    >>> y.tolist()
    [8.0, 12.0, 20.0, 24.0]"""
def convolutionBackwardBias(handle: Any, alpha: Any, dyDesc: Any, dy: Any, beta: Any, dbDesc: Any, db: Any) -> Any:
    """db[c] = alpha * (sum of dy over images and positions) + beta * db[c].

    >>> dbDesc, db = cudnn.createTensorDescriptor(), np.zeros(1, np.float32)
    >>> cudnn.setTensor4dDescriptor(dbDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 1, 1)
    >>> cudnn.convolutionBackwardBias(handle, 1.0, yDesc, y, 0.0, dbDesc, db)
    >>> db.tolist()
    [4.0]"""
def findConvolutionBackwardFilterAlgorithm(handle: Any, xDesc: Any, dyDesc: Any, convDesc: Any, dwDesc: Any, requestedAlgoCount: Any) -> Any:
    """[AlgoPerf] as findConvolutionForwardAlgorithm gives.

    >>> best, = cudnn.findConvolutionBackwardFilterAlgorithm(handle, xDesc, yDesc, convDesc, wDesc, 1)
    >>> best.status, best.determinism
    (0, 1)"""
def findConvolutionBackwardFilterAlgorithmEx(handle: Any, xDesc: Any, x: Any, dyDesc: Any, dy: Any, convDesc: Any, dwDesc: Any, dw: Any, requestedAlgoCount: Any, workSpace: Any, workSpaceSizeInBytes: Any) -> Any:
    """The same on the caller's buffers; dw is overwritten.

    >>> best, = cudnn.findConvolutionBackwardFilterAlgorithmEx(handle, xDesc, x, yDesc, y, convDesc, wDesc, w,
    ...                                                        1, 0, 0)
    >>> best.status
    0"""
def getConvolutionBackwardFilterAlgorithm(handle: Any, xDesc: Any, dyDesc: Any, convDesc: Any, dwDesc: Any, preference: Any, memoryLimitInBytes: Any) -> Any:
    """The algorithm that should be fastest under the preference; the limit is honoured.

    >>> cudnn.getConvolutionBackwardFilterAlgorithm(
    ...     handle, xDesc, yDesc, convDesc, wDesc, cudnn.CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST, 0)
    1"""
def getConvolutionBackwardFilterAlgorithm_v6(handle: Any, xDesc: Any, dyDesc: Any, convDesc: Any, dwDesc: Any, preference: Any, memoryLimitInBytes: Any) -> Any:
    """The algorithm that should be fastest under the preference; the limit is honoured.

    >>> cudnn.getConvolutionBackwardFilterAlgorithm(
    ...     handle, xDesc, yDesc, convDesc, wDesc, cudnn.CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST, 0)
    1"""
def getConvolutionBackwardFilterWorkspaceSize(handle: Any, xDesc: Any, dyDesc: Any, convDesc: Any, dwDesc: Any, algo: Any) -> Any:
    """Bytes that the plan of this algorithm needs.

    >>> cudnn.getConvolutionBackwardFilterWorkspaceSize(handle, xDesc, yDesc, convDesc, wDesc,
    ...                                                 cudnn.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1)
    0"""
def convolutionBackwardFilter(handle: Any, alpha: Any, xDesc: Any, x: Any, dyDesc: Any, dy: Any, convDesc: Any, algo: Any, workSpace: Any, workSpaceSizeInBytes: Any, beta: Any, dwDesc: Any, dw: Any) -> Any:
    """dw = alpha * gradient + beta * dw.

    >>> cudnn.convolutionBackwardFilter(handle, 1.0, xDesc, x, yDesc, y, convDesc,
    ...                                 cudnn.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, None, 0, 0.0, wDesc, w)
    >>> w.tolist()
    [8.0, 12.0, 20.0, 24.0]"""
def convolutionBackwardFilter_v3(handle: Any, alpha: Any, xDesc: Any, x: Any, dyDesc: Any, dy: Any, convDesc: Any, algo: Any, workSpace: Any, workSpaceSizeInBytes: Any, beta: Any, dwDesc: Any, dw: Any) -> Any:
    """dw = alpha * gradient + beta * dw.

    >>> cudnn.convolutionBackwardFilter(handle, 1.0, xDesc, x, yDesc, y, convDesc,
    ...                                 cudnn.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, None, 0, 0.0, wDesc, w)
    >>> w.tolist()
    [8.0, 12.0, 20.0, 24.0]"""
def findConvolutionBackwardDataAlgorithm(handle: Any, wDesc: Any, dyDesc: Any, convDesc: Any, dxDesc: Any, requestedAlgoCount: Any) -> Any:
    """[AlgoPerf] as findConvolutionForwardAlgorithm gives.

    >>> best, = cudnn.findConvolutionBackwardDataAlgorithm(handle, wDesc, yDesc, convDesc, xDesc, 1)
    >>> best.status
    0"""
def findConvolutionBackwardDataAlgorithmEx(handle: Any, wDesc: Any, w: Any, dyDesc: Any, dy: Any, convDesc: Any, dxDesc: Any, dx: Any, requestedAlgoCount: Any, workSpace: Any, workSpaceSizeInBytes: Any) -> Any:
    """The same on the caller's buffers; dx is overwritten.

    >>> best, = cudnn.findConvolutionBackwardDataAlgorithmEx(handle, wDesc, w, yDesc, y, convDesc, xDesc, x,
    ...                                                      1, 0, 0)
    >>> best.status
    0"""
def getConvolutionBackwardDataAlgorithm(handle: Any, wDesc: Any, dyDesc: Any, convDesc: Any, dxDesc: Any, preference: Any, memoryLimitInBytes: Any) -> Any:
    """The algorithm that should be fastest under the preference; the limit is honoured.

    >>> cudnn.getConvolutionBackwardDataAlgorithm(
    ...     handle, wDesc, yDesc, convDesc, xDesc, cudnn.CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST, 0)
    1"""
def getConvolutionBackwardDataAlgorithm_v6(handle: Any, wDesc: Any, dyDesc: Any, convDesc: Any, dxDesc: Any, preference: Any, memoryLimitInBytes: Any) -> Any:
    """The algorithm that should be fastest under the preference; the limit is honoured.

    >>> cudnn.getConvolutionBackwardDataAlgorithm(
    ...     handle, wDesc, yDesc, convDesc, xDesc, cudnn.CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST, 0)
    1"""
def getConvolutionBackwardDataWorkspaceSize(handle: Any, wDesc: Any, dyDesc: Any, convDesc: Any, dxDesc: Any, algo: Any) -> Any:
    """Bytes that the plan of this algorithm needs; ``algo`` is a backward data algorithm.

    >>> cudnn.getConvolutionBackwardDataWorkspaceSize(handle, wDesc, yDesc, convDesc, xDesc,
    ...                                               cudnn.CUDNN_CONVOLUTION_BWD_DATA_ALGO_1)
    0"""
def convolutionBackwardData(handle: Any, alpha: Any, wDesc: Any, w: Any, dyDesc: Any, dy: Any, convDesc: Any, algo: Any, workSpace: Any, workSpaceSizeInBytes: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """dx = alpha * gradient + beta * dx. Mind the order: w before dy.

    >>> cudnn.convolutionBackwardData(handle, 1.0, wDesc, w, yDesc, y, convDesc,
    ...                               cudnn.CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, None, 0, 0.0, xDesc, x)
    >>> x.tolist()
    [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]"""
def convolutionBackwardData_v3(handle: Any, alpha: Any, wDesc: Any, w: Any, dyDesc: Any, dy: Any, convDesc: Any, algo: Any, workSpace: Any, workSpaceSizeInBytes: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """dx = alpha * gradient + beta * dx. Mind the order: w before dy.

    >>> cudnn.convolutionBackwardData(handle, 1.0, wDesc, w, yDesc, y, convDesc,
    ...                               cudnn.CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, None, 0, 0.0, xDesc, x)
    >>> x.tolist()
    [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]"""
def createLRNDescriptor() -> Any:
    """An LRN descriptor that is usable at once: lrnN 5, lrnAlpha 1e-4, lrnBeta 0.75, lrnK 2.

    >>> cudnn.createLRNDescriptor()
    LRNDescriptor(n=5 alpha=0.0001 beta=0.75 k=2.0)"""
def setLRNDescriptor(normDesc: Any, lrnN: Any, lrnAlpha: Any, lrnBeta: Any, lrnK: Any) -> Any:
    """A window of lrnN (1 to 16) channels, or cells in each spatial dim; lrnBeta >= 0.01, lrnK >= 1e-5.

    >>> cudnn.setLRNDescriptor(normDesc, 3, 1e-4, 0.5, 1.0)
    >>> normDesc
    LRNDescriptor(n=3 alpha=0.0001 beta=0.5 k=1.0)"""
def getLRNDescriptor(normDesc: Any) -> Any:
    """(lrnN, lrnAlpha, lrnBeta, lrnK)

    >>> cudnn.getLRNDescriptor(normDesc)
    (1, 1.0, 1.0, 1.0)"""
def destroyLRNDescriptor(lrnDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyLRNDescriptor(normDesc)
    >>> normDesc
    LRNDescriptor(destroyed)"""
def LRNCrossChannelForward(handle: Any, normDesc: Any, lrnMode: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * x * s^-lrnBeta + beta * y, with s = lrnK + lrnAlpha / lrnN * the sum of x^2 over a window
    of lrnN channels.

    >>> cudnn.LRNCrossChannelForward(handle, normDesc, cudnn.CUDNN_LRN_CROSS_CHANNEL_DIM1, 1.0, xDesc, x,
    ...                              0.0, xDesc, y)
    >>> y.round(3).astype(float).round(3).tolist()
    [0.0, 0.5, 0.3]"""
def lrnCrossChannelForward(handle: Any, normDesc: Any, lrnMode: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * x * s^-lrnBeta + beta * y, with s = lrnK + lrnAlpha / lrnN * the sum of x^2 over a window
    of lrnN channels.

    >>> cudnn.LRNCrossChannelForward(handle, normDesc, cudnn.CUDNN_LRN_CROSS_CHANNEL_DIM1, 1.0, xDesc, x,
    ...                              0.0, xDesc, y)
    >>> y.round(3).astype(float).round(3).tolist()
    [0.0, 0.5, 0.3]"""
def LRNCrossChannelBackward(handle: Any, normDesc: Any, lrnMode: Any, alpha: Any, yDesc: Any, y: Any, dyDesc: Any, dy: Any, xDesc: Any, x: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """dx = alpha * gradient + beta * dx, from x and dy; y must be given and is not read.
    Mind the order: y, dy, x, dx.

    >>> dy = np.ones(3, np.float32)
    >>> cudnn.LRNCrossChannelBackward(handle, normDesc, cudnn.CUDNN_LRN_CROSS_CHANNEL_DIM1, 1.0, xDesc, y,
    ...                               xDesc, dy, xDesc, x, 0.0, xDesc, dx)
    >>> dx.astype(float).round(3).tolist()
    [1.0, 0.0, -0.08]"""
def lrnCrossChannelBackward(handle: Any, normDesc: Any, lrnMode: Any, alpha: Any, yDesc: Any, y: Any, dyDesc: Any, dy: Any, xDesc: Any, x: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """dx = alpha * gradient + beta * dx, from x and dy; y must be given and is not read.
    Mind the order: y, dy, x, dx.

    >>> dy = np.ones(3, np.float32)
    >>> cudnn.LRNCrossChannelBackward(handle, normDesc, cudnn.CUDNN_LRN_CROSS_CHANNEL_DIM1, 1.0, xDesc, y,
    ...                               xDesc, dy, xDesc, x, 0.0, xDesc, dx)
    >>> dx.astype(float).round(3).tolist()
    [1.0, 0.0, -0.08]"""
def divisiveNormalizationForward(handle: Any, normDesc: Any, mode: Any, alpha: Any, xDesc: Any, x: Any, means: Any, temp: Any, temp2: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * x * s^-lrnBeta + beta * y, with s = lrnK + lrnAlpha / lrnN^d * the sum of (x - means)^2
    over the lrnN^d cells around an element; means may be NULL (zeros). y may be x with an equal descriptor.

    >>> cudnn.divisiveNormalizationForward(handle, normDesc, mode, 1.0, xDesc, x, None, temp, temp2, 0.0,
    ...                                    xDesc, y)
    >>> y.astype(float).round(3).tolist()
    [0.0, 0.5, 0.3]"""
def divisiveNormalizationBackward(handle: Any, normDesc: Any, mode: Any, alpha: Any, xDesc: Any, x: Any, means: Any, dy: Any, temp: Any, temp2: Any, beta: Any, dxDesc: Any, dx: Any, dMeans: Any) -> Any:
    """dx = alpha * gradient of x + beta * dx, dMeans alike of means; means and dMeans may be NULL. xDesc is
    of x, means and dy, dxDesc of dx and dMeans.

    >>> dy = np.ones(3, np.float32)
    >>> cudnn.divisiveNormalizationBackward(handle, normDesc, mode, 1.0, xDesc, x, None, dy, temp, temp2, 0.0,
    ...                                     xDesc, dx, dMeans)
    >>> dx.astype(float).round(3).tolist(), dMeans.astype(float).round(3).tolist()
    ([1.0, 0.0, -0.08], [0.0, 0.5, 0.18])"""
def createDropoutDescriptor() -> Any:
    """A dropout descriptor that is not set yet.

    >>> cudnn.createDropoutDescriptor()
    DropoutDescriptor(not set)"""
def destroyDropoutDescriptor(dropoutDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyDropoutDescriptor(dropoutDesc)
    >>> dropoutDesc
    DropoutDescriptor(destroyed)"""
def dropoutGetStatesSize(handle: Any) -> Any:
    """Bytes of a generator's states.

    >>> cudnn.dropoutGetStatesSize(handle) == states.nbytes
    True"""
def dropoutGetReserveSpaceSize(xDesc: Any) -> Any:
    """Bytes of the mask that dropoutForward writes: one bit an element.

    >>> cudnn.dropoutGetReserveSpaceSize(xDesc) == reserve.nbytes
    True"""
def getDropoutReserveSpaceSize(xDesc: Any) -> Any:
    """Bytes of the mask that dropoutForward writes: one bit an element.

    >>> cudnn.dropoutGetReserveSpaceSize(xDesc) == reserve.nbytes
    True"""
def setDropoutDescriptor(dropoutDesc: Any, handle: Any, dropout: Any, states: Any, stateSizeInBytes: Any, seed: Any) -> Any:
    """``dropout`` is the probability that an element is dropped. ``states``: device memory that a launch on
    the handle's stream fills from ``seed`` (64 bits); NULL changes the probability alone, and states that
    were set stay.

    >>> cudnn.setDropoutDescriptor(dropoutDesc, handle, 0.25, states, states.nbytes, 1234)
    >>> dropoutDesc
    DropoutDescriptor(p=0.25)"""
def dropoutForward(handle: Any, dropoutDesc: Any, xDesc: Any, x: Any, yDesc: Any, y: Any, reserveSpace: Any, reserveSpaceSizeInBytes: Any) -> Any:
    """y = x / (1 - dropout) where a random bit keeps an element, else 0; the mask goes to ``reserveSpace``,
    the states move on. x may be y with equal strides.

    >>> cudnn.dropoutForward(handle, dropoutDesc, xDesc, x, xDesc, y, reserve, reserve.nbytes)
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]"""
def dropoutBackward(handle: Any, dropoutDesc: Any, dyDesc: Any, dy: Any, dxDesc: Any, dx: Any, reserveSpace: Any, reserveSpaceSizeInBytes: Any) -> Any:
    """dx = dy / (1 - dropout) where the forward pass kept an element, else 0. dx may be dy with equal
    strides. Mind the order: dy, dx, then the reserve.

    >>> cudnn.dropoutForward(handle, dropoutDesc, xDesc, x, xDesc, y, reserve, reserve.nbytes)
    >>> dy, dx = np.ones(512, np.float32), np.zeros(512, np.float32)
    >>> cudnn.dropoutBackward(handle, dropoutDesc, xDesc, dy, xDesc, dx, reserve, reserve.nbytes)
    >>> bool((dx == y).all())
    True"""
def im2Col(handle: Any, xDesc: Any, x: Any, wDesc: Any, convDesc: Any, colBuffer: Any) -> Any:
    """colBuffer, in the type of x, becomes a matrix of c * r * s rows and n * p * q columns, row by row: the
    pixels under every tap of the filter, 0 in the padding. Filters (NCHW) as a matrix of k rows times it are
    the convolution; with CUDNN_CONVOLUTION the taps are flipped.

    >>> cudnn.im2Col(handle, xDesc, x, wDesc, convDesc, columns)
    >>> columns.tolist()
    [[0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0], [3.0, 4.0, 6.0, 7.0], [4.0, 5.0, 7.0, 8.0]]"""
def createPoolingDescriptor() -> Any:
    """A pooling descriptor that is not set yet.

    >>> cudnn.createPoolingDescriptor()
    PoolingDescriptor(not set)"""
def setPooling2dDescriptor(poolingDesc: Any, mode: Any, maxpoolingNanOpt: Any, windowHeight: Any, windowWidth: Any, verticalPadding: Any, horizontalPadding: Any, verticalStride: Any, horizontalStride: Any) -> Any:
    """Two spatial dims.

    >>> cudnn.setPooling2dDescriptor(poolingDesc, cudnn.CUDNN_POOLING_MAX, cudnn.CUDNN_PROPAGATE_NAN,
    ...                              3, 2, 1, 0, 2, 1)
    >>> poolingDesc
    PoolingDescriptor(mode=max window=3,2 pad1,0 stride2,1 nan=propagate)"""
def setPooling2dDescriptor_v4(poolingDesc: Any, mode: Any, maxpoolingNanOpt: Any, windowHeight: Any, windowWidth: Any, verticalPadding: Any, horizontalPadding: Any, verticalStride: Any, horizontalStride: Any) -> Any:
    """Two spatial dims.

    >>> cudnn.setPooling2dDescriptor(poolingDesc, cudnn.CUDNN_POOLING_MAX, cudnn.CUDNN_PROPAGATE_NAN,
    ...                              3, 2, 1, 0, 2, 1)
    >>> poolingDesc
    PoolingDescriptor(mode=max window=3,2 pad1,0 stride2,1 nan=propagate)"""
def getPooling2dDescriptor(poolingDesc: Any) -> Any:
    """(mode, maxpoolingNanOpt, windowHeight, windowWidth, verticalPadding, horizontalPadding,
    verticalStride, horizontalStride)

    >>> cudnn.getPooling2dDescriptor(poolingDesc)
    (0, 0, 2, 2, 0, 0, 2, 2)"""
def getPooling2dDescriptor_v4(poolingDesc: Any) -> Any:
    """(mode, maxpoolingNanOpt, windowHeight, windowWidth, verticalPadding, horizontalPadding,
    verticalStride, horizontalStride)

    >>> cudnn.getPooling2dDescriptor(poolingDesc)
    (0, 0, 2, 2, 0, 0, 2, 2)"""
def setPoolingNdDescriptor(poolingDesc: Any, mode: Any, maxpoolingNanOpt: Any, nbDims: Any, windowDimA: Any, paddingA: Any, strideA: Any) -> Any:
    """``nbDims`` spatial dims (2 or 3 are usable).

    >>> cudnn.setPoolingNdDescriptor(poolingDesc, cudnn.CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
    ...                              cudnn.CUDNN_NOT_PROPAGATE_NAN, 3, (2, 2, 2), (0, 0, 0), (2, 2, 2))
    >>> poolingDesc
    PoolingDescriptor(mode=avg_exclude_padding window=2,2,2 pad0,0,0 stride2,2,2 nan=ignore)"""
def setPoolingNdDescriptor_v4(poolingDesc: Any, mode: Any, maxpoolingNanOpt: Any, nbDims: Any, windowDimA: Any, paddingA: Any, strideA: Any) -> Any:
    """``nbDims`` spatial dims (2 or 3 are usable).

    >>> cudnn.setPoolingNdDescriptor(poolingDesc, cudnn.CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
    ...                              cudnn.CUDNN_NOT_PROPAGATE_NAN, 3, (2, 2, 2), (0, 0, 0), (2, 2, 2))
    >>> poolingDesc
    PoolingDescriptor(mode=avg_exclude_padding window=2,2,2 pad0,0,0 stride2,2,2 nan=ignore)"""
def getPoolingNdDescriptor(poolingDesc: Any, nbDimsRequested: Any) -> Any:
    """(mode, maxpoolingNanOpt, nbDims, windowDimA, paddingA, strideA); arrays have
    min(nbDimsRequested, nbDims) entries.

    >>> cudnn.getPoolingNdDescriptor(poolingDesc, 8)
    (0, 0, 2, (2, 2), (0, 0), (2, 2))"""
def getPoolingNdDescriptor_v4(poolingDesc: Any, nbDimsRequested: Any) -> Any:
    """(mode, maxpoolingNanOpt, nbDims, windowDimA, paddingA, strideA); arrays have
    min(nbDimsRequested, nbDims) entries.

    >>> cudnn.getPoolingNdDescriptor(poolingDesc, 8)
    (0, 0, 2, (2, 2), (0, 0), (2, 2))"""
def setPooling2dDescriptor_v3(poolingDesc: Any, mode: Any, windowHeight: Any, windowWidth: Any, verticalPadding: Any, horizontalPadding: Any, verticalStride: Any, horizontalStride: Any) -> Any:
    """Deprecated: NaN is not propagated.

    >>> cudnn.setPooling2dDescriptor_v3(poolingDesc, cudnn.CUDNN_POOLING_MAX, 3, 3, 0, 0, 1, 1)
    >>> poolingDesc
    PoolingDescriptor(mode=max window=3,3 pad0,0 stride1,1 nan=ignore)"""
def getPooling2dDescriptor_v3(poolingDesc: Any) -> Any:
    """Deprecated: (mode, windowHeight, windowWidth, verticalPadding, horizontalPadding,
    verticalStride, horizontalStride)

    >>> cudnn.getPooling2dDescriptor_v3(poolingDesc)
    (0, 2, 2, 0, 0, 2, 2)"""
def setPoolingNdDescriptor_v3(poolingDesc: Any, mode: Any, nbDims: Any, windowDimA: Any, paddingA: Any, strideA: Any) -> Any:
    """Deprecated: NaN is not propagated.

    >>> cudnn.setPoolingNdDescriptor_v3(poolingDesc, cudnn.CUDNN_POOLING_MAX, 2, (3, 3), (0, 0), (1, 1))
    >>> poolingDesc
    PoolingDescriptor(mode=max window=3,3 pad0,0 stride1,1 nan=ignore)"""
def getPoolingNdDescriptor_v3(poolingDesc: Any, nbDimsRequested: Any) -> Any:
    """Deprecated: (mode, nbDims, windowDimA, paddingA, strideA)

    >>> cudnn.getPoolingNdDescriptor_v3(poolingDesc, 1)
    (0, 2, (2,), (0,), (2,))"""
def destroyPoolingDescriptor(poolingDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyPoolingDescriptor(poolingDesc)
    >>> poolingDesc
    PoolingDescriptor(destroyed)"""
def getPooling2dForwardOutputDim(poolingDesc: Any, inputDesc: Any) -> Any:
    """(n, c, h, w) of the output.

    >>> cudnn.getPooling2dForwardOutputDim(poolingDesc, xDesc)
    (1, 1, 2, 2)"""
def getPoolingNdForwardOutputDim(poolingDesc: Any, inputDesc: Any, nbDims: Any) -> Any:
    """All ``nbDims`` dims of the output; nbDims is the rank of the tensor.

    >>> cudnn.getPoolingNdForwardOutputDim(poolingDesc, xDesc, 4)
    (1, 1, 2, 2)"""
def poolingForward(handle: Any, poolingDesc: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * pooled(x) + beta * y.

    >>> cudnn.poolingForward(handle, poolingDesc, 1.0, xDesc, x, 0.0, yDesc, y)
    >>> y.tolist()
    [5.0, 7.0, 13.0, 15.0]"""
def poolingBackward(handle: Any, poolingDesc: Any, alpha: Any, yDesc: Any, y: Any, dyDesc: Any, dy: Any, xDesc: Any, x: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """dx = alpha * gradient + beta * dx; a maximum gives its dy to the first largest cell of x.
    Mind the order: y, dy, x, dx.

    >>> cudnn.poolingForward(handle, poolingDesc, 1.0, xDesc, x, 0.0, yDesc, y)
    >>> dy, dx = np.array([1, 2, 3, 4], np.float32), np.empty_like(x)
    >>> cudnn.poolingBackward(handle, poolingDesc, 1.0, yDesc, y, yDesc, dy, xDesc, x, 0.0, xDesc, dx)
    >>> dx.reshape(4, 4).sum(axis=1).tolist()
    [0.0, 3.0, 0.0, 7.0]"""
def createRNNDescriptor() -> Any:
    """A recurrent network descriptor that is not set yet.

    >>> cudnn.createRNNDescriptor()
    RNNDescriptor(not set)"""
def destroyRNNDescriptor(rnnDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyRNNDescriptor(rnnDesc)
    >>> rnnDesc
    RNNDescriptor(destroyed)"""
def setRNNDescriptor(rnnDesc: Any, hiddenSize: Any, numLayers: Any, dropoutDesc: Any, inputMode: Any, direction: Any, mode: Any, dataType: Any) -> Any:
    """``dropoutDesc`` acts between layers, in training; it is not copied. ``dataType``: what is computed in;
    the storage types are those of tensors and weights.

    >>> cudnn.setRNNDescriptor(rnnDesc, 8, 2, dropoutDesc, cudnn.CUDNN_LINEAR_INPUT,
    ...                        cudnn.CUDNN_BIDIRECTIONAL, cudnn.CUDNN_LSTM, cudnn.CUDNN_DATA_FLOAT)
    >>> rnnDesc
    RNNDescriptor(lstm hidden=8 layers=2 bidirectional acc=f32)"""
def setRNNDescriptor_v5(rnnDesc: Any, hiddenSize: Any, numLayers: Any, dropoutDesc: Any, inputMode: Any, direction: Any, mode: Any, dataType: Any) -> Any:
    """``dropoutDesc`` acts between layers, in training; it is not copied. ``dataType``: what is computed in;
    the storage types are those of tensors and weights.

    >>> cudnn.setRNNDescriptor(rnnDesc, 8, 2, dropoutDesc, cudnn.CUDNN_LINEAR_INPUT,
    ...                        cudnn.CUDNN_BIDIRECTIONAL, cudnn.CUDNN_LSTM, cudnn.CUDNN_DATA_FLOAT)
    >>> rnnDesc
    RNNDescriptor(lstm hidden=8 layers=2 bidirectional acc=f32)"""
def getRNNWorkspaceSize(handle: Any, rnnDesc: Any, seqLength: Any, xDesc: Any) -> Any:
    """Bytes of workspace that every pass over such sequences can do with, inference too. ``xDesc``: a tensor
    descriptor for each step.

    >>> cudnn.getRNNWorkspaceSize(handle, rnnDesc, 3, steps) >= 0
    True"""
def getRNNTrainingReserveSize(handle: Any, rnnDesc: Any, seqLength: Any, xDesc: Any) -> Any:
    """Bytes of reserve that training needs between its passes. With dropout between layers it is more: ask
    after the dropout descriptor was set.

    >>> cudnn.getRNNTrainingReserveSize(handle, rnnDesc, 3, steps) > 0
    True"""
def getRNNParamsSize(handle: Any, rnnDesc: Any, xDesc: Any, dataType: Any) -> Any:
    """Bytes of all weights and biases. ``xDesc`` is that of one step.

    >>> cudnn.getRNNParamsSize(handle, rnnDesc, step, cudnn.CUDNN_DATA_FLOAT) >= 4 * (2 * 2 + 2 * 2 + 2 + 2)
    True"""
def getRNNLinLayerMatrixParams(handle: Any, rnnDesc: Any, layer: Any, xDesc: Any, wDesc: Any, w: Any, linLayerID: Any, linLayerMatDesc: Any) -> Any:
    """The address of one matrix inside w; sets linLayerMatDesc to (1, rows, columns). ``layer`` counts
    directions too. A matrix that does not exist, as layer 0 skips it: 0, with 0 columns.

    linLayerID: input side, then recurrent side; of LSTM i f c' o, of GRU r i h'.

    >>> found = cudnn.createFilterDescriptor()
    >>> address = cudnn.getRNNLinLayerMatrixParams(handle, rnnDesc, 0, step, wDesc, w, 1, found)
    >>> found, w.ctypes.data < address < w.ctypes.data + w.nbytes
    (FilterDescriptor(f32 k1c2s2 nchw), True)"""
def getRNNLinLayerBiasParams(handle: Any, rnnDesc: Any, layer: Any, xDesc: Any, wDesc: Any, w: Any, linLayerID: Any, linLayerBiasDesc: Any) -> Any:
    """The address of one bias inside w; sets linLayerBiasDesc to (1, hiddenSize, 1). Numbers as of
    the matrices.

    >>> found = cudnn.createFilterDescriptor()
    >>> address = cudnn.getRNNLinLayerBiasParams(handle, rnnDesc, 0, step, wDesc, w, 0, found)
    >>> found, w.ctypes.data < address < w.ctypes.data + w.nbytes
    (FilterDescriptor(f32 k1c2s1 nchw), True)"""
def RNNForwardInference(handle: Any, rnnDesc: Any, seqLength: Any, xDesc: Any, x: Any, hxDesc: Any, hx: Any, cxDesc: Any, cx: Any, wDesc: Any, w: Any, yDesc: Any, y: Any, hyDesc: Any, hy: Any, cyDesc: Any, cy: Any, workspace: Any, workSpaceSizeInBytes: Any) -> Any:
    """y of every step, and the last states. hx, cx, hy, cy may be NULL; cx and cy are of LSTM.

    >>> cudnn.RNNForwardInference(handle, rnnDesc, 3, steps, x, None, None, None, None, wDesc, w, steps, y,
    ...                           None, None, None, None, work, work.nbytes)
    >>> y[:, 0, 0].tolist()
    [4.0, 12.0, 28.0]"""
def RNNForwardTraining(handle: Any, rnnDesc: Any, seqLength: Any, xDesc: Any, x: Any, hxDesc: Any, hx: Any, cxDesc: Any, cx: Any, wDesc: Any, w: Any, yDesc: Any, y: Any, hyDesc: Any, hy: Any, cyDesc: Any, cy: Any, workspace: Any, workSpaceSizeInBytes: Any, reserveSpace: Any, reserveSpaceSizeInBytes: Any) -> Any:
    """The same with dropout between the layers; fills reserveSpace for the gradients.

    >>> cudnn.RNNForwardTraining(handle, rnnDesc, 3, steps, x, None, None, None, None, wDesc, w, steps, y,
    ...                          None, None, None, None, work, work.nbytes, reserve, reserve.nbytes)
    >>> y[:, 0, 0].tolist()
    [4.0, 12.0, 28.0]"""
def RNNBackwardData(handle: Any, rnnDesc: Any, seqLength: Any, yDesc: Any, y: Any, dyDesc: Any, dy: Any, dhyDesc: Any, dhy: Any, dcyDesc: Any, dcy: Any, wDesc: Any, w: Any, hxDesc: Any, hx: Any, cxDesc: Any, cx: Any, dxDesc: Any, dx: Any, dhxDesc: Any, dhx: Any, dcxDesc: Any, dcx: Any, workspace: Any, workSpaceSizeInBytes: Any, reserveSpace: Any, reserveSpaceSizeInBytes: Any) -> Any:
    """dx, and the gradients of the first states, of what RNNForwardTraining did; reads and updates its
    reserveSpace. All states may be NULL.

    >>> cudnn.RNNForwardTraining(handle, rnnDesc, 3, steps, x, None, None, None, None, wDesc, w, steps, y,
    ...                          None, None, None, None, work, work.nbytes, reserve, reserve.nbytes)
    >>> dy, dx, dw = np.ones_like(y), np.zeros_like(x), np.zeros_like(w)
    >>> cudnn.RNNBackwardData(handle, rnnDesc, 3, steps, y, steps, dy, None, None, None, None, wDesc, w,
    ...                       None, None, None, None, steps, dx, None, None, None, None, work, work.nbytes,
    ...                       reserve, reserve.nbytes)
    >>> dx[:, 0, 0].tolist()
    [14.0, 6.0, 2.0]"""
def RNNBackwardWeights(handle: Any, rnnDesc: Any, seqLength: Any, xDesc: Any, x: Any, hxDesc: Any, hx: Any, yDesc: Any, y: Any, workspace: Any, workSpaceSizeInBytes: Any, dwDesc: Any, dw: Any, reserveSpace: Any, reserveSpaceSizeInBytes: Any) -> Any:
    """dw = dw + the gradient of all weights; call it after RNNBackwardData, with its reserveSpace. Mind the
    order: the workspace before dw.

    >>> cudnn.RNNForwardTraining(handle, rnnDesc, 3, steps, x, None, None, None, None, wDesc, w, steps, y,
    ...                          None, None, None, None, work, work.nbytes, reserve, reserve.nbytes)
    >>> dy, dx, dw = np.ones_like(y), np.zeros_like(x), np.zeros_like(w)
    >>> cudnn.RNNBackwardData(handle, rnnDesc, 3, steps, y, steps, dy, None, None, None, None, wDesc, w,
    ...                       None, None, None, None, steps, dx, None, None, None, None, work, work.nbytes,
    ...                       reserve, reserve.nbytes)
    >>> cudnn.RNNBackwardWeights(handle, rnnDesc, 3, steps, x, None, None, steps, y, work, work.nbytes,
    ...                          wDesc, dw, reserve, reserve.nbytes)
    >>> float(dw.max())
    24.0"""
def softmaxForward(handle: Any, algorithm: Any, mode: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * softmax(x) + beta * y over the channels at each position, or over each image.
    x may be y with an equal descriptor.

    >>> cudnn.softmaxForward(handle, cudnn.CUDNN_SOFTMAX_ACCURATE, cudnn.CUDNN_SOFTMAX_MODE_CHANNEL,
    ...                      1.0, xDesc, x, 0.0, xDesc, y)
    >>> y.round(3).tolist()
    [[0.5, 0.5], [0.0, 1.0]]"""
def softmaxBackward(handle: Any, algorithm: Any, mode: Any, alpha: Any, yDesc: Any, y: Any, dyDesc: Any, dy: Any, beta: Any, dxDesc: Any, dx: Any) -> Any:
    """dx = alpha * gradient + beta * dx, from y exactly as passed. dx may be dy with an equal descriptor.

    >>> y, dy = np.full((2, 2), 0.5, np.float32), np.array([[1, 0], [1, 1]], np.float32)
    >>> cudnn.softmaxBackward(handle, cudnn.CUDNN_SOFTMAX_ACCURATE, cudnn.CUDNN_SOFTMAX_MODE_CHANNEL,
    ...                       1.0, xDesc, y, xDesc, dy, 0.0, xDesc, dx)
    >>> dx.tolist()
    [[0.25, -0.25], [0.0, 0.0]]"""
def createSpatialTransformerDescriptor() -> Any:
    """A spatial transformer descriptor that is not set yet.

    >>> cudnn.createSpatialTransformerDescriptor()
    SpatialTransformerDescriptor(not set)"""
def destroySpatialTransformerDescriptor(stDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroySpatialTransformerDescriptor(stDesc)
    >>> stDesc
    SpatialTransformerDescriptor(destroyed)"""
def setSpatialTransformerNdDescriptor(stDesc: Any, samplerType: Any, dataType: Any, nbDims: Any, dimA: Any) -> Any:
    """``dimA``: dims of the output, n, c, h, w. More than four are kept, and refused by the functions that
    compute.

    >>> cudnn.setSpatialTransformerNdDescriptor(stDesc, cudnn.CUDNN_SAMPLER_BILINEAR, cudnn.CUDNN_DATA_HALF,
    ...                                         4, (2, 3, 8, 8))
    >>> stDesc
    SpatialTransformerDescriptor(f16 n2c3h8w8 sampler=BILINEAR)"""
def setSpatialTransformerDescriptor(stDesc: Any, samplerType: Any, dataType: Any, nbDims: Any, dimA: Any) -> Any:
    """``dimA``: dims of the output, n, c, h, w. More than four are kept, and refused by the functions that
    compute.

    >>> cudnn.setSpatialTransformerNdDescriptor(stDesc, cudnn.CUDNN_SAMPLER_BILINEAR, cudnn.CUDNN_DATA_HALF,
    ...                                         4, (2, 3, 8, 8))
    >>> stDesc
    SpatialTransformerDescriptor(f16 n2c3h8w8 sampler=BILINEAR)"""
def spatialTfGridGeneratorForward(handle: Any, stDesc: Any, theta: Any, grid: Any) -> Any:
    """grid[n, i, j] = theta[n] @ (x, y, 1) with x and y from -1 to 1 over the output; x comes first.

    >>> cudnn.spatialTfGridGeneratorForward(handle, stDesc, turned, grid)
    >>> grid.tolist()
    [[[1.0, -1.0], [1.0, 1.0]], [[-1.0, -1.0], [-1.0, 1.0]]]"""
def spatialTfGridGeneratorBackward(handle: Any, stDesc: Any, dgrid: Any, dtheta: Any) -> Any:
    """dtheta, overwritten: the sum of dgrid * (x, y, 1) over all points. Always in one order.

    >>> dtheta = np.zeros((2, 3), np.float32)
    >>> cudnn.spatialTfGridGeneratorBackward(handle, stDesc, np.ones((2, 2, 2), np.float32), dtheta)
    >>> dtheta.tolist()
    [[0.0, 0.0, 4.0], [0.0, 0.0, 4.0]]"""
def spatialTfSamplerForward(handle: Any, stDesc: Any, alpha: Any, xDesc: Any, x: Any, grid: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * (x sampled bilinearly at grid) + beta * y; pixels outside of x are 0.

    >>> cudnn.spatialTfSamplerForward(handle, stDesc, 1.0, xDesc, x, grid, 0.0, yDesc, y)
    >>> y.tolist()
    [2.0, 8.0, 0.0, 6.0]"""
def spatialTfSamplerBackward(handle: Any, stDesc: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, dxDesc: Any, dx: Any, alphaDgrid: Any, dyDesc: Any, dy: Any, grid: Any, betaDgrid: Any, dgrid: Any) -> Any:
    """dx = alpha * gradient + beta * dx, dgrid = alphaDgrid * gradient + betaDgrid * dgrid; the same bits on
    every run. Mind the order.

    >>> dx, dy, dgrid = np.zeros(9, np.float32), np.ones(4, np.float32), np.zeros((2, 2, 2), np.float32)
    >>> cudnn.spatialTfSamplerBackward(handle, stDesc, 1.0, xDesc, x, 0.0, xDesc, dx, 1.0, yDesc, dy, grid,
    ...                                0.0, dgrid)
    >>> dx.tolist()
    [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]"""
def createOpTensorDescriptor() -> Any:
    """An op-tensor descriptor that is not set yet.

    >>> cudnn.createOpTensorDescriptor()
    OpTensorDescriptor(not set)"""
def setOpTensorDescriptor(opTensorDesc: Any, opTensorOp: Any, opTensorCompType: Any, opTensorNanOpt: Any) -> Any:
    """The operation, its math type, and what MIN and MAX do with NaN.

    >>> cudnn.setOpTensorDescriptor(opTensorDesc, cudnn.CUDNN_OP_TENSOR_MUL, cudnn.CUDNN_DATA_FLOAT,
    ...                             cudnn.CUDNN_NOT_PROPAGATE_NAN)
    >>> opTensorDesc
    OpTensorDescriptor(mode=mul nan=ignore acc=f32)"""
def getOpTensorDescriptor(opTensorDesc: Any) -> Any:
    """(opTensorOp, opTensorCompType, opTensorNanOpt)

    >>> cudnn.getOpTensorDescriptor(opTensorDesc)
    (3, 0, 1)"""
def destroyOpTensorDescriptor(opTensorDesc: Any) -> Any:
    """NULL is a no-op.

    >>> cudnn.destroyOpTensorDescriptor(opTensorDesc)
    >>> opTensorDesc
    OpTensorDescriptor(destroyed)"""
def transformTensor(handle: Any, alpha: Any, xDesc: Any, x: Any, beta: Any, yDesc: Any, y: Any) -> Any:
    """y = alpha * x + beta * y between two layouts of equal dims and type; never in place.

    >>> nhwcDesc, y = cudnn.createTensorDescriptor(), np.zeros(4, np.float32)
    >>> cudnn.setTensor4dDescriptor(nhwcDesc, cudnn.CUDNN_TENSOR_NHWC, cudnn.CUDNN_DATA_FLOAT, 1, 2, 1, 2)
    >>> cudnn.transformTensor(handle, 1.0, xDesc, x, 0.0, nhwcDesc, y)
    >>> y.tolist()
    [1.0, 3.0, 2.0, 4.0]"""
def addTensor(handle: Any, alpha: Any, aDesc: Any, A: Any, beta: Any, cDesc: Any, C: Any) -> Any:
    """C = alpha * A + beta * C; every dim of A equals C's or is 1.

    >>> cudnn.addTensor(handle, 1.0, biasDesc, bias, 1.0, xDesc, x)
    >>> x.tolist()
    [11.0, 12.0, 23.0, 24.0]"""
def addTensor_v3(handle: Any, alpha: Any, aDesc: Any, A: Any, beta: Any, cDesc: Any, C: Any) -> Any:
    """C = alpha * A + beta * C; every dim of A equals C's or is 1.

    >>> cudnn.addTensor(handle, 1.0, biasDesc, bias, 1.0, xDesc, x)
    >>> x.tolist()
    [11.0, 12.0, 23.0, 24.0]"""
def opTensor(handle: Any, opTensorDesc: Any, alpha1: Any, aDesc: Any, A: Any, alpha2: Any, bDesc: Any, B: Any, beta: Any, cDesc: Any, C: Any) -> Any:
    """C = op(alpha1 * A, alpha2 * B) + beta * C; A may be C, B may be C only if A is too;
    every dim of B equals C's or is 1.

    >>> y = np.zeros(4, np.float32)
    >>> cudnn.opTensor(handle, opTensorDesc, 5.0, xDesc, x, 1.0, biasDesc, bias, 0.0, xDesc, y)
    >>> y.tolist()
    [10.0, 10.0, 20.0, 20.0]"""
def setTensor(handle: Any, yDesc: Any, y: Any, value: Any) -> Any:
    """Every element of y becomes ``value``, a number, converted to y's type; gaps are not written.

    >>> cudnn.setTensor(handle, xDesc, x, 7)
    >>> x.tolist()
    [7.0, 7.0, 7.0, 7.0]"""
def scaleTensor(handle: Any, yDesc: Any, y: Any, alpha: Any) -> Any:
    """y = alpha * y; y is always read.

    >>> cudnn.scaleTensor(handle, xDesc, x, 0.5)
    >>> x.tolist()
    [0.5, 1.0, 1.5, 2.0]"""
CUDNN_STATUS_SUCCESS: int
CUDNN_STATUS_NOT_INITIALIZED: int
CUDNN_STATUS_ALLOC_FAILED: int
CUDNN_STATUS_BAD_PARAM: int
CUDNN_STATUS_INTERNAL_ERROR: int
CUDNN_STATUS_INVALID_VALUE: int
CUDNN_STATUS_ARCH_MISMATCH: int
CUDNN_STATUS_MAPPING_ERROR: int
CUDNN_STATUS_EXECUTION_FAILED: int
CUDNN_STATUS_NOT_SUPPORTED: int
CUDNN_STATUS_LICENSE_ERROR: int
CUDNN_DATA_FLOAT: int
CUDNN_DATA_DOUBLE: int
CUDNN_DATA_HALF: int
CUDNN_DATA_BFLOAT16: int
CUDNN_TENSOR_NCHW: int
CUDNN_TENSOR_NHWC: int
CUDNN_NOT_PROPAGATE_NAN: int
CUDNN_PROPAGATE_NAN: int
CUDNN_OP_TENSOR_ADD: int
CUDNN_OP_TENSOR_MUL: int
CUDNN_OP_TENSOR_MIN: int
CUDNN_OP_TENSOR_MAX: int
CUDNN_CONVOLUTION: int
CUDNN_CROSS_CORRELATION: int
CUDNN_CONVOLUTION_FWD_NO_WORKSPACE: int
CUDNN_CONVOLUTION_FWD_PREFER_FASTEST: int
CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT: int
CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE: int
CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST: int
CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT: int
CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE: int
CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST: int
CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT: int
CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM: int
CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM: int
CUDNN_CONVOLUTION_FWD_ALGO_GEMM: int
CUDNN_CONVOLUTION_FWD_ALGO_DIRECT: int
CUDNN_CONVOLUTION_FWD_ALGO_FFT: int
CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING: int
CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD: int
CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0: int
CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1: int
CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT: int
CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3: int
CUDNN_CONVOLUTION_BWD_DATA_ALGO_0: int
CUDNN_CONVOLUTION_BWD_DATA_ALGO_1: int
CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT: int
CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING: int
CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD: int
CUDNN_SOFTMAX_FAST: int
CUDNN_SOFTMAX_ACCURATE: int
CUDNN_SOFTMAX_LOG: int
CUDNN_SOFTMAX_MODE_INSTANCE: int
CUDNN_SOFTMAX_MODE_CHANNEL: int
CUDNN_POOLING_MAX: int
CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING: int
CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING: int
CUDNN_POOLING_AVERAGE: int
CUDNN_ACTIVATION_SIGMOID: int
CUDNN_ACTIVATION_RELU: int
CUDNN_ACTIVATION_TANH: int
CUDNN_ACTIVATION_CLIPPED_RELU: int
CUDNN_BATCHNORM_PER_ACTIVATION: int
CUDNN_BATCHNORM_SPATIAL: int
CUDNN_LRN_CROSS_CHANNEL_DIM1: int
CUDNN_DIVNORM_PRECOMPUTED_MEANS: int
CUDNN_RNN_RELU: int
CUDNN_RNN_TANH: int
CUDNN_LSTM: int
CUDNN_GRU: int
CUDNN_UNIDIRECTIONAL: int
CUDNN_BIDIRECTIONAL: int
CUDNN_LINEAR_INPUT: int
CUDNN_SKIP_INPUT: int
CUDNN_SAMPLER_BILINEAR: int
CUDNN_VERSION: int
CUDNN_MAJOR: int
CUDNN_MINOR: int
CUDNN_PATCHLEVEL: int
CUDNN_DIM_MAX: int
CUDNN_BN_MIN_EPSILON: float
CUDNN_LRN_MIN_N: int
CUDNN_LRN_MAX_N: int
CUDNN_LRN_MIN_K: float
CUDNN_LRN_MIN_BETA: float

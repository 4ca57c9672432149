"""Engines: how it is computed. One row an engine, in order of preference at equal cost; index ranges by family."""
from __future__ import annotations

from ..steps import Launch, Memset, Pointer, ReferenceCall, Scalar, Scratch
from .conv.bgrad import ConvBgradSum
from .conv.depthwise import ConvDgradDepthwise, ConvFpropDepthwise, ConvWgradDepthwise
from .conv.dgrad_mma import ConvDgradMma
from .conv.dgrad_simt import ConvDgradSimt
from .conv.fprop_mma import ConvFpropMma
from .conv.fprop_simt import ConvFpropSimt
from .conv.repack import ConvDgradMmaRepack, ConvFpropMmaRepack
from .conv.wgrad_mma import ConvWgradMma, ConvWgradMmaRepack
from .conv.wgrad_simt import ConvWgradSimt
from .engine import Engine, Match
from .layout.add_tensor import AddTensorStrided, AddTensorVector
from .layout.copy import TransformStrided, TransformVector
from .layout.op_tensor import OpTensorStrided, OpTensorVector
from .layout.scale_tensor import ScaleTensorStrided, ScaleTensorVector
from .layout.set_tensor import SetTensorFill
from .layout.transpose import TransformTranspose
from .matmul.mma import MatmulMma
from .matmul.simt import MatmulSimt
from .norm.batch_norm_cluster import BatchNormTrainingCluster
from .norm.batch_norm_columns import BatchNormBwdColumns, BatchNormInferenceColumns, BatchNormTrainingColumns
from .norm.batch_norm_resident import BatchNormBwdResident, BatchNormTrainingResident
from .norm.batch_norm_rows import BatchNormBwdRows, BatchNormInferenceRows, BatchNormTrainingRows
from .norm.batch_norm_strided import BatchNormBwdStrided, BatchNormInferenceStrided, BatchNormTrainingStrided
from .pointwise.strided import PointwiseStrided
from .pointwise.vector import PointwiseVector
from .pool import nchw, nhwc
from .pool.strided import PoolingBwdStrided, PoolingFwdStrided
from .reduction.columns import ReductionColumns
from .reduction.rows import ReductionGeneric, ReductionRows
from .reference import Reference
from .softmax.block import SoftmaxBwdBlock, SoftmaxFwdBlock
from .softmax.cluster import SoftmaxBwdCluster, SoftmaxFwdCluster
from .softmax.generic import SoftmaxBwdGeneric, SoftmaxFwdGeneric
from .softmax.split import SoftmaxBwdSplit, SoftmaxFwdSplit
from .softmax.strided import SoftmaxBwdStrided, SoftmaxFwdStrided
from .softmax.warp import SoftmaxBwdWarp, SoftmaxFwdWarp

REFERENCE = Reference()
TABLE: tuple[Engine, ...] = tuple(engine() for engine in (
    # convolution: forward 100 to 119, data gradient 120 to 139, weight gradient 140 to 159, bias gradient 160
    ConvFpropDepthwise, ConvFpropMma, ConvFpropSimt, ConvFpropMmaRepack,
    ConvDgradDepthwise, ConvDgradMma, ConvDgradSimt, ConvDgradMmaRepack,
    ConvWgradDepthwise, ConvWgradMma, ConvWgradMmaRepack, ConvWgradSimt,
    ConvBgradSum,
    # matmul: 180 to 199
    MatmulMma, MatmulSimt,
    # softmax: 210 to 229
    SoftmaxFwdBlock, SoftmaxFwdCluster, SoftmaxFwdGeneric, SoftmaxFwdSplit, SoftmaxFwdStrided, SoftmaxFwdWarp,
    SoftmaxBwdBlock, SoftmaxBwdCluster, SoftmaxBwdGeneric, SoftmaxBwdSplit, SoftmaxBwdStrided, SoftmaxBwdWarp,
    # pooling: 230 to 249
    nchw.PoolingFwdWhole, nchw.PoolingFwdNchwWide, nchw.PoolingFwdNchwStrip,
    nchw.PoolingBwdWhole, nchw.PoolingBwdAvgNchw, nchw.PoolingBwdMaxPlane,
    nhwc.PoolingFwdNhwcStrip, nhwc.PoolingFwdNhwcTeam, nhwc.PoolingFwdNhwc, nhwc.PoolingBwdAvgNhwcApart,
    nhwc.PoolingBwdAvgNhwc, nhwc.PoolingBwdMaxNhwcStrip, nhwc.PoolingBwdMaxNhwc,
    PoolingFwdStrided, PoolingBwdStrided,
    # batch norm: 250 to 269
    BatchNormTrainingCluster, BatchNormTrainingColumns, BatchNormTrainingResident, BatchNormTrainingRows,
    BatchNormTrainingStrided, BatchNormInferenceColumns, BatchNormInferenceRows, BatchNormInferenceStrided,
    BatchNormBwdColumns, BatchNormBwdResident, BatchNormBwdRows, BatchNormBwdStrided,
    # pointwise: 270 to 279
    PointwiseStrided, PointwiseVector,
    # reduction: 280 to 289
    ReductionColumns, ReductionRows, ReductionGeneric,
    # tensor operations: 290 to 299
    TransformVector, TransformStrided, TransformTranspose, AddTensorVector, AddTensorStrided,
    OpTensorVector, OpTensorStrided, ScaleTensorVector, ScaleTensorStrided, SetTensorFill,
))
BY_INDEX = {e.index: e for e in (REFERENCE, *TABLE)}


def engines_for(op) -> tuple[Engine, ...]:
    """Every engine for an op class, in table order, the reference last."""
    op = op if isinstance(op, type) else type(op)
    return (*(e for e in TABLE if e.op is op), REFERENCE)

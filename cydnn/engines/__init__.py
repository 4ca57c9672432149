"""Engines: how it is computed. One row an engine, in order of preference at equal cost;
index ranges by family."""
from __future__ import annotations

from functools import lru_cache

from .attention.sdpa_fwd_any import SdpaFwdAny
from .composite import Composite
from .conv.dgrad_any import ConvDgradAny
from .conv.dgrad_depthwise import ConvDgradDepthwise
from .conv.dgrad_few import ConvDgradFew
from .conv.dgrad_fft import ConvDgradFft
from .conv.dgrad_fft_tiling import ConvDgradFftTiling
from .conv.dgrad_halo import ConvDgradHalo
from .conv.dgrad_mma import ConvDgradMma
from .conv.dgrad_mma_repack import ConvDgradMmaRepack
from .conv.dgrad_scatter import ConvDgradScatter
from .conv.dgrad_simt import ConvDgradSimt
from .conv.dgrad_wgmma import ConvDgradWgmma
from .conv.dgrad_winograd2 import ConvDgradWinograd2
from .conv.dgrad_winograd4 import ConvDgradWinograd4
from .conv.fprop_any import ConvFpropAny
from .conv.fprop_depthwise import ConvFpropDepthwise
from .conv.fprop_fft import ConvFpropFft
from .conv.fprop_fft_tiling import ConvFpropFftTiling
from .conv.fprop_first import ConvFpropFirst
from .conv.fprop_gemm import ConvFpropGemm
from .conv.fprop_gemm_mma import ConvFpropGemmMma
from .conv.fprop_halo import ConvFpropHalo
from .conv.fprop_indexed import ConvFpropIndexed
from .conv.fprop_mma import ConvFpropMma
from .conv.fprop_mma_repack import ConvFpropMmaRepack
from .conv.fprop_simt import ConvFpropSimt
from .conv.fprop_wgmma import ConvFpropWgmma
from .conv.fprop_winograd2 import ConvFpropWinograd2
from .conv.fprop_winograd4 import ConvFpropWinograd4
from .conv.wgrad_any import ConvWgradAny
from .conv.wgrad_atomic import ConvWgradAtomic
from .conv.wgrad_depthwise import ConvWgradDepthwise
from .conv.wgrad_fft import ConvWgradFft
from .conv.wgrad_first import ConvWgradFirst
from .conv.wgrad_halo import ConvWgradHalo
from .conv.wgrad_indexed import ConvWgradIndexed
from .conv.wgrad_mma import ConvWgradMma
from .conv.wgrad_mma_repack import ConvWgradMmaRepack
from .conv.wgrad_simt import ConvWgradSimt
from .conv.wgrad_wgmma import ConvWgradWgmma
from .divisive_norm.bwd_channels import DivisiveNormBwdChannels
from .divisive_norm.bwd_planes import DivisiveNormBwdPlanes
from .divisive_norm.bwd_strided import DivisiveNormBwdStrided
from .divisive_norm.fwd_channels import DivisiveNormFwdChannels
from .divisive_norm.fwd_planes import DivisiveNormFwdPlanes
from .divisive_norm.fwd_strided import DivisiveNormFwdStrided
from .dropout.bwd_any import DropoutBwdAny
from .dropout.bwd_nhwc import DropoutBwdNhwc
from .dropout.bwd_vector import DropoutBwdVector
from .dropout.factors_vector import DropoutFactorsVector
from .dropout.fwd_any import DropoutFwdAny
from .dropout.fwd_nhwc import DropoutFwdNhwc
from .dropout.fwd_vector import DropoutFwdVector
from .dropout.states_set import DropoutStatesSet
from .engine import PLAIN, Config, Engine, Knob
from .im2col.any import Im2colAny
from .layout.add_tensor_any import AddTensorAny
from .layout.add_tensor_vector import AddTensorVector
from .layout.op_tensor_any import OpTensorAny
from .layout.op_tensor_vector import OpTensorVector
from .layout.scale_tensor_any import ScaleTensorAny
from .layout.scale_tensor_vector import ScaleTensorVector
from .layout.set_tensor_fill import SetTensorFill
from .layout.transform_any import TransformAny
from .layout.transform_tma import TransformTma
from .layout.transform_transpose import TransformTranspose
from .layout.transform_vector import TransformVector
from .lrn.bwd_channels import LrnBwdChannels
from .lrn.bwd_strided import LrnBwdStrided
from .lrn.fwd_channels import LrnFwdChannels
from .lrn.fwd_strided import LrnFwdStrided
from .matmul.any import MatmulAny
from .matmul.mma import MatmulMma
from .matmul.simt import MatmulSimt
from .matmul.small import MatmulSmall
from .matmul.thin import MatmulThin
from .matmul.wgmma import MatmulWgmma
from .matmul.wgmma_repack import MatmulWgmmaRepack
from .matmul.wgmma_unaligned import MatmulWgmmaUnaligned
from .norm.batch_norm_bwd_columns import BatchNormBwdColumns
from .norm.batch_norm_bwd_grid import BatchNormBwdGrid
from .norm.batch_norm_bwd_resident import BatchNormBwdResident
from .norm.batch_norm_bwd_ring import BatchNormBwdRing
from .norm.batch_norm_bwd_rows import BatchNormBwdRows
from .norm.batch_norm_bwd_strided import BatchNormBwdStrided
from .norm.batch_norm_inference_columns import BatchNormInferenceColumns
from .norm.batch_norm_inference_rows import BatchNormInferenceRows
from .norm.batch_norm_inference_strided import BatchNormInferenceStrided
from .norm.batch_norm_training_cluster import BatchNormTrainingCluster
from .norm.batch_norm_training_columns import BatchNormTrainingColumns
from .norm.batch_norm_training_grid import BatchNormTrainingGrid
from .norm.batch_norm_training_resident import BatchNormTrainingResident
from .norm.batch_norm_training_ring import BatchNormTrainingRing
from .norm.batch_norm_training_rows import BatchNormTrainingRows
from .norm.batch_norm_training_strided import BatchNormTrainingStrided
from .pointwise.any import PointwiseAny
from .pointwise.vector import PointwiseVector
from .pool.bwd_avg_nchw import PoolingBwdAvgNchw
from .pool.bwd_avg_nhwc import PoolingBwdAvgNhwc
from .pool.bwd_avg_nhwc_apart import PoolingBwdAvgNhwcApart
from .pool.bwd_max_nhwc import PoolingBwdMaxNhwc
from .pool.bwd_max_nhwc_strip import PoolingBwdMaxNhwcStrip
from .pool.bwd_max_plane import PoolingBwdMaxPlane
from .pool.bwd_strided import PoolingBwdStrided
from .pool.bwd_whole import PoolingBwdWhole
from .pool.fwd_nchw_strip import PoolingFwdNchwStrip
from .pool.fwd_nchw_wide import PoolingFwdNchwWide
from .pool.fwd_nhwc import PoolingFwdNhwc
from .pool.fwd_nhwc_strip import PoolingFwdNhwcStrip
from .pool.fwd_nhwc_team import PoolingFwdNhwcTeam
from .pool.fwd_strided import PoolingFwdStrided
from .pool.fwd_whole import PoolingFwdWhole
from .reduction.any import ReductionAny
from .reduction.columns import ReductionColumns
from .reduction.generic import ReductionGeneric
from .reduction.rows import ReductionRows
from .reference import Reference
from .rnn.bwd_data_persist import RnnBwdDataPersist
from .rnn.bwd_data_plain import RnnBwdDataPlain
from .rnn.bwd_weights_products import RnnBwdWeightsProducts
from .rnn.fwd_cluster import RnnFwdCluster
from .rnn.fwd_persist import RnnFwdPersist
from .rnn.fwd_plain import RnnFwdPlain
from .rnn.fwd_wave import RnnFwdWave
from .softmax.bwd_block import SoftmaxBwdBlock
from .softmax.bwd_cluster import SoftmaxBwdCluster
from .softmax.bwd_columns import SoftmaxBwdColumns
from .softmax.bwd_generic import SoftmaxBwdGeneric
from .softmax.bwd_grid import SoftmaxBwdGrid
from .softmax.bwd_packed import SoftmaxBwdPacked
from .softmax.bwd_split import SoftmaxBwdSplit
from .softmax.bwd_strided import SoftmaxBwdStrided
from .softmax.bwd_warp import SoftmaxBwdWarp
from .softmax.fwd_block import SoftmaxFwdBlock
from .softmax.fwd_cluster import SoftmaxFwdCluster
from .softmax.fwd_columns import SoftmaxFwdColumns
from .softmax.fwd_generic import SoftmaxFwdGeneric
from .softmax.fwd_grid import SoftmaxFwdGrid
from .softmax.fwd_packed import SoftmaxFwdPacked
from .softmax.fwd_split import SoftmaxFwdSplit
from .softmax.fwd_strided import SoftmaxFwdStrided
from .softmax.fwd_warp import SoftmaxFwdWarp
from .spatial.grid_bwd_split import SpatialGridBwdSplit
from .spatial.grid_fwd_any import SpatialGridFwdAny
from .spatial.sampler_bwd_gather import SpatialSamplerBwdGather
from .spatial.sampler_fwd_any import SpatialSamplerFwdAny

REFERENCE, COMPOSITE = Reference(), Composite()
TABLE: tuple[Engine, ...] = tuple(row if isinstance(row, Engine) else row() for row in (
    # convolution: forward 100 to 119, data gradient 120 to 139, weight gradient 140 to 159
    ConvFpropDepthwise, ConvFpropFirst, ConvFpropHalo, ConvFpropWgmma, ConvFpropMma, ConvFpropSimt,
    ConvFpropMmaRepack, ConvFpropGemmMma(MatmulMma()), ConvFpropGemm(MatmulSimt(), MatmulAny()),
    ConvFpropIndexed, ConvFpropWinograd4, ConvFpropWinograd2, ConvFpropFft, ConvFpropFftTiling, ConvFpropAny,
    ConvDgradDepthwise, ConvDgradFew, ConvDgradHalo, ConvDgradWgmma, ConvDgradMma, ConvDgradSimt,
    ConvDgradMmaRepack, ConvDgradWinograd4, ConvDgradWinograd2, ConvDgradFft, ConvDgradFftTiling,
    ConvDgradScatter, ConvDgradAny,
    ConvWgradDepthwise, ConvWgradFirst, ConvWgradHalo, ConvWgradWgmma, ConvWgradMma, ConvWgradMmaRepack,
    ConvWgradSimt, ConvWgradFft, ConvWgradAtomic, ConvWgradIndexed, ConvWgradAny,
    # matmul: 180 to 199
    MatmulThin, MatmulSmall, MatmulWgmma, MatmulWgmmaUnaligned, MatmulWgmmaRepack, MatmulMma, MatmulSimt,
    MatmulAny,
    # softmax: 210 to 229
    SoftmaxFwdBlock, SoftmaxFwdCluster, SoftmaxFwdColumns, SoftmaxFwdGeneric, SoftmaxFwdGrid,
    SoftmaxFwdPacked, SoftmaxFwdSplit, SoftmaxFwdStrided, SoftmaxFwdWarp, SoftmaxBwdBlock, SoftmaxBwdCluster,
    SoftmaxBwdColumns, SoftmaxBwdGeneric, SoftmaxBwdGrid, SoftmaxBwdPacked, SoftmaxBwdSplit,
    SoftmaxBwdStrided, SoftmaxBwdWarp,
    # pooling: 230 to 249
    PoolingFwdWhole, PoolingFwdNchwWide, PoolingFwdNchwStrip, PoolingBwdWhole, PoolingBwdAvgNchw,
    PoolingBwdMaxPlane, PoolingFwdNhwcStrip, PoolingFwdNhwcTeam, PoolingFwdNhwc, PoolingBwdAvgNhwcApart,
    PoolingBwdAvgNhwc, PoolingBwdMaxNhwcStrip, PoolingBwdMaxNhwc, PoolingFwdStrided, PoolingBwdStrided,
    # batch normalization: 250 to 269
    BatchNormTrainingCluster, BatchNormTrainingColumns, BatchNormTrainingGrid, BatchNormTrainingResident,
    BatchNormTrainingRing, BatchNormTrainingRows, BatchNormTrainingStrided, BatchNormInferenceColumns,
    BatchNormInferenceRows, BatchNormInferenceStrided, BatchNormBwdColumns, BatchNormBwdGrid,
    BatchNormBwdResident, BatchNormBwdRing, BatchNormBwdRows, BatchNormBwdStrided,
    # pointwise: 270 to 279
    PointwiseVector, PointwiseAny,
    # reduction: 280 to 289
    ReductionColumns, ReductionRows, ReductionGeneric, ReductionAny,
    # tensor operations: 290 to 309
    TransformVector, TransformTma, TransformAny, TransformTranspose, AddTensorVector, AddTensorAny,
    OpTensorVector, OpTensorAny, ScaleTensorVector, ScaleTensorAny, SetTensorFill,
    # recurrent networks: 310 to 329
    RnnFwdPersist, RnnFwdPlain, RnnFwdWave, RnnFwdCluster, RnnBwdDataPersist, RnnBwdDataPlain,
    RnnBwdWeightsProducts,
    # local response normalization: 330 to 339
    LrnFwdChannels, LrnFwdStrided, LrnBwdChannels, LrnBwdStrided,
    # divisive normalization: 340 to 349
    DivisiveNormFwdPlanes, DivisiveNormFwdChannels, DivisiveNormFwdStrided,
    DivisiveNormBwdPlanes, DivisiveNormBwdChannels, DivisiveNormBwdStrided,
    # dropout: 350 to 359
    DropoutFwdVector, DropoutFwdNhwc, DropoutFwdAny, DropoutBwdVector, DropoutBwdNhwc, DropoutBwdAny,
    DropoutFactorsVector, DropoutStatesSet,
    # spatial transformer: 360 to 379
    SpatialGridFwdAny, SpatialGridBwdSplit, SpatialSamplerFwdAny, SpatialSamplerBwdGather,
    # im2col: 380 to 389
    Im2colAny,
    # attention: 420 to 449
    SdpaFwdAny,
))
BY_INDEX = {e.index: e for e in (REFERENCE, COMPOSITE, *TABLE)}


@lru_cache(maxsize=None)
def _for(op: type) -> tuple:
    return (*(e for e in TABLE if e.op is op), REFERENCE)


def engines_for(op) -> tuple[Engine, ...]:
    """Every engine of an op class (or of an op's), in table order, the reference last."""
    return _for(op if isinstance(op, type) else type(op))

"""Engines: how it is computed. One row an engine, in order of preference at equal cost;
index ranges by family."""
from __future__ import annotations

from functools import lru_cache

from .attention.sdpa_bwd_any import SdpaBwdAny
from .attention.sdpa_bwd_fp8_wgmma import SdpaBwdFp8Wgmma
from .attention.sdpa_bwd_mma import SdpaBwdMma
from .attention.sdpa_bwd_wgmma import SdpaBwdWgmma
from .attention.sdpa_fwd_any import SdpaFwdAny
from .attention.sdpa_fwd_fp8_wgmma import SdpaFwdFp8Wgmma
from .attention.sdpa_fwd_mma import SdpaFwdMma
from .attention.sdpa_fwd_wgmma import SdpaFwdWgmma
from .block_scale.any import BlockScaleDequantizeAny, BlockScaleQuantizeAny
from .block_scale.rows import BlockScaleDequantizeRows, BlockScaleQuantizeRows
from .composite import Composite
from .conv.any import ConvDgradAny, ConvFpropAny, ConvWgradAny
from .conv.depthwise import ConvDgradDepthwise, ConvFpropDepthwise, ConvWgradDepthwise
from .conv.depthwise_planes import (ConvDgradDepthwisePlanes, ConvFpropDepthwisePlanes,
                                    ConvWgradDepthwisePlanes)
from .conv.depthwise_slide import (ConvDgradDepthwiseSlide, ConvFpropDepthwiseSlide,
                                   ConvWgradDepthwiseSlide)
from .conv.dgrad_few import ConvDgradFew
from .conv.dgrad_gemm import ConvDgradGemm
from .conv.dgrad_mma import ConvDgradMma, ConvDgradMmaRepack
from .conv.dgrad_scatter import ConvDgradScatter
from .conv.dgrad_wgmma import ConvDgradWgmma
from .conv.fft import ConvDgradFft, ConvDgradFftTiling, ConvFpropFft, ConvFpropFftTiling, ConvWgradFft
from .conv.folded import ConvDgradFolded, ConvFpropFolded, ConvWgradFolded
from .conv.fprop_first import ConvFpropFirst
from .conv.fprop_mma import ConvFpropMma, ConvFpropMmaRepack
from .conv.fprop_rounded import ConvFpropRounded
from .conv.fprop_wgmma_prologue import ConvFpropWgmmaPrologue, ConvFpropWgmmaRounded
from .conv.gemm import ConvFpropGemm, ConvFpropGemmMma, ConvWgradGemm
from .conv.halo import ConvDgradHalo, ConvFpropHalo
from .conv.joined_groups import ConvDgradJoinedGroups, ConvFpropJoinedGroups, ConvWgradJoinedGroups
from .conv.joined_pixels import ConvDgradJoinedPixels, ConvFpropJoinedPixels, ConvWgradJoinedPixels
from .conv.mirrored import ConvDgradMirrored, ConvFpropMirrored, ConvWgradMirrored
from .conv.patches import ConvDgradPatches, ConvFpropPatches, ConvWgradPatches
from .conv.product import ConvDgradProduct, ConvFpropProduct, ConvWgradProduct
from .conv.repack import ConvDgradRepack, ConvFpropRepack, ConvWgradRepack
from .conv.simt import ConvDgradSimt, ConvFpropIndexed, ConvFpropSimt
from .conv.subpixel import ConvDgradSubpixel
from .conv.wgmma import ConvFpropWgmma
from .conv.wgmma_pieces import ConvDgradWgmmaPieces, ConvFpropWgmmaPieces
from .conv.wgrad_first import ConvWgradFirst
from .conv.wgrad_halo import ConvWgradHalo
from .conv.wgrad_mma import ConvWgradMma, ConvWgradMmaRepack
from .conv.wgrad_simt import ConvWgradAtomic, ConvWgradIndexed, ConvWgradSimt
from .conv.wgrad_wgmma import ConvWgradWgmma
from .conv.winograd import ConvDgradWinograd2, ConvDgradWinograd4, ConvFpropWinograd2, ConvFpropWinograd4
from .conv.winograd_wgrad import ConvWgradWinograd2, ConvWgradWinograd4
from .divisive_norm.divisive_norm import (DivisiveNormBwdChannels, DivisiveNormBwdPlanes,
                                          DivisiveNormBwdStrided, DivisiveNormFwdChannels,
                                          DivisiveNormFwdPlanes, DivisiveNormFwdStrided)
from .dropout.dropout import (DropoutBwdAny, DropoutBwdNhwc, DropoutBwdVector, DropoutFactorsVector,
                              DropoutFwdAny, DropoutFwdNhwc, DropoutFwdVector, DropoutStatesSet)
from .engine import PLAIN, Config, Engine, Knob
from .grouped_matmul.any import GroupedMatmulAny, GroupedMatmulWgradAny
from .grouped_matmul.mma import GroupedMatmulMma
from .grouped_matmul.wgmma import GroupedMatmulWgmma
from .grouped_matmul.wgrad_wgmma import GroupedMatmulWgradWgmma
from .im2col.any import Im2colAny
from .layout.tensor_ops import (AddTensorAny, AddTensorVector, OpTensorAny, OpTensorVector, ScaleTensorAny,
                                ScaleTensorVector, SetTensorFill, TransformAny, TransformVector)
from .layout.transform_tma import TransformTma
from .layout.transform_transpose import TransformTranspose
from .lrn.lrn import LrnBwdChannels, LrnBwdStrided, LrnFwdChannels, LrnFwdStrided
from .matmul.any import MatmulAny
from .matmul.mma import MatmulMma
from .matmul.simt import MatmulSimt
from .matmul.small import MatmulSmall
from .matmul.thin import MatmulThin
from .matmul.wgmma import MatmulWgmma
from .matmul.wgmma_repack import MatmulWgmmaRepack
from .matmul.wgmma_unaligned import MatmulWgmmaUnaligned
from .move.copy import ConcatenateCopy, ReshapeCopy, SliceCopy, TransposeCopy
from .norm.batch_norm_any import BatchNormBwdAny, BatchNormTrainingAny
from .norm.batch_norm_bwd_columns import BatchNormBwdColumns
from .norm.batch_norm_bwd_grid import BatchNormBwdGrid
from .norm.batch_norm_bwd_resident import BatchNormBwdResident
from .norm.batch_norm_bwd_ring import BatchNormBwdRing
from .norm.batch_norm_bwd_rows import BatchNormBwdRows
from .norm.batch_norm_bwd_strided import BatchNormBwdStrided
from .norm.batch_norm_inference_columns import BatchNormInferenceColumns
from .norm.batch_norm_inference_rows import BatchNormInferenceRows
from .norm.batch_norm_inference_strided import BatchNormInferenceStrided
from .norm.batch_norm_peers import BatchNormBwdPeers, BatchNormTrainingPeers
from .norm.batch_norm_training_cluster import BatchNormTrainingCluster
from .norm.batch_norm_training_columns import BatchNormTrainingColumns
from .norm.batch_norm_training_grid import BatchNormTrainingGrid
from .norm.batch_norm_training_resident import BatchNormTrainingResident
from .norm.batch_norm_training_ring import BatchNormTrainingRing
from .norm.batch_norm_training_rows import BatchNormTrainingRows
from .norm.batch_norm_training_strided import BatchNormTrainingStrided
from .norm.gen_stats_any import GenStatsAny
from .norm.norm_instance import NormBwdInstance, NormFwdInstance
from .norm.norm_ring import NormBwdRing, NormFwdRing
from .norm.norm_rows import NormBwdRows, NormFwdRows
from .norm.peer_reduction import PeerReductionMail
from .paged_cache_load.any import PagedCacheLoadAny
from .pointwise.pointwise import PointwiseAny, PointwiseVector
from .pool.max_plane import PoolingBwdMaxPlane
from .pool.nchw import PoolingBwdAvgNchw, PoolingFwdNchwStrip, PoolingFwdNchwWide
from .pool.nhwc import (PoolingBwdAvgNhwc, PoolingBwdAvgNhwcApart, PoolingBwdMaxNhwc, PoolingBwdMaxNhwcStrip,
                        PoolingFwdNhwc, PoolingFwdNhwcStrip, PoolingFwdNhwcTeam)
from .pool.strided import PoolingBwdStrided, PoolingFwdStrided
from .pool.whole import PoolingBwdWhole, PoolingFwdWhole
from .reduction.any import ReductionAny
from .reduction.reduction import ReductionColumns, ReductionGeneric, ReductionRows
from .reference import Reference
from .resample.linear_rows import ResampleFwdLinearRows
from .resample.resample import ResampleBwdAny, ResampleBwdApart, ResampleFwdAny, ResampleFwdLinear
from .rng.any import RngAny
from .rnn.bwd_weights_products import RnnBwdWeightsProducts
from .rnn.fwd_cluster import RnnFwdCluster
from .rnn.rnn import RnnBwdDataPersist, RnnBwdDataPlain, RnnFwdPersist, RnnFwdPlain, RnnFwdWave
from .rope.any import RopeAny
from .signal.flag import SignalFlag
from .softmax.block import SoftmaxBwdBlock, SoftmaxFwdBlock
from .softmax.cluster import SoftmaxBwdCluster, SoftmaxFwdCluster
from .softmax.columns import SoftmaxBwdColumns, SoftmaxFwdColumns
from .softmax.generic import SoftmaxBwdGeneric, SoftmaxFwdGeneric
from .softmax.grid import SoftmaxBwdGrid, SoftmaxFwdGrid
from .softmax.packed import SoftmaxBwdPacked, SoftmaxFwdPacked
from .softmax.split import SoftmaxBwdSplit, SoftmaxFwdSplit
from .softmax.strided import SoftmaxBwdStrided, SoftmaxFwdStrided
from .softmax.warp import SoftmaxBwdWarp, SoftmaxFwdWarp
from .spatial.spatial import (SpatialGridBwdSplit, SpatialGridFwdAny, SpatialSamplerBwdGather,
                              SpatialSamplerFwdAny)

REFERENCE, COMPOSITE = Reference(), Composite()
PRODUCTS = MatmulWgmma(), MatmulWgmmaRepack(), MatmulMma()
TABLE: tuple[Engine, ...] = tuple(row if isinstance(row, Engine) else row() for row in (
    # convolution: forward 100 to 119, data gradient 120 to 139, weight gradient 140 to 159, others 160 to 179
    ConvFpropDepthwiseSlide, ConvFpropDepthwisePlanes, ConvFpropDepthwise, ConvFpropFirst, ConvFpropHalo,
    ConvFpropWgmma, ConvFpropWgmmaPieces, ConvFpropMma, ConvFpropJoinedGroups, ConvFpropJoinedPixels,
    ConvFpropPatches, ConvFpropMirrored, ConvFpropFolded,
    ConvFpropProduct(*PRODUCTS), ConvFpropRepack, ConvFpropSimt, ConvFpropMmaRepack,
    ConvFpropGemmMma(*PRODUCTS), ConvFpropGemm(MatmulSimt(), MatmulAny()), ConvFpropIndexed,
    ConvFpropWinograd4(MatmulSimt()), ConvFpropWinograd2(MatmulSimt()), ConvFpropFft, ConvFpropFftTiling,
    ConvFpropWgmmaPrologue, ConvFpropWgmmaRounded, ConvFpropRounded, ConvFpropAny,
    ConvDgradDepthwiseSlide, ConvDgradDepthwisePlanes, ConvDgradDepthwise, ConvDgradFew, ConvDgradHalo,
    ConvDgradWgmma, ConvDgradWgmmaPieces, ConvDgradMma, ConvDgradJoinedGroups, ConvDgradJoinedPixels,
    ConvDgradPatches, ConvDgradMirrored, ConvDgradSubpixel, ConvDgradFolded,
    ConvDgradProduct(*PRODUCTS), ConvDgradRepack, ConvDgradSimt, ConvDgradMmaRepack,
    ConvDgradWinograd4(MatmulSimt()), ConvDgradWinograd2(MatmulSimt()), ConvDgradFft, ConvDgradFftTiling,
    ConvDgradGemm(*PRODUCTS, MatmulSimt()), ConvDgradScatter, ConvDgradAny,
    ConvWgradDepthwiseSlide, ConvWgradDepthwisePlanes, ConvWgradDepthwise, ConvWgradFirst, ConvWgradHalo,
    ConvWgradWgmma, ConvWgradMma, ConvWgradPatches, ConvWgradProduct(*PRODUCTS), ConvWgradRepack,
    ConvWgradMmaRepack, ConvWgradJoinedGroups, ConvWgradJoinedPixels, ConvWgradMirrored,
    ConvWgradFolded, ConvWgradGemm(*PRODUCTS), ConvWgradSimt,
    ConvWgradWinograd4(MatmulSimt()), ConvWgradWinograd2(MatmulSimt()), ConvWgradFft, ConvWgradAtomic,
    ConvWgradIndexed, ConvWgradAny,
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
    # batch normalization: 250 to 269, of peers 408 to 409
    BatchNormTrainingCluster, BatchNormTrainingColumns, BatchNormTrainingGrid, BatchNormTrainingResident,
    BatchNormTrainingRing, BatchNormTrainingRows, BatchNormTrainingStrided, BatchNormTrainingAny,
    BatchNormInferenceColumns,
    BatchNormInferenceRows, BatchNormInferenceStrided, BatchNormBwdColumns, BatchNormBwdGrid,
    BatchNormBwdResident, BatchNormBwdRing, BatchNormBwdRows, BatchNormBwdStrided, BatchNormBwdAny,
    PeerReductionMail, BatchNormTrainingPeers, BatchNormBwdPeers,
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
    # layer, RMS and instance normalization: 400 to 407, 410 to 419
    NormFwdRows, NormFwdRing, NormFwdInstance, NormBwdRows, NormBwdRing, NormBwdInstance,
    # attention: 420 to 449
    SdpaFwdWgmma, SdpaFwdFp8Wgmma, SdpaFwdMma, SdpaFwdAny,
    SdpaBwdWgmma, SdpaBwdFp8Wgmma, SdpaBwdMma, SdpaBwdAny,
    # moving: 450 to 459
    SliceCopy, ReshapeCopy, TransposeCopy, ConcatenateCopy,
    # resample: 460 to 469
    ResampleFwdLinear, ResampleFwdLinearRows, ResampleFwdAny, ResampleBwdApart, ResampleBwdAny,
    # rng: 470 to 474
    RngAny,
    # rope: 475 to 479
    RopeAny,
    # paged cache load: 480 to 484
    PagedCacheLoadAny,
    # signal: 485 to 489
    SignalFlag,
    # statistics: 490 to 494
    GenStatsAny,
    # grouped matmul: 500 to 509
    GroupedMatmulWgmma, GroupedMatmulMma, GroupedMatmulAny, GroupedMatmulWgradWgmma, GroupedMatmulWgradAny,
    # block scale: 510 to 519
    BlockScaleQuantizeRows, BlockScaleDequantizeRows, BlockScaleDequantizeAny, BlockScaleQuantizeAny,
))
BY_INDEX = {e.index: e for e in (REFERENCE, COMPOSITE, *TABLE)}


@lru_cache(maxsize=None)
def _for(op: type) -> tuple:
    return (*(e for e in TABLE if e.op is op), REFERENCE)


def engines_for(op) -> tuple[Engine, ...]:
    """Every engine of an op class (or of an op's), in table order, the reference last."""
    return _for(op if isinstance(op, type) else type(op))

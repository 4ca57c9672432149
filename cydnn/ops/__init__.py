"""Operations: what is computed. One file a family; the table below is the list of all."""
from .attention import Sdpa, SdpaBwd, scores
from .attribute import Attribute
from .batch_norm import BatchNormBwd, BatchNormInference, BatchNormTraining
from .batch_norm_parts import BnBackwardWeights, BnFinalize
from .block_scale import BlockScaleDequantize, BlockScaleQuantize
from .conv import ConvBgrad, ConvDgrad, ConvFprop, ConvWgrad
from .divisive_norm import DivisiveNormBwd, DivisiveNormFwd
from .dropout import DropoutBwd, DropoutFactors, DropoutFwd, DropoutStates
from .gen_stats import GenStats
from .grouped_matmul import GroupedMatmul, GroupedMatmulWgrad
from .im2col import Im2col
from .lrn import LrnBwd, LrnFwd
from .matmul import Matmul
from .matmul_sized import MatmulSized
from .moves import Concatenate, Reshape, Slice, Transpose
from .norm import NormBwd, NormFwd
from .op import Gradient, Op
from .paged_cache_load import PagedCacheLoad
from .peer_reduction import PeerReduction
from .pointwise import Pointwise
from .pooling import PoolingBwd, PoolingFwd
from .problem import Problem
from .reduction import Reduction
from .resample import ResampleBwd, ResampleFwd
from .rng import Rng
from .rnn import RnnBwdData, RnnBwdWeights, RnnFwd
from .rope import Rope
from .signal import Signal
from .softmax import SoftmaxBwd, SoftmaxFwd
from .spatial import SpatialGridBwd, SpatialGridFwd, SpatialSamplerBwd, SpatialSamplerFwd
from .tensor_ops import AddTensor, OpTensor, ScaleTensor, SetTensor, Transform

OPS = (ConvFprop, ConvDgrad, ConvWgrad, ConvBgrad, Matmul, Pointwise, Reduction, SoftmaxFwd, SoftmaxBwd,
       PoolingFwd, PoolingBwd, BatchNormTraining, BatchNormInference, BatchNormBwd, NormFwd, NormBwd,
       GenStats, Transform, AddTensor, OpTensor, SetTensor, ScaleTensor, RnnFwd, RnnBwdData, RnnBwdWeights,
       DropoutFwd, DropoutBwd, DropoutFactors, DropoutStates, LrnFwd, LrnBwd, SpatialGridFwd,
       SpatialGridBwd, SpatialSamplerFwd, SpatialSamplerBwd, Im2col, DivisiveNormFwd, DivisiveNormBwd,
       Sdpa, SdpaBwd, Slice, Reshape, Transpose, Concatenate, ResampleFwd, ResampleBwd,
       Rng, BnFinalize, BnBackwardWeights, Rope, PagedCacheLoad,
       MatmulSized, GroupedMatmul, GroupedMatmulWgrad, BlockScaleQuantize, BlockScaleDequantize, Signal,
       PeerReduction)
BY_NAME = {op.name: op for op in OPS}

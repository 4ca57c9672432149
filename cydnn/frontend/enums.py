"""Enumerations of the front end, by the names of the cudnn-frontend package.

A value is the number of the backend API where that has one; what only the front end has is below 0. A
member reaches its siblings (``data_type.HALF.FLOAT``), as those of the package do.
"""
from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from ..given import shown
from ..status import BadParam


class Members(enum.EnumMeta):
    """A class of members, which says what they are where one is asked for that is none."""

    if not TYPE_CHECKING:                        # to a checker a name that is not here is a mistake
        def __getattr__(cls, name):
            found = cls.__dict__.get("_member_map_", {})
            if name in found:                    # Python before 3.12 asks here for each
                return found[name]
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(f"{cls.__name__} has no member {name}; members are {' '.join(found)}")


class Enumeration(enum.Enum, metaclass=Members):
    """An enumeration whose members know each other and turn into their numbers."""

    def __getattr__(self, name):
        found = type(self).__members__.get(name)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no member {name}; members are "
                                 f"{names_of(type(self))}")
        return found

    def __int__(self):
        return self.value

    __index__ = __int__


def names_of(kind: type[enum.Enum]) -> str:
    return " ".join(kind.__members__)


class data_type(Enumeration):
    """Data types of tensors and computations."""
    FLOAT, DOUBLE, HALF, INT8, INT32, INT8x4, UINT8, UINT8x4, INT8x32, BFLOAT16 = range(10)
    INT64, BOOLEAN, FP8_E4M3, FP8_E5M2, FAST_FLOAT_FOR_FP8, FP8_E8M0, FP4_E2M1, INT4 = range(10, 18)
    NOT_SET, BYTE_BOOLEAN = -1, -2               # the last: a byte a boolean, 0 or 1


class heur_mode(Enumeration):
    """A: the cost model. B: measured tables (today: as A). FALLBACK: op by op, nothing fused. OPENSOURCE:
    as A."""
    B, FALLBACK, A = 1, 2, 3
    OPENSOURCE = -1


class build_plan_policy(Enumeration):
    """Plans that ``build_plans`` builds: the first that can be built, or all."""
    HEURISTICS_CHOICE, ALL = -1, -2


class convolution_mode(Enumeration):
    """Order of the filter: read backwards (convolution) or as it lies."""
    CONVOLUTION, CROSS_CORRELATION = 0, 1


class reduction_mode(Enumeration):
    """The function of a reduction."""
    ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS = range(9)
    NOT_SET = -1


class norm_forward_phase(Enumeration):
    """Inference, or training with saved statistics."""
    INFERENCE, TRAINING = 0, 1
    NOT_SET = -1


class behavior_note(Enumeration):
    """Behaviour of a plan beside computing."""
    RUNTIME_COMPILATION, REQUIRES_FILTER_INT8x32_REORDER, REQUIRES_BIAS_INT8x32_REORDER = 0, 1, 2
    SUPPORTS_CUDA_GRAPH_NATIVE_API = 3
    CUBLASLT_DEPENDENCY = -1


class numerical_note(Enumeration):
    """Properties of a plan's arithmetic."""
    TENSOR_CORE, DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION, FFT, NONDETERMINISTIC, WINOGRAD = range(6)
    WINOGRAD_TILE_4x4, WINOGRAD_TILE_6x6, WINOGRAD_TILE_13x13, STRICT_NAN_PROP = range(6, 10)


class knob_type(Enumeration):
    """The type of an engine's knob."""
    SWIZZLE, TILE_SIZE, EDGE, MULTIPLY, SPLIT_K_BUF, TILEK, STAGES = 1, 2, 4, 11, 12, 13, 14
    REDUCTION_MODE, SPLIT_K_SLC, IDX_MODE, SPECFILT, KERNEL_CFG, WORKSPACE = 15, 17, 18, 23, 24, 25
    TILE_CGA, TILE_CGA_M, TILE_CGA_N = 26, 27, 28
    BLOCK_SIZE, OCCUPANCY, ARRAY_SIZE_PER_THREAD, SPLIT_COLS, TILE_ROWS, TILE_COLS = 29, 30, 31, 33, 34, 35
    LOAD_SIZE, CTA_COUNT, STREAM_K, SPLIT_P_SLC, TILE_M, TILE_N, WARP_SPEC_CFG = range(36, 43)
    NOT_SET = -1
    SWAP_AB, INPUT_TMA_ENABLE, OUTPUT_TMA_ENABLE = range(-4, -1)         # no engine here has them


class tensor_reordering(Enumeration):
    """Reordering of a tensor's elements in memory, beyond its strides."""
    NONE, INT8x32, F16x16, F8_128x4 = range(4)


class diagonal_alignment(Enumeration):
    """The corner in which the diagonal of an attention mask begins."""
    TOP_LEFT, BOTTOM_RIGHT = -1, -2


class attention_implementation(Enumeration):
    """Which form of attention is asked for."""
    AUTO, COMPOSITE, UNIFIED = -1, -2, -3


class reshape_mode(Enumeration):
    """Meaning of a reshape: another view of the memory, or the same order of the elements."""
    VIEW_ONLY, LOGICAL = -1, -2


class resample_mode(Enumeration):
    """What a window of a resample gives."""
    NEAREST, BILINEAR, AVGPOOL_INCLUDE_PADDING, MAXPOOL, AVGPOOL_EXCLUDE_PADDING = range(5)
    NOT_SET = -1


class padding_mode(Enumeration):
    """What lies outside of an image: zeros, what never wins a maximum, or the cell at the edge."""
    ZERO_PAD, NEG_INF_PAD, EDGE_VAL_PAD = range(3)
    NOT_SET = -1


class signal_mode(Enumeration):
    """Whether a signal sets its flag behind a tensor, or waits for it in front."""
    SET, WAIT = 0, 1
    NOT_SET = -1


class rng_distribution(Enumeration):
    """How random numbers are distributed."""
    BERNOULLI, UNIFORM, NORMAL = range(3)
    NOT_SET = -1


class scalar_type(Enumeration):
    """Time at which a scalar is fixed: when the plan is built, or at each execution."""
    RUNTIME_PARAM, COMPILE_TIME_CONST = -1, -2


class moe_grouped_matmul_mode(Enumeration):
    """Movement of the tokens of a grouped matmul."""
    NONE, GATHER, SCATTER = -1, -2, -3


class NodeType(Enumeration):
    """The kind of an operation in a pygraph that is looked at."""
    (COMPOSITE, MATMUL, POINTWISE, REDUCTION, CONV_FPROP, CONV_DGRAD, CONV_WGRAD, GENSTATS, BATCHNORM,
     BATCHNORM_INFERENCE, BATCHNORM_BWD, LAYERNORM, LAYERNORM_BWD, RMSNORM, RMSNORM_BWD, INSTANCENORM,
     INSTANCENORM_BWD, ADALAYERNORM, ADALAYERNORM_BWD, SDPA, SDPA_BWD, SDPA_FP8, SDPA_FP8_BWD, RESHAPE, SLICE,
     TRANSPOSE, CONCATENATE, ROPE, ROPE_BWD, SOFTMAX, RESAMPLE_FWD, RESAMPLE_BWD, RNG, SIGNAL, BN_FINALIZE,
     BN_BACKWARD_WEIGHTS, PAGED_CACHE_LOAD) = range(-1, -38, -1)


def member(function: str, argument: str, kind: type, value):
    """``value``, which must be a member of the enumeration."""
    if not isinstance(value, kind):
        names = " ".join(f"{kind.__name__}.{m.name}" for m in kind)
        raise BadParam(f"{function}: {argument} must be one of {names}; got {shown(value)}")
    return value

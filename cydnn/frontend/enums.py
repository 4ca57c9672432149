"""Enumerations of the front end, and the one exception it adds."""
from __future__ import annotations

import enum

from ..dtypes import BY_NAME, dtype as to_dtype
from ..status import BadParam, NotSupported


class cudnnGraphNotSupportedError(NotSupported):
    """No engine takes the graph; the message lists each engine's reasons."""


class data_type(enum.Enum):
    """Data types by their names in the API; ``.dtype`` is the row of cydnn.dtypes, None where there is none yet."""
    FLOAT, DOUBLE, HALF, INT8, INT32, UINT8, BFLOAT16, INT64, BOOLEAN = "f32", "f64", "f16", "i8", "i32", "u8", "bf16", "i64", "bool"
    FP8_E4M3, FP8_E5M2, NOT_SET = "fp8_e4m3", "fp8_e5m2", "not_set"


class heur_mode(enum.Enum):
    """A: the cost model. B: measured tables (today: as A). FALLBACK: op by op, nothing fused."""
    A, B, FALLBACK = "a", "b", "fallback"


class build_plan_policy(enum.Enum):
    """What ``build_plans`` builds: the first plan that fits, or all."""
    HEURISTICS_CHOICE, ALL = "heuristics_choice", "all"


class convolution_mode(enum.Enum):
    """Whether the filter is read backwards (convolution) or as it lies."""
    CONVOLUTION, CROSS_CORRELATION = "convolution", "cross_correlation"


class reduction_mode(enum.Enum):
    """What a reduction makes of its elements."""
    ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS = "add", "mul", "min", "max", "amax", "avg", "norm1", "norm2", "mul_no_zeros"
    NOT_SET = "not_set"


class norm_forward_phase(enum.Enum):
    """Inference, or training with saved statistics."""
    INFERENCE, TRAINING, NOT_SET = "inference", "training", "not_set"


def member(function: str, argument: str, kind: type, value):
    """``value``, which must be a member of the enumeration."""
    if not isinstance(value, kind):
        raise BadParam(f"{function}: {argument} must be one of {' '.join(f'{kind.__name__}.{m.name}' for m in kind)}; got {value!r}")
    return value


def row_of(value):
    """The DType of a data_type member, a torch or NumPy dtype, or None when it is not set."""
    if value is None or value is data_type.NOT_SET:
        return None
    if isinstance(value, data_type):
        if value.value not in BY_NAME:
            raise cudnnGraphNotSupportedError(f"data_type: {value.name} comes with a later release; accepted are {' '.join(BY_NAME)}")
        return BY_NAME[value.value]
    return to_dtype(value)

"""Types of the front end and of torch: which are which, and what they are to the rooms below.

``_library_type``, ``_torch_to_cudnn_data_type``, ``_cudnn_to_torch_data_type`` and ``is_torch_available``
are the names under which extensions of torch look for them.
"""
from __future__ import annotations

import importlib.util
import sys

import numpy as np

from ..dtypes import BY_ENUM, DType, dtype
from ..given import shown
from ..ops.op import COMPUTE_API
from ..status import BadParam
from .enums import data_type, names_of
from .errors import cudnnGraphNotSupportedError

TORCH = {                                        # name in torch -> type
    "float16": data_type.HALF, "bfloat16": data_type.BFLOAT16, "float32": data_type.FLOAT,
    "float64": data_type.DOUBLE, "int8": data_type.INT8, "int32": data_type.INT32, "int64": data_type.INT64,
    "uint8": data_type.UINT8, "bool": data_type.BOOLEAN, "float8_e4m3fn": data_type.FP8_E4M3,
    "float8_e5m2": data_type.FP8_E5M2, "float8_e8m0fnu": data_type.FP8_E8M0,
    "float4_e2m1fn_x2": data_type.FP4_E2M1}
VECTORS = {                                      # a type of several neighbours -> (the type of one, how many)
    data_type.INT8x4: (data_type.INT8, 4), data_type.UINT8x4: (data_type.UINT8, 4),
    data_type.INT8x32: (data_type.INT8, 32)}
BYTES = {data_type.BYTE_BOOLEAN: data_type.UINT8}            # types that are stored as others
COMPUTE = {data_type[api]: word for word, api in COMPUTE_API.items()}


def is_torch_available() -> bool:
    """torch can be imported, or has been."""
    return "torch" in sys.modules or importlib.util.find_spec("torch") is not None


def _is_torch_tensor(x) -> bool:
    return "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor)


def _torch_to_cudnn_data_type(x) -> data_type | None:
    """The type of a torch dtype; None for anything else."""
    room, _, name = shown(x).partition(".")
    return TORCH.get(name) if room == "torch" else None


def _cudnn_to_torch_data_type(x):
    """The torch dtype of a type; None where torch has none, or is not there."""
    if not is_torch_available():
        return None
    import torch
    name = next((name for name, found in TORCH.items() if found is x), "")
    return getattr(torch, name, None)


def _named_type(x) -> data_type | None:
    """The type of a name ("f16", "bfloat16"), of a NumPy type or a row; None for anything else. What Python
    calls float has 64 bits, and what cuDNN calls so 32: it is none."""
    if not isinstance(x, (str, type, np.dtype, DType)) or x in ("float", "int", float, int):
        return None
    try:
        return data_type(dtype(x).enum)
    except BadParam:
        return None


def _library_type(x) -> data_type:
    """A type, or the type of a torch or NumPy dtype, or of a name. Raises BadParam for anything else."""
    found = x if isinstance(x, data_type) else _torch_to_cudnn_data_type(x) or _named_type(x)
    if found is None:
        raise BadParam(f"data_type: must be one of data_type.{names_of(data_type)}, a dtype of torch or "
                       f"NumPy, or a name such as f16; got {shown(x)}")
    return found


def type_or_none(x) -> data_type:
    """A type as a caller gives it; None is NOT_SET."""
    return data_type.NOT_SET if x is None else _library_type(x)


def storage_of(where: str, kind: data_type) -> tuple[DType, int]:
    """(the row, neighbours that are one unit) of a type that tensors may have."""
    one, count = VECTORS.get(BYTES.get(kind, kind), (BYTES.get(kind, kind), 1))
    if one.value not in BY_ENUM:
        have = " ".join(member.name for member in data_type if member.value in BY_ENUM)
        raise cudnnGraphNotSupportedError(f"{where}: data_type must be one of {have}; got {kind.name}")
    return BY_ENUM[one.value], count


def type_of(row: DType, vector: int = 1) -> data_type:
    """The type of a row, of so many neighbours."""
    one = data_type(row.enum)
    return next((kind for kind, units in VECTORS.items() if units == (one, vector)), one)


def compute_of(where: str, kind: data_type) -> str | None:
    """What an operation computes in, in the words of the operations; None where it is not set."""
    if kind is data_type.NOT_SET:
        return None
    if kind not in COMPUTE:
        have = " ".join(member.name for member in COMPUTE)
        raise BadParam(f"{where}: compute_data_type must be one of {have}; got {kind.name}")
    return COMPUTE[kind]

"""The types of attributes: how a value of each is read. One row a CUDNN_TYPE."""
from __future__ import annotations

from fractions import Fraction
from typing import Callable, NamedTuple

from ..given import real, shown, whole
from ..status import BadParam
from .constants import constant, member
from .table import ENUMS


class Type(NamedTuple):
    """``read``: (where, value) -> the value as it is kept; ``what`` a value is, for errors and documents."""
    name: str
    number: int
    read: Callable
    what: str


def _int(bits: int):
    def read(where, value):
        found = whole(where, value)
        if not -2 ** (bits - 1) <= found < 2 ** (bits - 1):
            raise BadParam(f"{where} must be a whole number of {bits} bits; got {shown(found)}")
        return found
    return read


def _boolean(where, value) -> bool:
    if value not in (0, 1) or isinstance(value, float):
        raise BadParam(f"{where} must be True or False; got {shown(value)}")
    return bool(value)


def _fraction(where, value) -> Fraction:
    """A number, or (numerator, denominator)."""
    try:
        return Fraction(*value) if isinstance(value, (tuple, list)) else Fraction(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise BadParam(f"{where} must be a number or (numerator, denominator); got {shown(value)}") from None


def _char(where, value) -> str:
    """Text, or bytes of it."""
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).rstrip(b"\0").decode()
        except UnicodeDecodeError:
            raise BadParam(f"{where} must be text in UTF-8; got {shown(value)}") from None
    if not isinstance(value, str):
        raise BadParam(f"{where} must be text or bytes; got {shown(value)}")
    return value


def _any(where, value):
    return value


def _enum(name: str):
    return lambda where, value: member(where, ENUMS[name], value)


_ROWS = (                                        # name without CUDNN_TYPE_, how it is read, what it is
    ("HANDLE", _any, "a handle, a device or its name"),
    ("DATA_TYPE", _enum, "a CUDNN_DATA_…"),
    ("BOOLEAN", _boolean, "True or False"),
    ("INT64", _int(64), "a whole number of 64 bits"),
    ("FLOAT", real, "a number"),
    ("DOUBLE", real, "a number"),
    ("VOID_PTR", _any, "an address or an array"),
    ("CONVOLUTION_MODE", _enum, "CUDNN_CONVOLUTION or CUDNN_CROSS_CORRELATION"),
    ("HEUR_MODE", _enum, "a CUDNN_HEUR_MODE_…"),
    ("KNOB_TYPE", _enum, "a CUDNN_KNOB_TYPE_…"),
    ("NAN_PROPOGATION", _enum, "CUDNN_PROPAGATE_NAN or CUDNN_NOT_PROPAGATE_NAN"),
    ("NUMERICAL_NOTE", _enum, "a CUDNN_NUMERICAL_NOTE_…"),
    ("LAYOUT_TYPE", _enum, "a CUDNN_LAYOUT_TYPE_…"),
    ("ATTRIB_NAME", _enum, "a CUDNN_ATTR_…"),
    ("POINTWISE_MODE", _enum, "a CUDNN_POINTWISE_…"),
    ("BACKEND_DESCRIPTOR", _any, "a finalized descriptor"),
    ("GENSTATS_MODE", _enum, "CUDNN_GENSTATS_SUM_SQSUM"),
    ("BN_FINALIZE_STATS_MODE", _enum, "a CUDNN_BN_FINALIZE_STATISTICS_…"),
    ("REDUCTION_OPERATOR_TYPE", _enum, "a CUDNN_REDUCE_TENSOR_…"),
    ("BEHAVIOR_NOTE", _enum, "a CUDNN_BEHAVIOR_NOTE_…"),
    ("TENSOR_REORDERING_MODE", _enum, "a CUDNN_TENSOR_REORDERING_…"),
    ("RESAMPLE_MODE", _enum, "a CUDNN_RESAMPLE_…"),
    ("PADDING_MODE", _enum, "CUDNN_ZERO_PAD, CUDNN_NEG_INF_PAD or CUDNN_EDGE_VAL_PAD"),
    ("INT32", _int(32), "a whole number of 32 bits"),
    ("CHAR", _char, "text"),
    ("SIGNAL_MODE", _enum, "CUDNN_SIGNAL_SET or CUDNN_SIGNAL_WAIT"),
    ("FRACTION", _fraction, "a number or (numerator, denominator)"),
    ("NORM_MODE", _enum, "CUDNN_LAYER_NORM, CUDNN_BATCH_NORM and so on"),
    ("NORM_FWD_PHASE", _enum, "CUDNN_NORM_FWD_TRAINING or …_INFERENCE"),
    ("RNG_DISTRIBUTION", _enum, "a CUDNN_RNG_DISTRIBUTION_…"))

TYPES = {name: Type(name, int(constant(f"CUDNN_TYPE_{name}")), _enum(name) if read is _enum else read, what)
         for name, read, what in _ROWS}

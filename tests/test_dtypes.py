"""Data types: rounding against ml_dtypes and NumPy, saturation, ranges, names."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cydnn import dtypes
from cydnn.dtypes import ALL, BY_ENUM, BY_NAME, MATH, dtype
from cydnn.status import BadParam

RANDOM = np.random.default_rng(4)
NUMBERS = np.concatenate([RANDOM.normal(size=4000) * 2.0 ** RANDOM.integers(-24, 18, 4000),
                          [0.0, -0.0, 1.0, 65504.0, 57344.0, 61440.0, 6e4, 7e4, 2.0 ** -16, 2.0 ** -17,
                           1.5 * 2.0 ** -17, -2.0 ** -30]])


@pytest.mark.parametrize("name, other", [("bf16", ml_dtypes.bfloat16), ("f8_e5m2", ml_dtypes.float8_e5m2),
                                         ("f16", np.float16)])
def test_rounding_is_once_and_to_even(name, other):
    """f8 saturates; beyond its range it is ours alone."""
    kind = BY_NAME[name]
    inside = NUMBERS[np.abs(NUMBERS) <= kind.highest]
    want = inside.astype(other).astype(np.float64)
    want = np.where(np.isinf(want), np.copysign(kind.highest, want), want) if name.startswith("f8") else want
    got = kind.round(inside)
    assert (got == want).all() and (np.signbit(got) == np.signbit(want)).all()


@pytest.mark.parametrize("name", ["f8_e5m2"])
def test_every_code_of_a_small_type_has_its_value(name):
    kind, codes = BY_NAME[name], np.arange(256, dtype=np.uint8)
    want = codes.view(getattr(ml_dtypes, f"float8_{name[3:]}")).astype(np.float64)
    got = kind.decode(codes)
    assert ((got == want) | (np.isnan(got) & np.isnan(want))).all()
    finite = np.isfinite(got)
    assert (kind.encode(got[finite]) == codes[finite]).all()
    assert kind.round(np.array([1e9, -1e9, np.inf, -np.inf])).tolist() == [kind.highest, kind.lowest] * 2
    assert np.isnan(kind.round(np.array([np.nan]))).all()


def test_powers_of_two():
    """An exponent alone: the nearest, of two the larger; no sign, no zero, no infinity."""
    kind, codes = dtypes.f8_e8m0, np.arange(256, dtype=np.uint8)
    want = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert (kind.decode(codes)[:255] == want[:255]).all() and np.isnan(kind.decode(codes)[255])
    assert (kind.encode(want) == codes).all()
    assert kind.round(np.array([1.49, 1.5, 3.0, 5.9, 0.0, -0.0, 1e-300, 1e300, np.inf])).tolist() == [
        1, 2, 4, 4, *[2.0 ** -127] * 3, 2.0 ** 127, 2.0 ** 127]
    assert np.isnan(kind.round(np.array([np.nan, -1.0, -np.inf]))).all()


def test_whole_numbers_are_rounded_to_even_and_saturate():
    assert dtypes.i8.round(np.array([0.5, 1.5, 2.5, -0.5, 200.0, -200.0, np.nan,
                                     np.inf])).tolist() == [0, 2, 2, 0, 127, -128, 0, 127]
    assert dtypes.u8.round(np.array([-3.0, 255.4, 255.5, 300])).tolist() == [0, 255, 255, 255]
    assert dtypes.i32.round(np.array([2.0 ** 31, -2.0 ** 31,
                                      1e300])).tolist() == [2 ** 31 - 1, -2 ** 31, 2 ** 31 - 1]
    assert dtypes.i64.round(np.array([2.0 ** 63, -2.0 ** 63,
                                      -np.inf])).tolist() == [2 ** 63 - 1, -2 ** 63, -2 ** 63]
    assert dtypes.i64.encode(np.array([2 ** 62 + 1])).tolist() == [2 ** 62 + 1]                  # exact
    assert dtypes.boolean.round(np.array([0.0, -0.0, 0.3, -2.0, np.nan])).tolist() == [0, 0, 1, 1, 1]


def test_rows_say_what_is_so():
    for kind in ALL:
        assert kind.bytes_of(16) == 2 * kind.bits and kind.bytes_of(0) == 0
        assert BY_ENUM[kind.enum] is BY_NAME[kind.name] is kind
        if kind.kind == "float":
            one = kind.encode(np.array([1.0, 1 + kind.eps, kind.tiny, kind.highest]))
            assert kind.decode(one).tolist() == [1.0, 1 + kind.eps, kind.tiny, kind.highest]
    assert dtypes.boolean.bytes_of(9) == 2 and set(MATH.values()) == {"f32", "f64"} and MATH["i32"] == "f64"


def test_names():
    for given, name in (("bf16", "bf16"), (9, "bf16"), (np.float16, "f16"), (np.dtype("int64"), "i64"),
                        (ml_dtypes.bfloat16, "bf16"), (ml_dtypes.float8_e5m2, "f8_e5m2"), (bool, "bool"),
                        ("CUDNN_DATA_HALF", None), (dtypes.f32, "f32")):
        if name:
            assert dtype(given) is BY_NAME[name]
        else:
            with pytest.raises(BadParam, match="dtype must be one of f64 .*; got 'CUDNN_DATA_HALF'"):
                dtype(given)

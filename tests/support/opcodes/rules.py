"""How an answer of the interpreter is compared with the table's: bit for bit, or within the error
that the PTX ISA documents.

    bits              equal          nan [type]        equal, or both NaN
    ulp n             at most n units in the last place apart
    rel e, abs e      within e of the exact result, which the interpreter gives rounded once
    lg2 e             e absolute for arguments of 0.5 to 2, else e relative
    circle e          e absolute up to 2 pi, 2^-14.7 up to 100 pi, no bound beyond
    mma d n masks     bits in the first n lanes (small integers), elsewhere within four roundings
                      (to the digits of d, or to those given behind the masks) of the sum of all sizes
"""
from __future__ import annotations

import numpy as np

from .probe import Probe
from .values import HALF

NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
SMALLEST = {"f16": 2.0 ** -24, "bf16": 2.0 ** -133, "f32": 2.0 ** -149, "f64": 2.0 ** -1074}
ROUNDINGS = 4


def numbers(bits: np.ndarray, type_: str) -> np.ndarray:
    """Bits of a float type as float64."""
    raw = ((bits.astype(np.uint32) << np.uint32(16)).view(np.float32) if type_ == "bf16"
           else bits.view(NUMPY[type_]))
    with np.errstate(invalid="ignore"):          # signalling NaNs
        return raw.astype(np.float64)


def halves(bits: np.ndarray, type_: str):
    """(elements as (lanes, n), their type): a packed register has two."""
    return ((bits.view(np.uint16).reshape(-1, 2), HALF[type_]) if type_ in HALF
            else (bits.reshape(-1, 1), type_))


def near(got, want, type_, error) -> np.ndarray:
    """Equal, both NaN, or within ``error`` and the rounding of the exact result; denormals have
    two roundings, the GPU's and ours."""
    x, y = numbers(got, type_), numbers(want, type_)
    with np.errstate(all="ignore"):
        rounding = np.maximum(np.abs(x) * 2.0 ** -DIGITS[type_], SMALLEST[type_])
        return ((got == want) | (np.isnan(x) & np.isnan(y))
                | (np.abs(x - y) <= error + rounding) & np.isfinite(x) & np.isfinite(y))


def ordered(bits: np.ndarray) -> np.ndarray:
    """Bits of a float as integers in the order of its values."""
    signed = bits.view(f"i{bits.itemsize}").astype(np.int64)
    return np.where(signed < 0, np.int64(-2 ** (8 * bits.itemsize - 1)) - signed, signed)


def close(got, want, type_, rule, argument) -> np.ndarray:
    """Which elements are as near as the rule asks."""
    kind, error = rule
    x, y = numbers(got, type_), numbers(want, type_)
    if kind == "ulp":
        return ((got == want) | (np.isnan(x) & np.isnan(y))
                | (np.abs(ordered(got) - ordered(want)) <= error) & np.isfinite(x) & np.isfinite(y))
    size = np.abs(argument)
    with np.errstate(all="ignore"):
        if kind == "rel":
            return near(got, want, type_, error * np.abs(x))
        if kind == "lg2":
            return near(got, want, type_, np.where((size > 0.5) & (size < 2), error, error * np.abs(x)))
        if kind == "circle":
            return (near(got, want, type_, np.where(size <= 2 * np.pi, error, 2.0 ** -14.7))
                    | (size > 100 * np.pi) & np.isfinite(size))
    return near(got, want, type_, error)


def same(probe: Probe, got: list, want: list, magnitude) -> list[np.ndarray]:
    """For each result, which lanes are right. ``magnitude``: a function that gives the results
    for operands without signs."""
    kind = probe.rule[0]
    if kind == "bits":
        return [g == w for g, w in zip(got, want)]
    if kind == "mma":
        _, type_, exact, _, *digits = probe.rule
        return [_product(g, w, s, type_, exact, *digits or [DIGITS[type_]])
                for g, w, s in zip(got, want, magnitude())]
    right = []
    for g, w, out in zip(got, want, probe.outs):
        out = probe.rule[1] if kind == "nan" and len(probe.rule) > 1 else out
        (g, type_), (w, _) = halves(g, out), halves(w, out)
        if kind == "nan":
            ok = ((g == w) | (np.isnan(numbers(g, type_)) & np.isnan(numbers(w, type_)))
                  if type_ in DIGITS else g == w)
        else:
            ok = close(g, w, type_, probe.rule, numbers(*halves(probe.values[0], probe.ins[0])))
        right.append(ok.all(1))
    return right


def _product(got, want, sizes, type_, exact, digits) -> np.ndarray:
    parts = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}[type_]
    g, w, s = (a.view(parts).reshape(len(got), -1) for a in (got, want, sizes))
    with np.errstate(all="ignore"):
        allowed = ROUNDINGS * numbers(s, type_) * 2.0 ** -digits
        ok = near(g, w, type_, np.where(np.isfinite(allowed), allowed, 0))
    return np.where(np.arange(len(got)) < exact, (g == w).all(1), ok.all(1))


def unsigned(probe: Probe) -> Probe:
    """The probe of the same product with all signs taken off its operands."""
    values = []
    for v, mask in zip(probe.values, probe.rule[3]):
        raw = v.view(np.uint64 if v.dtype == np.uint64 else np.uint32) & mask
        values.append(raw.view(v.dtype))
    return probe._replace(values=tuple(values))

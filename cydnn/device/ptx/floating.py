"""Floating-point arithmetic with the rounding of the hardware: exact for every rounded form, the documented function for ``.approx``.

Exactness: sums and products of f32 and narrower types go through float64 rounded to odd, so that the last rounding is the only one.
"""
from __future__ import annotations

from fractions import Fraction

import numpy as np

from .table import row

F32, F64, U32, U64, I64 = np.float32, np.float64, np.uint32, np.uint64, np.int64
NAN32 = U32(0x7FFFFFFF).view(F32)
NAN16 = np.uint16(0x7FFF)


# ---- Building blocks ----

def widen_bf16(a):
    return (np.asarray(a).astype(U32) << U32(16)).view(F32)


def two_sum(a, b):
    """(a + b rounded, its error)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def to_odd(s, error):
    """``s`` moved to the odd neighbour when ``s + error`` is not a float64."""
    bits = s.view(I64)
    fix = (error != 0) & (bits & 1 == 0) & np.isfinite(s)
    if not np.count_nonzero(fix):
        return s
    away = (error > 0) == (s > 0)
    moved = np.where(s == 0, np.copysign(5e-324, error).view(I64), bits + np.where(away, 1, -1))
    return np.where(fix, moved, bits).view(F64)


def clean32(r):
    """The hardware has one NaN."""
    nan = r != r
    if np.count_nonzero(nan):
        r = np.where(nan, NAN32, r)
    return r


def narrow32(x, mode="rn"):
    """float64 to f32; right when x was rounded to odd or is exact."""
    x = np.asarray(x, F64)
    r = x.astype(F32)
    if mode == "rn":
        return clean32(r)
    back = r.astype(F64)
    toward = {"rz": np.abs(back) > np.abs(x), "rm": back > x, "rp": back < x}[mode]
    to = {"rz": F32(0), "rm": F32(-np.inf), "rp": F32(np.inf)}[mode]
    return clean32(np.where(toward, np.nextafter(r, to), r))


def narrow16(x, mode="rn"):
    """To f16, as bits."""
    x = np.asarray(x)
    r = x.astype(np.float16)
    if mode != "rn":
        back, to = r.astype(F64), {"rz": 0, "rm": -np.inf, "rp": np.inf}[mode]
        beyond = {"rz": np.abs(back) > np.abs(x), "rm": back > x, "rp": back < x}[mode]
        r = np.where(beyond, np.nextafter(r, np.float16(to)), r)
    return np.where(r != r, NAN16, r.view(np.uint16))


def narrow_bf16(x, mode="rn"):
    """f32 or float64 (rounded to odd) to bf16, as bits."""
    x = np.asarray(x)
    if x.dtype == F64:
        near = x.astype(F32)
        x = np.where(near.astype(F64) == x, near, _odd32(x, near))
    u = np.ascontiguousarray(x, F32).view(U32)
    up = {"rn": U32(0x7FFF) + (u >> U32(16) & U32(1)), "rz": U32(0), "rm": (u >> U32(31)) * U32(0xFFFF),
          "rp": (U32(1) - (u >> U32(31))) * U32(0xFFFF)}[mode]
    return np.where(x != x, NAN16, ((u + up) >> U32(16)).astype(np.uint16))


def _odd32(x, near):
    low = np.where(np.abs(near.astype(F64)) > np.abs(x), np.nextafter(near, F32(0)), near)
    return np.where(np.isfinite(low), (low.view(U32) | U32(1)).view(F32), low)


def flush(a):
    """.ftz: a denormal becomes a zero of its sign."""
    a = np.asarray(a)
    return np.where(np.abs(a) < np.finfo(a.dtype).tiny, np.copysign(a.dtype.type(0), a), a)


def saturate(a):
    return np.where(a > 0, np.minimum(a, a.dtype.type(1)), a.dtype.type(0))


def finish(function, m):
    """The function with .ftz and .sat applied."""
    if "ftz" not in m and "sat" not in m:
        return function

    def wrapped(*arrays):
        r = function(*(flush(a) for a in arrays)) if "ftz" in m else function(*arrays)
        r = flush(r) if "ftz" in m else r
        return saturate(r) if "sat" in m else r
    return wrapped


# ---- f32 ----

def fma32(a, b, c):
    """Exactly rounded; only results near a tie or below the normal range need the careful way."""
    p = np.multiply(a, b, dtype=F64)
    s = p + c
    r = s.astype(F32)
    bits = np.asarray(s).view(U64) & U64(0x1FFFFFFF)
    size = np.abs(r)
    care = (bits == U64(0x10000000)) | ((size < F32(1.2e-38)) & (size > 0)) | (r != r)
    if np.count_nonzero(care):
        part = [np.broadcast_to(x, r.shape)[care].astype(F64) for x in (p, c)]
        r = np.atleast_1d(r)
        r[care] = narrow32(to_odd(*two_sum(*part)))
    return r


def exact32(function, mode):
    if function == "mul":
        return lambda a, b: narrow32(np.multiply(a, b, dtype=F64), mode)
    if function == "fma":
        return lambda a, b, c: narrow32(_summed(np.multiply(a, b, dtype=F64), np.asarray(c).astype(F64), mode), mode)
    sign = -1.0 if function == "sub" else 1.0
    return lambda a, b: narrow32(_summed(np.asarray(a).astype(F64), sign * np.asarray(b).astype(F64), mode), mode)


def _summed(a, b, mode):
    """a + b rounded to odd; what cancels is -0 when rounding down."""
    s = to_odd(*two_sum(a, b))
    return np.where((s == 0) & (a != 0) | (s == 0) & (np.signbit(a) != np.signbit(b)), -0.0, s) if mode == "rm" else s


def arithmetic32(name, ufunc):
    def make(m):
        mode = m.get("rnd", "rn")
        return finish(exact32(name, mode) if mode != "rn" else lambda a, b: clean32(ufunc(a, b)), m)
    return make


def divide32(a, b):
    return clean32(np.divide(a, b))


# ---- f64 ----

def split(a):
    t = 134217729.0 * a
    high = t - (t - a)
    return high, a - high


def fma64(a, b, c):
    """Boldo and Melquiond (2008): the sum of the product's two parts and c, the low parts rounded to odd; fractions at the ends."""
    a, b, c = np.broadcast_arrays(*(np.asarray(x, F64) for x in (a, b, c)))
    p = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    low = al * bl - (((p - ah * bh) - al * bh) - ah * bl)
    th, tl = two_sum(c, low)
    vh, vl = two_sum(p, th)
    r = vh + to_odd(*two_sum(tl, vl))
    plain = p + c
    size = np.abs(p)
    big = np.maximum(np.abs(a), np.abs(b))
    easy = (size > 1e-270) & (size < 1e300) & (big < 1e290) & (np.abs(c) < 1e300)
    zero = (p == 0) & ((a == 0) | (b == 0)) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
    r = np.where(zero, plain, r)
    hard = ~(easy | zero)
    for at in np.argwhere(hard):
        at = tuple(at)
        total = Fraction(float(a[at])) * Fraction(float(b[at])) + Fraction(float(c[at]))
        try:
            r[at] = float(total) if total else plain[at]
        except OverflowError:
            r[at] = np.inf if total > 0 else -np.inf
    return r


def rcp64(a):
    """rcp.approx.ftz.f64: the upper half of the bits only."""
    cut = (np.asarray(a).view(U64) & U64(0xFFFFFFFF00000000)).view(F64)
    return flush((np.divide(1.0, flush(cut)).view(U64) & U64(0xFFFFFFFF00000000)).view(F64))


# ---- f16, bf16, packed ----

def arithmetic16(ufunc):
    def make(m):
        return finish(lambda a, b: clean16(ufunc(a, b)), m)
    return make


def clean16(r):
    return np.where(r != r, NAN16.view(np.float16), r)


def fma16(m):
    def fma(a, b, c):
        a, b, c = (np.asarray(x).astype(F64) for x in (a, b, c))
        r = narrow16(to_odd(*two_sum(a * b, c))).view(np.float16)
        return np.where(r <= 0, np.float16(0), r) if "relu" in m else r
    return lambda a, b, c: finish(fma, m)(a, b, c)


def on_bf16(function):
    return lambda m: lambda *a: narrow_bf16(function(*(widen_bf16(x) for x in a)))


def fma_bf16(m):
    def fma(a, b, c):
        a, b, c = (widen_bf16(x).astype(F64) for x in (a, b, c))
        r = narrow_bf16(to_odd(*two_sum(a * b, c)))
        return np.where(widen_bf16(r) <= 0, np.uint16(0), r) if "relu" in m else r
    return fma


# ---- Extremes ----

def extreme(sign):
    """min (-1) or max (1): a number beats NaN unless .NaN; -0 is less than +0."""
    pick, strict = (np.fmax, np.maximum) if sign > 0 else (np.fmin, np.minimum)

    def make(m):
        bf16, fn = m["t"].startswith("bf16"), strict if "NaN" in m else pick

        def best(a, b):
            a, b = (widen_bf16(a), widen_bf16(b)) if bf16 else (np.asarray(a), np.asarray(b))
            r = fn(a, b)
            zero = (a == 0) & (b == 0)
            if np.count_nonzero(zero):
                negative = np.signbit(a) & np.signbit(b) if sign > 0 else np.signbit(a) | np.signbit(b)
                r = np.where(zero, np.where(negative, -r.dtype.type(0), r.dtype.type(0)), r)
            r = clean32(r) if r.dtype == F32 else r
            return narrow_bf16(r) if bf16 else clean16(r) if r.dtype == np.float16 else r
        return finish(best, m)
    return make


# ---- Approximations: the function in float64, rounded once (PTX ISA gives the bounds the hardware keeps) ----

def approximate(function):
    return lambda m: finish(lambda a: clean32(function(np.asarray(a).astype(F64)).astype(F32)), m)


def near_type(function, type_):
    if type_ == "f16":
        return lambda m: lambda a: narrow16(function(np.asarray(a).astype(F64))).view(np.float16)
    return lambda m: lambda a: narrow_bf16(finish(lambda x: function(x.astype(F64)).astype(F32), m)(widen_bf16(a)))


RND32 = "rnd:rn|rz|rm|rp"
for name, fn in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
    row(f"{name} {RND32}? ftz? sat? t:f32", "t=t,t", arithmetic32(name, fn), make=True)
    row(f"{name} rn? t:f64", "t=t,t", fn)
    row(f"{name} rn? ftz? sat? t:f16|f16x2", "t=t,t", arithmetic16(fn), make=True)
    row(f"{name} rn? t:bf16|bf16x2", "t=t,t", on_bf16(fn), make=True)
row("fma rn ftz? sat? t:f32", "t=t,t,t", lambda m: finish(fma32, m), make=True)
row("fma rnd:rz|rm|rp ftz? sat? t:f32", "t=t,t,t", lambda m: finish(exact32("fma", m["rnd"]), m), make=True)
row("mad rn ftz? t:f32", "t=t,t,t", lambda m: finish(fma32, m), make=True)
row("fma rn t:f64", "t=t,t,t", fma64)
row("fma rn ftz? sat? relu? t:f16|f16x2", "t=t,t,t", fma16, make=True)
row("fma rn relu? t:bf16|bf16x2", "t=t,t,t", fma_bf16, make=True)
row("div rn t:f32", "t=t,t", divide32)
row("div mode:approx|full ftz? t:f32", "t=t,t", lambda m: finish(divide32, m), make=True)
row("div rn ftz t:f32", "t=t,t", lambda m: finish(divide32, m), make=True)
row("div rn t:f64", "t=t,t", np.divide)
row("rcp rn ftz? t:f32", "t=t", lambda m: finish(lambda a: divide32(F32(1), a), m), make=True)
row("rcp rn t:f64", "t=t", lambda a: np.divide(1.0, a))
row("rcp approx ftz t:f64", "t=t", rcp64)
row("rsqrt approx ftz t:f64", "t=t", lambda a: flush(1.0 / np.sqrt(flush(a))))
row("rsqrt approx t:f64", "t=t", lambda a: 1.0 / np.sqrt(a))
row("sqrt rn ftz? t:f32", "t=t", lambda m: finish(lambda a: clean32(np.sqrt(a)), m), make=True)
row("sqrt rn t:f64", "t=t", np.sqrt)
for name, fn in (("rcp", lambda x: 1.0 / x), ("rsqrt", lambda x: 1.0 / np.sqrt(x)), ("sqrt", np.sqrt), ("ex2", np.exp2), ("lg2", np.log2),
                 ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh)):
    row(f"{name} approx ftz? t:f32", "t=t", approximate(fn), make=True)
for name, fn in (("ex2", np.exp2), ("tanh", np.tanh)):
    row(f"{name} approx ftz? t:f16|f16x2", "t=t", near_type(fn, "f16"), make=True)
    row(f"{name} approx ftz? t:bf16|bf16x2", "t=t", near_type(fn, "bf16"), make=True)
for name, sign in (("min", -1), ("max", 1)):
    row(f"{name} ftz? NaN:NaN? t:f32|f64|f16|f16x2|bf16|bf16x2", "t=t,t", extreme(sign), make=True)
row("neg ftz? t:f32|f64|f16|f16x2", "t=t", lambda m: finish(np.negative, m), make=True)
row("neg t:bf16|bf16x2", "t=t", lambda a: a ^ np.uint16(0x8000))
row("abs ftz? t:f32|f64|f16|f16x2", "t=t", lambda m: finish(np.abs, m), make=True)
row("abs t:bf16|bf16x2", "t=t", lambda a: a & np.uint16(0x7FFF))
row("copysign t:f32|f64", "t=t,t", lambda a, b: np.copysign(b, a))
row("testp kind:finite|infinite|number|notanumber|normal|subnormal t:f32|f64", "pred=t", lambda m: {
    "finite": np.isfinite, "infinite": np.isinf, "number": lambda a: a == a, "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= np.finfo(a.dtype).tiny) | (a == 0)),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)}[m["kind"]], make=True)

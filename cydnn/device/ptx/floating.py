"""Floating-point arithmetic with the rounding of the hardware: exact for every rounded form, the documented function for ``.approx``.

Exactness: sums and products of f32 and narrower types go through float64 rounded to odd, so that the last rounding is the only one.
"""
from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np

from .table import given, make, row

F16, F32, F64, U16, U32, U64, I64 = np.float16, np.float32, np.float64, np.uint16, np.uint32, np.uint64, np.int64
NAN32, NAN16 = U32(0x7FFFFFFF).view(F32), U16(0x7FFF)        # the hardware's only NaNs


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
    moved = np.where(s == 0, np.copysign(5e-324, error).view(I64), bits + np.where((error > 0) == (s > 0), 1, -1))
    return np.where(fix, moved, bits).view(F64)


def odd_sum(a, b, down=False):
    """a + b rounded to odd; what cancels is -0 when rounding ``down``."""
    a, b = np.asarray(a).astype(F64), np.asarray(b).astype(F64)
    s = to_odd(*two_sum(a, b))
    return np.where((s == 0) & ((a != 0) | (np.signbit(a) != np.signbit(b))), -0.0, s) if down else s


def directed(x, r, mode):
    """``r``, the nearest to ``x`` of its type, or its neighbour on the side that a rounding mode wants."""
    if mode == "rn":
        return r
    back, to = r.astype(F64), {"rz": 0, "rm": -np.inf, "rp": np.inf}[mode]
    return np.where({"rz": np.abs(back) > np.abs(x), "rm": back > x, "rp": back < x}[mode], np.nextafter(r, r.dtype.type(to)), r)


def clean(r):
    """NaNs as the hardware has them."""
    nan = r != r
    return np.where(nan, NAN32 if r.dtype == F32 else NAN16.view(F16), r) if r.dtype != F64 and np.count_nonzero(nan) else r


def narrow32(x, mode="rn"):
    """float64 to f32; right when x was rounded to odd or is exact."""
    x = np.asarray(x, F64)
    return clean(directed(x, x.astype(F32), mode))


def narrow16(x, mode="rn"):
    """To f16."""
    return clean(directed(np.asarray(x), np.asarray(x).astype(F16), mode))


def narrow_bf16(x, mode="rn"):
    """f32 or float64 (rounded to odd) to bf16, as bits."""
    x = np.asarray(x)
    if x.dtype == F64:
        near = x.astype(F32)
        low = np.where(np.abs(near.astype(F64)) > np.abs(x), np.nextafter(near, F32(0)), near)
        x = np.where((near.astype(F64) == x) | ~np.isfinite(low), near, (low.view(U32) | U32(1)).view(F32))
    u = np.ascontiguousarray(x, F32).view(U32)
    sign = u >> U32(31)
    up = {"rn": U32(0x7FFF) + (u >> U32(16) & U32(1)), "rz": U32(0), "rm": sign * U32(0xFFFF), "rp": (U32(1) - sign) * U32(0xFFFF)}[mode]
    return np.where(x != x, NAN16, ((u + up) >> U32(16)).astype(U16))


READ = {"bf16": widen_bf16}                      # registers to numbers, and back; other types are both
NARROW = {"f16": narrow16, "bf16": narrow_bf16, "f32": narrow32, "f64": lambda x, mode="rn": np.asarray(x, F64)}


def flush(a):
    """.ftz: a denormal becomes a zero of its sign."""
    a = np.asarray(a)
    return np.where(np.abs(a) < np.finfo(a.dtype).tiny, np.copysign(a.dtype.type(0), a), a)


def saturate(a):
    return np.where(a > 0, np.minimum(a, a.dtype.type(1)), a.dtype.type(0))


def rectify(a):
    """.relu: what is not above zero is +0, a NaN stays."""
    return np.where(a <= 0, a.dtype.type(0), a)


# ---- Rounded once ----

def rounded(function, m, *arrays):
    """``function`` gives its result in any precision, rounded to odd where it is wider; here it is rounded to the type, after .ftz on its operands
    and before .relu, .ftz and .sat."""
    type_ = m["t"].removesuffix("x2")
    arrays = [READ[type_](a) for a in arrays] if type_ in READ else arrays
    arrays = [flush(a) for a in arrays] if "ftz" in m else arrays
    r = function(*arrays)
    if type_ == "bf16":
        r = flush(r.astype(F32)) if "ftz" in m else r
        return narrow_bf16(rectify(r) if "relu" in m else r)
    r = NARROW[type_](r, m.get("rnd", "rn")) if r.dtype == F64 else clean(r)
    for word, step in (("relu", rectify), ("ftz", flush), ("sat", saturate)):
        r = step(r) if word in m else r
    return r


def number(pattern: str, signature: str, function):
    given(pattern, signature, functools.partial(rounded, function))


def fma32(a, b, c):
    """Exactly rounded; only results near a tie or below the normal range need the careful way."""
    p = np.multiply(a, b, dtype=F64)
    s = p + c
    r = s.astype(F32)
    bits, size = np.asarray(s).view(U64) & U64(0x1FFFFFFF), np.abs(r)
    care = (bits == U64(0x10000000)) | ((size < F32(1.2e-38)) & (size > 0)) | (r != r)
    if np.count_nonzero(care):
        r = np.atleast_1d(r)
        r[care] = narrow32(odd_sum(*[np.broadcast_to(x, r.shape)[care] for x in (p, c)]))
    return r


def fma_odd(a, b, c, down=False):
    return odd_sum(np.multiply(a, b, dtype=F64), c, down)


def split(a):
    t = 134217729.0 * a
    high = t - (t - a)
    return high, a - high


def fma64(a, b, c):
    """Boldo and Melquiond (2008): the sum of the product's two parts and c, the low parts rounded to odd; fractions at the ends."""
    a, b, c = np.broadcast_arrays(*(np.asarray(x, F64) for x in (a, b, c)))
    p = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    th, tl = two_sum(c, al * bl - (((p - ah * bh) - al * bh) - ah * bl))
    vh, vl = two_sum(p, th)
    r, plain, size = vh + to_odd(*two_sum(tl, vl)), p + c, np.abs(p)
    easy = (size > 1e-270) & (size < 1e300) & (np.maximum(np.abs(a), np.abs(b)) < 1e290) & (np.abs(c) < 1e300)
    zero = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
    r = np.where(zero, plain, r)
    for at in map(tuple, np.argwhere(~(easy | zero))):
        total = Fraction(float(a[at])) * Fraction(float(b[at])) + Fraction(float(c[at]))
        try:
            r[at] = float(total) if total else plain[at]
        except OverflowError:
            r[at] = np.inf if total > 0 else -np.inf
    return r


def upper(a):
    """The upper half of the bits of f64."""
    return (np.asarray(a).view(U64) & U64(0xFFFFFFFF00000000)).view(F64)


def extreme(fn, joined, a, b):
    """min or max: a number beats NaN unless .NaN; -0 is less than +0."""
    r, zero = fn(a, b), (np.asarray(a) == 0) & (np.asarray(b) == 0)
    if np.count_nonzero(zero):
        r = np.where(zero, np.where(joined(np.signbit(a), np.signbit(b)), -r.dtype.type(0), r.dtype.type(0)), r)
    return r


HALF, BF16 = "f16|f16x2", "bf16|bf16x2"
for name, fn, odd in (("add", np.add, odd_sum), ("sub", np.subtract, lambda a, b, down=False: odd_sum(a, -np.asarray(b), down)),
                      ("mul", np.multiply, lambda a, b, down=False: np.multiply(a, b, dtype=F64))):
    row(f"{name} rn? t:f32", "t=t,t", lambda a, b, fn=fn: clean(fn(a, b)))
    row(f"{name} rn? t:f64", "t=t,t", fn)
    number(f"{name} rn? ftz? sat? t:f32|{HALF}", "t=t,t", fn)
    number(f"{name} rnd:rz|rp ftz? sat? t:f32", "t=t,t", odd)
    number(f"{name} rnd:rm ftz? sat? t:f32", "t=t,t", functools.partial(odd, down=True))
    number(f"{name} rn? t:{BF16}", "t=t,t", fn)
row("fma rn t:f32", "t=t,t,t", fma32)
row("fma rn t:f64", "t=t,t,t", fma64)
number("fma|mad rn ftz? t:f32", "t=t,t,t", fma32)
number("fma rn ftz? sat t:f32", "t=t,t,t", fma32)
number("fma rnd:rz|rp ftz? sat? t:f32", "t=t,t,t", fma_odd)
number("fma rnd:rm ftz? sat? t:f32", "t=t,t,t", functools.partial(fma_odd, down=True))
number(f"fma rn ftz? sat? relu? t:{HALF}", "t=t,t,t", fma_odd)
number(f"fma rn relu? t:{BF16}", "t=t,t,t", fma_odd)
number("div how:rn|approx|full ftz? t:f32", "t=t,t", np.divide)
number("rcp rn ftz? t:f32", "t=t", lambda a: np.divide(F32(1), a))
number("sqrt rn ftz? t:f32", "t=t", np.sqrt)
row("div rn t:f64", "t=t,t", np.divide)
row("rcp rn t:f64", "t=t", lambda a: np.divide(1.0, a))
row("rsqrt approx t:f64", "t=t", lambda a: 1.0 / np.sqrt(a))
row("sqrt rn t:f64", "t=t", np.sqrt)
row("rcp approx ftz t:f64", "t=t", lambda a: flush(upper(np.divide(1.0, flush(upper(a))))))
row("rsqrt approx ftz t:f64", "t=t", lambda a: flush(1.0 / np.sqrt(flush(a))))
for name, fn in (("rcp", lambda x: 1.0 / x), ("rsqrt", lambda x: 1.0 / np.sqrt(x)), ("sqrt", np.sqrt), ("ex2", np.exp2), ("lg2", np.log2),
                 ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh)):       # in float64, rounded once; the PTX ISA bounds the hardware's error
    types = f"f32|{HALF}|{BF16}" if name in ("ex2", "tanh") else "f32"
    number(f"{name} approx ftz? t:{types}", "t=t", lambda a, fn=fn: fn(np.asarray(a).astype(F64)))
for name, pick, strict, joined in (("min", np.fmin, np.minimum, np.bitwise_or), ("max", np.fmax, np.maximum, np.bitwise_and)):
    number(f"{name} ftz? t:f32|f64|{HALF}|{BF16}", "t=t,t", functools.partial(extreme, pick, joined))
    number(f"{name} ftz? NaN t:f32|{HALF}|{BF16}", "t=t,t", functools.partial(extreme, strict, joined))
for name, fn, bits in (("neg", np.negative, lambda a: a ^ U16(0x8000)), ("abs", np.abs, lambda a: a & U16(0x7FFF))):
    row(f"{name} t:f32|f64|{HALF}", "t=t", fn)
    row(f"{name} ftz t:f32|{HALF}", "t=t", lambda a, fn=fn: flush(fn(a)))
    row(f"{name} t:{BF16}", "t=t", bits)
row("copysign t:f32|f64", "t=t,t", lambda a, b: np.copysign(b, a))
TEST = {"finite": np.isfinite, "infinite": np.isinf, "number": lambda a: a == a, "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= np.finfo(a.dtype).tiny) | (a == 0)),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)}
make("testp kind:" + "|".join(TEST) + " t:f32|f64", "pred=t", lambda m: TEST[m["kind"]])

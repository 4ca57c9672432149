"""cvt: between integers, floats, and packed narrow floats."""
from __future__ import annotations

import numpy as np

from .floating import F16, F32, F64, NAN16, NARROW, READ, U16, U32, U64, clean, flush, rectify, saturate
from .table import DTYPE, given, kind_of

INTS, FLOATS = "u8|s8|u16|s16|u32|s32|u64|s64", "f16|bf16|f32|f64"
WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def integer_to_integer(m, a):
    a, target = np.asarray(a), DTYPE[kind_of(m["d"])]
    own, info = np.iinfo(a.dtype), np.iinfo(target)
    return (np.clip(a, max(info.min, own.min), min(info.max, own.max)) if "sat" in m else a).astype(target)


def integer_to_float(m, a):
    direct = m["d"] in ("f32", "f64") and m["rnd"] == "rn"
    return np.asarray(a).astype(DTYPE[m["d"]]) if direct else NARROW[m["d"]](np.asarray(a).astype(F64), m["rnd"])


def float_to_integer(m, a):
    """Clamped to the range; NaN is 0, or the sign bit where 64 bits come in or go out."""
    target, x = np.iinfo(DTYPE[kind_of(m["d"])]), READ.get(m["s"], np.asarray)(a)
    x = WHOLE[m["rnd"]]((flush(x) if "ftz" in m and m["s"] == "f32" else x).astype(F64))
    high = x > F64(target.max) if target.bits < 64 else x >= F64(target.max)     # float64(2^63 - 1) is 2^63
    low, nan = x <= F64(target.min), x != x
    inside = np.where(high | low | nan, 0, x).astype(U64 if target.min == 0 else np.int64).astype(target.dtype)
    bad = 0 if m["s"] != "f64" and target.bits <= 32 or target.bits < 32 else target.min or 1 << target.bits - 1
    return np.where(nan, bad, np.where(high, target.max, np.where(low, target.min, inside))).astype(target.dtype)


def float_to_float(m, a):
    mode, source, target, x = m.get("rnd", "rn"), m["s"], m["d"], np.asarray(a)
    for wanted, step in ((source in READ, READ.get(source)), ("ftz" in m and source == "f32", flush), (mode in WHOLE, WHOLE.get(mode)),
                         ("sat" in m, saturate), ("relu" in m, rectify)):
        x = step(x) if wanted else x
    if source == target and target in ("f16", "f32"):
        return clean(x)
    r = NARROW[target](x.astype(F32) if x.dtype == F16 else x, "rn" if mode in WHOLE else mode)
    return flush(r) if "ftz" in m and target == "f32" else r


given(f"cvt sat? d:{INTS} s:{INTS}", "d=s", integer_to_integer)
given(f"cvt rnd:rn|rz|rm|rp sat? d:{FLOATS} s:{INTS}", "d=s", integer_to_float)
given(f"cvt rnd:rni|rzi|rmi|rpi ftz? sat? d:{INTS} s:{FLOATS}", "d=s", float_to_integer)
given(f"cvt rnd:rn|rz|rm|rp|rni|rzi|rmi|rpi? ftz? relu? sat? d:{FLOATS} s:{FLOATS}", "d=s", float_to_float)


def tf32(m, a):
    u = np.ascontiguousarray(a, F32).view(U32)
    half = U32(0x1000) if m["rnd"] == "rna" else U32(0xFFF) + (u >> U32(13) & U32(1))
    return np.where(a != a, U32(0x7FFFFFFF), (u + half) & U32(0xFFFFE000))


# ---- fp8: tables of all values, nearest even by search ----

def values(exponent, mantissa, bias):
    """What the 128 positive codes mean; e4m3 has one NaN and no infinity."""
    codes = np.arange(128)
    e, f = codes >> mantissa, codes & (1 << mantissa) - 1
    v = np.where(e == 0, f * 2.0 ** (1 - bias - mantissa), (1 + f * 2.0 ** -mantissa) * 2.0 ** (e - bias))
    return np.where(codes == 127, np.nan, v) if exponent == 4 else np.where(e == 31, np.where(f == 0, np.inf, np.nan), v)


FP8 = {"e4m3": values(4, 3, 7), "e5m2": values(5, 2, 15)}


def narrow8(x, name):
    """f32 to fp8 with .satfinite: the largest finite value beyond the range, NaN stays."""
    finite, size = FP8[name][np.isfinite(FP8[name])], np.abs(np.asarray(x, F64))
    at = np.clip(np.searchsorted(finite, size), 1, len(finite) - 1)
    down, up = size - finite[at - 1], finite[at] - size
    code = np.where(size >= finite[-1], len(finite) - 1, at - ((down < up) | ((down == up) & (at % 2 == 1))))
    return np.where(np.isnan(x), 127, code | np.where(np.signbit(x), 128, 0)).astype(U16)


def widen8(code, name):
    r = np.concatenate([FP8[name], -FP8[name]])[np.asarray(code).astype(np.int64) & 255].astype(F16)
    return np.where(r != r, NAN16, r.view(U16)).astype(U32)


# ---- Pairs: the first source is the upper half ----

def pair(m, *sources):
    """Two f32 (or, as one packed source, two f16) to a packed pair."""
    name, _ = m["d"].split("x2")
    sources = sources if len(sources) == 2 else sources[0].reshape(-1, 2).T[::-1]
    high, low = (rectify(x) if "relu" in m else np.asarray(x) for x in sources)
    if name in FP8:
        return narrow8(high, name) << U16(8) | narrow8(low, name)
    return NARROW[name](high, m["rnd"]).view(U16).astype(U32) << U32(16) | NARROW[name](low, m["rnd"]).view(U16)


def pair_from_fp8(m, a):
    name, _ = m["s"].split("x2")
    return widen8(np.asarray(a) >> U16(8), name) << U32(16) | widen8(a, name)


def pack(m, a, b, c=0):
    info = np.iinfo(DTYPE[kind_of(m["d"])])
    out = np.asarray(c).astype(U64) << U64(2 * info.bits)
    for i, v in enumerate((b, a)):
        out = out | (np.clip(np.asarray(v).astype(np.int64), info.min, info.max) & (1 << info.bits) - 1).astype(U64) << U64(info.bits * i)
    return out.astype(U32)


given("cvt rnd:rna|rn satfinite? d:tf32 s:f32", "b32=f32", tf32)
given("cvt rnd:rn|rz relu? satfinite? d:f16x2|bf16x2 s:f32", "b32=f32,f32", pair)
given("cvt rn satfinite relu? d:e4m3x2|e5m2x2 s:f32", "b16=f32,f32", pair)
given("cvt rn satfinite relu? d:e4m3x2|e5m2x2 s:f16x2", "b16=f16x2", pair)
given("cvt rn relu? d:f16x2 s:e4m3x2|e5m2x2", "b32=b16", pair_from_fp8)
given("cvt pack sat d:s8|u8|s16|u16 s:s32", "b32=s32,s32", pack)
given("cvt pack sat d:s8|u8 s:s32 b32", "b32=s32,s32,b32", pack)

"""cvt: between integers, floats, and packed narrow floats."""
from __future__ import annotations

import numpy as np

from .floating import F16, F32, F64, NARROW, READ, U16, U32, U64, clean, flush, rectify, saturate, to_odd, two_sum
from .table import DTYPE, given, kind_of

INTS, FLOATS = "u8|s8|u16|s16|u32|s32|u64|s64", "f16|bf16|f32|f64"
WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def integer_to_integer(m, a):
    a, target = np.asarray(a), DTYPE[kind_of(m["d"])]
    own, info = np.iinfo(a.dtype), np.iinfo(target)
    return (np.clip(a, max(info.min, own.min), min(info.max, own.max)) if "sat" in m else a).astype(target)


def integer_to_float(m, a):
    """The upper and lower half of 64 bits are exact in float64; so is their sum rounded to odd."""
    a, target, mode = np.asarray(a), m["d"], m["rnd"]
    if target in ("f32", "f64") and mode == "rn" and "sat" not in m:
        return a.astype(DTYPE[target])
    wide = a.astype(np.int64 if a.dtype.kind == "i" else U64)
    near, error = two_sum((wide >> wide.dtype.type(32)).astype(F64) * 2.0 ** 32, (wide & wide.dtype.type(0xFFFFFFFF)).astype(F64))
    if "sat" in m:
        near, error = saturate(near), 0 * error
    if target == "f64":
        aside = {"rn": False, "rz": error * near < 0, "rm": error < 0, "rp": error > 0}[mode]
        return np.where(aside, np.nextafter(near, {"rz": 0.0, "rp": np.inf}.get(mode, -np.inf)), near)
    return NARROW[target](to_odd(near, error), mode)


def float_to_integer(m, a):
    """Clamped to the range; NaN is 0, or the sign bit where 64 bits come in or go out."""
    target, x = np.iinfo(DTYPE[kind_of(m["d"])]), READ.get(m["s"], np.asarray)(a)
    x = WHOLE[m["rnd"]]((flush(x) if "ftz" in m and m["s"] == "f32" else x).astype(F64))
    high = x > F64(target.max) if target.bits < 64 else x >= F64(target.max)     # float64(2^63 - 1) is 2^63
    low, nan = x <= F64(target.min), x != x
    inside = np.where(high | low | nan, 0, x).astype(U64 if target.min == 0 else np.int64).astype(target.dtype)
    bad = 0 if m["s"] != "f64" and target.bits <= 32 else target.min or 1 << target.bits - 1
    return np.where(nan, bad, np.where(high, target.max, np.where(low, target.min, inside))).astype(target.dtype)


def float_to_float(m, a):
    mode, source, target, x = m.get("rnd", "rn"), m["s"], m["d"], np.asarray(a)
    if source == target == "f32" and not {"rnd", "ftz", "sat"} & set(m):
        return x                                             # moves bits, like cvt.f32.bf16
    x = READ[source](x) if source in READ else x
    if (source, target) == ("bf16", "f32") and "ftz" not in m:
        return x
    for wanted, step in (("ftz" in m and source == "f32" and target != "f16", flush),    # to f16 the hardware keeps denormals
                         (mode in WHOLE, WHOLE.get(mode)), ("sat" in m, saturate), ("relu" in m, rectify)):
        x = step(x) if wanted else x
    if source == target and target in ("f16", "f32"):
        return clean(x)
    r = NARROW[target](x.astype(F32) if x.dtype == F16 else x, "rn" if mode in WHOLE else mode)
    r = flush(r) if "ftz" in m and target == "f32" else r
    return with_payload(r, x, target) if source == "f64" and "sat" not in m else r


def with_payload(r, x, target):
    """A NaN of f64 keeps its sign and the upper bits of its payload, and is made quiet."""
    if target == "f64" or not np.count_nonzero(x != x):
        return r
    digits, size, bits = {"f32": 23, "f16": 10, "bf16": 7}[target], 8 * r.dtype.itemsize, x.view(U64)
    top = bits >> U64(63) << U64(size - 1) | U64((1 << size - 1) - (1 << digits) | 1 << digits - 1)
    return np.where(x != x, (top | bits >> U64(52 - digits) & U64((1 << digits) - 1)).astype(f"u{size // 8}").view(r.dtype), r)


given(f"cvt sat? d:{INTS} s:{INTS}", "d=s", integer_to_integer)
given(f"cvt rnd:rn|rz|rm|rp sat? d:{FLOATS} s:{INTS}", "d=s", integer_to_float)
given(f"cvt rnd:rni|rzi|rmi|rpi ftz? sat? d:{INTS} s:{FLOATS}", "d=s", float_to_integer)
given(f"cvt rnd:rn|rz|rm|rp|rni|rzi|rmi|rpi? ftz? relu? sat? d:{FLOATS} s:{FLOATS}", "d=s", float_to_float)


LARGEST = {"f16": F32(65504), "bf16": U32(0x7F7F0000).view(F32), "tf32": U32(0x7F7FE000).view(F32)}


def finite(a, m, name):
    return np.clip(a, -LARGEST[name], LARGEST[name]) if "satfinite" in m else np.asarray(a)


def tf32(m, a):
    u = np.ascontiguousarray(finite(a, m, "tf32"), F32).view(U32)
    half = U32(0x1000) if m["rnd"] == "rna" else U32(0xFFF) + (u >> U32(13) & U32(1))
    r = np.where(a != a, U32(0x7FFFFFFF), (u + half) & U32(0xFFFFE000))
    return np.where(np.asarray(a) <= 0, U32(0), r) if "relu" in m else r


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
    return clean(np.concatenate([FP8[name], -FP8[name]])[np.asarray(code).astype(np.int64) & 255].astype(F16))


# ---- Pairs: the first source is the upper half ----

def pair(m, *sources):
    """Two f32 (or, as one packed source, two f16) to a packed pair."""
    name, _ = m["d"].split("x2")
    sources = sources if len(sources) == 2 else sources[0].reshape(-1, 2).T[::-1]
    high, low = (rectify(x) if "relu" in m else np.asarray(x) for x in sources)
    if name in FP8:
        return narrow8(high, name) << U16(8) | narrow8(low, name)
    high, low = (NARROW[name](finite(x, m, name), m["rnd"]).view(U16).astype(U32) for x in (high, low))
    return high << U32(16) | low


def pair_from_fp8(m, a):
    name, _ = m["s"].split("x2")
    high, low = (rectify(widen8(np.asarray(a) >> U16(by), name)) if "relu" in m else widen8(np.asarray(a) >> U16(by), name) for by in (8, 0))
    return high.view(U16).astype(U32) << U32(16) | low.view(U16)


def pack(m, a, b, c=0):
    info = np.iinfo(DTYPE[kind_of(m["d"])])
    out = np.asarray(c).astype(U64) << U64(2 * info.bits)
    for i, v in enumerate((b, a)):
        out = out | (np.clip(np.asarray(v).astype(np.int64), info.min, info.max) & (1 << info.bits) - 1).astype(U64) << U64(info.bits * i)
    return out.astype(U32)


given("cvt rnd:rna satfinite? d:tf32 s:f32", "b32=f32", tf32)
given("cvt rnd:rn relu? d:tf32 s:f32", "b32=f32", tf32)
given("cvt rnd:rn|rz relu? satfinite? d:f16x2|bf16x2 s:f32", "b32=f32,f32", pair)
given("cvt rn satfinite relu? d:e4m3x2|e5m2x2 s:f32", "b16=f32,f32", pair)
given("cvt rn satfinite relu? d:e4m3x2|e5m2x2 s:f16x2", "b16=f16x2", pair)
given("cvt rn relu? d:f16x2 s:e4m3x2|e5m2x2", "b32=b16", pair_from_fp8)
given("cvt pack sat d:s8|u8|s16|u16 s:s32", "b32=s32,s32", pack)
given("cvt pack sat d:s8|u8 s:s32 b32", "b32=s32,s32,b32", pack)

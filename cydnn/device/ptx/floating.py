"""Floating-point arithmetic and conversions, rounded as the hardware rounds; ``.approx``:
the function in float64, rounded once.

The processor does it: NumPy runs ``under`` a rounding mode, and what it cannot hold exactly is rounded to odd
on the way, so that the last rounding is the only one. Registers of f32, f64 and f16 are arrays of that type,
those of bf16 and narrower types are bits.
"""
from __future__ import annotations

import ctypes
import functools
import os
import platform

import numpy as np

from ...status import NotSupported
from .table import DTYPE, kind_of, row

F16, F32, F64, U16, U32, U64, I64 = (np.float16, np.float32, np.float64,
                                     np.uint16, np.uint32, np.uint64, np.int64)
# FE_TONEAREST, DOWNWARD, UPWARD, TOWARDZERO; arm64 is what macOS calls aarch64
FENV = {"x86_64": (0, 0x400, 0x800, 0xC00),
        **dict.fromkeys(("aarch64", "arm64"), (0, 0x800000, 0x400000, 0xC00000))}
if os.name != "posix" or platform.machine() not in FENV:
    raise NotSupported("ptx: the interpreter rounds by the processor and the system's C library, which must "
                       f"be of Linux or macOS on {', '.join(FENV)}; got {platform.system()} on "
                       f"{platform.machine()}")
LIBM = ctypes.CDLL(None)
LIBM.fma.restype, LIBM.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
one_fma = functools.lru_cache(1 << 14)(LIBM.fma)             # lanes that wait hold the same few numbers
MODES = dict(zip(("rn", "rm", "rp", "rz"), FENV[platform.machine()]))


# ---- Rounding ----

def under(mode, function, *arrays):
    """``function`` with the processor in a rounding mode."""
    LIBM.fesetround(MODES[mode])
    try:
        return function(*arrays)
    finally:
        LIBM.fesetround(0)


def odd(function, *arrays, down=False):
    """In float64, rounded to odd: of the two neighbours of an inexact result the one with its last bit set.
    ``down``: what cancels is -0."""
    low, high = under("rm", function, *arrays), under("rp", function, *arrays)
    return np.where((low.view(I64) & 1 == 1) | down & (low == high), low, high)


# digits, least exponent, largest number
FORMATS = {"f16": (11, -14, 65504.0), "bf16": (8, -126, 255 * 2.0 ** 120),
           "tf32": (11, -126, 2047 * 2.0 ** 117), "e4m3": (4, -6, 448.0), "e5m2": (3, -14, 57344.0)}
# e5m2 is the upper half of an f16; e4m3 has its bits at other places, one NaN and no infinity
CODES = np.arange(256, dtype=U16)
FP8 = {"e4m3": np.where(CODES & 127 == 127, np.nan,
                        ((CODES & 128) << 8 | (CODES & 127) << 7).view(F16).astype(F64) * 256),
       "e5m2": (CODES << 8).view(F16).astype(F64)}
READ = {"bf16": lambda a: (np.asarray(a).astype(U32) << U32(16)).view(F32),
        **{n: lambda a, t=t: t[np.asarray(a) & 255] for n, t in FP8.items()}}
WRITE = {"bf16": lambda x: np.where(x != x, U16(0x7FFF), (x.view(U32) >> U32(16)).astype(U16)),
         "tf32": lambda x: np.where(x != x, U32(0x7FFFFFFF), x.view(U32)),
         **{n: lambda x, t=t[:128][np.isfinite(t[:128])]: np.where(
             x != x, 127, np.searchsorted(t, np.abs(x)) | np.signbit(x) * 128).astype(U16)
            for n, t in FP8.items()}}
# the hardware's only ones
NAN = {np.dtype(F32): U32(0x7FFFFFFF).view(F32), np.dtype(F16): U16(0x7FFF).view(F16)}


def clean(r):
    """NaNs as the hardware has them."""
    nan = r != r
    return np.where(nan, NAN[r.dtype], r) if r.dtype != F64 and np.count_nonzero(nan) else r


def fit(x, name, mode="rn"):
    """The numbers of a type that are nearest to f32, or to float64 rounded to odd; in f16, f32 or f64.
    For narrow types a number is added that has their last digit as its own, and taken away again."""
    if name in ("f32", "f64") or (name, mode) == ("f16", "rn"):
        return under(mode, np.asarray(x).astype, DTYPE[name])
    (digits, least, largest), x = FORMATS[name], np.asarray(x, F64)
    unit = np.copysign(np.ldexp(1.0, np.clip(np.frexp(x)[1] - 1, least, 300) - digits + 1), x)
    near, way = (x + unit / 2, "rz") if mode == "rna" else (x, mode)
    y = np.copysign(under(way, np.add, near, unit * 1.5 * 2.0 ** 52) - unit * 1.5 * 2.0 ** 52, x)
    inner = {"rz": True, "rm": x > 0, "rp": x < 0}.get(mode, False)
    beyond = np.copysign(np.where(inner, largest, np.inf), x)
    return np.where((np.abs(y) > largest) & np.isfinite(x), beyond, y).astype(F16 if name == "f16" else F32)


def narrow(x, name, mode="rn"):
    """As registers of a type."""
    return WRITE.get(name, clean)(fit(x, name, mode))


def flush(a):
    """.ftz: a denormal becomes a zero of its sign."""
    a = np.asarray(a)
    return np.where(np.abs(a) < np.finfo(a.dtype).tiny, np.copysign(a.dtype.type(0), a), a)


def saturate(a):
    return np.where(a > 0, np.minimum(a, a.dtype.type(1)), a.dtype.type(0))


def rectify(a):
    """.relu: what is not above zero is +0, a NaN stays."""
    return np.where(a <= 0, np.asarray(a).dtype.type(0), a)


# ---- Arithmetic ----

def rounded(function, m, *arrays):
    """``function`` gives its result in the type, or in float64 rounded to odd."""
    name, mode = m["t"].removesuffix("x2"), m.get("rnd", "rn")
    arrays = [READ[name](a) if name in READ else a for a in arrays]
    r = fit(under(mode, function, *(map(flush, arrays) if "ftz" in m else arrays)), name, mode)
    for word, step in (("relu", rectify), ("ftz", flush), ("sat", saturate)):
        r = step(r) if word in m else r
    return WRITE.get(name, clean)(r)


def number(pattern: str, signature: str, function):
    row(pattern, signature, lambda m, *arrays: rounded(function, m, *arrays))


def fma(a, b, c, down=False):
    """Of f32 and narrower types: their products are exact in float64."""
    return odd(np.add, np.multiply(a, b, dtype=F64), c, down=down)


def two_sum(a, b):
    """(a + b rounded, its error)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def split(a):
    t = 134217729.0 * a
    high = t - (t - a)
    return high, a - high


def fma64(a, b, c):
    """Boldo and Melquiond (2008): the sum of the product's two parts and c, the low parts rounded to odd;
    libm where a part leaves the range."""
    a, b, c = np.broadcast_arrays(*(np.asarray(x, F64) for x in (a, b, c)))
    p, (ah, al), (bh, bl) = a * b, split(a), split(b)
    th, tl = two_sum(c, al * bl - (((p - ah * bh) - al * bh) - ah * bl))
    vh, vl = two_sum(p, th)
    r, size = vh + odd(np.add, tl, vl), np.abs(p)
    easy = (size > 1e-270) & (size < 1e300) & (np.maximum(np.abs(a), np.abs(b)) < 1e290) & (np.abs(c) < 1e300)
    zero = (a == 0) | (b == 0) | ~np.isfinite(p) | ~np.isfinite(c)
    hard = ~easy & (~zero | np.isfinite(a) & np.isfinite(b) & np.isinf(p))
    r = np.where(zero, p + c, r)
    r[hard] = list(map(one_fma, a[hard].tolist(), b[hard].tolist(), c[hard].tolist()))
    return r


def upper(a):
    """The upper half of the bits of f64."""
    return (np.asarray(a).view(U64) & U64(0xFFFFFFFF00000000)).view(F64)


def extreme(fn, joined, a, b):
    """min or max: a number beats NaN unless .NaN; -0 is less than +0."""
    r, zero = fn(a, b), (np.asarray(a) == 0) & (np.asarray(b) == 0)
    if np.count_nonzero(zero):
        r = np.where(zero,
                     np.where(joined(np.signbit(a), np.signbit(b)), -r.dtype.type(0), r.dtype.type(0)), r)
    return r


HALF, BF16 = "f16|f16x2", "bf16|bf16x2"
for name, fn in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
    row(f"{name} rn? t:f32", "t=t,t", lambda a, b, fn=fn: clean(fn(a, b)))
    row(f"{name} rn? t:f64", "t=t,t", fn)
    number(f"{name} rnd:rn|rz|rm|rp? ftz? sat? t:f32", "t=t,t", fn)
    number(f"{name} rn? ftz? sat? t:{HALF}", "t=t,t", fn)
    number(f"{name} rn? t:{BF16}", "t=t,t", fn)
row("fma rn t:f32", "t=t,t,t", lambda a, b, c: clean(fma(a, b, c).astype(F32)))
row("fma rn t:f64", "t=t,t,t", fma64)
number("mad rn ftz? t:f32", "t=t,t,t", fma)
number("fma rnd:rn|rz|rp ftz? sat? t:f32", "t=t,t,t", fma)
number("fma rnd:rm ftz? sat? t:f32", "t=t,t,t", functools.partial(fma, down=True))
number(f"fma rn ftz? sat? relu? t:{HALF}", "t=t,t,t", fma)
number(f"fma rn relu? t:{BF16}", "t=t,t,t", fma)
number("div how:rn|approx|full ftz? t:f32", "t=t,t", np.divide)
number("rcp rn ftz? t:f32", "t=t", lambda a: np.divide(F32(1), a))
number("sqrt rn ftz? t:f32", "t=t", np.sqrt)
row("div rn t:f64", "t=t,t", np.divide)
row("rcp rn t:f64", "t=t", lambda a: np.divide(1.0, a))
row("sqrt rn t:f64", "t=t", np.sqrt)
row("rsqrt approx t:f64", "t=t", lambda a: 1.0 / np.sqrt(a))
row("rcp approx ftz t:f64", "t=t", lambda a: flush(upper(np.divide(1.0, flush(upper(a))))))
row("rsqrt approx ftz t:f64", "t=t", lambda a: flush(1.0 / np.sqrt(flush(a))))
# the PTX ISA bounds the hardware's error
for name, fn in (("rcp", lambda x: 1.0 / x), ("rsqrt", lambda x: 1.0 / np.sqrt(x)), ("sqrt", np.sqrt),
                 ("ex2", np.exp2), ("lg2", np.log2), ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh)):
    types = f"f32|{HALF}|{BF16}" if name in ("ex2", "tanh") else "f32"
    number(f"{name} approx ftz? t:{types}", "t=t", lambda a, fn=fn: fn(np.asarray(a).astype(F64)))
for name, pick, strict, joined in (("min", np.fmin, np.minimum, np.bitwise_or),
                                   ("max", np.fmax, np.maximum, np.bitwise_and)):
    number(f"{name} ftz? t:f32|f64|{HALF}|{BF16}", "t=t,t", functools.partial(extreme, pick, joined))
    number(f"{name} ftz? NaN t:f32|{HALF}|{BF16}", "t=t,t", functools.partial(extreme, strict, joined))
for name, fn, bits in (("neg", np.negative, lambda a: a ^ U16(0x8000)),
                       ("abs", np.abs, lambda a: a & U16(0x7FFF))):
    row(f"{name} t:f32|f64|{HALF}", "t=t", fn)
    row(f"{name} ftz t:f32|{HALF}", "t=t", lambda a, fn=fn: flush(fn(a)))
    row(f"{name} t:{BF16}", "t=t", bits)
row("copysign t:f32|f64", "t=t,t", lambda a, b: np.copysign(b, a))
for name, fn in (("finite", np.isfinite), ("infinite", np.isinf), ("notanumber", np.isnan),
                 ("number", lambda a: a == a),
                 ("normal", lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny) | (a == 0)),
                 ("subnormal", lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny))):
    row(f"testp {name} t:f32|f64", "pred=t", fn)


# ---- cvt ----

WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def integer_to_integer(m, a):
    a, target = np.asarray(a), DTYPE[kind_of(m["d"])]
    own, info = np.iinfo(a.dtype), np.iinfo(target)
    return (np.clip(a, max(info.min, own.min), min(info.max, own.max)) if "sat" in m else a).astype(target)


def integer_to_float(m, a):
    a, target = np.asarray(a), m["d"]
    if target in ("f32", "f64"):
        r = under(m["rnd"], a.astype, DTYPE[target]) + DTYPE[target].type(0)         # of 0, rm makes -0
        return saturate(r) if "sat" in m else r
    x = odd(a.astype, F64)
    return narrow(saturate(x) if "sat" in m else x, target, m["rnd"])


def float_to_integer(m, a):
    """Clamped to the range; NaN is 0, or the sign bit where 64 bits come in or go out."""
    target, x = np.iinfo(DTYPE[kind_of(m["d"])]), READ.get(m["s"], np.asarray)(a)
    x = WHOLE[m["rnd"]]((flush(x) if "ftz" in m and m["s"] == "f32" else x).astype(F64))
    high = x > F64(target.max) if target.bits < 64 else x >= F64(target.max)    # float64(2^63 - 1) is 2^63
    low, nan = x <= F64(target.min), x != x
    inside = np.where(high | low | nan, 0, x).astype(U64 if target.min == 0 else I64).astype(target.dtype)
    bad = 0 if m["s"] != "f64" and target.bits <= 32 else target.min or 1 << target.bits - 1
    return np.where(nan, bad,
                    np.where(high, target.max, np.where(low, target.min, inside))).astype(target.dtype)


def float_to_float(m, a):
    mode, source, target, x = m.get("rnd", "rn"), m["s"], m["d"], READ.get(m["s"], np.asarray)(a)
    if "ftz" not in m and ((source, target) == ("bf16", "f32")
                           or source == target == "f32" and not {"rnd", "sat"} & set(m)):
        return x                                             # moves bits
    # to f16 the hardware keeps denormals
    for wanted, step in (("ftz" in m and source == "f32" and target != "f16", flush),
                         (mode in WHOLE, WHOLE.get(mode)), ("sat" in m, saturate), ("relu" in m, rectify)):
        x = step(x) if wanted else x
    r = fit(x, target, "rn" if mode in WHOLE else mode)
    r = WRITE.get(target, clean)(flush(r) if "ftz" in m and target == "f32" else r)
    return (r if source != "f64" or target == "f64" or "sat" in m
            else with_payload(r, x, {"f32": 23, "f16": 10, "bf16": 7}[target]))


def with_payload(r, x, digits):
    """A NaN of f64 keeps its sign and the upper bits of its payload, and is made quiet."""
    size, bits = 8 * r.dtype.itemsize, np.asarray(x).view(U64)
    top = bits >> U64(63) << U64(size - 1) | U64((1 << size - 1) - (1 << digits) | 1 << digits - 1)
    return np.where(x != x, (top | bits >> U64(52 - digits) & U64((1 << digits) - 1)).astype(
        f"u{size // 8}").view(r.dtype), r)


def narrowed(m, *sources):
    """f32 (or, as one packed source, two f16) to a type of 8, 16 or 19 bits; of a pair
    the first source is the upper half."""
    name, *pair = m["d"].split("x")
    sources = sources if len(sources) == 2 or not pair else sources[0].reshape(-1, 2).T[::-1]
    parts, most = [np.asarray(x, F64) for x in sources], FORMATS[name][2]
    parts = [rectify(x) if "relu" in m else x for x in parts]
    parts = [narrow(np.clip(x, -most, most) if "satfinite" in m else x, name, m.get("rnd", "rn"))
             for x in parts]
    return (parts[0] if not pair
            else parts[0].view(U16).astype(U32) << U32(8 if name in FP8 else 16) | parts[1].view(U16))


def pair_from_fp8(m, a):
    parts = [READ[m["s"].removesuffix("x2")](np.asarray(a) >> U16(by)).astype(F16) for by in (8, 0)]
    high, low = (clean(rectify(x) if "relu" in m else x).view(U16) for x in parts)
    return high.astype(U32) << U32(16) | low


def packed(m, a, b, c=0):
    info = np.iinfo(DTYPE[kind_of(m["d"])])
    parts = [(np.clip(np.asarray(v).astype(I64), info.min, info.max) & (1 << info.bits) - 1).astype(U64)
             for v in (a, b)]
    return (np.asarray(c).astype(U64) << U64(2 * info.bits) | parts[0] << U64(info.bits)
            | parts[1]).astype(U32)


INTS, FLOATS = "u8|s8|u16|s16|u32|s32|u64|s64", "f16|bf16|f32|f64"
row(f"cvt sat? d:{INTS} s:{INTS}", "d=s", integer_to_integer)
row(f"cvt rnd:rn|rz|rm|rp sat? d:{FLOATS} s:{INTS}", "d=s", integer_to_float)
row(f"cvt rnd:rni|rzi|rmi|rpi ftz? sat? d:{INTS} s:{FLOATS}", "d=s", float_to_integer)
row(f"cvt rnd:rn|rz|rm|rp|rni|rzi|rmi|rpi? ftz? relu? sat? d:{FLOATS} s:{FLOATS}", "d=s", float_to_float)
row("cvt rnd:rna satfinite? d:tf32 s:f32", "b32=f32", narrowed)
row("cvt rnd:rn relu? d:tf32 s:f32", "b32=f32", narrowed)
row("cvt rnd:rn|rz relu? satfinite? d:f16x2|bf16x2 s:f32", "b32=f32,f32", narrowed)
row("cvt rn satfinite relu? d:e4m3x2|e5m2x2 s:f32", "b16=f32,f32", narrowed)
row("cvt rn satfinite relu? d:e4m3x2|e5m2x2 s:f16x2", "b16=f16x2", narrowed)
row("cvt rn relu? d:f16x2 s:e4m3x2|e5m2x2", "b32=b16", pair_from_fp8)
row("cvt pack sat d:s8|u8|s16|u16 s:s32", "b32=s32,s32", packed)
row("cvt pack sat d:s8|u8 s:s32 b32", "b32=s32,s32,b32", packed)

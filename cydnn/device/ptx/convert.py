"""cvt: between integers, floats, and packed narrow floats."""
from __future__ import annotations

import numpy as np

from .floating import F32, F64, NAN16, clean32, flush, narrow16, narrow32, narrow_bf16, saturate, to_odd, two_sum, widen_bf16
from .table import DTYPE, apply, kind_of, row

INTS = "u8|s8|u16|s16|u32|s32|u64|s64"
FLOATS = "f16|bf16|f32|f64"
WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
RAW = {"f16": "b16", "bf16": "b16"}              # narrow floats are read and written as bits
READ = {"f16": lambda a: np.asarray(a).view(np.float16).astype(F32), "bf16": widen_bf16}
WRITE = {"f16": narrow16, "bf16": narrow_bf16, "f32": narrow32, "f64": lambda x, mode: np.asarray(x, F64)}


def positive(x):
    """.relu: what is not above zero is +0, a NaN stays."""
    x = np.asarray(x)
    return np.where(x <= 0, x.dtype.type(0), x)


def integer_to_integer(m):
    target = DTYPE[kind_of(m["d"])]
    low, high = np.iinfo(target).min, np.iinfo(target).max
    if "sat" not in m:
        return lambda a: np.asarray(a).astype(target)

    def clamp(a):
        a = np.asarray(a)
        info = np.iinfo(a.dtype)
        return np.clip(a, max(low, info.min), min(high, info.max)).astype(target)
    return clamp


def integer_to_float(m):
    target, mode = m["d"], m.get("rnd", "rn")

    def convert(a):
        a = np.asarray(a)
        if target in ("f32", "f64") and mode == "rn" and "sat" not in m:
            return a.astype(DTYPE[target])
        wide = a.astype(np.int64 if a.dtype.kind == "i" else np.uint64)
        near, error = two_sum((wide >> wide.dtype.type(32)).astype(F64) * 2.0 ** 32, (wide & wide.dtype.type(0xFFFFFFFF)).astype(F64))
        if "sat" in m:
            near, error = saturate(near), 0 * error
        if target == "f64":
            aside = {"rn": 0, "rz": error * near < 0, "rm": error < 0, "rp": error > 0}[mode]
            return np.where(aside, np.nextafter(near, {"rz": 0.0, "rp": np.inf}.get(mode, -np.inf)), near)
        return WRITE[target](to_odd(near, error), mode)
    return convert


def float_to_integer(m):
    target, whole = np.iinfo(DTYPE[kind_of(m["d"])]), WHOLE[m["rnd"]]
    nan = 0 if m["s"] != "f64" and target.bits <= 32 else 1 << target.bits - 1

    def convert(a):
        x = READ.get(m["s"], np.asarray)(a)
        x = whole((flush(x) if "ftz" in m else x).astype(F64))
        high = x > F64(target.max) if target.bits < 64 else x >= F64(target.max)     # float64(2^63 - 1) is 2^63
        low = x <= F64(target.min)
        inside = np.where(high | low | (x != x), 0, x).astype(np.uint64 if target.min == 0 else np.int64).astype(target.dtype)
        bad = np.array([nan & (1 << target.bits) - 1], np.uint64).astype("u%d" % (target.bits // 8)).view(target.dtype)[0]
        return np.where(x != x, bad, np.where(high, target.max, np.where(low, target.min, inside))).astype(target.dtype)
    return convert


def float_to_float(m):
    mode, source, target = m.get("rnd", "rn"), m["s"], m["d"]

    def convert(a):
        x = READ.get(source, np.asarray)(a)
        if "ftz" in m and source == "f32" and target != "f16":   # to f16 the hardware keeps denormals, which .rm and .rp show
            x = flush(x)
        if mode in WHOLE:
            x = WHOLE[mode](x)
        if "sat" in m:
            x = saturate(x)
        if "relu" in m:
            x = positive(x)
        if source == target:
            return clean32(x) if target == "f32" else WRITE[target](x, "rn")
        r = WRITE[target](x, "rn" if mode in WHOLE else mode)
        r = flush(r) if "ftz" in m and target == "f32" else r
        return with_payload(r, x, target) if source == "f64" and "sat" not in m else r
    if source == target == "f32" and set(m) == {"d", "s"}:
        return lambda a: a                       # moves bits, like cvt.f32.bf16
    if (source, target) == ("bf16", "f32") and "ftz" not in m:
        return widen_bf16
    return convert


def with_payload(r, x, target):
    """A NaN of f64 keeps its sign and the upper bits of its payload, and is made quiet."""
    if target == "f64" or not np.count_nonzero(x != x):
        return r
    digits = {"f32": 23, "f16": 10, "bf16": 7}[target]
    bits = x.view(np.uint64)
    size = 32 if target == "f32" else 16
    top = (bits >> np.uint64(63) << np.uint64(size - 1)) | np.uint64((1 << size - 1) - (1 << digits)) | np.uint64(1 << digits - 1)
    kept = (top | bits >> np.uint64(52 - digits) & np.uint64((1 << digits) - 1)).astype(f"u{size // 8}").view(r.dtype)
    return np.where(x != x, kept, r)


def _cvt(make):
    def built(op, m):
        op.need(2)
        d, s = RAW.get(m["d"], m["d"]), RAW.get(m["s"], m["s"])
        return apply(make(m), op.target(op.operands[0], d), [op.source(op.operands[1], s)], False)
    return built


row(f"cvt sat? d:{INTS} s:{INTS}", None, _cvt(integer_to_integer))
row(f"cvt rnd:rn|rz|rm|rp sat? d:{FLOATS} s:{INTS}", None, _cvt(integer_to_float))
row(f"cvt rnd:rni|rzi|rmi|rpi ftz? sat? d:{INTS} s:{FLOATS}", None, _cvt(float_to_integer))
row(f"cvt rnd:rn|rz|rm|rp|rni|rzi|rmi|rpi? ftz? relu? sat? d:{FLOATS} s:{FLOATS}", None, _cvt(float_to_float))


def tf32(m):
    def convert(a):
        u = np.ascontiguousarray(np.clip(a, -LARGEST["tf32"], LARGEST["tf32"]) if "satfinite" in m else a, F32).view(np.uint32)
        half = np.uint32(0x1000) if m["rnd"] == "rna" else np.uint32(0xFFF) + (u >> np.uint32(13) & np.uint32(1))
        r = np.where(a != a, np.uint32(0x7FFFFFFF), (u + half) & np.uint32(0xFFFFE000))
        return np.where(np.asarray(a) <= 0, np.uint32(0), r) if "relu" in m else r
    return convert


row("cvt rnd:rna satfinite? d:tf32 s:f32", "b32=f32", tf32, make=True)
row("cvt rnd:rn relu? d:tf32 s:f32", "b32=f32", tf32, make=True)


# ---- Pairs: the first source is the upper half ----

LARGEST = {"f16x2": F32(65504), "bf16x2": np.uint32(0x7F7F0000).view(F32), "tf32": np.uint32(0x7F7FE000).view(F32)}


def pair(m):
    write = WRITE[m["d"][:-2]]

    def convert(a, b):
        if "relu" in m:
            a, b = positive(a), positive(b)
        if "satfinite" in m:
            a, b = (np.clip(x, -LARGEST[m["d"]], LARGEST[m["d"]]) for x in (a, b))
        high, low = (write(np.asarray(x), m["rnd"]).astype(np.uint32) for x in (a, b))
        return high << np.uint32(16) | low
    return convert


row("cvt rnd:rn|rz relu? satfinite? d:f16x2|bf16x2 s:f32", "b32=f32,f32", pair, make=True)


# ---- fp8: tables of all 256 values, nearest even by search ----

def _values(exponent, mantissa, bias, finite_nan):
    codes = np.arange(128)
    e, f = codes >> mantissa, codes & (1 << mantissa) - 1
    v = np.where(e == 0, f * 2.0 ** (1 - bias - mantissa), (1 + f * 2.0 ** -mantissa) * 2.0 ** (e - bias))
    if finite_nan:
        v[127] = np.nan
    else:
        v = np.where(e == (1 << exponent) - 1, np.where(f == 0, np.inf, np.nan), v)
    return v


FP8 = {"e4m3": _values(4, 3, 7, True), "e5m2": _values(5, 2, 15, False)}


def to_fp8(x, name):
    """f32 to fp8 with .satfinite: the largest finite value beyond the range, NaN stays."""
    table = FP8[name]
    finite = table[np.isfinite(table)]
    size = np.abs(np.asarray(x, F64))
    at = np.clip(np.searchsorted(finite, size), 1, len(finite) - 1)
    low, high = finite[at - 1], finite[at]
    code = np.where((size - low < high - size) | ((size - low == high - size) & (at % 2 == 1)), at - 1, at)
    code = np.where(size >= finite[-1], len(finite) - 1, code)
    return np.where(np.isnan(x), 127, code | np.where(np.signbit(x), 128, 0)).astype(np.uint16)


def from_fp8(code, name):
    code = np.asarray(code).astype(np.int64)
    value = FP8[name][code & 127]
    return np.where(code & 128, -value, value).astype(np.float16)


def pair_to_fp8(m):
    def convert(*ab):
        a, b = ab if len(ab) == 2 else (ab[0].reshape(-1, 2)[:, 1], ab[0].reshape(-1, 2)[:, 0])
        if "relu" in m:
            a, b = positive(a), positive(b)
        return to_fp8(a, m["d"][:-2]) << np.uint16(8) | to_fp8(b, m["d"][:-2])
    return convert


def pair_from_fp8(m):
    def convert(a):
        halves = [from_fp8(np.asarray(a) >> np.uint16(s) & np.uint16(255), m["s"][:-2]) for s in (0, 8)]
        halves = [positive(h) for h in halves] if "relu" in m else halves
        bits = [np.where(h != h, NAN16, h.view(np.uint16)).astype(np.uint32) for h in halves]
        return bits[1] << np.uint32(16) | bits[0]
    return convert


row("cvt rn satfinite relu? d:e4m3x2|e5m2x2 s:f32", "b16=f32,f32", pair_to_fp8, make=True)
row("cvt rn satfinite relu? d:e4m3x2|e5m2x2 s:f16x2", "b16=f16x2", pair_to_fp8, make=True)
row("cvt rn relu? d:f16x2 s:e4m3x2|e5m2x2", "b32=b16", pair_from_fp8, make=True)


def pack(m):
    info = np.iinfo(DTYPE[kind_of(m["d"])])

    def packed(a, b, *c):
        bits, out = info.bits, np.asarray(c[0] if c else 0).astype(np.uint64) << np.uint64(2 * info.bits)
        for i, v in enumerate((b, a)):
            out = out | (np.clip(np.asarray(v).astype(np.int64), info.min, info.max) & (1 << bits) - 1).astype(np.uint64) << np.uint64(bits * i)
        return out.astype(np.uint32)
    return packed


row("cvt pack sat d:s8|u8|s16|u16 s:s32", "b32=s32,s32", pack, make=True)
row("cvt pack sat d:s8|u8 s:s32 b32", "b32=s32,s32,b32", pack, make=True)

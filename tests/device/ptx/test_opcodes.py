"""Every kind of instruction on edge values, against closed forms in Python integers, fractions and NumPy."""
from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import snippet

I32 = np.array([0, 1, -1, 2, 7, -8, 31, 32, 33, 2**31 - 1, -2**31, 123456789,
                -987654321, 0x55555555, 255, -256], np.int64)
I64 = np.array([0, 1, -1, 2**31, -2**31, 2**32 - 1, 2**63 - 1, -2**63, 0x123456789ABCDEF, 63, 64, 65], object)
F32 = np.array([0.0, -0.0, 1.0, -1.0, 0.1, 3.5, -2.5, 0.5, 1.5, 1e-45, -1e-45, 1.1754944e-38, 1e-40,
                3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan, 65504.0, 65520.0, 1e5, 1e10, -1e10,
                16777217.0, 0.33333334, 2.0 ** -14, 2.0 ** -24, 2.0 ** -25], np.float32)
F64 = np.array([0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 5e-324, -5e-324, 2.2250738585072014e-308,
                1.7976931348623157e308, np.inf, -np.inf, np.nan, 1e-200, 1e200,
                1 + 2.0 ** -52, 2.0 ** 53 + 2, np.pi], np.float64)


def pairs(values):
    a, b = np.meshgrid(np.arange(len(values)), np.arange(len(values)))
    return values[a.ravel()], values[b.ravel()]


def chunks(*arrays):
    for at in range(0, len(arrays[0]), 128):
        yield [a[at:at + 128] for a in arrays]


def wrap(value, type_):
    bits = snippet.BITS[type_]
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if type_[0] == "s" and value >> bits - 1 else value


def trunc(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INTEGER = {                                      # opcode without type -> Python integers
    "add": lambda a, b, n: a + b, "sub": lambda a, b, n: a - b, "mul.lo": lambda a, b, n: a * b,
    "mul.hi": lambda a, b, n: a * b >> n, "min": lambda a, b, n: min(a, b), "max": lambda a, b, n: max(a, b),
    "div": lambda a, b, n: trunc(a, b) if b else -1, "rem": lambda a, b, n: a - trunc(a, b) * b if b else -1,
}


@pytest.mark.parametrize("type_", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("name", INTEGER)
def test_integers(ptx80, name, type_):
    values = np.array([wrap(v, type_) for v in (I64 if "64" in type_ else I32)], snippet.NUMPY[type_])
    for a, b in chunks(*pairs(values)):
        got = snippet.run(ptx80, f"{name}.{type_}", type_, [type_, type_], a, b)
        want = [wrap(INTEGER[name](int(x), int(y), snippet.BITS[type_]), type_) for x, y in zip(a, b)]
        assert got.tolist() == want, (name, type_)


@pytest.mark.parametrize("type_", ["b16", "b32", "b64", "s16", "s32", "s64", "u32"])
def test_shifts(ptx80, type_):
    values = np.array([wrap(v, type_) for v in (I64 if "64" in type_ else I32)], snippet.NUMPY[type_])
    bits = snippet.BITS[type_]
    for count in (0, 1, bits - 1, bits, bits + 1, 255, 2**31):
        n = np.full(len(values), count, np.uint32)
        got = snippet.run(ptx80, f"shr.{type_}", type_, [type_, "u32"], values, n)
        assert got.tolist() == [wrap(int(v) >> min(count, 4 * bits), type_) for v in values]
        if type_[0] == "b":
            got = snippet.run(ptx80, f"shl.{type_}", type_, [type_, "u32"], values, n)
            assert got.tolist() == [wrap(int(v) << min(count, 4 * bits), type_) for v in values]


def bfe(v, start, length, type_):
    bits = snippet.BITS[type_]
    raw, out = int(v) & ((1 << bits) - 1), 0
    sign = 0 if type_[0] == "u" or not length else raw >> min(start + length - 1, bits - 1) & 1
    for i in range(bits):
        out |= (raw >> start + i & 1 if i < length and start + i < bits else sign) << i
    return wrap(out, type_)


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_bit_fields(ptx80, type_):
    values = np.array([wrap(v, type_) for v in (I64 if "64" in type_ else I32)], snippet.NUMPY[type_])
    for start, length in ((0, 0), (0, 5), (4, 8), (3, 31), (31, 1), (28, 9),
                          (0, 32), (40, 30), (63, 4), (0, 64)):
        s, n = (np.full(len(values), x, np.uint32) for x in (start, length))
        got = snippet.run(ptx80, f"bfe.{type_}", type_, [type_, "u32", "u32"], values, s, n)
        assert got.tolist() == [bfe(v, start, length, type_) for v in values], (start, length)


def test_bit_counts(ptx80):
    v = (I32 & 0xFFFFFFFF).astype(np.uint32)
    assert (snippet.run(ptx80, "popc.b32", "u32", ["b32"], v).tolist()
            == [bin(x).count("1") for x in v.tolist()])
    assert (snippet.run(ptx80, "clz.b32", "u32", ["b32"], v).tolist()
            == [32 - x.bit_length() for x in v.tolist()])
    assert (snippet.run(ptx80, "brev.b32", "b32", ["b32"], v).tolist()
            == [int(f"{x:032b}"[::-1], 2) for x in v.tolist()])
    assert (snippet.run(ptx80, "bfind.u32", "u32", ["u32"], v).tolist()
            == [x.bit_length() - 1 & 0xFFFFFFFF for x in v.tolist()])
    w = np.array([wrap(x, "b64") for x in I64], np.uint64)
    assert (snippet.run(ptx80, "clz.b64", "u32", ["b64"], w).tolist()
            == [64 - x.bit_length() for x in w.tolist()])


def test_bits_of_three(ptx80):
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 2**32, (3, 64), np.uint32)
    for table in (0x96, 0xE8, 0xCA, 0x01, 0xF8):
        want = [sum((table >> (4 * (x >> i & 1) + 2 * (y >> i & 1) + (z >> i & 1)) & 1) << i
                    for i in range(32)) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())]
        assert snippet.run(ptx80, "lop3.b32", "b32", ["b32"] * 3, a, b, c, tail=f", {table}").tolist() == want
    select = np.tile([0x3210, 0x7654, 0x1054, 0xBA98, 0x0123, 0x8F70], 11)[:64].astype(np.uint32)

    def prmt(x, y, s):
        raw = (x | y << 32).to_bytes(8, "little")
        byte = lambda k: (0xFF if raw[k & 7] & 128 else 0) if k & 8 else raw[k & 7]
        return int.from_bytes(bytes(byte(s >> 4 * i & 15) for i in range(4)), "little")
    assert (snippet.run(ptx80, "prmt.b32", "b32", ["b32", "b32", "b32"], a, b, select).tolist()
            == [prmt(*t) for t in zip(a.tolist(), b.tolist(), select.tolist())])
    n = np.arange(64, dtype=np.uint32)
    both = [(int(y) << 32 | int(x)) for x, y in zip(a, b)]
    assert (snippet.run(ptx80, "shf.l.wrap.b32", "b32", ["b32", "b32", "u32"], a, b, n).tolist()
            == [(v << (k & 31)) >> 32 & 0xFFFFFFFF for v, k in zip(both, range(64))])
    assert (snippet.run(ptx80, "shf.r.clamp.b32", "b32", ["b32", "b32", "u32"], a, b, n).tolist()
            == [v >> min(k, 32) & 0xFFFFFFFF for v, k in zip(both, range(64))])
    signed = [sum(wrap(x >> 8 * i, "s8") * wrap(y >> 8 * i, "s8") for i in range(4)) + z
              for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())]
    assert (snippet.run(ptx80, "dp4a.s32.s32", "s32", ["b32"] * 3, a, b, c).tolist()
            == [wrap(v, "s32") for v in signed])
    length, start = (np.tile([0, 5, 32, 8], 16).astype(np.uint32),
                     np.tile([0, 3, 28, 31], 16).astype(np.uint32))
    mask = [((1 << int(n)) - 1) << int(s) & 0xFFFFFFFF for n, s in zip(length, start)]
    want = [(int(y) & ~m & 0xFFFFFFFF) | (int(x) << int(s) & m) for x, y, s, m in zip(a, b, start, mask)]
    assert snippet.run(ptx80, "bfi.b32", "b32", ["b32", "b32", "u32", "u32"],
                       a, b, start, length).tolist() == want


def same_floats(got, want):
    got, want = np.asarray(got), np.asarray(want)
    bits = "u%d" % got.dtype.itemsize
    nan = np.isnan(want)
    assert (np.isnan(got) == nan).all()
    assert (np.ascontiguousarray(got[~nan]).view(bits)
            == np.ascontiguousarray(want[~nan].astype(got.dtype)).view(bits)).all()


def exact(value: Fraction, dtype, mode="rn"):
    """A fraction rounded to a float type: nearest even, or toward a side."""
    if value == 0:
        return dtype(0)
    with np.errstate(all="ignore"):
        near = dtype(float(value)) if dtype is np.float64 else dtype(np.float64(float(value)))
        candidates = {float(np.nextafter(near, dtype(-np.inf))), float(near),
                      float(np.nextafter(near, dtype(np.inf)))}
    finite = sorted(c for c in candidates if np.isfinite(c))
    top = float(np.finfo(dtype).max)
    if mode == "rn":
        limit = Fraction(top) + Fraction(top) - Fraction(float(np.nextafter(dtype(top), dtype(0))))
        if abs(value) * 2 >= Fraction(top) + limit:
            return dtype(np.inf if value > 0 else -np.inf)
        even = lambda c: int(np.array(c, dtype).view("u%d" % dtype().itemsize)) & 1
        return dtype(min(finite, key=lambda c: (abs(Fraction(c) - value), even(c))))
    below, above = [c for c in finite if Fraction(c) <= value], [c for c in finite if Fraction(c) >= value]
    low, high = (below[-1] if below else -np.inf), (above[0] if above else np.inf)
    return dtype({"rm": low, "rp": high, "rz": low if value > 0 else high}[mode])


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_fma_is_rounded_once(ptx80, mode):
    rng = np.random.default_rng(1)
    cases = []
    for _ in range(400):
        a, b = (np.float32(rng.choice([1, -1]) * rng.integers(1, 2**24) * 2.0 ** rng.integers(-60, 40))
                for _ in range(2))
        p = Fraction(float(a)) * Fraction(float(b))
        c = np.float32(np.clip(float(p), -1e30, 1e30)) * np.float32(
            rng.choice([-1, 1, 2.0 ** 24, 2.0 ** -24, 2.0 ** -25, -2.0 ** 23, 0.5]))
        cases.append((a, b, c))
    cases += [(np.float32(1 + 2.0 ** -12), np.float32(1 + 2.0 ** -12), np.float32(2.0 ** -80)),
              (np.float32(2.0 ** -100), np.float32(3 * 2.0 ** -50), np.float32(1e-45)),
              (np.float32(2.0 ** -75), np.float32(2.0 ** -75), np.float32(0)),
              (np.float32(3e38), np.float32(1), np.float32(1e38))]
    with np.errstate(all="ignore"):
        for a, b, c in chunks(*(np.array(x, np.float32) for x in zip(*cases))):
            got = snippet.run(ptx80, f"fma.{mode}.f32", "f32", ["f32"] * 3, a, b, c)
            want = [exact(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), np.float32, mode)
                    for x, y, z in zip(a, b, c)]
            finite = np.isfinite(want) & np.isfinite(c) & (np.array(want) != 0)
            same_floats(got[finite], np.array(want)[finite])


def test_fma_f64(ptx80):
    rng = np.random.default_rng(2)
    a, b = (rng.choice([1, -1], 300) * rng.integers(2**52, 2**53, 300) * 2.0 ** rng.integers(-80, 60, 300)
            for _ in range(2))
    c = -a * b * rng.choice([1, 1 + 2.0 ** -52, 2.0 ** 53, 2.0 ** -54, 0.5, 2.0 ** -106], 300)
    a[:6], b[:6], c[:6] = ([1e-200, 1e-160, 1e200, 5e-324, 1e308, 1e-308],
                           [1e-120, 1e-160, 1e108, 0.5, 10, 1e-10],
                           [1e-320, 0, -1e308, 5e-324, -1e308, 5e-324])
    for x, y, z in chunks(a, b, c):
        got = snippet.run(ptx80, "fma.rn.f64", "f64", ["f64"] * 3, x, y, z)
        totals = [Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)) for p, q, r in zip(x, y, z)]
        want = np.array(
            [float(t) if abs(t) < Fraction(2) ** 1024 else np.inf * (1 if t > 0 else -1) for t in totals])
        same_floats(got[want != 0], want[want != 0])


FLOAT_PAIRS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div.rn": np.divide}


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("name", FLOAT_PAIRS)
def test_float_arithmetic(ptx80, name, type_):
    values = F32 if type_ == "f32" else F64
    with np.errstate(all="ignore"):
        for a, b in chunks(*pairs(values)):
            same_floats(snippet.run(ptx80, f"{name}.{type_}", type_, [type_, type_], a, b),
                        FLOAT_PAIRS[name](a, b))


def test_directed_addition(ptx80):
    finite = F32[np.isfinite(F32)]
    for mode in ("rz", "rm", "rp"):
        for a, b in chunks(*pairs(finite)):
            want = np.array(
                [exact(Fraction(float(x)) + Fraction(float(y)), np.float32, mode) for x, y in zip(a, b)])
            got = snippet.run(ptx80, f"add.{mode}.f32", "f32", ["f32", "f32"], a, b)
            same_floats(got[want != 0], want[want != 0])


def test_one_nan(ptx80):
    """f32 arithmetic gives 0x7fffffff for every NaN."""
    a = np.array([np.nan, np.inf, 0.0, -np.nan], np.float32)
    b = np.array([1, -np.inf, np.inf, 2], np.float32)
    assert (snippet.run(ptx80, "add.f32", "b32", ["f32", "f32"], a, b)[[0, 1, 3]] == 0x7FFFFFFF).all()
    assert snippet.run(ptx80, "mul.f32", "b32", ["f32", "f32"], a, b)[2] == 0x7FFFFFFF
    assert (snippet.run(ptx80, "fma.rn.f32", "b32", ["f32"] * 3, a, b,
                        np.ones(4))[[0, 2, 3]] == 0x7FFFFFFF).all()


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_extremes(ptx80, type_):
    values = F32 if type_ == "f32" else F64
    for a, b in chunks(*pairs(values)):
        for name, pick in (("min", min), ("max", max)):
            key = lambda v: (float(v), -1 if np.signbit(v) else 1)
            want = np.array([y if np.isnan(x) else x if np.isnan(y) else pick(x, y, key=key)
                             for x, y in zip(a, b)], values.dtype)
            same_floats(snippet.run(ptx80, f"{name}.{type_}", type_, [type_, type_], a, b), want)
            if type_ == "f32":
                want = np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), want)
                same_floats(snippet.run(ptx80, f"{name}.NaN.f32", "f32", ["f32", "f32"], a, b), want)


def test_flush_to_zero(ptx80):
    a = np.array([1e-40, -1e-40, 1e-38, 2e-38], np.float32)
    same_floats(snippet.run(ptx80, "mul.ftz.f32", "f32", ["f32", "f32"], a, np.ones(4)),
                np.array([0.0, -0.0, 0.0, 2e-38], np.float32))
    same_floats(snippet.run(ptx80, "add.sat.f32", "f32", ["f32", "f32"], [0.5, -1, 2, np.nan],
                            [0.1, 0, 0, 0]), np.array([0.6, 0, 1, 0], np.float32))


@pytest.mark.parametrize("name,function",
                         [("ex2.approx.f32", np.exp2), ("lg2.approx.f32", np.log2),
                          ("rcp.approx.f32", np.reciprocal), ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x)),
                          ("sqrt.approx.f32", np.sqrt), ("sqrt.rn.f32", np.sqrt), ("sin.approx.f32", np.sin),
                          ("cos.approx.f32", np.cos), ("tanh.approx.f32", np.tanh),
                          ("rcp.rn.f32", np.reciprocal)])
def test_functions(ptx80, name, function):
    with np.errstate(all="ignore"):
        same_floats(snippet.run(ptx80, name, "f32", ["f32"], F32),
                    function(F32.astype(np.float64)).astype(np.float32))


COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b and a == a and b == b,
           "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
           "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}


@pytest.mark.parametrize("name", [*COMPARE, *(n + "u" for n in COMPARE), "num", "nan"])
def test_float_comparisons(ptx80, name):
    for a, b in chunks(*pairs(F32[:20])):
        unordered = [x != x or y != y for x, y in zip(a, b)]
        if name in ("num", "nan"):
            want = [u == (name == "nan") for u in unordered]
        else:
            base = COMPARE[name.removesuffix("u")] if name != "neu" else COMPARE["ne"]
            want = [bool(base(x, y)) or (name.endswith("u") and u) for x, y, u in zip(a, b, unordered)]
        assert (snippet.run(ptx80, f"setp.{name}.f32", "pred", ["f32", "f32"], a, b) == want).all()


def test_comparison_joined_and_negated(ptx80):
    a, b, p = [1, 1, 2, 2], [1, 2, 1, 2], [0, 1, 0, 1]
    assert (snippet.run(ptx80, "setp.eq.or.s32", "pred", ["s32", "s32", "pred"], a, b, p).tolist()
            == [1, 1, 0, 1])
    assert (snippet.run(ptx80, "setp.lt.and.s32", "pred", ["s32", "s32", "pred"], a, b, p).tolist()
            == [0, 1, 0, 0])


@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_narrow_floats(ptx80, target):
    dtype = np.float16 if target == "f16" else ml_dtypes.bfloat16
    with np.errstate(all="ignore"):
        rng = np.random.default_rng(3)
        values = np.concatenate(
            [F32, (rng.standard_normal(90) * 10.0 ** rng.integers(-8, 8, 90)).astype(np.float32)])
        got = snippet.run(ptx80, f"cvt.rn.{target}.f32", "b16", ["f32"], values)
        want = values.astype(dtype)
        nan = np.isnan(values)
        assert (got[~nan] == want.view(np.uint16)[~nan]).all() and (got[nan] == 0x7FFF).all()
        back = snippet.run(ptx80, f"cvt.f32.{target}", "f32", ["b16"], got)
        same_floats(back, want.astype(np.float32))


@pytest.mark.parametrize("target", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("mode,whole", [("rni", round), ("rzi", int), ("rmi", np.floor), ("rpi", np.ceil)])
def test_float_to_integer_clamps(ptx80, target, mode, whole):
    values = F64[~np.isnan(F64)]
    info = np.iinfo(snippet.NUMPY[target])
    want = [info.max if v == np.inf else info.min if v == -np.inf
            else min(max(int(whole(float(v))), info.min), info.max) for v in values]
    wide = target if snippet.BITS[target] >= 16 else target[0] + "32"
    assert snippet.run(ptx80, f"cvt.{mode}.{target}.f64", wide, ["f64"], values).tolist() == want


@pytest.mark.parametrize("source,target", [("s32", "s16"), ("s32", "u8"), ("u32", "s32"), ("s64", "s32"),
                                           ("u64", "u16"), ("s16", "u32"), ("s32", "s64"), ("u32", "u64")])
def test_integer_conversions(ptx80, source, target):
    values = np.array([wrap(v, source) for v in (I64 if "64" in source else I32)], snippet.NUMPY[source])
    wide = target if snippet.BITS[target] >= 16 else target[0] + "16"
    got = snippet.run(ptx80, f"cvt.{target}.{source}", wide, [source], values)
    assert got.tolist() == [wrap(int(v), target) for v in values]
    info = np.iinfo(snippet.NUMPY[target])
    got = snippet.run(ptx80, f"cvt.sat.{target}.{source}", wide, [source], values)
    assert got.tolist() == [min(max(int(v), info.min), info.max) for v in values]


def test_packed_halves(ptx80):
    rng = np.random.default_rng(4)
    a, b, c = (rng.standard_normal((3, 128)) * 4).astype(np.float16).reshape(3, 64, 2)
    words = [np.ascontiguousarray(x).view(np.uint32).ravel() for x in (a, b, c)]
    for name, want in (("add", a + b), ("mul", a * b), ("max", np.maximum(a, b))):
        full = f"{name}.f16x2" if name == "max" else f"{name}.rn.f16x2"
        assert (snippet.run(ptx80, full, "b32", ["b32", "b32"], *words[:2])
                == np.ascontiguousarray(want).view(np.uint32).ravel()).all()
    exact_fma = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float16)
    assert (snippet.run(ptx80, "fma.rn.f16x2", "b32", ["b32"] * 3, *words)
            == np.ascontiguousarray(exact_fma).view(np.uint32).ravel()).all()
    x, y = F32[:17], F32[:17][::-1].copy()
    got = snippet.run(ptx80, "cvt.rn.f16x2.f32", "b32", ["f32", "f32"], x, y)
    with np.errstate(all="ignore"):
        assert ((got >> 16 == x.astype(np.float16).view(np.uint16)).all()
                and (got & 0xFFFF == y.astype(np.float16).view(np.uint16)).all())


@pytest.mark.parametrize("name,dtype", [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
def test_fp8(ptx90, name, dtype):
    rng = np.random.default_rng(5)
    top = float(ml_dtypes.finfo(dtype).max)
    x = np.clip(np.concatenate([F32[np.isfinite(F32)], (
        rng.standard_normal(90) * 10.0 ** rng.integers(-4, 3, 90)).astype(np.float32)]), -top, top)
    got = snippet.run(ptx90, f"cvt.rn.satfinite.{name}x2.f32", "b16", ["f32", "f32"], x, x)
    want = x.astype(dtype).view(np.uint8)
    assert (got >> 8 == want).all() and (got & 255 == want).all()
    codes = np.arange(128, dtype=np.uint16)
    back = snippet.run(ptx90, f"cvt.rn.f16x2.{name}x2", "b32", ["b16"], codes)
    same_floats((back & 0xFFFF).astype(np.uint16).view(np.float16),
                codes.astype(np.uint8).view(dtype).astype(np.float16))


def test_carry_chain(ptx80):
    """128-bit product from 32-bit parts, as the accurate sine of f64 does it."""
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 2**64, (2, 100), np.uint64)
    body = """.reg .b64 %x, %y; .reg .pred %q; .reg .b32 %al, %ah, %bl, %bh, %r0, %r1, %r2, %r3;
    setp.ge.u32 %q, %t, 100; @%q ret;
    mad.wide.u32 %a0, %t, 8, %p0; mad.wide.u32 %a1, %t, 8, %p1; mad.wide.u32 %a2, %t, 8, %p2;
    ld.global.b64 %x, [%a0]; ld.global.b64 %y, [%a1]; mov.b64 {%al, %ah}, %x; mov.b64 {%bl, %bh}, %y;
    mul.lo.u32 %r0, %al, %bl; mul.hi.u32 %r1, %al, %bl;
    mad.lo.cc.u32 %r1, %al, %bh, %r1; madc.hi.u32 %r2, %al, %bh, 0;
    mad.lo.cc.u32 %r1, %ah, %bl, %r1; madc.hi.cc.u32 %r2, %ah, %bl, %r2; madc.hi.u32 %r3, %ah, %bh, 0;
    mad.lo.cc.u32 %r2, %ah, %bh, %r2; addc.u32 %r3, %r3, 0;
    mov.b64 %x, {%r2, %r3}; st.global.b64 [%a2], %x;"""
    places = [snippet.buffer(ptx80, a), snippet.buffer(ptx80, b), ptx80.alloc(800)]
    snippet.launch(ptx80, snippet.entry(body, 3), places)
    got = ptx80.copy_out(places[2].ptr, np.empty(100, np.uint64))
    assert got.tolist() == [int(x) * int(y) >> 64 for x, y in zip(a, b)]

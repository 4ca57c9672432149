"""Integer and bit instructions, comparisons and selection of every type."""
from __future__ import annotations

import functools

import numpy as np

from .floating import flush
from .table import ANY, BITS, DTYPE, INT, act, acting, elementwise, given, kind_of, make, row

U32, U64, I64 = np.uint32, np.uint64, np.int64
WIDE = {np.dtype(a): b for a, b in ((np.uint16, U32), (np.int16, np.int32), (U32, U64), (np.int32, I64))}


def bits_of(a) -> int:
    return 8 * np.asarray(a).dtype.itemsize


def wide(a, b):
    return np.multiply(a, b, dtype=WIDE[np.asarray(a).dtype])


def high(a, b):
    """The upper half of a product; of 64 bits from its 32-bit parts."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.itemsize < 8:
        return (wide(a, b) >> WIDE[a.dtype](bits_of(a))).astype(a.dtype)
    x, y, half = a.view(U64), b.view(U64), U64(32)
    x0, x1, y0, y1 = x & U64(0xFFFFFFFF), x >> half, y & U64(0xFFFFFFFF), y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    up = x1 * y1 + (middle >> half) + ((x0 * y1 + (middle & U64(0xFFFFFFFF))) >> half)
    return (up - np.where(a < 0, y, U64(0)) - np.where(b < 0, x, U64(0)) if a.dtype.kind == "i" else up).view(a.dtype)


def mul24(m, a, b, c=0):
    """The product of the low 24 bits; ``hi``: its bits from 16 on."""
    a, b = ((np.asarray(v) << 8 >> 8 if m["t"] == "s32" else np.asarray(v) & U32(0xFFFFFF)).astype(I64) for v in (a, b))
    return (a * b >> (0 if m["part"] == "lo" else 16)) + c


def quotient(a, b):
    """Truncated division; by zero all ones, as the hardware gives."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, b.dtype.type(1), b)
    q = a // safe
    if a.dtype.kind == "i":
        q = q + ((a - q * safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(b == 0, ~a.dtype.type(0), q)


def clamped(function):
    return lambda a, b: np.clip(function(np.asarray(a).astype(I64), np.asarray(b).astype(I64)), -2**31, 2**31 - 1)


def shift(a, n, left=False):
    """By more than the width: zeros, or the sign."""
    a, bits = np.asarray(a), bits_of(a)
    by = np.minimum(n, bits - 1).astype(a.dtype)
    moved = a << by if left else a >> by
    return moved if a.dtype.kind == "i" and not left else np.where(n >= bits, a.dtype.type(0), moved)


def funnel(m, low, upper, n):
    n = (np.asarray(n) & U32(31) if m["mode"] == "wrap" else np.minimum(n, U32(32))).astype(U64)
    both = np.asarray(upper).astype(U64) << U64(32) | low
    return (both << n >> U64(32) if m["way"] == "l" else both >> n).astype(U32)


def count_ones(a):
    return np.unpackbits(np.ascontiguousarray(a).view(np.uint8)).reshape(np.size(a), -1).sum(1)


def leading_zeros(a):
    v = np.array(a)
    for by in (1, 2, 4, 8, 16, 32)[:5 + (v.dtype.itemsize == 8)]:
        v |= v >> v.dtype.type(by)
    return bits_of(a) - count_ones(v).astype(I64)


def reverse(a):
    a = np.ascontiguousarray(a)
    rows = np.unpackbits(a.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")[:, ::-1]
    return np.packbits(rows, axis=1, bitorder="little").view(a.dtype).reshape(a.shape)


def find(m, a):
    a = np.asarray(a)
    zeros = leading_zeros(np.where(a < 0, ~a, a).view(f"u{a.dtype.itemsize}") if a.dtype.kind == "i" else a)
    top = bits_of(a) - 1 - zeros
    return np.where(top < 0, 0xFFFFFFFF, zeros if "shiftamt" in m else top).astype(U32)


def field(start, length, bits):
    """A field's start and length (8 bits of them; what ptxas makes of the 64-bit forms takes all 32, whatever the ISA says), and its mask at 0."""
    start, length = (np.asarray(x & U32(255) if bits == 32 else x).astype(I64) for x in (start, length))
    return start, length, np.where(length >= bits, U64(2**64 - 1), (U64(1) << np.minimum(length, 63).astype(U64)) - U64(1))


def extract(a, start, length):
    a, bits = np.asarray(a), bits_of(a)
    start, length, keep = field(start, length, bits)
    raw = a.view(f"u{a.dtype.itemsize}")
    part = shift(raw, start).astype(U64) & keep
    if a.dtype.kind == "i":
        sign = raw.astype(U64) >> np.minimum(start + length - 1, bits - 1).clip(0).astype(U64) & U64(1)
        real = np.clip(bits - start, 0, length).astype(U64)  # the bits of the field that a has; the others are its sign
        part = np.where((length > 0) & (sign == 1), part | (~U64(0) << real), part)
    return part.astype(raw.dtype).view(a.dtype)


def insert(a, into, start, length):
    start, length, keep = field(start, length, bits_of(into))
    mask = shift(keep.astype(np.asarray(into).dtype), start, left=True)
    return into & ~mask | shift(a, start, left=True) & mask


PERMUTE = {                                      # mode -> the bytes that the low two bits of the selector choose; no mode: its four digits
    "f4e": lambda s: [s, s + 1, s + 2, s + 3], "b4e": lambda s: [s, s - 1 & 7, s - 2 & 7, s - 3 & 7], "rc8": lambda s: [s] * 4,
    "rc16": lambda s: [2 * (s & 1), 2 * (s & 1) + 1] * 2, "ecl": lambda s: [np.maximum(s, i) for i in range(4)],
    "ecr": lambda s: [np.minimum(s, i) for i in range(4)]}


def permute(m, a, b, select):
    both, select, out = np.asarray(b).astype(U64) << U64(32) | a, np.asarray(select).astype(I64), 0
    for i, code in enumerate(PERMUTE[m["mode"]](select & 3) if "mode" in m else [select >> 4 * i & 15 for i in range(4)]):
        byte = both >> (np.asarray(code & 7) * 8).astype(U64) & U64(255)
        out = out | np.where(code & 8, np.where(byte & U64(128), U64(255), U64(0)), byte) << U64(8 * i)
    return out.astype(U32)


def logic3(a, b, c, table):
    parts = [(a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c) for i in range(8) if int(table) >> i & 1]
    return functools.reduce(np.bitwise_or, parts, U32(0))


def part_of(v, type_, i, bits):
    """Part ``i`` of a word, of so many bits."""
    v = np.asarray(v).astype(I64) >> bits * i & (1 << bits) - 1
    return v - ((v >> bits - 1) << bits) if type_ == "s32" else v


def dot(m, a, b, c):
    """dp4a: four products of bytes; dp2a: two of halves with the bytes of one half."""
    count, skip = (4, 0) if m["name"] == "dp4a" else (2, 2 * (m["half"] == "hi"))
    return (np.asarray(c).astype(I64) + sum(part_of(a, m["a"], i, 32 // count) * part_of(b, m["b"], i + skip, 8) for i in range(count))).astype(U32)


LOGIC = {"and": (np.bitwise_and, np.logical_and), "or": (np.bitwise_or, np.logical_or), "xor": (np.bitwise_xor, np.logical_xor)}
for part, fn in (("lo", np.multiply), ("hi", high)):
    row(f"mul {part} t:{INT}", "t=t,t", fn)
    row(f"mad {part} t:{INT}", "t=t,t,t", lambda a, b, c, fn=fn: fn(a, b) + c)
row("mul wide t:s16|u16|s32|u32", "2t=t,t", wide)
row("mad wide t:s16|u16|s32|u32", "2t=t,t,2t", lambda a, b, c: wide(a, b) + c)
given("mul24 part:lo|hi t:s32|u32", "t=t,t", mul24)
given("mad24 part:lo|hi t:s32|u32", "t=t,t,t", mul24)
row(f"add t:{INT}|u16x2|s16x2", "t=t,t", np.add)
row(f"sub t:{INT}", "t=t,t", np.subtract)
row("add sat t:s32", "t=t,t", clamped(np.add))
row("sub sat t:s32", "t=t,t", clamped(np.subtract))
row(f"div t:{INT}", "t=t,t", quotient)
row(f"rem t:{INT}", "t=t,t", lambda a, b: np.where(np.asarray(b) == 0, ~np.asarray(a).dtype.type(0), a - quotient(a, b) * b))
row(f"min t:{INT}", "t=t,t", np.minimum)
row(f"max t:{INT}", "t=t,t", np.maximum)
row("neg t:s16|s32|s64", "t=t", np.negative)
row("abs t:s16|s32|s64", "t=t", np.abs)
row(f"sad t:{INT}", "t=t,t,t", lambda a, b, c: np.where(a > b, a - b, b - a).astype(np.asarray(c).dtype) + c)
for name, (fn, logical) in {**LOGIC, "not": (np.bitwise_not, np.logical_not)}.items():
    row(f"{name} t:{BITS}", "t=t" if name == "not" else "t=t,t", fn)
    row(f"{name} t:pred", "t=t" if name == "not" else "t=t,t", logical)
row(f"cnot t:{BITS}", "t=t", lambda a: np.asarray(a) == 0)
row(f"shl t:{BITS}", "t=t,u32", lambda a, n: shift(a, n, left=True))
row(f"shr t:{BITS}|{INT}", "t=t,u32", shift)
given("shf way:l|r mode:wrap|clamp t:b32", "t=t,t,u32", funnel)
row("popc t:b32|b64", "u32=t", count_ones)
row("clz t:b32|b64", "u32=t", leading_zeros)
row("brev t:b32|b64", "t=t", reverse)
given("bfind shiftamt? t:u32|s32|u64|s64", "u32=t", find)
row("bfe t:u32|s32|u64|s64", "t=t,u32,u32", extract)
row("bfi t:b32|b64", "t=t,t,u32,u32", insert)
row("bmsk mode:clamp t:b32", "t=u32,u32", lambda a, n: shift(np.where(n >= 32, U32(2**32 - 1), shift(U32(1), n, left=True) - U32(1)), a, left=True))
row("szext mode:clamp t:u32|s32", "t=t,u32", lambda a, n: extract(a, np.zeros_like(n), np.minimum(n, U32(32))))
given("prmt t:b32 mode:f4e|b4e|rc8|ecl|ecr|rc16?", "t=t,t,u32", permute)
row("lop3 t:b32", "t=t,t,t,u32", logic3)
given("dp4a a:u32|s32 b:u32|s32", "b=a,b,b", dot)
given("dp2a half:lo|hi a:u32|s32 b:u32|s32", "b=a,b,b", dot)


# ---- Carry chains: the condition code is a hidden register ----

def carried(c, m, a, b, carry=False):
    """(a ± b ± carry, the new carry); a borrow is a carry."""
    less, more = m["name"].startswith("sub"), np.asarray(carry).astype(a.dtype)
    low = a - b if less else a + b
    out = low - more if less else low + more
    return out, (a < b) | (low < more) if less else (low < a) | (out < low)


def multiplied(c, m, a, b, *more):
    kind = DTYPE[kind_of(m["t"])]
    product = a * b if m["part"] == "lo" else high(np.ascontiguousarray(a).view(kind), np.ascontiguousarray(b).view(kind)).view(a.dtype)
    return carried(c, m, product, *more)


CARRIED = "t:u32|s32|u64|s64|b32|b64"
act(f"add|sub cc {CARRIED}", "ut|cc=ut,ut", carried)
act(f"addc|subc cc {CARRIED}", "ut|cc=ut,ut,cc", carried)
act(f"addc|subc {CARRIED}", "ut=ut,ut,cc", carried)
act("mad part:lo|hi cc t:u32|s32|u64|s64", "ut|cc=ut,ut,ut", multiplied)
act("madc part:lo|hi cc t:u32|s32|u64|s64", "ut|cc=ut,ut,ut,cc", multiplied)
act("madc part:lo|hi t:u32|s32|u64|s64", "ut=ut,ut,ut,cc", multiplied)


# ---- Comparison and selection ----

COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
INTEGER_COMPARE = {**COMPARE, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
FLOAT_COMPARE = {**COMPARE, "ne": lambda a, b: (a != b) & (a == a) & (b == b), "num": lambda a, b: (a == a) & (b == b),
                 "nan": lambda a, b: (a != a) | (b != b),
                 **{k + "u": lambda a, b, fn=fn: fn(a, b) | (a != a) | (b != b) for k, fn in COMPARE.items()}}
ONE = {"f16": 1.0, "f32": 1.0, "bf16": 0x3F80}   # what set writes; all ones otherwise
PAIR_ONE = {"f16x2": 0x3C00, "bf16x2": 0x3F80}   # in each half


def comparison(m):
    """The function of two arrays, or None when the type has no such comparison."""
    fn = (FLOAT_COMPARE if "f" in m["t"] else INTEGER_COMPARE).get(m["cmp"])
    if fn and "ftz" in m:
        return lambda a, b: fn(flush(a), flush(b))
    if fn and m["t"].startswith("bf16"):
        return lambda a, b: fn(*((np.asarray(x).astype(U32) << U32(16)).view(np.float32) for x in (a, b)))
    return fn


def chosen(m):
    fn, one = comparison(m), PAIR_ONE.get(m["d"], 0xFFFF) if m["t"].endswith("x2") else ONE.get(m["d"], -1)
    return fn and (lambda a, b: np.where(fn(a, b), one, 0))


def joined(c, m, a, b, third=None):
    """setp p|q, a, b, c: p = cmp(a, b) join c, q = !cmp(a, b) join c."""
    answer = comparison(m)(a, b)
    return [LOGIC[m["join"]][1](value, third) if "join" in m else value for value in (answer, ~answer)]


def compared(op, m):
    """setp with one result and nothing to join is a plain row."""
    fn, ins = comparison(m), [m["t"], m["t"], "pred"]
    if fn and len(op.operands) != 3 + ("join" in m):
        op.fail(f"it must have {3 + ('join' in m)} operands")
    outs = op.operands[0].parts
    if fn and ("join" in m or len(outs) > 1):
        return acting(op, m, joined, [(o, "pred") for o in outs], list(zip(op.operands[1:], ins)))
    return fn and elementwise(fn, op.target(outs[0], "pred"), [op.source(*each) for each in zip(op.operands[1:], ins)], False)


CMP = "cmp:" + "|".join(dict.fromkeys([*INTEGER_COMPARE, *FLOAT_COMPARE]))
row(f"setp {CMP} join:and|or|xor? ftz? t:{ANY}|f16|bf16", None, compared)
make(f"set {CMP} ftz? d:u16|s16|u32|s32|f32|f16|bf16 t:{ANY}|f16|bf16", "d=t,t", chosen)
make(f"set {CMP} ftz? d:u32|s32|f16x2|bf16x2 t:f16x2|bf16x2", "bf16x2=t,t", chosen)
row(f"selp t:{ANY}|f16|bf16", "t=t,t,pred", lambda a, b, p: np.where(p, a, b))
SELECTED = "d:b32|u32|s32|f32|b64|u64|s64|f64|b16|u16|s16"
row(f"slct {SELECTED} t:s32|f32", "d=d,d,t", lambda a, b, c: np.where(c >= 0, a, b))
row(f"slct ftz {SELECTED} t:f32", "d=d,d,t", lambda a, b, c: np.where(c > -np.finfo(np.float32).tiny, a, b))

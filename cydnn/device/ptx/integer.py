"""Integer and bit instructions, comparisons and selection of every type."""
from __future__ import annotations

import numpy as np

from .floating import flush
from .parse import BYTES
from .table import ANY, BITS, INT, apply, row

U32, U64 = np.uint32, np.uint64
WIDE = {np.dtype(a): b for a, b in ((np.uint16, np.uint32), (np.int16, np.int32), (np.uint32, np.uint64), (np.int32, np.int64))}


def high(a, b):
    """The upper half of a product."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.itemsize < 8:
        wide = WIDE[a.dtype]
        return (np.multiply(a, b, dtype=wide) >> wide(8 * a.dtype.itemsize)).astype(a.dtype)
    x, y = a.view(U64), b.view(U64)
    mask, half = U64(0xFFFFFFFF), U64(32)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    up = x1 * y1 + (middle >> half) + ((x0 * y1 + (middle & mask)) >> half)
    if a.dtype.kind == "i":
        up = up - np.where(a < 0, y, U64(0)) - np.where(b < 0, x, U64(0))
    return up.view(a.dtype)


def wide(a, b):
    return np.multiply(a, b, dtype=WIDE[np.asarray(a).dtype])


def mul24(m):
    def low(a, b):
        cut = (lambda v: v << 8 >> 8) if m["t"] == "s32" else (lambda v: v & U32(0xFFFFFF))
        product = cut(np.asarray(a)).astype(np.int64) * cut(np.asarray(b)).astype(np.int64)
        return product if m["part"] == "lo" else product >> 16
    return low


def quotient(a, b):
    """Truncated division; by zero all ones, as the hardware gives."""
    a, b = np.broadcast_arrays(a, b)
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    q = a // safe
    if a.dtype.kind == "i":
        q = q + ((a - q * safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(zero, ~a.dtype.type(0), q)


def remainder(a, b):
    zero = np.asarray(b) == 0
    return np.where(zero, ~np.asarray(a).dtype.type(0), a - np.where(zero, 0, quotient(a, b)).astype(np.asarray(a).dtype) * b)


def saturated(function):
    return lambda a, b: np.clip(function(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64)), -2**31, 2**31 - 1)


def shift_left(a, n):
    bits = 8 * np.asarray(a).dtype.itemsize
    moved = a << np.minimum(n, bits - 1).astype(np.asarray(a).dtype)
    return np.where(n >= bits, np.asarray(a).dtype.type(0), moved)


def shift_right(a, n):
    a = np.asarray(a)
    bits = 8 * a.dtype.itemsize
    moved = a >> np.minimum(n, bits - 1).astype(a.dtype)
    return moved if a.dtype.kind == "i" else np.where(n >= bits, a.dtype.type(0), moved)


def funnel(m):
    def shift(low, high_, n):
        n = np.asarray(n)
        n = (n & U32(31) if m["mode"] == "wrap" else np.minimum(n, U32(32))).astype(U64)
        both = np.asarray(high_).astype(U64) << U64(32) | low
        return (both << n >> U64(32) if m["way"] == "l" else both >> n).astype(U32)
    return shift


def count_ones(a):
    return np.bitwise_count(a) if hasattr(np, "bitwise_count") else _count(np.asarray(a).astype(U64))


def _count(v):
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        v = (v & U64(mask)) + (v >> U64(shift) & U64(mask))
    return v * U64(0x0101010101010101) >> U64(56)


def leading_zeros(a):
    a = np.asarray(a)
    v, bits = a.copy(), 8 * a.dtype.itemsize
    shift = 1
    while shift < bits:
        v |= v >> v.dtype.type(shift)
        shift *= 2
    return bits - count_ones(v).astype(np.int64)


def reverse(a):
    a = np.ascontiguousarray(a)
    rows = np.unpackbits(a.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")[:, ::-1]
    return np.packbits(rows, axis=1, bitorder="little").view(a.dtype).reshape(a.shape)


def find(m):
    def position(a):
        a = np.asarray(a)
        v = np.where(a < 0, ~a, a).view("u%d" % a.dtype.itemsize) if a.dtype.kind == "i" else a
        zeros = leading_zeros(v)
        top = 8 * a.dtype.itemsize - 1 - zeros
        return np.where(top < 0, 0xFFFFFFFF, zeros if "shiftamt" in m else top).astype(U32)
    return position


def _field(n, bits):
    """A position or length of bfe and bfi: 8 bits of it. What ptxas makes of the 64-bit forms takes all 32, whatever the ISA says."""
    return np.asarray(n & U32(255) if bits == 32 else n).astype(np.int64)


def extract(a, start, length):
    a = np.asarray(a)
    bits = 8 * a.dtype.itemsize
    start, length = _field(start, bits), _field(length, bits)
    unsigned = a.view("u%d" % a.dtype.itemsize)
    part = shift_right(unsigned, start)
    keep = np.where(length >= bits, U64(2**64 - 1), (U64(1) << np.minimum(length, 63).astype(U64)) - U64(1))
    part = part.astype(U64) & keep
    if a.dtype.kind == "i":
        sign = unsigned.astype(U64) >> np.minimum(start + length - 1, bits - 1).clip(0).astype(U64) & U64(1)
        real = np.clip(bits - start, 0, length).astype(U64)  # the bits of the field that a has; the others are its sign
        part = np.where((length > 0) & (sign == 1), part | (~U64(0) << real), part)
    return part.astype(unsigned.dtype).view(a.dtype)


def insert(a, into, start, length):
    into = np.asarray(into)
    bits, kind = 8 * into.dtype.itemsize, into.dtype.type
    start, length = _field(start, bits), _field(length, bits)
    ones = np.where(length >= bits, kind(2**bits - 1), (kind(1) << np.minimum(length, bits - 1).astype(kind)) - kind(1))
    mask = shift_left(ones.astype(kind), start)
    return into & ~mask | shift_left(np.asarray(a), start) & mask


def permute(m):
    modes = {"f4e": lambda s: [s, s + 1, s + 2, s + 3], "b4e": lambda s: [s, s - 1 & 7, s - 2 & 7, s - 3 & 7], "rc8": lambda s: [s] * 4,
             "rc16": lambda s: [2 * (s & 1), 2 * (s & 1) + 1] * 2, "ecl": lambda s: [np.maximum(s, i) for i in range(4)],
             "ecr": lambda s: [np.minimum(s, i) for i in range(4)]}

    def bytes_of(a, b, select):
        both = np.asarray(b).astype(U64) << U64(32) | a
        select = np.asarray(select).astype(np.int64)
        mode = m.get("mode")
        codes = modes[mode](select & 3) if mode else [select >> 4 * i & 15 for i in range(4)]
        out = 0
        for i, code in enumerate(codes):
            byte = both >> (np.asarray(code & 7) * 8).astype(U64) & U64(255)
            byte = np.where(code & 8, np.where(byte & U64(128), U64(255), U64(0)), byte)
            out = out | byte << U64(8 * i)
        return out.astype(U32)
    return bytes_of


def logic3(a, b, c, table):
    out = U32(0)
    for i in range(8):
        if int(table) >> i & 1:
            out = out | (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out


def dot4(m):
    def dot(a, b, c):
        total = np.asarray(c).astype(np.int64)
        lanes = 4 if m["size"] == "4" else 2
        for i in range(lanes):
            total = total + _part(a, m["a"], i, lanes, 0) * _part(b, m["b"], i, 4, 2 if m.get("half") == "hi" else 0)
        return total.astype(U32)
    return dot


def _part(v, type_, i, lanes, skip):
    bits = 32 // lanes
    v = np.asarray(v).astype(np.int64) >> bits * (i + skip) & (1 << bits) - 1
    return v - ((v >> bits - 1) << bits) if type_[0] == "s" else v


def sad(a, b, c):
    return np.where(a > b, a - b, b - a).astype(np.asarray(c).dtype) + c


for part, fn in (("lo", np.multiply), ("hi", high)):
    row(f"mul {part} t:{INT}", "t=t,t", fn)
    row(f"mad {part} t:{INT}", "t=t,t,t", lambda a, b, c, fn=fn: fn(a, b) + c)
row("mul wide t:s16|u16|s32|u32", "2t=t,t", wide)
row("mad wide t:s16|u16|s32|u32", "2t=t,t,2t", lambda a, b, c: wide(a, b) + c)
row("mul24 part:lo|hi t:s32|u32", "t=t,t", mul24, make=True)
row("mad24 part:lo|hi t:s32|u32", "t=t,t,t", lambda m: lambda a, b, c: mul24(m)(a, b) + c, make=True)
row(f"add t:{INT}|u16x2|s16x2", "t=t,t", np.add)
row(f"sub t:{INT}", "t=t,t", np.subtract)
row("add sat t:s32", "t=t,t", saturated(np.add))
row("sub sat t:s32", "t=t,t", saturated(np.subtract))
row(f"div t:{INT}", "t=t,t", quotient)
row(f"rem t:{INT}", "t=t,t", remainder)
row(f"min t:{INT}", "t=t,t", np.minimum)
row(f"max t:{INT}", "t=t,t", np.maximum)
row("neg t:s16|s32|s64", "t=t", np.negative)
row("abs t:s16|s32|s64", "t=t", np.abs)
row(f"sad t:{INT}", "t=t,t,t", sad)
for name, fn, logical in (("and", np.bitwise_and, np.logical_and), ("or", np.bitwise_or, np.logical_or), ("xor", np.bitwise_xor, np.logical_xor)):
    row(f"{name} t:{BITS}", "t=t,t", fn)
    row(f"{name} t:pred", "t=t,t", logical)
row(f"not t:{BITS}", "t=t", np.bitwise_not)
row("not t:pred", "t=t", np.logical_not)
row(f"cnot t:{BITS}", "t=t", lambda a: np.asarray(a) == 0)
row(f"shl t:{BITS}", "t=t,u32", shift_left)
row(f"shr t:{BITS}|{INT}", "t=t,u32", shift_right)
row("shf way:l|r mode:wrap|clamp t:b32", "t=t,t,u32", funnel, make=True)
row("popc t:b32|b64", "u32=t", count_ones)
row("clz t:b32|b64", "u32=t", leading_zeros)
row("brev t:b32|b64", "t=t", reverse)
row("bfind shiftamt? t:u32|s32|u64|s64", "u32=t", find, make=True)
row("bfe t:u32|s32|u64|s64", "t=t,u32,u32", extract)
row("bfi t:b32|b64", "t=t,t,u32,u32", insert)
row("bmsk mode:clamp t:b32", "t=u32,u32", lambda a, n: shift_left(np.where(n >= 32, U32(2**32 - 1), shift_left(U32(1), n) - U32(1)), a))
row("szext mode:clamp t:u32|s32", "t=t,u32", lambda a, n: extract(a, np.zeros_like(n), np.minimum(n, U32(32))))
row("prmt t:b32 mode:f4e|b4e|rc8|ecl|ecr|rc16?", "t=t,t,u32", permute, make=True)
row("lop3 t:b32", "t=t,t,t,u32", logic3)
row("dp4a a:u32|s32 b:u32|s32", "b=a,b,b", lambda m: dot4({**m, "size": "4"}), make=True)
row("dp2a half:lo|hi a:u32|s32 b:u32|s32", "b=a,b,b", lambda m: dot4({**m, "size": "2"}), make=True)


# ---- Carry chains: the condition code is a hidden register ----

def _carry(op, m):
    """add.cc addc.cc sub.cc subc.cc mad.lo.cc madc.hi.cc …"""
    name, type_ = op.i.words[0], m["t"]
    kind = np.dtype("u%d" % BYTES[type_])
    with_carry, subtract = name.endswith("c"), name.startswith("sub")
    slots = [op.source(o, "u" + type_[1:]) for o in op.operands[1:]]
    target, flag = op.target(op.operands[0], "u" + type_[1:]), op.decoder.slot(op.decoder.sink(op.program, 1), "bool")
    signed = type_[0] == "s"

    def step(V, c):
        values = [V[s] for s in slots]
        if name.startswith("mad"):
            a, b = values[0], values[1]
            factors = (np.asarray(x).view("i%d" % kind.itemsize) if signed else x for x in (a, b))
            values = [np.multiply(a, b) if m["part"] == "lo" else high(*factors).view(kind), values[2]]
        a, b = values
        low = a - b if subtract else a + b
        carry = a < b if subtract else low < a
        if with_carry:
            more = V[flag].astype(kind)
            last, low = low, low - more if subtract else low + more
            carry = carry | ((last < more) if subtract else (low < more))
        np.copyto(V[target], low, where=c.where)
        if "cc" in m:
            np.copyto(V[flag], carry, where=c.where)
    return step


for name in ("add", "sub"):
    row(f"{name} cc t:u32|s32|u64|s64|b32|b64", None, _carry)
    row(f"{name}c cc? t:u32|s32|u64|s64|b32|b64", None, _carry)
row("mad part:lo|hi cc t:u32|s32|u64|s64", None, _carry)
row("madc part:lo|hi cc? t:u32|s32|u64|s64", None, _carry)


# ---- Comparison and selection ----

def _ordered(fn):
    return lambda a, b: fn(a, b) & (a == a) & (b == b)


def _unordered(fn):
    return lambda a, b: fn(a, b) | (a != a) | (b != b)


COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
           "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
FLOAT_COMPARE = {**{k: COMPARE[k] for k in ("eq", "lt", "le", "gt", "ge")}, "ne": _ordered(np.not_equal), "neu": np.not_equal,
                 **{k + "u": _unordered(COMPARE[k]) for k in ("eq", "lt", "le", "gt", "ge")},
                 "num": lambda a, b: (a == a) & (b == b), "nan": lambda a, b: (a != a) | (b != b)}
JOIN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(m):
    fn = (FLOAT_COMPARE if "f" in m["t"] else COMPARE)[m["cmp"]]
    if "ftz" in m:
        return lambda a, b: fn(flush(a), flush(b))
    if m["t"].startswith("bf16"):
        return lambda a, b: fn(*((np.asarray(x).astype(U32) << U32(16)).view(np.float32) for x in (a, b)))
    return fn


def _setp(op, m):
    """setp p[|q], a, b [, {!}c]: p = cmp(a, b) join c, q = !cmp(a, b) join c."""
    fn = comparison(m)
    op.need(3 if "join" not in m else 4)
    a, b = (op.source(o, m["t"]) for o in op.operands[1:3])
    outs = op.operands[0].value if op.operands[0].kind == "pair" else [op.operands[0]]
    targets = [op.target(o, "pred") for o in outs]
    if "join" not in m and len(outs) == 1:
        return apply(fn, targets[0], [a, b], False)
    last, join = op.operands[-1], JOIN.get(m.get("join"))
    third = None if join is None else op.decoder.slot(last.value, "bool") if last.kind == "not" else op.source(last, "pred")

    def step(V, c):
        answer = fn(V[a], V[b])
        other = None if third is None else ~V[third] if last.kind == "not" else V[third]
        for target, value in zip(targets, (answer, ~answer)):
            np.copyto(V[target], value if join is None else join(value, other), where=c.where)
    return step


def _set(op, m):
    """set.cmp.d.t: one (all ones, for an integer d) where the comparison holds; for a packed t in both halves."""
    fn, packed = comparison(m), m["t"].endswith("x2")
    one = {"f16": 0x3C00, "bf1": 0x3F80}.get(m["d"][:3], 0xFFFF) if packed else {"f16": 1.0, "f32": 1.0, "bf16": 0x3F80}.get(m["d"], -1)
    a, b = (op.source(o, m["t"]) for o in op.operands[1:3])
    return apply(lambda x, y: np.where(fn(x, y), one, 0), op.target(op.operands[0], "bf16x2" if packed else m["d"]), [a, b], packed)


CMP = "|".join(dict.fromkeys([*COMPARE, *FLOAT_COMPARE]))
row(f"setp cmp:{CMP} join:and|or|xor? ftz? t:{ANY}|f16|bf16", None, _setp)
row(f"set cmp:{CMP} ftz? d:u16|s16|u32|s32|f32|f16|bf16 t:{ANY}|f16|bf16", None, _set)
row(f"set cmp:{CMP} ftz? d:u32|s32|f16x2|bf16x2 t:f16x2|bf16x2", None, _set)
row(f"selp t:{ANY}|f16|bf16", "t=t,t,pred", lambda a, b, p: np.where(p, a, b))
SELECTED = "d:b32|u32|s32|f32|b64|u64|s64|f64|b16|u16|s16"
row(f"slct {SELECTED} t:s32|f32", "d=d,d,t", lambda a, b, c: np.where(c >= 0, a, b))
row(f"slct ftz {SELECTED} t:f32", "d=d,d,t", lambda a, b, c: np.where(c > -np.finfo(np.float32).tiny, a, b))

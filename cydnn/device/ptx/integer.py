"""Integer and bit instructions, comparisons and selection of every type. What is rare is a function
of Python integers, for ``each`` lane."""
from __future__ import annotations

import functools

import numpy as np

from .floating import READ, flush
from .parse import BYTES
from .table import ANY, BITS, INT, row

U32, U64, I64 = np.uint32, np.uint64, np.int64
WIDE = {np.dtype(a): b for a, b in ((np.uint16, U32), (np.int16, np.int32), (U32, U64), (np.int32, I64))}


def each(function):
    """A function of integers, or of the words of the opcode and integers, as one of arrays."""
    def over(m, *arrays):
        one = functools.partial(function, m) if function.__code__.co_varnames[0] == "m" else function
        return (np.asarray(np.frompyfunc(one, len(arrays), 1)(*arrays), object) & 2**64 - 1).astype(U64)
    return over


def wide(a, b):
    return np.multiply(a, b, dtype=WIDE[np.asarray(a).dtype])


def high(a, b):
    return wide(a, b) >> WIDE[np.asarray(a).dtype](8 * np.asarray(a).dtype.itemsize)


def quotient(a, b):
    """Truncated division; by zero all ones, as the hardware gives."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, b.dtype.type(1), b)
    q = a // safe
    if a.dtype.kind == "i":
        q = q + ((a - q * safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(b == 0, ~a.dtype.type(0), q)


def shift(a, n, left=False):
    """By more than the width: zeros, or the sign."""
    a = np.asarray(a)
    bits = 8 * a.dtype.itemsize
    by = np.minimum(n, bits - 1).astype(a.dtype)
    moved = a << by if left else a >> by
    return moved if a.dtype.kind == "i" and not left else np.where(n >= bits, a.dtype.type(0), moved)


def insert(m, a, into, start, length):
    """The start and length of a field are 8 bits (what ptxas makes of the 64-bit forms
    takes all 32, whatever the ISA says)."""
    start, length = (np.asarray(x & U32(255) if m["t"] == "b32" else x).astype(U64) for x in (start, length))
    mask = shift(~shift(~np.asarray(into).dtype.type(0), length, left=True), start, left=True)
    return into & ~mask | shift(a, start, left=True) & mask


def extract(m, a, start, length):
    """Beyond the highest bit there are copies of it, of unsigned numbers zeros."""
    start, length = (min(x & 255 if m["t"][1:] == "32" else x, 64) for x in (start, length))
    part = a >> start & (1 << length) - 1
    return part - (part >> length - 1 << length) if length and m["t"][0] == "s" else part


def find(m, a):
    """The place of the highest bit that is not a copy of the sign, from below or with shiftamt from above."""
    top = (a if a >= 0 else ~a).bit_length() - 1
    return BYTES[m["t"]] * 8 - 1 - top if "shiftamt" in m and top >= 0 else top


PERMUTE = {  # mode -> the bytes that the low two bits of the selector choose; no mode: its four digits
    "f4e": lambda s: [s, s + 1, s + 2, s + 3], "b4e": lambda s: [s, s - 1 & 7, s - 2 & 7, s - 3 & 7],
    "rc8": lambda s: [s] * 4, "rc16": lambda s: [2 * (s & 1), 2 * (s & 1) + 1] * 2,
    "ecl": lambda s: [max(s, i) for i in range(4)], "ecr": lambda s: [min(s, i) for i in range(4)]}


def permute(m, a, b, select):
    both = b << 32 | a
    digits = PERMUTE[m["mode"]](select & 3) if "mode" in m else [select >> 4 * i & 15 for i in range(4)]
    chosen = [both >> 8 * (d & 7) & 255 for d in digits]
    return sum((255 * (byte >> 7) if d & 8 else byte) << 8 * i
               for i, (d, byte) in enumerate(zip(digits, chosen)))


def logic3(a, b, c, table):
    parts = [(a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
             for i in range(8) if int(table) >> i & 1]
    return functools.reduce(np.bitwise_or, parts, U32(0))


def parts_of(v, type_, count, bits):
    """The lowest parts of a word, signed or not."""
    parts = [v >> bits * i & (1 << bits) - 1 for i in range(count)]
    return [p - (p >> bits - 1 << bits) if type_ == "s32" else p for p in parts]


def dot(m, a, b, c):
    """dp4a: four products of bytes; dp2a: two of halves with the bytes of one half."""
    count, skip = (4, 0) if m["name"] == "dp4a" else (2, 16 * (m["half"] == "hi"))
    return c + sum(x * y for x, y in zip(parts_of(a, m["a"], count, 32 // count),
                                         parts_of(b >> skip, m["b"], count, 8)))


def product24(m, a, b, c=0):
    (x,), (y,) = (parts_of(v, m["t"], 1, 24) for v in (a, b))
    return (x * y >> (0 if m["part"] == "lo" else 16)) + c


LOGIC = {"and": (np.bitwise_and, np.logical_and), "or": (np.bitwise_or, np.logical_or),
         "xor": (np.bitwise_xor, np.logical_xor)}
NARROW, LONG = "s16|u16|s32|u32", "s64|u64"
row(f"add t:{INT}|u16x2|s16x2", "t=t,t", np.add)
row(f"sub t:{INT}", "t=t,t", np.subtract)
for name, sign in (("add", 1), ("sub", -1)):
    row(f"{name} sat t:s32", "t=t,t", each(lambda a, b, sign=sign: min(max(a + sign * b, -2**31), 2**31 - 1)))
row(f"mul lo t:{INT}", "t=t,t", np.multiply)
row(f"mul hi t:{NARROW}", "t=t,t", high)
row(f"mul hi t:{LONG}", "t=t,t", each(lambda a, b: a * b >> 64))
row(f"mul wide t:{NARROW}", "2t=t,t", wide)
row(f"mad lo t:{INT}", "t=t,t,t", lambda a, b, c: a * b + c)
row(f"mad hi t:{NARROW}", "t=t,t,t", lambda a, b, c: high(a, b) + c)
row(f"mad hi t:{LONG}", "t=t,t,t", each(lambda a, b, c: (a * b >> 64) + c))
row(f"mad wide t:{NARROW}", "2t=t,t,2t", lambda a, b, c: wide(a, b) + c)
row("mul24 part:lo|hi t:s32|u32", "t=t,t", each(product24))
row("mad24 part:lo|hi t:s32|u32", "t=t,t,t", each(product24))
row(f"div t:{INT}", "t=t,t", quotient)
row(f"rem t:{INT}", "t=t,t",
    lambda a, b: np.where(np.asarray(b) == 0, ~np.asarray(a).dtype.type(0), a - quotient(a, b) * b))
row(f"min t:{INT}", "t=t,t", np.minimum)
row(f"max t:{INT}", "t=t,t", np.maximum)
row("neg t:s16|s32|s64", "t=t", np.negative)
row("abs t:s16|s32|s64", "t=t", np.abs)
row(f"sad t:{INT}", "t=t,t,t", each(lambda a, b, c: abs(a - b) + c))
for name, (fn, logical) in {**LOGIC, "not": (np.bitwise_not, np.logical_not)}.items():
    row(f"{name} t:{BITS}", "t=t" if name == "not" else "t=t,t", fn)
    row(f"{name} t:pred", "t=t" if name == "not" else "t=t,t", logical)
row(f"cnot t:{BITS}", "t=t", lambda a: np.asarray(a) == 0)
row(f"shl t:{BITS}", "t=t,u32", lambda a, n: shift(a, n, left=True))
row(f"shr t:{BITS}|{INT}", "t=t,u32", shift)
row("shf l mode:wrap|clamp t:b32", "t=t,t,u32",
    each(lambda m, a, b, n: (b << 32 | a) << (n & 31 if m["mode"] == "wrap" else min(n, 32)) >> 32))
row("shf r mode:wrap|clamp t:b32", "t=t,t,u32",
    each(lambda m, a, b, n: (b << 32 | a) >> (n & 31 if m["mode"] == "wrap" else min(n, 32))))
row("popc t:b32|b64", "u32=t", each(lambda a: a.bit_count()))
row("clz t:b32|b64", "u32=t", each(lambda m, a: 8 * BYTES[m["t"]] - a.bit_length()))
row("brev t:b32|b64", "t=t", each(lambda m, a: int(f"{a:0{8 * BYTES[m['t']]}b}"[::-1], 2)))
row("bfind shiftamt? t:u32|s32|u64|s64", "u32=t", each(find))
row("bfe t:u32|s32|u64|s64", "t=t,u32,u32", each(extract))
row("bfi t:b32|b64", "t=t,t,u32,u32", insert)
row("bmsk mode:clamp t:b32", "t=u32,u32", each(lambda a, n: (1 << min(n, 32)) - 1 << min(a, 32)))
row("szext mode:clamp t:u32|s32", "t=t,u32", each(lambda m, a, n: extract(m, a, 0, min(n, 32))))
row("prmt t:b32 mode:f4e|b4e|rc8|ecl|ecr|rc16?", "t=t,t,u32", each(permute))
row("lop3 t:b32", "t=t,t,t,u32", logic3)
row("dp4a a:u32|s32 b:u32|s32", "b=a,b,b", each(dot))
row("dp2a half:lo|hi a:u32|s32 b:u32|s32", "b=a,b,b", each(dot))


# ---- Carry chains: the condition code is a hidden register ----

def carried(c, m, *values):
    """a ± b ± carry, or a * b + d + carry, and the new carry; a borrow is a carry."""
    bits, sign = 8 * values[0].dtype.itemsize, -1 if m["name"].startswith("sub") else 1
    first, second, *carry = (v.astype(object) for v in values)
    if "part" in m:
        first, second, *carry = first * second >> (bits if m["part"] == "hi" else 0) & 2**bits - 1, *carry
        second = second & 2**bits - 1
    total = first + sign * (second + sum(carry))
    return [(part & 2**bits - 1).astype(U64) for part in (total, total >> bits & 1)]


CARRIED = "t:u32|s32|u64|s64|b32|b64"
row(f"add|sub cc {CARRIED}", "ut|cc=ut,ut", carried)
row(f"addc|subc cc {CARRIED}", "ut|cc=ut,ut,cc", carried)
row(f"addc|subc {CARRIED}", "ut=ut,ut,cc", carried)
row("mad part:lo|hi cc t:u32|s32|u64|s64", "ut|cc=t,t,t", carried)
row("madc part:lo|hi cc t:u32|s32|u64|s64", "ut|cc=t,t,t,cc", carried)
row("madc part:lo|hi t:u32|s32|u64|s64", "ut=t,t,t,cc", carried)


# ---- Comparison and selection ----

COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
           "gt": np.greater, "ge": np.greater_equal}
INTEGER_COMPARE = {**COMPARE, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
FLOAT_COMPARE = {**COMPARE, "ne": lambda a, b: (a != b) & (a == a) & (b == b),
                 "num": lambda a, b: (a == a) & (b == b), "nan": lambda a, b: (a != a) | (b != b),
                 **{k + "u": lambda a, b, fn=fn: fn(a, b) | (a != a) | (b != b) for k, fn in COMPARE.items()}}
ONE = {"f16": 1.0, "f32": 1.0, "bf16": 0x3F80}   # what set writes; all ones otherwise
PAIR_ONE = {"f16x2": 0x3C00, "bf16x2": 0x3F80}   # in each half


def comparison(m):
    """The function of two arrays, or None when the type has no such comparison."""
    fn = (FLOAT_COMPARE if "f" in m["t"] else INTEGER_COMPARE).get(m["cmp"])
    change = flush if "ftz" in m else READ["bf16"] if m["t"].startswith("bf16") else None
    return fn and change and (lambda a, b: fn(change(a), change(b))) or fn


def chosen(m):
    fn, one = comparison(m), PAIR_ONE.get(m["d"], 0xFFFF) if m["t"].endswith("x2") else ONE.get(m["d"], -1)
    return fn and (lambda a, b: np.where(fn(a, b), one, 0))


CMP = "cmp:" + "|".join(dict.fromkeys([*INTEGER_COMPARE, *FLOAT_COMPARE]))
row(f"setp {CMP} ftz? t:{ANY}|f16|bf16", "pred=t,t", comparison)
row(f"setp {CMP} ftz? t:{ANY}|f16|bf16", "pred|pred=t,t",
    lambda c, m, a, b: (answer := comparison(m)(a, b), ~answer))
for name, (_, fn) in LOGIC.items():
    row(f"setp {CMP} {name} ftz? t:{ANY}|f16|bf16", "pred|pred=t,t,pred",
        lambda c, m, a, b, third, fn=fn: (fn(answer := comparison(m)(a, b), third), fn(~answer, third)))
row(f"set {CMP} ftz? d:u16|s16|u32|s32|f32|f16|bf16 t:{ANY}|f16|bf16", "d=t,t", chosen)
row(f"set {CMP} ftz? d:u32|s32|f16x2|bf16x2 t:f16x2|bf16x2", "bf16x2=t,t", chosen)
row(f"selp t:{ANY}|f16|bf16", "t=t,t,pred", lambda a, b, p: np.where(p, a, b))
SELECTED = "d:b32|u32|s32|f32|b64|u64|s64|f64|b16|u16|s16"
row(f"slct {SELECTED} t:s32|f32", "d=d,d,t", lambda a, b, c: np.where(c >= 0, a, b))
row(f"slct ftz {SELECTED} t:f32", "d=d,d,t", lambda a, b, c: np.where(c > -np.finfo(np.float32).tiny, a, b))

"""mov, address conversion, loads and stores, atomics, and what moves nothing (fences, hints)."""
from __future__ import annotations

import numpy as np

from .copies import announce
from .floating import READ, clean, flush, narrow
from .memory import LOCAL, PARAM, SHARED, SPACE_END, UINT, spaces
from .parse import BYTES
from .signals import FAR_ENOUGH
from .table import ANY, BITS, DTYPE, kind_of, row

TYPES = "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f32|f64"
NEAR = "shared|shared::cta|shared::cluster"
WINDOW = {**dict.fromkeys(NEAR.split("|"), SHARED), "local": LOCAL}


# ---- Registers and addresses ----

def join(c, m, parts):
    bits = 8 * BYTES[m["t"]] // len(parts)
    return sum(part.astype(np.uint64) << np.uint64(bits * n) for n, part in enumerate(parts)),


def split(c, m, value):
    count = len(c.code_of.instructions[c.at].operands[0].value)
    return [value >> value.dtype.type(8 * value.dtype.itemsize // count * n) for n in range(count)]


def convert_address(m, a):
    a, base = np.asarray(a).astype(np.uint64), np.uint64(WINDOW.get(m["space"], 0))
    return a - base if "to" in m else a + base


def inside(m, a):
    low = {**WINDOW, "global": 0, "param": PARAM}[m["space"]]
    return (a >= np.uint64(low)) & (a < np.uint64(low + SPACE_END if low else SHARED))


row(f"mov t:{ANY}|pred", "t=t", lambda a: a)
row(f"mov t:{BITS}", "t={t}", join)
row(f"mov t:{BITS}", "{t}=t", split)
row("mov clock t:u32|u64", "t=", lambda c, m: (c.time,))
row(f"cvta to? space:global|{NEAR}|local|const|param|param::entry t:u64|u32", "t=t", convert_address)
row(f"isspacep space:global|{NEAR}|local|param", "pred=u64", inside)


# ---- Loads, stores, atomics ----

def space_of(m) -> str:
    return m.get("space", "generic").split("::")[0]


def is_strong(m) -> bool:
    """Memory model: accesses that may meet others of their kind without synchronisation."""
    return m.get("order", "weak") not in ("", "weak")


def load(c, m, address, hint=None):
    dtype = DTYPE[kind_of(m["t"])]
    out = np.empty((int(m["vec"][1:]), c.n), UINT[dtype.itemsize])
    for memory, mine, at, lanes in spaces(c, space_of(m), address):
        out[:, mine] = memory.load(c, at, dtype.itemsize, len(out), lanes, "nc" in m,
                                   strong=is_strong(m))
    c.signals.pass_on(c, m, address)
    return out.view(dtype)


def store(c, m, address, values, hint=None):
    for memory, mine, at, lanes in spaces(c, space_of(m), address):
        memory.store(c, at, BYTES[m["t"]], [value[mine] for value in values], lanes, strong=is_strong(m))
    c.signals.pass_on(c, m, address)


def add_flushed(a, b):
    """f32 in global memory: denormals are zeros, before and after; in shared memory they are not."""
    return flush(clean(flush(a) + flush(b)))


ADD = {"bf16": lambda a, b: narrow(READ["bf16"](a) + READ["bf16"](b), "bf16"),
       **dict.fromkeys(("f16", "f32"), lambda a, b: clean(a + b))}
CHANGE = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
          "xor": np.bitwise_xor, "exch": lambda a, b: b,
          "inc": lambda a, b: np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1)),
          "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - a.dtype.type(1)),
          "cas": lambda a, b, d: np.where(a == b, d, a)}
FLOAT_CHANGE = {**CHANGE, "min": np.fmin, "max": np.fmax}


def atomic(c, m, address, *values):
    """atom and red: each of a vector by itself, the old value back."""
    dtype, name, type_ = DTYPE[kind_of(m["t"])], m["op"], m["t"].removesuffix("x2")
    plain = ADD[type_] if name == "add" and type_ in ADD else (FLOAT_CHANGE if "f" in type_ else CHANGE)[name]
    out = [np.empty(c.n, UINT[BYTES[m["t"]]]) for _ in values[0]]
    for n, new in enumerate(zip(*values[:1 + (name == "cas")])):
        for memory, mine, at, lanes in spaces(c, space_of(m), address + n * BYTES[m["t"]]):
            change = add_flushed if (memory.name, name, type_) == ("global", "add", "f32") else plain

            def changed(old, now):
                return change(old.view(dtype), *(v[mine][now].view(dtype) for v in new)).view(old.dtype)
            out[n][mine] = memory.update(c, at, BYTES[m["t"]], changed, lanes)
    c.signals.pass_on(c, m, address)
    return out


HINT, EVICT = ("cache:L2::cache_hint?",
               "evict:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate?")
ORDER, SCOPE = "order:weak|volatile|relaxed|acquire|release|mmio?", "scope:cta|cluster|gpu|sys?"
SCOPED = (f"order:relaxed|acquire|release|acq_rel? {SCOPE} space:global|{NEAR}? "
          "op:add|min|max|and|or|xor|exch|inc|dec|cas")
WIDTHS = f"noftz? {HINT} vec:v2|v4|v8? t:b16|b32|b64|u32|s32|u64|s64|f32|f64|f16|f16x2|bf16|bf16x2"
row(f"ld {ORDER} {SCOPE} space:global|{NEAR}|local|param|param::entry|param::func|const? nc? cop:ca|cg|cs|lu|"
    f"cv? {EVICT} {HINT} fetch:L2::64B|L2::128B|L2::256B? vec:v2|v4|v8? t:{TYPES}", "[t]=@,b64?", load)
row(f"ldu space:global vec:v2|v4? t:{TYPES}", "[t]=@", load)
row(f"st {ORDER} {SCOPE} space:global|{NEAR}|local? cop:wb|cg|cs|wt? {EVICT} {HINT} vec:v2|v4|v8? t:{TYPES}",
    "=@,[wt],b64?", store)
row(f"atom {SCOPED} {WIDTHS}", "[wt]=@,[wt],[wt]?,b64?", atomic)
row(f"red {SCOPED} {WIDTHS}", "=@,[wt],b64?", atomic)
row("trap", "=", lambda c, m: c.fault("trap", "reached a trap", c.lanes()))


def wait_for_the_launch_before(c, m):
    if c.early is not None:
        c.early[c.lanes()] = False


row("griddepcontrol act:wait", "=", wait_for_the_launch_before)


# ---- Fences, and what changes no value: the machine runs in order ----

def fence(c, m):
    if m.get("scope", "gpu") != "cta" and m.get("kind") != "acquire" and m.get("level") != "cta":
        announce(c)
    if c.signals.past is not None and (m.get("level") or m["scope"]) in ("gl", *FAR_ENOUGH):
        c.signals.past.fence(c)


row("membar level:cta|gl|sys", "=", fence)
row("fence kind:sc|acq_rel|acquire|release? scope:cta|cluster|gpu|sys", "=", fence)
for pattern in ("fence proxy alias",
                "prefetch space:global|local? level:L1|L2",
                "prefetchu L1", "applypriority space:global? level:L2::evict_normal",
                "discard space:global? level:L2", "griddepcontrol act:launch_dependents",
                "nanosleep t:u32", "pmevent"):
    row(pattern)

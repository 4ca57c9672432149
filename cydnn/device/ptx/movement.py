"""mov, address conversion, loads and stores, atomics, and what moves nothing (fences, hints)."""
from __future__ import annotations

import numpy as np

from .floating import clean, flush, narrow_bf16, widen_bf16
from .memory import LOCAL, PARAM, SHARED, SPACE_END, UINT, spaces
from .parse import BYTES
from .table import ANY, DTYPE, act, elementwise, given, kind_of, row

TYPES = "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f32|f64"
NEAR = "shared|shared::cta|shared::cluster"
SPACES = f"global|{NEAR}|local|param|param::entry|param::func|const"
EVICT = "evict:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate? cache:L2::cache_hint?"
FETCH = "fetch:L2::64B|L2::128B|L2::256B?"
ORDER = "order:weak|volatile|relaxed|acquire|release|mmio? scope:cta|cluster|gpu|sys?"
CLOCKS = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
WINDOW = {**dict.fromkeys(NEAR.split("|"), SHARED), "local": LOCAL}


# ---- Registers ----

def pack(op, m):
    """mov {a, b}, c and mov c, {a, b}."""
    out, source = op.operands
    size, parts = BYTES[m["t"]], (out if out.kind == "vec" else source).value
    wide, narrow, bits = UINT[size], f"b{8 * size // len(parts)}", 8 * size // len(parts)
    if source.kind == "vec":
        slots, target = [op.source(p, narrow) for p in parts], op.target(out, f"b{8 * size}")
        return elementwise(lambda *given: sum(np.asarray(v).astype(wide) << wide.type(bits * n) for n, v in enumerate(given)), target, slots, False)
    slot = op.source(source, f"b{8 * size}")
    kept = [(wide.type(bits * n), op.target(p, narrow)) for n, p in enumerate(parts) if p.kind != "sink"]

    def step(V, c):
        value = np.array(V[slot])
        for by, target in kept:
            np.copyto(V[target], value >> by, where=c.where, casting="unsafe")
    return step


def move(op, m):
    if len(op.operands) != 2:
        op.fail("it must have 2 operands")
    out, source = op.operands
    if "vec" in (out.kind, source.kind):
        return pack(op, m)
    target = op.target(out, m["t"])
    if source.kind == "reg" and op.program.registers[source.value][0] in CLOCKS:
        return lambda V, c: np.copyto(V[target], c.time, where=c.where, casting="unsafe")
    if source.kind == "reg" and BYTES[m["t"]] < op.width(source):
        op.fail(f"the source is wider than {m['t']}")
    slot = op.source(source, m["t"])
    return lambda V, c: np.copyto(V[target], V[slot], where=c.where)


def convert_address(m, a):
    a, base = np.asarray(a).astype(np.uint64), np.uint64(WINDOW.get(m["space"], 0))
    return a - base if "to" in m else a + base


def inside(m, a):
    low = {**WINDOW, "global": 0, "param": PARAM}[m["space"]]
    return (a >= np.uint64(low)) & (a < np.uint64(low + SPACE_END if low else SHARED))


row(f"mov t:{ANY}|pred", None, move)
given(f"cvta to? space:global|{NEAR}|local|const|param|param::entry t:u64|u32", "t=t", convert_address)
given(f"isspacep space:global|{NEAR}|local|param", "pred=u64", inside)


# ---- Loads, stores, atomics ----

def space_of(m) -> str:
    return m.get("space", "generic").split("::")[0]


def load(c, m, address, hint=None):
    dtype = DTYPE[kind_of(m["t"])]
    size, count, out = dtype.itemsize, int(m["vec"][1:]), None
    for memory, mine, at, lanes in spaces(c, space_of(m), address):
        values = memory.load(c, at, size, count, lanes, "nc" in m)
        out = values if len(at) == c.n else out or [np.empty(c.n, UINT[size]) for _ in values]
        for to, value in zip(out, values if len(at) < c.n else ()):
            to[mine] = value
    return [value.view(dtype) for value in out]


def parameter(op, m):
    """ld.param of a name: the same number for all lanes."""
    memory = op.operands[1]
    if memory.kind != "mem" or memory.value.kind != "param":
        return None
    dtype, first = DTYPE[kind_of(m["t"])], memory.value.value + memory.value.more
    targets = [(first + n * dtype.itemsize, op.target(p, m["t"])) for n, p in enumerate(op.operands[0].parts) if p.kind != "sink"]

    def step(V, c):
        for at, target in targets:
            np.copyto(V[target], c.params.data[at:at + dtype.itemsize].view(dtype)[0], where=c.where)
    return step


def store(c, m, address, values, hint=None):
    for memory, mine, at, lanes in spaces(c, space_of(m), address):
        memory.store(c, at, BYTES[m["t"]], [value[mine] for value in values], lanes)


def add_flushed(a, b):
    """f32 in global memory: denormals are zeros, before and after; in shared memory they are not."""
    return flush(clean(flush(a) + flush(b)))


ADD = {"bf16": lambda a, b: narrow_bf16(widen_bf16(a) + widen_bf16(b)), **dict.fromkeys(("f16", "f32"), lambda a, b: clean(a + b))}
CHANGE = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
          "exch": lambda a, b: b, "inc": lambda a, b: np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1)),
          "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - a.dtype.type(1)), "cas": lambda a, b, d: np.where(a == b, d, a)}
FLOAT_CHANGE = {**CHANGE, "min": np.fmin, "max": np.fmax}


def atomic(c, m, address, *values):
    """atom and red: each of a vector by itself, the old value back."""
    size, dtype, name = BYTES[m["t"]], DTYPE[kind_of(m["t"])], m["op"]
    plain = ADD.get(m["t"].removesuffix("x2")) if name == "add" else None
    plain = plain or (FLOAT_CHANGE if "f" in m["t"] else CHANGE)[name]

    out = [np.empty(c.n, UINT[size]) for _ in values[0]]
    for n, new in enumerate(zip(*values[:1 + (name == "cas")])):
        for memory, mine, at, lanes in spaces(c, space_of(m), address + n * size):
            change = add_flushed if (memory.name, name, m["t"]) == ("global", "add", "f32") else plain
            near = [v[mine] for v in new]

            def changed(old, now):
                return change(old.view(dtype), *(v[now].view(dtype) for v in near)).view(old.dtype)
            out[n][mine] = memory.update(c, at, size, changed, lanes)
    return out


row(f"ld param vec:v2|v4? t:{TYPES}", None, parameter)
act(f"ld {ORDER} space:{SPACES}? nc? cop:ca|cg|cs|lu|cv? {EVICT} {FETCH} vec:v2|v4|v8? t:{TYPES}", "[t]=@,b64?", load)
act(f"ldu space:global vec:v2|v4? t:{TYPES}", "[t]=@", load)
act(f"st {ORDER} space:global|{NEAR}|local? cop:wb|cg|cs|wt? {EVICT} vec:v2|v4|v8? t:{TYPES}", "=@,[wt],b64?", store)
SCOPED = f"order:relaxed|acquire|release|acq_rel? scope:cta|cluster|gpu|sys? space:global|{NEAR}? op:add|min|max|and|or|xor|exch|inc|dec|cas"
WIDTHS = "noftz? cache:L2::cache_hint? vec:v2|v4|v8? t:b16|b32|b64|u32|s32|u64|s64|f32|f64|f16|f16x2|bf16|bf16x2"
act(f"atom {SCOPED} {WIDTHS}", "[wt]=@,[wt],[wt]?,b64?", atomic)
act(f"red {SCOPED} {WIDTHS}", "=@,[wt],b64?", atomic)


# ---- What changes no value: the machine runs in order, so fences and hints are steps without effect ----

def nothing(op, m):
    return lambda V, c: None


for pattern in ("membar level:cta|gl|sys", "fence kind:sc|acq_rel|acquire|release? scope:cta|cluster|gpu|sys",
                "fence proxy kind:alias|async|async.global|async.shared space:global|shared::cta|shared::cluster?",
                "fence mbarrier_init order:release scope:cluster", "prefetch space:global|local? level:L1|L2", "prefetchu L1",
                "applypriority space:global? level:L2::evict_normal", "discard space:global? level:L2", "setmaxnreg way:inc|dec sync aligned t:u32",
                "griddepcontrol act:launch_dependents|wait", "nanosleep t:u32", "pmevent"):
    row(pattern, None, nothing)
act("trap", "=", lambda c, m: c.fault("trap", "reached a trap", c.lanes()))

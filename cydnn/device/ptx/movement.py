"""mov, address conversion, loads and stores, atomics, and what moves nothing (fences, hints)."""
from __future__ import annotations

import numpy as np

from .floating import clean16, clean32, flush, narrow_bf16, widen_bf16
from .memory import LOCAL, PARAM, SHARED, SPACE_END, UINT
from .parse import BYTES
from .table import ANY, apply, kind_of, row

TYPES = "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f32|f64"
SPACES = "global|shared|shared::cta|shared::cluster|local|param|param::entry|param::func|const"
HINTS = "cop:ca|cg|cs|lu|cv|wb|wt?"
EVICT = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
ORDER = "order:weak|volatile|relaxed|acquire|release|mmio? scope:cta|cluster|gpu|sys?"
LOAD = f"ld {ORDER} space:{SPACES}? nc? {HINTS} evict:{EVICT}? cache:L2::cache_hint? fetch:L2::64B|L2::128B|L2::256B? vec:v2|v4|v8? t:{TYPES}"
STORE = f"st {ORDER} space:{SPACES}? {HINTS} evict:{EVICT}? cache:L2::cache_hint? vec:v2|v4|v8? t:{TYPES}"


# ---- Registers ----

def _mov(op, m):
    """mov between registers, or packing a vector into a register and unpacking it."""
    op.need(2)
    out, source = op.operands
    type_ = m["t"]
    if source.kind == "vec":
        parts, size = source.value, BYTES[type_] // len(source.value)
        wide, narrow = UINT[BYTES[type_]], "b" + str(8 * size)
        slots, target = [op.source(p, narrow) for p in parts], op.target(out, "b" + str(8 * BYTES[type_]))

        def step(V, c):
            value = np.asarray(V[slots[0]]).astype(wide)
            for n, slot in enumerate(slots[1:], 1):
                value = value | np.asarray(V[slot]).astype(wide) << wide(8 * size * n)
            np.copyto(V[target], value, where=c.where)
        return step
    if out.kind == "vec":
        size = BYTES[type_] // len(out.value)
        kept = [(n, op.target(p, "b" + str(8 * size))) for n, p in enumerate(out.value) if p.kind != "sink"]
        slot, kind = op.source(source, "b" + str(8 * BYTES[type_])), UINT[BYTES[type_]]

        def step(V, c):
            value = V[slot]
            for (_, target), part in zip(kept, [value >> kind(8 * size * n) for n, _ in kept]):
                np.copyto(V[target], part, where=c.where, casting="unsafe")
        return step
    if source.kind == "reg" and op.program.registers[source.value][0] in CLOCKS:
        target = op.target(out, type_)
        return lambda V, c: np.copyto(V[target], c.time, where=c.where, casting="unsafe")
    if source.kind == "reg" and BYTES[type_] < op.width(source) and type_ != "pred":
        op.fail(f"the source is wider than {type_}")
    slot, target = op.source(source, type_), op.target(out, type_)

    def step(V, c):
        np.copyto(V[target], V[slot], where=c.where)
    return step


CLOCKS = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
row(f"mov t:{ANY}|pred", None, _mov)
WINDOW = {"shared": SHARED, "shared::cta": SHARED, "shared::cluster": SHARED, "local": LOCAL}


def _cvta(op, m):
    base = np.uint64(WINDOW.get(m["space"], 0))
    fn = (lambda a: np.asarray(a).astype(np.uint64) - base) if "to" in m else (lambda a: np.asarray(a).astype(np.uint64) + base)
    return apply(fn, op.target(op.operands[0], m["t"]), [op.source(op.operands[1], m["t"])], False)


row("cvta to? space:global|shared|shared::cta|shared::cluster|local|const|param|param::entry t:u64|u32", None, _cvta)


def inside(m):
    base = WINDOW.get(m["space"])
    if base is None:
        return lambda a: np.asarray(a) < np.uint64(SHARED) if m["space"] == "global" else np.asarray(a) >= np.uint64(PARAM)
    return lambda a: (np.asarray(a) >= np.uint64(base)) & (np.asarray(a) < np.uint64(base + SPACE_END))


row("isspacep space:global|shared|shared::cta|shared::cluster|local|param", "pred=u64", inside, make=True)


# ---- Loads and stores ----

def address(op, operand):
    """A function of (V, c) that gives the active lanes' addresses as int64."""
    if operand.kind != "mem":
        op.fail("a memory operand [register+offset] expected")
    base, (offset, _) = operand.value, operand.more
    if base.kind == "reg":
        slot = op.source(base, "s64" if op.width(base) == 8 else "u32")

        def compute(V, c):
            at = V[slot] if c.mask is None else V[slot][c.lanes()]
            return at + offset if at.dtype == np.int64 else at.astype(np.int64) + offset
        return compute
    fixed = (base.value if base.kind in ("param", "int") else op.decoder.address_of(op.program, base)) + offset
    return lambda V, c: np.full(c.n, fixed, np.int64)


def space_of(op, m, operand):
    space = (m.get("space") or "generic").split("::")[0]
    if operand.kind == "mem" and operand.value.kind == "param":
        return "param"
    return "global" if space == "const" else space


def parts_of(op, m, operand):
    parts, size = op.vector(operand), BYTES[m["t"]]
    count = int(m.get("vec", "v1")[1:])
    if len(parts) != count:
        op.fail(f"a vector of {count} expected")
    return parts, size, count


def _load(op, m):
    op.need(2, 3)
    parts, size, count = parts_of(op, m, op.operands[0])
    memory, space = op.operands[1], space_of(op, m, op.operands[1])
    kind = kind_of(m["t"])
    targets = [None if p.kind == "sink" else op.target(p, m["t"]) for p in parts]
    if space == "param" and memory.value.kind == "param":
        offset = memory.value.value + memory.more[0]

        def uniform(V, c):
            for n, target in enumerate(targets):
                raw = c.params.data[offset + n * size:offset + (n + 1) * size]
                if target is not None:
                    np.copyto(V[target], raw.view(RAW[kind])[0], where=c.where)
        return uniform
    where, dtype, constant = address(op, memory), RAW[kind], "nc" in m

    def step(V, c):
        values = c.memory[space].load(c, where(V, c), size, count, constant)
        for target, value in zip(targets, values):
            if target is not None:
                c.put(target, value.view(dtype) if value.dtype != dtype else value)
    return step


RAW = {letter + str(bits): np.dtype(f"{word}{bits}") for letter, word, sizes in
       (("u", "uint", (8, 16, 32, 64)), ("i", "int", (8, 16, 32, 64)), ("f", "float", (16, 32, 64))) for bits in sizes}


def _store(op, m):
    op.need(2, 3)
    parts, size, count = parts_of(op, m, op.operands[1])
    space, where = space_of(op, m, op.operands[0]), address(op, op.operands[0])
    if space == "param":
        op.fail("parameters of a kernel cannot be written")
    slots = [op.source(p, "b" + str(8 * size)) for p in parts]

    def step(V, c):
        c.memory[space].store(c, where(V, c), size, [c.at_lanes(V[s]) for s in slots])
    return step


row(LOAD, None, _load)
row(f"ldu space:global vec:v2|v4? t:{TYPES}", None, _load)
row(STORE, None, _store)


# ---- Atomics ----

def _f32_add(a, b, flushes):
    """In global memory denormals are zeros, before and after; in shared memory not."""
    x, y = (np.where(flushes, flush(v), v) for v in (a.view(np.float32), b.view(np.float32)))
    r = clean32(x + y)
    return np.where(flushes, flush(r), r).view(a.dtype)


def _f16_add(a, b):
    return clean16(a.view(np.float16) + b.view(np.float16)).view(a.dtype)


ADDS = {"f32": _f32_add, "f16": _f16_add, "f16x2": _f16_add}


def _bf16_add(a, b):
    return narrow_bf16(widen_bf16(a.view(np.uint16)) + widen_bf16(b.view(np.uint16))).view(a.dtype)


def _change(m):
    """(old, operands) -> new, on raw bits."""
    t, name = m["t"], m["op"]
    kind = kind_of(t)

    def typed(fn):
        return lambda a, b: fn(a.view(DT[kind]), b.view(DT[kind])).view(a.dtype)
    table = {"add": _bf16_add if t.startswith("bf16") else ADDS.get(t) or typed(np.add), "min": typed(np.minimum if "f" not in t else np.fmin),
             "max": typed(np.maximum if "f" not in t else np.fmax), "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
             "exch": lambda a, b: b, "inc": lambda a, b: np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1)),
             "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - a.dtype.type(1)), "cas": lambda a, b, d: np.where(a == b, d, a)}
    return table[name]


DT = {**RAW, "u16x2": np.dtype("uint16"), "f16x2": np.dtype("float16")}


def _atomic(returns):
    def built(op, m):
        place = op.operands[1 if returns else 0]
        given = op.operands[2 if returns else 1:]
        given = given[:2 if m["op"] == "cas" else 1]
        change, size, space, where = _change(m), BYTES[m["t"]], space_of(op, m, place), address(op, place)
        width = "b" + str(8 * size)
        parts, flushes = [op.vector(g) for g in given], change is _f32_add
        count = len(parts[0])
        slots = [[op.source(p, width) for p in each] for each in parts]
        targets = [op.target(p, width) for p in op.vector(op.operands[0])] if returns and op.operands[0].kind != "sink" else []

        def step(V, c):
            base = where(V, c)
            for n in range(count):
                values = [np.broadcast_to(c.at_lanes(V[each[n]]), base.shape) for each in slots]
                if flushes:
                    values.append((base < SHARED) & (space != "shared"))
                old = c.memory[space].atomic(c, base + n * size, size, lambda a, now: change(a, *(np.ascontiguousarray(v[now]) for v in values)))
                if targets:
                    c.put(targets[n], old)
        return step
    return built


SCOPED = f"order:relaxed|acquire|release|acq_rel? scope:cta|cluster|gpu|sys? space:{SPACES}?"
OPS = "op:add|min|max|and|or|xor|exch|inc|dec|cas"
WIDTHS = "noftz? cache:L2::cache_hint? vec:v2|v4|v8? t:b16|b32|b64|u32|s32|u64|s64|f32|f64|f16|f16x2|bf16|bf16x2"
row(f"atom {SCOPED} {OPS} {WIDTHS}", None, _atomic(True))
row(f"red {SCOPED} {OPS} {WIDTHS}", None, _atomic(False))


# ---- What changes no value: the machine runs in order, so fences and hints are steps without effect ----

def _nothing(op, m):
    return lambda V, c: None


row("membar level:cta|gl|sys", None, _nothing)
row("fence kind:sc|acq_rel|acquire|release? scope:cta|cluster|gpu|sys", None, _nothing)
row("fence kind:proxy proxy:alias|async|async.global|async.shared space:global|shared::cta|shared::cluster?", None, _nothing)
row("fence kind:mbarrier_init order:release scope:cluster", None, _nothing)
row("prefetch space:global|local? level:L1|L2", None, _nothing)
row("prefetchu L1", None, _nothing)
row("applypriority space:global? level:L2::evict_normal", None, _nothing)
row("discard space:global? level:L2", None, _nothing)
row("setmaxnreg way:inc|dec sync aligned t:u32", None, _nothing)
row("griddepcontrol act:launch_dependents|wait", None, _nothing)
row("nanosleep t:u32", None, _nothing)
row("pmevent", None, _nothing)
row("trap", None, lambda op, m: lambda V, c: c.fault("trap", "reached a trap", c.lanes()))

"""Matrix instructions: mma.sync of a warp, wgmma of a warpgroup (four warps of 16 rows), ldmatrix, stmatrix, movmatrix.

Sums in float64, rounded once. The sums of a wgmma may not be touched, nor its operands changed, before it was waited for.
"""
from __future__ import annotations

import re

import numpy as np

from .copies import Flight, swizzled
from .floating import READ, narrow
from .memory import ALL, CLOCK, NEVER, SHARED
from .table import row

BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f64": 8, "s8": 1, "u8": 1, "e4m3": 1, "e5m2": 1}
VIEW = {"f64": "f8", "f32": "f4", "s32": "i4", "f16": "f2", "s8": "i1", "u8": "u1", "tf32": "f4"}
GROUP, PLACE = np.arange(32)[:, None, None] >> 2, np.arange(32)[:, None, None] & 3        # PTX ISA: groupID and threadID_in_group
SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}           # bits 62 and 63 of a descriptor -> bytes


# ---- Layouts and types ----

def places(type_: str, rows: int, k: int):
    """(lane, register, element) -> row (of B: column) and k of an operand."""
    per, halves = max(4 // BYTES[type_], 1), rows // 8
    r, e = np.arange(rows * k // 32 // per)[None, :, None], np.arange(per)[None, None, :]
    return np.broadcast_arrays(GROUP + 8 * (r % halves), PLACE * per + e + 4 * per * (r // halves))


def places_of_sums(count: int):
    """(lane, element) -> row and column: c0 c1 in row g, c2 c3 in row g + 8, the next four in the next eight columns."""
    i = np.arange(count)[None]
    return GROUP[:, 0] + 8 * (i >> 1 & 1), PLACE[:, 0] * 2 + (i & 1) + 8 * (i >> 2)


def numbers(type_: str, raw):
    """Raw bits (…, registers) to numbers (…, registers, elements): float64, or int64 of integers."""
    raw = np.ascontiguousarray(raw & np.uint32(0xFFFFE000) if type_ == "tf32" else raw)
    parts = raw.view(VIEW.get(type_, f"u{BYTES.get(type_, 4)}")).reshape(*raw.shape, -1)
    return READ.get(type_, np.asarray)(parts).astype(np.int64 if type_[0] in "su" else np.float64)


def fragments(type_: str, raw, rows: int, k: int):
    """Registers (warps, 32, registers) as matrices (warps, rows, k)."""
    values = numbers(type_, raw)
    out = np.zeros((len(raw), rows, k), values.dtype)
    out[(slice(None), *places(type_, rows, k))] = values
    return out


def rounded(type_: str, total, saturate=False):
    """Sums (…, elements) as raw registers."""
    if type_ == "s32":
        return (np.clip(total, -2**31, 2**31 - 1) if saturate else total).astype(np.int32).view(np.uint32)
    return total.view(np.uint64) if type_ == "f64" else np.ascontiguousarray(narrow(total, type_)).view(np.uint32)


def stacked(c, registers):
    """Registers of the active lanes as (warps, 32, registers)."""
    return np.stack(registers, -1).reshape(len(c.warps()), 32, -1)


# ---- mma.sync ----

def expect(c, registers, count, what):
    if len(registers) != count:
        c.fault("operands", f"has {len(registers)} registers of {what}; {count} expected", c.lanes())


def mma(c, m, a, b, start):
    M, N, K = map(int, re.findall(r"\d+", m["shape"]))
    for registers, type_, rows, what in ((a, m["a"], M, "A"), (b, m["b"], N, "B")):
        expect(c, registers, rows * K // 32 // max(4 // BYTES[type_], 1), what)
    expect(c, start, M * N // 32 // (2 if m["c"] == "f16" else 1), "C")
    a, b, before = fragments(m["a"], stacked(c, a), M, K), fragments(m["b"], stacked(c, b), N, K), numbers(m["c"], stacked(c, start))
    rows, columns = places_of_sums(M * N // 32)
    total = before.reshape(*before.shape[:2], -1) + (a @ b.swapaxes(1, 2))[:, rows, columns]
    bits = rounded(m["d"], total, "satfinite" in m)
    return [bits[:, :, n].reshape(-1) for n in range(bits.shape[2])]


MMA = (("m16n8k16|m16n8k8", "f32|f16", "f16", "f32|f16"), ("m16n8k16|m16n8k8", "f32", "bf16", "f32"), ("m16n8k8|m16n8k4", "f32", "tf32", "f32"),
       ("m8n8k4", "f64", "f64", "f64"), ("m16n8k16|m16n8k32|m8n8k16", "s32", "s8|u8", "s32"), ("m16n8k32", "f32|f16", "e4m3|e5m2", "f32|f16"))
for shape, d, ab, start in MMA:
    register = "[b64]" if d == "f64" else "[b32]"
    row(f"mma sync aligned shape:{shape} row col satfinite? d:{d} a:{ab} b:{ab} c:{start}", "{0}={0},{0},{0}".format(register), mma)


# ---- 8 x 8 tiles of 16-bit elements: a lane names a row of 16 bytes ----

def turned(tiles, m):
    return np.ascontiguousarray(tiles.swapaxes(-1, -2) if "trans" in m else tiles)


def rows_of(c, m, address):
    """Lanes that name rows, and the addresses they name; without .shared these are generic."""
    count, address = 8 * int(m["x"][1:]), address if "space" in m else address - SHARED
    return c.warps()[:, :count].reshape(-1), address.reshape(-1, 32)[:, :count].reshape(-1)


def ldmatrix(c, m, address):
    lanes, at = rows_of(c, m, address)
    tiles = np.stack(c.memory["shared"].load(c, at, 8, 2, lanes, ahead=True), -1).view(np.uint16).reshape(-1, int(m["x"][1:]), 8, 8)
    words = turned(tiles, m).view(np.uint32).reshape(len(tiles), -1, 32)
    return [words[:, n].reshape(-1) for n in range(words.shape[1])]


def stmatrix(c, m, address, registers):
    lanes, at = rows_of(c, m, address)
    tiles = np.ascontiguousarray(stacked(c, registers).swapaxes(1, 2)).view(np.uint16).reshape(-1, 8, 8)
    c.memory["shared"].store(c, at, 8, list(turned(tiles, m).view(np.uint64).reshape(-1, 2).T), lanes)


row("ldmatrix sync aligned m8n8 x:x1|x2|x4 trans? space:shared|shared::cta? b16", "[b32]=@", ldmatrix)
row("stmatrix sync aligned m8n8 x:x1|x2|x4 trans? space:shared|shared::cta? b16", "=@,[b32]", stmatrix)
row("movmatrix sync aligned m8n8 trans b16", "b32=b32",
    lambda c, m, value: (turned(stacked(c, [value]).view(np.uint16).reshape(-1, 8, 8), m).view(np.uint32).reshape(-1),))


# ---- wgmma ----

def offsets(descriptor: int, rows: int, k: int, size: int, transposed: bool):
    """Byte addresses (rows, k) of an operand. PTX ISA, matrix descriptor; layouts as CUTLASS draws them."""
    start, lbo, sbo = (descriptor & 0x3FFF) << 4, (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    swizzle, r, c = SWIZZLE[descriptor >> 62 & 3], np.arange(rows)[:, None], np.arange(k)[None]
    unit = (swizzle or 16) // size                           # elements of a line
    if not transposed:
        at = r // 8 * sbo + (r % 8 * swizzle + c * size if swizzle else c // unit * lbo + r % 8 * 16 + c % unit * size)
    else:
        far, near = (lbo, sbo) if swizzle else (sbo, lbo)
        at = r // unit * far + c // 8 * near + c % 8 * (swizzle or 16) + r % unit * size
    return swizzled(start + at, swizzle)


def tile(c, type_, described, first, rows, k, transposed, cells):
    """An operand (rows, k) in shared memory, read in the name of lane ``first``; what it touches goes to ``cells``."""
    if (described != described[0]).any():
        c.fault("wgmma", "the lanes name different descriptors", first)
    shared, at = c.memory["shared"], offsets(int(described[0]), rows, k, BYTES[type_], bool(transposed)).ravel()
    raw, = shared.load(c, at, BYTES[type_], 1, np.full(len(at), first))
    cells.append(np.unique((int(c.block[first]) * shared.pitch + at) // shared.grain))
    return numbers(type_, raw).reshape(rows, k)


def wgmma(c, m, sums, a, b, keep=None, *given):
    N, K = map(int, re.findall(r"\d+", m["shape"])[1:])
    given = [value for value in given if value is not None]
    scale_a, scale_b, *trans = given + [1, 1, 0, 0][len(given):] if m["a"] not in ("s8", "u8") else [1, 1, 0, 0]
    trans_a, trans_b = [0, trans[0]] if len(a) > 1 else trans
    expect(c, sums, N // 2 // (2 if m["d"] == "f16" else 1), "accumulators")
    operands, shared, results = c.code_of.instructions[c.at].operands, c.memory["shared"], []
    registers = {o.value for operand in operands[:2] if operand.kind == "vec" for o in operand.value}
    rows, columns = places_of_sums(N // 2)
    for part in np.arange(c.n).reshape(-1, 128):
        cells, first = [], int(c.lanes()[part[0]])
        left = fragments(m["a"], np.stack([x[part] for x in a], -1).reshape(4, 32, -1), 16, K) if len(a) > 1 else \
            tile(c, m["a"], a[0][part], first, 64, K, trans_a, cells).reshape(4, 16, K)
        product = scale_a * scale_b * (left @ tile(c, m["b"], b[part], first, N, K, trans_b, cells).T)
        old = np.stack([x[part] for x in sums], -1)
        old = numbers(m["d"], old if keep is None else np.where(keep[part][:, None], old, np.uint32(0))).reshape(4, 32, -1)
        results.append(rounded(m["d"], old + product[:, rows, columns]).reshape(128, -1))
        at = np.concatenate(cells) * shared.ways + (int(c.in_group[first]) >> 5 if shared.ways > 1 else 0)
        shared.reads[at] |= NEVER << CLOCK
        c.copies.flights.append(Flight(registers, at, first, int(c.copies.flight_group[first])))
    return list(np.concatenate(results).T)


def commit(c, m):
    c.copies.flight_group[c.lanes()] += 1


def wait(c, m, left):
    """The reads of all but the last ``left`` groups have ended."""
    flights, c.copies.flights = c.copies.flights, []
    for flight in flights:
        if flight.lane in c.lanes() and flight.group < c.copies.flight_group[flight.lane] - left:
            c.memory["shared"].reads[flight.cells] = c.code[flight.lane] | ALL
        else:
            c.copies.flights.append(flight)


SHAPES = {k: "|".join(f"m64n{n}k{k}" for n in range(8, 257, 8)) for k in (8, 16, 32)}
for k, d, ab in ((16, "f32|f16", "f16"), (16, "f32", "bf16"), (8, "f32", "tf32"), (32, "f32|f16", "e4m3|e5m2"), (32, "s32", "s8|u8")):
    row(f"wgmma mma_async sync aligned shape:{SHAPES[k]} d:{d} a:{ab} b:{ab}", "[b32]=+,[*],b64,pred?,#?,#?,#?,#?", wgmma)
row("wgmma fence sync aligned", "=", lambda c, m: None)
row("wgmma commit_group sync aligned", "=", commit)
row("wgmma wait_group sync aligned", "=#", wait)

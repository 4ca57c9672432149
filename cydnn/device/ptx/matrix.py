"""Matrix instructions: mma.sync of a warp, wgmma of a warpgroup (four warps of 16 rows),
ldmatrix, stmatrix, movmatrix.

Sums in float64, rounded once. The sums of a wgmma may not be touched, nor its operands
changed, before it was waited for.
"""
from __future__ import annotations

import functools
import re

import numpy as np

from .bulk import swizzled
from .copies import Flight, fenced
from .floating import READ, narrow
from .memory import CLOCK, NEVER, SHARED
from .table import row

VIEW = {"f64": "f8", "f32": "f4", "tf32": "f4", "s32": "i4", "f16": "f2", "bf16": "u2", "s8": "i1",
        "u8": "u1", "e4m3": "u1", "e5m2": "u1"}
BYTES = {type_: int(view[1]) for type_, view in VIEW.items()}
SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}           # bits 62 and 63 of a descriptor -> bytes


# ---- What warps hold ----

@functools.cache
def places(rows: int, k: int, per: int):
    """Where the elements (lane, n) of a matrix (warps, rows, k) are, B turned. PTX ISA: groupID,
    threadID_in_group with ``per`` neighbours."""
    lane, n = np.arange(32)[:, None], np.arange(rows * k // 32)
    right, down = np.divmod(n // per, rows // 8)             # in blocks of 8 rows
    return slice(None), (lane >> 2) + 8 * down, ((lane & 3) + 4 * right) * per + n % per


def numbers(type_: str, raw):
    """Raw bits (…, registers) as numbers (…, elements): float64, or int64 of integers."""
    raw = np.ascontiguousarray(raw & np.uint32(0xFFFFE000) if type_ == "tf32" else raw).view(VIEW[type_])
    return READ.get(type_, np.asarray)(raw).astype(np.int64 if type_[0] in "su" else np.float64)


def stacked(c, registers):
    """Registers of the active lanes as (warps, 32, registers)."""
    return np.stack(registers, -1).reshape(len(c.warps()), 32, -1)


def matrices(c, type_: str, registers, rows: int, k: int, per=2):
    """Registers as matrices (warps, rows, k), for a product."""
    c.parts.multiply(c)
    values = numbers(type_, stacked(c, registers))
    if values.shape[2] != rows * k // 32:
        c.fault("operands", f"has {len(registers)} registers for {rows} x {k} elements of {type_}", c.lanes())
    out = np.zeros((len(values), rows, k), values.dtype)
    out[places(rows, k, per)] = values
    return out


def rounded(type_: str, total, saturate=False):
    """Sums (warps, rows, columns) as registers."""
    total = total[places(*total.shape[1:], 2)]
    total = (narrow(total, type_) if type_ != "s32"
             else (np.clip(total, -2**31, 2**31 - 1) if saturate else total).astype(np.int32))
    bits = np.ascontiguousarray(total).view(f"u{max(total.itemsize, 4)}")
    return bits.reshape(-1, bits.shape[2]).T


def mma(c, m, a, b, start):
    M, N, K = map(int, re.findall(r"\d+", m["shape"]))
    left, right = (matrices(c, type_, held, rows, K, 4 // BYTES[type_] or 1)
                   for type_, held, rows in ((m["a"], a, M), (m["b"], b, N)))
    return rounded(m["d"], matrices(c, m["c"], start, M, N) + left @ right.swapaxes(1, 2), "satfinite" in m)


for shape, d, ab, start in (("m16n8k16|m16n8k8", "f32|f16", "f16", "f32|f16"),
                            ("m16n8k16|m16n8k8", "f32", "bf16", "f32"),
                            ("m16n8k8|m16n8k4", "f32", "tf32", "f32"), ("m8n8k4", "f64", "f64", "f64"),
                            ("m16n8k16|m16n8k32|m8n8k16", "s32", "s8|u8", "s32"),
                            ("m16n8k32", "f32|f16", "e4m3|e5m2", "f32|f16")):
    held = "[b64]" if d == "f64" else "[b32]"
    row(f"mma sync aligned shape:{shape} row col satfinite? d:{d} a:{ab} b:{ab} c:{start}",
        f"{held}={held},{held},{held}", mma)


# ---- 8 x 8 tiles of 16-bit elements: a lane names a row of 16 bytes ----

def tiles(m, words):
    """(tiles, 8, 8), turned where the instruction says so."""
    each = np.ascontiguousarray(words).view(np.uint16).reshape(-1, 8, 8)
    return np.ascontiguousarray(each.swapaxes(1, 2)) if "trans" in m else each


def move_rows(c, m, address, registers=None):
    """ldmatrix, stmatrix: without .shared the addresses are generic."""
    shared, count = c.memory["shared"], 8 * int(m["x"][1:])
    at, lanes = (each.reshape(-1, 32)[:, :count].ravel()
                 for each in (address if "space" in m else address - SHARED, c.warps()))
    if registers:
        return shared.store(
            c, at, 8, tiles(m, stacked(c, registers).swapaxes(1, 2)).view(np.uint64).reshape(-1, 2).T, lanes)
    words = tiles(m, np.stack(shared.load(c, at, 8, 2, lanes, ahead=True), -1)).view(np.uint32)
    return words.reshape(len(c.warps()), -1, 32).swapaxes(0, 1).reshape(-1, c.n)


row("ldmatrix sync aligned m8n8 x:x1|x2|x4 trans? space:shared|shared::cta? b16", "[b32]=@", move_rows)
row("stmatrix sync aligned m8n8 x:x1|x2|x4 trans? space:shared|shared::cta? b16", "=@,[b32]", move_rows)
row("movmatrix sync aligned m8n8 trans b16", "b32=b32",
    lambda c, m, value: tiles(m, stacked(c, [value])).view(np.uint32).reshape(1, -1))


# ---- wgmma ----

CHUNK = 16                                       # bytes that lie side by side in every layout


def offsets(descriptor: int, rows: int, k: int, size: int, transposed):
    """Byte addresses (lines across, chunks of each) of an operand. PTX ISA, matrix descriptor; layouts as
    CUTLASS draws them."""
    start, lbo, sbo = ((descriptor >> bit & 0x3FFF) << 4 for bit in (0, 16, 32))
    swizzle, (across, along) = SWIZZLE[descriptor >> 62 & 3], (k, rows) if transposed else (rows, k)
    across, along = np.ogrid[:across, :along:CHUNK // size]  # eight lines across, neighbours along
    line, near, far = (swizzle, sbo, lbo) if swizzle else (16, lbo, sbo) if transposed else (16, sbo, lbo)
    at = (across // 8 * near + across % 8 * line + along // (line // size) * far
          + along % (line // size) * size)
    return swizzled(start + at, swizzle)


def described(c, type_, descriptors, rows, k, transposed, noted):
    """An operand (warpgroups, rows, k) in shared memory, read in the name of their first lanes;
    where that is noted is added to ``noted``."""
    shared, first, each = c.memory["shared"], c.lanes()[::128], descriptors.reshape(-1, 128)
    if (bad := (each != each[:, :1]).any(1)).any():
        c.fault("wgmma", "the lanes name different descriptors", first[bad])
    at = np.stack([offsets(int(d), rows, k, BYTES[type_], transposed) for d in each[:, 0]])
    lines, at = at.shape[1], at.reshape(len(first), -1)
    raw = np.stack(shared.load(c, at.ravel(), 8, 2, np.repeat(first, at.shape[1])), -1)
    places = (c.block[first] * shared.pitch + at.T).T
    fenced(c, places.ravel(), CHUNK, first[0], "reads")
    cells = shared.cells(places.ravel(), CHUNK).reshape(len(first), -1)
    noted.append((cells.T * shared.ways + c.row[first] % shared.ways).T)
    found = numbers(type_, raw.view(np.uint32)).reshape(len(first), lines, -1)
    return found.swapaxes(1, 2) if transposed else found


def wgmma(c, m, sums, a, b, keep=None, scale_a=None, scale_b=None, *trans):
    N, K = map(int, re.findall(r"\d+", m["shape"])[1:])
    taken = (("imm-scale-a", scale_a, (1, -1)), ("imm-scale-b", scale_b, (1, -1)),
             *(("imm-trans", flag, (0, 1)) for flag in trans))
    for name, given, (one, other) in taken:
        if given not in (None, one, other):
            c.fault("wgmma", f"{name} must be {one} or {other}; got {given}", c.lanes())
    registers, first, noted = [o for each in c.code_of.instructions[c.at].operands if each.kind == "vec"
                               for o in each.parts], c.lanes()[::128], []
    if len(a) > 1:                                           # A lies in registers
        left, trans = matrices(c, m["a"], a, 16, K, 4 // BYTES[m["a"]]).reshape(-1, 64, K), (0, *trans)
    else:
        left = described(c, m["a"], a[0], 64, K, trans[0], noted)
    product = ((scale_a or 1) * (scale_b or 1) * left
               @ described(c, m["b"], b, N, K, trans[1], noted).swapaxes(1, 2))
    old = matrices(c, m["d"], sums if keep is None else np.where(keep, sums, np.uint32(0)), 16, N)
    at = np.concatenate(noted, 1)
    c.memory["shared"].reads[at] |= NEVER << CLOCK
    c.copies.flights.append(Flight(first, c.copies.group["wgmma"][first], at, at[:, :0], c.at,
                                   registers={o.value for o in registers}))
    return rounded(m["d"], old + product.reshape(-1, 16, N))


for k, d, ab in ((16, "f32|f16", "f16"), (16, "f32", "bf16"), (8, "f32", "tf32"),
                 (32, "f32|f16", "e4m3|e5m2"), (32, "s32", "s8|u8")):
    shapes = "|".join(f"m64n{n}k{k}" for n in range(8, 257, 8))
    row(f"wgmma mma_async sync aligned shape:{shapes} d:{d} a:{ab} b:{ab}",
        "[b32]=+,[*],b64,pred?,#?,#?,#?,#?", wgmma)
row("wgmma fence sync aligned", "=", lambda c, m: None)

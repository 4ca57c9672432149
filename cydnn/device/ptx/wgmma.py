"""wgmma: products of a warpgroup from shared memory. Their sums may not be touched, nor their operands changed, before they were waited for."""
from __future__ import annotations

import re

import numpy as np

from .check import CLOCK
from .floating import narrow16, narrow32
from .mbarrier import swizzled
from .table import row
from .tensor import BITS, elements, places_a

LANE = np.arange(128)
WIDTH = {0: 0, 1: 128, 2: 64, 3: 32}             # bits 62–63 of a descriptor -> bytes of the swizzle
LATER = ((1 << 23) - 1) << CLOCK                 # the clock of a read that has not ended


def offsets(descriptor: int, rows: int, k: int, size: int, transposed: bool):
    """Byte addresses (rows, k) of an operand. PTX ISA, matrix descriptor; layouts as CUTLASS draws them."""
    start, lbo, sbo = (descriptor & 0x3FFF) << 4, (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    swizzle, unit = WIDTH[descriptor >> 62 & 3], 16 // size
    r, c = np.arange(rows)[:, None], np.arange(k)[None]
    if not transposed:
        if swizzle:
            at = r // 8 * sbo + r % 8 * swizzle + c * size
        else:
            at = r // 8 * sbo + c // unit * lbo + r % 8 * 16 + c % unit * size
    elif swizzle:
        wide = swizzle // size
        at = r // wide * lbo + c // 8 * sbo + c % 8 * swizzle + r % wide * size
    else:
        at = r // unit * sbo + c // 8 * lbo + c % 8 * 16 + r % unit * size
    return swizzled(start + at, swizzle)


class Flight:
    """What a warpgroup has under way: per group, registers and cells."""

    def __init__(self):
        self.open, self.groups = [], []

    def registers(self):
        return {r for part in (self.open, *self.groups) for registers, _, _ in part for r in registers}


def _mma(op, m):
    N, K = map(int, re.fullmatch(r"m64n(\d+)k(\d+)", m["shape"]).groups())
    d_type, a_type, b_type = m["d"], m["a"], m["b"]
    D = op.vector(op.operands[0])
    from_registers = op.operands[1].kind == "vec"
    d_slots = [op.target(o, "b32") for o in D]
    a_slots = [op.source(o, "b32") for o in op.operands[1].value] if from_registers else [op.source(op.operands[1], "b64")]
    b_slot = op.source(op.operands[2], "b64")
    keep = op.source(op.operands[3], "pred") if len(op.operands) > 3 else None
    flags = [o.value for o in op.operands[4:]] + [1, 1, 0, 0][len(op.operands[4:]):]
    sign = 1 if a_type in ("s8", "u8") else flags[0] * flags[1]
    trans_a, trans_b = (0, flags[2]) if from_registers else flags[2:4]
    size = BITS[a_type] // 8
    per = 2 if d_type == "f16" else 1
    if len(D) != N // 2 // per:
        op.fail(f"{N // 2 // per} accumulators expected, {len(D)} given")
    i = np.arange(N // 2)[None]
    rows_d = LANE[:, None] // 32 * 16 + LANE[:, None] % 32 // 4 + 8 * (i >> 1 & 1)
    columns_d = LANE[:, None] % 4 * 2 + (i & 1) + 8 * (i >> 2)
    a_at = places_a(a_type, 16, K)
    registers = {o.value for o in D} | ({o.value for o in op.operands[1].value} if from_registers else set())
    number = np.int64 if a_type in ("s8", "u8") else np.float64

    def step(V, c):
        shared, groups = c.memory["shared"], c.lanes().reshape(-1, 128)
        for lanes in groups:
            first = int(lanes[0])
            base, cells = int(c.block[first]) * shared.pitch, []

            def tile(slot, rows, type_, transposed):
                described = np.broadcast_to(V[slot], (c.L,))[lanes]
                if (described != described[0]).any():
                    c.fault("wgmma", "the lanes name different descriptors", lanes)
                at = offsets(int(described[0]), rows, K, size, bool(transposed))
                if at.max() + size > shared.size:
                    c.fault("address", f"reads {size} bytes at {at.max()} of {shared.size} bytes of shared memory", lanes)
                touched = np.unique((base + at) // shared.grain)
                shared.shadow.read(c, touched[None], c.all_lanes[first:first + 1], True)
                cells.append(touched)
                raw = shared.view[size][(base + at) // size]
                return elements(type_, raw.reshape(-1, 1).astype("u%d" % size)).reshape(rows, K) if size < 4 else \
                    elements(type_, raw.reshape(-1, 1)).reshape(rows, K)
            if from_registers:
                a, raw = np.zeros((4, 16, K), number), np.stack([np.broadcast_to(V[s], (c.L,))[lanes].reshape(4, 32) for s in a_slots], -1)
                a[:, a_at[0], a_at[1]] = elements(a_type, raw)
                a = a.reshape(64, K)
            else:
                a = tile(a_slots[0], 64, a_type, trans_a)
            product = sign * (a.astype(number) @ tile(b_slot, N, b_type, trans_b).astype(number).T)
            old = np.stack([V[s][lanes] for s in d_slots], -1)
            if keep is not None:
                held = np.broadcast_to(V[keep], (c.L,))[lanes][:, None]
                old = np.where(held, old, old.dtype.type(0))
            before = elements(d_type, np.ascontiguousarray(old)).reshape(128, -1)
            total = before + product[rows_d, columns_d]
            bits = narrow32(total).view(np.uint32) if d_type == "f32" else total.astype(np.int32).view(np.uint32) if d_type == "s32" else \
                np.ascontiguousarray(narrow16(total)).view(np.uint32)
            for n, slot in enumerate(d_slots):
                V[slot][lanes] = bits[:, n]
            at = np.concatenate(cells) * shared.shadow.ways + (int(c.in_group[first]) >> 5 if shared.shadow.ways > 1 else 0)
            shared.shadow.reads[at] |= LATER
            c.flights.setdefault(c.warpgroup(first), Flight()).open.append((registers, at, first))
    return step


def _commit(op, m):
    def step(V, c):
        for lanes in c.lanes().reshape(-1, 128):
            flight = c.flights.setdefault(c.warpgroup(int(lanes[0])), Flight())
            flight.groups.append(flight.open)
            flight.open = []
    return step


def _wait(op, m):
    left = op.operands[0].value

    def step(V, c):
        for lanes in c.lanes().reshape(-1, 128):
            flight = c.flights.setdefault(c.warpgroup(int(lanes[0])), Flight())
            ended = flight.groups[:len(flight.groups) - left]
            flight.groups = flight.groups[len(ended):]
            for _, at, first in (each for group in ended for each in group):
                c.memory["shared"].shadow.reads[at] = c.code[first] | 0xFFFF
    return step


TYPES = (("k16", "f32|f16", "f16", "f16"), ("k16", "f32", "bf16", "bf16"), ("k8", "f32", "tf32", "tf32"), ("k32", "f32|f16", "e4m3|e5m2", "e4m3|e5m2"),
         ("k32", "s32", "s8|u8", "s8|u8"))
for k, d, a, b in TYPES:
    shapes = "|".join(f"m64n{n}{k}" for n in range(8, 257, 8))
    row(f"wgmma mma_async sync aligned shape:{shapes} d:{d} a:{a} b:{b}", None, _mma)
row("wgmma act:fence sync aligned", None, lambda op, m: lambda V, c: None)
row("wgmma act:commit_group sync aligned", None, _commit)
row("wgmma act:wait_group sync aligned", None, _wait)

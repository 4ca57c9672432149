"""Matrix instructions of a warp: mma.sync, ldmatrix, stmatrix, movmatrix. Sums in float64, rounded once."""
from __future__ import annotations

import re

import numpy as np

from .convert import FP8
from .floating import narrow32, narrow16, widen_bf16
from .memory import SHARED
from .table import row

LANE = np.arange(32)
GROUP, PLACE = LANE >> 2, LANE & 3               # PTX ISA: groupID and threadID_in_group
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f32": 32, "s32": 32}


def elements(type_, raw):
    """(…, registers) of raw bits to (…, registers, elements) as float64 (or int64 for integers)."""
    if type_ in ("f64", "f32", "s32"):
        return raw.view({"f64": np.float64, "f32": np.float32, "s32": np.int32}[type_])[..., None]
    if type_ == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32)[..., None]
    parts = np.ascontiguousarray(raw).view("u%d" % (BITS[type_] // 8)).reshape(*raw.shape, -1)
    if type_ == "f16":
        return parts.view(np.float16).astype(np.float64)
    if type_ == "bf16":
        return widen_bf16(parts).astype(np.float64)
    if type_ in ("s8", "u8"):
        return parts.view(np.int8 if type_ == "s8" else np.uint8).astype(np.int64)
    table = np.concatenate([FP8[type_], -FP8[type_]])
    return table[parts]


def places_a(type_, m, k):
    """(register, element) of a lane -> row and column of A: (32, registers, elements) arrays."""
    per = max(32 // BITS[type_], 1)
    registers = m * k // 32 // per
    r, e = np.arange(registers)[None, :, None], np.arange(per)[None, None, :]
    g, p = GROUP[:, None, None], PLACE[:, None, None]
    rows, columns = g + 8 * (r & 1) + 0 * e, p * per + e + 4 * per * (r >> 1)
    return (rows, columns) if m == 16 else (g + 0 * (r + e), p * per + e + 4 * per * r)


def places_b(type_, n, k):
    per = max(32 // BITS[type_], 1)
    registers = n * k // 32 // per
    r, e = np.arange(registers)[None, :, None], np.arange(per)[None, None, :]
    return PLACE[:, None, None] * per + e + 4 * per * r, GROUP[:, None, None] + 0 * (r + e)


def places_c(m, n):
    """Accumulators: elements in order c0 c1 (row g), c2 c3 (row g + 8)."""
    i = np.arange(m * n // 32)[None]
    return GROUP[:, None] + 8 * (i >> 1), PLACE[:, None] * 2 + (i & 1)


def fetch(c, V, slots):
    """(warps, 32, registers) of the warps at work."""
    return np.stack([np.broadcast_to(V[s], (c.L,)).reshape(-1, 32)[c.warps()] for s in slots], -1)


def _mma(op, m):
    op.need(4)
    M, N, K = map(int, re.fullmatch(r"m(\d+)n(\d+)k(\d+)", m["shape"]).groups())
    d_type, a_type, b_type, c_type = m["d"], m["a"], m["b"], m["c"]
    packed = c_type == "f16"
    width = {"f64": "b64"}
    D, A, B, C = (op.vector(o) for o in op.operands)
    a_slots, b_slots = ([op.source(o, width.get(t, "b32")) for o in part] for part, t in ((A, a_type), (B, b_type)))
    c_slots = [op.source(o, width.get(c_type, "b32")) for o in C]
    d_slots = [op.target(o, width.get(d_type, "b32")) for o in D]
    a_at, b_at, c_at = places_a(a_type, M, K), places_b(b_type, N, K), places_c(M, N)
    for have, want in ((len(A), a_at[0].shape[1]), (len(B), b_at[0].shape[1]), (len(C), c_at[0].shape[1] // (2 if packed else 1))):
        if have != want:
            op.fail(f"{want} registers expected, {have} given")
    whole = a_type in ("s8", "u8")
    number = np.int64 if whole else np.float64

    def step(V, c):
        count = len(c.warps())
        a, b, out = np.zeros((count, M, K), number), np.zeros((count, K, N), number), np.zeros((count, M, N), number)
        a[:, a_at[0], a_at[1]] = elements(a_type, fetch(c, V, a_slots))
        b[:, b_at[0], b_at[1]] = elements(b_type, fetch(c, V, b_slots))
        start = elements(c_type, fetch(c, V, c_slots))
        out[:, c_at[0], c_at[1]] = start.reshape(count, 32, -1)
        out += a @ b
        result = out[:, c_at[0], c_at[1]]
        if d_type == "f32":
            bits = narrow32(result).view(np.uint32)
        elif d_type == "f16":
            bits = np.ascontiguousarray(narrow16(result)).view(np.uint32)
        elif d_type == "f64":
            bits = result.view(np.uint64)
        else:
            bits = (np.clip(result, -2**31, 2**31 - 1) if "satfinite" in m else result).astype(np.int32).view(np.uint32)
        for n, slot in enumerate(d_slots):
            c.put(slot, bits[:, :, n].reshape(-1))
    return step


MMA = (("m16n8k16|m16n8k8", "f32|f16", "f16", "f16", "f32|f16"), ("m16n8k16|m16n8k8", "f32", "bf16", "bf16", "f32"),
       ("m16n8k8|m16n8k4", "f32", "tf32", "tf32", "f32"), ("m8n8k4", "f64", "f64", "f64", "f64"),
       ("m16n8k16|m16n8k32|m8n8k16", "s32", "s8|u8", "s8|u8", "s32"), ("m16n8k32", "f32|f16", "e4m3|e5m2", "e4m3|e5m2", "f32|f16"))
for shape, d, a, b, cc in MMA:
    row(f"mma sync aligned shape:{shape} row col satfinite? d:{d} a:{a} b:{b} c:{cc}", None, _mma)


def _shared(op, m, operand):
    """Addresses in shared memory; without .shared they are generic."""
    from .movement import address
    where = address(op, operand)
    return where if "space" in m else lambda V, c: where(V, c) - SHARED


def _ldmatrix(op, m):
    count, half = int(m["x"][1:]), np.arange(8)
    targets, where = [op.target(o, "b32") for o in op.vector(op.operands[0])], _shared(op, m, op.operands[1])
    if len(targets) != count:
        op.fail(f"{count} registers expected")

    def step(V, c):
        memory, lanes, at = c.memory["shared"], c.lanes().reshape(-1, 32), where(V, c).reshape(-1, 32)
        named = lanes[:, :8 * count].reshape(-1)
        off = memory.place(c, np.ascontiguousarray(at[:, :8 * count]).reshape(-1), 16, "reads", named)
        memory.shadow.read(c, memory.cells(off, 16), named, True, ahead=True)
        tile = memory.view[2][(off // 2)[:, None] + half].reshape(-1, count, 8, 8)
        if "trans" in m:
            tile = tile.swapaxes(2, 3)
        words = np.ascontiguousarray(tile).view(np.uint32).reshape(-1, count, 32)
        for n, target in enumerate(targets):
            c.put(target, words[:, n].reshape(-1))
    return step


def _stmatrix(op, m):
    count, half = int(m["x"][1:]), np.arange(8)
    slots, where = [op.source(o, "b32") for o in op.vector(op.operands[1])], _shared(op, m, op.operands[0])

    def step(V, c):
        memory, lanes, at = c.memory["shared"], c.lanes().reshape(-1, 32), where(V, c).reshape(-1, 32)
        named = lanes[:, :8 * count].reshape(-1)
        off = memory.place(c, np.ascontiguousarray(at[:, :8 * count]).reshape(-1), 16, "writes", named)
        memory.shadow.write(c, memory.cells(off, 16), named, True)
        tile = np.ascontiguousarray(fetch(c, V, slots).swapaxes(1, 2)).view(np.uint16).reshape(-1, count, 8, 8)
        if "trans" in m:
            tile = tile.swapaxes(2, 3)
        memory.view[2][(off // 2)[:, None] + half] = tile.reshape(-1, 8)
    return step


row("ldmatrix sync aligned m8n8 x:x1|x2|x4 trans? space:shared|shared::cta? b16", None, _ldmatrix)
row("stmatrix sync aligned m8n8 x:x1|x2|x4 trans? space:shared|shared::cta? b16", None, _stmatrix)


def _movmatrix(op, m):
    target, source = op.target(op.operands[0], "b32"), op.source(op.operands[1], "b32")

    def step(V, c):
        tile = np.ascontiguousarray(fetch(c, V, [source])).view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2)
        c.put(target, np.ascontiguousarray(tile).view(np.uint32).reshape(-1))
    return step


row("movmatrix sync aligned m8n8 trans b16", None, _movmatrix)

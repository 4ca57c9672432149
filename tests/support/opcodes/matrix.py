"""The probes of matrix instructions of a warp. Five warps each: two of small integers (exact),
two of ordinary numbers, one with edges."""
from __future__ import annotations

import re

import numpy as np

from .table import enter, expand
from .values import core, encode, hashed, seed_of

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8,
        "e4m3": 8, "e5m2": 8, "f32": 32, "s32": 32}
SIGNS = {"f16": 0x7FFF7FFF, "bf16": 0x7FFF7FFF, "e4m3": 0x7F7F7F7F, "e5m2": 0x7F7F7F7F, "tf32": 0x7FFFFFFF,
      "f32": 0x7FFFFFFF}    # all bits but the signs
# 0, 1, 2, 3, -1, -2, -3
SMALL = {"e4m3": (0, 0x38, 0x40, 0x44, 0xB8, 0xC0, 0xC4), "e5m2": (0, 0x3C, 0x40, 0x42, 0xBC, 0xC0, 0xC2)}
WARPS = 5


def mask(type_: str):
    """What takes the signs off a register."""
    return np.uint64((1 << 63) - 1) if type_ == "f64" else np.uint32(SIGNS.get(type_, 0xFFFFFFFF))


def small(type_: str, seed: int, count: int) -> np.ndarray:
    """Integers of -3 to 3 (u8: 0 to 3) as bits."""
    pick = (hashed(seed, count) % np.uint64(7)).astype(np.int64)
    if type_ in SMALL:
        return np.array(SMALL[type_], np.uint8)[pick]
    if type_ in ("s8", "u8", "s32"):
        return (pick % 4 if type_ == "u8" else pick - 3).astype(
            {"s8": np.int8, "u8": np.uint8, "s32": np.int32}[type_]).view(f"u{BITS[type_] // 8}")
    return encode((pick - 3).astype(np.float64), type_)


def ordinary(type_: str, seed: int, count: int) -> np.ndarray:
    bits = hashed(seed, count)
    if type_ in SMALL or type_ in ("s8", "u8", "s32"):
        raw = (bits >> np.uint64(20)).astype(f"u{BITS[type_] // 8}")
        return raw & np.uint8(0xBF) if type_ in SMALL else raw  # a smaller exponent: neither NaN nor infinity
    return encode((bits >> np.uint64(11)).astype(np.float64) * 2.0 ** -52 - 1, type_)


def edges(type_: str, seed: int, count: int) -> np.ndarray:
    """Ordinary numbers with an edge value among sixteen."""
    base = ordinary(type_, seed, count)
    table = (np.arange(256, dtype=np.uint8) if BITS[type_] == 8
             else core("f32" if type_ == "tf32" else type_ if type_ != "s32" else "s32"))
    pick = hashed(seed + 5, count)
    return np.where(pick & np.uint64(15), base, table[(pick >> np.uint64(8)).astype(np.int64) % len(table)])


def noisy(type_: str, seed: int, count: int) -> np.ndarray:
    """Ordinary numbers; tf32 with noise in the bits that it has not."""
    base = ordinary(type_, seed, count)
    return (base | (hashed(seed + 9, count) & np.uint64(0x1FFF)).astype(base.dtype)
            if type_ == "tf32" else base)


def fragment(type_: str, seed: int, registers: int) -> list[np.ndarray]:
    """Registers of WARPS * 32 lanes."""
    size = 8 if type_ == "f64" else 4
    per = max(8 * size // BITS[type_], 1)
    parts = [make(type_, seed + 100 * i, 32 * per * registers).reshape(registers, 32 * per) for i,
          make in enumerate((small, small, ordinary, noisy, edges))]
    return [np.ascontiguousarray(np.concatenate([p[r] for p in parts])).view(f"u{size}")
            for r in range(registers)]


MMA = ("m16n8k16|m16n8k8 row col d:f32|f16 a:f16 b:f16 c:f32|f16",
       "m16n8k16|m16n8k8 row col d:f32 a:bf16 b:bf16 c:f32",
       "m16n8k8|m16n8k4 row col d:f32 a:tf32 b:tf32 c:f32", "m8n8k4 row col d:f64 a:f64 b:f64 c:f64",
       "m16n8k16|m16n8k32|m8n8k16 row col satfinite? d:s32 a:s8|u8 b:s8|u8 c:s32",
       "m16n8k32 row col d:f32|f16 a:e4m3|e5m2 b:e4m3|e5m2 c:f32|f16")
for form in MMA:
    for opcode, t in expand("mma sync aligned " + form):
        if t["d"] != t["c"]:
            continue                             # mixed accumulators exist for m8n8k4 of f16 only
        M, N, K = map(int, re.search(r"m(\d+)n(\d+)k(\d+)", opcode).groups())
        seed, names, values, masks = seed_of(opcode), [], [], []
        for type_, elements in ((t["a"], M * K), (t["b"], N * K), (t["c"], M * N)):
            registers = elements * BITS[type_] // 32 // (64 if type_ == "f64" else 32)
            names.append("{" + ", ".join(f"%s{len(values) + i}" for i in range(registers)) + "}")
            values += fragment(type_, seed + 7 * len(values), registers)
            masks += [mask(type_)] * registers
        width = "b64" if t["d"] == "f64" else "b32"
        count = M * N * BITS[t["d"]] // 32 // (64 if width == "b64" else 32)
        results = ", ".join(f"%d{i}" for i in range(count))
        enter(opcode, f"{opcode} {{{results}}}, {', '.join(names)};", (width,) * len(values),
              (width,) * count, values,
              rule=("bits",) if t["d"] == "s32" else ("mma", t["d"], 64, masks), block=32)

TILE = ".shared .align 16 .b8 mem[512]; mov.u32 %x, mem; mad.lo.u32 %x, %lane, 16, %x;"
OTHER = "mov.u32 %y, mem; and.b32 %w, %s4, 31; mad.lo.u32 %y, %w, 16, %y;"
for x in (1, 2, 4):
    for trans in ("", ".trans"):
        for space in ("", ".shared", ".shared::cta"):
            names = ", ".join(f"%d{i}" for i in range(x))
            values = [hashed(30 + i, 64).astype(np.uint32) for i in range(5)]
            opcode = f"ldmatrix.sync.aligned.m8n8.x{x}{trans}{space}.b16"
            generic = space == ""
            address = "cvt.u64.u32 %o, %y; cvta.shared.u64 %o, %o;" if generic else ""
            enter(opcode,
                  f".reg .b32 %w; {TILE} st.shared.v4.b32 [%x], {{%s0, %s1, %s2, %s3}}; bar.warp.sync -1; "
                  f"{OTHER} {address} {opcode} {{{names}}}, [{'%o' if generic else '%y'}];",
                  ("b32",) * 5, ("b32",) * x, values, block=32)
            # every row is written by one lane
            turn = ((np.arange(64, dtype=np.uint32) * np.uint32(7) + np.uint32(x)) & np.uint32(31))
            opcode, given = (f"stmatrix.sync.aligned.m8n8.x{x}{trans}{space}.b16",
                             ", ".join(f"%s{i}" for i in range(x)))
            enter(opcode,
                  f".reg .b32 %w; {TILE} mov.b32 %w, 0xEEEEEEEE; st.shared.v4.b32 [%x], {{%w, %w, %w, %w}}; "
                  f"bar.warp.sync -1; {OTHER} {address} {opcode} [{'%o' if generic else '%y'}], {{{given}}}; "
                  "bar.warp.sync -1; ld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%x];", ("b32",) * 5,
                  ("b32",) * 4, [*values[:4], turn], block=32)
enter("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %s0;", ("b32",), ("b32",),
      [hashed(40, 64).astype(np.uint32)], block=32)

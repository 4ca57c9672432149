"""The probes of wgmma. A block is a warpgroup: A lies in the first 2 KiB of shared memory, B behind
it, in tiles of 8 rows by 16 bytes."""
from __future__ import annotations

import numpy as np

from .matrix import edges, mask, ordinary, small
from .table import enter
from .values import seed_of

# The descriptors, without swizzle: 128 bytes to the next 16 of a row, 256 bytes to the next 8 rows
TILES = ("mov.u32 %x, mem; and.b32 %x, %x, 0x3FFFF; shr.u32 %x, %x, 4; cvt.u64.u32 %da, %x; "
         "or.b64 %da, %da, 0x1000080000; add.u64 %db, %da, 128; ")
SETTLE = "fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned; "
FINISH = " wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; "
KINDS = [("k16", "f32", "f16", "f16"), ("k16", "f16", "f16", "f16"), ("k16", "f32", "bf16", "bf16"),
         ("k8", "f32", "tf32", "tf32"),
         *(("k32", d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
         *(("k32", "s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8"))]
FP8_DIGITS = {("f32", "e"): (12,)}      # Hopper's sums of fp8 products keep that many, though they go to f32
SCALES = {"f16": (", 1, 1, 0, 0", ", -1, 1, 0, 0", ", 1, -1, 1, 0", ", 1, 1, 0, 1"),
          "bf16": (", 1, 1, 0, 0", ", -1, -1, 1, 1"), "tf32": (", 1, 1", ", 1, -1"), "s8": ("",), "u8": ("",)}


def names(letter: str, count: int, first=0) -> str:
    return "{" + ", ".join(f"%{letter}{i}" for i in range(first, first + count)) + "}"


def tile(make, type_: str, seed: int) -> np.ndarray:
    """16 bytes for each of 128 lanes."""
    width = 4 if type_[-2:] == "32" else 2 if type_[-2:] == "16" else 1
    return np.ascontiguousarray(make(type_, seed, 2048 // width)).view("V16")


def words(make, type_: str, seed: int) -> np.ndarray:
    """32 bits for each of 128 lanes."""
    return tile(make, type_, seed)[:32].copy().view(np.uint32)


def wgmma(shape, d, a, b, scales, n, results, prefix, a_operand, keep):
    return (f"{prefix} wgmma.mma_async.sync.aligned.m64n{n}{shape}.{d}.{a}.{b} {results}, "
            f"{a_operand}, %db, {keep}{scales};{FINISH}")


for shape, d, a, b in KINDS:
    per = 2 if d == "f16" else 1
    for at, scales in enumerate(SCALES.get(a, (", 1, 1", ", -1, 1"))):
        # m64n8 with sums to add to: one block of small integers, the first time one
        # of ordinary numbers and one of edges
        seed, makes, count = (seed_of(shape + d + a + b),
                              (small, ordinary, edges) if at == 0 else (small,), 4 // per)
        tiles = [np.concatenate([tile(make, t, seed + 3 * i + k) for i, make in enumerate(makes)])
                 for k, t in enumerate((a, b))]
        start = [np.concatenate([words(make, d, seed + 50 + r) for make in makes]) for r in range(count)]
        declare = (f".shared .align 1024 .b8 mem[4096]; .reg .b64 %da, %db; .reg .b32 %w<4>; .reg .pred %q; "
                   "setp.eq.u32 %q, %lane, %lane; mov.u32 %x, mem; mad.lo.u32 %x, %lane, 16, %x; "
                   "ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%a0]; "
                   "st.shared.v4.b32 [%x], {%w0, %w1, %w2, %w3}; "
                   "ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%a1]; "
                   "st.shared.v4.b32 [%x+2048], {%w0, %w1, %w2, %w3}; " + TILES)
        take = " ".join(f"mov.b32 %d{i}, %s{2 + i};" for i in range(count)) + SETTLE
        rule = ("bits",) if d == "s32" else ("mma", d, 128, [mask(a), mask(b)] + [mask(d)] * count,
                                             *FP8_DIGITS.get((d, a[0]), ()))
        enter(f"wgmma n8 {shape} {d} {a} {b} {at}",
              declare + wgmma(shape, d, a, b, scales, 8, names("d", count), take, "%da", "%q"),
              ("b128", "b128") + ("b32",) * count, ("b32",) * count, [*tiles, *start], rule=rule)
    # A in registers, small integers, the sums begin at zero
    scales = {"f16": ", 1, 1, 0", "bf16": ", 1, 1, 0"}.get(a, "" if a in ("s8", "u8") else ", 1, 1")
    held = [np.concatenate([words(make, a, seed + 90 + r) for make in makes]) for r in range(4)]
    enter(f"wgmma registers n8 {shape} {d} {a} {b}", declare + "setp.ne.u32 %q, %lane, %lane; "
          + wgmma(shape, d, a, b, scales, 8, names("d", 4 // per), SETTLE, names("s", 4, 2), "%q"),
          ("b128", "b128") + ("b32",) * 4, ("b32",) * (4 // per), [*tiles, *held], rule=("bits",))

# Every width, of small integers: the last register and all of them joined
for shape, d, a, b in (("k16", "f32", "f16", "f16"), ("k16", "f32", "bf16", "bf16"),
                       ("k8", "f32", "tf32", "tf32"), ("k32", "f32", "e4m3", "e4m3"),
                       ("k32", "s32", "s8", "u8")):
    for n in range(8, 257, 8) if d != "s32" else (8, 16, 24, *range(32, 257, 16)):
        count = n // 2
        load = "".join(f"ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%a{i}]; "
                       f"st.shared.v4.b32 [%x+{2048 * i}], {{%w0, %w1, %w2, %w3}}; "
                       for i in range(1 + -(-n // 64)))
        declare = (f".shared .align 1024 .b8 mem[10240]; .reg .b64 %da, %db; .reg .b32 %w<4>, %r<{count}>; "
                   ".reg .pred %q; setp.ne.u32 %q, %lane, %lane; mov.u32 %x, mem; "
                   f"mad.lo.u32 %x, %lane, 16, %x; {load} {TILES}")
        join = "mov.b32 %d1, 0; " + "".join(f"xor.b32 %d1, %d1, %r{i}; shf.l.wrap.b32 %d1, %d1, %d1, 3; "
                                            for i in range(count)) + f"mov.b32 %d0, %r{count - 1};"
        tiles = [tile(small, a if i == 0 else b, 7 + i) for i in range(1 + -(-n // 64))]
        product = wgmma(shape, d, a, b, SCALES.get(a, (", 1, 1",))[0], n,
                        names("r", count), SETTLE, "%da", "%q")
        enter(f"wgmma n{n} {shape} {d} {a} {b}", declare + product + join,
              ("b128",) * len(tiles), ("b32", "b32"), tiles)

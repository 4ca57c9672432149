"""Operand values of the probes: edge values of each type and hashed bits, the same on every
machine and with every NumPy."""
from __future__ import annotations

import itertools
import zlib

import numpy as np

SIZE = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "e4m3x2": 2,
        "e5m2x2": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4, "tf32": 4, "f16x2": 4, "bf16x2": 4, "u16x2": 4,
        "s16x2": 4, "shift": 4, "small": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}
HALF = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}
FLOATS = {"f16": "f2", "bf16": "f4", "f32": "f4", "tf32": "f4", "f64": "f8"}

# Bit patterns that are crossed with each other. NaNs of two payloads and signs, signalling too;
# the ends of the normal and denormal range.
CORE = {
    "f32": (0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x00C00000, 0x3F800000,
            0xBF800000, 0x3F000000, 0x3FC00000, 0xC0200000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
            0x7FC00000, 0xFFD12345, 0x7F812345, 0x4B000001, 0x33800000),
    "f64": (0, 1 << 63, 1, (1 << 52) - 1, 1 << 52, 1 << 63 | 1 << 52, 0x3FF0 << 48, 0xBFF0 << 48,
            0x3FE0 << 48, 0x3FF8 << 48, 0xC004 << 48, (0x7FF0 << 48) - 1, (0xFFF0 << 48) - 1, 0x7FF0 << 48,
            0xFFF0 << 48, 0x7FF8 << 48, 0xFFF8123456789ABC, 0x7FF0123456789ABC, 0x4330 << 48 | 1,
            0x3CA0 << 48),
    "f16": (0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x3800, 0x3E00, 0xC100, 0x7BFF,
            0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE35, 0x7D35, 0x1400),
    "bf16": (0, 0x8000, 1, 0x8001, 0x007F, 0x0080, 0x8080, 0x3F80, 0xBF80, 0x3F00, 0x3FC0, 0xC020, 0x7F7F,
             0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFD2, 0x7F8A, 0x3B80)}
LIMITS = tuple(2.0 ** n for n in (7, 8, 15, 16, 23, 24, 31, 32, 63, 64))
NEAR = (0.25, 0.5, 0.75, 1.5, 2.5, 3.5, 4.5, 0.49999997, 0.50000006, 0.99999994, 1 + 2.0 ** -8,
        1 + 3 * 2.0 ** -8, 1 + 2.0 ** -9, 1 + 2.0 ** -11, 1 + 3 * 2.0 ** -11, 1 + 3 * 2.0 ** -12, 65504.0,
        65519.0, 65520.0, 448.0, 464.0, 480.0, 57344.0, 61440.0, 2.0 ** -9, 2.0 ** -10, 3 * 2.0 ** -10,
        2.0 ** -14, 2.0 ** -16, 2.0 ** -17, 2.0 ** -24, 2.0 ** -25, 3 * 2.0 ** -25, 2.0 ** -133, 2.0 ** -134,
        3 * 2.0 ** -134, 3.14159274, 1.57079637, 6.2831855, 100.0, 12345.678, -126.0, -149.0, 127.0, 10.0)


def hashed(seed: int, count: int) -> np.ndarray:
    """``count`` words of 64 bits: splitmix64 from ``seed`` on."""
    z = ((np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed & 0xFFFFFFFF) * np.uint64(0x1_0000_0001))
         * np.uint64(0x9E3779B97F4A7C15))
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def seed_of(text: str) -> int:
    return zlib.crc32(text.encode())


def encode(values, type_: str) -> np.ndarray:
    """Numbers as bits of a float type; bf16 and tf32 by cutting."""
    with np.errstate(all="ignore"):
        raw = np.asarray(values, FLOATS[type_])
    bits = raw.view(f"u{raw.itemsize}")
    return ((bits >> np.uint32(16)).astype(np.uint16) if type_ == "bf16"
            else bits & np.uint32(0xFFFFE000) if type_ == "tf32" else bits)


def core(type_: str) -> np.ndarray:
    """Edge values, as unsigned bits."""
    size = SIZE[type_]
    if type_ in ("shift", "small"):
        return np.array([0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 0x1FF,
                         0x80000000, 0xFFFFFFFF][:13 if type_ == "small" else None], np.uint32)
    if type_ in CORE:
        return np.array(CORE[type_], f"u{size}")
    bits, ones = 8 * size, (1 << 8 * size) - 1
    top = 1 << bits - 1
    return np.array(list(dict.fromkeys(v & ones for v in (
        0, 1, 2, ones, ones - 1, top, top - 1, top + 1, 7, 0x55555555_55555555, 0xAAAAAAAA_AAAAAAAA,
        1 << bits // 2, (1 << bits // 2) - 1, 1 << bits - 2, -128, 127, 31, 100))), f"u{size}")


def single(type_: str) -> np.ndarray:
    """More edge values, for instructions of one operand: around every limit
    and half that a conversion knows."""
    if type_ not in FLOATS:
        around = [s * (1 << n) + d for n in (7, 8, 10, 11, 15, 16, 23, 24, 31, 32, 52, 53, 63)
                  for s in (1, -1) for d in (-1, 0, 1)]
        mask = (1 << 8 * SIZE[type_]) - 1
        return np.unique(
            np.concatenate([core(type_), np.array([v & mask for v in around], core(type_).dtype)]))
    values = [*NEAR, *(v + d for v in LIMITS for d in (-1.0, -0.5, 0.0, 0.5, 1.0))]
    finite = encode(values, type_)
    sign = finite.dtype.type(1 << 8 * finite.itemsize - 1)
    return np.unique(np.concatenate([core(type_), finite, finite | sign]))


def filler(type_: str, seed: int, count: int) -> np.ndarray:
    """Hashed values: for a float one half any bits, one half of ordinary size."""
    size, raw = SIZE[type_], hashed(seed, count)
    if type_ in ("shift", "small"):
        return (raw % np.uint64(64 if type_ == "shift" else 33)).astype(np.uint32)
    bits = (raw >> np.uint64(64 - 8 * min(size, 8))).astype(f"u{size}")
    if type_ not in FLOATS:
        return bits
    ordinary = encode(
        (raw >> np.uint64(12)).astype(np.float64) * 2.0 ** -49 * np.where(raw & np.uint64(1), 1, -1)
        / 4.0 ** (raw >> np.uint64(5) & np.uint64(3)).astype(np.float64), type_)
    return np.where(np.arange(count) % 2, ordinary, bits)


def column(type_: str, seed: int, count: int) -> np.ndarray:
    """One operand of ``count`` lanes that is neither crossed nor unary: edges picked
    by hash, then hashed bits."""
    edges = core(type_)
    picked = edges[(hashed(seed ^ 0x5BD1, count) % np.uint64(len(edges))).astype(np.int64)]
    return np.where(np.arange(count) < count * 3 // 4, picked, filler(type_, seed, count))


def operands(types, seed: int, count: int) -> list[np.ndarray]:
    """The operands of a probe as unsigned bits: one operand walks all edges, two are
    crossed, of three edges are drawn."""
    if any(t in HALF for t in types):
        halves = [operands([HALF.get(t, t) for t in types], seed + k, count) for k in (0, 77)]
        turn = [list(range(count)), [(5 * i + 3) % count for i in range(count)]]
        return [low.astype(np.uint32) | high[turn[1]].astype(np.uint32) << np.uint32(16) if t in HALF else low
                for t, low, high in zip(types, *halves)]
    if types[0] in ("e4m3x2", "e5m2x2"):
        codes = np.arange(count, dtype=np.uint16) & np.uint16(255)
        return [codes | (codes * np.uint16(37) + np.uint16(11) & np.uint16(255)) << np.uint16(8)]
    fill = [filler(t, seed + i, count) for i, t in enumerate(types)]
    if len(types) == 1:
        fixed = [single(types[0])]
    elif len(types) == 2 and "pred" not in types:
        fixed = [np.array(c, f"u{SIZE[t]}")
                 for c, t in zip(zip(*itertools.product(core(types[0]), core(types[1]))), types)]
    else:
        return [column(t, seed + i, count) if t != "pred" else (hashed(seed + i, count) >> np.uint64(9)
                                                                & np.uint64(1)).astype(np.uint8)
                for i, t in enumerate(types)]
    return [np.concatenate([f, rest])[:count] if len(f) >= count
            else np.concatenate([f, rest[:count - len(f)]]) for f, rest in zip(fixed, fill)]

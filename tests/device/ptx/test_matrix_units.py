"""Matrix instructions of a warp against matrix products, with the fragments laid out by the words
of the PTX ISA; cp.async in all sizes."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import snippet

GROUP, PLACE = np.arange(32) // 4, np.arange(32) % 4
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64, "s8": np.int8,
         "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
         "f32": np.float32, "s32": np.int32}
SHAPES = [("m16n8k16", "f32", "f16", "f16", "f32"), ("m16n8k8", "f32", "f16", "f16", "f32"),
          ("m16n8k16", "f16", "f16", "f16", "f16"), ("m16n8k16", "f32", "bf16", "bf16", "f32"),
          ("m16n8k8", "f32", "bf16", "bf16", "f32"), ("m16n8k8", "f32", "tf32", "tf32", "f32"),
          ("m16n8k4", "f32", "tf32", "tf32", "f32"), ("m8n8k4", "f64", "f64", "f64", "f64"),
          ("m16n8k32", "s32", "s8", "s8", "s32"), ("m16n8k16", "s32", "u8", "s8", "s32"),
          ("m8n8k16", "s32", "s8", "u8", "s32"), ("m16n8k32", "f32", "e4m3", "e5m2", "f32")]


def fragments_a(a):
    """(32, registers, elements): element i of a lane is row g (or g + 8),
    column p * per + i (or further by 4 * per)."""
    m, k = a.shape
    per = max(4 // a.itemsize, 1)
    out = []
    for block in range(k // (4 * per)):
        for half in range(m // 8):
            out.append(
                np.stack([a[GROUP + 8 * half, block * 4 * per + PLACE * per + i] for i in range(per)], -1))
    return np.stack(out, 1)


def fragments_b(b):
    return np.stack([np.stack([b[block + PLACE * per + i, GROUP] for i in range(per)], -1)
                     for per in [max(4 // b.itemsize, 1)] for block in range(0, b.shape[0], 4 * per)], 1)


def fragments_c(c):
    return np.stack(
        [c[GROUP + 8 * half, PLACE * 2 + i] for half in range(c.shape[0] // 8) for i in (0, 1)], 1)


@pytest.mark.parametrize("shape,d,a,b,c", SHAPES, ids=lambda s: s)
def test_mma(ptx90, shape, d, a, b, c):
    m, n, k = (int(x) for x in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
    rng = np.random.default_rng(0)
    low = 0 if "u8" in (a, b) else -3
    A, B, C = (rng.integers(low, 4, s).astype(TYPES[t]) for s, t in (((m, k), a), ((k, n), b), ((m, n), c)))
    want = A.astype(np.float64) @ B.astype(np.float64) + C.astype(np.float64)
    raw = []
    for fragments in (fragments_a(A), fragments_b(B), fragments_c(C)):
        raw.append(
            np.ascontiguousarray(fragments.reshape(32, -1)).view(np.uint64 if a == "f64" else np.uint32))
    bits, width = ("b64", 8) if a == "f64" else ("b32", 4)
    regs, body = [], ""
    for at, (letter, words) in enumerate(zip("abc", raw)):
        count = words.shape[1]
        body += f".reg .{bits} %{letter}<{count}>; mad.wide.u32 %x{at}, %t, {count * width}, %p{at};\n"
        body += "".join(f"ld.global.{bits} %{letter}{i}, [%x{at}+{i * width}];\n" for i in range(count))
        regs.append("{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}")
    count = raw[2].shape[1]
    body = f".reg .u64 %x<4>; .reg .{bits} %d<{count}>;\n" + body.replace(".reg .b64 %a", ".reg .b64 %a")
    body += (f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{c} "
             f"{{{', '.join(f'%d{i}' for i in range(count))}}}, {', '.join(regs)};\n")
    body += (f"mad.wide.u32 %x3, %t, {count * width}, %p3;\n"
             + "".join(f"st.global.{bits} [%x3+{i * width}], %d{i};\n" for i in range(count)))
    body = "{" + body + "}"
    places = [snippet.buffer(ptx90, w) for w in raw] + [ptx90.alloc(32 * count * width)]
    snippet.launch(ptx90, snippet.entry(body, 4, 32), places, threads=32)
    got = ptx90.copy_out(places[3].ptr, np.empty((32, count * width), np.uint8)).view(TYPES[d])
    assert (got.astype(np.float64) == fragments_c(want).reshape(32, -1)).all()


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix(ptx90, count, trans):
    """stmatrix writes what ldmatrix reads; a lane holds two neighbours of row lane / 4."""
    tiles = np.arange(count * 64, dtype=np.uint16).reshape(count, 8, 8)
    names = ", ".join(f"%d{i}" for i in range(count))
    body = f"""{{ .shared .align 16 .b8 s[512]; .shared .align 16 .b8 u[512];
    .reg .b32 %d<4>; .reg .b32 %x, %y, %v; .reg .u64 %z; .reg .pred %q; mov.u32 %x, s; mov.u32 %y, u;
    and.b32 %v, %t, {8 * count - 1}; shl.b32 %v, %v, 4; add.u32 %x, %x, %v; add.u32 %y, %y, %v;
    setp.ge.u32 %q, %t, {8 * count}; @%q bra COPIED;
    .reg .b32 %w<4>; mad.wide.u32 %z, %t, 16, %p0; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%z];
    st.shared.v4.b32 [%x], {{%w0, %w1, %w2, %w3}}; COPIED: bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{names}}}, [%x];
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%y], {{{names}}};
    bar.warp.sync -1; @%q bra OUT; ld.shared.v4.b32 {{%w0, %w1, %w2, %w3}}, [%y];
    mad.wide.u32 %z, %t, 16, %p1; st.global.v4.b32 [%z], {{%w0, %w1, %w2, %w3}};
    OUT: mad.wide.u32 %z, %t, 4, %p2; st.global.b32 [%z], %d0; }}"""
    places = [snippet.buffer(ptx90, tiles), ptx90.alloc(tiles.nbytes), ptx90.alloc(128)]
    snippet.launch(ptx90, snippet.entry(body, 3, 32), places, threads=32)
    assert (ptx90.copy_out(places[1].ptr, np.empty_like(tiles)) == tiles).all()
    first = tiles[0].T if trans else tiles[0]
    assert (ptx90.copy_out(places[2].ptr, np.empty((32, 2), np.uint16))
            == np.ascontiguousarray(first).reshape(32, 2)).all()


@pytest.mark.parametrize("size,kept", [(4, 4), (4, 0), (8, 8), (8, 3), (16, 16), (16, 6), (16, 0), (16, 13)])
def test_cp_async_fills_with_zeros(ptx80, size, kept):
    data = np.arange(1, 32 * size + 1, dtype=np.uint8).reshape(32, size)
    body = f"""{{ .shared .align 16 .b8 s[512]; .reg .b32 %x, %v; .reg .u64 %z; mov.u32 %x, s;
    mad.lo.u32 %x, %t, {size}, %x; mad.wide.u32 %z, %t, {size}, %p0;
    cp.async.ca.shared.global [%x], [%z], {size}, {kept}; cp.async.commit_group; cp.async.wait_group 0;
    mad.wide.u32 %z, %t, {size}, %p1;
    """ + "".join(f"ld.shared.b32 %v, [%x+{i}]; st.global.b32 [%z+{i}], %v;" for i in range(0, size, 4)) + "}"
    places = [snippet.buffer(ptx80, data), ptx80.alloc(data.nbytes)]
    snippet.launch(ptx80, snippet.entry(body, 2, 32), places, threads=32)
    want = np.where(np.arange(size) < kept, data, 0)
    assert (ptx80.copy_out(places[1].ptr, np.empty_like(data)) == want).all()

"""The launches of the tensor-core convolutions on operands that are packed:
what the engines with and without copies share."""
from __future__ import annotations

from math import prod

from ...kernels.expressions import ceil_div
from ...steps import Launch
from . import mma


def fprop_product(p) -> tuple:
    """Rows, columns, k steps and groups of the forward product."""
    g = mma.geometry(p)
    return g.pixels, g.k, ceil_div(g.chunks * mma.CHUNK, mma.LINE.elements), g.groups


def fprop(p, config, x, w, store: dict, stored: str, fuse=None) -> Launch:
    """The convolution of packed operands; ``store`` says where to (y and beta), ``stored`` in which type."""
    g, tile = mma.geometry(p), mma.BY_NAMES[config.tile]
    args = dict(x=x, w=w, alpha=p.scalar("alpha"), **store, rows=g.pixels, cols=g.k, chunks=g.chunks,
                pixel_chunks=mma.padded(g.c * g.groups) // mma.CHUNK, channels=g.k * g.groups,
                n_tiles=ceil_div(g.k, tile.n), tap_chunks=mma.padded(g.c) // mma.CHUNK, groups=g.groups,
                **g.window())
    return Launch(f"conv_fprop_mma_{tile}_{mma.common_type(p)}_{stored}", args, {}, fuse or {})


def class_rows(g: mma.MmaGeometry) -> int:
    """Pixels of the largest class of dx: one residue modulo the stride in each dim."""
    return g.n * prod(ceil_div(i, s) for i, s in zip(g.size, g.stride))


def dgrad_product(p) -> tuple:
    """Rows, columns, k steps and groups of the data gradient;
    the classes share out the taps, so their mean counts."""
    g = mma.geometry(p)
    classes = prod(g.stride)
    steps = prod(g.taps) / classes * mma.padded(g.k) / mma.LINE.elements
    return class_rows(g), g.c, steps, g.groups * classes


def dgrad(p, config, dy, w, store: dict, stored: str, fuse=None) -> Launch:
    """The gradient from packed operands. A flipped filter is one that is walked
    backwards from its last tap."""
    g, tile = mma.geometry(p), mma.BY_NAMES[config.tile]
    tap = mma.padded(g.c) // mma.CHUNK
    w_tap = [tap * g.taps[1] * g.taps[2], tap * g.taps[2], tap]
    last = sum(step * (r - 1) for step, r in zip(w_tap, g.taps))
    rows = class_rows(g)
    out = [max(i // s, 1) for i, s in zip(g.size, g.stride)]
    out += [ceil_div(i, s) for i, s in zip(g.size, g.stride)]
    args = dict(dy=dy, w=w, alpha=p.scalar("alpha"), **store, images=g.n, rows=rows, cols=g.c, k=g.k,
                dy_chunks=mma.padded(g.k * g.groups) // mma.CHUNK, w_chunks=g.chunks,
                w_first=last if g.is_flipped else 0, channels=g.c * g.groups,
                n_tiles=ceil_div(g.c, tile.n), m_tiles=ceil_div(rows, tile.m), stride=g.stride,
                wrap=[-a % s for a, s in zip(g.pad, g.stride)],
                up=[ceil_div(a, s) for a, s in zip(g.pad, g.stride)],
                out=out, dx_size=g.size, size=g.out, taps=g.taps, dilation=g.dilation,
                w_tap=[-step for step in w_tap] if g.is_flipped else w_tap,
                classes=prod(g.stride), groups=g.groups)
    return Launch(f"conv_dgrad_mma_{tile}_{mma.common_type(p)}_{stored}", args, {}, fuse or {})


def into_copy(p, launch, config, operands: tuple, output: str) -> list:
    """Pack the inputs, launch into the output or a copy of it in f32 (rounded once,
    behind the blend), unpack."""
    steps, out = [], p.operands[output]
    a, w = (mma.packed_operand(p, name, steps) for name in operands)
    if out.is_packed("nhwc"):
        store = {output: p.ptr(output), "beta": p.scalar("beta")}
        return [*steps, launch(p, config, a, w, store, out.dtype.name)]
    copy = p.scratch(out.n * prod(out.spatial) * out.c * 4)
    return [*steps, launch(p, config, a, w, {output: copy, "beta": 0.0}, "f32"), mma.unpack(p, copy, output)]


def not_stored(p, name: str):
    """Refuse an output of a type that neither the kernel, where it is NHWC, nor the copy behind it writes."""
    out = p.operands[name]
    types = (mma.common_type(p), "f32") if out.is_packed("nhwc") else (*mma.SIXTEEN, "f32")
    if out.dtype.name not in types:
        yield f"{name} must be one of {' '.join(map(str, types))}; got {out.dtype}"

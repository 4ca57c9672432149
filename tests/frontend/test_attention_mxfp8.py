"""Attention of block scaled operands by way of pygraph, scales in tiles and in rows."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.ops.block_scale import as_they_lie, order, padded
from cydnn.tensor import packed_strides

from .test_attention import T, strides
from .test_attention import world                # noqa: F401

E4, E8 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
B, H, S, KV, D = 1, 2, 40, 72, 64
DIMS = dict(q=(B, H, S, D), k=(B, 1, KV, D), v=(B, 1, KV, D))


def scaled(rng, dims, axis) -> tuple:
    """(numbers, scales, what they stand for)"""
    few = [-(-n // 32) if i == axis else n for i, n in enumerate(dims)]
    x, scale = rng.uniform(-4, 4, dims).astype(E4), np.exp2(rng.integers(-3, 2, few)).astype(E8)
    spread = np.repeat(scale.astype(float), 32, axis)
    return x, scale, x.astype(float) * spread[tuple(map(slice, dims))]


def in_tiles(scale, axis):
    """Memory of whole tiles, in the shape that is declared."""
    whole = np.zeros(padded(scale.shape, axis), E8)
    whole[tuple(map(slice, scale.shape))] = scale
    memory = as_they_lie(whole, axis).transpose(order(4, axis))
    return np.ascontiguousarray(memory).transpose(np.argsort(order(4, axis)))


class Pack(dict):
    """A variant pack of the tensors of a graph."""

    def __init__(self, w):
        self.w, self.g = w, cudnn.pygraph(io_data_type=T.FP8_E4M3, intermediate_data_type=T.FLOAT,
                                          compute_data_type=T.FLOAT, handle=w.handle)

    def tensor(self, x, kind=T.FP8_E4M3, **more):
        t = self.g.tensor(x.shape, strides(x), kind, **more)
        self[t] = x
        return t

    def scales(self, scale, axis, is_tiled):
        if not is_tiled:
            return self.tensor(scale, T.FP8_E8M0)
        return self.tensor(in_tiles(scale, axis), T.FP8_E8M0,
                           reordering_type=cudnn.tensor_reordering.F8_128x4)

    def run(self, *results):
        """Arrays of float32 of (tensor, dims)."""
        found = [np.zeros(dims, np.float32) for _, dims in results]
        for (t, dims), x in zip(results, found):
            t.set_output(True).set_data_type(T.FLOAT).set_dim(dims).set_stride(packed_strides(dims))
            self[t] = x
        self.g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        self.g.execute(self, self.w.workspace(self.g.get_workspace_size()))
        return found


@pytest.mark.parametrize("is_tiled", [True, False])
def test_forward(world, is_tiled):               # noqa: F811
    pack, real, given = Pack(world), [], {}
    for name, dims in DIMS.items():
        axis = 2 if name == "v" else 3
        x, scale, stands = scaled(world.rng, dims, axis)
        real.append(np.repeat(stands, H // dims[1], 1))
        given |= {name: pack.tensor(x), f"descale_{name}": pack.scales(scale, axis, is_tiled)}
    made = pack.g.sdpa_mxfp8(**given, attn_scale=0.125, use_causal_mask_bottom_right=True,
                             generate_stats=True)
    o, stats, amax = pack.run(*zip(made, ((B, H, S, D), (B, H, S, 1), (1, 1, 1, 1))))
    seen = np.arange(KV) <= np.arange(S)[:, None] + KV - S
    s = np.where(seen, 0.125 * real[0] @ real[1].swapaxes(2, 3), -np.inf)
    top = s.max(3, keepdims=True)
    total = np.exp(s - top).sum(3, keepdims=True)
    want = np.exp(s - top) / total @ real[2]
    world.close_to(o, want, 0.02, 0.02)
    world.close_to(stats, np.log(total) + top, 1e-3, 1e-3)
    world.close_to(amax, np.abs(want).max(), 0.02, 0.02)


def test_backward(world):                        # noqa: F811
    """Against that of 32 bits. What has 8 bits by other scales is not read."""
    dims, rng = (B, H, S, D), world.rng
    pack, real, given = Pack(world), [], {}
    for name in "qkv":
        x, scale, stands = scaled(rng, dims, 3)
        real.append(stands)
        given |= {name: pack.tensor(x), f"descale_{name}": pack.scales(scale, 3, True)}
    s = 0.125 * real[0] @ real[1].swapaxes(2, 3)
    stats = np.log(np.exp(s).sum(3, keepdims=True)).astype(np.float32)
    p = np.exp(s - stats)
    do = rng.uniform(-1, 1, dims).astype(np.float16)
    others = {f"{n}{end}": pack.tensor(np.full(dims, np.nan).astype(E4), name=n)
              for n, end in (("q", "_T"), ("k", "_T"), ("dO", ""), ("dO", "_T"))}
    others |= {f"descale_{n}": given["descale_q"] for n in others}
    half = dict(o_f16=(p @ real[2]).astype(np.float16), dO_f16=do)
    made = pack.g.sdpa_mxfp8_backward(
        **given, **others, **{n: pack.tensor(x, T.HALF) for n, x in half.items()},
        stats=pack.tensor(stats, T.FLOAT), attn_scale=0.125)
    dq, dk, dv, *most = pack.run(*zip(made, (dims, dims, dims, *[(1, 1, 1, 1)] * 3)))
    dp = do.astype(float) @ real[2].swapaxes(2, 3)
    ds = 0.125 * p * (dp - (do * half["o_f16"].astype(float)).sum(3, keepdims=True))
    for got, amax, want in zip((dq, dk, dv), most, (ds @ real[1], ds.swapaxes(2, 3) @ real[0],
                                                    p.swapaxes(2, 3) @ do)):
        world.close_to(got, want, 0.02 * np.abs(want).max(), 0.02)
        world.close_to(amax, np.abs(want).max(), 0.02, 0.02)

"""Convolution on CUDA cores without a GPU: refusals, launches that pack, and the kernels'
index arithmetic followed in NumPy."""
from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, Config
from cydnn.engines.conv import view
from cydnn.engines.tile.simt import TILES
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad
from cydnn.ops.problem import Problem
from support.draw.alone import cost, match, steps
from support.draw import draw

H200, T4 = KNOWN["h200"], KNOWN["t4"]
ENGINE = {ConvFprop: BY_INDEX[109], ConvDgrad: BY_INDEX[129], ConvWgrad: BY_INDEX[149]}


def drawn(op, rng) -> Problem:
    """A random problem of one type, which these kernels take."""
    while True:
        problem = draw(op, rng)
        if len({d.dtype for d in problem.descs}) == 1 and ENGINE[op].accepts(match(problem), H200):
            return problem


# ---- The kernels, index by index ----

def digits(index, d0, d1, d2):
    """digits_of of gather_simt.cuh, with its FastDiv."""
    out = []
    for by in (d0, d1, d2):
        mul, shr, _ = kernels.fastdiv(by)
        quotient = (2 * index.astype(object) * mul >> (32 + shr)).astype(np.int64)
        out.append(index - quotient * by)
        index = quotient
    return [*out, index]


def channel_and_tap(index, digit, inner):
    v = digits(index, *digit)
    return (v[0], v[3:0:-1]) if inner else (v[3], v[2::-1])


class Memory:
    """A flat tensor; reading outside it fails."""

    def __init__(self, values, desc, start):
        self.flat, self.start, self.size = np.full(max(desc.extent, 1), np.nan), start, desc.dtype.bytes
        self.view = np.lib.stride_tricks.as_strided(self.flat, desc.dims, [8 * s for s in desc.strides])
        if values is not None and desc.count:
            self.view[...] = values

    def read(self, offset, valid):
        offset = offset + self.start
        assert ((offset >= 0) & (offset < self.flat.size))[valid].all()
        return np.where(valid, self.flat[np.where(valid, offset, 0)], 0.0)


def check_vectors(flags, along, table, bytes_of_four, start):
    """Where the host promises vectors, four entries of the table are neighbours."""
    if flags & along:
        assert len(table) % 4 == 0
        quads = table.reshape(-1, 4)
        assert (quads - quads[:, :1] == np.arange(4)).all() and ((quads[:, 0] + start) % 4 == 0).all()


def product(x, w, row_off, row_z, tap_off, tap_z, size, col_off, plain, flags):
    """sum over depth of gathered * plain: (rows, columns)."""
    valid = np.ones((len(row_off), len(tap_off)), bool)
    for i in range(3):
        z = row_z[i][:, None] + tap_z[i][None]
        valid &= (z >= 0) & (z < size[i])
    off = row_off[:, None] + tap_off[None]
    assert (np.abs(tap_off) < 2 ** 31).all() and (np.abs(plain) < 2 ** 31).all()
    check_vectors(flags, view.X_VECTORS, tap_off, 0, 0)
    if flags & view.X_VECTORS:
        quads = valid.reshape(len(row_off), -1, 4)
        assert (quads == quads[:, :, :1]).all() and ((off[:, ::4] + x.start) % 4 == 0)[valid[:, ::4]].all()
    check_vectors(flags, view.W_VECTORS, plain, 0, w.start)
    if flags & view.W_VECTORS:
        assert (col_off % 4 == 0).all()
    every = np.ones((len(col_off), len(plain)), bool)
    return x.read(off, valid) @ w.read(col_off[:, None] + plain[None], every).T


def fprop(a, x, w, y, groups):
    m, k, n = np.arange(a["pixels"]), np.arange(a["depth"]), np.arange(a["filters"])
    q, p, o, image = digits(m, *a["out"][::-1])
    c, tap = channel_and_tap(k, a["digit"], a["channel_inner"])
    row_z = [i * s - b for i, s, b in zip((o, p, q), a["stride"], a["pad"])]
    tap_z = [t * d for t, d in zip(tap, a["dilation"])]
    tap_off = c * a["x_c"] + sum(z * s for z, s in zip(tap_z, a["x_s"]))
    plain = c * a["w_c"] + sum(t * s for t, s in zip(tap, a["w_s"]))
    for g in range(groups):
        row_off = image * a["x_n"] + g * a["x_group"] + sum(z * s for z, s in zip(row_z, a["x_s"]))
        got = product(x, w, row_off, row_z, tap_off, tap_z, a["size"],
                      g * a["w_group"] + n * a["w_n"], plain, a["flags"])
        off = image * a["y_n"] + sum(i * s for i, s in zip((o, p, q), a["y_s"]))
        y.flat[off[:, None] + (g * a["filters"] + n) * a["y_c"]] = got


def dgrad(a, dy, w, dx, groups):
    for cls in np.ndindex(*a["classes"]):
        count, taps, tap0, start = [], [], [], []
        for i, first in enumerate(cls):
            reach = first + a["pad"][i]
            hits = [t for t in range(a["tap_step"][i])
                    if (reach - t * a["dilation"][i]) % a["stride"][i] == 0]
            t = hits[0] if hits else a["tap_step"][i]
            tap0.append(t)
            taps.append(-(-(a["taps"][i] - t) // a["tap_step"][i]) if hits and t < a["taps"][i] else 0)
            count.append(-(-(a["size"][i] - first) // a["stride"][i]))
            start.append(int((reach - t * a["dilation"][i]) / a["stride"][i]))
        sizes = [a["filters"], taps[2], taps[1]] if a["channel_inner"] else [taps[2], taps[1], taps[0]]
        m, k, n = (np.arange(a["images"] * prod(count)), np.arange(a["filters"] * prod(taps)),
                   np.arange(a["channels"]))
        assert len(m) <= a["tiles_m"] * 128
        i2, i1, i0, image = digits(m, *count[::-1])
        f, tap = channel_and_tap(k, [max(s, 1) for s in sizes], a["channel_inner"])
        row_z = [i + s for i, s in zip((i0, i1, i2), start)]
        tap_z = [-t * s for t, s in zip(tap, a["z_step"])]
        tap_off = f * a["dy_k"] + sum(z * s for z, s in zip(tap_z, a["dy_s"]))
        plain = f * a["w_k"] + sum(t * u * s for t, u, s in zip(tap, a["tap_step"], a["w_s"]))
        for g in range(groups):
            row_off = image * a["dy_n"] + g * a["dy_group"] + sum(z * s for z, s in zip(row_z, a["dy_s"]))
            col_off = g * a["w_group"] + n * a["w_c"] + sum(t * s for t, s in zip(tap0, a["w_s"]))
            got = product(dy, w, row_off, row_z, tap_off, tap_z, a["dy_size"], col_off, plain, a["flags"])
            off = (image * a["dx_n"]
                   + sum((b + i * u) * s for b, i, u, s in zip(cls, (i0, i1, i2), a["stride"], a["dx_s"])))
            where = off[:, None] + (g * a["channels"] + n) * a["dx_c"]
            assert np.isnan(dx.flat[where]).all(), "a pixel belongs to two classes"
            dx.flat[where] = got


def wgrad(a, x, dy, dw, splits):
    m, n = np.arange(a["rows"]), np.arange(a["filters"])
    c, tap = channel_and_tap(m, a["digit"], a["channel_inner"])
    row_z = [t * d for t, d in zip(tap, a["dilation"])]
    parts = np.zeros((splits, a["groups"] * a["filters"], a["rows"]))
    for s in range(splits):
        begin = s * a["split_pixels"]
        pixel = np.arange(begin, min(begin + a["split_pixels"], a["pixels"]))
        q, p, o, image = digits(pixel, *a["out"][::-1])
        first = digits(np.array([begin]), *a["out"][::-1])[3]
        tap_z = [i * u - b for i, u, b in zip((o, p, q), a["stride"], a["pad"])]
        tap_off = (image - first) * a["x_n"] + sum(z * t for z, t in zip(tap_z, a["x_s"]))
        plain = (image - first) * a["dy_n"] + sum(i * t for i, t in zip((o, p, q), a["dy_s"]))
        for g in range(a["groups"]):
            row_off = (c * a["x_c"] + g * a["x_group"]
                       + sum(z * t for z, t in zip(row_z, a["x_s"])) + first * a["x_n"])
            col_off = (g * a["filters"] + n) * a["dy_k"] + first * a["dy_n"]
            got = product(x, dy, row_off, row_z, tap_off, tap_z, a["size"], col_off, plain, a["flags"])
            parts[s, g * a["filters"] + n] = got.T
    where = ((np.arange(len(parts[0])) * a["dw_k"])[:, None] + c * a["dw_c"]
             + sum(t * s for t, s in zip(tap, a["dw_s"])))
    dw.flat[where + dw.start] = parts.sum(0)


FOLLOW = {ConvFprop: (fprop, lambda l: l.extra["groups"]), ConvDgrad: (dgrad, lambda l: l.extra["groups"]),
          ConvWgrad: (wgrad, lambda l: l.extra["splits"])}


@pytest.mark.parametrize("op", FOLLOW, ids=lambda o: o.name)
@pytest.mark.parametrize("seed", range(60))
def test_index_arithmetic_gives_the_reference(op, seed):
    problem = drawn(op, random.Random(f"{op.name} {seed}"))
    p, engine = match(problem), ENGINE[op]
    assert list(engine.refuse(p, H200)) == []
    launch = steps(engine, p, H200)[0]
    packed = kernels.get(launch.kernel).pack(launch.args, **launch.extra)
    assert packed.block == (256, 1, 1)
    gen = np.random.default_rng(seed)
    values = {n: gen.integers(-3, 4, d.dims).astype(float) for n, d in problem.operands.items()}
    memory = {n: Memory(values[n] if n in op.reads else None, d, launch.args[n].addend // d.dtype.bytes)
              for n, d in problem.operands.items()}
    follow, count = FOLLOW[op]
    follow(launch.args, *(memory[n] for n in op.operands()), count(launch))
    want = problem.op.run_reference(values, dict(alpha=1.0, beta=0.0))[op.writes[0]]
    np.testing.assert_array_equal(memory[op.writes[0]].view, want)


@pytest.mark.parametrize("op", FOLLOW, ids=lambda o: o.name)
def test_every_launch_packs_on_every_device(op):
    rng = random.Random(op.name)
    for _ in range(150):
        p = match(drawn(op, rng))
        for dev in (H200, T4):
            assert cost(ENGINE[op], p, dev) > 0
            for launch in steps(ENGINE[op], p, dev):
                kernel = kernels.get(launch.kernel)
                packed = kernel.pack(launch.args, **launch.extra)
                tile = next((t for t in TILES if t in launch.kernel), None)
                if tile is None:
                    assert packed.grid[0] * 256 >= launch.args["count"]
                    continue
                assert kernel.axes["TILE"] == tile


@pytest.mark.parametrize("text",
                         ["conv_fprop n64c1h8w8 k16r3s3 pad1 f32", "conv_dgrad n64c16h8w8 k32r3s3 pad1 f32",
                          "conv_wgrad n64c32h8w8 k64r3s3 pad1 f32"])
def test_small_problems_fill_the_device(text):
    problem = Problem.parse(text)
    launch = steps(ENGINE[type(problem.op)], match(problem), H200)[0]
    assert kernels.get(launch.kernel).pack(launch.args, **launch.extra).grid[0] >= 64


@pytest.mark.parametrize("text, sentence", [
    ("conv_fprop n1c1h8w8 k1r3s3 i8", "x must be one of f64 f32 f16 bf16; got i8"),
    ("conv_fprop n1c1h8w8 k1r3s3 f16 acc=f64", "compute must be f32 for f16 tensors; got f64"),
    ("conv_fprop n2c2h65536w32768 k1r1s1 f16",
     "one image of x must span less than 2^31 elements; got 4294967296"),
    ("conv_dgrad n65536c1h256w256 k1r1s1 f16",
     "pixels of dx (n and spatial dims) must be at most 2147482624; got 4294967296"),
    ("conv_wgrad n65536c1h256w256 k1r1s1 f16",
     "pixels of dy (n and spatial dims) must be at most 2147482624; got 4294967296"),
])
def test_refusals(text, sentence):
    problem = Problem.parse(text)
    assert sentence in list(ENGINE[type(problem.op)].refuse(match(problem), H200))


@pytest.mark.parametrize("text", ["conv_fprop n0c4h8w8 k4r3s3", "conv_dgrad n0c4h8w8 k4r3s3"])
def test_nothing_to_write_is_no_launch(text):
    problem = Problem.parse(text)
    assert steps(ENGINE[type(problem.op)], match(problem), H200) == []


def test_an_empty_sum_still_writes_dw():
    problem = Problem.parse("conv_wgrad n0c4h8w8 k4r3s3")
    [launch] = steps(ENGINE[ConvWgrad], match(problem), H200)
    assert (launch.args["pixels"] == 0
            and kernels.get(launch.kernel).pack(launch.args, **launch.extra).grid[0] >= 1)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("splits", [None, 1])
def test_splits_stay_within_31_bits(tile, splits):
    """Also where a configuration asks for fewer."""
    p, engine = match(Problem.parse("conv_wgrad n1024c64h224w224 k64r3s3 pad1 f16 nhwc")), ENGINE[ConvWgrad]
    config = Config(tile=tile, splits=splits) if splits else engine.best(p, H200)
    args = engine.plan(p, H200, config)[0].args
    images = -(-args["split_pixels"] // (224 * 224)) + 1
    count = engine.plan(p, H200, config)[0].extra["splits"]
    assert images * 64 * 224 * 224 < 2 ** 31 and count * args["split_pixels"] >= 1024 * 224 * 224


@pytest.mark.parametrize(
    "layout, flags",
    [("nhwc", view.X_ALONG_DEPTH | view.X_VECTORS | view.W_ALONG_DEPTH | view.W_VECTORS),
     ("nchw", view.W_ALONG_DEPTH | view.W_VECTORS | view.OUT_ALONG_ROWS)])
def test_common_layouts_get_vectors(layout, flags):
    problem = Problem.parse(f"conv_fprop n32c64h56w56 k64r3s3 pad1 f32 {layout}")
    assert steps(ENGINE[ConvFprop], match(problem), H200)[0].args["flags"] == flags


# ---- Depthwise ----

DEPTHWISE = {BY_INDEX[i].op: BY_INDEX[i] for i in (108, 128, 148)}


@pytest.mark.parametrize("op", FOLLOW, ids=lambda o: o.name)
@pytest.mark.parametrize(
    "form", ["n2c96h17w20 k96r3s3 groups=96 pad1 nhwc", "n2c96h17w20 k96r5s5 groups=96 pad2 stride2 f16 nhwc",
             "n3c8h9 k8r3 groups=8 bf16 nhwc mode=convolution"])
def test_depthwise_launches_pack(op, form):
    p = match(Problem.parse(f"{op.name} {form}"))
    engine = DEPTHWISE[op]
    assert list(engine.refuse(p, H200)) == [] and cost(engine, p, H200) > 0
    for launch in steps(engine, p, H200):
        assert kernels.get(launch.kernel).pack(launch.args, **launch.extra).grid[0] >= 1


@pytest.mark.parametrize("stride, pad, dilation, window",
                         [(1, 1, 1, 3), (2, 1, 1, 3), (3, 0, 2, 2), (2, 3, 1, 5)])
def test_the_depthwise_data_gradient_reads_what_the_forward_read(stride, pad, dilation, window):
    """One dim: pixel i of dx meets tap t of the reversed filter at the output
    that reads i through tap window-1-t."""
    size, taps = 11, range(window)
    out = (size + 2 * pad - dilation * (window - 1) - 1) // stride + 1
    forward = {(o * stride - pad + t * dilation, t, o) for o in range(out)
               for t in taps if 0 <= o * stride - pad + t * dilation < size}
    back = dilation * (window - 1) - pad
    reads = {(i, t, i - back + t * dilation) for i in range(size) for t in taps}
    assert {(i, window - 1 - t, z // stride) for i, t, z in reads
            if z >= 0 and z % stride == 0 and z // stride < out} == forward


@pytest.mark.parametrize("form, sentence", [
    ("n2c16h8w8 k16r3s3 f16 nhwc", "each group must have one channel and one filter; got 16 and 16"),
    ("n2c12h8w8 k12r3s3 groups=12 f16 nhwc",
     "groups must be a multiple of 8, a channel each (16-byte loads); got 12"),
    ("n2c16h8w8 k16r3s3 groups=16 f16",
     "x must have contiguous channels and other strides that are multiples of 8; "
     "got strides (1024, 64, 8, 1)"),
    ("x=2x16x8x8:f16@1024,0,128,16 w=16x1x3x3:f16@nhwc",     # whose channels are one
     "x must have contiguous channels and other strides that are multiples of 8; "
     "got strides (1024, 0, 128, 16)"),
    ("n2c16h8w8 k16r3s3 groups=16 f16 nhwc align=2", "x must be aligned to 16 bytes; got 2"),
    ("n1c8h32w32 k8r15s15 groups=8 f16 nhwc", "the filter must have at most 96 taps; got 225"),
])
def test_depthwise_refusals(form, sentence):
    assert sentence in list(DEPTHWISE[ConvFprop].refuse(match(Problem.parse(f"conv_fprop {form}")), H200))

"""The tensor-core convolutions without a GPU: refusals, contracts, and corners on the interpreter."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import device as devices, kernels
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.conv import mma as conv_mma, wgrad_mma
from cydnn.engines.conv.mma_launch import class_rows
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.heuristics import best
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Pointwise, Problem
from cydnn.tensor import TensorDesc
from support.draw import alone
from support.draw.alone import cost, steps
from support.check.matrix import run

H200 = KNOWN["h200"]
ENGINES = tuple(BY_INDEX[i] for i in (110, 130, 150, 151, 111, 131))


def match(op_class, x, w, *, dtype="f16", layouts=("nhwc",) * 3, alignment=16, types=(),
          **attributes) -> Match:
    """The Match of a convolution of x with w, given by dims; ``layouts`` of x, w and y; ``types``: others of
    some operands."""
    op = op_class(**attributes)
    dims = {"x": x, "w": w, "y": op.out_dims(x, w)}
    part = {"dx": "x", "dw": "w", "dy": "y"}
    descs = {name: TensorDesc.packed(dict(types).get(name, dtype), dims[part.get(name, name)],
                                     layouts["xwy".index(part.get(name, name))])
             for name in op.reads + op.writes}
    return alone.of(op, alignment=alignment, **descs)


def reasons(engine, p, dev=H200):
    return " | ".join(engine.reasons(p, dev))


def engine_for(p):
    return next(e for e in ENGINES if e.op is type(p.op) and e.accepts(p, H200))


def problem_of(p) -> Problem:
    """The problem that a match is about."""
    return Problem(p.op, {name: t and t.desc for name, t in p.operands.items()})


def check(engine, p, seed=0, config=None):
    """Run the engine's plan on the interpreter, where copies land as late as the waits allow,
    and compare with the reference."""
    assert engine.accepts(p, H200), reasons(engine, p)
    outcome = run(problem_of(p), devices.get("ptx:sm_90"), seed, [engine], config)
    assert outcome.ran and not outcome.findings, outcome


def draw(rng: random.Random, op_class, small=True) -> Match:
    """A random problem that some engine here may take; ``small``: for the interpreter."""
    while True:
        spatial = rng.choice([1, 2, 2, 2, 3])
        groups = rng.choice([1, 1, 1, 1, 2, 3])
        if groups > 1:
            c, k = 8 * rng.randint(1, 3), 8 * rng.randint(1, 3)
        else:
            c, k = (rng.choice([1, 3, 8, 16, 20, 64, 72, 136]) for _ in range(2))
        each = lambda values: tuple(rng.choice(values) for _ in range(spatial))
        taps, stride, dilation = each([1, 2, 3, 3, 5]), each([1, 1, 2, 3]), each([1, 1, 2, 3])
        pre, post, size = (each([0, 1, 2]), each([0, 1, 3]),
                           each([3, 5, 8, 9] if spatial > 2 else [4, 7, 12, 13]))
        x, w = (rng.randint(1, 3 if spatial > 2 else 4), c * groups, *size), (k * groups, c, *taps)
        attributes = dict(pre_pad=pre, post_pad=post, stride=stride, dilation=dilation,
                          mode=rng.choice(["cross_correlation", "cross_correlation", "convolution"]))
        layouts = tuple(rng.choice(["nhwc", "nhwc", "nchw"]) for _ in range(3))
        out = op_class(**attributes).out_dims(x, w)
        if min(out[2:]) >= 1 and np.prod(out) * np.prod(w[1:]) < (3e6 if small else 1e12):
            p = match(op_class, x, w, dtype=rng.choice(["f16", "bf16"]), layouts=layouts, **attributes)
            if any(e.op is op_class and e.accepts(p, H200) for e in ENGINES):
                return p


# ---- Corners ----

CORNERS = {                                      # what each is there for -> x, w, attributes
    "patches of 16 x 16: 32 taps in two dims": ((1, 3, 32, 32), (8, 3, 16, 16), dict(stride=16)),
    "first layer: 3 channels, 7 x 7, stride 2": ((1, 3, 20, 20), (16, 3, 7, 7),
                                                 dict(pre_pad=3, post_pad=3, stride=2)),
    "1 x 1, stride 2: classes of dx without taps": ((2, 16, 9, 8), (8, 16, 1, 1), dict(stride=2)),
    "window smaller than the stride": ((1, 8, 11, 2), (8, 8, 2, 1), dict(stride=(3, 4))),
    "nothing but padding in reach of some rows": ((1, 8, 3, 3), (8, 8, 3, 3), dict(pre_pad=5, post_pad=4)),
    "depth of one tap with padding around": ((1, 8, 2, 3, 3), (8, 8, 1, 3, 3),
                                             dict(pre_pad=(2, 1, 1), post_pad=(1, 1, 1))),
    "stride 2, dilation 3, flipped": ((1, 16, 14, 13), (8, 16, 3, 2),
                                      dict(stride=2, dilation=3, mode="convolution", pre_pad=(4, 1))),
    "one pixel, one filter": ((1, 8, 1), (1, 8, 1), dict()),
    "a chunk of every k step beyond the filter": ((1, 8, 6, 6), (64, 8, 3, 1), dict(pre_pad=1)),
}


@pytest.mark.share(12)
@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize("op_class", [ConvFprop, ConvDgrad, ConvWgrad])
def test_corners(op_class, corner):
    x, w, attributes = CORNERS[corner]
    p = match(op_class, x, w, **attributes)
    engine = engine_for(p)
    check(engine, p, config=next(c for c in engine.configs(p, H200) if c.tile == "m64n64"))


@pytest.mark.parametrize("op_class, tile", [
    (op, str(tile)) for op in (ConvFprop, ConvDgrad, ConvWgrad)
    for tile in (conv_mma.TILES if op is ConvWgrad else conv_mma.IMAGE_TILES)])
def test_random_problems(op_class, tile):
    """Every tile, both layouts, flipped filters, groups, odd channels, 1 to 3 spatial dims;
    every second one split where it can be."""
    for seed in range(4):
        p = draw(random.Random(f"{tile} {seed}"), op_class)
        engine = engine_for(p)
        configs = [c for c in engine.configs(p, H200) if c.tile == tile]
        check(engine, p, seed, configs[seed % 2 - 1])


def test_strided_pixels_and_channels_are_repacked():
    """x is a slice of 8 channels out of 24: no dense NHWC, but dense pixels."""
    p = match(ConvFprop, (2, 8, 5, 6), (16, 8, 3, 3))
    x = p.x.desc.replace(strides=(5 * 6 * 24, 1, 6 * 24, 24))
    p = alone.of(p.op, x=x, w=p.w.desc, y=p.y.desc)
    assert engine_for(p).index == 111
    check(engine_for(p), p)


# ---- Contracts ----

RESNET50 = [(3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1),
            (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (256, 56, 512, 1, 2), (128, 28, 128, 3, 1),
            (512, 28, 1024, 1, 2), (256, 14, 256, 3, 1), (1024, 14, 2048, 1, 2),
            (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1)]


@pytest.mark.parametrize("op_class", [ConvFprop, ConvDgrad, ConvWgrad])
@pytest.mark.parametrize("n, dtype", [(256, "bf16"), (32, "f16"), (1, "f16")])
def test_plans_of_resnet50_pack_and_cover_the_output(op_class, n, dtype):
    for c, size, k, r, stride in RESNET50:
        for device in ("h200", "a100", "rtx4090"):
            p = match(op_class, (n, c, size, size), (k, c, r, r), dtype=dtype,
                      stride=stride, pre_pad=r // 2, post_pad=r // 2)
            check_contract(p, KNOWN[device])


@pytest.mark.parametrize("seed", range(60))
def test_random_plans_pack(seed):
    rng = random.Random(seed)
    check_contract(draw(rng, rng.choice([ConvFprop, ConvDgrad, ConvWgrad]), small=False), H200)


def check_contract(p, dev):
    """Every launch packs, fits the device, and its blocks cover what it writes."""
    engine = next(e for e in ENGINES if e.op is type(p.op) and e.accepts(p, dev))
    assert cost(engine, p, dev) > 0
    g = conv_mma.MmaGeometry.of(p.op, p.operands.get("x") or p.dx, p.operands.get("w") or p.dw,
                             p.operands.get("y") or p.dy)
    for step in steps(engine, p, dev):
        kernel = kernels.get(step.kernel)
        packed = kernel.pack(step.args, **step.extra)
        assert packed.smem <= dev.smem_bytes
        if "tile_m" not in kernel.axes:
            continue
        m, n = kernel.axes["tile_m"], kernel.axes["tile_n"]
        rows, cols = {ConvFprop: (g.pixels, g.k), ConvDgrad: (class_rows(g), g.c),
                      ConvWgrad: (g.k, g.chunks * 8)}[type(p.op)]
        times = step.args.get("classes", 1)
        assert packed.grid[0] == -(-rows // m) * -(-cols // n) * times
        if type(p.op) is ConvWgrad:
            assert packed.grid[1:] == (step.args["splits"], g.groups)
            assert ((step.args["splits"] - 1) * step.args["range"] < g.pixels
                    <= step.args["splits"] * step.args["range"])
            assert step.args["sums"].uid.bytes <= max(wgrad_mma.MOST_BYTES,
                                                      g.k * g.groups * g.chunks * 32)
        else:
            assert packed.grid[1] == g.groups


def test_indices_are_unique_and_in_range():
    ranges = {ConvFprop: range(100, 120), ConvDgrad: range(120, 140), ConvWgrad: range(140, 160)}
    assert len({e.index for e in ENGINES}) == len(ENGINES)
    assert all(e.index in ranges[e.op] for e in ENGINES)


# ---- Refusals ----

PLAIN = (2, 16, 8, 8), (16, 16, 3, 3)
REFUSALS = [
    (lambda: match(ConvFprop, *PLAIN), 110, KNOWN["t4"], "needs sm_80 or newer; device is sm_75"),
    (lambda: match(ConvFprop, *PLAIN, dtype="f32"), 110, H200,
     "x must be one of f16 bf16 "),
    (lambda: match(ConvFprop, *PLAIN, types=dict(w="bf16")), 110, H200,
     "operands must be held by one 16-bit type; got bf16 f16"),
    (lambda: match(ConvFprop, *PLAIN, types=dict(y="bf16"), layouts=("nchw", "nhwc", "nhwc")), 111, H200,
     "y must be one of f16 f32; got bf16"),
    (lambda: match(ConvDgrad, *PLAIN, types=dict(dx="i8"), layouts=("nchw",) * 3), 131, H200,
     "dx must be one of f16 bf16 f32; got i8"),
    (lambda: match(ConvFprop, *PLAIN, layouts=("nchw", "nhwc", "nhwc")), 110, H200, "x must be packed NHWC"),
    (lambda: match(ConvFprop, *PLAIN, layouts=("nhwc", "nhwc", "nchw")), 110, H200, "y must be packed NHWC"),
    (lambda: match(ConvFprop, *PLAIN), 111, H200,
     "x and y are packed NHWC; conv_fprop_mma takes them without a copy"),
    (lambda: match(ConvDgrad, *PLAIN), 131, H200,
     "dy and dx are packed NHWC; conv_dgrad_mma takes them without a copy"),
    (lambda: match(ConvWgrad, *PLAIN), 151, H200,
     "x and dy are packed NHWC; conv_wgrad_mma takes them without a copy"),
    (lambda: match(ConvFprop, (2, 16, 8, 8), (16, 1, 3, 3)), 110, H200,
     "c and k of a group must be multiples of 8; got 1 and 1"),
    (lambda: match(ConvDgrad, *PLAIN, stride=2, dilation=2), 130, H200,
     "stride and dilation must have no common factor; got 2 and 2"),
    (lambda: match(ConvWgrad, (1, 8, 40, 40), (8, 8, 17, 17)), 150, H200,
     "dw may have 32 taps in height, width and depth together"),
    (lambda: match(ConvFprop, *PLAIN, compute="f64"), 110, H200,
     "compute must be f32 for f16 tensors; got f64"),
    (lambda: match(ConvFprop, (0, 16, 8, 8), PLAIN[1]), 110, H200,
     "x must have elements; got dims (0, 16, 8, 8)"),
    (lambda: match(ConvFprop, (1 << 20, 64, 256, 16), (64, 64, 1, 1)), 110, H200,
     "x must have fewer than 2147483392 chunks"),
]


@pytest.mark.parametrize("make, index, dev, sentence", REFUSALS, ids=[r[-1][:40] for r in REFUSALS])
def test_refusals(make, index, dev, sentence):
    engine = next(e for e in ENGINES if e.index == index)
    assert sentence in reasons(engine, make(), dev)


def test_misaligned_pointers_are_refused():
    said = reasons(ENGINES[0], match(ConvFprop, *PLAIN, alignment=8))
    assert all(f"{name} must be aligned to 16 bytes; got 8" in said for name in "xwy")


# ---- Host-side helpers ----

def test_pixel_stride():
    packed = TensorDesc.packed("f16", (2, 8, 4, 5), "nhwc")
    assert (conv_mma.pixel_stride(packed) == 8
            and conv_mma.pixel_stride(TensorDesc.packed("f16", (2, 8, 4, 5))) == 1)
    assert conv_mma.pixel_stride(packed.replace(strides=(800, 1, 50, 8))) is None
    assert conv_mma.pixel_stride(TensorDesc.packed("f16", (2, 8, 1, 1))) == 1


def test_small_problems_get_small_tiles():
    (_, large), (_, small) = (conv_mma.times(H200, rows, 256, 18)[0] for rows in (802816, 1568))
    assert large.m * large.n > small.m * small.n
    assert all(t.smem_bytes <= KNOWN["rtx4090"].smem_bytes for t in conv_mma.tiles_for(KNOWN["rtx4090"]))


# ---- Types ----

TYPES = [  # operand types, engine
    (dict(x="f16", w="f16", y="f32"), 110), (dict(x="i8", w="u8", y="bf16"),
                                             110), (dict(x="f8_e5m2", w="f16", y="f32"), 110),
    (dict(x="u8", w="i8", y="f32"), 111), (dict(dy="bf16", w="i8", dx="f32"),
                                           130), (dict(dy="i8", w="i8", dx="f16"), 131),
    (dict(x="f8_e5m2", dy="bf16", dw="f16"), 150), (dict(x="i8", dy="f16", dw="f32"), 151),
]


@pytest.mark.parametrize("types, index", TYPES, ids=str)
def test_what_a_16_bit_type_holds_is_cast(types, index):
    """Smaller types are cast to the common one; sums may be stored in f32, and behind a repack in either
    16-bit type."""
    engine = BY_INDEX[index]
    layouts = ("nhwc",) * 3 if index % 2 == 0 else ("nchw", "nhwc", "nchw")
    p = match(engine.op, (2, 16, 5, 6), (24, 16, 3, 3), types=types, layouts=layouts)
    check(engine, p)


# ---- Fusion ----

@pytest.mark.parametrize("layout, engine", [("nhwc", 110), ("nchw", None)])
def test_bias_and_relu_are_fused_into_fprop(layout, engine):
    """A f32 intermediate is fine; the last output lies in NHWC, else the engine leaves the operations to
    another."""
    tensor = lambda uid, dims, dtype="f16", layout="nhwc", kind="memory": Tensor(
        uid, TensorDesc.packed(dtype, dims, layout), kind)
    out = (8, 128, 56, 56)
    nodes = [Node(ConvFprop(pre_pad=1, post_pad=1), dict(x=1, w=2, y=3)),
             Node(Pointwise(mode="add"), dict(x=3, b=4, y=5)),
             Node(Pointwise(mode="relu_fwd"), dict(x=5, y=6))]
    tensors = [tensor(1, (8, 64, 56, 56)), tensor(2, (128, 64, 3, 3)), tensor(3, out, "f32", kind="virtual"),
               tensor(4, (1, 128, 1, 1), "f32"), tensor(5, out, "f32", kind="virtual"),
               tensor(6, out, layout=layout)]
    choice = best(Graph(nodes, tensors), KNOWN["a100"])
    if engine:
        (part,) = choice.parts
        assert part.engine.index == engine and len(part.region.nodes) == 3
        _, step = choice.steps[-1]
        assert step.args["y"].uid == 6 and set(step.fuse) == {"epilogue"}
    else:
        assert all(part.engine.index != 110 or 6 not in part.region.outputs for part in choice.parts)

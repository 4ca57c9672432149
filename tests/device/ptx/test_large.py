"""Tensors of more than 2^31 and 2^32 elements: the first, the last and some random blocks of every engine
that takes them, on sparse memory (sparse.py). test_far.py has what lies apart, test_refused.py the rest.
"""
from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from cydnn import kernels
from cydnn.device.ptx import Finding, PtxDevice
from cydnn.ops import philox
from cydnn.steps import Launch
from support.draw import alone
from lab import sampling

import snippet
import sparse

# Problems of n slices. A block takes a part of one or a few: the long dim is never one that it sums over.
LINES = (
    "pooling_fwd n{n}c8h8w8 window=2 stride=2 mode=max f16",
    "pooling_fwd n{n}c8h9w9 window=3 stride=2 mode=avg_include_padding f16 nhwc",
    "pooling_fwd n{n}c8h8w8 window=8 mode=avg_include_padding bf16",
    "pooling_bwd n{n}c8h8w8 window=2 stride=2 mode=max f16 nhwc",
    "conv_fprop n{n}c8h8w8 k8r3s3 pad1 f16 nhwc",
    "conv_fprop n{n}c8h8w8 k8r3s3 pad1 f32",
    "conv_fprop n{n}c8h8w8 k8r3s3 pad1 groups=8 f16 nhwc",
    "conv_fprop n{n}c64h8w8 k64r3s3 pad1 f16 nhwc",
    "conv_fprop n{n}c4h16w16 k16r7s7 pad3 stride2 f16 nhwc",
    "conv_fprop n{n}c3h16w16 k16r7s7 pad3 stride2 f16",
    "conv_dgrad n{n}c8h8w8 k8r3s3 pad1 f16 nhwc",
    "conv_dgrad n{n}c8h8w8 k8r3s3 pad1 f32",
    "conv_dgrad n{n}c8h8w8 k8r3s3 pad1 groups=8 f16 nhwc",
    "conv_dgrad n{n}c64h8w8 k64r3s3 pad1 f16 nhwc",
    "conv_wgrad n2c{n}h8w8 k{n}r3s3 pad1 groups={n} f32",
    "softmax_fwd {n}x64 f16",
    "softmax_fwd {n}x8192 f16",
    "softmax_fwd {n}x131072 f16",
    "softmax_fwd n{n}c16h3w5 f16",
    "softmax_fwd n{n}c16h4w8 f16",
    "softmax_bwd {n}x64 f16",
    "softmax_bwd {n}x8192 f16",
    "softmax_bwd {n}x131072 f16",
    "softmax_bwd n{n}c16h3w5 f16",
    "softmax_bwd n{n}c16h4w8 f16",
    "matmul {n}x8x64 {n}x64x8 f16",
    "matmul {n}x8x64 {n}x64x8 f32",
    "matmul {n}x512 512x64 f16",
    "batch_norm_training n2c{n}h8w8 f16",
    "batch_norm_training n2c{n}h8w8 f16 nhwc",
    "batch_norm_inference n2c{n}h8w8 f16",
    "batch_norm_inference n2c{n}h8w8 f16 nhwc",
    "batch_norm_bwd n2c{n}h8w8 f16",
    "batch_norm_bwd n2c{n}h8w8 f16 nhwc",
    "dropout_bwd {n}x512 f16",
    "dropout_bwd n{n}c16h8w8 f16 nhwc",
    "im2col n{n}c8h8w8 window=3 f16",
    "rnn_fwd t1n{n}i8 hidden=1024 reserve=none f16",
    "set_tensor y={n}x512:f16",
    "pointwise x={n}x512:f16 b={n}x512:f16 y={n}x512:f16 mode=add",
    "pointwise x={n}x512:f16@600,1 y={n}x512:f16 mode=exp",
    "transform x={n}x8x8x8:f16 y={n}x8x8x8:f16@nhwc",
    "transform x={n}x64x64:f16 y={n}x64x64:f16@4096,1,64",
    "reduction x={n}x512:f16 y={n}x1:f16 mode=add acc=f32",
    "reduction x=64x{n}:f16 y=1x{n}:f16 mode=add acc=f32",
)
LONGEST = "conv_wgrad n1c{n}h8w8 k8r1s1 f16 nhwc"         # half a minute: its blocks read every pixel
BYTES = "spatial_grid_fwd theta={n}x2x3:f64 grid={n}x8x8x2:f64"    # fewer than 2^31 elements, but 2^33 bytes
OCTETS = "dropout_bwd {n}x520 bf16"               # of more than 2^34 elements: 2^31 octets, which are counted
PATCHES = "dropout_bwd n{n}c16h8w8 bf16 nhwc"     # 2^35 elements: 2^32 octets, 2^32 vectors of channels
LEAST = {BYTES: (2**30,), OCTETS: (2**34,), PATCHES: (2**35,)}
# A card on which no block takes a second part: those of some kernels stay, as many as there are SMs.
DEVICE = PtxDevice("sm_90a")
DEVICE.facts = replace(DEVICE.facts, sms=1 << 25)
MANY = 8                                         # launches: plans of more take a part of the images at a time


def takers(line):
    """Engines that take more than 2^32 elements, or where they refuse that 2^31, no sum split: name ->
    (problem, its long dim, engine, configuration, sources of the launches). Not those whose blocks all wait
    for each other, which cannot run alone."""
    found = {}
    for least in LEAST.get(line, (2**32, 2**31)):
        problem, count = sparse.long_problem(line, least)
        match = alone.match(problem)
        for engine in alone.takers(match, DEVICE.facts):
            if engine.name not in found:
                config = whole(engine.configs(match, DEVICE.facts))
                steps = engine.plan(match, DEVICE.facts, config)
                launches = [step for step in steps if isinstance(step, Launch)]
                launched = [kernels.get(step.kernel) for step in launches]
                is_whole = all(step.args.get("splits", 1) == 1 for step in launches)
                waits = any(k.row.get("cooperative") is True for k in launched)
                if len(launched) < MANY and is_whole and not waits:
                    found[engine.name] = problem, count, engine, config, [k.source for k in launched]
    return found


def whole(configs):
    """The first that splits nothing, or the first."""
    first = next(configs := iter(configs))
    every = [first, *configs] if first.get("splits", 1) != 1 else [first]
    return next((c for c in every if c.get("splits") == 1), first)


def device() -> PtxDevice:
    made = PtxDevice(DEVICE.target)
    made.facts = DEVICE.facts
    return made


@pytest.mark.share(8)
@pytest.mark.parametrize("line", [*LINES, *LEAST, pytest.param(LONGEST, marks=pytest.mark.skipif(
    not sampling.ALL, reason="takes half a minute; CYDNN_ALL=1 takes it"))])
def test_first_last_and_random_blocks(line):
    found = takers(line)
    assert found, "no engine takes it"
    wrong = [text for problem, count, engine, config, sources in found.values()
             for text in sparse.run(line, problem, count, engine, config, device())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("line, name, place", [
    (BYTES, "spatial_grid_fwd_any_f64", r"(shl\.b64\s+(%rd\d+), %rd\d+, 3;)"),
    (OCTETS, "dropout_bwd_vector_bf16", r"(add\.s64\s+(%rd13), %rd44, 32;)"),
    (PATCHES, "dropout_bwd_nhwc_bf16", r"(shl\.b64\s+(%rd12), %rd11, 3;)"),
    (PATCHES, "dropout_bwd_nhwc_bf16", r"(shl\.b64\s+(%rd27), %rd26, 3;)")])
def test_sums_and_shifts_of_32_bits_are_found(line, name, place):
    made, text = device(), kernels.get(name).image_for(90).text().decode()
    made.replaced[name] = re.sub(place, r"\1 shl.b64 \2, \2, 32; shr.s64 \2, \2, 32;", text, count=1)
    assert made.replaced[name] != text
    problem, count, engine, config, _ = next(iter(takers(line).values()))
    try:
        assert sparse.run(line, problem, count, engine, config, made)
    except Finding:
        pass


# source -> (problem of n slices, engine, elements): what is drawn depends on the number of an element.
DRAWN = {"dropout/dropout_fwd_vector.cu": ("dropout_fwd {n}x512 f16", "dropout_fwd_vector", 2**32),
         "dropout/dropout_fwd_nhwc.cu": ("dropout_fwd n{n}c16h8w8 f16 nhwc", "dropout_fwd_nhwc", 2**35),
         "dropout/dropout_factors.cu": ("dropout_factors y={n}x512:f16", "dropout_factors_vector", 2**32)}


@pytest.mark.parametrize("source", DRAWN)
def test_drawn(source):
    """Those of the first and the last elements."""
    line, name, least = DRAWN[source]
    problem, count = sparse.long_problem(line, least)
    made, op, states = device(), problem.op, np.array([7, 3 * philox.ONE_DRAW])
    places = sparse.execute(problem, count, alone.BY_NAME[name], None, made, dict(states=states))
    y, factor = places["y"], philox.factor(op.p)
    for slices in ([0], [count - 1]):
        each = y.desc.count // count
        octets = np.arange(slices[0] * each // 8, (slices[0] + 1) * each // 8)
        kept = philox.kept_of(states, octets, op.p).reshape(-1)
        mine = y.take(made.arena.state, slices).reshape(-1) != 0
        x = y.desc.dtype.decode(places["x"].take(made.arena.data, slices)) if "x" in places else np.ones(each)
        got = y.desc.dtype.decode(y.take(made.arena.data, slices)).reshape(-1)
        assert mine.sum() > 128 and (got == np.where(kept, x.reshape(-1) * factor, 0))[mine].all()
        if "mask" in places:
            bits = places["mask"].take(made.arena.data, slices)
            written = places["mask"].take(made.arena.state, slices) != 0
            assert written.any() and (bits == np.packbits(kept, bitorder="little"))[written].all()


@pytest.mark.parametrize("offset,reached", [("mul.wide.u32 %a0, %x, 2;", True),
                                            ("shl.b32 %x, %x, 1; cvt.u64.u32 %a0, %x;", False)])
def test_an_offset_of_32_bits_does_not_reach_the_end(offset, reached):
    device, count = PtxDevice("sm_90"), 2**31 + 2**21
    device.arena, device.blocks = sparse.SparseArena(), sparse.some
    place = device.alloc(2 * count)
    code = snippet.entry(".reg .u32 %x; .reg .b16 %h; mov.b16 %h, 7; mad.lo.u32 %x, %g, 128, %t; "
                         f"{offset} add.u64 %a0, %a0, %p0; st.global.b16 [%a0], %h;", 1)
    snippet.launch(device, code, [place], blocks=count // 128)
    assert (max(a.max() for a, _ in device.arena.written) == place.ptr + 2 * count - 2) == reached

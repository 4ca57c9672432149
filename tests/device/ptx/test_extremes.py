"""A factor, an input, half of an operand, or every other row that is NaN, inputs that are small or negative,
-inf all or in one half, 0 at the ends of every axis, or whole and large, operands that are left out, sizes
that are one, two, three, zero, or one short of a power of two, pads and strides that are more, sums in f64,
axes that lie apart, in another order, or with gaps of each operand's own, problems near those of the
contracts: the kernel's own problems changed so (draw/extremes.py, draw/neighbours.py), as far as they
still launch it, give right values, and nothing is found.

A plain run takes one problem of each way for some sources, which are drawn; ``CYDNN_ALL=1`` takes every
source and twelve problems a way.
"""
from __future__ import annotations

import itertools
import os
import random

import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.ops import Problem
from support.draw import extremes, neighbours, variants
from lab import planted, sampling
from support.draw.cases import SERVING, cases
from support.check.trial import Trial

import watched

KERNELS, EACH, MOST_FLOPS = 12, 12 if sampling.ALL else 1, 4e6
NAMES = variants.of_each_type()


def changed(name, facts, way):
    """Cases of a kernel whose problems are those of its contract, changed in a way."""
    lines = kernels.get(name).problems
    known = [Problem.parse(line) for line in lines]
    drawn = [new for one in (lines if way is extremes.attributes else known) for new in way(one)]
    random.Random(f"{os.environ.get('CYDNN_SEED')} {name}").shuffle(drawn)
    for problem in dict.fromkeys(p for p in drawn if p not in known and p.flops <= MOST_FLOPS):
        yield from itertools.islice((case for case, _ in debug.of_problem(name, problem, facts)), 1)


def renumbered(name, facts, way):
    """(case, keywords of a run) of the contract's problems with other numbers, the smallest first; rows of
    NaN also where operands are left out, ends of 0 where nothing is added to them."""
    if not extremes.suits(way, name):
        return
    found = [case for case in cases(name, facts) if case.problem.flops <= MOST_FLOPS]
    if way is extremes.nan_rows:
        found += changed(name, facts, extremes.left_out)
    if way is extremes.zero_edges:
        found += changed(name, facts, extremes.no_offset)
    for case in sorted(found, key=lambda c: c.problem.flops + c.problem.bytes):
        yield from ((case, more) for more in way(case.problem))


def runs(name, device, each):
    """What to run of every way; a run gives the sentences of what is wrong."""
    facts = device.facts
    for way in extremes.CHANGES.values():
        for seed, case in enumerate(itertools.islice(changed(name, facts, way), each)):
            yield case, lambda case=case, seed=seed: Trial(case, device, seed)()
    for seed, case in enumerate(neighbours.near(name, facts, each)):
        yield case, lambda case=case, seed=seed: Trial(case, device, seed)()
    for way in extremes.NUMBERS.values():
        for case, more in itertools.islice(renumbered(name, facts, way), 2 * each):
            yield case, lambda case=case, more=more: watched.run(
                case.problem, device, 0, [case.engine], config=case.config, **more).findings


@pytest.mark.parametrize("name", sampling.of(NAMES, KERNELS, "extremes"))
def test_right(name):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    with watched.watching():
        wrong = [f"{case}: {text}" for case, run in runs(name, device, EACH) for text in run()]
    assert not wrong, "\n".join(wrong[:8])


DOUBLES = [name for name in SERVING if "f64" in map(str, kernels.get(name).axes.values())]


@pytest.mark.share(12)
@pytest.mark.parametrize("name", DOUBLES)
def test_sums_in_f64(name):
    """What is of f64 is held to that: in sums of f32, as contracts have them, less would do."""
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    with watched.watching():
        wrong = [f"{case}: {text}" for n, case in enumerate(changed(name, device.facts, extremes.in_double))
                 for text in Trial(case, device, n)()]
    assert not wrong, "\n".join(wrong)


# What a way finds: way, kernel, line of the text that is another one, what was and what stands there.
PLANTED = [
    ("nan_factors", "batch_norm_bwd_grid_f32_4", "setp.neu.f32 %p114,", "setp.neu", "setp.ne"),
    ("nan_factors", "pointwise_vector_f64", "setp.neu.f64 %p4,", "setp.neu", "setp.ne"),
    ("small", "conv_fft_store_f32", "sub.f32 %f541,", "%f541, %f537, %f538;",
     "%f541, %f537, %f538; add.f32 %f541, %f541, 0f45800000; sub.f32 %f541, %f541, 0f45800000;"),
    ("one_nan", "reduction_columns_top_f32_0", "max.NaN.f32 %f70, %f70, %f45;", "max.NaN", "max"),
    ("empty", "reduction_any_top_f32", "selp.f32 %f74,", "0f00000000, 0fFF800000", "0fFF800000, 0f00000000"),
    ("few", "spatial_grid_fwd_any_f32", "setp.lt.u32 %p3,", "%r11, 2", "%r11, 3"),
    ("negative", "pooling_fwd_any_f16_max", "mov.f32 %f6,", "0f7FC00000", "0fFF800000"),
    ("negative", "softmax_bwd_apply_f32", "cvt.sat.f32.f32 %f298,", "cvt.sat", "cvt"),
    ("other_nans", "spatial_sampler_bwd_points_f64_32", "setp.", ".f64", "u.f64"),
    ("lowest", "softmax_fwd_columns_f16_512", "mov.u32", "-67044352", "-67109888"),
    ("masked", "softmax_fwd_apply_bf16", "selp.f32 %f498,", "0f00000000, ", "%f1106, "),
    ("zero_edges", "lrn_bwd_channels_f64_w9", "setp.lt.u32 %p109,", "lt.u32", "lt.s32"),
    ("own_gaps", "softmax_bwd_cluster_f16_4_1024", "ld.param.u64 %rd13,", "param_5", "param_4"),
    ("one_short", "dropout_bwd_vector_f16", "add.s64 %rd22,", "4096", "4089"),
    ("nan_rows", "rnn_step_f32_vanilla_wide", "setp.ge.s32 %p314,", "setp.ge", "setp.gt"),
    ("left_out", "rnn_persist_bwd_f32_vanilla_2x4_1", "mov.f32 %f1013,", "0f00000000", "0f3F800000"),
    ("in_double", "softmax_bwd_generic_f64_32", "shfl.sync.bfly.b32 %r254|%p20,", "%r266", "%r264"),
    ("apart", "reduction_columns_top_f64_1", "ld.param.u32 %r918,", "+28", "+16"),
    ("attributes", "divisive_norm_fwd_strided_f16", "mov.u64 %rd132,", "%rd132, 0;", "%rd133, 0;"),
]


def shown(name, device, way) -> bool:
    """Is something wrong with any of a kernel's problems, changed so?"""
    if way in extremes.CHANGES:
        found = changed(name, device.facts, extremes.CHANGES[way])
        try:
            return any(Trial(case, device, n)() for n, case in enumerate(found))
        except watched.Finding:
            return True
    return any(watched.run(case.problem, device, 0, [case.engine], config=case.config, **more).findings
               for case, more in renumbered(name, device.facts, extremes.NUMBERS[way]))


@pytest.mark.parametrize("way, name, line, old, new", PLANTED, ids=[" ".join(p[:2]) for p in PLANTED])
def test_planted(way, name, line, old, new):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    planted.change(device, name, line, old, new)
    with watched.watching():
        assert shown(name, device, way)

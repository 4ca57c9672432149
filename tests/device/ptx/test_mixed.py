"""What a kernel's contract has, changed in several ways at once (draw/mixed.py): right values, and nothing
is found. One kernel of each source and type; a plain run takes two problems of some, which are drawn,
``CYDNN_ALL=1`` two dozen of each; ``CYDNN_MIXED`` says how many.
"""
from __future__ import annotations

import os
import random

import numpy as np
import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.ops import Problem
from support.draw import alone, mixed, variants
from lab import planted, sampling
from support.draw.cases import every_case
from support.check.compare import compare
from support.check.matrix import Prepared, plain

import watched

KERNELS, EACH = 16, int(os.environ.get("CYDNN_MIXED", 24 if sampling.ALL else 2))
NAMES = variants.of_each_type()


def wrong(device, name, key, count):
    """The sentences of what is wrong with so many problems of a kernel, drawn by a key."""
    own = device.facts
    for one in mixed.Draws(name, device, random.Random(f"{key} {name}"))(count):
        device.facts, device.seed = one.card, one.order
        try:
            found = watched.run(one.case.problem, device, engines=[one.case.engine], config=one.case.config,
                                **one.more).findings
        except watched.Finding as finding:
            found = [str(finding)]
        finally:
            device.facts, device.seed = own, None
        yield from (f"{one}: {text}" for text in found)


@pytest.mark.parametrize("name", sampling.of(NAMES, KERNELS, "mixed"))
def test_right(name):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    found = [*wrong(device, name, os.environ.get("CYDNN_SEED"), EACH)]
    assert not found, "\n".join(found[:8])


# Whole images that are NaN, and an engine that multiplies them by zeros: engine, line, seed.
SPREADING = [
    ("conv_fprop_winograd4", "conv_fprop n2c3h9w5 k2r3s3 pre_pad=1 post_pad=3 f16 nhwc", 901346),
    ("conv_fprop_fft", "conv_fprop n3c2h9w5 k2r3s3 pre_pad=4 post_pad=3 f32", 3),
    ("conv_dgrad_few", "conv_dgrad n3c1h9w70 k16r4s3 pad=3 stride=3,3 dilation=3,2 mode=convolution f16 nhwc",
     403968)]


@pytest.mark.parametrize("engine, line, seed", SPREADING, ids=[engine for engine, *_ in SPREADING])
def test_what_an_engine_spreads(engine, line, seed):
    """It may be no number as far as docs/numerics.md says, and nowhere else."""
    engine, problem = alone.BY_NAME[engine], Problem.parse(line)
    numbers = dict(scalars=plain(problem.op), flavour="nan rows")
    assert not watched.run(problem, watched.PtxDevice("sm_90"), seed, [engine], **numbers).findings
    made, (name, *_) = Prepared(problem, seed, **numbers), problem.op.writes
    want, desc, reached = made.want[name], problem.operands[name], made.reached(name, engine)
    assert reached.any() and not (reached | np.isnan(want)).all()
    allowed = made.allowed(name, desc, engine)
    assert not compare(np.full(want.shape, np.nan), want, allowed, desc, reached).ok
    assert not compare(want + reached, want, allowed, desc, reached).ok


# What shows where two ways meet: kernel, line of the text that is another one, what was and what is there.
PLANTED = [
    ("rnn_starts", "setp.ge.u32 %p1,", "setp.ge", "setp.gt"),      # beside an area of a workspace
    ("divisive_norm_fwd_channels_f16_w5_v1_m0", "setp.lt.s32 %p46,", "%r20, 3", "%r20, 4"),    # blended tails
    ("pooling_bwd_whole_f16", "selp.b32 %r28,", "1, %r27", "0, %r27"),         # a plane of 1 x 3
]


@pytest.mark.parametrize("name, line, old, new", PLANTED, ids=[p[0] for p in PLANTED])
def test_planted(name, line, old, new):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    planted.change(device, name, line, old, new)
    assert any(next(wrong(device, name, key, 25), None) for key in range(4, 12))


def many(device, name) -> list[str]:
    """What is wrong with a kernel that adds two parts of more elements than 16 bits can count."""
    case = next(case for case, _ in every_case(name, device.facts, ["matmul 200x40 40x200 f32"])
                if case.config.get("splits") == 2)
    return watched.run(case.problem, device, 0, [case.engine], config=case.config,
                       scalars=plain(case.problem.op)).findings


def test_many_elements_of_few_parts():
    device, name = watched.PtxDevice("sm_80"), "matmul_sum_f32"
    assert not many(device, name)
    planted.change(device, name, "cvt.s64.s32 %rd12,", "s64.s32", "s64.s16")
    with pytest.raises(watched.Finding, match="unwritten"):
        many(device, name)

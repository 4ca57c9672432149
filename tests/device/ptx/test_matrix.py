"""Random problems of every op over every engine that accepts them,
on the interpreter: values, memory, races."""
from __future__ import annotations

import functools
import random
import zlib

import pytest

from cydnn import ops
from support import draw

import watched

OPS = list(ops.OPS)
PROBLEMS = 6                                     # of each op and target
SMALL = 3e7                                      # flops of a problem, at most


@functools.cache
def device_of(target):
    device = watched.PtxDevice(target)
    return device


def small(op_class, rng):
    while True:
        problem = draw.draw(op_class, rng)
        if problem.op.flops(**problem.operands) <= SMALL:
            return problem


@pytest.mark.share(40)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("op_class", OPS, ids=lambda o: o.__name__)
def test_engines(op_class, target):
    device, wrong = device_of(target), []
    rng = random.Random(zlib.crc32(f"{op_class.__name__} {target}".encode()))
    for _ in range(PROBLEMS):
        problem, seed = small(op_class, rng), rng.randrange(2**31)
        outcome = watched.run(problem, device, seed)
        wrong += [f"{problem} (seed {seed}): {text}" for text in outcome.findings]
    assert not wrong, "\n".join(wrong)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["Matmul", "SoftmaxFwd", "BatchNormTraining", "ConvFprop", "Transform"])
def test_random_schedules_change_nothing(name):
    device, op_class = watched.PtxDevice("sm_80"), getattr(ops, name)
    rng = random.Random(7)
    problem = small(op_class, rng)
    for seed in range(3):
        device.seed = seed
        assert not watched.run(problem, device, 11).findings


def test_a_tensor_beyond_2_to_the_31_bytes():
    """Addresses are virtual: only what is touched costs memory, so 32-bit offsets
    overflow where a test can see it."""
    import snippet
    device = watched.PtxDevice("sm_80")
    big = device.alloc(2**33)
    body = "mad.wide.u32 %a0, %t, 0x4000000, %p0; st.global.u32 [%a0], %t;"
    snippet.launch(device, snippet.entry(body, 1), [big])
    assert device.arena.read_host(big.ptr + 127 * 2**26, 4).view("u4")[0] == 127

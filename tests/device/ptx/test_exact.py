"""Small whole numbers: every sum is exact in any order, so that what an engine stores is what float64 rounds
to, and nothing beside it (draw/regimes.py). Wherever random problems are drawn a part of them is of this
kind; here kernels whose last place is wrong are found by it. Larger ones have sums that 16 bits do not hold:
a second rounding shows, even of one element in a hundred.
"""
from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from cydnn import kernels, plan
from cydnn.bench import trial as debug
from cydnn.ops import Problem
from cydnn.status import BadParam
from support.check import matrix
from lab import planted, sampling
from support.draw import regimes, variants
from support.draw.cases import cases
from support.check.compare import compare

import watched

STORING = ["conv_fprop_mma_m64n64_bf16_bf16", "conv_dgrad_mma_m64n64_bf16_bf16", "conv_wgrad_mma_sum_bf16",
           "matmul_mma_bf16_64_ak_bk", "reduction_rows_sum_bf16_f32_1"]
LINES = [                                        # a long sum in each
    "conv_fprop n1c512h3w3 k2r3s3 pad1 bf16 nhwc", "conv_dgrad n1c2h3w3 k512r3s3 pad1 bf16 nhwc",
    "conv_wgrad n8c2h24w24 k2r1s1 bf16 nhwc", "matmul 4x4096 4096x4 bf16",
    "reduction x=40x4096:bf16 y=40x1:bf16 mode=add"]


def exact(problem, seed=1, numbers=matrix.plain) -> matrix.Prepared:
    return matrix.Prepared(problem, seed, numbers(problem.op), exact=True)


@pytest.mark.parametrize("line", LINES)
def test_one_term_of_thousands_shows(line):
    """The tolerance of other numbers would let it pass: it is below the rounding of what is stored."""
    problem = Problem.parse(line)
    made = exact(problem)
    (name, want), = made.want.items()
    assert made.is_exact and problem.op.terms(**problem.operands) > 1000
    desc, largest = problem.operands[name], np.abs(want).max()
    lost = want + 2.0 ** np.floor(np.log2(largest)) * desc.dtype.eps * 0.75
    allowed = made.allowed(name, desc, matrix.COMPOSITE)
    assert compare(desc.dtype.round(want), want, allowed, desc).ok
    assert not compare(desc.dtype.round(lost), want, allowed, desc).ok


def texts(case, device, seed) -> list[str]:
    """What is wrong with a case, of small whole numbers, that scales and adds."""
    made = exact(case.problem, seed, matrix.blended)
    plan.forget()
    found = made.once(plan.build(made.graph, device, case.wish), device, []) if made.is_exact else []
    plan.forget()
    return found


MOST_FLOPS, EACH = 4e6, 6 if sampling.ALL else 2
SUMMING = [name for name in variants.smallest()
           if Problem.parse(kernels.get(name).problems[0]).op.name in regimes.SUMS]


def of_two(name, facts):
    """Cases of the contract's lines without windows and pads, where these are of windows."""
    for line in kernels.get(name).problems:
        text = re.sub(r" (window|pre_pad|post_pad)=\S+| pad\d+", "", line)
        try:
            problem = Problem.parse(text) if text != line and " window" in line else None
        except BadParam:                         # it says what its outputs are
            continue
        if problem:
            yield from (case for case, _ in itertools.islice(debug.of_problem(name, problem, facts), 1))


def whole(name, device):
    """(case, what is made of it) where sums of larger whole numbers are exact: of the contract, the smallest
    first, then of its lines with windows of two and no pads, by which averages divide by powers of two."""
    found = [case for case in cases(name, device.facts) if case.problem.flops <= MOST_FLOPS]
    found.sort(key=lambda case: case.problem.flops + case.problem.bytes)
    for n, case in enumerate(itertools.chain(found, of_two(name, device.facts))):
        made = matrix.Prepared(case.problem, n, matrix.plain(case.problem.op), "large", exact=True)
        if made.is_exact and not regimes.OTHER_NUMBERS & set(case.engine.notes):
            yield case, made


def rounded(name, device, each):
    """What is wrong with each of some cases of larger whole numbers."""
    for case, made in itertools.islice(whole(name, device), each):
        plan.forget()
        yield made.once(plan.build(made.graph, device, case.wish), device, [])
    plan.forget()


@pytest.mark.share(16)
@pytest.mark.parametrize("name", SUMMING)
def test_sums_are_rounded_once(name):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    with watched.watching():
        assert not any(rounded(name, device, EACH))


def test_a_tie_that_is_rounded_up_shows():
    """Of averages of four, some lie just between two numbers; every other of these is rounded down."""
    name = "pooling_fwd_any_bf16_avg"
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    planted.change(device, name, "add.s32 %r142,", "%r141", "1")
    with watched.watching():
        assert any(rounded(name, device, EACH))


def test_a_second_rounding_of_one_register_shows():
    """One in 64 of what a thread stores loses all but 12 bits before it has 8."""
    name = "matmul_wgmma_bf16_128x128_ak_bk"
    device, text = watched.PtxDevice("sm_90a"), variants.text_of(name)
    m = list(re.finditer(r"cvt\.rn\.bf16x2\.f32 (%r\d+), (%f\d+), (%f\d+);", text))[20]
    start = text.index("{", text.index(f".entry {name}")) + 1
    device.replaced[name] = (
        f"{text[:start]} .reg .f32 %cut<3>;{text[start:m.start()]} mul.f32 %cut0, {m[2]}, 0f45800800; "
        f"sub.f32 %cut1, %cut0, {m[2]}; sub.f32 %cut2, %cut0, %cut1; "
        f"cvt.rn.bf16x2.f32 {m[1]}, %cut2, {m[3]};{text[m.end():]}")
    with watched.watching():
        assert any(rounded(name, device, 12))


@pytest.mark.parametrize("name", STORING)
def test_a_last_place_shows(name):
    """Results that are cut off in place of rounded."""
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    text = kernels.get(name).image_for(device.facts.sm).text().decode()
    with watched.watching():
        some = debug.cases(name, device.facts)[:3]
        assert [t for n, case in enumerate(some) for t in texts(case, device, n)] == []
        by_hand = "sm_75" in text                # it has no instruction for that
        rounds = r"\b32767\b" if by_hand else r"(?<=cvt\.)rn(?=\.bf16(x2)?\.f32)"
        device.replaced[name] = re.sub(rounds, "0" if by_hand else "rz", text)
        assert device.replaced[name] != text
        assert any(texts(case, device, n) for n, case in enumerate(some))

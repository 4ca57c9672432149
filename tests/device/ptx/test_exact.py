"""Small whole numbers: every sum is exact in any order, so that what an engine stores is what float64 rounds
to, and nothing beside it (support/regimes.py). Wherever random problems are drawn a part of them is of this
kind; here kernels whose last place is wrong are found by it.
"""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn import kernels, plan
from cydnn.bench import trial as debug
from cydnn.ops import Problem
from support import matrix
from support.compare import compare

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

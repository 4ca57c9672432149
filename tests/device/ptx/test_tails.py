"""Sizes off the vector width, and padded rows: the problems of the contracts with one size that is another
(one more, one less), with rows that end in a gap of one element or of a whole vector, or with both; such as
still launch the kernel. Memory is watched, so a vector that reaches into a gap is a finding.

One variant of every source; a plain run takes some sources, ``CYDNN_ALL=1`` every one and every such problem.
"""
from __future__ import annotations

import itertools
import random

import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.ops.problem import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc
from support.draw import variants
from lab import sampling
from support.draw.extremes import resized
from support.check.trial import Trial

import watched

SOURCES, GAPS, MOST_FLOPS = 24, (0, 1, 8), 2e7   # gaps: elements behind a row


def tails(problem):
    """The problem off its sizes and with gaps: all that the op takes."""
    descs = {n: d for n, d in problem.operands.items() if isinstance(d, TensorDesc) and d.vector == 1}
    sizes = sorted({s for d in descs.values() for s in d.dims if s > 4})
    moved = [{}, *({s: s + by} for s in sizes for by in (-1, 1))]
    for one, gap in itertools.product(moved, GAPS):
        new = {n: resized(d, one, gap) for n, d in descs.items()}
        for given in (new, {n: d for n, d in new.items() if n in problem.op.reads}):
            try:
                made = Problem(problem.op, {**problem.operands, **given} if given is new else given,
                               problem.alignment)
            except BadParam:
                continue                         # sizes that do not belong together; layouts that are fixed
            if (one or gap) and made.flops <= MOST_FLOPS:
                yield made
            break


def cases(name, device, most):
    """Cases of a kernel whose problems are tails, at most so many."""
    found, rng = [], random.Random(name)
    lines = [Problem.parse(line) for line in kernels.get(name).problems]
    drawn = [t for problem in lines[:3] if problem.flops <= MOST_FLOPS for t in tails(problem)]
    rng.shuffle(drawn)
    for problem in dict.fromkeys(drawn):
        case = next((case for case, _ in debug.of_problem(name, problem, device.facts)), None)
        found += [case] * (case is not None)
        if len(found) == most:
            break
    return found


NAMES = variants.smallest()


@pytest.mark.parametrize("name", sampling.of(NAMES, SOURCES, "tails"))
def test_tails(name):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    with watched.watching():
        for n, case in enumerate(cases(name, device, 12 if sampling.ALL else 1)):
            assert Trial(case, device, n)() == [], str(case)


def test_one_element_too_many_shows():
    """A row's end is compared by > in place of >=."""
    name, device = "softmax_fwd_warp_f32_8", watched.PtxDevice("sm_80")
    text = kernels.get(name).image_for(80).text().decode()
    device.replaced[name] = text.replace("setp.ge.s32", "setp.gt.s32", 1)
    with watched.watching(), pytest.raises(watched.Finding, match="reads|writes"):
        for n, case in enumerate(cases(name, device, 3)):
            Trial(case, device, n)()

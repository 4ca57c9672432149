"""Dropout whose p is the very number that one element draws: that one is kept, and with the next p above it
is not. At each place of an octet, in the first octet and the last, by a kernel of every source that draws."""
from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace

import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.ops import Problem, philox
from support.draw import variants
from lab import sampling
from support.draw.cases import cases
from support.check.matrix import inputs_for, plain

import watched


def draws(name) -> bool:
    """Does the kernel compare numbers that it draws with p?"""
    op = Problem.parse(kernels.get(name).problems[0]).op
    return "states" in op.keeps and hasattr(op, "p")


NAMES = [name for name in variants.smallest() if draws(name)]


def number(states, octet: int, place: int) -> int:
    """What an element of an octet draws, by halving: the largest threshold that keeps it."""
    low, high = 0, 2 ** 32
    while high - low > 1:
        middle = (low + high) // 2
        kept = philox.kept_of(states, [octet], middle / 2 ** 32)[0, place]
        low, high = (middle, high) if kept else (low, middle)
    return low


def meeting(case, octet: int, place: int):
    """The case's problem with p as that element's number, and one step above it."""
    states = inputs_for(case.problem, random.Random(0), False)["states"]
    for step in (0, 1):
        p = (number(states, octet, place) + step) / 2 ** 32
        assert philox.kept_of(states, [octet], p)[0, place] == (step == 0)
        op = replace(case.problem.op, p=p)
        yield Problem(op, case.problem.operands, case.problem.alignment)


def wrong(device, some):
    """What is wrong, in any of some cases: in its first whole octet, or its last."""
    for case in some:
        whole = case.problem.operands["y"].count // 8
        octets = {0, whole - 1} if whole else ()
        for octet, place in itertools.product(octets, range(8)):
            for problem in meeting(case, octet, place):
                found = watched.run(problem, device, 0, [case.engine], config=case.config,
                                    scalars=plain(problem.op)).findings
                yield from (f"{problem}: {text}" for text in found)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", NAMES)
def test_elements_at_the_threshold(name):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    assert not [*wrong(device, sampling.of(cases(name, device.facts), 2, f"thresholds {name}"))]


@pytest.mark.parametrize("name", ["dropout_fwd_vector_bf16", "dropout_factors_f32"])
def test_a_comparison_that_is_off_by_one_shows(name):
    """Of lower halves: the first, of whole vectors, and the last, of what is left."""
    text, device = variants.text_of(name), watched.PtxDevice(debug.target_of(kernels.get(name)))
    lower = re.search(rf"ld\.param\.u32\s+(%r\d+), \[{name}_param_{lower_of(name)}\]", text)[1]
    found = [m for m in re.finditer(r"setp\.lt\.u32(\s+%p\d+, %r\d+, (%r\d+);)", text) if m[2] == lower]
    assert len(found) >= 8
    for m in (found[0], found[-1]):
        device.replaced[name] = text[:m.start()] + "setp.le.u32" + m[1] + text[m.end():]
        assert next(wrong(device, cases(name, device.facts)), None), m[0]


def lower_of(name) -> int:
    """The number of the parameter that is the lower half of the threshold."""
    return [p["name"] for p in kernels.get(name).row["params"]].index("lower")

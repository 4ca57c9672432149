"""Problems of a kernel's contract changed in several ways at once: numbers of the line, then operands and
their layouts (extremes.py); on the card or one of few SMs, in any configuration that launches the kernel,
with factors and inputs of any kind. What each way alone hides shows where two meet.

What runs or jumps where none before it did is changed further, as the contract's own problems are.
"""
from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import islice
from typing import Iterator, NamedTuple

from cydnn import kernels
from cydnn.bench import trial
from cydnn.ops import Problem
from cydnn.status import CydnnError

from . import extremes
from ..check.matrix import blended, flavours, plain, scaled
from .neighbours import STEPS, changed, within

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 33, 64, 65, 129, 200)
FLOPS, MANY = 1.5e6, 4e6                         # of a problem, and of a large one
EXTENT, COUNT = 1 << 18, 1 << 17                 # of an operand with its gaps, and its elements
LARGE = 40_000                                   # elements of one operand, beyond indices of 16 bits
TRIES, DRAWN = 40, 24                            # problems tried for one that launches; looked at of a way's
SMALL, GROWN = (lambda n, r: r.choice(SIZES),), (lambda n, r: n * r.choice((3, 7, 20, 64)) + r.randrange(3),)


class Mixed(NamedTuple):
    """A case, the facts of the card that it is planned for, in which order warps run (by a seed, or the fixed
    one for None), and keywords of a run."""
    case: trial.TrialCase
    card: object
    order: int | None
    more: dict

    def __str__(self):
        return f"{self.case} on {self.card.sms} SMs, order {self.order}, {self.more}"


class Draws:
    """What to run of a kernel that serves problems, as a device has it; whoever asks for one runs it before
    the next."""

    def __init__(self, name: str, device, rng: random.Random):
        self.name, self.device, self.rng, self.facts = name, device, rng, device.facts
        self.lines = list(kernels.get(name).problems)

    def __call__(self, count: int) -> Iterator[Mixed]:
        """So many, fewer where some do not launch the kernel in ``TRIES`` tries."""
        seen = self._seen()
        for number in range(count):
            one = next(filter(None, (self._one(is_large=number % 4 == 3) for _ in range(TRIES))), None)
            if one:
                yield one
                before, seen = seen, self._seen()
                if seen > before:
                    self.lines.append(str(one.case.problem))

    def _seen(self) -> int:
        """How many instructions have run, and how many branches have jumped."""
        return sum(int(code.executed.sum()) + int(code.jumped.sum())
                   for code in self.device.codes.values() if code.program.name == self.name)

    def _one(self, is_large) -> Mixed | None:
        rng, few = self.rng, self.rng.choice((0, 0, 1, 2, 4))
        card = replace(self.facts, sms=few or self.facts.sms,
                       l2_bytes=rng.choice((4096, self.facts.l2_bytes)))
        try:
            problem = _problem(rng.choice(self.lines), rng, is_large)
            found = [case for case, _ in trial.of_problem(self.name, problem, card)] if problem else ()
        except (CydnnError, ZeroDivisionError, OverflowError):
            return None
        order = rng.choice((None, None, rng.randrange(1 << 20)))
        return Mixed(rng.choice(found), card, order, _numbers(self.name, problem, rng)) if found else None


def _problem(line, rng, is_large):
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        line = changed(line, rng, (*SMALL, *SMALL, *STEPS))
    if is_large:
        line = _larger(line, rng)
    if rng.random() < 0.2:
        line = rng.choice([str(p) for p in extremes.attributes(line)] or [line])
    problem = _one_each(line, rng) if rng.random() < 0.3 else Problem.parse(line)
    for _ in range(rng.choice((0, 1, 1, 2))):
        way = rng.choice(list(extremes.CHANGES.values()))
        if way is not extremes.attributes:
            problem = rng.choice(list(islice(way(problem), DRAWN)) or [problem])
    return problem if _is_small(problem) and problem.flops <= (MANY if is_large else FLOPS) else None


def _is_small(problem) -> bool:
    return within(problem) and all(d.extent <= EXTENT and d.count <= COUNT for d in problem.descs)


def _one_each(line, rng):
    """The problem with pads, a stride, a dilation or a window of each dim's own; its outputs follow."""
    problem = Problem.parse(line)
    names = [name for name, a in problem.op.attributes().items() if a.kind == "ints" and name != "batches"]
    rank = max(d.rank for d in problem.descs) - 2
    if not names or rank < 2:
        return problem
    name = rng.choice(names)
    numbers = tuple(rng.randrange(0 if name.endswith("pad") else 1, 4) for _ in range(rank))
    text = re.sub(rf" {name}=[0-9,]+", "", line) + f" {name}={','.join(map(str, numbers))}"
    try:
        return Problem.parse(text)
    except CydnnError:                           # it says what its outputs are
        inputs = {n: d for n, d in problem.operands.items() if n in problem.op.reads}
        return Problem(replace(problem.op, **{name: numbers}), inputs, problem.alignment)


def _larger(line, rng) -> str:
    """With a size that makes an operand large."""
    for _ in range(12):
        other = changed(line, rng, GROWN)
        try:
            problem = Problem.parse(other)
        except (CydnnError, ZeroDivisionError, OverflowError):
            continue
        if problem.flops <= MANY and _is_small(problem):
            line = other
            if any(d.count >= LARGE for d in problem.descs):
                break
    return line


def _numbers(name, problem, rng) -> dict:
    """Keywords of a run."""
    op, seed = problem.op, rng.randrange(1 << 20)
    factors = rng.choice((plain, plain, blended, blended, scaled))
    plainly = dict(scalars=factors(op), flavour=rng.choice(flavours(op)))
    if rng.random() < 0.5:
        return dict(plainly, seed=seed)
    strides = op.geometry(problem.operands["dx"].rank)[2] if op.name == "conv_dgrad" else ()
    skips = any(s > 1 for s in strides)          # zeros meet taps of NaN
    ways = [way for way in extremes.NUMBERS.values()
            if extremes.suits(way, name) and not (skips and way is extremes.other_nans)]
    rng.shuffle(ways)
    found = next(filter(None, (list(islice(way(problem), DRAWN)) for way in ways)), None)
    return dict(rng.choice(found) if found else plainly, seed=seed)

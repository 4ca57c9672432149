"""Random problems of every op on the NumPy device against plain loops (support/loops): fresh ones in every
run, three of ten in unusual memory.

``CYDNN_RANDOM`` problems in all (default 500); ``CYDNN_SEED`` draws those of another run again. A failure
prints a line ``PROBLEM seed=N``; ``CYDNN_LINE='PROBLEM seed=N'`` runs that one alone.
"""
from __future__ import annotations

import os
import random
from math import prod

import numpy as np
import pytest

from cydnn import ops, plan
from cydnn.ops.problem import Problem
from support.check import matrix
from support.check.compare import half_step
from support.draw import draw
from support.draw.layouts import layouts
from support.loops import LOOPS

SEED = int(os.environ.get("CYDNN_SEED", 0)) or random.SystemRandom().randrange(1, 2 ** 31)
COUNT = int(os.environ.get("CYDNN_RANDOM", 500))
LINE = os.environ.get("CYDNN_LINE", "")
ELEMENTS, FLOPS, STEPS = 2500, 3e5, 2e4                      # of a problem at most: loops are slow
# shown by test_philox.py; by differences (test_gradients.py)
ELSEWHERE = (ops.DropoutStates, ops.DropoutFactors, ops.RnnBwdData, ops.RnnBwdWeights)
DRAWN = [op for op in ops.OPS if op not in ELSEWHERE]


class ByLoops(matrix.Prepared):
    """A problem whose wanted values are those of the loops. What the generator of dropout draws is as it
    is."""

    def __init__(self, problem, seed):
        flavours = [f for f in matrix.flavours(problem.op) if f in ("drawn", "nan")]
        super().__init__(problem, seed, flavour=random.Random(seed).choice(flavours))
        op, math = problem.op, np.float32 if problem.op.math == "f32" else np.float64
        numbers = {n: v if isinstance(v, int) else float(math(v)) for n, v in self.scalars.items()}
        blended = {name for pair in op.blends.values() for name in pair}
        shapes = {n: d.dims for n, d in problem.tensors.items()}
        more = {n: v for n, v in numbers.items() if n not in blended}
        if LOOPS[op.name].__code__.co_varnames[3:4] == ("found",):
            more["found"] = self.raw
        with np.errstate(all="ignore"):
            found = LOOPS[op.name](op, self.arrays, shapes, **more)
            for name, value in found.items():
                if self.values.get(name) is not None:
                    self.want[name] = self._blended(name, value, numbers)

    def _blended(self, name, value, numbers):
        value = self.problem.operands[name].dtype.settle(value)
        alpha, beta = (numbers.get(n, 1.0) for n in self.problem.op.blends.get(name, (None, "")))
        if name not in self.problem.op.blends or not beta:
            return alpha * value if name in self.problem.op.blends else value
        return alpha * value + beta * self.arrays[name]

    def allowed(self, name, desc, engine):
        """Half a step of the type; two orders of the same sums in float64."""
        half = 0.5 if desc.dtype.kind == "int" else half_step(desc.dtype, np.abs(self.want[name]))
        return half + 1e-11 * (1 + np.nan_to_num(np.abs(self.magnitude[name]), posinf=0) * 4)


def cases(op):
    """(problem, seed) of this run."""
    if LINE:
        text, _, seed = LINE.partition(" seed=")
        problem = Problem.parse(text)
        return [(problem, int(seed))] * (type(problem.op) is op)
    rng, found = random.Random(f"{SEED} {op.name}"), []
    while len(found) < -(-COUNT // len(DRAWN)):
        problem = (draw if rng.random() < 0.7 else layouts)(op, rng)
        if (problem.flops <= FLOPS and sum(d.count for d in problem.descs) <= ELEMENTS
                and steps(problem) <= STEPS):
            found.append((problem, rng.randrange(2 ** 31)))
    return found


def steps(problem) -> int:
    """What a loop over windows around cells makes of a problem."""
    return (problem.op.terms(**problem.operands) * prod(problem.descs[0].spatial)
            if problem.op.name.startswith("divisive") else 0)


@pytest.mark.parametrize("op", DRAWN, ids=lambda o: o.name)
def test_loops(op, numpy_device):
    wrong = []
    for problem, seed in cases(op):
        made = ByLoops(problem, seed)
        texts = made.once(plan.build(made.graph, numpy_device), numpy_device, [])
        wrong += [f"CYDNN_LINE='{problem} seed={seed}': {text}" for text in texts]
    plan.forget()
    assert not wrong, f"CYDNN_SEED={SEED}: {len(wrong)} wrong:\n" + "\n".join(wrong[:8])


def test_every_op_is_drawn_or_shown_elsewhere():
    assert {*DRAWN, *ELSEWHERE} == set(ops.OPS)

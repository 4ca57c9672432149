"""A NaN of one sequence and step reaches what the reference says of that sequence, and nothing else: words of
f32 that are split for the tensor cores keep it."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import plan
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from support.draw import alone
from support.check import hopper, matrix

LINES = [f"rnn_fwd t3n4i8 hidden=8 cell={cell} {kind}" for cell in ("relu", "tanh", "lstm", "gru")
         for kind in ("f32", "f16")] + [
    "rnn_fwd t3n4i8 hidden=8 cell=tanh layers=3 bidirectional=True batches=4,3,2 f32",
    *(f"rnn_bwd_data t3n4i8 hidden=8 cell={cell} f32" for cell in ("relu", "tanh", "lstm", "gru"))]


def prepared(problem):
    """With a NaN in the last sequence, in the middle of time."""
    made = matrix.Prepared(problem, 3, matrix.plain(problem.op))
    made.values[problem.op.reads[0] if problem.op.name == "rnn_fwd" else "dy"][6, 3] = np.nan
    return made


@pytest.mark.parametrize("line", LINES)
def test_a_nan_goes_where_it_must(line):
    problem, machine = Problem.parse(line), hopper.device()
    made, op = prepared(problem), problem.op
    out = "y" if op.name == "rnn_fwd" else "dx"
    given = {n: v if n in op.reads or n in made.reads_old else np.full(v.shape, np.nan)
             for n, v in made.values.items()}
    with np.errstate(invalid="ignore"):
        want = np.isnan(op.evaluate(given, made.scalars)[out])
    assert 0 < want.sum() < want.size
    for engine in alone.takers(alone.match(problem), machine.facts):
        built = plan.build(made.graph, machine, Wish(engines=(engine.index,)))
        buffers, _ = matrix.execute(built, problem, made.values, {*op.reads, *made.reads_old}, machine)
        assert (np.isnan(buffers[out].read()[0]) == want).all(), engine
        plan.forget()

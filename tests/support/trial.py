"""A case made ready to be run many times on the interpreter: inputs, reference and tolerance are computed once."""
from __future__ import annotations

import random
import signal
from contextlib import contextmanager

import numpy as np

from cydnn import plan
from cydnn.bench import graph_of

from . import matrix


class Slow(Exception):
    """A run took more CPU time than it may: it would probably never end."""


class Trial:
    """One case on one device; ``trial()`` gives the sentences of what is wrong and raises what the interpreter finds."""

    def __init__(self, case, device, seed: int = 0):
        rng = random.Random(seed)
        self.case, self.device, problem = case, device, case.problem
        op = problem.op
        self.scalars = matrix.scalars_for(op, rng)
        exact = op.name in matrix.EXACT_OPS and rng.random() < 0.4
        self.values = matrix.inputs_for(problem, rng, exact)
        self.reads_old = {o for o, (_, b) in op.blends.items() if self.scalars.get(b, 0.0) != 0} | (set(op.writes) if op.reads_output else set())
        arrays = {n: v if n in op.reads or n in self.reads_old else np.broadcast_to(np.nan, v.shape) for n, v in self.values.items()}
        raw = {n: v if v is None or problem.operands[n] is None else problem.operands[n].dtype.settle(v)
               for n, v in op.evaluate(arrays, self.scalars).items()}
        self.want = op.blend(raw, arrays, self.scalars)
        self.magnitude = op.magnitude(arrays, self.scalars, raw)
        self.graph = graph_of(problem, self.scalars)
        self.bits = b""

    def __call__(self) -> list[str]:
        plan.forget()                                        # the kernel's text may be another one than before
        try:
            built = plan.build(self.graph, self.device, only=(self.case.engine,))
            bits: list = []
            texts = matrix._once(built, self.case.problem, self.values, self.reads_old, self.want, self.magnitude, self.scalars, self.device, bits)
            self.bits, = bits
            return texts
        finally:
            plan.forget()


@contextmanager
def cpu_limit(seconds: float):
    """Raise Slow in the main thread once this process has used so many seconds more. CPU time: a busy machine changes nothing."""
    def stop(*_):
        raise Slow(f"more than {seconds:.1f} s")
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

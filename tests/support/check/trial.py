"""A case made ready to be run many times on the interpreter: inputs, reference
and tolerance are computed once."""
from __future__ import annotations

import signal
from contextlib import contextmanager

from cydnn import device as devices, plan
from cydnn.bench.trial import TrialCase

from . import fused, matrix
from ..draw import graphs


class Slow(Exception):
    """A run took more CPU time than it may: it would probably never end."""


class Trial:
    """One case on one device; ``trial()`` gives the sentences of what is wrong and raises
    what the interpreter finds.

    ``seed`` draws the inputs. Even ones store what is computed, odd ones scale and add;
    their flavours take turns. ``facts``: of the card that is planned for, None for the device's own."""

    def __init__(self, case, device, seed: int = 0, facts=None):
        self.case, self.device, self.bits, op = case, device, b"", case.problem.op
        self.facts = facts or device.facts
        numbers, flavours = (matrix.plain, matrix.blended)[seed % 2], matrix.flavours(op)
        self.made = matrix.Prepared(case.problem, seed, numbers(op),
                                    flavours[(seed // 2 + seed % 2) % len(flavours)])

    def __call__(self) -> list[str]:
        plan.forget()                                       # the kernel's text may be another one than before
        bits, own, self.device.facts = [], self.device.facts, self.facts
        try:
            return self._run(bits)
        finally:
            plan.forget()
            self.device.facts = own
            self.bits = b"".join(bits)

    def _run(self, bits) -> list[str]:
        """What is wrong; the bytes that are written go to ``bits``."""
        built = plan.build(self.made.graph, self.device, self.case.wish)
        return self.made.once(built, self.device, bits)


class FusedCase(TrialCase):
    """A case with bias, residual and ReLU behind its product, in its configuration."""
    __slots__ = ()


class FusedTrial(Trial):
    """Of whole numbers, for which each result is exact."""

    def __init__(self, case, device, seed: int = 0, facts=None):
        self.case, self.device, self.bits, self.facts = case, device, b"", facts or device.facts
        self.graph = fused.graph_of(case.problem)
        self.choice = fused.choice_of(case.engine, self.graph, self.facts, lambda c: c == case.config)
        self.values = fused.values_of(self.graph)
        self.want = graphs.run(self.graph, self.values, devices.get("numpy"))

    def _run(self, bits):
        got = graphs.execute(plan.made(self.choice, self.device), self.values)
        bits += [got[uid].tobytes() for uid in sorted(got)]
        return graphs.differences(self.graph, got, self.want)


@contextmanager
def cpu_limit(seconds: float):
    """Raise Slow in the main thread once this process has used so many seconds more.
    CPU time: a busy machine changes nothing."""
    def stop(*_):
        raise Slow(f"more than {seconds:.1f} s")
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

"""check/streams.py with kernels that compute: on the interpreter in place of a GPU, whose copies it has. A
run finds everything as the run before it did, and two sets of inputs give two results.
"""
from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from cydnn import plan as plans
from cydnn.device.ptx import PtxDevice
from cydnn.engines import TABLE
from support.check import streams
from support.draw.of_engine import listed, problems


class Stand(PtxDevice):
    """The interpreter, with the copies of a context."""

    def __init__(self):
        super().__init__("sm_90")
        self.context = SimpleNamespace(copy=self.copied, ordinal=0)

    def copied(self, to, at, size, stream):
        self.copy_in(to, self.copy_out(at, np.empty(size, np.uint8)))


def smallest(engine, facts):
    """Of more than a few elements that follow from others, where there are more."""
    found = [p for p in (*listed(engine, facts), *islice(problems(engine, facts), 20))
             if min(d.count for d in p.descs) > 0 and p.op.terms(**p.operands) > 0
             and getattr(p.op, "p", 0) < 1]
    return next((p for p in found if max(d.count for d in p.descs) > 8), found[0])


@pytest.mark.share(5)
@pytest.mark.parametrize("engine", streams.ALONE, ids=str)
def test_runs_are_alike(engine):
    device = Stand()
    runs = streams.Runs(smallest(engine, device.facts), engine, device)
    wants, again = runs.wants(0), runs.wants(0)
    plans.forget()
    assert not runs.other(again, wants) and not (again == 0xFF).all()
    assert np.array_equal(*wants) != bool(set(engine.op.reads) - set(engine.op.keeps))


def test_a_byte_that_changes_is_found():
    device, engine = Stand(), next(e for e in TABLE if e.name == "softmax_fwd_warp")
    both = streams.places(smallest(engine, device.facts), engine, device)
    execute = both[1].execute

    def other(stream):
        execute(stream)
        device.memset(both[1].outs[0][0], 1, 1, stream)
    both[1].execute = other
    assert streams.repeated(both, lambda number: None, 0, 5) == [3, 4]

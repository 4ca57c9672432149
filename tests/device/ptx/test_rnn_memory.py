"""What recurrent networks keep in memory of their own: where rows of each time begin, of more times than a
launch writes; states whose bits are those of a place where nothing has come yet.
"""
from __future__ import annotations

import struct

import numpy as np
import pytest

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.device.ptx import machine
from cydnn.ops import Problem
from cydnn.steps import Launch
from support import alone, matrix

import snippet
import watched
from test_turning import changed, finds

TIMES = 700                                      # of which a launch writes 512
STARTS = f"rnn_fwd t{TIMES}n4i3 cell=tanh hidden=3 batches={','.join(['4'] * 600 + ['2'] * 100)} f32"
PERSIST = alone.BY_NAME["rnn_fwd_persist"]


def starts(device) -> np.ndarray:
    """What the launches of the plan that write starts leave in memory."""
    built = plan.build(graph_of(Problem.parse(STARTS)), device)
    steps = [s for s in built.steps if isinstance(s, Launch) and s.kernel == "rnn_starts"]
    assert [s.args["first"] for s in steps] == [0, 512]
    place = device.alloc(4 * sum(s.args["count"] for s in steps))
    for s in steps:
        values = [*s.args["values"], *[0] * (512 - len(s.args["values"]))]
        data = struct.pack("<Qii512i", place.ptr, s.args["first"], s.args["count"], *values)
        device.launch(device.code("rnn_starts"), (1, 1, 1), (512, 1, 1), 0, data)
    return device.copy_out(place.ptr, np.empty(place.bytes, np.uint8)).view(np.int32)


def test_starts_of_many_times():
    want = np.cumsum([0, *[4] * 600, *[2] * 100])
    found = starts(watched.PtxDevice("sm_80"))
    assert (found == want[:len(found)]).all() and len(found) >= TIMES


def test_starts_that_overwrite_others():
    device = watched.PtxDevice("sm_80")
    text = kernels.get("rnn_starts").image_for(80).text().decode()
    device.replaced["rnn_starts"] = changed(text, "ld.param.u32 %r4", "add.s32 %r5, %r1, %r2;",
                                            "mov.u32 %r5, %r1;")
    assert finds(device, [starts(device)[0] != 0])


class AllBits(matrix.Guarded):
    """NaN has all bits set, as a place in the exchange where no state has come yet."""

    def write(self, values):
        super().write(values)
        raw = self.before[self.start:self.start + self.desc.bytes]
        words = raw.view(f"u{self.desc.dtype.bytes}")
        missing = np.isnan(self.desc.dtype.decode(raw.view(self.desc.dtype.numpy)))
        words[missing] = np.iinfo(words.dtype).max
        self.device.copy_in(self.buffer.ptr, self.before)


def of_nan(device, kind: str) -> list:
    problem = Problem.parse(f"rnn_fwd t2n3i8 hidden=24 cell=tanh {kind}")
    return watched.run(problem, device, 0, [PERSIST], scalars=matrix.plain(problem.op), nans=("hx",)).findings


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
def test_states_of_all_bits(monkeypatch, kind):
    monkeypatch.setattr(matrix, "Guarded", AllBits)
    assert not of_nan(watched.PtxDevice("sm_80"), kind)


@pytest.mark.parametrize("kind, kept", [("f16", "2147450879"), ("f32", "2147483647")])
def test_states_that_seem_to_be_missing(monkeypatch, kind, kept):
    """The kernel would wait for them for ever. NaN of other bits does not show that."""
    monkeypatch.setattr(machine, "MOST_STEPS", 40_000)
    device, name = watched.PtxDevice("sm_80"), f"rnn_pack_{kind}_forward"
    device.replaced[name] = kernels.get(name).image_for(80).text().decode().replace(f", {kept}, ", ", -1, ")
    assert not finds(device, [of_nan(device, kind)])
    monkeypatch.setattr(matrix, "Guarded", AllBits)
    assert finds(device, (of_nan(device, kind) for _ in range(1)))

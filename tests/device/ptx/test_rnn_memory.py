"""What recurrent networks keep in memory of their own: where rows of each time begin, of more times than a
launch writes; states whose bits are those of a place where nothing has come yet; states that grow by less
than the type of the tensors tells apart.
"""
from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.device.ptx import machine
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from cydnn.ops.rnn_layout import Blob
from cydnn.steps import Launch
from support.draw import alone
from support.check import matrix

import snippet
import watched
from lab.test_turning import changed, finds

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


LONG, STEP = 128, 2.0 ** -13                     # times; what each adds to a state of 1, a quarter of a place
GROWING = Problem.parse(f"rnn_fwd t{LONG}n2i8 hidden=16 cell=lstm f16")
STATES = r"(st\.shared\.v4\.f32\s+\[%r\d+\+\d+\], \{%f\d+, %f\d+, (%f\d+), (%f\d+)\};)"


def grown(device) -> np.ndarray:
    """The cells of an LSTM that keeps them, and adds half of tanh(2 * STEP) to them each time."""
    blob, w = Blob.of(GROWING.op, 8), np.zeros(GROWING.operands["w"].dims)
    for gate, bias in ((1, 20.0), (2, 2 * STEP)):
        at = blob.bias(0, gate, False)
        w[at:at + blob.hidden] = bias
    zeros = {name: np.zeros(d.dims) for name, d in GROWING.operands.items() if d}
    values = {**zeros, "w": w, "cx": np.ones(GROWING.operands["cx"].dims)}
    with watched.watching():
        built = plan.build(graph_of(GROWING), device, Wish(engines=(PERSIST.index,)))
        buffers, _ = matrix.execute(built, GROWING, values, {*GROWING.op.reads}, device)
    return buffers["cy"].read()[0]


def is_right(cells) -> bool:
    """As far as rounding once explains."""
    return bool((np.abs(cells - (1 + LONG * STEP)) <= GROWING.operands["cy"].dtype.eps).all())


def test_states_that_grow_slowly():
    assert is_right(grown(watched.PtxDevice("sm_80")))


def test_states_that_are_rounded_each_time():
    device, name = watched.PtxDevice("sm_80"), "rnn_persist_f16_lstm_4x2"
    text = kernels.get(name).image_for(80).text().decode()
    rounded = "{ .reg .b16 t; cvt.rn.f16.f32 t, \\%d; cvt.f32.f16 \\%d, t; } "
    device.replaced[name] = re.sub(STATES, rounded % (2, 2) + rounded % (3, 3) + r"\1", text)
    assert device.replaced[name] != text
    assert not is_right(grown(device))

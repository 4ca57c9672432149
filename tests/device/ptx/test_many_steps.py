"""Networks whose steps together have more than 2^32 elements in each direction: of the launch that sums the
gradients of biases and copies h of the step before, the first, the last and some random blocks, on sparse
memory (sparse.py). Numbers are whole and small, so that sums are exact.
"""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.device.ptx import Finding, PtxDevice
from cydnn.device.ptx.memory import GLOBAL
from cydnn.dtypes import BY_NAME
from cydnn.heuristics import Wish
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc
from support.draw import alone

import sparse
from test_far import narrowed

STEPS, BATCH, HIDDEN, ROW = 8193, 1024, 512, 1024        # ROW: elements that are filled together
LINE = f"rnn_bwd_weights t{STEPS}n{BATCH}i8 cell=tanh hidden={HIDDEN} bidirectional=True f16"
SHRINKING = f"{LINE} batches={','.join(map(str, [BATCH] * (STEPS - 3) + [1023, 800, 800]))}"
PRODUCTS = (3, 25, 30, 31)                        # of the kernel: rows of gates, of h, of copies; a direction
KERNEL, ENGINE = "rnn_bias_f16_8", alone.BY_NAME["rnn_bwd_weights_products"]


class Some:
    """Of the first large launch both ends of its two kinds of blocks, in either direction, and random ones.
    What is behind it reads too much; what is in front makes its table."""

    def __init__(self, steps: int, shares: int):
        self.copies, self.shares, self.left = steps * shares, shares, 1  # blocks of a direction, of a step

    def __call__(self, count: int):
        if count <= 32 and self.left:
            return range(count)
        if not self.left:
            return ()
        self.left, sides = 0, count // 2 - self.copies
        rng = np.random.default_rng(count)
        ends = 0, 1, sides - 1, sides, sides + 1, count // 2 - self.shares, count // 2 - 1
        return [at + side for side in (0, count // 2)
                for at in (*ends, *rng.integers(0, sides, 2), *rng.integers(sides, count // 2, 2))]


class Run:
    """The sampled blocks. Afterwards ``h``, ``gates``, ``hx`` and what was written can be asked for."""

    def __init__(self, line: str, text=None):
        self.problem, self.device, self.arena = Problem.parse(line), PtxDevice("sm_90a"), sparse.the_arena()
        self.arena.begin(lambda name, raw: np.round(4 * raw))
        self.device.arena = self.arena
        self.device.replaced.update({KERNEL: text} if text else {})
        config = [*ENGINE.configs(alone.match(self.problem), self.device.facts)][-1]     # most splits
        built = plan.build(graph_of(self.problem), self.device, Wish(engines=(ENGINE.index,), config=config))
        self.args = next(step.args for step in built.steps if step.kernel.startswith("rnn_bias"))
        self.device.blocks = Some(self.args["steps"], self.args["shares"])
        memory = {d.name: self.device.alloc(d.bytes) for d in built.slots}
        self.inputs = {name: self.flat(name, memory[name]) for name in ("y", "reserve", "hx")}
        self.arena.inputs = [*self.inputs.values()]
        self.workspace = self.device.alloc(built.workspace_bytes + 512)
        try:
            built.execute([memory[d.name].ptr for d in built.slots], self.workspace.ptr)
        finally:
            plan.forget()

    def flat(self, name, memory) -> sparse.Place:
        d = self.problem.operands[name]
        return sparse.Place(name, memory, TensorDesc.packed(d.dtype, (d.count // ROW, ROW)), d.count // ROW)

    def at(self, name, element) -> np.ndarray:
        """Elements of an input, which are filled where nobody has read them."""
        place = self.inputs[name]
        self.arena.fill(place, np.unique(element // ROW))
        return place.desc.dtype.decode(place.view(self.arena.data).reshape(-1)[element])

    def written(self, start: int, size: int, kind) -> tuple:
        """(numbers of the elements that were written from there on, their values)."""
        each = np.unique(np.concatenate([(a[:, None] + np.arange(0, w, kind.bytes)).ravel()
                                         for a, w in self.arena.written]))
        each = each[(each >= start) & (each < start + size)]
        values = self.arena.data[(each - GLOBAL)[:, None] + np.arange(kind.bytes)].view(kind.numpy)[:, 0]
        return (each - start) // kind.bytes, kind.decode(values)

    def copied(self):
        """What is wrong with the copies of h of the step before."""
        args, batches = self.args, np.array(self.problem.op.batches)
        starts = np.concatenate([[0], np.cumsum(batches)])
        size = 2 * args["to_dir"] * 2
        element, got = self.written(self.workspace.ptr + args["to"].addend, size, self.problem.descs[0].dtype)
        direction, place = np.divmod(element, args["to_dir"])
        row, j = np.divmod(place, HIDDEN)
        time = np.searchsorted(starts, row, side="right") - 1
        b, before = row - starts[time], time + 2 * direction - 1
        is_out = (before >= 0) & (before < STEPS)
        is_out &= b < np.where(is_out, batches[before % STEPS], 0)
        y = (starts[before * is_out] + b) * is_out * 2 * HIDDEN + direction * HIDDEN + j
        want = np.where(is_out, self.at("y", y), self.at("hx", (direction * BATCH + b) * HIDDEN + j))
        if not {(0, 0), (0, STEPS - 1), (1, 0), (1, STEPS - 1)} <= {*zip(direction.tolist(), time.tolist())}:
            yield "the first and the last step must be written, of both directions"
        if (got != want).any():
            yield f"{(got != want).sum()} of {element.size} copies are wrong"

    def summed(self):
        """What is wrong with the sums of gradients."""
        splits, rows, kind = self.args["splits"], self.args["rows"], BY_NAME["f32"]
        each = -(-rows // splits)
        element, got = self.written(self.workspace.ptr + self.args["part"].addend,
                                    2 * splits * HIDDEN * kind.bytes, kind)
        direction, rest = np.divmod(element, splits * HIDDEN)
        split, column = np.divmod(rest, HIDDEN)
        row = split[:, None] * each + np.arange(each)
        place = direction[:, None] * self.args["x_dir"] + np.minimum(row, rows - 1) * HIDDEN + column[:, None]
        want = np.where(row < rows, self.at("reserve", place.ravel()).reshape(place.shape), 0).sum(1)
        if not element.size or (got != want).any():
            yield f"{(got != want).sum()} of {element.size} sums are wrong"


@pytest.mark.parametrize("line", [LINE, SHRINKING], ids=["whole", "shrinking"])
def test_every_sampled_block_is_right(line):
    run = Run(line)
    assert not [*run.copied(), *run.summed()]


@pytest.mark.parametrize("number", PRODUCTS)
def test_products_of_32_bits_are_found(number):
    text = kernels.get(KERNEL).image_for(90).text().decode()
    try:
        run = Run(LINE, narrowed(text, number))
    except Finding:
        return
    assert [*run.copied(), *run.summed()]

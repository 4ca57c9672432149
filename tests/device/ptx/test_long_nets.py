"""Kernels that sweep over all steps of a recurrent network, as in one whose steps lie 2^31 elements apart.

A plan has few steps. Where its sweep is launched, the rows of each time and of the states are copied to where
a long network has them, and back afterwards; the kernel is told the addresses, strides and table of that one.
"""
from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest

from cydnn import kernels
from cydnn.bench import trial
from cydnn.device.ptx import Finding
from cydnn.device.ptx.memory import GLOBAL
from cydnn.ops import Problem
from lab import sampling
from support.check.matrix import plain

import far
import watched
from test_far import narrowed

APART = 2 ** 31 + 512                            # elements between steps, and from a first state to the last
MANY = 2 ** 30                                   # rows of a step, so that three have more than 2^31
SWEEPS = {"rnn_persist_": ("fwd", 8), "rnn_wave_": ("fwd", 8), "rnn_persist_bwd_": ("bwd_data", 8),
          "rnn_cluster_": ("fwd", 16)}           # names of kernels: (pass, hidden)
STATES = ("hx", "cx", "hy", "cy", "dhx", "dcx", "dhy", "dcy")
ROWS = ("gates", "x", "cells", "inner", "out", "dout", "keep", "kept")       # x may be the gates
OF_WAVE = ("inner", "keep", "kept")              # there are those of every layer but the last


class Told:
    """What a launch is told, by the names of its parameters; and ``data``, with what is told instead."""
    KINDS = {"*": "<Q", "int": "<i", "int64_t": "<q"}

    def __init__(self, name: str, grid, data: bytes):
        self.given, self.data, self.planes, self.is_wave = data, bytearray(data), grid[2], "_wave_" in name
        self.rows = {row["name"]: row for row in kernels.get(name).row["params"]}

    def _kind(self, name) -> str:
        type_ = self.rows[name]["type"]
        return self.KINDS["*" if type_.endswith("*") else type_]

    def __contains__(self, name):
        return name in self.rows

    def __getitem__(self, name) -> int:
        return struct.unpack_from(self._kind(name), self.given, self.rows[name]["offset"])[0]

    def __setitem__(self, name, value: int):
        struct.pack_into(self._kind(name), self.data, self.rows[name]["offset"], value)

    def is_written(self, name) -> bool:
        return not self.rows[name]["type"].startswith("const ")


class Long:
    """In place of the ``launch`` of a device, for a problem whose batch fills its blocks. A sweep is told
    where each step begins by a table, or by a batch of as many rows. ``swept``: how many there were."""

    def __init__(self, device, problem, by_table: bool):
        self.launch, self.arena, self.alloc, self.op, self.swept = (
            device.launch, device.arena, device.alloc, problem.op, 0)
        self.by_table, self.size = by_table, problem.descs[0].dtype.bytes
        self.step = -(-APART // self.op.hidden) if by_table else MANY    # rows from a step to the next

    def __call__(self, code, grid, block, smem, data, written, *more):
        name = code.program.name
        if not name.startswith(tuple(SWEEPS)):
            return self.launch(code, grid, block, smem, data, written, *more)
        told, self.swept = Told(name, grid, data), self.swept + 1
        table, moved = self._begins(told), self._moved(told)
        for pointer, (place, near, far, _) in moved.items():
            self._copy(pointer, near, place.ptr, far)
        written = {*written, *(place.ptr for place, *_ in moved.values())}
        self.launch(code, grid, block, smem, bytes(told.data), written, *more)
        for pointer, (place, near, far, is_written) in moved.items():
            if is_written:
                self._copy(place.ptr, far, pointer, near)
            place.free()
        table.free()

    def _begins(self, told):
        """Tells where steps begin; the memory of the table, 0 bytes of none."""
        starts = np.arange(told["steps"] + 1 if self.by_table else 0, dtype=np.int32) * self.step
        table = self.alloc(starts.nbytes)
        self.arena.write_host(table.ptr, starts.view(np.uint8))
        told["starts" if self.by_table else "batch"] = table.ptr if self.by_table else self.step
        return table

    def _copy(self, source: int, at, target: int, to):
        for array in (self.arena.data, self.arena.state):
            array[target - GLOBAL + to] = array[source - GLOBAL + at]

    def _moved(self, told) -> dict:
        """{address: (far memory, bytes of elements, the same there, is it written)}; the launch is told."""
        found = {}
        for name in (*ROWS, *STATES):
            if name in told and (pointer := told[name]):
                near, far = self._state(told, name) if name in STATES else self._rows(told, name)
                if pointer not in found:
                    place = self.alloc(int(far.max()) + 1)
                    found[pointer] = place, near, far, told.is_written(name)
                told[name] = found[pointer][0].ptr
        return found

    def _rows(self, told, name):
        op, steps, batch = self.op, told["steps"], told["batch"]
        pitch = (told["x_row"] if name == "x" else op.reserve.saved * op.hidden if name == "gates"
                 else op.hidden if name == "cells" else told["out_row"])
        t, b = (a.ravel() for a in np.mgrid[:steps, :batch])
        apart = "inner_dir" if told.is_wave and name in OF_WAVE else f"{name}_dir"
        return self._both(told, apart, told.planes - (name in OF_WAVE), (t * batch + b) * pitch,
                          (t * self.step + b) * pitch, steps * self.step * pitch, pitch)

    def _state(self, told, name):
        b, row = np.arange(told["batch"]), -(-APART // (told["batch"] - 1))
        row += -row % 64
        near = b * told[f"{name}_row"]
        told[f"{name}_row"] = row
        return self._both(told, f"{name}_dir", told.planes, near, b * row, len(b) * row, self.op.hidden)

    def _both(self, told, apart, planes, near, far, area, width):
        """Bytes of rows of ``width`` elements in all planes, which are far ``area`` elements apart."""
        by = told[apart] if apart in told else 0
        z, each = np.arange(planes if by else 1)[:, None], np.arange(width * self.size)
        if by:
            told[apart] = area
        bytes_of = lambda rows, step: ((z * step + rows).reshape(-1, 1) * self.size + each).ravel()
        return bytes_of(near, by), bytes_of(far, area)


# ---- The kernels ----

def family_of(name: str) -> str:
    """``rnn_persist_bwd_f16…`` is none of ``rnn_persist_``."""
    return max((family for family in SWEEPS if name.startswith(family)), key=len, default="")


def smallest(family: str) -> str:
    """The kernel of one gate and f16 with the smallest image."""
    return min((n for n in kernels.names() if family_of(n) == family and "_f16_vanilla" in n),
               key=lambda n: min(i.bytes for i in kernels.get(n).images.values()))


def cases(name: str, facts, by_table: bool) -> list:
    """Of the least batch that fills the blocks. By a batch of many rows: of one direction, or memory runs
    out."""
    family = family_of(name)
    (kind, cell), (pass_, hidden) = name.removeprefix(family).split("_")[:2], SWEEPS[family]
    more = ["layers=3 dropout=0.5"] if by_table else ["layers=2"]
    more += ["bidirectional=True"] if by_table and family != "rnn_wave_" else []
    found = []
    for each in more:
        line = f"rnn_{pass_} t4n{{n}}i8 hidden={hidden} cell={cell.replace('vanilla', 'tanh')} {each} {kind}"
        problems = (Problem.parse(line.format(n=n)) for n in (16, 32, 80))
        found += itertools.islice((case for p in problems for case, _ in trial.of_problem(name, p, facts)), 1)
    return found


def wrong(name: str, device, by_table: bool = True):
    """What is wrong with its sweeps."""
    found = cases(name, device.facts, by_table)
    assert found, "no problem launches it"
    for case in found:
        device.arena.changed.clear()
        device.launch = long = Long(device, case.problem, by_table)
        try:
            yield from watched.run(case.problem, device, 0, [case.engine], config=case.config,
                                   scalars=plain(case.problem.op)).findings
        finally:
            del device.launch
        assert long.swept


@pytest.mark.parametrize("family", SWEEPS)
@pytest.mark.parametrize("by_table", [True, False])
def test_every_row_is_found(family, by_table):
    name = smallest(family)
    assert not [*wrong(name, far.device_for(name), by_table)]


@pytest.mark.parametrize("name", sampling.of([*filter(family_of, kernels.names())], 6, "long nets"))
def test_of_every_type_and_cell(name):
    assert not [*wrong(name, far.device_for(name))]


# Products of these that are offsets of rows, directions and states; behind them, where a table is not asked,
# that of the first row of a time.
PLANTED = {"rnn_persist_": ((8, 19, 25, 26, 45), 13), "rnn_wave_": ((8, 26, 28, 68), 17),
           "rnn_persist_bwd_": ((4, 15, 17, 41), 9), "rnn_cluster_": ((0, 14, 20, 25), 23)}


@pytest.mark.parametrize("family, number, by_table", [
    (family, number, by_table) for family, (rows, first) in PLANTED.items()
    for number, by_table in (*((row, True) for row in rows), (first, False))])
def test_products_of_32_bits_are_found(family, number, by_table):
    name = smallest(family)
    device = far.device_for(name)
    text = kernels.get(name).image_for(device.facts.sm).text().decode()
    device.replaced[name] = narrowed(text, number)
    try:
        assert [*wrong(name, device, by_table)]
    except Finding:
        pass

"""A device answers probes: a GPU through the driver's loader, the interpreter through its own.
A probe that fails is an error, not the end."""
from __future__ import annotations

import struct
from typing import Iterator

import numpy as np

from .probe import HEAD, Probe

CHUNK = 64                                       # kernels of a module
FILL = 0xEE                                      # what results hold before


def module(probes) -> bytes:
    """The PTX of some probes: entries p0, p1 …"""
    return (HEAD + "".join(p.entry(f"p{i}") for i, p in enumerate(probes))).encode()


class Cuda:
    """Launches entries on a CUDA device."""

    def __init__(self, device):
        self.device = device

    def load(self, text: bytes, name: str):
        return self.device.context.load(text, name)

    def launch(self, function, probe: Probe, places):
        from cydnn import _core
        tape = _core.Tape(self.device.context, [("in", probe.data().nbytes, 1, False, False),
                                                ("out", probe.out_bytes, 1, True, False)])
        tape.launch(function, (probe.lanes // probe.block, 1, 1), (probe.block, 1, 1),
                    0, bytes(16), [(0, 0, 0), (8, 1, 0)])
        tape.execute(tuple(places), None, None, 0, 0)
        self.device.synchronize()


class Interpreter:
    """Launches entries on a PtxDevice."""

    def __init__(self, device):
        self.device, self.text, self.module = device, None, None

    def load(self, text: bytes, name: str):
        from cydnn.device.ptx import parse
        from cydnn.device.ptx.code import Code
        if text is not self.text:
            self.text, self.module = text, parse.module(text, "probe.ptx")
        return Code(self.module, parse.PtxProgram(self.module, name), {})

    def launch(self, code, probe: Probe, places):
        self.device.launch(code, (probe.lanes // probe.block, 1, 1), (probe.block, 1, 1), 0,
                           struct.pack("<2Q", *places), {places[1]})


def answer(machine, function, probe: Probe) -> list[np.ndarray]:
    """The results of one loaded probe."""
    device, data = machine.device, probe.data()
    given, result = device.alloc(data.nbytes), device.alloc(probe.out_bytes)
    device.copy_in(given.ptr, data)
    device.copy_in(result.ptr, np.full(probe.out_bytes, FILL, np.uint8))
    machine.launch(function, probe, (given.ptr, result.ptr))
    return probe.split(device.copy_out(result.ptr, np.empty(probe.out_bytes, np.uint8)))


def answers(device, probes) -> Iterator[tuple[Probe, list | Exception]]:
    """Every probe with its results, or with what went wrong."""
    machine = Cuda(device) if device.name.startswith("cuda") else Interpreter(device)
    for start in range(0, len(probes), CHUNK):
        chunk = probes[start:start + CHUNK]
        text = module(chunk)
        try:
            machine.load(text, "p0")
        except Exception:                        # one of them does not assemble: each alone
            text = None
        for i, probe in enumerate(chunk):
            try:
                function = (machine.load(module([probe]), "p0") if text is None
                            else machine.load(text, f"p{i}"))
                yield probe, answer(machine, function, probe)
            except Exception as error:           # kept: a table lacks one row then, not all
                yield probe, error


def one(device, probe: Probe) -> list[np.ndarray]:
    """The results of one probe."""
    (_, results), = answers(device, [probe])
    if isinstance(results, Exception):
        raise results
    return results

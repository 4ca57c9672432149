"""The interpreter gives the answers of an H200: every exact opcode bit for bit, approximations within
the error that the PTX ISA documents.

The table was written by ``python -m support.opcodes --write FILE`` on the GPU.
Which forms are probed: test_probes.py.
"""
from __future__ import annotations

import numpy as np
import pytest

from cydnn.device.ptx import PtxDevice
from cydnn.device.ptx import code  # noqa: F401  (fills the tables)
from support.opcodes import PROBES, answers, rules, run

FAMILIES = sorted({p.name.replace(" ", ".").split(".")[0] for p in PROBES})


@pytest.fixture(scope="module")
def table():
    """The answers of the H200; a missing file is an error."""
    return answers.read()


def members(family: str) -> list:
    return [p for p in PROBES if p.name.replace(" ", ".").split(".")[0] == family]


def test_the_table_answers_what_the_probes_ask(table):
    asked = {p.name: answers.digest(p) for p in PROBES}
    stale = [name for name, digest in asked.items() if table.found.get(name, ("",))[0] != digest]
    assert not stale, (f"{len(stale)} probes are not in the table as they are now; "
                       f"write it anew on an H200: {stale[:10]}")
    failed = {name: found[1] for name, found in table.found.items() if isinstance(found[1], str)}
    assert not failed, f"the GPU did not answer {failed}"


@pytest.mark.parametrize("family", FAMILIES)
def test_answers(table, family):
    device, wrong = PtxDevice("sm_90"), []
    for probe, got in run.answers(device, members(family)):
        want = table.found.get(probe.name, ("", "no answer"))[1]
        if isinstance(got, Exception) or isinstance(want, str):
            wrong.append(f"{probe.name}: interpreter {got if isinstance(got, Exception) else 'ran'}, "
                         f"GPU {want if isinstance(want, str) else 'ran'}")
            continue
        wrong += differences(device, probe, got, want)
    assert not wrong, f"{len(wrong)} opcodes differ from {table.device}:\n" + "\n".join(wrong)


def differences(device, probe, got, want):
    """A line for a probe with wrong lanes: how many, and the first of them."""
    right = np.array(rules.same(probe, got, want, lambda: run.one(device, rules.unsigned(probe))))
    if probe.undefined is not None:
        right |= probe.undefined(*probe.values)
    for lane in np.flatnonzero(~right.all(0))[:1]:
        operands = ", ".join(f"{v[lane].tobytes()[::-1].hex()}" for v in probe.values)
        results = lambda side: " ".join(f"{r[lane]:#x}" for r in side)
        yield (f"{probe.name}: {np.count_nonzero(~right.all(0))} of {probe.lanes} lanes; "
               f"({operands}) gives {results(got)}, the GPU {results(want)}")

"""Correct kernels under random orders of warps: nothing is reported, the values are right, and the bits
are the same where an engine says deterministic.
One variant of every source that shares memory.

Each source takes 2 of the 20 schedules here, all of them together all 20, and a run draws half of the
sources; ``CYDNN_ALL=1 CYDNN_SCHEDULES=20`` gives every source all.
"""
from __future__ import annotations

import os
import re
from dataclasses import replace

import numpy as np
import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from support.draw import variants
from support.check.trial import Trial

import snippet
import watched

SCHEDULES, EACH = 20, int(os.environ.get("CYDNN_SCHEDULES", 2))
SHARING = [n for n in variants.smallest()
           if re.search(r"(?m)\.shared|^\s*(@!?%p\d+\s+)?(bar(rier)?|atom|red)\.", variants.text_of(n))]


@pytest.mark.share(24)
@pytest.mark.parametrize("number, name", list(enumerate(SHARING)),
                         ids=lambda v: v if isinstance(v, str) else "")
def test_nothing_is_reported(number, name):
    """And the bits are the same where the engine says that they are."""
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    # blocks that wait for each other run at once: four are enough
    facts = replace(device.facts, sms=4) if kernels.get(name).row.get("cooperative") is True else device.facts
    trial = Trial(least(debug.cases(name, facts)), device, facts=facts)
    seeds = {(EACH * number + i) % SCHEDULES for i in range(EACH)}
    assert len(bits_of(trial, device, seeds)) == 1 or "deterministic" not in trial.case.engine.notes


def least(cases):
    """The first of those, or one that moves a tenth of its bytes or less."""
    return next((c for c in cases if 10 * c.problem.bytes <= cases[0].problem.bytes), cases[0])


def bits_of(trial, device, seeds) -> set:
    """What a trial writes under each schedule, and that it is right."""
    bits = set()
    with watched.watching():
        for seed in seeds:
            device.seed = seed
            assert trial() == [], f"{trial.case} schedule {seed}"
            bits.add(trial.bits)
    return bits


def test_an_order_that_changes_shows():
    """Sums of f32 by atomics of four warps."""
    device, sums = watched.PtxDevice("sm_80"), set()
    x = snippet.buffer(device, (1e-3 * np.arange(128) ** 3).astype(np.float32))
    code = snippet.entry("""mad.wide.u32 %a0, %t, 4, %p0; .reg .f32 %x; ld.global.f32 %x, [%a0];
                            red.global.add.f32 [%p1], %x;""", 2)
    for device.seed in range(8):
        total = snippet.buffer(device, np.zeros(1, np.float32))
        snippet.launch(device, code, [x, total])
        sums.add(device.arena.read_host(total.ptr, 4).tobytes())
    assert len(sums) > 1


def test_all_schedules_are_used():
    assert ({(EACH * number + i) % SCHEDULES for number in range(len(SHARING)) for i in range(EACH)}
            == set(range(SCHEDULES)))

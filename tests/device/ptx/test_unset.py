"""Registers that are read before they are set: one that nothing sets is a finding, others hold what shows."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn.device.ptx import Finding

import snippet

STORE = "mad.wide.u32 %a0, %t, 4, %p0; st.global.b32 [%a0], %r;"
NEVER = {"a source": ".reg .u32 %r, %u; add.u32 %r, %u, 1;" + STORE,
         "a stored value": ".reg .u32 %r;" + STORE,
         "an address": ".reg .u64 %u; st.global.u32 [%u], %t;",
         "a guard": ".reg .pred %u; .reg .u32 %r; mov.u32 %r, 0; @%u mov.u32 %r, 1;" + STORE,
         "the guard of a branch": ".reg .pred %u; @%u bra OUT; OUT: ",
         "one of a vector": ".reg .u32 %u; st.global.v2.u32 [%p0], {%t, %u};",
         "a carry": ".reg .u32 %r; addc.u32 %r, %t, 1;" + STORE}
# A loop of four rounds over %i that makes %r from %t + 1.0, each start of which somebody may forget.
LOOP = """.reg .f32 %r, %v; .reg .u32 %i; .reg .pred %q; cvt.rn.f32.u32 %v, %t; add.f32 %v, %v, 0f3F800000;
{start} mov.u32 %i, 0;
AGAIN: {fold} %r, %r, %v; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 4; @%q bra AGAIN; """
FOLDS = {"add.f32": ("0f00000000", lambda v: 4 * v), "mul.f32": ("0f3F800000", lambda v: v * v * v * v),
         "max.f32": ("0fFF800000", lambda v: v), "min.f32": ("0f7F800000", lambda v: v),
         "sub.f32": ("0f00000000", lambda v: -4 * v)}


def launch(device, body):
    place = device.alloc(512)
    snippet.launch(device, snippet.entry(body, 1), [place])
    return device.arena.read_host(place.ptr, 512).view(np.float32).copy()


@pytest.mark.parametrize("name", NEVER)
def test_nothing_sets_it(ptx80, name):
    with pytest.raises(Finding, match=r"reads (%u|%r|_cc), which no instruction sets") as found:
        launch(ptx80, NEVER[name])
    assert found.value.kind == "unset register"


def test_an_instruction_that_does_not_run_reads_nothing(ptx80):
    launch(ptx80, ".reg .u32 %u; .reg .pred %q; setp.gt.u32 %q, %t, 500; @%q st.global.u32 [%p0], %u;")


@pytest.mark.parametrize("fold", FOLDS)
def test_a_start_that_is_forgotten_shows(ptx80, fold):
    """Whatever the operation: lanes start from NaN, the largest numbers and others."""
    start, want = FOLDS[fold]
    right = launch(ptx80, LOOP.format(start=f"mov.f32 %r, {start};", fold=fold) + STORE)
    assert (right == want(np.arange(1, 129, dtype=np.float32))).all()
    for seed in (None, *range(5)):
        ptx80.seed = seed
        try:
            wrong = launch(ptx80, LOOP.format(start="", fold=fold) + STORE)
        finally:
            ptx80.seed = None
        assert (wrong != right).any()


def test_one_way_that_sets_nothing_shows(ptx80):
    body = ".reg .u32 %r; .reg .pred %q; setp.lt.u32 %q, %t, 64; @%q mov.u32 %r, 0; " + STORE
    assert (launch(ptx80, body)[64:].view(np.uint32) != 0).all()

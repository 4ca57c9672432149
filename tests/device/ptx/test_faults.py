"""Planted faults: each class is found, and nothing is reported on the correct kernel under 20 schedules."""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn.device.ptx import Finding, PtxDevice

import snippet
import test_hopper

# Reverses 100 floats within a block through shared memory, by cp.async, with a tail:
# thread t writes x[99 - t].
REVERSE = """.shared .align 16 .b8 s[512]; .reg .u32 %x, %v, %r; .reg .pred %q; mov.u32 %x, s;
shl.b32 %r, %t, 2; add.u32 %r, %r, %x;
setp.ge.u32 %q, %t, 25; @%q bra LOADED; mad.wide.u32 %a0, %t, 16, %p0; shl.b32 %v, %t, 4; add.u32 %v, %v, %x;
cp.async.cg.shared.global [%v], [%a0], 16;
LOADED: cp.async.commit_group;
cp.async.wait_group 0;
bar.sync 0;
setp.ge.u32 %q, %t, 100; @%q bra OUT;
sub.u32 %r, 99, %t; shl.b32 %r, %r, 2; add.u32 %r, %r, %x; ld.shared.u32 %v, [%r];
mad.wide.u32 %a1, %t, 4, %p1; st.global.u32 [%a1], %v;
OUT: """
FAULTS = [                                       # class, what is replaced, by what, the finding
    ("dropped barrier", "bar.sync 0;", "", "race"),
    ("early read of cp.async", "cp.async.wait_group 0;", "", "in flight"),
    ("off-by-one store", "st.global.u32 [%a1], %v", "st.global.u32 [%a1+4], %v", "address"),
    ("read past the end", "setp.ge.u32 %q, %t, 25", "setp.ge.u32 %q, %t, 26", "address"),
    ("unwritten read", "setp.ge.u32 %q, %t, 25", "setp.ge.u32 %q, %t, 24", "unwritten"),
    ("misaligned vector access", "shl.b32 %v, %t, 4;", "shl.b32 %v, %t, 4; add.u32 %v, %v, 4;", "misaligned"),
    ("divergent barrier", "bar.sync 0;", "setp.lt.u32 %q, %t, 32; @%q bra LOW; bar.sync 0; bra BOTH; "
                                         "LOW: bar.sync 0; BOTH: ", "divergent barrier"),
    ("missing tail predicate", "setp.ge.u32 %q, %t, 100;", "setp.ge.u32 %q, %t, 128;", "address"),
    ("wrong stride", "mad.wide.u32 %a1, %t, 4, %p1", "mad.wide.u32 %a1, %t, 8, %p1", "address"),
    # More of the same kinds.
    ("store far below", "st.global.u32 [%a1], %v",
     "sub.u64 %a1, %a1, %p1; sub.u64 %a1, %a1, 34359738368; st.global.u32 [%a1], %v", "address"),
    ("copy that nothing waits for", "cp.async.wait_group 0;\nbar.sync 0;", "bar.sync 0; ret;", "in flight"),
    ("barrier that some never reach", "bar.sync 0;", "setp.lt.u32 %q, %t, 32; @%q bar.sync 1; bar.sync 0;",
     "deadlock"),
    ("two threads, one address", "mad.wide.u32 %a1, %t, 4, %p1",
     "and.b32 %r, %t, 63; mad.wide.u32 %a1, %r, 4, %p1", "race"),
    ("shared memory overrun", "sub.u32 %r, 99, %t; shl.b32 %r, %r, 2;",
     "sub.u32 %r, 227, %t; shl.b32 %r, %r, 2;", "address"),
]
# Three classes need what REVERSE has not: they are planted in the wgmma kernel of test_hopper.
HOPPER = {"wgmma read before wait": "race|in flight",
          "mbarrier phase error": "in flight|mbarrier|race|unwritten",
          "double arrival": "mbarrier|deadlock|missed wait"}
CLASSES = {"dropped barrier", "early read of cp.async", "wgmma read before wait", "off-by-one store",
           "read past the end", "unwritten read", "misaligned vector access", "divergent barrier",
           "mbarrier phase error", "missing tail predicate", "wrong stride", "double arrival"}
SCHEDULES = (None, *range(20))                   # the fixed order, and 20 random ones


def reverse(device, text, seed=None):
    x, out = snippet.buffer(device, np.arange(100, dtype=np.float32)), device.alloc(400)
    device.seed = seed
    try:
        snippet.launch(device, snippet.entry(text, 2), [x, out])
    finally:
        device.seed = None
    return device.arena.read_host(out.ptr, 400).view(np.float32)


def test_the_twelve_classes_are_here():
    assert CLASSES <= {f[0] for f in FAULTS} | set(HOPPER) and len(CLASSES) == 12


def test_correct_kernel_under_all_schedules(ptx80):
    for seed in SCHEDULES:
        assert (reverse(ptx80, REVERSE, seed) == np.arange(100)[::-1]).all()


@pytest.mark.parametrize("name,old,new,kind", FAULTS, ids=[f[0] for f in FAULTS])
def test_planted_fault(ptx80, name, old, new, kind):
    """Found under every schedule. A random one may meet another consequence of the fault first."""
    assert old in REVERSE
    for seed in SCHEDULES:
        with pytest.raises(Finding) as found:
            reverse(ptx80, REVERSE.replace(old, new), seed)
        text = str(found.value)
        assert (found.value.kind == kind
                or (seed is not None
                    and found.value.kind in ("race", "in flight", "address", "unwritten"))), text
        assert re.search(r"^k: .*: block \(\d+,0,0\) thread \(\d+,0,0\).*line \d+ `", text), text


@pytest.mark.parametrize("name", HOPPER)
def test_planted_fault_of_hopper(name):
    device = PtxDevice("sm_90a")
    for seed in SCHEDULES:
        with pytest.raises(Finding) as found:
            test_hopper.gemm(device, 64, 72, 200, seed, test_hopper.FAULTS[name][0])
        assert re.fullmatch(HOPPER[name], found.value.kind), found.value


def test_a_race_names_both_instructions(ptx80):
    with pytest.raises(Finding) as found:
        reverse(ptx80, REVERSE.replace("bar.sync 0;", ""))
    assert ("`ld.shared.u32 %v, [%r]`; the other is line" in str(found.value)
            and "cp.async.cg" in str(found.value))


def test_checks_can_be_switched_off(ptx80):
    ptx80.checks.races = False
    try:
        reverse(ptx80, REVERSE.replace("bar.sync 0;", ""))
    finally:
        ptx80.checks.races = True


def test_race_between_blocks(ptx80):
    """Two blocks write one address, and one block reads what another writes."""
    out = ptx80.alloc(512)
    with pytest.raises(Finding, match="race"):
        snippet.launch(ptx80, snippet.entry("mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0], %g;", 1),
                       [out], blocks=2)


@pytest.mark.parametrize("first, is_race", [("st.shared.u32 [%x], %t;", True), ("", False),
                                            ("st.shared.u32 [%x], %t; bar.sync 0;", False)])
def test_atomics_meet_each_other_only(ptx80, first, is_race):
    """Thread 0 stores and all add: a race where they have not met since."""
    body = f""".shared .align 4 .b8 s[4]; .reg .u32 %x; .reg .pred %q; mov.u32 %x, s; setp.eq.u32 %q, %t, 0;
               {first.replace("st.", "@%q st.")} atom.shared.add.u32 %v, [%x], 1; bar.sync 0;
               mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0], %v;"""
    run = lambda: snippet.launch(ptx80, snippet.entry(".reg .u32 %v; " + body, 1), [ptx80.alloc(512)])
    if not is_race:
        return run()
    with pytest.raises(Finding, match="memory updated here .* was written by"):
        run()


def test_read_only_loads_of_what_the_launch_writes(ptx80):
    body = "mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0], %t; ld.global.nc.u32 %g, [%a0];"
    with pytest.raises(Finding, match="reads with .nc what this launch has written"):
        snippet.launch(ptx80, snippet.entry(body, 1), [ptx80.alloc(512)])


def test_use_after_free(ptx80):
    place = ptx80.alloc(512)
    address, _ = place.ptr, place.free()
    with pytest.raises(Finding, match="address"):
        ptx80.launch(snippet.entry("mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0], %g;", 1), (1, 1, 1),
                     (128, 1, 1), 0, address.to_bytes(8, "little"))

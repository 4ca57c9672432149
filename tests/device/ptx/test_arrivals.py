"""One lane speaks for its warp: what the others have done lies before its arrival, or its release, only where
they met it."""
from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cydnn.device.ptx import Finding, PtxDevice
from cydnn.device.ptx.memory import CLOCK
from cydnn.device.ptx.parts import Parts

import snippet

SCHEDULES = (None, *range(10))
# Warp 0 stores, and one of its lanes says so; warp 1 waits for that, and reads.
TELL = """.shared .align 8 .b8 m[8]; .shared .align 4 .b8 s[256]; .reg .u32 %a, %x, %y, %h, %n; .reg .b64 %st;
.reg .pred %q, %lead, %w; mov.u32 %a, m; mov.u32 %y, s; and.b32 %h, %t, 31; setp.eq.u32 %lead, %h, {lane};
setp.eq.u32 %q, %t, 0; @%q mbarrier.init.shared::cta.b64 [%a], 1; bar.sync 0;
shl.b32 %x, %t, 2; add.u32 %x, %x, %y; setp.ge.u32 %q, %t, 32; @%q bra ASK;
{before} st.shared.u32 [%x], %t; {meet} {say} {behind} bra END;
ASK: {ask}
ld.shared.u32 %g, [%x+-128]; mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0+-128], %g; END: """
WAYS = {"arrival": dict(say="@%lead mbarrier.arrive.shared::cta.b64 %st, [%a];",
                        ask="mbarrier.test_wait.parity.shared::cta.b64 %w, [%a], 0; @!%w bra ASK;"),
        "release": dict(say="@%lead st.release.gpu.global.u32 [%p1], 1;",
                        ask="ld.acquire.gpu.global.u32 %n, [%p1]; setp.ne.u32 %w, %n, 1; @%w bra ASK;")}
HALVES = ".reg .u32 %m; and.b32 %m, %h, 16; shl.b32 %m, 0xffff, %m; bar.warp.sync %m;"
MEET = {"the whole warp": "bar.warp.sync -1;", "twice": "bar.warp.sync -1; bar.warp.sync -1;",
        "halves, and then all": HALVES + "bar.warp.sync -1;"}
APART = {"nobody": "", "halves": HALVES}


def tell(way, meet, seed, lane=0, before="", behind=""):
    device = PtxDevice("sm_90")
    device.seed, out = seed, device.alloc(128)
    flag = snippet.buffer(device, np.zeros(1, np.uint32))
    snippet.launch(device, snippet.entry(TELL.format(**WAYS[way], meet=meet, lane=lane, before=before,
                                                     behind=behind), 2, 64), [out, flag], threads=64)
    return device.arena.read_host(out.ptr, 128).view(np.uint32)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("meet", MEET)
def test_who_met_the_lane_has_told(way, meet):
    for seed in SCHEDULES:
        assert (tell(way, MEET[meet], seed, lane=seed or 0) == np.arange(32)).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("meet", APART)
@pytest.mark.parametrize("more", [dict(before="bar.warp.sync -1;"), dict(behind="bar.warp.sync -1;")],
                         ids=lambda more: [*more][0])
def test_who_did_not_has_not(way, meet, more):
    for seed in SCHEDULES:
        with pytest.raises(Finding) as found:
            tell(way, APART[meet], seed, lane=seed or 0, **more)
        assert found.value.kind == "race"


@pytest.mark.parametrize("way", WAYS)
def test_what_the_lane_itself_has_done_is_told(way):
    lone = TELL.replace("st.shared.u32 [%x], %t;", "@%lead st.shared.u32 [%x], %t;").replace(
        "ld.shared.u32 %g, [%x+-128];", "@%lead ld.shared.u32 %g, [%x+-128];").replace(
        "st.global.u32 [%a0+-128], %g;", "@%lead st.global.u32 [%a0+-128], %g;")
    for seed in SCHEDULES:
        device = PtxDevice("sm_90")
        device.seed, out = seed, device.alloc(128)
        flag = snippet.buffer(device, np.zeros(1, np.uint32))
        code = lone.format(**WAYS[way], meet="", lane=7, before="", behind="")
        snippet.launch(device, snippet.entry(code, 2, 64), [out, flag], threads=64)
        assert device.arena.read_host(out.ptr, 128).view(np.uint32)[7] == 7


def test_steps_behind_the_last_part_are_those_of_the_warp():
    """However many there are: at its hundredth step all of a warp have met."""
    parts = Parts(1)
    parts.meet(0, 62, 1 << 7)
    machine, row = SimpleNamespace(warps_in_group=1), np.zeros(1, int)
    stored = lambda clock: np.array([clock << CLOCK | 7])    # by lane 7; lane 5 reads
    apart = lambda clock, known: parts.apart(machine, stored(clock), np.array([known << CLOCK | 5]), row,
                                             np.array([known]), row).all()
    assert apart(62, 63) and not apart(99, 100)

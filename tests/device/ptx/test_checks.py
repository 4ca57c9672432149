"""Every check can be switched off, and then its fault goes by; the others still look."""
from __future__ import annotations

import pytest

from cydnn.device.ptx import Checks, Finding, PtxDevice
from cydnn.device.ptx.device import MOST_GROUPS

import snippet

SHARED = (".shared .align 16 .b8 s[2048]; .reg .u32 %x, %v; .reg .pred %q; mov.u32 %x, s; "
          "mad.lo.u32 %x, %t, 16, %x; mad.wide.u32 %a0, %t, 16, %p0;")
STORE = "mad.wide.u32 %a1, %t, 4, %p1; st.global.u32 [%a1], %v;"
FAULTS = {                                       # switch -> (kind of finding, kernel)
    "unwritten": ("unwritten", "mad.wide.u32 %a0, %t, 4, %p1; .reg .u32 %v; ld.global.u32 %v, [%a0];"),
    "unwritten_shared": ("unwritten", SHARED + "ld.shared.u32 %v, [%x];" + STORE),
    "races": ("race", SHARED + "st.shared.u32 [%x], %t; xor.b32 %x, %x, 1024; ld.shared.u32 %v, [%x];"
              + STORE),
    "in_flight": ("in flight", SHARED + """cp.async.cg.shared.global [%x], [%a0], 16; cp.async.commit_group;
                  ld.shared.u32 %v, [%x];
                  cp.async.wait_group 0;""" + STORE),
    "barriers": ("divergent barrier", ".reg .pred %q; setp.lt.u32 %q, %t, 32; @%q bra LOW; "
                                      "bar.sync 0; bra BOTH; LOW: bar.sync 0; BOTH: "),
}


@pytest.fixture(scope="module")
def device():
    return PtxDevice("sm_80")


def launch(device, name):
    source, out = device.alloc(2048), device.alloc(512)
    device.memset(source.ptr, 0, 2048)
    snippet.launch(device, snippet.entry(FAULTS[name][1], 2), [source, out])


@pytest.mark.parametrize("name", FAULTS)
def test_a_switch_is_for_its_fault(device, name):
    device.checks = Checks()
    with pytest.raises(Finding) as found:
        launch(device, name)
    assert found.value.kind == FAULTS[name][0]
    others = {other: False for other in FAULTS if other != name}
    device.checks = Checks(**others)
    with pytest.raises(Finding) as found:
        launch(device, name)
    assert found.value.kind == FAULTS[name][0]
    device.checks = Checks(**{**others, name: False})
    launch(device, name)


def test_accesses_are_known_when_group_numbers_start_anew(device):
    """A launch beyond the last number of a group forgets earlier launches, and still finds its own race."""
    device.checks = Checks()
    device._groups = MOST_GROUPS - 1
    with pytest.raises(Finding, match="race"):
        launch(device, "races")
    assert device._groups < 100

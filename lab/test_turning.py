"""Loops of a text are found, and what is wrong with their second turn is, by the problems of turning.py, and
not by those of the contract."""
from __future__ import annotations

import pytest

from cydnn import kernels
from cydnn.bench.trial import target_of
from lab import loop_turns
from support.draw.cases import cases

import snippet
from . import turning
import watched

# kernel, its text in front of a loop's step, what was and what stands there.
PLANTED = [
    ("softmax_bwd_apply_f32", "ld.global.f32 %f151, [%rd67];", "add.s64 %rd67, %rd67, 1024;",
     "add.s64 %rd67, %rd67, 2048;"),
    ("conv_fft_columns_f32", "mov.u32 %r446, %nctaid.x;", "add.s32 %r579, %r579, %r446;",
     "add.s32 %r579, %r579, %r446; add.s32 %r579, %r579, 1;"),
    ("rnn_pack_f32_backward", "st.global.v4.u32 [%rd53],", "add.s32 %r117, %r117, %r4;",
     "add.s32 %r117, %r117, %r4; add.s32 %r117, %r117, 1;"),
]


def changed(text: str, there: str, old: str, new: str) -> str:
    """The text with another ``new`` for the first ``old`` behind a place; blanks are one each."""
    rows = "\n".join(" ".join(row.split()) for row in text.splitlines()) + "\n"
    at = rows.index(old, rows.index(there))
    return rows[:at] + new + rows[at + len(old):]


def finds(device, runs) -> bool:
    try:
        with watched.watching():
            return any(runs)
    except watched.Finding:
        return True


@pytest.mark.parametrize("name, there, old, new", PLANTED, ids=[row[0] for row in PLANTED])
def test_second_turns_are_wrong(name, there, old, new):
    device = watched.PtxDevice(target_of(kernels.get(name)))
    text = kernels.get(name).image_for(device.facts.sm).text().decode()
    device.replaced[name] = changed(text, there, old, new)
    assert not finds(device, (watched.run(case.problem, device, 0, [case.engine], config=case.config).findings
                              for case in cases(name, device.facts)))
    assert finds(device, (turning.run(device, name, more)
                          for more in turning.LINES[kernels.get(name).source]))


LOOPS = """.reg .u32 %r<2>; .reg .b64 %s; .reg .pred %q; .shared .align 8 .b64 bell;
mbarrier.init.shared.b64 [bell], 128; bar.sync 0; mov.u32 %r0, 0;
OUTER: mov.u32 %r1, 0;
INNER: add.u32 %r1, %r1, 1; setp.lt.u32 %q, %r1, 1; @%q bra INNER;
add.u32 %r0, %r0, 1; setp.lt.u32 %q, %r0, 3; @%q bra OUTER;
bra LATER; BACK: bra END; LATER: bra BACK; END: mbarrier.arrive.shared.b64 %s, [bell];
WAIT: mbarrier.test_wait.shared.b64 %q, [bell], %s; @!%q bra WAIT;"""


def test_loops_are_found():
    """One inside of another; not a branch back to what is no loop, nor a loop that waits."""
    code = snippet.entry(LOOPS, 0)
    snippet.launch(watched.PtxDevice("sm_90"), code, [])
    found = {code.instructions[last].text: bool(code.jumped[last]) for _, last, _ in loop_turns.loops(code)}
    assert found == {"@%q bra INNER": False, "@%q bra OUTER": True}

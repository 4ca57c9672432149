"""Fences between strong words of blocks that wait for each other: without one, who reads may see what a word
held before (cydnn/device/ptx/past.py). A recurrent network's exchange needs them once its areas come in turn
again, so its kernels run here for more steps than there are areas.

A plain run takes some kernels of networks; ``CYDNN_ALL=1`` takes every one.
"""
from __future__ import annotations

import re
import struct
from dataclasses import replace

import numpy as np
import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.device.ptx import Finding, PtxDevice
from cydnn.ops import Problem
from support.draw import variants
from lab import sampling
from support.check.trial import Trial

import snippet
import watched

# Of two blocks the first stores to words of p0, and then says so in p2; the second asks there, and reads on.
TELL = """.reg .u32 %x, %now; .reg .pred %q; mad.wide.u32 %a0, %t, 4, %p0; mad.wide.u32 %a1, %t, 4, %p1;
setp.eq.u32 %q, %g, 0; @!%q bra ASK;
{put} [%a0], %t; bar.sync 0; membar.gl; st.relaxed.gpu.global.u32 [%p2], 1; bra END;
ASK: ld.relaxed.gpu.global.u32 %now, [%p2]; setp.eq.u32 %q, %now, 0; @%q bra ASK;
membar.gl ; bar.sync  0; {get} %x, [%a0]; st.global.u32 [%a1], %x; END:"""
STRONG = dict(put="st.relaxed.gpu.global.u32", get="ld.relaxed.gpu.global.u32")
PLAIN = dict(put="st.global.u32", get="ld.global.u32")
FENCES = {"no fence before": ("membar.gl;", ""), "no fence behind": ("membar.gl ;", ""),
          "a fence of the block before": ("membar.gl;", "membar.cta;"),
          "a fence of the block behind": ("membar.gl ;", "fence.acq_rel.cta;")}
OTHERS = ("membar.sys;", "fence.sc.gpu;", "fence.acq_rel.sys;")
SCHEDULES = (None, *range(6))


def tell(text, seed, **words):
    device = PtxDevice("sm_80")
    device.seed, held = seed, np.full(64, 1000, np.uint32)
    data, out, flag = (snippet.buffer(device, v) for v in (held, held, np.zeros(1, np.uint32)))
    device.launch(snippet.entry(text.format(**words), 3, threads=64), (2, 1, 1), (64, 1, 1), 0,
                  struct.pack("<3Q", data.ptr, out.ptr, flag.ptr),
                  attributes=kernels.Attributes(cooperative=True))
    return device.arena.read_host(out.ptr, 256).view(np.uint32)


@pytest.mark.parametrize("words", [STRONG, PLAIN], ids=["strong", "plain"])
@pytest.mark.parametrize("fence", ["membar.gl;", *OTHERS])
def test_behind_fences_the_new_words_are_seen(words, fence):
    for seed in SCHEDULES:
        assert (tell(TELL.replace("membar.gl;", fence), seed, **words) == np.arange(64)).all()


@pytest.mark.parametrize("name", FENCES)
def test_without_one_the_old_words_may_be(name):
    old, new = FENCES[name]
    assert old in TELL
    for seed in SCHEDULES:
        assert (tell(TELL.replace(old, new), seed, **STRONG) != np.arange(64)).any()
        with pytest.raises(Finding, match="race"):
            tell(TELL.replace(old, new), seed, **PLAIN)


def test_once_seen_a_word_stays():
    """Who asks again sees what is there in the end, and never what was before."""
    again = TELL.replace("{get} %x, [%a0];", "ld.relaxed.gpu.global.u32 %now, [%a0]; {get} %x, [%a0];")
    for old, new in FENCES.values():
        for seed in SCHEDULES[:3]:
            assert (tell(again.replace(old, new), seed, **STRONG) == np.arange(64)).all()


# ---- Shipped kernels ----

STEPS, KERNELS, PLANTED = 12, 6, 2               # more steps than areas of the exchange
WHOLE = ("rnn_persist_", "rnn_persist_bwd_", "rnn_wave_")
NETWORKS = [n for n in kernels.names() if n.startswith(WHOLE)]


def problem_of(name) -> Problem:
    """Many steps of one layer, or of two where layers go side by side; units for more than one team, and
    of f32 for more than one step of a warp's sums."""
    axes, op = kernels.get(name).axes, "rnn_bwd_data" if "_bwd_" in name else "rnn_fwd"
    cell, batch = axes["CELL"], {2: 13, 4: 20, 8: 70}[int(axes["NT"])]
    hidden = max(136 if axes["T"] == "f32" else 40, 16 * int(axes["MT"]) + 8 if "_bwd_" in name else 0)
    return Problem.parse(f"{op} t{STEPS}n{batch}i8 hidden={hidden} {'layers=2 ' * ('wave' in name)}"
                         f"cell={'relu' if cell == 'vanilla' else cell} {axes['T']}")


def trials(name, device):
    facts = replace(device.facts, sms=16)
    for case, _ in debug.of_problem(name, problem_of(name), facts):
        yield Trial(case, device, facts=facts)


@pytest.mark.parametrize("name", sampling.of(NETWORKS, KERNELS, "fences"))
def test_many_steps(name):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    with watched.watching():
        for trial in trials(name, device):
            assert trial() == []
            break


@pytest.mark.parametrize("name", sampling.of([n for n in NETWORKS if "wave" not in n], PLANTED, "no fences"))
def test_a_dropped_fence_shows(name):
    device, text = watched.PtxDevice(debug.target_of(kernels.get(name))), variants.text_of(name)
    dropped = re.sub(r"membar\.gl;", "", text)
    assert dropped != text
    with watched.watching():
        trial = next(trials(name, device))
        device.replaced[name] = dropped
        assert trial()

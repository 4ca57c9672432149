"""Faults of blocks that wait for each other: what one stored and another reads must lie before,
by barriers of the blocks and a release and an acquire of one word (kernels_src/lib/grid.cuh)."""
from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.device.ptx import Finding, PtxDevice
from lab.planted import plant
from support.check.trial import Trial

import snippet
import watched

# Four blocks of 64 threads hand their words to the next one. The counter is p2.
HAND = """.reg .u32 %x, %old, %now; .reg .pred %q, %lead; setp.eq.u32 %lead, %t, 0;
mad.lo.u32 %x, %g, 64, %t; mad.wide.u32 %a0, %x, 4, %p0; st.global.u32 [%a0], %x;
bar.sync 0;
@!%lead bra MET;
atom.release.gpu.global.add.u32 %old, [%p2], 1;
ASK: ld.acquire.gpu.global.u32 %now, [%p2]; setp.lt.u32 %q, %now, 4; @%q bra ASK;
MET: bar.sync  0;
add.u32 %x, %x, 64; and.b32 %x, %x, 255; mad.wide.u32 %a0, %x, 4, %p0; ld.global.u32 %x, [%a0];
mad.lo.u32 %old, %g, 64, %t; mad.wide.u32 %a1, %old, 4, %p1; st.global.u32 [%a1], %x;"""
FAULTS = {"no barrier before": ("bar.sync 0;", ""), "no barrier behind": ("bar.sync  0;", ""),
          "no release": ("atom.release.gpu", "atom.relaxed.gpu"), "no acquire": ("acquire", "relaxed"),
          "a release in the block": ("atom.release.gpu", "atom.release.cta"),
          "an acquire in the block": ("ld.acquire.gpu", "ld.acquire.cta")}


def hand(device, text, seed=None):
    device.seed = seed
    words, out = device.alloc(1024), device.alloc(1024)
    counter = snippet.buffer(device, np.zeros(1, np.uint32))
    device.launch(snippet.entry(text, 3, threads=64), (4, 1, 1), (64, 1, 1), 0,
                  struct.pack("<3Q", words.ptr, out.ptr, counter.ptr),
                  attributes=kernels.Attributes(cooperative=True))
    return device.arena.read_host(out.ptr, 1024).view(np.uint32)


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_correct(seed):
    assert (hand(PtxDevice("sm_80"), HAND, seed) == np.roll(np.arange(256), -64)).all()


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault(name):
    old, new = FAULTS[name]
    assert old in HAND
    for seed in (None, *range(8)):
        with pytest.raises(Finding, match="race|unwritten"):
            hand(PtxDevice("sm_80"), HAND.replace(old, new), seed)


# Thread 0 of every block counts in the driver's word; nobody waits.
COUNT = """.reg .u32 %x, %h, %l; .reg .b64 %c, %d; .reg .pred %q, %lead; setp.ne.u32 %q, %t, 0; @%q bra END;
mov.u32 %h, %envreg1; mov.u32 %l, %envreg2; cvt.u64.u32 %c, %h; cvt.u64.u32 %d, %l;
bfi.b64 %c, %c, %d, 32, 32;
setp.eq.u32 %lead, %g, 0; selp.b32 %x, {first}, 1, %lead; atom.release.gpu.global.add.u32 %h, [%c+4], %x;
mad.wide.u32 %a0, %g, 4, %p0; shr.u32 %h, %h, 31; st.global.u32 [%a0], %h; END: """


def test_who_counts_counts_for_all():
    """The word is left as it was but for its top bit, with which the next launch finds it."""
    device = PtxDevice("sm_80")
    run = lambda first: device.launch(
        snippet.entry(COUNT.format(first=first), 1, threads=64), (4, 1, 1), (64, 1, 1), 0,
        struct.pack("<Q", out.ptr), attributes=kernels.Attributes(cooperative=True))
    out, whole = device.alloc(16), -2 ** 31 + 1 - 4
    for turn in range(3):
        run(whole)
        bits = device.arena.read_host(out.ptr, 16).view(np.uint32)
        assert (bits == turn % 2).all()
        for wrong in (1, whole + 1, whole - 1):
            with pytest.raises(Finding, match="^k: counter: leaves .* in the word in which the blocks"):
                run(wrong)


# name: its barriers of a block. Thread 0 alone stores what other blocks read, in softmax: it needs no barrier
# before it tells them.
SHIPPED = {"softmax_fwd_grid_f16": (0, 2), "softmax_bwd_grid_f32": (0, 2),
           "batch_norm_grid_f32_8": range(5), "batch_norm_bwd_grid_f32_4": range(5)}
ORDERS = [("atom.release.gpu", "atom.relaxed.gpu"), ("ld.acquire.gpu", "ld.relaxed.gpu"),
          ("ld.acquire.gpu", "ld.acquire.cta")]


@pytest.mark.share(2)
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_kernels(name):
    """Their barriers, and the order of the word that they ask for."""
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    text = kernels.get(name).image_for(device.facts.sm).text().decode()
    trial = Trial(debug.cases(name, device.facts)[0], device, facts=replace(device.facts, sms=4))
    with watched.watching():
        assert trial() == []
        for number in SHIPPED[name]:
            plant(device, name, "bar.sync", number)
            with pytest.raises(Finding, match="race|unwritten"):
                trial()
        for old, new in ORDERS:
            device.replaced[name] = text.replace(old, new)
            assert device.replaced[name] != text
            with pytest.raises(Finding, match="race"):
                trial()

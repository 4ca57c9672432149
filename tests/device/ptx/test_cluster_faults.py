"""Faults of thread block clusters: barrier.cluster out of turn, and shared memory that is read
by another block after its owner has left."""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn.device.ptx import Finding, PtxDevice

import snippet

# Two blocks of 64 threads swap 64 words: each stores its own, and reads the other's from
# the other's shared memory.
SWAP = """.shared .align 4 .b8 s[256]; .reg .u32 %x, %v, %other; .reg .pred %q;
mov.u32 %x, s; shl.b32 %v, %t, 2; add.u32 %x, %x, %v;
mad.lo.u32 %v, %g, 64, %t; mad.wide.u32 %a0, %v, 4, %p0; mad.wide.u32 %a1, %v, 4, %p1;
ld.global.u32 %v, [%a0]; st.shared.u32 [%x], %v;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mov.u32 %other, %cluster_ctarank; xor.b32 %other, %other, 1; mapa.shared::cluster.u32 %x, %x, %other;
ld.shared::cluster.u32 %v, [%x]; st.global.u32 [%a1], %v;
barrier.cluster.arrive.aligned ;
barrier.cluster.wait.aligned ;"""
FAULTS = {                                                   # what is replaced, by what, the finding
    "no arrival": ("barrier.cluster.arrive.aligned;", "", "cluster barrier|race"),
    "no wait": ("barrier.cluster.wait.aligned;", "", "cluster barrier|race|unwritten"),
    "no arrival before the end": ("barrier.cluster.arrive.aligned ;", "", "cluster barrier|race|address"),
    "no wait before the end": ("barrier.cluster.wait.aligned ;", "", "race|address"),
    "nothing before the end": ("barrier.cluster.arrive.aligned ;\nbarrier.cluster.wait.aligned ;", "",
                               "race|address"),
    "double arrival": ("barrier.cluster.arrive.aligned;",
                       "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;", "cluster barrier"),
    "a block's barrier in place of the cluster's": (
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", "bar.sync 0;", "race|unwritten"),
}


def swap(device, text, seed):
    x, out = snippet.buffer(device, np.arange(128, dtype=np.uint32)), device.alloc(512)
    device.seed = seed
    code = snippet.kernel(re.sub(r"\.maxntid", ".explicitcluster .reqnctapercluster 2, 1, 1 .maxntid",
                                 snippet.source(text, 2, threads=64)))
    snippet.launch(device, code, [x, out], blocks=2, threads=64)
    return device.arena.read_host(out.ptr, 512).view(np.uint32)


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_correct(seed):
    assert (swap(PtxDevice("sm_90"), SWAP, seed) == np.roll(np.arange(128), 64)).all()


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault(name):
    old, new, kinds = FAULTS[name]
    assert old in SWAP
    for seed in (None, *range(20)):
        with pytest.raises(Finding) as found:
            swap(PtxDevice("sm_90"), SWAP.replace(old, new), seed)
        assert re.fullmatch(kinds, found.value.kind), found.value

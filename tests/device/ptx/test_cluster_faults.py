"""Faults of thread block clusters: barrier.cluster out of turn, and shared memory that is read
by another block after its owner has left."""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn import kernels
from cydnn.bench import trial
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
    "an arrival that tells nothing": ("barrier.cluster.arrive.aligned;",
                                      "barrier.cluster.arrive.relaxed.aligned;", "race"),
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


# ---- st.async: two blocks of 64 threads swap 64 words, which an mbarrier of the receiver counts ----

SEND = """.shared .align 16 .b8 s[256]; .shared .align 8 .b8 m[8];
.reg .u32 %x, %v, %other, %there, %bar, %one; .reg .u64 %st;
.reg .pred %q, %lead; setp.eq.u32 %lead, %t, 0; mov.u32 %one, 1; mov.u32 %bar, m;
@%lead mbarrier.init.shared::cta.b64 [%bar], %one;
@%lead fence.mbarrier_init.release.cluster;
@%lead mbarrier.arrive.expect_tx.shared::cta.b64 %st, [%bar], 256;
mov.u32 %other, %cluster_ctarank; xor.b32 %other, %other, 1;
mov.u32 %x, s; shl.b32 %v, %t, 2; add.u32 %x, %x, %v; mapa.shared::cluster.u32 %there, %x, %other;
mapa.shared::cluster.u32 %bar, %bar, %other;
mad.lo.u32 %v, %g, 64, %t; mad.wide.u32 %a0, %v, 4, %p0; mad.wide.u32 %a1, %v, 4, %p1;
ld.global.u32 %v, [%a0];
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%there], %v, [%bar];
mov.u32 %bar, m;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar], 0; @!%q bra WAIT;
ld.shared.u32 %v, [%x]; st.global.u32 [%a1], %v;"""
MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar], 0; @!%q bra WAIT;\n"
SENT = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%there], %v, [%bar];\n"
FENCE = "@%lead fence.mbarrier_init.release.cluster;"
SEND_FAULTS = {
    "its initialisation is not fenced": (FENCE, "", "mbarrier"),
    "it is fenced by another thread": (FENCE, FENCE.replace("@", "@!"), "mbarrier"),
    "it is fenced for its block": (FENCE, "fence.acq_rel.cta;", "mbarrier"),
    "no wait": (WAIT, "", "unwritten|in flight|race|address"),
    "too few bytes are expected": ("[%bar], 256", "[%bar], 252", "unwritten|in flight|race|address|deadlock"),
    "too many bytes are expected": ("[%bar], 256", "[%bar], 260", "deadlock"),
    "no barrier that is known to be there": (MEET, "", "mbarrier|race|address"),
    "the receiver uses the word meanwhile": (SENT, SENT + "st.shared.u32 [%x], %t;", "race|in flight"),
    "the receiver has read it, and nobody was told": (
        MEET, "st.shared.u32 [%x], %t;" + MEET + "ld.shared.u32 %one, [%x];", "race|in flight"),
    "a barrier of this block": ("mapa.shared::cluster.u32 %bar, %bar, %other;",
                                "mapa.shared::cluster.u32 %bar, %bar, %cluster_ctarank;", "mbarrier"),
    "an address that is not aligned": ("[%there]", "[%there+2]", "misaligned"),
    "beyond the memory": ("[%there]", "[%there+65536]", "address"),
}


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_sent_words_come(seed):
    assert (swap(PtxDevice("sm_90"), SEND, seed) == np.roll(np.arange(128), 64)).all()


@pytest.mark.parametrize("vector, type_, lanes", [("v2.", "b32", 32), ("v4.", "f32", 16), ("", "b64", 32),
                                                  ("v2.", "u64", 16)])
def test_vectors_are_sent(vector, type_, lanes):
    """Some lanes gather 8 or 16 bytes of the words that all have stored."""
    size, count = 256 // lanes, int(vector[1:2] or 1)
    registers = [f"%w{i}" for i in range(count)]
    value = f"{{{', '.join(registers)}}}" if count > 1 else registers[0]
    gather = f"""st.shared.u32 [%x+256], %v; bar.sync 0; shl.b32 %one, %t, {size.bit_length() - 1};
    mov.u32 %x, s; add.u32 %x, %x, %one; mapa.shared::cluster.u32 %there, %x, %other;
    setp.lt.u32 %q, %t, {lanes}; @%q ld.shared.{vector}{type_} {value}, [%x+256];
    @%q st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{vector}{type_} [%there], {value}, [%bar];
    shl.b32 %one, %t, 2; mov.u32 %x, s; add.u32 %x, %x, %one;
    """
    text = SEND.replace("s[256]", "s[512]").replace(
        SENT, f".reg .{type_} {', '.join(registers)};" + gather)
    for seed in (None, 1, 2):
        assert (swap(PtxDevice("sm_90"), text, seed) == np.roll(np.arange(128), 64)).all()


@pytest.mark.parametrize("other", ["fence.acq_rel.cluster;", "fence.sc.gpu;", "membar.gl;",
                                   "fence.proxy.async;"])
def test_other_fences_do_as_well(other):
    device = PtxDevice("sm_90")
    assert (swap(device, SEND.replace(FENCE, other), None) == np.roll(np.arange(128), 64)).all()


@pytest.mark.parametrize("name, kind", [("rnn_cluster_f16_vanilla_1", "mbarrier"),
                                        ("conv_dgrad_wgmma_bf16_128x128", "proxy")])
def test_shipped_kernels_fence_their_mbarriers(name, kind):
    text = kernels.get(name).image_for(90).text().decode()
    report = trial.run(name, "sm_90", lines=kernels.get(name).problems[:1],
                       text=text.replace("fence.mbarrier_init.release.cluster;", ""))
    assert report.trials[0].finding["kind"] == kind


@pytest.mark.parametrize("seed", [None, *range(20)])
@pytest.mark.parametrize("is_late", [False, True])
def test_who_waits_knows_what_was_before_the_send(seed, is_late):
    """A second word goes to a place that the receiver read before its first send, or just behind that. Both
    warps have sent their first before one goes on, or its second would be counted for the other's first."""
    read, again = "ld.shared.u32 %v, [%x+256];\n", SENT.replace("[%there]", "[%there+256]")
    text = SEND.replace("s[256]", "s[512]").replace(MEET, "st.shared.u32 [%x+256], %v;" + MEET).replace(
        SENT, SENT + read if is_late else read + SENT).replace(
        WAIT, "bar.sync 0;" + WAIT + "@%lead mbarrier.arrive.expect_tx.shared::cta.b64 %st, [%bar], 256;"
        "mapa.shared::cluster.u32 %bar, %bar, %other;" + again + "mov.u32 %bar, m;"
        + WAIT.replace("WAIT", "LAST").replace("0;", "1;"))
    if is_late:
        with pytest.raises(Finding, match="race"):
            swap(PtxDevice("sm_90"), text, seed)
    else:
        assert (swap(PtxDevice("sm_90"), text, seed) == np.roll(np.arange(128), 64)).all()


@pytest.mark.parametrize("name", SEND_FAULTS)
def test_planted_fault_of_what_is_sent(name):
    old, new, kinds = SEND_FAULTS[name]
    assert old in SEND
    for seed in (None, *range(20)):
        with pytest.raises(Finding) as found:
            swap(PtxDevice("sm_90"), SEND.replace(old, new), seed)
        assert re.fullmatch(kinds, found.value.kind), found.value

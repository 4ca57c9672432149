"""Faults of threads that meet: counts of barriers, warps that come torn, member masks, halves of a warp,
plain stores among atomics. Each is found under every schedule, and its correct neighbour under none."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn.device.ptx import Finding, PtxDevice

import snippet

SCHEDULES = (None, *range(20))
# Each thread stores its number, meets others, and reads the number of thread t ^ {partner}.
SWAP = """.shared .align 4 .b8 s[512]; .reg .u32 %x, %y, %h; .reg .pred %q; shl.b32 %x, %t, 2; mov.u32 %y, s;
add.u32 %x, %x, %y; st.shared.u32 [%x], %t; {meet}
xor.b32 %h, %t, {partner}; shl.b32 %h, %h, 2; add.u32 %h, %h, %y; ld.shared.u32 %g, [%h];
mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0], %g;"""
HALF = "and.b32 %h, %t, 16; mov.u32 %m, 0xffff; shl.b32 %m, %m, %h;"         # %m names the half of the warp
MEET = {                                                     # name: (partner, how they meet)
    "count of the block": (64, "bar.sync 0, 128;"),
    "two barriers, two warps each": (32, "shr.u32 %h, %t, 6; add.u32 %h, %h, 1; bar.sync %h, 64;"),
    "one barrier after another": (64, "setp.lt.u32 %q, %t, 64; @%q bar.sync 1, 64; bar.sync 0, 128; "
                                      "@!%q bar.sync 1, 64;"),
    "the whole warp": (16, "bar.warp.sync -1;"),
    "the half of a warp": (8, ".reg .u32 %m;" + HALF + "bar.warp.sync %m;"),
    "one half after the other": (8, ".reg .u32 %m;" + HALF + "setp.eq.u32 %q, %h, 0; "
                                 "@%q bar.warp.sync %m; @!%q bar.warp.sync %m;"),
    "halves, and then all": (16, ".reg .u32 %m;" + HALF + "bar.warp.sync %m; bar.warp.sync -1;"),
    "a chain of parts": (1, ".reg .u32 %m, %n; and.b32 %h, %t, 31; setp.ne.u32 %q, %h, 2; "
                            "@%q bar.warp.sync 0xfffffffb; setp.ne.u32 %q, %h, 3; "
                            "@%q bar.warp.sync 0xfffffff7; bar.warp.sync 0xffffffff;"),
}
APART = {                                                    # name: (partner, how they meet, the finding)
    "count below the block": (64, "bar.sync 0, 64;", "divergent barrier"),
    "count of three warps": (64, "bar.sync 0, 96;", "divergent barrier"),
    "count beyond the block": (64, "bar.sync 0, 160;", "deadlock"),
    "count of no warps": (64, "bar.sync 0, 48;", "divergent barrier"),
    "two counts": (64, "setp.lt.u32 %q, %t, 64; @%q bra LOW; bar.sync 0, 96; bra ON; LOW: bar.sync 0; ON: ",
                   "divergent barrier"),
    "two barriers in place of one": (64, "shr.u32 %h, %t, 6; add.u32 %h, %h, 1; bar.sync %h, 64;",
                                     "race|unwritten"),
    "arrivals that are too few": (64, "setp.lt.u32 %q, %t, 64; @%q bar.arrive 1, 64; @!%q bar.sync 1, 64;",
                                  "race|unwritten|divergent barrier"),
    "the half of a warp": (16, ".reg .u32 %m;" + HALF + "bar.warp.sync %m;", "race|unwritten"),
    "one half after the other": (16, ".reg .u32 %m;" + HALF + "setp.eq.u32 %q, %h, 0; "
                                 "@%q bar.warp.sync %m; @!%q bar.warp.sync %m;", "race|unwritten"),
    "half of the chain": (1, "and.b32 %h, %t, 31; setp.ne.u32 %q, %h, 2; @%q bar.warp.sync 0xfffffffb; ",
                          "race|unwritten"),
}


def swap(device, partner, meet, seed):
    out, device.seed = device.alloc(512), seed
    body = SWAP.format(partner=partner, meet=meet)
    snippet.launch(device, snippet.entry(body, 1), [out])
    return device.arena.read_host(out.ptr, 512).view(np.uint32)


def found_in_all(kinds, run):
    for seed in SCHEDULES:
        with pytest.raises(Finding) as found:
            run(seed)
        assert found.value.kind in kinds.split("|"), f"schedule {seed}: {found.value}"


@pytest.fixture
def device():
    return PtxDevice("sm_80")


@pytest.mark.parametrize("name", MEET)
def test_who_has_met_may_read(device, name):
    partner, meet = MEET[name]
    for seed in SCHEDULES:
        assert (swap(device, partner, meet, seed) == np.arange(128) ^ partner).all()


@pytest.mark.parametrize("name", APART)
def test_who_has_not_met_may_not(device, name):
    partner, meet, kinds = APART[name]
    found_in_all(kinds, lambda seed: swap(device, partner, meet, seed))


# ---- A part of a warp ----

LEAVE = ".reg .pred %q; setp.ge.u32 %q, %t, {first}; @%q ret; {barrier}"
WARPS = {"bar.sync 0;", "bar.sync 0, 128;", "bar.arrive 1, 128;", "barrier.sync.aligned 0;",
         ".reg .u32 %n; bar.red.popc.u32 %n, 0, %q;"}


def leave(device, first, barrier, seed, threads=128):
    device.seed = seed
    body = LEAVE.format(first=first, barrier=barrier)
    snippet.launch(device, snippet.entry(body, 1, threads), [device.alloc(512)], threads=threads)


@pytest.mark.parametrize("barrier", sorted(WARPS - {"bar.sync 0, 128;", "bar.arrive 1, 128;"}))
def test_an_aligned_barrier_wants_warps_that_are_whole(device, barrier):
    found_in_all("divergent barrier", lambda seed: leave(device, 40, barrier, seed))
    for seed in SCHEDULES:
        leave(device, 64, barrier, seed)                     # whole warps may leave
        leave(device, 40, barrier, seed, threads=40)         # and a block may end within a warp


def test_a_part_counts_for_no_warp(device):
    found_in_all("divergent barrier|deadlock", lambda seed: leave(device, 40, "bar.sync 0, 64;", seed))
    for seed in SCHEDULES:
        leave(device, 40, "barrier.sync 0;", seed)           # the form that threads execute one by one
        leave(device, 64, "bar.sync 0, 64;", seed)
        leave(device, 128, "bar.arrive 1, 128;", seed)       # who has arrived may leave


# ---- Phases of an mbarrier ----

# Warp 1 ends three phases; each time it may go on when warp 0 has waited for the one before, and said so.
PHASES = """.shared .align 8 .b8 m[8]; .shared .align 8 .b8 go[8];
.reg .u32 %a, %b, %one; .reg .pred %q, %lead, %w; mov.u32 %a, m; mov.u32 %b, go; mov.u32 %one, 1;
setp.eq.u32 %lead, %t, 0; setp.lt.u32 %w, %t, 32;
@%lead mbarrier.init.shared::cta.b64 [%a], %one; @%lead mbarrier.init.shared::cta.b64 [%b], %one; bar.sync 0;
@%w bra FIRST; setp.ne.u32 %lead, %t, 32; @%lead bra DONE; .reg .b64 %s;
mbarrier.arrive.shared::cta.b64 %s, [%a]; {first}
mbarrier.arrive.shared::cta.b64 %s, [%a]; {second}
mbarrier.arrive.shared::cta.b64 %s, [%a]; bra DONE; FIRST: {waits} DONE: """
WAIT = "W{n}: mbarrier.try_wait.parity.shared::cta.b64 %q, [%{of}], {parity}; @!%q bra W{n};"
SAYS = "@%lead mbarrier.arrive.shared::cta.b64 %st, [%b]; "
GO = [WAIT.format(n=n, of="b", parity=n) for n in (0, 1)]
SEEN = [WAIT.format(n=2 + n, of="a", parity=n % 2) for n in (0, 1, 2)]


def phases(device, first, second, waits, seed):
    device.seed = seed
    body = ".reg .b64 %st; " + PHASES.format(first=first, second=second, waits=waits)
    snippet.launch(device, snippet.entry(body, 1, 64), [device.alloc(4)], threads=64)


def test_each_phase_is_waited_for():
    device = PtxDevice("sm_90")
    for seed in SCHEDULES:
        phases(device, *GO, SEEN[0] + SAYS + SEEN[1] + SAYS + SEEN[2], seed)
        phases(device, *GO, SEEN[0] + SAYS + SEEN[1] + SAYS, seed)       # of the last nobody need know
    found_in_all("missed wait", lambda seed: phases(device, "", "", SEEN[2], seed))


# ---- Member masks ----

MEMBERS = ("shfl.sync.idx.b32 %g, %t, 0, 31, {};", "vote.sync.any.pred %q, %o, {};",
           "vote.sync.ballot.b32 %g, %o, {};", "match.any.sync.b32 %g, %t, {};", "bar.warp.sync {};",
           "redux.sync.add.u32 %g, %t, {};")


@pytest.mark.parametrize("text", MEMBERS)
@pytest.mark.parametrize("mask", ["0xffff", "0xfffffffe", "%n"])
def test_a_member_mask_names_the_lane(device, text, mask):
    def run(mask, value, seed):
        device.seed = seed
        body = (f".reg .pred %q, %o; .reg .u32 %n; mov.u32 %n, {value}; setp.eq.u32 %o, %t, %t; "
                + text.format(mask))
        snippet.launch(device, snippet.entry(body, 1), [device.alloc(4)])
    found_in_all("members", lambda seed: run(mask, "0x7fffffff", seed))
    for seed in SCHEDULES:
        run("0xffffffff" if mask[0] == "0" else mask, "0xffffffff", seed)


# ---- Atomics among plain stores ----

COUNT = """.shared .align 4 .b8 s[4]; .reg .u32 %x, %n; .reg .pred %q; mov.u32 %x, {at};
setp.eq.u32 %q, %t, {owner}; @%q st.{space}.u32 [{place}], 5; {meet}
atom.{space}.add.u32 %n, [{place}], 1; {behind}"""
PLACES = {"shared": dict(space="shared", place="s", at=0, behind=""),
          "global": dict(space="global", place="%p0", at=0, behind="")}


def count(device, space, owner, meet, seed, behind=""):
    device.seed, place = seed, device.alloc(4)
    device.memset(place.ptr, 0, 4)
    text = COUNT.format(**{**PLACES[space], "behind": behind}, owner=owner, meet=meet)
    snippet.launch(device, snippet.entry(text, 1), [place])
    return device.arena.read_host(place.ptr, 4).view(np.uint32)[0]


@pytest.mark.parametrize("space", PLACES)
@pytest.mark.parametrize("owner", [0, 5, 70, 127])
@pytest.mark.parametrize("meet", ["", "bar.warp.sync -1;"])
def test_a_plain_store_and_atomics_need_a_barrier(device, space, owner, meet):
    found_in_all("race", lambda seed: count(device, space, owner, meet, seed))
    for seed in SCHEDULES:
        got = count(device, space, owner, "bar.sync 0;", seed)
        assert space == "shared" or got == 5 + 128


@pytest.mark.parametrize("behind", ["ld.global.u32 %n, [%p0];", "@%q st.global.u32 [%p0], 7;"])
def test_a_plain_access_behind_atomics_needs_a_barrier(device, behind):
    found_in_all("race", lambda seed: count(device, "global", 0, "bar.sync 0;", seed, behind))
    for seed in SCHEDULES:
        count(device, "global", 0, "bar.sync 0;", seed, "bar.sync 0; " + behind)


@pytest.mark.parametrize("count", [0, -1, 1 << 20])
def test_counts_of_a_phase(device, count):
    """PTX ISA, mbarrier.init: 1 to 2^20 - 1."""
    body = """.shared .align 8 .b8 m[8]; .reg .u32 %a, %n; .reg .pred %lead; mov.u32 %a, m; mov.u32 %n, {};
setp.eq.u32 %lead, %t, 0; @%lead mbarrier.init.shared::cta.b64 [%a], %n;"""
    start = lambda n: snippet.launch(device, snippet.entry(body.format(n), 1), [device.alloc(4)])
    start((1 << 20) - 1)
    with pytest.raises(Finding, match=rf"mbarrier: .* with a count of {count % 2 ** 32}; it must be 1 to"):
        start(count)

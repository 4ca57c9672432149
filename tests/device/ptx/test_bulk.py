"""Bulk and tensor copies out of shared memory: values, groups, what may not be touched meanwhile, and
the fence between ordinary stores and the async proxy."""
from __future__ import annotations

import struct

import numpy as np
import pytest

from cydnn.device.ptx import Finding, DecodedMap

import snippet

# 128 threads store 4 words of x each; thread 0 sends the 2048 bytes to y, or a box of them.
HEAD = """.shared .align 128 .b8 s[2048]; .reg .b32 %s, %x, %v; .reg .b64 %z; .reg .pred %lead;
.reg .b32 %w<4>; mov.u32 %s, s; shl.b32 %x, %t, 4; add.u32 %x, %x, %s;
mad.wide.u32 %z, %t, 16, %p0; setp.eq.u32 %lead, %t, 0;
ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%z]; st.shared.v4.b32 [%x], {%w0, %w1, %w2, %w3};
fence.proxy.async.shared::cta;
bar.sync 0;
"""
SEND = """@!%lead bra OUT;
cp.async.bulk.global.shared::cta.bulk_group [%p1], [%s], 2048;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
OUT: """
ALL = HEAD + SEND
X = np.arange(1, 513, dtype=np.uint32)


def run(device, body, maps=None, seed=None):
    places = [snippet.buffer(device, X), snippet.buffer(device, np.zeros(512, np.uint32))]
    words, tensor_maps = struct.pack("<2Q", *(p.ptr for p in places)), {}
    if maps is not None:
        tensor_maps = {places[1].ptr: maps._replace(ptr=places[1].ptr)}
    device.seed = seed
    try:
        device.launch(snippet.entry(body, 2), (1, 1, 1), (128, 1, 1), 0, words, None, 0, tensor_maps)
    finally:
        device.seed = None
    return device.copy_out(places[1].ptr, np.empty(512, np.uint32))


@pytest.mark.parametrize("seed", [None, *range(10)])
def test_a_bulk_copy_leaves_shared_memory(ptx90, seed):
    assert (run(ptx90, ALL, seed=seed) == X).all()


def box(at, rank=2):
    places = ", ".join(f"%c{i}" for i in range(rank))
    sets = "".join(f"mov.b32 %c{i}, {v}; " for i, v in enumerate(at))
    return HEAD + f".reg .b32 %c<{rank}>; {sets}" + SEND.replace(
        "cp.async.bulk.global.shared::cta.bulk_group [%p1], [%s], 2048;",
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%p1, {{{places}}}], [%s];")


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("column, row", [(0, 0), (4, 1), (-4, -2), (12, 17)])
def test_what_lies_outside_is_dropped(ptx90, column, row, swizzle):
    """Boxes of 16 rows of 8 to 32 words into rows of 20, 24 words apart; neighbours keep what they have."""
    across = swizzle // 4 or 16
    map_ = DecodedMap(0, 4, (20, 20), (96,), (across, 16), swizzle)
    got = run(ptx90, box((column, row)), map_)
    want = np.zeros(512, np.uint32)
    for r in range(16):
        for c in range(across):
            place = 4 * (r * across + c)
            source = place ^ ((place >> 7) & (swizzle // 16 - 1)) << 4 if swizzle else place
            if 0 <= r + row < 20 and 0 <= c + column < 20:
                want[24 * (r + row) + c + column] = X[source // 4]
    assert (got == want).all()


def test_coordinates_are_as_many_as_dims(ptx90):
    with pytest.raises(Finding, match="names 3 coordinates of a tensor map of 2 dims"):
        run(ptx90, box((0, 0, 0), 3), DecodedMap(0, 4, (20, 20), (96,), (16, 16)))


def test_a_swizzled_copy_begins_at_whole_16_bytes(ptx90):
    map_ = DecodedMap(0, 4, (20, 20), (96,), (32, 16), 128)
    with pytest.raises(Finding, match="begins at element 3 of a row; a swizzled tensor copy needs whole 16"):
        run(ptx90, box((3, 0)), map_)
    plain = DecodedMap(0, 4, (20, 20), (96,), (16, 16))
    assert run(ptx90, box((3, 0)), plain)[3] == X[0]


LATE = "cp.async.bulk.wait_group.read 0;\n"
FAULTS = {                                       # what is replaced, by what, the finding
    "nothing waited for the read": (LATE, "", "in flight"),
    "waits for all but one group": (LATE, "cp.async.bulk.wait_group.read 1;", "in flight"),
    "waits for what was not committed": ("cp.async.bulk.commit_group;\n", "", "in flight"),
    "no fence": ("fence.proxy.async.shared::cta;\n", "", "proxy"),
    "a fence of global memory": ("async.shared::cta", "async.global", "proxy"),
    "the fence before the store": ("fence.proxy.async.shared::cta;\n", "", "proxy"),
    "the fence behind the barrier, by another thread": (
        "fence.proxy.async.shared::cta;\nbar.sync 0;", "bar.sync 0; @%lead fence.proxy.async.shared::cta;",
        "proxy"),
    "no barrier": ("bar.sync 0;\n", "", "race|proxy|unwritten"),
    "the source changes before it was read": (LATE, "st.shared.b32 [%s], %t;" + LATE, "in flight"),
    "another thread changes the source": (
        "OUT: ", "OUT: bar.sync 0; st.shared.b32 [%x], %t;", "in flight|race"),
    "the destination is read once the source was": (LATE, LATE + "ld.global.b32 %v, [%p1];", "in flight"),
    "the destination is written meanwhile": (LATE, LATE + "st.global.b32 [%p1], %t;", "in flight"),
    "the source was never written": ("st.shared.v4.b32 [%x], {%w0, %w1, %w2, %w3};\n", "", "unwritten"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault(ptx90, name):
    old, new, kinds = FAULTS[name]
    assert old in ALL
    body = ALL.replace(old, new)
    if "before the store" in name:
        body = body.replace("ld.global.v4", "fence.proxy.async; ld.global.v4")
    if "another thread changes" in name:
        body = body.replace(LATE, "")
    for seed in (None, 1, 2, 3):
        with pytest.raises(Finding) as found:
            run(ptx90, body, seed=seed)
        assert found.value.kind in kinds.split("|"), found.value


@pytest.mark.parametrize("old, new", [
    (LATE, LATE + "st.shared.b32 [%s], %t;"),                        # read: the source may change
    (LATE, "cp.async.bulk.wait_group 0; ld.global.b32 %v, [%p1];"),  # written: so may the destination be read
    ("fence.proxy.async.shared::cta;", "fence.proxy.async;"),
])
def test_what_a_wait_and_a_fence_allow(ptx90, old, new):
    assert (run(ptx90, ALL.replace(old, new)) == X).all()


def test_groups_are_waited_for_in_order(ptx90):
    """Two groups: when all but the last have been read, the first half of the source may change, the second
    not."""
    halves = SEND.replace("[%p1], [%s], 2048;\ncp.async.bulk.commit_group;", """[%p1], [%s], 1024;
cp.async.bulk.commit_group; add.u32 %x, %s, 1024; add.u64 %z, %p1, 1024;
cp.async.bulk.global.shared::cta.bulk_group [%z], [%x], 1024; cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 1; st.shared.b32 [%s+512], %t; """)
    assert (run(ptx90, HEAD + halves) == X).all()
    with pytest.raises(Finding, match="in flight: .* writes 4 bytes|in flight: .* still reads"):
        run(ptx90, HEAD + halves.replace("[%s+512], %t", "[%s+1536], %t"))


def test_a_transfer_may_not_land_on_what_is_not_fenced(ptx90):
    """The async proxy writes, too: over what ordinary instructions wrote without a fence since."""
    body = HEAD + """.shared .align 8 .b8 m[8]; .reg .b32 %m; .reg .pred %done; mov.u32 %m, m;
@%lead mbarrier.init.shared::cta.b64 [%m], 1; fence.mbarrier_init.release.cluster;
bar.sync 0; @!%lead bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 2048;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%p0], 2048, [%m];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %done, [%m], 0; @!%done bra WAIT; """
    run(ptx90, body)
    sentence = "proxy: .* writes by the async proxy what thread .* wrote, who has executed no fence"
    with pytest.raises(Finding, match=sentence):
        run(ptx90, body.replace("fence.proxy.async.shared::cta;", ""))


def test_checks_can_be_switched_off(ptx90):
    body = ALL.replace("fence.proxy.async.shared::cta;\n", "").replace(LATE, "")
    ptx90.checks.races = ptx90.checks.in_flight = False
    try:
        assert (run(ptx90, body) == X).all()
    finally:
        ptx90.checks.races = ptx90.checks.in_flight = True

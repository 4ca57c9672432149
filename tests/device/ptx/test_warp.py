"""Shuffles, votes, matches, reductions, barriers, atomics, divergence."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn.device.ptx import Finding

import snippet

LANE = np.arange(128)
STORE = "mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0], %g;"


def results(device, body, blocks=1, threads=128, extra=""):
    place = device.alloc(4 * 128 * blocks)
    snippet.launch(device, snippet.entry(extra + body + STORE, 1, threads), [place], blocks, threads)
    return device.arena.read_host(place.ptr, 512).view(np.uint32).astype(np.int64)[:threads]


@pytest.mark.parametrize("mode,by,clamp,want", [
    ("bfly", 5, 31, lambda l: l ^ 5), ("idx", 7, 31, lambda l: l - l % 32 + 7),
    ("up", 3, 0, lambda l: np.where(l % 32 >= 3, l - 3, l)),
    ("down", 4, 31, lambda l: np.where(l % 32 + 4 < 32, l + 4, l)), ("bfly", 1, 0x1C1F, lambda l: l ^ 1),
    ("idx", 2, 0x181F, lambda l: l - l % 8 + 2),
    ("down", 2, 0x1C1F, lambda l: np.where(l % 4 + 2 < 4, l + 2, l))])
def test_shuffles(ptx80, mode, by, clamp, want):
    got = results(ptx80, f".reg .pred %q; shfl.sync.{mode}.b32 %g|%q, %t, {by}, {clamp}, -1;")
    assert (got == want(LANE)).all()


def test_votes_matches_and_reductions(ptx80):
    odd = ".reg .pred %q, %r; .reg .u32 %m; and.b32 %m, %t, 1; setp.eq.u32 %q, %m, 1; "
    assert (results(ptx80, odd + "vote.sync.ballot.b32 %g, %q, -1;") == 0xAAAAAAAA).all()
    assert (results(ptx80, odd + "vote.sync.any.pred %r, !%q, -1; selp.u32 %g, 1, 0, %r;") == 1).all()
    assert (results(ptx80, odd + "vote.sync.all.pred %r, %q, -1; selp.u32 %g, 1, 0, %r;") == 0).all()
    assert (results(ptx80, odd + "match.any.sync.b32 %g, %m, -1;")
            == np.where(LANE % 2, 0xAAAAAAAA, 0x55555555)).all()
    assert (results(ptx80, odd + "redux.sync.add.u32 %g, %t, -1;")
            == LANE.reshape(4, 32).sum(1).repeat(32)).all()
    assert (results(ptx80, odd + "mov.u32 %g, 7; @%q activemask.b32 %g;")
            == np.where(LANE % 2, 0xAAAAAAAA, 7)).all()


def test_divergence_meets_again(ptx80):
    """A loop whose trip count is the lane, then a shuffle that all must reach."""
    body = """.reg .pred %q; .reg .u32 %i, %s; mov.u32 %i, 0; mov.u32 %s, 0;
    LOOP: setp.ge.u32 %q, %i, %t; @%q bra DONE; add.u32 %s, %s, %i; add.u32 %i, %i, 1; bra LOOP;
    DONE: shfl.sync.idx.b32 %g, %s, 31, 31, -1;"""
    assert (results(ptx80, body) == [n * (n - 1) // 2 for n in (LANE // 32 * 32 + 31)]).all()


@pytest.mark.parametrize("threads", [128, 96, 40])
def test_barriers(ptx80, threads):
    body = f""".shared .align 4 .b8 s[512]; .reg .u32 %x, %y; .reg .pred %q; shl.b32 %x, %t, 2;
    mov.u32 %y, s; add.u32 %x, %x, %y; st.shared.u32 [%x], %t; bar.sync 0; add.u32 %x, %t, 1;
    rem.u32 %x, %x, {threads}; shl.b32 %x, %x, 2; add.u32 %x, %x, %y; ld.shared.u32 %g, [%x];
    setp.lt.u32 %q, %t, 10; bar.red.popc.u32 %x, 0, %q; add.u32 %g, %g, %x;"""
    got = results(ptx80, body, threads=threads)
    assert (got == (np.arange(threads) + 1) % threads + 10).all()


def test_named_barriers_with_counts(ptx80):
    """Two warps produce, two consume, with arrive and sync."""
    body = """.shared .align 4 .b8 s[256]; .reg .u32 %x; .reg .pred %q; setp.ge.u32 %q, %t, 64;
    and.b32 %x, %t, 63; shl.b32 %x, %x, 2; mov.u32 %g, 0; @%q bra TAKE;
    add.u32 %g, %t, 100; st.shared.u32 [%x], %g; bar.arrive 1, 128; bra OUT;
    TAKE: bar.sync 1, 128; ld.shared.u32 %g, [%x]; OUT: """
    assert (results(ptx80, body) == LANE % 64 + 100).all()
    with pytest.raises(Finding, match="race|unwritten"):
        results(ptx80, body.replace("bar.arrive 1, 128;", "").replace("bar.sync 1, 128;", ""))


def test_atomics(ptx80):
    place = ptx80.alloc(4)
    ptx80.memset(place.ptr, 0, 4)
    snippet.launch(ptx80, snippet.entry("atom.global.add.u32 %g, [%p0], %t;", 1), [place], blocks=3)
    assert ptx80.arena.read_host(place.ptr, 4).view(np.uint32)[0] == 3 * LANE.sum()
    got = results(ptx80, ".shared .align 4 .b8 s[4]; .reg .pred %q; setp.eq.u32 %q, %t, 0; "
                         "@%q st.shared.u32 [s], 5; bar.sync 0; atom.shared.add.u32 %g, [s], 1;")
    assert sorted(got) == list(range(5, 133))
    got = results(ptx80, ".shared .align 4 .b8 s[4]; .reg .pred %q; setp.eq.u32 %q, %t, 0; "
                         "@%q st.shared.u32 [s], 5; bar.sync 0; atom.shared.cas.b32 %g, [s], 5, %t;")
    assert (got == 5).sum() == 1


def test_generic_addresses(ptx80):
    body = """.shared .align 4 .b8 s[512]; .local .align 4 .b8 l[4]; .reg .u64 %x, %y; .reg .u32 %v;
    cvta.shared.u64 %x, 0; mad.wide.u32 %x, %t, 4, %x; st.u32 [%x], %t;
    mov.u64 %y, l; cvta.local.u64 %y, %y; st.u32 [%y], 7;
    ld.u32 %v, [%y]; ld.u32 %g, [%x]; add.u32 %g, %g, %v;"""
    assert (results(ptx80, body) == LANE + 7).all()

"""The probes of what the lanes of a warp or a block do together: shuffles, votes, matches,
reductions, barriers that reduce."""
from __future__ import annotations

import numpy as np

from .table import enter, expand
from .values import core, hashed, seed_of

COUNT = 512


def words(seed: int) -> np.ndarray:
    return hashed(seed, COUNT).astype(np.uint32)


def flags(seed: int) -> np.ndarray:
    """Predicates by warps: all, none, one lane, all but one, then any."""
    rows = (hashed(seed, COUNT) & np.uint64(1)).astype(np.uint8).reshape(-1, 32)
    rows[0], rows[1], rows[2], rows[3] = 1, 0, 0, 1
    rows[2, 13], rows[3, 21] = 1, 0
    rows[4:8] = np.repeat([[1], [1], [0], [1]], 32, 1)       # a whole block but one warp
    rows[8:12] = 1
    return rows.reshape(-1)


SEGMENTS = np.array([0x1F, 0x1C1F, 0x181F, 0x101F, 0x1E1F, 0, 0x1800, 0x0F, 0x1C03, 0x1007], np.uint32)
for mode in ("up", "down", "bfly", "idx"):
    name, segment = (
        f"shfl.sync.{mode}.b32",
        SEGMENTS[(hashed(3, COUNT // 32) % np.uint64(len(SEGMENTS))).astype(np.int64)].repeat(32))
    enter(name, f"{name} %d0|%d1, %s0, %s1, %s2, -1;", ("b32", "b32", "b32"), ("b32", "pred"),
          (words(1), (hashed(2, COUNT) % np.uint64(40)).astype(np.uint32), segment))
    enter(f"{name} of half a warp",
          ".reg .pred %q; mov.b32 %d0, 7; and.b32 %x, %lane, 16; setp.eq.u32 %q, %x, 0; "
          f"@%q {name} %d0, %s0, {'3, 0x1c1f' if mode != 'up' else '3, 0x1c00'}, 0xffff;",
          ("b32",), ("b32",), (words(4),))

for mode in ("all", "any", "uni"):
    enter(f"vote.{mode}", f"vote.sync.{mode}.pred %d0, %s0, -1; vote.sync.{mode}.pred %d1, !%s0, -1;",
          ("pred",), ("pred", "pred"), (flags(5),))
enter("vote.ballot", "vote.sync.ballot.b32 %d0, %s0, -1; vote.sync.ballot.b32 %d1, !%s0, -1;",
      ("pred",), ("b32", "b32"), (flags(5),))
enter("vote of some lanes", "mov.b32 %d0, 7; .reg .pred %q; and.b32 %x, %lane, 3; setp.ne.u32 %q, %x, 0; "
      "@%q vote.sync.ballot.b32 %d0, %s0, 0xeeeeeeee;", ("pred",), ("b32",), (flags(6),))
enter("activemask", "mov.b32 %d0, 7; @%s0 bra HERE; bra OUT; HERE: activemask.b32 %d0; "
                    "OUT: bar.warp.sync -1;", ("pred",), ("b32",), (flags(6),))
enter("elect", "elect.sync %d0|%d1, -1;", ("b32",), ("b32", "pred"), (words(6),),
      note="the ISA lets any lane be the leader; here always the same")
for t in ("b32", "b64"):
    few = (hashed(8, COUNT) % np.uint64(3)).reshape(-1, 32)
    few[:4] = few[:4, :1]
    few = (few.reshape(-1) << np.uint64(int(t[1:]) - 2)).astype(f"u{int(t[1:]) // 8}")
    enter(f"match.any.sync.{t}", f"match.any.sync.{t} %d0, %s0, -1;", (t,), ("b32",), (few,))
    enter(f"match.all.sync.{t}", f"match.all.sync.{t} %d0|%d1, %s0, -1;", (t,), ("b32", "pred"), (few,))
for opcode, found in [*expand("redux sync op:add|min|max t:u32|s32"),
                      *expand("redux sync op:and|or|xor t:b32")]:
    edges = core("u32")[(hashed(seed_of(opcode), COUNT) % np.uint64(18)).astype(np.int64) % len(core("u32"))]
    enter(opcode, f"{opcode} %d0, %s0, -1;", (found["t"],), (found["t"],),
          (np.where(np.arange(COUNT) < 256, edges, words(9)),))
    enter(f"{opcode} of some lanes", "mov.b32 %d0, 7; .reg .pred %q; and.b32 %x, %lane, 3; "
                                     f"setp.eq.u32 %q, %x, 1; @%q {opcode} %d0, %s0, 0x22222222;",
          (found["t"],), (found["t"],), (words(10),))
for form in ("bar", "bar.cta", "barrier", "barrier.cta"):
    aligned = ".aligned" if form.startswith("barrier") else ""
    for flag in ("%s0", "!%s0"):
        enter(f"{form} red {flag}",
              f"{form}.red.popc{aligned}.u32 %d0, 1, {flag}; {form}.red.and{aligned}.pred %d1, 2, {flag}; "
              f"{form}.red.or{aligned}.pred %d2, 3, {flag}; {form}.sync{aligned} 0;",
              ("pred",), ("b32", "pred", "pred"), (flags(7),))

"""Faults of stream-K (kernels_src/tile/wgmma_walk.cuh, wgmma_shares.cuh) in shipped kernels: who has which
steps, what is kept for others, what is told and heard, and in which order parts are added. Of the
instructions that only shared tiles run until they are told, and of those that order blocks, every mutant is
found: a drawn share, by ``CYDNN_ALL=1`` all."""
from __future__ import annotations

import re
from functools import lru_cache

import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.device.ptx import Finding
from support.check import hopper
from lab import mutants, mutation, sampling
from support.draw import streamed, variants
from lab.mutants import Mutant

import watched

NAMES = [min(streamed.names(source), key=lambda n: (kernels.get(n).images["sm_90a"].bytes, n))
         for source in streamed.LINES]
FEW = 3                                          # of the mutants of a kernel, beside those that order blocks
ORDERING = r"bar\.sync 3|atom\.release|ld\.acquire"
# What changes nothing. Who multiplies only compares with 0 where a part of a depth begins, which is a
# multiple of 64, and whether a block has told; who turns the bit of the counter is any one block, and of a
# block any one thread, and before that it is never what it was; and what a block orders before it tells at
# its end matters to nobody, as it has kept nothing: nor do barriers of a warpgroup in front of one for both,
# and who waits for boxes there. Where a slice has a number is found once, for who puts it there and who
# gets it.
FLAGS = r"shl\.b32 (%r\d+), %r\d+, 6;|mov\.u16 (%rs\d+), 1;"
BEGINS, FIRST = r"setp\.[lg]t\.s32 %p\d+, (%r\d+), [01];", r"setp\.eq\.s32 %p\d+, (%r\d+), 0;"
WAITS = r"setp\.gt\.s32 %p\d+, %r\d+, -1;"
PLACES = r"and\.b32 \s*%r\d+, %r\d+, 6;"
TELLS = r"setp\.ne\.s32 %p\d+, (%r\d+), 128;"
WARP = r"add\.s32 (%r\d+), %r\d+, -4;"          # of a warpgroup: the number of a warp, modulo 4
AT_END = r"dropped barrier|weaker order|narrower scope"


@lru_cache
def ready(name) -> tuple:
    """(mutation, lines that only shared tiles run)."""
    device = hopper.device(streamed.SMS)
    shared = [case for case, _ in streamed.cases(name, device.facts)]
    with watched.watching():
        made = mutation.Mutation(name, device, [*shared, *debug.cases(name, device.facts)],
                                 streamed.in_bands(name, device.facts), budget=1e9, patience=4)
    plain = set().union(*(g.lines for g in made.grounds[len(shared):]))
    return made, made.lines - plain


def steps(made, lines):
    """Mutants that have one step more or less in a share, wherever it is read. Right behind the meeting of
    all blocks a walk is among shared tiles, and where it would begin with them is not asked for."""
    told = made.text.count("\n", 0, made.text.rindex("atom.release")) + 1
    begins = lambda s: re.search(rf"selp\.b32 \s*%r\d+, %r\d+, {s.operands[0]}, %p", made.text)
    number = [row["name"] for row in kernels.get(made.kernel).row["params"]].index("share")
    held = set(re.findall(rf"ld\.param\.u32\s+(%r\d+), \[{made.kernel}_param_{number}\]", made.text))
    line, seen = 1, 0
    for s in mutants.statements(made.text, made.kernel):
        line, seen = line + made.text.count("\n", seen, s.start), s.start
        register = next((o for o in s.operands[1:] if o in held), None)
        is_asked = not (told < line < told + 40 and begins(s))
        if line not in lines or not register or s.opcode.startswith("setp") or not is_asked:
            continue
        for more in (1, -1):
            other = s._replace(operands=tuple("%other" if o == register else o for o in s.operands))
            new = f"{{ .reg .b32 %other; add.s32 %other, {register}, {more}; {other.text()} }}"
            yield Mutant(line, f"share {more:+}", s.text(), new,
                         made.text[:s.start] + new + made.text[s.end:])


@lru_cache
def before_both(text: str) -> set:
    """Lines of a barrier of a warpgroup right in front of one of both, and of who waits for boxes there."""
    code = [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1) if line.strip().endswith(";")]
    found = set()
    for at, (n, line) in enumerate(code[:-1]):
        if re.fullmatch(r"bar\.sync %r\d+, 128;", line) and code[at + 1][1] == "bar.sync 3, 256;":
            waits = [line.startswith("cp.async.bulk.wait_group.read") for _, line in code[at - 3:at]]
            found |= {n, *((code[at - 4 + waits.index(True)][0],) if True in waits else ())}
    return found


def is_same(made, mutant) -> bool:
    text, old = made.text, mutant.old
    if mutant.kind == "constant + 1" and (found := re.fullmatch(TELLS, old)):
        return bool(re.search(rf"mov\.u32 \s*{found[1]}, %tid\.x;", text))
    if mutant.kind in ("dropped branch", "dropped barrier") and mutant.line in before_both(text):
        return True
    if mutant.kind == "add for sub" and (found := re.fullmatch(WARP, old)):
        return bool(re.search(rf"shr\.s32 \s*(%r\d+), {found[1]}, 31;\s+shr\.u32 \s*%r\d+, \1, 30;", text))
    if re.fullmatch(AT_END, mutant.kind):
        return mutant.line in [text.count("\n", 0, text.rindex(word)) + 1
                               for word in ("bar.sync 3", "atom.release")]
    if mutant.kind in ("constant + 1", "flipped comparison") and (found := re.fullmatch(BEGINS, old)):
        return bool(re.search(rf"shl\.b32 \s*{found[1]}, %r\d+, 6;", text))
    if mutant.kind == "constant + 1" and (found := re.fullmatch(FIRST, old)):
        return bool(re.search(rf"%ctaid\.z;\s*or\.b32 \s*{found[1]}, ", text))
    if mutant.kind != "constant + 1" or re.fullmatch(WAITS, old) or re.fullmatch(PLACES, old):
        return mutant.kind == "constant + 1"
    found = re.fullmatch(FLAGS, old)
    return bool(found) and all(re.match("setp|and.b16", s.opcode)
                               for s in mutants.statements(text, made.kernel)
                               if (found[1] or found[2]) in s.operands[1:])


@pytest.mark.share(1)
@pytest.mark.parametrize("name", NAMES)
def test_mutants(name):
    made, lines = ready(name)
    every = [m for m in made.mutants if m.line in lines and not is_same(made, m)] + list(steps(made, lines))
    many = [m for m in every if m.kind == "flipped comparison" and re.fullmatch(TELLS, m.old)]
    first = [m for m in every if re.match(ORDERING, m.old)]
    assert {m.kind for m in first} >= {"dropped barrier", "dropped store", "weaker order", "narrower scope"}
    assert {m.kind for m in every} >= {"share +1", "share -1", "dropped branch", "dropped guard"}
    told = made.text.count("\n", 0, made.text.rindex("atom.release")) + 1
    rest = [m for m in every if m not in first + many and (m.line < told or m.kind.startswith("share"))]
    with watched.watching():
        score = made.score(first + sampling.of(rest, FEW, f"stream {name}"))
        made.device.seed = 1                     # where all but one tell, some orders leave too soon
        assert many and not made.score(many).alive
        made.device.seed = None
    assert not score.alive, "\n".join(f"{v.mutant.line}: {v.mutant.kind}: {v.mutant.old} {v.mutant.new} "
                                      f"{v.what}" for v in score.alive)


PART = r"(ld\.global\.v4\.f32 \s*)(\{[^}]*\})"    # four parts of a tile at once, eight loads each
AT_ONCE = [name for name in NAMES if "unaligned" not in name]      # that one takes a part after the other


@pytest.mark.share(1)
@pytest.mark.parametrize("name", AT_ONCE)
def test_parts_in_another_order(name):
    """The last block's first: sums of whole numbers are the same, but not those that are rounded."""
    device = hopper.device()
    with watched.watching():
        got, want = streamed.in_order(name, device)
        assert (got == want).all()
        device.replaced[name] = backwards(name)
        got, want = streamed.in_order(name, device)
    assert (got != want).any()


def backwards(name) -> str:
    """The text in which the last of four parts comes where the first is added."""
    text = variants.text_of(name)
    found = list(re.finditer(PART, text))
    assert len(found) == 32
    moved = {one.start(2): other[2] for one, other in zip(found, found[24:] + found[8:24] + found[:8])}
    return re.sub(PART, lambda m: m[1] + moved[m.start(2)], text)

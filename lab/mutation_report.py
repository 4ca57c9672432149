"""What tools/mutate_ptx.py prints: a line a kernel, the table of kinds, the survivors,
and whether the bars are met."""
from __future__ import annotations

from collections import Counter

from .mutants import SYNC, Mutant

BAR = 0.9                                   # of the mutants on executed instructions, but for equivalent ones
HOWS = ("finding", "value", "endless", "refused", "equivalent", "survived")


def line(score) -> str:
    """One kernel."""
    sync = [v for v in score.verdicts if v.mutant.kind in SYNC]
    return (f"{score.fraction:6.1%} of {len(score.verdicts) - score.count('equivalent'):>4} killed"
            f" ({score.count('finding')} findings, {score.count('value')} values, {score.count('endless')} "
            f"endless), barriers and waits {sum(v.killed for v in sync)} of {len(sync)}, ran "
            f"{score.executed / max(score.total, 1):4.0%}  {score.kernel} {score.target}, {score.cases} runs")


def totals(scores) -> tuple:
    """(killed, of; barriers and waits killed, of). What is equivalent is not counted."""
    every = [v for s in scores for v in s.verdicts if v.how != "equivalent"]
    sync = [v for v in every if v.mutant.kind in SYNC]
    return sum(v.killed for v in every), len(every), sum(v.killed for v in sync), len(sync)


def passes(scores) -> bool:
    """Are both bars met?"""
    killed, every, sync_killed, sync = totals(scores)
    return killed >= BAR * every and sync_killed == sync


def summary(scores) -> str:
    killed, every, sync_killed, sync = totals(scores)
    return (f"{len(scores)} kernels: {killed} of {every} mutants killed, {killed / max(every, 1):.1%} (bar "
            f"{BAR:.0%}); barriers and waits {sync_killed} of {sync}; "
            f"not counted: {sum(s.count('equivalent') for s in scores)} equivalent")


def rows(scores) -> list[dict]:
    """As JSON takes them."""
    return [dict(kernel=s.kernel, target=s.target, runs=s.cases, executed=s.executed, total=s.total,
                 mutants=[dict(line=v.mutant.line, kind=v.mutant.kind, old=v.mutant.old, new=v.mutant.new,
                               how=v.how, what=v.what) for v in s.verdicts]) for s in scores]


def read(rows) -> list:
    """The scores that ``rows`` wrote."""
    from .mutation import Score, Verdict
    made = lambda m: Verdict(Mutant(m["line"], m["kind"], m["old"], m["new"], ""), m["how"], m["what"])
    return [Score(r["kernel"], r["target"], r["runs"], r["executed"], r["total"],
                  [made(m) for m in r["mutants"]]) for r in rows]


# What the survivors are, where they are looked at one by one: the first four change nothing that can be
# seen, the last is for the cases' owner.
WHY = """\
* A comparison that picks between two loops which do the same (`setp.lt.u32 n, 768`: by four, \
or one by one), or that skips a loop that would not run.
* A bound of a loop whose body checks every index again (the first and last row of a pooling window); \
`max` and `min` of such bounds.
* Work for elements that are not stored: the size of a `cp.async` of rows behind the end, \
addresses that are only used when inside.
* Nothing is added: the index of a part that is always 0 in this variant; 0.0 added or subtracted.
* Index arithmetic of a dimension that is 1 in all cases: the third spatial one, a batch, a second group. \
These are cases that are missing."""


def markdown(scores, command: str) -> str:
    """The record: by kernel, by kind of mutant, and every survivor with its line."""
    parts = ["# Mutation of shipped PTX", f"`{command}` on the interpreter, no GPU. {summary(scores)}.",
             "A mutant is one instruction changed or dropped. It counts when some case runs that "
             "instruction. *Finding*: the interpreter says race, address,\n"
             "unwritten … . *Value*: the result is wrong, or bytes outside it are changed. *Endless*: "
             "it does not end. *Equivalent*: ptxas makes the same\nmachine code of it; not counted. "
             "\"The same bits\" of a survivor: in no case did any output bit change.", "## By kernel",
             _table(("kernel", "target", "runs", "ran", "mutants", *HOWS, "killed"), map(_of_kernel, scores)),
             "## By kind", _table(("kind", "mutants", *HOWS, "killed"), _by_kind(scores))]
    parts += ["## Why mutants survive", WHY]
    survivors = [f"| `{s.kernel}` | {v.mutant.line} | {v.mutant.kind} | `{v.mutant.old}` | `{v.mutant.new}` "
                 f"| {v.what} |".replace("``", "–") for s in scores for v in s.alive]
    parts += ["## Survivors",
              "\n".join(["| kernel | line | kind | was | became | outputs |", "|" + "---|" * 6, *survivors])]
    return "\n\n".join(parts) + "\n"


def _of_kernel(s):
    return (f"`{s.kernel}`", s.target, s.cases, f"{s.executed / max(s.total, 1):.0%}", len(s.verdicts),
            *(s.count(h) for h in HOWS), f"{s.fraction:.1%}")


def _by_kind(scores):
    count = Counter((v.mutant.kind, v.how) for s in scores for v in s.verdicts)
    for kind in sorted({k for k, _ in count}):
        hows = [count[kind, h] for h in HOWS]
        killed = sum(hows[:4])
        yield kind, sum(hows), *hows, f"{killed / max(killed + hows[5], 1):.1%}"


def _table(head, body) -> str:
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, ("---",) * len(head), *body))

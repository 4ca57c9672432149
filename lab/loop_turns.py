"""Loops of a shipped text, and which of them have turned: a branch back to where all ways to it come from has
jumped in some run. Not those that only wait for an mbarrier."""
from __future__ import annotations

from functools import lru_cache

from cydnn import kernels
from cydnn.device.ptx import decoded
from cydnn.device.ptx.code import BRANCH, EXIT, TABLE_BRANCH

from .shipped import origins

ASKS = ("mbarrier.test_wait", "mbarrier.try_wait")
BESIDE = ("mov", "selp", "setp", "add", "sub", "neg", "xor", "and", "or", "not", "shl", "shr",
          "bra")                                # what else such a loop does


def loops(code) -> list:
    """(number of the first instruction, of the last, whether that one jumps back; else it falls through)."""
    blocks, found = Blocks(code), []
    for block, first in blocks.back:
        last = blocks.last[block]
        if not _waits(blocks.body(block, first)):
            found.append((first, last, code.kinds[last] == BRANCH and code.steps[last] == first))
    return found


def _waits(body) -> bool:
    """Does a loop only ask whether something has come?"""
    words = [i.words for i in body]
    return (any(_asks(w) for w in words) and [w[0] for w in words].count("bra") == 1
            and all(w[0] in BESIDE or _asks(w) for w in words))


def _asks(words) -> bool:
    return ".".join(words[:2]) in ASKS or words[0] == "ld" and "acquire" in words


class Blocks:
    """Instructions that run one after another; each is known by the number of its first."""

    def __init__(self, code):
        self.code, count = code, len(code.instructions)
        ends = [at for at, kind in enumerate(code.kinds) if kind in (BRANCH, TABLE_BRANCH, EXIT)]
        starts = sorted({0, *(t for at in ends for t in (*self._after(at), at + 1) if t < count)})
        self.last = dict(zip(starts, [*(s - 1 for s in starts[1:]), count - 1]))
        self.next = {s: [t for t in self._after(end) if t < count] for s, end in self.last.items()}
        self.above = self._dominators()
        # (block, the one that it goes back to)
        self.back = [(s, t) for s in self.above for t in self.next[s] if t in self.above[s]]

    def _after(self, at: int) -> list:
        """Where an instruction may lead."""
        code, step = self.code, self.code.steps[at]
        kind = code.kinds[at]
        leaves = kind in (BRANCH, TABLE_BRANCH, EXIT) and code.guards[at] is None
        there = {BRANCH: lambda: [step], TABLE_BRANCH: lambda: step[1].tolist()}.get(kind, list)()
        return there if leaves else [at + 1, *there]

    def _dominators(self) -> dict:
        """The blocks that every way to a block comes through, as far as there is one."""
        above, todo = {0: {0}}, [0]
        while todo:
            block = todo.pop()
            for to in self.next[block]:
                new = (above[block] & above[to] if to in above else set(above[block])) | {to}
                if new != above.get(to):
                    above[to] = new
                    todo.append(to)
        return above

    def body(self, block, first) -> list:
        """The instructions of the loop in which a block goes back."""
        mine, todo = {first}, [block]
        while todo:
            at = todo.pop()
            if at not in mine:
                mine.add(at)
                todo += [s for s, after in self.next.items() if at in after and s in self.above]
        return [i for s in mine for i in self.code.instructions[s:self.last[s] + 1]]


@lru_cache(maxsize=256)
def _loops_of(name: str, shipped: str) -> dict:
    """{(line of the first instruction, of the last): whether it jumps} of the loops of a kernel's text."""
    code = decoded.code(shipped, name)
    line = lambda at: code.line(code.instructions[at])
    return {(line(first), line(last)): jumps for first, last, jumps in loops(code)}


def of(device, name: str) -> dict:
    """The same of the image that a device takes."""
    return _loops_of(name, kernels.get(name).image_for(device.facts.sm).text().decode())


def still(device, name: str) -> list:
    """Lines of the shipped text, first and last, of the loops that have turned in none of the texts that code
    was spliced into. What falls through to where it came from has done so when it ran, as all runs end."""
    shipped = kernels.get(name).image_for(device.facts.sm).text().decode()
    left = of(device, name)
    for text, code in device.codes.items():
        if code.program.name == name and left:
            origin = origins(shipped, text)
            done = {jumps: {origin.get(code.line(i)) for i, has in zip(code.instructions, which) if has}
                    for jumps, which in ((True, code.jumped), (False, code.executed))}
            left = {loop: jumps for loop, jumps in left.items() if loop[1] not in done[jumps]}
    return sorted(left)

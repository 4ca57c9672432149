"""What has run of a shipped text, where the interpreter ran texts that code was spliced into."""
from __future__ import annotations

import re
from functools import lru_cache

from cydnn.fusion.registers import MARK
from cydnn.fusion.splice import without_stores

KEPT = re.compile(r"(?:\.reg \.\w+ [^;\n]+;\n)*")        # registers of what is made once for a row
LOAD = re.compile(r"ld\.param\.[us]32(\s+%\w+), \[\w+\];")


@lru_cache(maxsize=256)
def origins(shipped: str, ran: str) -> dict:
    """{line of a text that ran: the line of the shipped text that it is}. Spliced lines are not there."""
    if shipped == ran:
        return {n: n for n in range(1, shipped.count("\n") + 2)}
    shipped = _with_numbers(shipped, ran)
    found, there, here = {}, ran.index(".entry"), shipped.index(".entry")
    for mark in [*MARK.finditer(shipped, here), None]:
        piece = shipped[here:mark.start() if mark else len(shipped)]
        first = not found                                    # in the head a parameter may have another size
        left = piece if first or piece in ran[there:] else without_stores(piece)
        there = there if first else ran.index(left, there)
        to, at = ran.count("\n", 0, there) + 1, shipped.count("\n", 0, here) + 1
        begin, shift = _kept(ran, there) if first else (0, 0)
        found.update((to + i + (shift if i >= begin else 0), at + n)
                     for i, n in enumerate(_numbers(piece, left)))
        there = _behind(ran, there, piece.count("\n") + shift) if first else there + len(left)
        here = mark.end() if mark else here
    return found


def _kept(ran, there) -> tuple:
    """(lines of a head in front of registers that stand in it alone, how many these are)."""
    begin = ran.index("\n{\n", there) + 3
    return ran.count("\n", there, begin), KEPT.match(ran, begin)[0].count("\n")


def _with_numbers(shipped, ran):
    """The shipped text, where parameters that are numbers in the other are these (cydnn/fusion/ways.py)."""
    def load_or_move(load):
        move = re.search(rf"mov\.u32{load[1]}, \d+;", ran)
        return move[0] if move and load[0] not in ran else load[0]
    return LOAD.sub(load_or_move, shipped)


def _numbers(piece, left):
    """The line number in a piece of every line that is left of it."""
    lines = iter(left.split("\n"))
    line = next(lines, None)
    for n, old in enumerate(piece.split("\n")):
        if old == line:
            yield n
            line = next(lines, None)


def _behind(text, at, lines) -> int:
    """Behind so many lines from a place on."""
    for _ in range(lines):
        at = text.index("\n", at) + 1
    return at


def run_lines(codes: dict, kernel: str, shipped: str) -> set:
    """Lines of the shipped text of which every instruction has run in one of the texts. ``codes``: of the
    device."""
    done = set()
    for text, code in codes.items():
        if code.program.name != kernel:
            continue
        of = origins(shipped, text.decode() if isinstance(text, bytes) else text)
        idle = {of.get(code.line(i)) for i, ran in zip(code.instructions, code.executed) if not ran}
        done |= {of.get(code.line(i)) for i in code.instructions} - idle - {None}
    return done

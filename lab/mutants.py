"""Mutants of PTX: one instruction changed or dropped, as text. The tables say which;
nothing here runs a kernel.

``mutants(text, kernel)`` yields each with the line it is on, its kind and the new text. Left alone: functions
that a kernel calls, parameters of calls, ``shr.s32 a, x, 31; shr.u32 b, a, n; add.s32 y, x, b``, which
rounds a signed division of what is never negative: b is 0; and a float 0 that is added, or taken away.
"""
from __future__ import annotations

import re
from typing import Iterator, NamedTuple

BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
SYNC = ("dropped barrier", "dropped wait")                   # every one of these that ran must be killed

DROPS = (                                                    # kind, opcodes: the instruction goes
    ("dropped barrier", r"bar\.|barrier\."),
    ("dropped wait", r"(cp\.async(\.bulk)?|wgmma)\.wait_"),
    ("dropped commit", r"(cp\.async(\.bulk)?|wgmma)\.commit_"),
    ("dropped arrival", r"mbarrier\.(arrive|expect_tx)"),
    ("dropped initialisation", r"mbarrier\.init"),
    ("dropped fence", r"fence\.proxy"),
    ("dropped copy", r"cp\.async\.(ca|cg|bulk\.tensor)"),
    ("dropped wgmma", r"wgmma\.mma"),
    ("dropped store", r"(st|stmatrix|red|atom)\.(?!param)"),
)
SWAPS = (  # kind, opcodes, {word: other word}: the first such word of the opcode's first three changes
    ("flipped comparison", r"setp?\.", dict(zip("lt le gt ge eq ne lo ls hi hs ltu leu gtu geu".split(),
                                                "le lt ge gt ne eq ls lo hs hi leu ltu geu gtu".split()))),
    ("add for sub", r"(add|sub)\.", dict(add="sub", sub="add")),
    ("min for max", r"(min|max)\.", dict(min="max", max="min")),
    ("and for or", r"(and|or)\.pred", {"and": "or", "or": "and"}),
    ("weaker order", r"(ld|st|atom|red)\.", dict(acquire="relaxed", release="relaxed")),
    ("narrower scope", r"(ld|st|atom|red)\.", dict(sys="gpu", gpu="cta", cluster="cta")),
)
ZERO = {"0f00000000", "0d0000000000000000"}
CONSTANTS = r"(add|sub|mul|mad|shl|shr|and|or|xor|setp|selp|min|max|mov|div|rem)\.(?!f|.*\.f(16|32|64))"


class Statement(NamedTuple):
    """One instruction of the text: its guard (``@%p`` or empty), opcode and operands; it fills
    text[start:end], with the semicolon."""
    start: int
    end: int
    guard: str
    opcode: str
    operands: tuple

    def text(self) -> str:
        return " ".join(w for w in (self.guard, self.opcode, ", ".join(self.operands)) if w) + ";"


class Mutant(NamedTuple):
    """``text`` with one instruction changed."""
    line: int
    kind: str
    old: str
    new: str                                                 # empty: dropped
    text: str


def statements(text: str, kernel: str) -> Iterator[Statement]:
    """The instructions of a kernel's body, in order."""
    bare = re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), text)
    entry = re.search(rf"\.entry\s+{re.escape(kernel)}\b[^{{]*\{{", bare)
    depth, at = 1, entry.end()
    for token in re.compile(r"(\{(?=[^;{}]*[;{])|(?<=[;}\s])\}|[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*;)").finditer(
            bare, at):
        depth += (token[0] == "{") - (token[0] == "}")
        if not depth:
            return
        found = re.compile(r"\s*(?:[$\w]+:\s*)*(@!?%\w+\s+)?([a-z][\w.:]*)\s*([^;]*);").fullmatch(
            bare, token.start(), token.end())
        if found:
            start = found.start(1) if found[1] else found.start(2)
            operands = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{\[(])+", found[3])
            yield Statement(start, token.end(), (found[1] or "").strip(),
                            found[2], tuple(o.strip() for o in operands))


def mutants(text: str, kernel: str) -> Iterator[Mutant]:
    """Every mutant of the tables, in the order of the text."""
    line, seen, signs, zeros = 1, 0, set(), set()
    for s in statements(text, kernel):
        if _rounds(s, signs, zeros):
            continue
        line, seen = line + text.count("\n", seen, s.start), s.start
        for kind, new in changes(s):
            fill = new and new.text()
            yield Mutant(line, kind, s.text(), fill, text[:s.start] + fill + text[s.end:])


def _rounds(s: Statement, signs: set, zeros: set) -> bool:
    """Is this one of the three instructions? Notes the registers that hold a sign, and those
    that hold 0 as it is never minus."""
    if s.opcode == "shr.s32" and s.operands[2] == "31":
        signs.add(s.operands[0])
    elif s.opcode == "shr.u32" and s.operands[1] in signs:
        zeros.add(s.operands[0])
    else:
        return s.opcode == "add.s32" and s.operands[2] in zeros
    return True


def changes(s: Statement) -> Iterator[tuple]:
    """(kind, new statement or empty) of one instruction."""
    for kind, opcodes in DROPS:
        if re.match(opcodes, s.opcode):
            yield kind, ""
    if re.match(r"mbarrier\.(try|test)_wait", s.opcode):
        yield "dropped wait", s._replace(opcode="setp.eq.u32", operands=(s.operands[0], "0", "0"))
    if re.match(r"mbarrier\.(init|(arrive\.)?expect_tx)", s.opcode):
        yield "wrong count", _with_last(s, str(int(s.operands[-1]) + 1) if s.operands[-1].isdigit() else "5")
    if re.match(r"mbarrier\.(try|test)_wait\.parity", s.opcode):
        yield "stuck phase", _with_last(s, "0")
    if s.guard:
        yield "dropped guard", s._replace(guard="")
    if s.guard and s.opcode.startswith("bra"):
        yield "dropped branch", ""
    for kind, opcodes, words in SWAPS:
        if re.match(opcodes, s.opcode) and not (kind == "add for sub" and ZERO & {*s.operands}):
            yield from ((kind, s._replace(opcode=other)) for other in _swapped(s.opcode, words))
    if s.opcode.startswith("selp"):
        yield ("swapped selection",
               s._replace(operands=(s.operands[0], s.operands[2], s.operands[1], *s.operands[3:])))
    if re.match(CONSTANTS, s.opcode):
        yield from _numbers(s)
    if re.match(r"(ld|st|cp|atom|red|ldmatrix|stmatrix)\b", s.opcode) and ".param" not in s.opcode:
        yield from _offsets(s)


def _with_last(s: Statement, operand: str) -> Statement:
    return s._replace(operands=(*s.operands[:-1], operand))


def _swapped(opcode: str, words: dict) -> Iterator[str]:
    parts = opcode.split(".")
    at = next((i for i, w in enumerate(parts[:3]) if w in words), None)
    if at is not None:
        yield ".".join([*parts[:at], words[parts[at]], *parts[at + 1:]])


def _numbers(s: Statement) -> Iterator[tuple]:
    """Every integer constant, one more."""
    for i, operand in enumerate(s.operands[1:], 1):
        if re.fullmatch(r"-?\d+", operand):
            yield ("constant + 1",
                   s._replace(operands=(*s.operands[:i], str(int(operand) + 1), *s.operands[i + 1:])))


def _offsets(s: Statement) -> Iterator[tuple]:
    """Every address, one access on."""
    found = re.search(r"(?:\.v([248]))?\.[busf]f?(8|16|32|64|128)$", s.opcode)
    width = int(found[1] or 1) * BYTES[found[2]] if found else 16
    for i, operand in enumerate(s.operands):
        found = re.fullmatch(r"\[([%$\w]+)(?:\+(-?\d+))?\]", operand)
        if found:
            yield "address + 1", s._replace(
                operands=(*s.operands[:i], f"[{found[1]}+{int(found[2] or 0) + width}]", *s.operands[i + 1:]))

"""Paste programs at the marks of a kernel's text."""
from __future__ import annotations

import re

from ..status import InternalError
from .emit import Emitter, support
from .program import MOST_BYTES, bases
from .registers import MARK, Mark, declared_types
from .ways import with_ways

_TARGET = re.compile(r"^\.target sm_(\d+)", re.M)
_LEAVES = re.compile(r"^\s*(?:\$?\w+:|(?:@!?%\w+\s+)?(?:bra|ret)\b)", re.M)
_STORE = re.compile(r"^\s*(?:@!?%\w+\s+)?st\.global\.[^;\n]*;\n", re.M)
_ENTRY = re.compile(r"^\.(?:visible|weak) \.entry (\w+)\(", re.M)

# marks without a program of their own: the one that they are for
SERVES = {"ahead": "epilogue", "pairs": "epilogue"}


def programs_of(fuse: dict) -> tuple:
    """What ``splice`` makes of a text depends on these alone: devices remember it by them."""
    return tuple(sorted((mark, getattr(f, "program", f)) for mark, f in fuse.items()))


def splice(text: bytes, kernel, fuse: dict, ways=()) -> bytes:
    """``text`` of ``kernel`` with a program (a Program, or a Fused) at each of the marks that ``fuse`` names,
    for ``ways`` of going (ways.py).

    The kernel's last parameter, ``Fuse``, gets the size that the programs need.
    """
    ptx = text if isinstance(text, str) else bytes(text).decode()
    name, params = kernel.name, len(kernel.row["params"])
    programs = programs_of(fuse)
    fuse = dict(programs)
    ptx = with_ways(ptx, _ENTRY.search(ptx)[1], ways)
    entry, sm = _ENTRY.search(ptx), int(_TARGET.search(ptx)[1])
    marks = [found for found in MARK.finditer(ptx) if SERVES.get(found[1], found[1]) in fuse]
    there = {served_by(found[1], fuse) for found in marks}
    for missing in fuse.keys() - there:
        raise InternalError(f"{name}: must have the mark {missing} to splice at; got none")
    at = bases(fuse)
    if at[""] > MOST_BYTES:
        raise InternalError(f"{name}: programs must need at most {MOST_BYTES} bytes of parameters; "
                            f"got {at['']}")
    declared, parameter = declared_types(ptx), f"{entry[1]}_param_{params - 1}"
    read = [Mark.read(found[2], declared) for found in marks]
    head = with_registers(ptx[entry.start():marks[0].start()], kept_registers(name, fuse, [
        (served_by(found[1], fuse), mark) for found, mark in zip(marks, read)]))
    head = re.sub(rf"\b{parameter}\[\d+\]", f"{parameter}[{max(at[''], 8)}]", head)
    about = {mark: "\n".join(f"// {line}" for line in str(p).splitlines()) + "\n" for mark, p in programs}
    pieces: list = []
    for found, mark, following in zip(marks, read, [*marks[1:], None]):
        served = SERVES.get(found[1], found[1])
        program = fuse[served]
        emitter = Emitter(program, mark, parameter, at[served], sm)
        behind = ptx[found.end():following.start() if following else len(ptx)]
        if found[1] == "ahead":
            pieces += [emitter.ahead(), behind]
            continue
        if found[1] == "pairs":
            pieces += ["" if program.stores else emitter.block(), behind]
            continue
        pieces += [about[served], emitter.block(), without_stores(behind) if program.is_whole else behind]
    return "".join([ptx[:entry.start()], *support(fuse.values()), head, *pieces]).encode()


def served_by(mark: str, fuse: dict) -> str:
    """The program that a mark is enough for: pairs are, where it stores nothing itself."""
    return SERVES[mark] if mark == "pairs" and not fuse[SERVES[mark]].stores else mark


def kept_registers(kernel: str, fuse: dict, marks) -> dict:
    """{register: math type} of what programs keep; ``marks``: (whose program, Mark) pairs.
    Raises InternalError where a program reads what none keeps there."""
    kept = {mark.kept(name): fuse[served].math for served, mark in marks if served in fuse
            for _, name in fuse[served].kept}
    for served, mark in marks:
        program = fuse.get(served)
        for name in program.inputs if program else ():
            if name.startswith("h") and kept.get(mark.kept(name)) != program.math:
                raise InternalError(f"{kernel}: mark {served} must read what an earlier mark keeps in "
                                    f"{program.math}; got {mark.kept(name)}")
    return kept


def with_registers(head: str, kept: dict) -> str:
    """The head of a kernel with registers that its whole body sees."""
    lines = [f".reg .{kind} {register};\n" for register, kind in kept.items()]
    return re.sub(r"^\{\n", "{\n" + "".join(lines), head, count=1, flags=re.M) if lines else head


def without_stores(text: str) -> str:
    """PTX without its first stores to global memory: those up to the next label or branch, behind a mark.
    A text that has none there belongs to a kernel that leaves its stores to spliced code anyway."""
    end = _LEAVES.search(text)
    end = end.start() if end else len(text)
    return _STORE.sub("", text[:end]) + text[end:]

"""Paste a program at every mark of a kernel's text."""
from __future__ import annotations

import re
from functools import lru_cache

from ..status import InternalError
from .emit import Emitter, support
from .program import FUSE_BYTES, Program
from .registers import MARK, Mark, declared_types, type_of

_TARGET = re.compile(r"^\.target sm_(\d+)", re.M)
_ENTRY = re.compile(r"^\.(?:visible|weak) \.entry (\w+)\(", re.M)


def splice(text: bytes, kernel, program) -> bytes:
    """``text`` of ``kernel`` with ``program`` (a Program, or an Epilogue) at its marks. Remembered by text and program."""
    return _splice(text.encode() if isinstance(text, str) else bytes(text), kernel.name, len(kernel.row["params"]), getattr(program, "program", program))


@lru_cache(maxsize=128)
def _splice(text: bytes, name: str, params: int, program: Program) -> bytes:
    ptx = text.decode()
    entry, sm = _ENTRY.search(ptx), int(_TARGET.search(ptx)[1])
    marks = list(MARK.finditer(ptx))
    if not marks:
        raise InternalError(f"{name}: must have a mark to splice at; got none")
    if program.bytes > FUSE_BYTES:
        raise InternalError(f"{name}: a program must need at most {FUSE_BYTES} bytes of parameters; got {program.bytes}")
    declared, fuse = declared_types(ptx), f"{entry[1]}_param_{params - 1}"
    about = "\n".join(f"// {line}" for line in str(program).splitlines()) + "\n"
    pieces, end = [ptx[:entry.start()], *support(program)], entry.start()
    for found in marks:
        mark = Mark.read(found[1])
        block = Emitter(program, mark, type_of(mark.values[0], declared), fuse, sm).block()
        pieces += [ptx[end:found.start()], about, block]
        end = found.end()
    return "".join([*pieces, ptx[end:]]).encode()

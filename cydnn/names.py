"""Names that are not here: what their callers meant, in the words of the library."""
from __future__ import annotations

import re
import sys
from importlib import import_module

from .elsewhere import ARGUMENTS, FRONT, LIKE, MEANT, OPTIONS

def unexpected(name: str, known) -> str:
    """What Python says of a keyword that a function does not have, and which of its own was meant."""
    from difflib import get_close_matches        # errors alone need it
    text, ours = f"got an unexpected keyword argument {name!r}", ARGUMENTS.get(name)
    if name in OPTIONS and ours not in known:
        return f"{text}: {OPTIONS[name]}"
    close = [ours] if ours in known else get_close_matches(name, known, 3, 0.75)
    return text + (f"; did you mean {' or '.join(close)}?" if close else "")


def missing(where: str, name: str, known=(), rooms: str = "") -> AttributeError | ImportError:
    """The error for a name that ``where`` does not have: what was meant, or the names that are like it.
    ``where`` as Python says it: module 'cydnn', 'pygraph' object. ``rooms``: modules of cydnn that may have
    it. Called by the ``__getattr__`` of ``where``."""
    text, kind = f"{where} has no attribute {name!r}", AttributeError
    if name.startswith("_"):                     # those are asked for by Python, or nobody's
        return AttributeError(text)
    module = where.removeprefix("module ")
    if module != where and _is_imported(module.strip("'"), name, sys._getframe(2)):
        text, kind = f"cannot import name {name!r} from {module}", ImportError
    for room in rooms.split():
        if name in import_module(f"{__package__}.{room}").__all__:
            return kind(f"{text}; it is cydnn.{room}.{name}")
    return kind(text + _hint(name, list(known)))


def _is_imported(module: str, name: str, asker) -> bool:
    """``from module import name`` is what the frame is at, and the name is no module on its way in. Python
    drops the words of an AttributeError there."""
    from opcode import opmap                     # errors alone need it
    is_import = asker.f_code.co_code[asker.f_lasti] == opmap["IMPORT_FROM"]
    return is_import and f"{module}.{name}" not in sys.modules


def _spellings(name: str) -> list:
    """A name without the prefix of C, as functions are written, and without a number of dims at its end."""
    bare = name.removeprefix("cudnn")
    bare = bare[:1].lower() + bare[1:] if bare != name else name
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return [bare, name, *[re.sub(r"[123]d$", "", n) for n in (bare, split, name.lower())]]


def _hint(name: str, known: list) -> str:
    from difflib import get_close_matches        # errors alone need it
    spellings = _spellings(name)
    bare = spellings[0]
    like = [ours for n in spellings for ours in LIKE.get(n, ())]
    for ours in (*spellings, *like):
        if ours in known and ours != name:
            return f"; it is {ours}"
    if name.endswith("_") and name[:-1] in known:
        return f"; it is {name[:-1]}, with out= the array that is written over"
    meant = [MEANT[n] for n in spellings if n in MEANT]
    if meant:
        return f": {meant[0]}"
    functions = import_module(f"{__package__}.functional").FUNCTIONS
    for ours in (*spellings, *like):
        if ours in functions:
            return f": of arrays it is cydnn.{'functional.' * (ours not in _offered())}{ours}"
    if name != bare and bare and "setTensor4dDescriptor" not in known:
        return f": {FRONT}"
    close = get_close_matches(bare, known, 3, 0.75)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _offered() -> list:
    return import_module(__package__).__all__

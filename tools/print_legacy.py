"""Print docs/legacy/: a page for each file of ``cydnn/legacy``, a section for each function.

Words and snippet are the function's docstring, arguments come from a call that works, conditions and messages
from the catalogue of errors (tests/legacy/errors): every message is the one that was raised just now.
"""
from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "legacy"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np

from cydnn import cudnn
from cydnn._core import Descriptor
from cydnn.legacy import FUNCTIONS
from cydnn.legacy.arguments import KINDS
from cydnn.legacy.call import Compute
from cydnn.status import CydnnError
from legacy.errors import E, catalogue, modules

HEAD = """{title}

Printed by `python tools/print_legacy.py`; all functions are in [legacy_api.md](../legacy_api.md).

Everywhere: a handle or descriptor that is NULL (0 or None), unknown, destroyed, of another kind, or, where \
it is read, not set is `BAD_PARAM`;
so is an array that is NULL, a factor that is None, a number that is no member of its enum. What is no \
descriptor or no number, and an
address where a number belongs, is a `TypeError`. On an error nothing was written.

The snippets begin with

```python
{prelude}
```
"""


def parts(thing) -> tuple[str, str]:
    """The words of a docstring, and its snippet."""
    words, _, code = inspect.cleandoc(thing.__doc__).partition("\n\n>>>")
    return words, ">>>" + code


def begun(words: str) -> str:
    """A sentence with a capital in front, unless it begins with a name of C."""
    return words if words.startswith("cudnn") else words[:1].upper() + words[1:]


def pages() -> dict:
    """{name: text} of every page."""
    rows, goods = catalogue(), modules()
    own = {name: function for name, (function, _) in FUNCTIONS.items()
           if name == function.__name__}
    found = {}
    for family in dict.fromkeys(f.__module__.rpartition(".")[2] for f in own.values()):
        module = importlib.import_module(f"cydnn.legacy.{family}")
        words, prelude = parts(module)
        title, _, rest = " ".join(words.split()).partition(": ")
        text = HEAD.format(title=f"# {title}\n\n{begun(rest)}", prelude=prelude)
        for name, function in own.items():
            if function.__module__ == module.__name__ and name in goods[family].GOOD:
                text += section(name, function, goods[family].GOOD[name],
                                [row for row in rows if row.function == name])
        found[f"{family}.md"] = text
    return found


def section(name, function, make, rows) -> str:
    words, code = parts(function)
    chapters = [f"`{other}` {chapter}" for other, (f, chapter) in FUNCTIONS.items() if f is function]
    signature = inspect.signature(function)
    lines = [f"\n## {name}\n\n```python\n{name}{signature.replace(return_annotation=signature.empty)}\n```\n",
             f"{words}\n",
             f"C: `cudnn{name[0].upper()}{name[1:]}`. Sections of the guide: {', '.join(chapters)}.\n"]
    good = make()
    if good:
        lines.append(table("Argument", "What")([(f"`{a}`", what(name, function, a, good, rows))
                                                for a in good]))
    lines.append(f"```python\n{code}\n```\n")
    own = {row.condition: row for row in rows if not row.is_standard}
    if own:
        lines.append(table("Refused", "Status", "Message")(
            [(row.condition, *said(row, make())) for row in own.values()]))
    return "\n".join(lines)


def table(*columns):
    def of(rows) -> str:
        cell = lambda value: str(value).replace("|", "\\|")
        lines = [columns, ["---"] * len(columns), *rows]
        return "".join("| " + " | ".join(map(cell, line)) + " |\n" for line in lines)
    return of


def what(name, function, argument, good, rows) -> str:
    """What an argument is, as the call that works says."""
    value = good[argument]
    if isinstance(value, Descriptor):
        return next(kind.name for kind in KINDS.values() if isinstance(value, kind.type))
    if isinstance(value, np.ndarray):
        return (f"array or address, laid out as `{described_by(argument, good)}`"
                + (", or NULL" if argument in optional(name, function) else ""))
    if isinstance(value, E):
        row = next(r for r in rows if r.change.keys() == {argument} and r.is_standard)
        return message(row, good).partition("must be one of ")[2].partition("; got")[0]
    if isinstance(value, list):
        return "sequence of tensor descriptors, one a step"
    if isinstance(value, tuple):
        return f"sequence, as {value}"
    return {float: "number", int: "integer", str: "text"}.get(type(value), type(value).__name__)


def described_by(argument, good) -> str:
    """The descriptor of a pointer: of its name, or the one that describes all that have none."""
    descs = {a: a.removesuffix("Desc") for a, v in good.items() if isinstance(v, Descriptor)}
    own = [d for d, pointer in descs.items() if pointer.lower() == argument.lower()]
    shared = [d for d, pointer in descs.items() if d.endswith("Desc") and good[d].fields
              and pointer.lower() not in {a.lower() for a in good} and "tensor" in good[d].kind]
    return own[0] if own else shared[0] if shared else "bytes"


def optional(name, function) -> set:
    """The pointers that may be NULL."""
    own = vars(sys.modules[function.__module__]).values()
    calls = [c for c in own if isinstance(c, Compute) and c.function == "cudnn" + name[0].upper() + name[1:]]
    return {call.pointers[i] for call in calls for i in call.optional}


def said(row, good) -> tuple[str, str]:
    """Status and message of a condition."""
    if not isinstance(row.error, type):
        return " or ".join(f"`{error.api.removeprefix('CUDNN_STATUS_')}`" for error in row.error), ""
    has_status = issubclass(row.error, CydnnError)
    status = row.error.api.removeprefix("CUDNN_STATUS_") if has_status else row.error.__name__
    return f"`{status}`", f"`{message(row, good)}`"


def message(row, good) -> str:
    """What the call says, in one line, without addresses and the name of the status."""
    try:
        getattr(cudnn, row.function)(**{**good, **row.change})
    except row.error as error:
        text = str(error).splitlines()[0].partition(" [CUDNN_STATUS")[0]
        return re.sub(r"0x[0-9a-f]+", "0x…", text)
    raise AssertionError(f"{row.function}: {row.condition}: is not refused")


if __name__ == "__main__":
    DOCS.mkdir(exist_ok=True)
    for name, text in pages().items():
        (DOCS / name).write_text(text)
        print(DOCS / name)

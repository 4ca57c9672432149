"""Print the reference pages, a section for each function on arrays, method of pygraph, operation; and
llms.txt, a list of all pages: ``python tools/print_reference.py``. A test compares them."""
from __future__ import annotations

import enum
import inspect
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS.parent))

import cydnn
from cydnn import functional, ops

PRINTED = "Printed by `python tools/print_reference.py`."


def shown(value) -> str:
    """A default as a program would write it."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return repr(value)


def called(name: str, signature) -> str:
    """A call with the defaults, in lines of at most 110 bytes."""
    words, star = [], False
    for p in signature.parameters.values():
        if p.name == "self" or p.name.startswith("_"):
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            words, star = [*words, "*"], True
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        words.append(mark + p.name + ("" if p.default is p.empty else f"={shown(p.default)}"))
    lines, indent = [f"{name}("], " " * (len(name) + 1)
    for i, word in enumerate(words):
        piece = word + (", " if i + 1 < len(words) else ")")
        if len(lines[-1]) + len(piece) > 108:
            lines = [*lines[:-1], lines[-1].rstrip(), indent]
        lines[-1] += piece
    return "\n".join(lines) + ("" if words else ")")


def section(name: str, head: str, doc: str, more: str = "") -> str:
    """A heading, how it is called, what it is; the docstring beyond its first paragraph as it is."""
    first, _, rest = inspect.cleandoc(doc).partition("\n\n")
    first = " ".join(first.split()).replace("*", "\\*").replace("<", "&lt;")
    block = f"\n```text\n{rest.strip()}\n```\n" if rest.strip() else ""
    return f"\n## {name}\n\n```python\n{head}\n```\n\n{first}\n{block}{more}"


def functions_page() -> str:
    head = (f"# Functions on arrays: reference\n\nWhat they share is in [functions.md](functions.md); the "
            f"same names in `cydnn.torch` and `cydnn.jax` record gradients ([torch.md](torch.md), "
            f"[jax.md](jax.md)). What is refused, in which words: [refusals.md](refusals.md).\n{PRINTED}\n")
    return head + "".join(section(name, called(f"cydnn.functional.{name}", f.signature), f.__doc__)
                          for name, f in sorted(functional.FUNCTIONS.items()))


def pygraph_page() -> str:
    head = (f"# pygraph: reference\n\nWhere to begin: [graphs.md](graphs.md); what a program of the "
            f"cudnn-frontend package finds: [frontend.md](frontend.md). Operations return tensors, which are "
            f"virtual until `set_output(True)`. What is refused, in which words: "
            f"[refusals.md](refusals.md).\n{PRINTED}\n")
    methods = {n: m for n, m in inspect.getmembers(cydnn.pygraph, inspect.isfunction) if n[0] != "_"}
    kept = inspect.getmembers(cydnn.pygraph, lambda value: isinstance(value, property))
    rows = "".join(f"| `{name}` | {' '.join(inspect.cleandoc(value.__doc__ or '').split())} |\n"
                   for name, value in kept if name[0] != "_")
    return (head + f"\n## Attributes\n\n| Attribute | What |\n| --- | --- |\n{rows}"
            + "".join(section(name, called(name, inspect.signature(m)), m.__doc__ or "")
                      for name, m in methods.items()))


def operations_page() -> str:
    head = (f"# Operations: reference\n\nWhat graphs are made of: `Node(op, {{operand: uid}})`. A trailing "
            f"`?` says that an operand may be\nabsent. Engines of each: [engines.md](engines.md); what is "
            f"refused, in which words: [refusals.md](refusals.md).\n{PRINTED}\n")
    return head + "".join(_operation(op) for op in ops.BY_NAME.values())


def _operation(op) -> str:
    mark = lambda names: " ".join(n + "?" * (n in op.optional) for n in names)
    call = f"{op.__name__}: {mark(op.reads)} -> {mark(op.writes)}"
    made = op()
    rows = "".join(f"| `{name}` | `{getattr(made, name)!r}` | {_accepted(a)} | {a.doc} |\n"
                   for name, a in op.attributes().items()).replace("\\|", "|")
    numbers = ", ".join(f"`{name}` {value}" for name, value in op.scalars.items()) or "none"
    more = (f"\n| Attribute | Default | Accepted | What |\n| --- | --- | --- | --- |\n{rows}\n"
            f"Numbers, given at execute: {numbers}.\n")
    return section(op.name, call, op.__doc__ or "", more)


def _accepted(attribute) -> str:
    if attribute.members:
        return " ".join(f"`{word}`" for word in attribute.members)
    return attribute.kind if attribute.lo is None else f"{attribute.kind}, at least {attribute.lo}"


def llms_page() -> str:
    """The pages with the first sentence of each, as llmstxt.org has it."""
    lines = ["# cydnn\n\n> cuDNN's primitives, rebuilt in the open: functions on arrays "
             "(`cydnn.conv(x, w)`), operators of\n> torch (`cydnn.torch`) and JAX (`cydnn.jax`), graphs "
             "(`cydnn.pygraph`), the "
             "124 functions of cuDNN v5 (`cydnn.cudnn`),\n> backend descriptors (`cydnn.backend`).\n"]
    index = (DOCS / "index.md").read_text()
    for title, names in re.findall(r":caption: ([^\n]+)\n(?::glob:\n)?(.*?)```", index, re.S):
        lines.append(f"\n## {title}\n\n")
        for name in names.split():
            lines += [_listed(path) for path in sorted(DOCS.glob(f"{name}.md"))]
    return "".join(lines)


def _listed(path: Path) -> str:
    text = path.read_text()
    title = text.partition("\n")[0].removeprefix("# ")
    body = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text.partition("\n\n")[2].partition("\n\n")[0])
    first = re.match(r"[^|\-].*?[.:](?=\s|$)", " ".join(body.split()))
    return f"- [{title}]({path.relative_to(DOCS)})" + (f": {first[0][:-1]}" if first else "") + "\n"


PAGES = {"functions_reference.md": functions_page, "pygraph_reference.md": pygraph_page,
         "operations_reference.md": operations_page, "llms.txt": llms_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
        print(DOCS / name)

"""Print the pages that are tables: ``python tools/print_docs.py`` writes docs/engines.md, docs/api.md,
docs/backend_attributes.md and docs/backend_names.md; a test compares them."""
from __future__ import annotations

import enum
import inspect
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS.parent))

import cydnn
from cydnn import backend, dtypes, engines, ops, status
from cydnn.backend.attributes import UNSET
from cydnn.backend.constants import constants
from cydnn.engines.knobs import TERMS
from cydnn.graph import Many
from cydnn.legacy.enums import CONSTANTS, ENUMS


def sentence(thing) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join(inspect.cleandoc(thing.__doc__).split("\n\n")[0].split()).replace("|", "\\|")


def table(*columns):
    """A Markdown table from its head and rows of cells."""
    def of(rows) -> str:
        lines = [columns, ["---"] * len(columns), *rows]
        return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)
    return of


def fused(takes) -> str:
    """What an engine takes beside one node of its operation."""
    if isinstance(takes, Many):
        return "whole graphs of it"
    before = [f"before {' '.join(takes.before.at)}"] if takes.before else []
    return ", ".join([*before, *(["behind"] if takes.behind else [])])


def engines_page() -> str:
    """Every engine, by operation in the order of the table."""
    head = ("# Engines\n\nHow each operation is computed. Of the engines that accept, the one with the least "
            "estimated time is taken; table order\nbreaks ties. `0:reference` takes every operation on the "
            "NumPy device and none on a GPU. *Fuses*: where a graph of\npointwise operations may be spliced "
            "in: before operands, behind the result.\n\nPrinted by `python tools/print_docs.py`.\n")
    return head + "".join(f"\n## {op.name}\n\n{_engines_of(op)}" for op in ops.BY_NAME.values()) + _knobs()


def _knobs() -> str:
    """What configurations say, by name."""
    of = lambda name: " ".join(str(e.index) for e in engines.TABLE if name in [k.name for k in e.knobs])
    return "\n## Knobs\n\n" + table("Knob", "In the API", "What it sets", "Engines")(
        [(f"`{name}`", f"`{term.api}`", term.doc, of(name)) for name, term in TERMS.items()])


def _engines_of(op) -> str:
    rows = [(e.index, f"[`{e.name}`](../{type(e).__module__.replace('.', '/')}.py)", fused(e.takes),
             ", ".join(sorted(e.notes)), sentence(type(e)))
            for e in engines.engines_for(op) if e is not engines.REFERENCE]
    made_of_others = "On a GPU it is made of other operations.\n"
    return table("Index", "Engine", "Fuses", "Notes", "How")(rows) if rows else made_of_others


def attributes_page() -> str:
    """Every descriptor of the backend API with its attributes."""
    head = ("# Attributes of backend descriptors\n\nBy descriptor type. *Set*: required, or the default of "
            "what may be set; *asked*: found by finalize. *Each*: what each element must be. Operations\nand "
            "their parameters follow from the declarations. Printed by `python tools/print_docs.py`.\n")
    return head + "".join(f"\n## CUDNN_BACKEND_{kind.name}_DESCRIPTOR\n\n{_attributes_of(kind)}"
                          for kind in backend.KINDS.values())


def _attributes_of(kind) -> str:
    def said(attr):
        if attr.access == "get":
            return "asked"
        if attr.is_required:
            return "required"
        return "may be set" if attr.default is UNSET else f"default {attr.default!r}"
    rows = [(f"`CUDNN_ATTR_{a.name}`", int(a.api), a.expects.replace("CUDNN_TYPE_", ""), a.count, a.range,
             said(a), a.doc.replace("|", "\\|")) for a in kind.attributes.values()]
    head = f"{kind.doc}.\n\n" if kind.doc else ""
    return head + table("Attribute", "Number", "Type", "Elements", "Each", "Set", "What")(rows)


def backend_page() -> str:
    """The functions of the backend API, and its enumerants with their numbers."""
    head = ("# Names of cydnn.backend\n\nHow they are used: [backend.md](backend.md); the attributes of each "
            "descriptor:\n[backend_attributes.md](backend_attributes.md). Printed by `python "
            "tools/print_docs.py`.\n\n## Functions\n\n")
    of_c = [n for n in backend.__all__ if n.startswith("cudnnBackend") or n == "Descriptor"]
    calls = table("Function", "What")([(f"`{n}({_arguments(f)})`", sentence(f))
                                       for n in of_c for f in [getattr(backend, n)]])
    rows: dict = {}
    for name, value in constants().items():
        rows.setdefault(value.enum, []).append(f"`{name}` {int(value)}")
    tables = [(f"`{kind}`", ", ".join(names)) for kind, names in rows.items()]
    return f"{head}{calls}\n## Enumerants\n\n" + table("Type", "Names and numbers")(tables)


def api_page() -> str:
    """The public names of the package, the methods of pygraph, the operations, the types, the errors."""
    head = ("# The public names\n\nWhat `import cydnn` offers, beside `cydnn.cudnn` (see "
            "[legacy_api.md](legacy_api.md)). Printed by `python tools/print_docs.py`.\n")
    sections = dict(Names=_names, pygraph=_methods, Enumerations=_enumerations,
                    Operations=_operations, Types=_types, Errors=_errors)
    sections["Constants of cydnn.cudnn"] = _constants
    return head + "".join(f"\n## {title}\n\n{body()}" for title, body in sections.items())


def _public(accept) -> dict:
    return {name: value for name in cydnn.__all__ if accept(value := getattr(cydnn, name))}


def _is_enum(value) -> bool:
    return isinstance(value, enum.EnumMeta)


def _is_error(value) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _arguments(function) -> str:
    """Names of the arguments; optional ones with a question mark."""
    given = [p for p in inspect.signature(function).parameters.values()
             if p.name != "self" and not p.name.startswith("_")]
    return ", ".join({p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
                     + "?" * (p.default is not p.empty) for p in given)


def _names() -> str:
    return table("Name", "What")(
        [(f"`{n}`", sentence(v)) for n, v in _public(lambda v: not _is_enum(v) and not _is_error(v)).items()])


def _methods() -> str:
    methods = {n: m for n, m in inspect.getmembers(cydnn.pygraph, inspect.isfunction)
               if not n.startswith("_")}
    return table("Method", "What")(
        [(f"`{n}({_arguments(m)})`", sentence(m)) for n, m in methods.items() if not hasattr(m, "is_later")])


def _enumerations() -> str:
    return table("Enumeration", "Members", "What")(
        [(f"`{n}`", " ".join(m.name for m in v), sentence(v)) for n, v in _public(_is_enum).items()])


def _operations() -> str:
    mark = lambda op, names: " ".join(n + "?" * (n in op.optional) for n in names)
    return table("Operation", "Reads", "Writes", "Attributes", "Numbers", "Gradients")(
        [(f"`{op.name}`", mark(op, op.reads), mark(op, op.writes), " ".join(op.attributes()),
          " ".join(op.scalars), _gradients(op)) for op in ops.BY_NAME.values()])


def _gradients(op) -> str:
    """Inputs, each with the operation that computes its gradient, in some mode."""
    modes = op.attributes()["mode"].members if "mode" in op.attributes() else ()
    made = [op(), *(op(mode=mode) for mode in modes)]
    return ", ".join(dict.fromkeys(f"{n}: `{g.op.name}`" for one in made for n, g in one.gradients.items()))


def _types() -> str:
    return table("Type", "Bits", "API number")(
        [(f"`{d.name}`", d.bits, d.enum) for d in dtypes.BY_NAME.values()])


def _errors() -> str:
    bases = lambda c: " ".join(b.__name__ for b in c.__mro__
                               if b.__module__ == "builtins" and b not in (object, BaseException, Exception))
    return table("Error", "Status", "Also", "When")(
        [(f"`{c.__name__}`", f"{c.status} {c.api}", bases(c), sentence(c))
         for c in dict.fromkeys((status.CydnnError, *status.CLASSES, *_public(_is_error).values()))])


def _constants() -> str:
    """The enums of the v5 API, each with its numbers, then what is of no enum."""
    alone = {n: v for n, v in CONSTANTS.items() if not any(n in e.by_name for e in ENUMS)}
    rows = [(e.name, e.by_name) for e in ENUMS]
    rows += [("cudnnStatus_t", {n: v for n, v in alone.items() if n.startswith("CUDNN_STATUS_")}),
             ("", {n: v for n, v in alone.items() if not n.startswith("CUDNN_STATUS_")})]
    return table("Type", "Names and numbers")(
        [(f"`{name}`" * bool(name), " ".join(f"`{n}` {v}" for n, v in members.items()))
         for name, members in rows])


PAGES = {"engines.md": engines_page, "api.md": api_page, "backend_attributes.md": attributes_page,
         "backend_names.md": backend_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
        print(DOCS / name)

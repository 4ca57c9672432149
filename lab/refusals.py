"""Every sentence that the library refuses with, read from its source, and which of them calls pass through.

    python -m lab.refusals > docs/refusals.md       # the page of all

A sentence is a string that is raised with an exception of the caller's making, that an engine or an operation
yields (alone: a reason; behind a condition: a rule), that ``require`` is given, or that is raised elsewhere:
what a function of WORDED is given, or what says that something "must" be (kind "said"). Values are written as
``{expression}``.
"""
from __future__ import annotations

import ast
import re
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import NamedTuple

import cydnn
from cydnn.status import CydnnError

PACKAGE = Path(cydnn.__file__).resolve().parent
TESTS = str(Path(__file__).resolve().parents[1] / "tests")
# Not the caller's making: a fault of the library, of the machine, or of who writes an engine or an op.
OTHERS = ("InternalError", "NotImplementedError", "MemoryError", "AllocFailed", "SystemError",
          "ExecutionFailed", "DriverNotFound", "AttributeError", "StopIteration", "ImportError", "OSError")
WORDED = ("_refuse", "fail")                     # what raises the text that it is given
RAISED = re.compile(r"^( *)raise (?=[A-Za-z_.]+\()", re.M)


class Sentence(NamedTuple):
    file: str                                    # "engines/softmax/view.py"
    first: int
    last: int
    owner: str                                   # "SoftmaxRows.limits"
    kind: str                                    # reason, rule, raise, require, said
    pattern: str                                 # "x must have rank >= 2; got {x.rank}"

    @property
    def key(self) -> str:
        """Its name where lines move."""
        return f"{self.file} {self.owner}: {' '.join(self.pattern.split())}"

    @property
    def words(self) -> re.Pattern:
        """What any text of it matches somewhere."""
        return _regex(self.pattern)


@cache
def _regex(pattern: str) -> re.Pattern:
    parts = re.split(r"\{(?:[^{}]|\{[^{}]*\})*\}", pattern)
    return re.compile(".*".join(map(re.escape, parts)), re.S)


def pattern_of(node) -> str | None:
    """The text of an expression that makes a sentence; None where it makes none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
                       for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = pattern_of(node.left), pattern_of(node.right)
        if left or right:
            return "".join(side or "{" + ast.unparse(one) + "}"
                           for side, one in ((left, node.left), (right, node.right)))
    return None


def _words(pattern) -> bool:
    """It says something beside its values."""
    return bool(pattern) and len(re.findall(r"[a-z]{2,}", re.sub(r"\{.*?\}", "", pattern))) >= 2


class _Reader(ast.NodeVisitor):
    """The sentences of one file."""

    def __init__(self, file: str):
        self.file, self.found, self.owners, self.used = file, [], [], set()

    def add(self, node, kind, text, at=None):
        if _words(pattern_of(text)):
            at = at or node
            self.found.append(Sentence(self.file, at.lineno, at.end_lineno, ".".join(self.owners), kind,
                                       pattern_of(text)))
        self.used.update(map(id, ast.walk(node)))

    def visit_ClassDef(self, node):
        self.owners.append(node.name)
        self.used.update(map(id, node.body[:1]))
        self.generic_visit(node)
        self.owners.pop()

    visit_FunctionDef = visit_ClassDef

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):             # no docstring
            self.generic_visit(node)

    def visit_Raise(self, node):
        made = node.exc
        if isinstance(made, ast.Call):
            name = getattr(made.func, "attr", getattr(made.func, "id", ""))
            if name not in OTHERS and made.args:
                self.add(node, "raise", made.args[0])
        self.used.update(map(id, ast.walk(node)))

    def visit_Yield(self, node):
        value = node.value
        if isinstance(value, ast.Tuple) and len(value.elts) == 2:
            self.add(node, "rule", value.elts[1])
        elif isinstance(value, ast.IfExp):
            self.add(node, "reason", value.body)
        elif value is not None:
            self.add(node, "reason", value)

    def visit_YieldFrom(self, node):
        if isinstance(node.value, ast.GeneratorExp):
            self.add(node, "reason", node.value.elt)
        self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "require" and len(node.args) > 1:
            self.add(node, "require", node.args[1])
        if name in WORDED:
            for text in node.args:
                self.add(text, "said", text)
        if name == "warning":                    # it goes on
            self.used.update(map(id, ast.walk(node)))
        self.generic_visit(node)

    def visit_JoinedStr(self, node):
        if id(node) not in self.used and " must " in f" {pattern_of(node)}":
            self.add(node, "said", node)
        self.used.add(id(node))

    def visit_Constant(self, node):
        if id(node) not in self.used and isinstance(node.value, str) and " must " in f" {node.value}":
            self.add(node, "said", node)


def of_python(file: str, source: str) -> list[Sentence]:
    """The sentences of a Python file."""
    reader = _Reader(file)
    reader.visit(ast.parse(source))
    return reader.found


def of_cython(file: str, source: str) -> list[Sentence]:
    """The sentences that a Cython file raises. Their lines are not followed: what they say is read."""
    found = []
    for match in RAISED.finditer(source):
        at = end = source.index("(", match.end())
        depth = 0
        while depth or end == at:
            depth += {"(": 1, ")": -1}.get(source[end], 0)
            end += 1
        made, first = source[match.end():end], source.count("\n", 0, match.start()) + 1
        try:
            call = ast.parse(made.strip()).body[0].value
        except SyntaxError:
            continue                             # a cast, which only Cython reads
        if call.args and getattr(call.func, "id", "") not in OTHERS and _words(pattern_of(call.args[0])):
            found.append(Sentence(file, first, first + made.count("\n"), "", "said",
                                  pattern_of(call.args[0])))
    return found


@cache
def sentences() -> tuple[Sentence, ...]:
    """Every sentence of the rooms, in the order of files and lines."""
    found = []
    for path in (*sorted(PACKAGE.rglob("*.pyx")), *sorted(PACKAGE.rglob("*.py"))):
        read = of_cython if path.suffix == ".pyx" else of_python
        found += read(path.relative_to(PACKAGE).as_posix(), path.read_text())
    return tuple(found)


@cache
def said() -> list[Sentence]:
    return [s for s in sentences() if s.kind == "said"]


@cache
def raising(file: str) -> frozenset:
    """The lines of the statements that raise, of a file of the library."""
    if not file.startswith(str(PACKAGE)):
        return frozenset()
    nodes = (node for node in ast.walk(ast.parse(Path(file).read_text())) if isinstance(node, ast.Raise))
    return frozenset(line for node in nodes for line in range(node.lineno, node.end_lineno + 1))


@cache
def by_path() -> dict:
    found: dict = {}
    for s in sentences():
        found.setdefault(str(PACKAGE / s.file), []).append(s)
    return found


class Watch:
    """``with Watch() as seen``: the sentences that are given inside. ``seen.texts``: {what was given: the
    sentence}; ``seen.hear(text)`` adds those that cannot be followed by their line."""

    codes: dict = {}                             # of all of them: {code: its sentences}

    def __init__(self):
        self.seen, self.texts, self.entered = set(), {}, set()

    def __enter__(self):
        self.before, self.made, watch = sys.gettrace(), CydnnError.__init__, self

        def noted(error, message="", **facts):
            frame = sys._getframe(1)
            watch.hear(str(message), frame.f_code.co_filename, frame.f_lineno)
            watch.made(error, message, **facts)
        CydnnError.__init__ = noted
        sys.settrace(self.call)
        return self

    def __exit__(self, *error):
        sys.settrace(self.before)
        CydnnError.__init__ = self.made

    def call(self, frame, event, arg):
        code = frame.f_code
        if code not in self.codes:
            lines = {line for *_, line in code.co_lines() if line}
            self.codes[code] = [s for s in by_path().get(code.co_filename, ())
                                if any(s.first <= line <= s.last for line in lines)]
        self.entered.update(self.codes[code])
        if not self.codes[code] and not code.co_filename.startswith(TESTS):
            return None
        frame.f_trace_lines = False
        return self.event

    def event(self, frame, event, arg):
        if event == "return" and isinstance(arg, (str, tuple)):
            refuses = type(arg) is tuple and len(arg) == 2 and isinstance(arg[1], str) and not arg[0]
            text = arg[1] if refuses else arg
            self.note(frame, ("rule",) if refuses else ("reason",), text)
        elif event == "exception":
            args = getattr(arg[1], "args", ())
            self.note(frame, ("raise", "require"), args[0] if args else "")
            if args and not isinstance(arg[1], CydnnError):
                for last, line in list(traceback.walk_tb(arg[2]))[-1:]:      # none of a generator's end
                    self.hear(str(args[0]), last.f_code.co_filename, line)
        return self.event

    def note(self, frame, kinds, text):
        for s in self.codes[frame.f_code]:
            if s.kind in kinds and s.first <= frame.f_lineno <= s.last and isinstance(text, str):
                if s.words.search(text):
                    self.seen.add(s)
                    self.texts[text] = s

    def hear(self, text: str, file: str, line: int):
        """Sentences that ``text`` says, of those whose line is not followed: their function was entered. What
        Cython raises comes from a line of Python that raises nothing."""
        is_python = line in raising(file)
        self.seen.update(s for s in said() if s.words.search(text)
                         and (not is_python if s.file.endswith(".pyx") else s in self.entered))


# ---- The page ----

TITLES = {"ops": "Operations", "engines": "Engines", "fusion": "Fusion", "kernels": "Kernels",
          "graph": "Graphs", "heuristics": "The choice of engines", "backend": "Backend descriptors",
          "frontend": "The front end", "legacy": "The v5 functions", "device": "Devices",
          "bench": "Benchmarks"}
HEAD = """# What is refused, and how it reads

Every sentence that the library refuses something with, by the file that says it; `{...}` is what stands there
in a text. Each has a problem or a test that provokes it in `tests/refusals/`, to which
`tests/test_refusals.py` holds it. Printed by `python -m lab.refusals`.
"""


def page() -> str:
    """docs/refusals.md."""
    lines, room, file = [HEAD], "", ""
    for s in sorted(sentences(), key=lambda s: (_title(s), s.file, s.first)):
        if _title(s) != room:
            room = _title(s)
            lines.append(f"## {room}\n")
        if s.file != file:
            file = s.file
            lines.append(f"`cydnn/{file}`\n")
        lines.append(f"- {' '.join(s.pattern.split())}")
        lines.append("")
    return "\n".join(lines).replace("\n\n- ", "\n- ").replace("`\n- ", "`\n\n- ") + "\n"


def _title(s: Sentence) -> str:
    return TITLES.get(s.file.split("/")[0], "The core")


if __name__ == "__main__":
    print(page(), end="")

"""Mutants of Python: one place of a function changed, as code that takes the place of the function's.

``mutants(path, keep)`` yields each with its line, its kind and the text of the place before and after. Left
alone: what a sentence says (format strings, the arguments of what is raised), docstrings, annotations,
default values, and functions in functions as functions of their own: they are a part of the outer one.
"""
from __future__ import annotations

import ast
import copy
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Callable, Iterator, NamedTuple

COMPARED = {ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
            ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,),
            ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,)}
CALCULATED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
              ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
              ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """``function``: (file, name, first line), as its code says; ``name``: the qualified one; ``old`` and
    ``new``: the place's text."""
    function: tuple
    name: str
    line: int
    kind: str
    old: str
    new: str
    make: Callable[[], CodeType]

    def __str__(self):
        return f"{self.file}:{self.line} {self.name} {self.kind}: {self.old} -> {self.new}"

    @property
    def text(self) -> str:
        """The same where lines move."""
        return f"{self.place} {self.kind}: {self.old} -> {self.new}"

    @property
    def file(self) -> str:
        """As in "ops/conv.py"."""
        return self.function[0].rpartition("cydnn/")[2]

    @property
    def place(self) -> str:
        """The function, where lines move."""
        return f"{self.file} {self.name}"


def functions(tree) -> Iterator[tuple]:
    """(qualified name, function) of a module: those of modules and classes, lambdas in tables too."""
    def inside(node, names):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.Lambda)):
                yield ".".join([*names, getattr(child, "name", "<lambda>")]), child
            else:
                yield from inside(child, [*names, child.name] if isinstance(child, ast.ClassDef) else names)
    yield from inside(tree, [])


def key(path, function) -> tuple:
    """(file, name, first line) of a function, as its code says."""
    first = min([function.lineno, *(d.lineno for d in getattr(function, "decorator_list", ()))])
    return str(path), getattr(function, "name", "<lambda>"), first


def mutants(path, keep=lambda name: True) -> Iterator[Mutant]:
    """Every mutant of the functions of a file whose qualified name is kept, in the order of the text."""
    tree = ast.parse(Path(path).read_text())
    for name, function in functions(tree):
        if keep(name):
            for node, where in places(function):
                for kind, new in changes(node):     # what has changes has a line
                    yield Mutant(key(path, function), name, node.lineno, kind, _short(node), _short(new),
                                 partial(_compiled, tree, path, function, where, new))


def places(function) -> Iterator[tuple]:
    """(node, way to it from the function) of what may be changed."""
    body = function.body if isinstance(function.body, list) else [function.body]
    for i, node in enumerate(body):
        way = (("body", i),) if isinstance(function.body, list) else (("body", None),)
        yield from _places(node, way)


def _places(node, way) -> Iterator[tuple]:
    if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert, ast.AnnAssign)) or _is_words(node):
        return
    yield node, way
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "args", "decorator_list") and not isinstance(node, ast.Call):
            continue
        if isinstance(node, ast.Yield) and isinstance(value, ast.Tuple) and len(value.elts) == 2:
            yield from _places(value.elts[0], (*way, (field, None), ("elts", 0)))
        elif isinstance(value, ast.AST):
            yield from _places(value, (*way, (field, None)))
        elif isinstance(value, list):
            for i, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield from _places(one, (*way, (field, i)))


def _is_words(node) -> bool:
    """A docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def changes(node) -> Iterator[tuple]:
    """(kind, new node) of one place."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            for other in COMPARED[type(op)]:
                yield "comparison", _with(node, ops=[*node.ops[:i], other(), *node.ops[i + 1:]])
    elif isinstance(node, ast.BoolOp):
        yield "and for or", _with(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        for i in range(len(node.values)):
            rest = [*node.values[:i], *node.values[i + 1:]]
            yield "dropped condition", rest[0] if len(rest) == 1 else _with(node, values=rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield "dropped sign", node.operand
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in CALCULATED:
        yield "arithmetic", _with(node, op=CALCULATED[type(node.op)]())
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield "turned condition", _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "returns None", _with(node, value=ast.Constant(None))
    elif isinstance(node, ast.Expr) and isinstance(node.value, (ast.Yield, ast.YieldFrom, ast.Call)):
        yield "dropped statement", ast.copy_location(ast.Pass(), node)


def _is_none(node) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _constants(node) -> Iterator[tuple]:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant", ast.Constant(node.value + 1)
        if node.value > 1:
            yield "constant", ast.Constant(node.value - 1)


def _calls(node) -> Iterator[tuple]:
    if isinstance(node.func, ast.Name) and node.func.id in NAMES:
        yield "another function", _with(node, func=ast.Name(NAMES[node.func.id], ast.Load()))
    elif len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
        if ast.dump(node.args[0]) != ast.dump(node.args[1]):
            yield "swapped arguments", _with(node, args=[node.args[1], node.args[0], *node.args[2:]])


def _with(node, **fields):
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _short(node) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 76 else text[:73] + "..."


def _compiled(tree, path, function, way, new) -> CodeType:
    """The code of the function with ``new`` in a place."""
    changed = copy.deepcopy(tree)
    owner = next(f for _, f in functions(changed) if f.lineno == function.lineno
                 and f.col_offset == function.col_offset)
    for field, index in way[:-1]:
        owner = getattr(owner, field) if index is None else getattr(owner, field)[index]
    field, index = way[-1]
    old = getattr(owner, field) if index is None else getattr(owner, field)[index]
    placed = ast.copy_location(copy.deepcopy(new), old)
    if index is None:
        setattr(owner, field, placed)
    else:
        getattr(owner, field)[index] = placed
    return code_of(compile(ast.fix_missing_locations(changed), str(path), "exec"), key(path, function))


def noting(path, functions_of: set, name: str) -> dict:
    """{function: its code, which first adds the function to the set that the builtin ``name`` is}"""
    tree = ast.parse(Path(path).read_text())
    found = [(key(path, f), f) for _, f in functions(tree) if key(path, f) in functions_of]
    for made, function in found:
        note = ast.parse(f"{name}.add({made!r})").body[0]
        if isinstance(function, ast.Lambda):
            both = ast.Tuple([note.value, function.body], ast.Load())
            function.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        else:
            function.body.insert(0, note)
    module = compile(ast.fix_missing_locations(tree), str(path), "exec")
    return {made: code_of(module, made) for made, _ in found}


def code_of(code: CodeType, wanted: tuple) -> CodeType | None:
    """The code of a function within that of its module."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if (const.co_name, const.co_firstlineno) == wanted[1:]:
                return const
            found = code_of(const, wanted)
            if found is not None:
                return found
    return None

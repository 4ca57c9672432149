"""The stubs say what the extensions have; the table of driver functions has the order of its struct."""
import ast
import re
from contextvars import ContextVar
from pathlib import Path

import pytest

from cydnn import _core
from cydnn.core import (_address, _call, _caller, _capsule, _context, _descriptor, _driver, _embed, _handles,
                        _link, _nodes, _numbers, _operands, _peers, _step, _table, _tape)
from cydnn.kernels import _seal

VALUES = tuple, dict, frozenset, str, ContextVar
PACKAGE = Path(__file__).parents[2] / "cydnn"
OWN = {module.__name__.partition(".")[2].replace(".", "/"): module
       for module in (_core, _address, _call, _caller, _capsule, _context, _descriptor, _driver, _embed,
                      _handles, _link, _nodes, _numbers, _operands, _peers, _seal, _step, _table, _tape)}


def arguments(function):
    return [a.arg for a in function.args.args]


def stub_of(name):
    """{name: argument names}, {class: {member: argument names, or None for an attribute}}"""
    functions, classes = {}, {}
    for node in ast.parse((PACKAGE / f"{name}.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = arguments(node)
        if isinstance(node, ast.AnnAssign):
            functions[node.target.id] = None
        if isinstance(node, ast.ImportFrom) and node.level:
            functions.update({a.asname: None for a in node.names if a.asname})
        if isinstance(node, ast.ClassDef):
            body = [n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AnnAssign))]
            classes[node.name] = {
                n.name if isinstance(n, ast.FunctionDef) else n.target.id:
                None if isinstance(n, ast.AnnAssign) or n.decorator_list else arguments(n) for n in body}
    return functions, classes


def signature(thing):
    """Argument names in the first line of a docstring, as Cython embeds them."""
    found = re.match(r"\w+\((.*)\)(?: -> \S+)?$", (thing.__doc__ or "").split("\n")[0])
    return [re.split(r"[:=]", a)[0].strip() for a in re.split(r",\s*(?![^()]*\))", found[1])
            if a.strip() not in ("/", "")] if found else None


@pytest.mark.parametrize("name", OWN)
def test_stub_has_the_names_of_the_module(name):
    module, (functions, classes) = OWN[name], stub_of(name)
    made_in = {n: str(getattr(getattr(module, n), "__module__", "")) for n in dir(module)}
    ours = {n for n in dir(module)
            if not n.startswith("_") and (re.match(r"cydnn\.(core\.)?_", made_in[n])
                                          or isinstance(getattr(module, n), VALUES)
                                          or "built-in" in repr(getattr(module, n)) and n in functions)}
    assert ours == functions.keys() | classes.keys()
    for function, names in functions.items():
        if names is not None:
            assert signature(getattr(module, function)) == names, function


@pytest.mark.parametrize("name", OWN)
def test_stub_has_the_members_of_each_class(name):
    module, (_, classes) = OWN[name], stub_of(name)
    for cls, members in classes.items():
        real = getattr(module, cls)
        public = {m for m in vars(real) if not m.startswith("_")}
        assert public == {m for m in members if not m.startswith("_")}, cls
        for member, names in members.items():
            assert hasattr(real, member), (cls, member)
            if names is not None and not member.startswith("__"):
                assert signature(getattr(real, member)) == names, (cls, member)


def test_symbols_are_in_the_order_of_the_struct():
    struct = (PACKAGE / "core" / "cuda.pxd").read_text().split("cdef struct Driver:")[1]
    fields = [line.split()[1] for line in struct.strip().splitlines()]
    assert ["cu" + field for field in fields] == [row.name for row in _driver.SYMBOLS]

"""Nothing that is read is executed: no pickle, no eval, no exec, no loader that makes objects, in any file of
the library. What stands in ALLOWED says why it may."""
from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[1] / "cydnn"
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "joblib", "code",
           "codeop", "runpy"}
CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.startfile", "np.load",
         "numpy.load",
         "numpy.fromregex", "torch.load", "types.FunctionType", "types.CodeType", "ctypes.PyDLL"}
STARTS = ("os.exec", "os.spawn", "subprocess.")
ALLOWED = {
    "__main__.py": {"subprocess"},                             # ptx --build: the compiler, by this Python
    "kernels/expressions.py": {"eval", "compile"},             # of a tree of which every node was checked
    "legacy/__main__.py": {"exec"}}                            # examples of the library's own docstrings


def dotted(node) -> str:
    """``os.system`` of the tree that says so; "" for what has no name."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def found(text: str) -> set:
    """What of it a source uses."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            if called in CALLS or called.startswith(STARTS):
                names.add(called)
        imported = [a.name for a in node.names] if isinstance(node, ast.Import) else [
            node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        names |= {name for name in imported if name.split(".")[0] in {*MODULES, "subprocess"}}
    return names


def test_no_source_executes_what_it_reads():
    sources = sorted(LIBRARY.rglob("*.py"))
    assert len(sources) > 200
    wrong = {name: more for path in sources for name in [str(path.relative_to(LIBRARY))]
             if (more := found(path.read_text()) - ALLOWED.get(name, set()))}
    assert not wrong
    for name, uses in ALLOWED.items():
        assert found((LIBRARY / name).read_text()) == uses, f"{name}: no longer needed"


def test_no_cython_source_does():
    names = "|".join(MODULES)
    words = re.compile(rf"\b(?:import|from) (?:{names})\b|\b(?:eval|exec|__import__|system|popen)\(")
    for path in LIBRARY.rglob("*.p[yx][xd]"):
        code = re.sub(r'""".*?"""|#[^\n]*', "", path.read_text(), flags=re.S)
        assert not words.search(code), path


@pytest.mark.parametrize("text, name", [
    ("import pickle", "pickle"), ("from yaml import load", "yaml"), ("eval(open('x').read())", "eval"),
    ("def f(x):\n    return exec(x)", "exec"), ("import os\nos.system(x)", "os.system"),
    ("import subprocess as s", "subprocess"), ("np.load(path, allow_pickle=True)", "np.load"),
    ("os.execv(path, [])", "os.execv")])
def test_the_lint_sees(text, name):
    assert found(text) == {name}

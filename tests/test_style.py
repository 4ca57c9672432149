"""What fits in a head: lines of at most 110 bytes, functions of 40 lines, kernels of 150, files of 400."""
from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINE, FUNCTION, KERNEL, FILE = 110, 40, 150, 400
PYTHON, CYTHON, CUDA = (".py", ".pyi"), (".pyx", ".pxd"), (".cu", ".cuh", ".c")
HEAD = re.compile(r"( *)(?:cp?def|def)\b[^=\n]*\(")


def sources() -> list[str]:
    """Names of the sources that git knows; where it knows none, of all that lie here but in build/."""
    try:
        said = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
        names = said.stdout.splitlines()
    except OSError:
        names = []
    if not names:
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        names = [str(path) for path in found if path.parts[0] != "build"]
    return sorted(n for n in names if n.endswith((*PYTHON, *CYTHON, *CUDA)) and (ROOT / n).is_file())


SOURCES = sources()


def of(*suffixes):
    """(name, lines) of the sources with these endings, but for what is printed."""
    found = [(n, (ROOT / n).read_text().splitlines()) for n in SOURCES if n.endswith(suffixes)]
    return [(n, lines) for n, lines in found if lines[:1] != ["# Printed by tools/print_stubs.py."]]


def functions_of_python(lines):
    """(name, first line, how many) of every function, without its decorators."""
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def functions_of_cython(lines):
    """The same: a body reaches down to the last line that stands further right than its head."""
    for first, line in enumerate(lines):
        found, behind = HEAD.match(line), first
        if not found:
            continue
        depth = line.count("(") - line.count(")")
        while depth > 0:
            behind += 1
            depth += lines[behind].count("(") - lines[behind].count(")")
        if not lines[behind].split("#")[0].rstrip().endswith(":"):
            continue                             # declared, not defined
        last = behind
        for i in range(behind + 1, len(lines)):
            if lines[i].strip():
                if len(lines[i]) - len(lines[i].lstrip()) <= len(found[1]):
                    break
                last = i
        yield line.split("(")[0].split()[-1], first + 1, last - first + 1


def kernels_of_cuda(lines):
    """The same of kernels, which stand at the left edge and end there."""
    for first, line in enumerate(lines):
        if line.startswith('extern "C" __global__'):
            last = next(i for i in range(first, len(lines)) if lines[i].startswith("}"))
            yield "KERNEL", first + 1, last - first + 1


def test_lines():
    wrong = [f"{n}:{i}: {len(line.encode())} bytes" for n, lines in of(*PYTHON, *CYTHON, *CUDA)
             for i, line in enumerate(lines, 1) if len(line.encode()) > LINE]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("suffixes, read, most", [
    (PYTHON, functions_of_python, FUNCTION), (CYTHON, functions_of_cython, FUNCTION),
    (CUDA, kernels_of_cuda, KERNEL)], ids=["python", "cython", "cuda"])
def test_functions(suffixes, read, most):
    found = [(n, *function) for n, lines in of(*suffixes) for function in read(lines)]
    assert len(found) > 40
    wrong = [f"{n}:{first}: {name} has {count} lines" for n, name, first, count in found if count > most]
    assert not wrong, "\n".join(wrong)


def test_files():
    wrong = [f"{n}: {len(lines)} lines" for n, lines in of(*PYTHON, *CYTHON, *CUDA) if len(lines) > FILE]
    assert not wrong, "\n".join(wrong)


def test_functions_are_read():
    text = ["cdef class A:", "    cdef int f(self, int a,", "               int b) except -1:",
            "        return 1", "", "    cdef int g(self)", "    def h(self):", "        # more",
            "        return (1,", "            2)"]
    assert list(functions_of_cython(text)) == [("f", 2, 3), ("h", 7, 4)]
    assert list(functions_of_python(["@a", "def f():", "    def g(): pass", "    return g"])) == [
        ("f", 2, 3), ("g", 3, 1)]
    text = ['extern "C" __global__ void KERNEL(', "    int n) {", "}"]
    assert list(kernels_of_cuda(text)) == [("KERNEL", 1, 3)]

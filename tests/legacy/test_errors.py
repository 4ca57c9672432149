"""Every documented error condition: the right class, function, argument and value in the message, nothing
written. docs/legacy/ lists them."""
import ast
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn import legacy
from cydnn.legacy import FUNCTIONS
from cydnn.status import CydnnError

from .errors import Row, c_name, catalogue, family, modules

ROWS = catalogue()
OWN = [name for name, (function, _) in FUNCTIONS.items()
       if name == function.__name__]
GOOD = {name: make for module in modules().values() for name, make in module.GOOD.items()}
FOLDER = Path(legacy.__file__).parent


@pytest.mark.parametrize("function", OWN)
def test_every_function_has_a_call_that_works(function):
    assert function in modules()[family(function)].GOOD
    getattr(c, function)(**GOOD[function]())


def provoked(row: Row) -> BaseException:
    """The error of a row; nothing was written, and no setter set anything."""
    arguments = GOOD[row.function]()
    if row.function.startswith("set") and row.function.endswith(("Descriptor", "DescriptorEx", "_v3", "_v5")):
        getattr(c, row.function)(**arguments)                 # a failed setter leaves what is set
    arguments |= row.change
    arrays = [a for a in arguments.values() if isinstance(a, np.ndarray)]
    before = [a.tobytes() for a in arrays]
    said = {name: repr(a) for name, a in arguments.items() if not isinstance(a, np.ndarray)}
    with pytest.raises(row.error) as caught:
        getattr(c, row.function)(**arguments)
    assert [a.tobytes() for a in arrays] == before
    assert {name: repr(a) for name, a in arguments.items() if name in said} == said
    return caught.value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.function}: {row.condition}")
def test_condition(row):
    error = provoked(row)
    text = str(error)
    assert re.search(row.words, text, re.S), text
    if isinstance(row.error, type) and issubclass(row.error, CydnnError):
        assert type(error) is row.error and error.status == row.error.status and error.api in text
        assert c_name(row.function) in text or row.function == "create", text


# -- Nothing is refused that is not in the catalogue ---------------------------------------------------------

ELSEWHERE = {                                    # words of a refusal that no arguments provoke: why
    "InternalError": "a fault of this library",
    "pickle: ": "no function: test_descriptors.py",
    "must not be null; got {pointers[i]}": "of the fast path: the slow one says it again",
    "except (BadParam, NotSupported) as error": "no engine: test_workspace.py",
}


def refusals(path: Path):
    """(first line, last line, text) of every raise and every require of a file; the text of a raise begins
    with what it answers."""
    source = path.read_text()
    nodes = list(ast.walk(ast.parse(source)))
    answers = {id(one): node for node in nodes if isinstance(node, ast.ExceptHandler) for one in node.body}
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else None
        is_require = getattr(called, "attr", getattr(called, "id", "")) == "require"
        if is_require or isinstance(node, ast.Raise):
            text = ast.get_source_segment(source, answers.get(id(node), node))
            yield node.lineno, node.end_lineno, text


@pytest.fixture(scope="module")
def seen():
    """{file: lines} that the errors of the catalogue passed through."""
    found: dict = {}
    for row in ROWS:
        try:
            getattr(c, row.function)(**{**GOOD[row.function](), **row.change})
        except (CydnnError, TypeError, ValueError) as error:
            while error is not None:
                for frame in traceback.extract_tb(error.__traceback__):
                    found.setdefault(Path(frame.filename).name, set()).add(frame.lineno)
                error = error.__context__
    return found


@pytest.mark.parametrize("file", sorted(m + ".py" for m in {family(f) for f in OWN} | {"call", "arguments"}))
def test_every_refusal_of_the_sources_is_provoked(file, seen):
    lines = seen.get(file, set())
    missing = [f"{file}:{first}: {text}" for first, last, text in refusals(FOLDER / file)
               if not lines & set(range(first, last + 1)) and not any(words in text for words in ELSEWHERE)]
    assert not missing, "\n".join(missing)

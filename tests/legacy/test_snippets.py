"""Every public function has a snippet in its docstring, which runs behind the lines at the top of its
file."""
import doctest
import sys

import pytest

from cydnn.legacy import FUNCTIONS

OWN = {name: function for name, (function, _) in FUNCTIONS.items()
       if name == function.__name__}
PARSER = doctest.DocTestParser()


def lines(thing) -> list:
    return PARSER.get_examples(thing.__doc__)


@pytest.mark.parametrize("name", OWN)
def test_a_snippet_calls_its_function_and_runs(name):
    function = OWN[name]
    own, before = lines(function), lines(sys.modules[function.__module__])
    assert any(f".{name}(" in example.source for example in own), f"{name} has no snippet in its docstring"
    test = doctest.DocTest([*before, *own], {}, name, None, None, None)
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)

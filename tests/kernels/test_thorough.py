"""The problems that mutants asked for launch what they are for."""
import pytest

from cydnn import debug, kernels
from cydnn.device.facts import KNOWN
from support import thorough


@pytest.mark.parametrize("source", thorough.LINES)
def test_lines_launch_the_source(source):
    variants = [kernels.get(n) for n in kernels.names() if kernels.get(n).source == source]
    assert variants, f"{source} is no kernel source"
    reached = [k for k in variants if debug.cases(k.name, KNOWN["h200"], thorough.lines(k))]
    assert len(reached) >= len(variants) // 2, f"{source}: lines of thorough.py must launch at least half of its variants; got {reached} of {variants}"

"""The programs on the references and on the kernels of sm_80 in the interpreter."""
from __future__ import annotations

import pytest

from support.guard.mirror import Mirror

from .programs import PROGRAMS
from .worlds import Arrays


@pytest.fixture(scope="module", params=["numpy", "ptx:sm_80"])
def world(request):
    found = Arrays(Mirror("sm_80") if request.param.startswith("ptx") else "numpy")
    yield found
    found.close()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(world, program):
    program(world)

"""Knobs are declared: a name has one row, which the API has too."""
from __future__ import annotations

from cydnn.backend import number
from cydnn.engines import TABLE
from cydnn.engines.knobs import TERMS
from cydnn.frontend.enums import knob_type


def test_every_knob_of_an_engine_has_a_row_and_every_row_an_engine():
    assert {k.name for e in TABLE for k in e.knobs} == TERMS.keys()


def test_a_row_names_one_type_of_the_api():
    numbers = {name: number(f"CUDNN_KNOB_TYPE_{term.api}") for name, term in TERMS.items()}
    assert len(set(numbers.values())) == len(TERMS)
    assert numbers == {name: knob_type[term.api].value for name, term in TERMS.items()}

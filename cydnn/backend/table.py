"""What the backend API calls each operation, operand, number, field and word, and its number there.

Nothing is listed here: operations declare their names (``Op.api``, ``Op.api_names``,
``Attribute.api``, ``members``), and the numbers stand in numbers.csv. A name without a number is
an error when the table is made.
"""
from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..given import shown
from ..ops import OPS, Op
from ..status import BadParam, InternalError

NUMBERS = Path(__file__).with_name("numbers.csv")


class Row(NamedTuple):
    """One attribute of an operation: its name in the declaration, in the API, its number,
    what it is, and its words."""
    name: str
    api: str
    number: int
    kind: str                                    # "tensor", "tensors", "number", or an Attribute's kind
    doc: str
    words: dict                                  # word of the declaration -> (name in the API, number)


class Operation(NamedTuple):
    """An operation as a backend descriptor."""
    op: type
    api: str
    number: int
    rows: tuple


@lru_cache(maxsize=None)
def _numbers() -> dict:
    with NUMBERS.open(newline="") as file:
        return {row["name"]: int(row["value"]) for row in csv.DictReader(file)}


def number(name: str) -> int:
    """The number of an enumerant by its full name, such as CUDNN_ATTR_POINTWISE_MODE."""
    if not isinstance(name, str) or name not in _numbers():
        raise BadParam(f"backend: name must be one of the API's enumerants; got {shown(name)}")
    return _numbers()[name]


def _known(op, name: str) -> int:
    if name not in _numbers():
        raise InternalError(f"{op.name}: {name} must be an enumerant of the API; numbers.csv has none")
    return _numbers()[name]


def words(op: type[Op], field: str) -> dict:
    """{word: (name, number)} of a choice, for the words that the API has."""
    if not isinstance(op, type) or not issubclass(op, Op):
        raise BadParam(f"backend: op must be one of the operations; got {shown(op)}")
    if not isinstance(field, str) or field not in op.attributes():
        known = " ".join(op.attributes())
        raise BadParam(f"backend: field must be an attribute of {op.name}: {known}; got {shown(field)}")
    members = op.attributes()[field].members
    return {word: (f"CUDNN_{api}", _known(op, f"CUDNN_{api}")) for word, api in members.items() if api}


def _rows(op: type[Op]):
    for name in op.operands():
        if name in op.api_names:
            yield name, op.api_names[name], "tensors" if name in op.variadic else "tensor", "", {}
    for name in op.scalars:
        if name in op.api_names:
            yield name, op.api_names[name], "number", "", {}
    for name, attribute in op.attributes().items():
        api = op.api_names.get(name, attribute.api)
        if api:
            yield name, api, attribute.kind, attribute.doc, words(op, name)


def _operation(op: type[Op]) -> Operation:
    api = f"CUDNN_BACKEND_OPERATION_{op.api}_DESCRIPTOR"
    rows = [Row(name, f"CUDNN_ATTR_{short}", _known(op, f"CUDNN_ATTR_{short}"), kind, doc, found)
            for name, short, kind, doc, found in _rows(op)]
    return Operation(op, api, _known(op, api), tuple(rows))


OPERATIONS = {op.name: _operation(op) for op in OPS if op.api}

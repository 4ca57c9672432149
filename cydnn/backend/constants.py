"""The API's enumerants by name: whole numbers that print their names.

``CUDNN_ATTR_...``, ``CUDNN_TYPE_...`` and so on; numbers.csv has the numbers. Names that left the API are
answered with what took their place.
"""
from __future__ import annotations

import csv
from functools import lru_cache

from ..given import shown
from ..status import BadParam
from .table import NUMBERS

RETIRED = {                                      # name: what to use
    "CUDNN_TYPE_OPERATION": "left the API in 8.0; use CUDNN_TYPE_BACKEND_DESCRIPTOR",
    "CUDNN_TYPE_TENSOR": "left the API in 8.0; use CUDNN_TYPE_BACKEND_DESCRIPTOR",
    "CUDNN_TYPE_ENGINE": "left the API in 8.0; use CUDNN_TYPE_BACKEND_DESCRIPTOR",
    "CUDNN_TYPE_ENGINECFG": "left the API in 8.0; use CUDNN_TYPE_BACKEND_DESCRIPTOR",
    "CUDNN_TYPE_NAN_PROPAGATION": "is spelled CUDNN_TYPE_NAN_PROPOGATION in the API",
    "CUDNN_ATTR_TENSOR_REORDERING": "has another name; use CUDNN_ATTR_TENSOR_REORDERING_MODE",
    "CUDNN_ATTR_EXECUTION_PLAN_ENGINE": "has another name; use CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG",
    "CUDNN_ATTR_OPERATIONGRAPH_OPERATIONS": "has another name; use CUDNN_ATTR_OPERATIONGRAPH_OPS",
    "CUDNN_ATTR_CONVOLUTION_GROUP_COUNT": "is no attribute: groups follow from the dims, x.C / w.C, or a "
                                          "dim of their own where the rank is CONVOLUTION_SPATIAL_DIMS + 3",
    "CUDNN_HEUR_MODES_A": "has another name; use CUDNN_HEUR_MODE_A",
}


class Constant(int):
    """An enumerant: its number, its ``name`` and its ``enum`` in the API."""

    def __new__(cls, name: str, value: int, enum: str):
        made = super().__new__(cls, value)
        made.name, made.enum = name, enum
        return made

    def __repr__(self):
        return self.name

    def __reduce__(self):
        return constant, (self.name,)


@lru_cache(maxsize=None)
def enumerations() -> dict:
    """{enumeration: {number: Constant}}, as the API groups them; the first of equal numbers."""
    found: dict = {}
    with NUMBERS.open(newline="") as file:
        for row in csv.DictReader(file):
            made = Constant(row["name"], int(row["value"]), row["enum"])
            found.setdefault(made.enum, {}).setdefault(int(made), made)
    return found


@lru_cache(maxsize=None)
def constants() -> dict:
    """{name: Constant}"""
    with NUMBERS.open(newline="") as file:
        return {row["name"]: Constant(row["name"], int(row["value"]), row["enum"])
                for row in csv.DictReader(file)}


def constant(name: str) -> Constant:
    """The enumerant of a full name, such as CUDNN_ATTR_POINTWISE_MODE. Raises BadParam."""
    if isinstance(name, str) and name in RETIRED:
        raise BadParam(f"backend: {name} {RETIRED[name]}")
    if not isinstance(name, str) or name not in constants():
        raise BadParam(f"backend: name must be one of the API's enumerants; got {shown(name)}")
    return constants()[name]


def member(where: str, enum: str, value) -> Constant:
    """The enumerant of ``enum`` that ``value`` means: itself, its number or its name. Raises BadParam."""
    known = enumerations()[enum]
    given = constants().get(value) if isinstance(value, str) else value
    is_other = isinstance(given, Constant) and given.enum != enum
    try:
        number = None if is_other or isinstance(given, (bool, float)) else given.__index__()
    except (AttributeError, TypeError):
        number = None
    if number not in known:
        names = " ".join(c.name for c in known.values())
        raise BadParam(f"{where} must be one of {names}; got {shown(value)}")
    return known[number]

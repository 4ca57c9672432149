"""The attributes of an operation: what a field accepts, and what the backend API calls it."""
from __future__ import annotations

import dataclasses
from fractions import Fraction
from math import lcm

from ..status import BadParam


@dataclasses.dataclass(frozen=True)
class Attribute:
    """Accepted values of a field; ``api``: its name in the backend API without CUDNN_ATTR_,
    ``members``: the API's words for a choice, ``is_required``: the API has no default for it."""
    kind: str                                    # "ints" | "int" | "float" | "choice" | "flag" | "rows"
    lo: float | None = None
    members: dict = dataclasses.field(default_factory=dict)      # word: its name without CUDNN_, or ""
    api: str = ""
    doc: str = ""
    is_required: bool = False
    names: tuple = ()                            # of rows: what they may read
    unit: str = ""                               # of ints that are fractions in the API: the attribute that
    #                                              is their denominator, or 1 where they must be whole

    @property
    def accepts(self) -> tuple:
        return tuple(self.members)


def _field(default, attribute):
    return dataclasses.field(default=default, metadata={"attribute": attribute})


def ints(default, lo=None, api="", doc="", unit=""):
    """A tuple with one integer for each spatial dim; a scalar stands for every dim. ``unit`` names the
    attribute that is the denominator of what are fractions (1: the API has fractions, which must be
    whole)."""
    return _field(default, Attribute("ints", lo=lo, api=api, doc=doc, unit=unit))


def integer(default, lo=None, api="", doc=""):
    return _field(default, Attribute("int", lo=lo, api=api, doc=doc))


def real(default, api="", doc=""):
    return _field(default, Attribute("float", api=api, doc=doc))


def choice(*accepts, api="", doc="", members="", is_required=False):
    """One of the given words; the first is the default.
    ``members``: a format of their names in the API ("POINTWISE_{}"), or a dict from word to name."""
    if isinstance(members, dict):
        names = {word: members.get(word, "") for word in accepts}
    else:
        names = {word: members.format(word.upper()) if members else "" for word in accepts}
    return _field(accepts[0], Attribute("choice", members=names, api=api, doc=doc,
                                          is_required=is_required))


def flag(default=False, api="", doc=""):
    return _field(default, Attribute("flag", api=api, doc=doc))


def rows(names, doc=""):
    """Rows of pointwise operations over names (ops/rows.py)."""
    return _field((), Attribute("rows", doc=doc, names=names))


def in_units(where: str, op, attributes: dict) -> dict:
    """The attributes of an operation with whole numbers in place of fractions, and their denominator. Raises
    BadParam."""
    units = {name: a.unit for name, a in op.attributes().items() if a.unit and name in attributes}
    given = {name: [Fraction(v) for v in attributes[name]] for name in units}
    for name, values in given.items():
        if units[name] == "1" and any(v.denominator > 1 for v in values):
            raise BadParam(f"{where}: {name} must be whole numbers; got {', '.join(map(str, values))}")
    of = lambda unit: lcm(*(v.denominator for name, values in given.items() if units[name] == unit
                            for v in values))
    found = {name: [int(v * of(units[name])) for v in values] for name, values in given.items()}
    return {**attributes, **found, **{unit: of(unit) for unit in {*units.values()} - {"1"}}}

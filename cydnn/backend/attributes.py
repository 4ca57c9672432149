"""Attributes of descriptors as rows. Those of operations follow from their declarations."""
from __future__ import annotations

from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

from .constants import Constant, constant
from .table import MOST, OPERATIONS, UNSET, AttributeRow


@dataclass(frozen=True)
class Attr:
    """One attribute. ``name``: without CUDNN_ATTR_. ``types``: the CUDNN_TYPE_… that it takes, the first is
    its own. ``least`` and ``most`` elements. ``of``: what kinds of descriptors it takes. ``default``: UNSET
    where there is none. ``access``: "set", "get" (only asked for, once the descriptor is finalized) or
    "both" (may be set; finalizing finds it where it was not). ``field``: what an operation's declaration
    calls it. ``lo``, ``hi``: the least and the most that an element may be."""
    name: str
    types: tuple
    least: int = 1
    most: int = 1
    of: tuple = ()
    is_required: bool = False
    default: Any = UNSET
    access: str = "set"
    doc: str = ""
    field: str = ""
    lo: float | None = None
    hi: float | None = None

    @property
    def api(self) -> Constant:
        return constant(f"CUDNN_ATTR_{self.name}")

    @property
    def count(self) -> str:
        """How many elements it has, for people."""
        return str(self.least) if self.least == self.most else \
            f"{self.least} or more" if self.most == MOST else f"{self.least} to {self.most}"

    @property
    def range(self) -> str:
        """What an element may be, for people; empty where it may be anything of its type."""
        return "" if self.lo is None else f">= {self.lo}" if self.hi is None else f"{self.lo} to {self.hi}"

    @property
    def expects(self) -> str:
        """Its types, for people."""
        return " or ".join(f"CUDNN_TYPE_{name}" for name in self.types)


def need(name, type_, doc="", most=1, **more):
    """An attribute that must be set."""
    return Attr(name, (type_,), most=most, is_required=True, doc=doc, **more)


def may(name, type_, doc="", most=1, default=UNSET, **more):
    """An attribute that may be set."""
    return Attr(name, (type_,), most=most, default=default, doc=doc, **more)


def ask(name, type_, doc="", least=1, most=1, **more):
    """An attribute that finalizing finds."""
    return Attr(name, (type_,), least, most, access="get", doc=doc, **more)


def desc(name, *of, doc="", most=1, is_required=True, access="set"):
    """An attribute that is a descriptor, or several."""
    return Attr(name, ("BACKEND_DESCRIPTOR",), most=most, of=of,
                is_required=is_required, access=access, doc=doc)


PARAMETERS = {                                   # descriptor of parameters: how operations name it
    "CONVOLUTION": "CONV_DESC", "POINTWISE": "PW_DESCRIPTOR", "MATMUL": "DESC", "REDUCTION": "DESC",
    "RESAMPLE": "DESC", "RNG": "DESC"}


def _of_row(row: AttributeRow) -> Attr:
    """The attribute that a row of an operation's table is."""
    default = constant(row.default) if row.default is not UNSET and row.words else row.default
    return Attr(row.api.removeprefix("CUDNN_ATTR_"), row.types, most=row.most, is_required=row.is_required,
                of=("TENSOR",) if "BACKEND_DESCRIPTOR" in row.types else (),
                default=default, doc=row.doc, field=row.name, lo=row.lo)


def operation_rows() -> dict:
    """{name of a kind: {name: Attr}} of operations and their parameters: an attribute of an operation whose
    name does not begin with OPERATION_ belongs to the descriptor of its parameters."""
    found: dict = {}
    for row in OPERATIONS.values():
        kind = kind_of(row)
        for attr in map(_of_row, row.rows):
            where = kind if attr.name.startswith("OPERATION_") else attr.name.partition("_")[0]
            known = found.setdefault(where, {})
            known[attr.name] = _wider(known.get(attr.name), attr)
        parameters = kind.removeprefix("OPERATION_").partition("_")[0]
        if parameters in PARAMETERS:
            name = f"{_prefix(found[kind])}{PARAMETERS[parameters]}"
            found[kind][name] = desc(name, parameters, doc="its parameters")
    for kind, rows in MORE.items():
        found.setdefault(kind, {}).update({attr.name: attr for attr in rows})
    return found


def kind_of(row) -> str:
    """The name of the descriptor of an operation."""
    return row.api.removeprefix("CUDNN_BACKEND_").removesuffix("_DESCRIPTOR")


def _wider(known: Attr | None, attr: Attr) -> Attr:
    """The attribute of two operations that one descriptor stands for: needed where both need it."""
    return attr if known is None or known.is_required else known


def _prefix(attrs: dict) -> str:
    """What the names of an operation's attributes begin with."""
    same = commonprefix(list(attrs))
    return same[:same.rindex("_") + 1]


MORE = {                                         # what the API has beside a declaration
    **{kind: (need(f"{kind}_SPATIAL_DIMS", "INT64", "the number of spatial dims: 1, 2 or 3", lo=1, hi=3),)
       for kind in ("RESAMPLE", "CONVOLUTION")},
    "OPERATION_POINTWISE": (
        desc("OPERATION_POINTWISE_XDESC", "TENSOR", is_required=False,
             doc="x; of backward modes the forward's x"),
        desc("OPERATION_POINTWISE_YDESC", "TENSOR", is_required=False,
             doc="y; of backward modes the forward's y"),
        desc("OPERATION_POINTWISE_DXDESC", "TENSOR", is_required=False, doc="dx of backward modes"),
        desc("OPERATION_POINTWISE_DYDESC", "TENSOR", is_required=False, doc="dy of backward modes")),
    "OPERATION_MATMUL": (
        may("OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT", "INT64", "1", default=1),),
    "REDUCTION": (may("REDUCTION_IS_DETERMINISTIC", "BOOLEAN", "all of ours are", default=False),),
    "OPERATION_NORM_FORWARD": (
        need("OPERATION_NORM_FWD_PHASE", "NORM_FWD_PHASE", "inference or training"),)}

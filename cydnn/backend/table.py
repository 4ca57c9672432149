"""Names and numbers in the backend API of each operation, operand, number, field and word, and the rules of
each attribute: type, elements, whether it must be set, default.

Nothing is listed here: operations declare their names (``Op.api``, ``Op.api_names``,
``Attribute.api``, ``members``), and the numbers stand in numbers.csv. A name without a number is
an error when the table is made.
"""
from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..given import shown
from ..ops import OPS, Op
from ..status import BadParam, InternalError

NUMBERS = Path(__file__).with_name("numbers.csv")
MOST, MOST_DIMS = 1 << 20, 8                     # elements of an attribute; of one with an element a dim
UNSET = object()
TYPES = {"ints": "INT64", "int": "INT64", "float": "DOUBLE", "flag": "BOOLEAN"}       # of attributes
ENUMS = {                                        # types whose values are the words of an enumeration
    "DATA_TYPE": "cudnnDataType_t", "CONVOLUTION_MODE": "cudnnConvolutionMode_t",
    "HEUR_MODE": "cudnnBackendHeurMode_t", "KNOB_TYPE": "cudnnBackendKnobType_t",
    "NAN_PROPOGATION": "cudnnNanPropagation_t", "NUMERICAL_NOTE": "cudnnBackendNumericalNote_t",
    "LAYOUT_TYPE": "cudnnBackendLayoutType_t", "ATTRIB_NAME": "cudnnBackendAttributeName_t",
    "POINTWISE_MODE": "cudnnPointwiseMode_t", "GENSTATS_MODE": "cudnnGenStatsMode_t",
    "BN_FINALIZE_STATS_MODE": "cudnnBnFinalizeStatsMode_t",
    "REDUCTION_OPERATOR_TYPE": "cudnnReduceTensorOp_t", "BEHAVIOR_NOTE": "cudnnBackendBehaviorNote_t",
    "TENSOR_REORDERING_MODE": "cudnnBackendTensorReordering_t",
    "RESAMPLE_MODE": "cudnnResampleMode_t", "PADDING_MODE": "cudnnPaddingMode_t",
    "SIGNAL_MODE": "cudnnSignalMode_t", "NORM_MODE": "cudnnBackendNormMode_t",
    "NORM_FWD_PHASE": "cudnnBackendNormFwdPhase_t", "RNG_DISTRIBUTION": "cudnnRngDistribution_t"}


class AttributeRow(NamedTuple):
    """One attribute of an operation: its name in the declaration, in the API, its number there."""
    name: str
    api: str
    number: int
    kind: str                                    # "tensor", "tensors", "number", or an Attribute's kind
    types: tuple                                 # CUDNN_TYPE_ left out; the first is its own
    doc: str = ""
    most: int = 1                                # elements
    is_required: bool = False
    default: Any = UNSET                         # of a choice: its name in the API
    words: dict = {}                             # word of the declaration -> (name in the API, number)
    lo: float | None = None                      # the least that an element may be


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


@lru_cache(maxsize=None)
def _types() -> dict:
    """{enumerant: the type of the attributes whose value it may be}"""
    types = {enum: type_ for type_, enum in ENUMS.items()}
    with NUMBERS.open(newline="") as file:
        return {row["name"]: types.get(row["enum"]) for row in csv.DictReader(file)}


def _row(op: type[Op], name: str, short: str, kind: str, *types, **more) -> AttributeRow:
    api = f"CUDNN_ATTR_{short}"
    return AttributeRow(name, api, _known(op, api), kind, types, **more)


def _operands(op: type[Op]):
    for name in op.operands():
        if name in op.api_names:
            kind, most = ("tensors", MOST) if name in op.variadic else ("tensor", 1)
            doc = f"{name}, which is {'read' if name in op.reads else 'written'}"
            yield _row(op, name, op.api_names[name], kind, "BACKEND_DESCRIPTOR", doc=doc, most=most,
                       is_required=name not in op.optional)


def _scalars(op: type[Op]):
    factors = {name: doc.format(output) for output, pair in op.blends.items()
               for name, doc in zip(pair, ("factor of the result in {}", "factor of what {} held"))}
    for name, default in op.scalars.items():
        short = op.api_names.get(name, "")
        if short.endswith("DESC"):
            yield _row(op, name, short, "number", "BACKEND_DESCRIPTOR", doc=f"{name}, one element")
        elif short and type(default) is int:
            yield _row(op, name, short, "number", "INT64", "BACKEND_DESCRIPTOR", default=default,
                       doc=f"{name}, a number or a tensor of one element")
        elif short:
            yield _row(op, name, short, "number", "FLOAT", "DOUBLE", default=default,
                       doc=factors.get(name, f"{name}, a number"))


def _attributes(op: type[Op]):
    for name, attribute in op.attributes().items():
        short, default = op.api_names.get(name, attribute.api), op.__dataclass_fields__[name].default
        if not short:
            continue
        found = words(op, name)
        if attribute.kind == "choice":
            default = found[default][0] if default in found else UNSET
        types = (_types()[next(iter(found.values()))[0]] if found else TYPES[attribute.kind],)
        types = ("FRACTION", *types) if attribute.unit else types
        yield _row(op, name, short, attribute.kind, *types, doc=attribute.doc, words=found,
                   most=MOST_DIMS if attribute.kind == "ints" else 1, is_required=attribute.is_required,
                   lo=0 if attribute.unit and attribute.lo else attribute.lo,      # a half is a stride
                   default=UNSET if attribute.is_required else default)


def _operation(op: type[Op]) -> Operation:
    api = f"CUDNN_BACKEND_OPERATION_{op.api}_DESCRIPTOR"
    return Operation(op, api, _known(op, api), (*_operands(op), *_scalars(op), *_attributes(op)))


OPERATIONS = {op.name: _operation(op) for op in OPS if op.api}

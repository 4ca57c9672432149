"""Operations of a graph from their descriptors: the declarations say which attribute is which operand."""
from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..graph import FromTensor, Node
from ..ops import Pointwise
from ..ops.attribute import in_units
from ..ops.op import COMPUTE_API
from ..status import BadParam, NotSupported
from .attributes import PARAMETERS, kind_of
from .groups import grouped
from .table import OPERATIONS

PEERS = ("OPERATION_NORM_FWD_PEER_STAT_DESCS", "OPERATION_NORM_BWD_PEER_STAT_DESCS")
COMPUTE = {f"CUDNN_DATA_{api}": word for word, api in COMPUTE_API.items()}


class MadeNode(NamedTuple):
    """A node, the tensors that it names, and those with groups as a dim of their own ({uid: axis})."""
    node: Node
    tensors: tuple
    groups: dict


def node(d, found) -> MadeNode:
    """The node of an operation's descriptor."""
    values = dict(_values(d))
    row = _row(d, values)
    for name in PEERS:
        if name in values and name not in {one.api.removeprefix("CUDNN_ATTR_") for one in row.rows}:
            raise NotSupported(f"{name} must not be set but for CUDNN_BATCH_NORM; got {len(values[name])} "
                               f"for {row.op.name}")
    operands, scalars, attributes, tensors = {}, {}, {}, {}
    for one in row.rows:
        value = values.get(one.api.removeprefix("CUDNN_ATTR_"))
        if value is None:
            continue
        if one.name in row.op.operands():
            operands[one.name] = [value] if one.kind == "tensor" else value
        elif one.kind == "number":
            scalars[one.name] = value
        elif one.kind == "choice":
            attributes[one.name] = _word(one, value)
        else:
            attributes[one.name] = tuple(value) if isinstance(value, list) else value
    if row.op is Pointwise:
        operands = _of_pointwise(d, attributes["mode"], operands)
    for given in (*operands.values(), [s for s in scalars.values() if hasattr(s, "made")]):
        for t in given:
            keep(tensors, t.made, "an operation")
    uids = {name: tuple(t.made.uid for t in given) if name in row.op.variadic else given[0].made.uid
            for name, given in operands.items()}
    numbers = {name: FromTensor(s.made.uid) if hasattr(s, "made") else s for name, s in scalars.items()}
    op = row.op(**in_units(f"finalize({d.kind.name})", row.op, attributes))
    op = op.settled({name: tensors[uid].desc for name, uid in uids.items() if isinstance(uid, int)})
    made = Node(op, uids, numbers)
    groups = grouped(d, op, made, tensors)
    _check(d, row, made, tensors, groups)
    return MadeNode(made, tuple(tensors.values()), groups)


def ranked(node: Node, handle) -> Node:
    """The node of one GPU of several, which is the one that the handle of the graph is for."""
    several = [uids for name in node.op.shared for uids in (node.operands.get(name, ()),) if len(uids) > 1]
    if not several:
        return node
    context = None if handle is None else handle.device.context
    if context is None:
        raise BadParam(f"OPERATIONGRAPH_HANDLE must be a handle of a GPU, as its number says which of "
                       f"{len(several[0])} peer tensors is its own; got {handle}",
                       attribute="OPERATIONGRAPH_HANDLE")
    op = replace(node.op, rank=context.ordinal)
    return Node(op, node.operands, node.scalars, node.name)


def keep(tensors: dict, tensor, where: str):
    """Put a tensor among those of its uid: two of one uid are one tensor, if they are equal."""
    other = tensors.setdefault(tensor.uid, tensor)
    if other != tensor:
        raise BadParam(f"TENSOR_UNIQUE_ID must belong to one tensor in {where}; got {tensor.uid} for {other} "
                       f"and {tensor}", attribute="TENSOR_UNIQUE_ID")


def _values(d):
    """(name, value) of every attribute of an operation and of its parameters."""
    for name, attr in d.kind.attributes.items():
        value = d.value(name)
        if attr.of and attr.of[0] in PARAMETERS:
            yield from ((n, value.value(n)) for n in value.kind.attributes)
        elif value is not None and value != []:
            yield name, value


def _row(d, values):
    """The operation that a descriptor stands for, among those of one name: by what is set, its mode and
    phase."""
    rows = [row for row in OPERATIONS.values() if kind_of(row) == d.kind.name]
    names = lambda row: {one.api.removeprefix("CUDNN_ATTR_") for one in row.rows}
    given = {name for name in values if name.startswith("OPERATION_")} & set().union(*map(names, rows))
    for row in sorted(rows, key=lambda row: len(given - names(row))):        # that has all that is given
        choices = [one for one in row.rows if one.kind == "choice" and one.name != "compute"]
        if all(_knows(one, values.get(one.api.removeprefix("CUDNN_ATTR_"))) for one in choices):
            phase = values.get("OPERATION_NORM_FWD_PHASE")
            has_phase = any(one.api.endswith("_PHASE") for one in row.rows)
            keeps_nothing = "running_mean" not in row.op.reads       # of training for the next inference
            if phase is None or has_phase or keeps_nothing or phase.name == "CUDNN_NORM_FWD_TRAINING":
                return row
    mode = next((name for name in values if name.endswith(("_MODE", "_OPERATOR"))), "mode")
    words = sorted({word for row in rows for one in row.rows if one.kind == "choice" and one.name != "compute"
                    for word, _ in one.words.values()})
    raise NotSupported(f"{mode} must be one of {' '.join(words)}, in training; got {values.get(mode)!r}")


def _knows(one, value) -> bool:
    return value is None or value.name in [name for name, _ in one.words.values()]


def _word(one, value) -> str:
    """The word of a declaration for an enumerant."""
    if one.name == "compute":
        if value.name not in COMPUTE:
            raise BadParam(f"{one.api.removeprefix('CUDNN_ATTR_')} must be one of {' '.join(COMPUTE)}; "
                           f"got {value.name}")
        return COMPUTE[value.name]
    return next(word for word, (name, _) in one.words.items() if name == value.name)


def _of_pointwise(d, mode: str, operands: dict) -> dict:
    """x and y of a forward mode; of a backward one DYDESC, XDESC (or YDESC) and DXDESC, which the operation
    calls x, b and y."""
    given = {name: d.value(f"OPERATION_POINTWISE_{name}DESC") for name in ("X", "Y", "DX", "DY")}
    is_back = mode.endswith("_bwd")
    needed = ("DY", "DX") if is_back else ("X", "Y")
    missing = [name for name in needed if given[name] is None]
    wrong = [name for name in ("DX", "DY") if given[name] is not None and not is_back]
    if missing:
        raise BadParam(f"POINTWISE_{missing[0]}DESC must be set for mode {mode}; got none")
    if wrong:
        raise BadParam(f"POINTWISE_{wrong[0]}DESC must not be set for mode {mode}; got {given[wrong[0]]}")
    if not is_back:
        return operands
    inner = given["X"] if given["X"] is not None else given["Y"]
    if inner is None:
        raise BadParam(f"POINTWISE_XDESC must be set for mode {mode}, the forward's input; got none")
    rest = {name: t for name, t in operands.items() if name not in ("x", "y", "b")}
    return {"x": [given["DY"]], "b": [inner], "y": [given["DX"]], **rest}


def _check(d, row, made: Node, tensors: dict, groups: dict):
    """Every rule of the operation on its tensors, said in the API's names."""
    from .groups import merge
    seen = {uid: merge(t, groups[uid]) if uid in groups else t for uid, t in tensors.items()}
    descs = {name: tuple(seen[u].desc for u in uids) if isinstance(uids, tuple) else seen[uids].desc
             for name, uids in made.operands.items()}
    try:
        made.op.complete({**{name: None for name in row.op.optional}, **descs})
    except BadParam as error:
        words = {one.name: one.api.removeprefix("CUDNN_ATTR_OPERATION_").removeprefix("CUDNN_ATTR_")
                 for one in row.rows}
        told = error.within(f"finalize({d.kind.name})", made.op.name, words)
        for name, uids in made.operands.items():
            for uid in uids if isinstance(uids, tuple) else (uids,):
                told.add_info(f"{name}  uid {uid}  {tensors[uid]}")
        raise told from None

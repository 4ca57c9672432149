"""Attention, recognised in the operations that it is made of:
a product, any scores made of it, their softmax, and another product."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ..dtypes import BY_NAME
from ..ops import Matmul, Op
from ..steps import Scalar
from . import hole
from .graph import FromTensor, Graph, Node
from .hole import Hole
from .match import scalar_of
from .region import Region
from .tensor import Tensor

COORDINATES = ("batch", "head", "row", "col")    # names of the indices of a score
WHOLE = ("gen_index", "add", "sub", "min", "max", "neg", "abs", "identity")      # of whole numbers


class Scores(NamedTuple):
    """A hole's nodes by local names: ``rows`` are (Pointwise, what it reads), over numbers and names.
    "s" is what the hole starts with, then come the COORDINATES, "e0", "e1" … (``extras``: their uids) and
    "n0", "n1" … (the rows). The last row is the score; where there is none, it is s."""
    rows: tuple
    extras: tuple


class Found(NamedTuple):
    """Attention in a graph: the nodes of its products and its softmax, the number that scores are multiplied
    by first (None where there is none), and the mask of its nodes."""
    first: Node
    softmax: Node
    last: Node
    scale: object
    scores: Scores
    mask: int


def found(graph: Graph, softmaxes) -> Iterator[Found]:
    """The attention around each of ``softmaxes``: (node, mask of the nodes that it stands for)."""
    for softmax, mask in softmaxes:
        if _is_over_columns(graph, softmax):
            tries = (_around(graph, softmax, mask, score, number, tail)
                     for number, tail in hole.behind(graph, softmax.operands["y"], Matmul, "a")
                     for score in hole.before(graph, softmax.operands["x"], mask, Matmul))
            if attention := next(filter(None, tries), None):
                yield attention


def _is_over_columns(graph: Graph, softmax: Node) -> bool:
    rank = len(graph.tensors[softmax.operands["x"]].dims)
    op = softmax.op
    return rank == 4 and op.algorithm != "log" and op.axes(rank) == (3,) and not _numbers(softmax)


def _numbers(node: Node) -> dict:
    """The numbers of a node that are not the op's defaults."""
    plain = lambda value: value.default if isinstance(value, Scalar) else value
    return {name: value for name, value in node.scalars.items() if plain(value) != node.op.scalars[name]}


def _around(graph: Graph, softmax: Node, mask: int, score: Hole, number: int, tail: Hole) -> Found | None:
    """Attention of these products; None where it would mean something else."""
    maker = graph.producer[score.start]
    first, last = graph.nodes[maker], graph.nodes[number]
    whole = mask | score.mask | tail.mask | 1 << maker | 1 << number
    region = Region(graph, whole)
    leaves = set(region.outputs) - set(softmax.writes[1:]) - set(last.writes)
    numbers = {**_numbers(last), **{name: v for name, v in _numbers(first).items() if name != "alpha"}}
    computes = {softmax.op.compute, first.op.compute, last.op.compute}
    if leaves or numbers or len(computes) > 1 or not region.is_convex or not _keeps(graph, first, last, tail):
        return None
    scale, score = _scale(graph, first, score)
    scores = _scores(graph, score, softmax.op)
    return None if scores is None else Found(first, softmax, last, scale, scores, whole)


def _keeps(graph: Graph, first: Node, last: Node, tail: Hole) -> bool:
    """Scores are not rounded; probabilities are to no less than the type of what they are multiplied with."""
    values = (BY_NAME[first.op.math], graph.tensors[last.operands["b"]].dtype)
    casts = [graph.nodes[i] for i in tail.nodes]
    return (graph.tensors[first.operands["c"]].dtype is values[0]
            and all(n.op.mode == "identity" and not _numbers(n) for n in casts)
            and all(graph.tensors[u].dtype in values for u in {tail.start, tail.end}))


def _scale(graph: Graph, first: Node, score: Hole) -> tuple:
    """(the number by which scores are multiplied at first, or None; the hole without it)."""
    if "alpha" in _numbers(first):
        value = first.scalars["alpha"]
        return value if isinstance(value, FromTensor) else scalar_of(first, "alpha"), score
    users = [i for i in score.nodes if score.start in hole.reads(graph.nodes[i])]
    node = graph.nodes[users[0]] if len(users) == 1 else None
    if node is None or node.op.mode != "mul" or _numbers(node):
        return None, score
    by = [u for u in node.reads if graph.tensors[u].is_by_value]
    if len(by) != 1 or graph.tensors[node.operands["y"]].dtype is not BY_NAME[first.op.math]:
        return None, score
    left = tuple(i for i in score.nodes if i != users[0])
    return FromTensor(by[0]), score._replace(start=node.operands["y"], nodes=left)


def _scores(graph: Graph, score: Hole, op: Op) -> Scores | None:
    """The rows of a hole; None where a value on the way is rounded, or has numbers of its own."""
    names, whole, rows, extras = {score.start: "s"}, set(), [], {}
    for i in score.nodes:
        node = graph.nodes[i]
        y = graph.tensors[node.operands["y"]]
        if _numbers(node) or not _is_exact(graph, node, whole, BY_NAME[op.math]):
            return None
        if node.op.mode == "gen_index":
            names[y.uid] = COORDINATES[node.op.axis] if y.dims[node.op.axis] > 1 else 0.0
            continue
        reads = [node.operands[o] for o in node.op.inputs()]
        for uid in reads:
            if uid not in names:
                number = _constant(graph.tensors[uid])
                names[uid] = extras.setdefault(uid, f"e{len(extras)}") if number is None else number
        rows.append((replace(node.op, compute=op.compute), tuple(names[uid] for uid in reads)))
        names[y.uid] = f"n{len(rows) - 1}"
    return Scores(tuple(rows), tuple(extras))


def _constant(tensor: Tensor) -> float | None:
    """The number that a tensor always is; None where the caller may give another."""
    scalar = tensor.scalar
    is_fixed = scalar is not None and scalar == Scalar(("constant", scalar.default), scalar.default)
    return scalar.default if is_fixed else None


def _is_exact(graph: Graph, node: Node, whole: set, math) -> bool:
    """What a node writes holds its value, which is made in the math type ``math`` or is a whole number of
    indices or integers; ``whole`` gathers the uids of those."""
    y, reads = graph.tensors[node.operands["y"]], [graph.tensors[u] for u in hole.reads(node)]
    is_of_whole = all(t.uid in whole or t.dtype.kind != "float" for t in reads)
    is_flag = node.op.mode.startswith(("cmp_", "logical_"))
    if is_flag or node.op.mode in WHOLE and is_of_whole:
        whole.add(y.uid)
    is_made = BY_NAME[node.op.math] is math or is_of_whole
    is_held = y.dtype is math or y.uid in whole and (is_flag or y.dtype.kind == "int" and y.dtype.bits >= 32)
    return is_made and is_held

"""Random problems in unusual memory: permuted, with gaps, rows that repeat, strides of dims of 1 that lead
anywhere, up to eight dims, dims of 0 and 1, addresses that are aligned to no more than is promised."""
from __future__ import annotations

from cydnn import ops, plan
from cydnn.device.ptx import Finding
from cydnn.ops.problem import Problem
from cydnn.status import BadParam, NotSupported
from cydnn.tensor import TensorDesc, stride_order

from ..check import matrix
from . import draw
from .edges import edges

ELEMENTS, FLOPS, EXTENT = 3000, 2e5, 1 << 15     # of a problem; of an operand with its gaps
WILD = (0, 1, 3, 99_990_001, (1 << 31) + 5, 1 << 40)          # strides of dims of 1
ALIGNMENTS = (16, 16, 16, 8, 4, 2, 1)            # bytes
IN_FRONT = (ops.Matmul,)                         # ops whose further dims are the first; others' the last


# what no engine takes, by what the sentence names
REFUSED = ("packed booleans are written eight at once", "grid must have points")


def check(problem, device, seed) -> tuple[int, list[str]]:
    """(engines that ran, sentences of what is wrong); none where all engines refuse what is known."""
    try:
        outcome = matrix.run(problem, device, seed)
    except NotSupported as error:
        text = str(error)
        return 0, [] if any(words in text for words in REFUSED) else [f"refused: {text}"]
    except Finding as error:
        plan.forget()
        return 1, [str(error)]
    return len(outcome.ran), outcome.findings


def layouts(op_class, rng) -> Problem:
    """One random problem of an op, small, in unusual memory."""
    while True:
        found = draw(op_class, rng)
        for change in (_taller, _at_an_edge, _laid_out):
            found = change(found, rng)
        if is_small(found):
            return Problem(found.op, found.operands, rng.choice(ALIGNMENTS))


def is_small(problem) -> bool:
    return (problem.flops <= FLOPS and sum(d.count for d in problem.descs) <= ELEMENTS
            and all(d.extent <= EXTENT for d in problem.descs))


def _taller(problem, rng) -> Problem:
    """Now and then with more dims, up to eight, some of which are broadcast; where the op takes that."""
    one = {n: d for n, d in problem.operands.items() if isinstance(d, TensorDesc)}
    ranks = {d.rank for d in one.values()}
    if rng.random() < 0.6 or len(ranks) != 1 or max(ranks) > 7:
        return problem
    more = [rng.choice((1, 1, 2, 3)) for _ in range(rng.randint(1, 8 - max(ranks)))]
    found = {}
    for name, d in one.items():
        spread = name in problem.op.writes or name == problem.op.reads[0] or rng.random() < 0.6
        sizes = more if spread else [1] * len(more)
        dims = (*sizes, *d.dims) if type(problem.op) in IN_FRONT else (*d.dims, *sizes)
        found[name] = TensorDesc.packed(d.dtype, dims)
    return _or(problem, {**problem.operands, **found})


def _at_an_edge(problem, rng) -> Problem:
    """Now and then with a dim of 0 or 1."""
    found = edges(problem) if rng.random() < 0.15 and is_small(problem) else []
    return rng.choice(found) if found else problem


def _laid_out(problem, rng) -> Problem:
    """Every tensor with other strides, such as the op takes."""
    style = rng.choice(("permuted", "gaps", "gaps", "as it is", "vectors"))
    found = dict(problem.operands)
    for name, d in problem.operands.items():
        if isinstance(d, TensorDesc):
            found = _or(problem, {**found, name: _strides(d, rng, style, name in problem.op.writes)},
                        found).operands
    return Problem(problem.op, found)


def _strides(d, rng, style, is_written) -> TensorDesc:
    order, strides, step = list(stride_order(d)), list(d.strides), 1
    if style in ("permuted", "gaps") and rng.random() < 0.7:
        rng.shuffle(order)
    if style != "as it is":
        for axis in reversed(order):
            strides[axis] = step
            gap = {"permuted": 0, "gaps": rng.randint(0, 3), "vectors": 8 * rng.randint(0, 1)}[style]
            step = step * max(d.dims[axis], 1) + gap
            if style == "vectors":
                step = -(-step // 8) * 8
    for axis, size in enumerate(d.dims):
        if size == 1 and rng.random() < 0.6:
            strides[axis] = rng.choice(WILD)
        elif not is_written and rng.random() < 0.06:
            strides[axis] = 0
    return d.replace(strides=strides)


def _or(problem, operands, otherwise=None) -> Problem:
    """The problem with other operands, if the op takes them."""
    try:
        return Problem(problem.op, operands, problem.alignment)
    except BadParam:
        return problem if otherwise is None else Problem(problem.op, otherwise, problem.alignment)

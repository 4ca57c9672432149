"""Problems at the edge of another: a dim, or every dim of one size, is 0 or 1; strides that lead nowhere."""
from __future__ import annotations

from math import prod

from cydnn.ops.dropout import mask_desc
from cydnn.ops.problem import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc, stride_order

MOST_BYTES = 1 << 20                             # of all operands
NOWHERE = (0, 0, 1, 3, (1 << 31) + 5, 1 << 62)   # strides of tensors without elements


def edges(problem) -> list:
    """What the op takes of that; each once. Outputs that follow from the inputs follow them."""
    found: dict = {}
    for to in (0, 1):
        for changed in _changed(problem.operands, to):
            for given in (changed, {n: d for n, d in changed.items() if n in problem.op.reads}):
                try:
                    made = Problem(problem.op, given, problem.alignment)
                except BadParam:
                    continue                     # dims that do not belong together
                if sum(d.bytes for d in made.descs) < MOST_BYTES:
                    found[str(made)] = made
    return list(found.values())


def nowhere(problem, rng) -> Problem:
    """The problem with other strides in its tensors without elements, one or all of them 0, or any; as it is
    where the op does not take them."""
    some = lambda d: rng.choice(([0] * d.rank, [s * rng.randint(0, 1) for s in d.strides],
                                 [rng.choice(NOWHERE) for _ in d.dims]))
    found = {name: d.replace(strides=some(d)) if isinstance(d, TensorDesc) and not d.count else d
             for name, d in problem.operands.items()}
    try:
        return Problem(problem.op, found, problem.alignment)
    except BadParam:
        return problem


def _changed(operands: dict, to: int):
    """The operands with all dims of one size changed, then with one dim of one operand."""
    one = {n: d for n, d in operands.items() if isinstance(d, TensorDesc)}
    for size in dict.fromkeys(size for d in one.values() for size in d.dims):
        found = {n: _with(d, [to if s == size else s for s in d.dims]) for n, d in one.items()}
        if "mask" in found:                      # a bit for each element
            found["mask"] = mask_desc(prod(next(iter(found.values())).dims))
        yield {**operands, **found}
    for name, d in one.items():
        for axis in range(d.rank):
            yield {**operands, name: _with(d, [to if a == axis else s for a, s in enumerate(d.dims)])}


def _with(desc, dims) -> TensorDesc:
    """Packed in the order of a tensor's strides."""
    return TensorDesc.packed(desc.dtype, dims, stride_order(desc)).replace(vector=desc.vector)

"""What an operation says of each problem that one change makes of one that it takes.

    python -m lab.provoke_changes                # writes tests/refusals/changes.txt

A line and the error, or ``=`` and what is not said in it: outputs that follow. Of each kind of
change that is taken, and of each answer, the shortest; what follows from declarations alone is drawn in
tests/test_rules.py.
"""
from __future__ import annotations

import random
import re
import zlib

from cydnn import ops
from cydnn.ops import Problem
from cydnn.ops.problem import to_text
from cydnn.status import CydnnError
from cydnn.tensor import TensorDesc, packed_strides

from support.draw import draw
from .provoke import FOLDER, tensors

DRAWS, MOST = 8, 200                             # problems of an operation; characters of a line
DECLARED = re.compile(r"problem: |\w+: \w+ (is missing; |must be below 2\*\*63|must be one of .*; got ')")
NUMBERS = (-1, 0, 1, 2, 3, 4, 7, 99, 2 ** 63)


def answer(line: str) -> str:
    """What is said of a line."""
    try:
        problem, given = Problem.parse(line), line.split()
        return " ".join(["=", *(w for w in to_text(problem.op, problem.operands).split() if w not in given)])
    except CydnnError as error:
        return error.args[0]


def other_descs(d: TensorDesc):
    """(kind of change, description)"""
    yield "absent", None
    for dtype in ("f64", "f16", "i8", "i32", "bool"):
        yield f"type {dtype}", d.replace(dtype=dtype)
    yield "strides", d.replace(strides=(0,) * d.rank)
    yield "gaps", d.replace(strides=tuple(2 * s for s in d.strides))
    order = "nhwc" if d.rank > 2 else tuple(reversed(range(d.rank)))
    yield "order", d.replace(strides=packed_strides(d.dims, order))
    for rank in (d.rank - 1, d.rank + 1):
        if rank >= 0:
            yield "another rank", TensorDesc.packed(d.dtype, (*d.dims, 2)[:rank])
    for i, before in enumerate(d.dims):
        for what, size in (("0", 0), ("1", 1), ("one more", before + 1), ("one less", before - 1),
                           ("twice", 2 * before)):
            if size >= 0 and size != before:
                yield what, TensorDesc.packed(d.dtype, (*d.dims[:i], size, *d.dims[i + 1:]))


def lines(problem):
    """(kind of change, line)"""
    op, there, reads = problem.op, tensors(problem), problem.op.reads
    for name, d in there.items():
        for what, other in other_descs(d):
            yield what, line_of(op, {n: other if n == name else v for n, v in problem.operands.items()
                                   if n in reads or name not in reads})
    for rank in range(8):
        yield f"rank {rank}", line_of(op, {n: TensorDesc.packed(d.dtype, (*d.dims, *(1,) * 8)[:rank])
                                         for n, d in there.items() if n in reads})
    for name, a in op.attributes().items():
        kept = [w for w in line_of(op, {n: d for n, d in there.items() if n in reads}).split()
                if not w.startswith(f"{name}=")]
        values = {"choice": a.accepts, "flag": ("True", "False")}.get(a.kind, NUMBERS)
        for value in [*values, "1,1", "2,1,1", "blue", "1.5", "nan"]:
            yield f"{name} {value}", " ".join([*kept, f"{name}={value}"])


def line_of(op, operands) -> str:
    """The line of some operands; outputs that are not among them follow."""
    words = to_text(op, operands).split()
    return " ".join(w for w in words if not w.endswith("=none") or w.partition("=")[0] in operands)


def changes(op) -> dict:
    """{line: answer} of an operation."""
    rng, found = random.Random(zlib.crc32(op.name.encode())), {}
    for _ in range(DRAWS):
        for what, line in lines(draw(op, rng)):
            said = answer(line)
            rule = re.sub(r"[\d().,x-]+| in every dim|; got.*", "", said)
            sign = what.split()[0] if said[0] == "=" else rule
            if DECLARED.match(said) or len(line) >= MOST:
                continue
            if sign not in found or len(line) < len(found[sign][0]):
                found[sign] = line, said
    return dict(found.values())


if __name__ == "__main__":
    rows = [f"{line} | {said}" for op in ops.OPS for line, said in changes(op).items()]
    (FOLDER / "changes.txt").write_text("\n".join(rows) + "\n")

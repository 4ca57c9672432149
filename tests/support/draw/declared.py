"""Random problems from a declaration alone: what an operation's ``check`` takes of random attributes and of
tensors that are alike, or of one element in some dims. For operations without a maker of their own."""
from __future__ import annotations

from cydnn.ops.problem import Problem
from cydnn.status import BadParam

from .tensors import image, tensor, types

TRIES = 2000


def declared(op_class, rng) -> Problem:
    for _ in range(TRIES):
        dtype, compute = types(rng)
        dims = image(rng, 24)
        try:
            op = op_class(**{name: value for name, a in op_class.attributes().items() if (
                value := _value(a, rng, len(dims) - 2)) is not None} | dict(compute=compute))
            given = {name: tensor(rng, dtype, dims if i == 0 else _like(rng, dims))
                     for i, name in enumerate(op.reads) if name not in op.optional or rng.random() < 0.5}
            found = Problem(op, op.complete(given))
        except BadParam:
            continue
        if all(d.count for d in found.descs):
            return found
    raise AssertionError(f"{op_class.name}: of {TRIES} random problems none is taken; a maker of its own "
                         "must stand in tests/support/draw")


def _like(rng, dims) -> tuple:
    """The same dims, those of channels alone, or some of 1."""
    kind = rng.random()
    if kind < 0.5:
        return dims
    ones = [1] * len(dims)
    ones[1:2] = dims[1:2]
    return tuple(ones) if kind < 0.8 else tuple(rng.choice((1, d)) for d in dims)


def _value(a, rng, spatial):
    """A value of an attribute; None for its default."""
    low = int(a.lo or 0)
    return {"ints": lambda: [rng.randint(low, low + 2) for _ in range(spatial)],
            "int": lambda: rng.randint(low, low + 3), "float": lambda: round(rng.uniform(0.1, 2), 2),
            "choice": lambda: rng.choice(a.accepts), "flag": lambda: rng.random() < 0.5}.get(
                a.kind, lambda: None)()

"""Random problems of the operations that move elements."""
from __future__ import annotations

from cydnn import ops
from cydnn.ops.problem import Problem

from .tensors import image, size, tensor, types

RANKS = (2, 3, 4, 4, 5)


def _slice(op_class, rng):
    dtype, _ = types(rng)
    dims = image(rng, 48, RANKS)
    start = [rng.choice([0, 0, 0, rng.randrange(d)]) for d in dims]
    stop = [rng.choice([d, d + 3, rng.randint(s, d), s + 1]) for s, d in zip(start, dims)]
    op = op_class(start=start, stop=stop, step=[rng.choice([1, 1, 1, 2, 3]) for _ in dims])
    x = tensor(rng, dtype, dims)
    return Problem(op, dict(x=x, y=tensor(rng, dtype, op.infer(x)["y"].dims)))


def split(rng, count, most=4) -> tuple:
    """Some dims of so many elements."""
    dims = [count]
    for _ in range(rng.randint(0, most - 1)):
        last = dims.pop()
        by = rng.choice([d for d in range(1, min(last, 24) + 1) if last % d == 0])
        dims += [by, last // by]
    rng.shuffle(dims)
    return tuple(dims)


def _reshape(op_class, rng):
    dtype, _ = types(rng)
    dims = image(rng, 48, RANKS)
    x = tensor(rng, dtype, dims, rng.choice(["nchw", None]))
    y = tensor(rng, dtype, split(rng, x.count), rng.choice(["nchw", None]))
    return Problem(op_class(), dict(x=x, y=y))


def _transpose(op_class, rng):
    dtype, _ = types(rng)
    dims = image(rng, 70, RANKS)
    order = rng.sample(range(len(dims)), len(dims))
    layout = rng.choice(["nchw", "nchw", None])
    return Problem(op_class(permutation=order), dict(
        x=tensor(rng, dtype, dims, layout), y=tensor(rng, dtype, [dims[a] for a in order], layout)))


def _concatenate(op_class, rng):
    dtype, _ = types(rng)
    dims, count = image(rng, 32, RANKS), rng.randint(1, 5)
    op = op_class(axis=rng.randrange(len(dims)), in_place=rng.choice([-1, -1, rng.randrange(count)]))
    layout = rng.choice(["nchw", "nhwc", None])
    along = lambda: tuple(size(rng, 40) if a == op.axis else d for a, d in enumerate(dims))
    inputs = tuple(tensor(rng, dtype, along(), layout) for _ in range(count))
    return Problem(op, dict(inputs=inputs, y=tensor(rng, dtype, op.infer(inputs)["y"].dims, layout)))


MAKERS = {ops.Slice: _slice, ops.Reshape: _reshape, ops.Transpose: _transpose,
          ops.Concatenate: _concatenate}

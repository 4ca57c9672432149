"""The functions of networks that are products of matrices. Bodies as in ``network``."""
from __future__ import annotations

from ..ops import GroupedMatmul, Matmul
from ..status import BadParam
from .function import Array, function


def vector(where: str, name: str, value, size: int):
    if value is not None and value.dims != (size,):
        raise BadParam(f"{where}: {name} must have dims {(size,)}; got {value.dims}")
    return value


@function
def matmul(t, input: Array, other: Array):
    """The matrix product, as NumPy and torch have it: batch dims broadcast; of an array of one dim it is that
    with a vector."""
    vectors = input.rank == 1, other.rank == 1
    a = t.in_front(input, 2) if vectors[0] else input
    b = t.look(other, lambda d, s: ((*d, 1), (*s, 0))) if vectors[1] else other
    if a.dims[-1] != b.dims[-2]:
        raise BadParam(f"matmul: other must have input's {a.dims[-1]} columns as rows; got input "
                       f"{input.dims} and other {other.dims}")
    rank = max(a.rank, b.rank, 2)
    c = t.add(Matmul(compute=t.compute), "c", a=t.in_front(a, rank), b=t.in_front(b, rank))
    dims = c.dims[:-2] + c.dims[-2:-1] * (not vectors[0]) + c.dims[-1:] * (not vectors[1])
    return c.shaped(dims)


@function
def linear(t, input: Array, weight: Array, bias: Array | None = None):
    """input @ weight.T + bias: input (…, k), weight (n, k), bias (n,)."""
    if weight.rank != 2:
        raise BadParam(f"linear: weight must have rank 2; got dims {weight.dims}")
    a = t.in_front(input, 2)
    c = t.add(Matmul(compute=t.compute), "c", a=a, b=t.in_front(t.swapped(weight), a.rank))
    if bias is not None:
        c = t.point("add", c, vector("linear", "bias", bias, weight.dims[0]))
    return c.shaped((*input.dims[:-1], weight.dims[0]))


@function
def grouped_matmul(t, input: Array, weight: Array, offsets: Array):
    """Rows of groups, each times the matrix of its group: the experts of a mixture.

    input (rows, k), weight (experts, k, n), offsets (experts,) of i32 or i64: the row at which each group
    begins, in rising order; the last one ends with the rows, or where one offset more says. Rows of no group
    give 0. The device reads the offsets. Offsets of a multiple of the experts: these take turns.
    """
    for name, value, rank in (("input", input, 2), ("weight", weight, 3), ("offsets", offsets, 1)):
        if value.rank != rank:
            raise BadParam(f"grouped_matmul: {name} must have rank {rank}; got dims {value.dims}")
    if weight.dims[1] != input.dims[1]:
        raise BadParam(f"grouped_matmul: weight must have input's {input.dims[1]} columns as rows; got input "
                       f"{input.dims} and weight {weight.dims}")
    begins = t.look(offsets, lambda dims, strides: ((*dims, 1, 1), (*strides, 1, 1)))
    y = t.add(GroupedMatmul(compute=t.compute), "y", x=t.in_front(input, 3), w=weight, offsets=begins)
    return y.shaped(y.dims[1:])

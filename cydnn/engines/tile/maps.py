"""Tensor maps of what TMA brings to the tile program and takes from it."""
from __future__ import annotations

from ...steps import TensorMap
from .line import CHUNK_BYTES, LINES, LINE_BYTES

BATCH_DIMS = 3                                   # of a tensor map, beside the matrix


def matrix_map(pointer, tensor, dims, step, g, batch_steps, side) -> TensorMap:
    """The map of the matrices of a tensor: two dims, three of the batch; those that do not move are 1."""
    every = (*dims, *(d if s else 1 for d, s in zip(g.batch[:BATCH_DIMS], batch_steps)))
    strides = (step, *batch_steps[:BATCH_DIMS])
    return tiled_map(pointer, tensor, every, strides, side, 1, 1, 1)


def tiled_map(pointer, tensor, dims, strides, *sides) -> TensorMap:
    """A map of a tensor in boxes of a line by ``sides``; ``strides`` in elements, of any value where a dim is
    1."""
    line = LINES[tensor.dtype.name]
    found = tuple(CHUNK_BYTES if d == 1 else line.bytes * s for d, s in zip(dims[1:], strides))
    return TensorMap(pointer, line.dtype, dims, found, (line.elements, *sides), swizzle=LINE_BYTES)

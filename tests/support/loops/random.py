"""Random numbers, a second time: each element by itself, from the words of the generator."""
from __future__ import annotations

import math

import numpy as np

from cydnn.ops import philox


def bits(seed: int, offset: int, octet: int, place: int) -> int:
    """The 32 bits of one element."""
    word = lambda lower: int(philox.philox(
        (octet & 0xFFFFFFFF, octet >> 32 | lower << 31, offset & 0xFFFFFFFF, offset >> 32 & 0xFFFFFFFF),
        (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))[place // 2]) >> 16 * (place % 2) & 0xFFFF
    return word(0) << 16 | word(1)


def _value(op, of, col):
    number = of(col)
    if op.distribution == "bernoulli":
        return float(number >= round((1 - op.probability) * 2 ** 32))
    if op.distribution == "uniform":
        return op.low + (op.high - op.low) * (number >> 8) / 2 ** 24
    first, second = of(col - col % 2) >> 8, of(col - col % 2 + 1) >> 8
    turn = (math.cos, math.sin)[col % 2](2 * math.pi * second / 2 ** 24)
    return op.mean + op.stdev * math.sqrt(-2 * math.log((first + 1) / 2 ** 24)) * turn


def rng(op, a, shapes, seed, offset):
    shape = shapes["y"]
    y, octets = np.zeros((math.prod(shape[:-1]), shape[-1])), -(-shape[-1] // 8)
    for row, col in np.ndindex(y.shape):
        y[row, col] = _value(op, lambda c: bits(seed, offset, row * octets + c // 8, c % 8), col)
    return dict(y=y.reshape(shape))


LOOPS = dict(rng=rng)

"""The random numbers of dropout: Philox4x32-10, a function of (seed, offset, index), so that every device
draws the same bits in any order. kernels_src/lib/philox.cuh is this file in CUDA.

A generator is two i64 in device memory, ``STATES``: the seed, and how many draws came before, times 2^24 (a
launch counts its blocks below). A draw belongs to ``count`` elements, in logical order. Eight elements, an
octet, share a call:

    philox((octet, draws), seed)          eight halves of 16 bits, the upper half of a number of 32 bits each
    philox((octet + 2^63, draws), seed)   the lower halves, asked for where the upper ones leave it open

A tensor of random numbers (``numbers``) counts its octets by rows, the last dim: so an element's bits are a
function of its row and column, and where rows are whole octets, of its linear index, as above.

Element i is dropped where its number is below ``threshold(p)``, so with probability p to 32 bits.
Spec: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""
from __future__ import annotations

import numpy as np

from ..tensor import TensorDesc

STATES = TensorDesc.packed("i64", (2,))
SEED, DRAWS = range(2)                           # what the two are
ONE_DRAW = 2 ** 24
ROUNDS = 10
FACTORS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
LOW = np.uint64(0xFFFFFFFF)


def philox(counter, key) -> list:
    """Four words of 32 bits for a counter of four words and a key of two, arrays or numbers."""
    counter = [np.asarray(word, np.uint64) for word in counter]
    key = [int(word) for word in key]
    for _ in range(ROUNDS):
        a, b = (np.uint64(factor) * word for factor, word in zip(FACTORS, counter[::2]))
        counter = [(b >> np.uint64(32)) ^ counter[1] ^ np.uint64(key[0]), b & LOW,
                   (a >> np.uint64(32)) ^ counter[3] ^ np.uint64(key[1]), a & LOW]
        key = [word + step & 0xFFFFFFFF for word, step in zip(key, KEY_STEPS)]
    return counter


def _halves(octets, seed, draws, lower: int) -> np.ndarray:
    """(octets, 8): the upper or lower halves of the elements' numbers."""
    both = lambda number: (number & 0xFFFFFFFF, number >> 32)
    high = octets >> np.uint64(32) | np.uint64(lower << 31)
    four = np.stack(philox((octets & LOW, high, *both(draws)), both(seed)), -1)
    return np.stack([four & np.uint64(0xFFFF), four >> np.uint64(16)], -1).reshape(-1, 8)


def numbers(seed: int, draws: int, rows: int, cols: int) -> np.ndarray:
    """(rows, cols): 32 bits for each element of a tensor whose rows have octets of their own: those of
    (row, col) are the (col % 8)th of octet row * ceil(cols / 8) + col // 8."""
    each = -(-cols // 8)
    octets = np.arange(rows * each, dtype=np.uint64)
    upper, lower = (_halves(octets, int(seed) % 2 ** 64, int(draws) % 2 ** 64, i) for i in (0, 1))
    return (upper << np.uint64(16) | lower).reshape(rows, each * 8)[:, :cols]


def threshold(p: float) -> int:
    """Numbers below it are dropped: p in steps of 2^-32, from 0 to 2^32."""
    return round(p * 2.0 ** 32)


def kept(states, count: int, p: float) -> np.ndarray:
    """Which of ``count`` elements the next draw keeps, as booleans."""
    return kept_of(states, np.arange(-(-count // 8)), p).reshape(-1)[:count]


def kept_of(states, octets, p: float) -> np.ndarray:
    """(octets, 8): which elements of these octets it keeps."""
    seed, draws = int(states[SEED]) % 2 ** 64, int(states[DRAWS]) % 2 ** 64 // ONE_DRAW
    octets = np.asarray(octets, np.uint64)
    upper, open_ = (np.uint64(half) for half in divmod(threshold(p), 2 ** 16))
    found = _halves(octets, seed, draws, 0)
    keep = found > upper
    at = np.flatnonzero((found == upper).any(1))
    if at.size:
        keep[at] |= (found[at] == upper) & (_halves(octets[at], seed, draws, 1) >= open_)
    return keep


def factor(p: float) -> float:
    """What kept elements are multiplied by; 0 where none is kept."""
    return 1.0 / (1.0 - p) if p < 1 else 0.0


def factors(states, count: int, p: float) -> np.ndarray:
    """0 or 1 / (1 - p) for each element of the next draw."""
    return np.where(kept(states, count, p), factor(p), 0.0)


def advanced(states, count: int) -> np.ndarray:
    """The states after a draw of ``count`` elements; one of none is no draw."""
    return np.array([states[SEED], _signed(int(states[DRAWS]) + ONE_DRAW * (count > 0))], np.int64)


def seeded(seed: int) -> np.ndarray:
    """The states before the first draw of a seed (64 bits)."""
    return np.array([_signed(seed), 0], np.int64)


def _signed(number: int) -> int:
    """64 bits as an i64."""
    return (number + 2 ** 63) % 2 ** 64 - 2 ** 63

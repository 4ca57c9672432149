"""The generator of dropout: published numbers, exact rates, draws that do not depend on each other."""
import numpy as np
import pytest

from cydnn.ops import philox

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)


@pytest.mark.parametrize("counter, key, words", [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1))])
def test_known_answers(counter, key, words):
    """The vectors that the authors of the generator publish with it (kat_vectors, philox4x32 10)."""
    assert tuple(int(word) for word in philox.philox(counter, key)) == words


def plain(seed, draws, i, p) -> bool:
    """Is element i kept: one number of 32 bits, put together from its two halves."""
    half = lambda lower: int(philox.philox(
        (i // 8 & 0xFFFFFFFF, i // 8 >> 32 | lower << 31, draws & 0xFFFFFFFF, draws >> 32),
        (seed & 0xFFFFFFFF, seed >> 32))[i % 8 // 2]) >> 16 * (i % 2) & 0xFFFF
    return half(0) << 16 | half(1) >= p * 2 ** 32


@pytest.mark.parametrize("p", [0.0, 1.0, 0.5, 0.1, 1 / 3, 2.0 ** -32, 1 - 2.0 ** -32])
def test_an_element_by_itself(p):
    seed, draws = 0xFEDCBA9876543210, 2 ** 33 + 5
    states = philox.seeded(seed)
    states[philox.DRAWS] = draws * philox.ONE_DRAW
    p = philox.threshold(p) / 2 ** 32
    assert philox.kept(states, 203, p).tolist() == [plain(seed, draws, i, p) for i in range(203)]


def test_where_the_upper_half_leaves_it_open():
    states, i = philox.seeded(9), 13
    low, high = 0, 2 ** 32                       # the number of element i, by halving
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if philox.kept(states, 20, middle / 2 ** 32)[i] else (low, middle)
    assert plain(9, 0, i, low / 2 ** 32) and not plain(9, 0, i, (low + 1) / 2 ** 32)
    assert low & 0xFFFF not in (0, 0xFFFF)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 0.7315])
def test_rates(p):
    n = 1 << 20
    dropped = n - int(philox.kept(philox.seeded(3), n, p).sum())
    assert abs(dropped - n * p) < 5 * (n * p * (1 - p)) ** 0.5


def test_neighbours_and_draws_are_independent():
    n, states = 1 << 18, philox.seeded(11)
    keep = philox.kept(states, n, 0.5)
    following = philox.kept(philox.advanced(states, n), n, 0.5)
    for one, other in [(keep, following), *((keep[:-d], keep[d:]) for d in range(1, 9))]:
        assert abs((one == other).mean() - 0.5) < 5 * 0.5 / len(one) ** 0.5


def test_states():
    assert philox.seeded(2 ** 64 - 1).tolist() == [-1, 0] and philox.seeded(5).tolist() == [5, 0]
    once = philox.advanced(philox.seeded(5), 1)
    assert once.tolist() == [5, philox.ONE_DRAW] and philox.advanced(once, 0).tolist() == once.tolist()
    last = np.array([5, -philox.ONE_DRAW])
    assert philox.advanced(last, 3).tolist() == [5, 0]
    a, b = (philox.kept(philox.seeded(seed), 1000, 0.5) for seed in (1, 2))
    assert (a != b).any() and (a == philox.kept(philox.seeded(1), 2000, 0.5)[:1000]).all()


def test_factors():
    factors = philox.factors(philox.seeded(1), 1000, 0.75)
    assert set(factors) == {0.0, 4.0} and philox.factor(1.0) == 0.0 and philox.factor(0.0) == 1.0
    assert ((factors > 0) == philox.kept(philox.seeded(1), 1000, 0.75)).all()

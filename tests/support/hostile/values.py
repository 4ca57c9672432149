"""Arguments of all kinds, few of which any function takes."""
from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from operator import index

import numpy as np


class Named:
    name, value, dtype = "f16", (), None


class Raises:
    """Whatever is asked of it raises."""
    def _no(self, *args):
        raise ZeroDivisionError("asked")

    __index__ = __int__ = __float__ = __len__ = __iter__ = __bool__ = __eq__ = __getitem__ = _no
    __hash__ = object.__hash__

    def __repr__(self):
        raise ZeroDivisionError("asked")


class Shape:
    """Says of itself what ``says`` has, such as a broken ``__array_interface__``."""
    def __init__(self, **says):
        self.__dict__.update(says)


class LongList(list):
    """Says that it is longer than it is."""
    def __len__(self):
        return 1000


class OtherTuple(tuple):
    """Gives other items than it has."""
    def __iter__(self):
        return iter([1] * 50)


class Reentrant:
    """Where it is asked for its number or its memory it does something else first."""
    def __init__(self, act, number=1):
        self.act, self.number = act, number

    def __index__(self):
        self.act()
        return self.number

    def __float__(self):
        self.act()
        return float(self.number)

    def __iter__(self):
        self.act()
        return iter((1, 1, 1, 1))

    @property
    def __array_interface__(self):
        self.act()
        return MEMORY.__array_interface__


class Changing:
    """Says another number each time."""
    def __init__(self, *numbers):
        self.numbers, self.at = numbers, 0

    def __index__(self):
        self.at += 1
        return self.numbers[self.at % len(self.numbers)]

    def __float__(self):
        return float(index(self))


MEMORY = np.zeros(4096, np.float32)              # what interfaces that lie point to
HERE = (MEMORY.ctypes.data, False)


def interfaces() -> list:
    """Memory that is not as it should be said. The addresses are those of memory that is there."""
    good = dict(shape=(64,), typestr="<f4", data=HERE, version=3)
    broken = [{}, 5, dict(good, shape=None), dict(good, shape=("a",)), dict(good, shape=(-4,)),
              dict(good, data=5),
              dict(good, data=(None, False)), dict(good, data=("x", False)), dict(good, typestr=5),
              dict(good, typestr=""), dict(good, typestr="<f"), dict(good, typestr="<f4x"),
              dict(good, typestr="<f" + "9" * 30), dict(good, strides=(3,)), dict(good, strides="x"),
              dict(good, strides=(-4,)), dict(good, shape=(1,) * 40), dict(good, shape=(2 ** 70,)),
              {"shape": (2,)}]
    capsules = [lambda **kw: None, lambda **kw: 5, 7, lambda **kw: 1 / 0]
    return ([Shape(__array_interface__=row) for row in broken]
            + [Shape(__cuda_array_interface__=row) for row in broken[:4]]
            + [Shape(__dlpack__=one, __dlpack_device__=lambda: (1, 0)) for one in capsules]
            + [MEMORY[::-1], MEMORY[::2], MEMORY[:0], MEMORY.astype(">f4"), MEMORY.astype(object),
               np.zeros(3, "V0"), np.zeros(3, "f4,i4"), np.zeros(4, "U3"), memoryview(b"abc"), bytearray(5)])


def values() -> list:
    numbers = [0, 1, -1, 2, 3, 1.9, -0.0, 1e308, float("nan"), float("inf"), -float("inf"), 2 ** 31, 2 ** 32,
               2 ** 53 + 1, 2 ** 63, -2 ** 63, 2 ** 64, -2 ** 64, 10 ** 400, 1 << 20000, True, False, 1j,
               Fraction(1, 3), Decimal("1e999")]
    texts = ["", " ", "f32", ",f16", "i4,i4", "(2,)f4", "int(", "\x00", "\ud800", "日本", "²", "1" * 5000,
             "cuda:99999999999999999999", "cuda:-1", "cuda:²", "ptx:sm_²", "ptx:sm_99999999999", b"",
             "%s%n", "{0.__class__}", "a\nb", "../../etc/passwd"]
    lists = [[], (), {}, set(), [1], [1.9], [None], ["a"], [1, 2], (1, 2, 3, 4), [2 ** 70] * 4, [10 ** 400],
             [0] * 4, [-1, -1], [1] * 9, [1] * 100, {"a": 1}, {1, 2}, [[1, 2], [3]], ((1,), (2,)), range(3),
             NESTED, LongList([1, 2, 3, 4]), OtherTuple((1, 2, 3, 4)), LongList(), {1: 2, 3: 4}.keys()]
    others = [None, object(), Named(), Named, int, len, Ellipsis, NotImplemented, slice(3), Exception("x"),
              np.float32(1.5), np.int64(3), np.bool_(True), np.uint64(2 ** 64 - 1), np.float16("nan"),
              np.zeros(3), np.zeros((2, 3)), np.zeros(0), np.array(1.5), np.dtype("f4"), np.dtype("f4,f4"),
              Raises(), Raises, Changing(0, 1), Changing(-5, 1), Changing(2 ** 40, 2)]
    return numbers + texts + lists + others


NESTED: list = []
NESTED.append(NESTED)

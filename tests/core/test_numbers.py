"""The by-value numbers of a tape: which are whole, what may be given, how a refusal reads."""
import array
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies

from cydnn._core import Numbers
from cydnn.status import BadParam


def test_an_int_is_a_whole_number_and_stays_one():
    numbers = Numbers([1.5, 2**53 + 1, True])
    assert numbers.values == (1.5, 2**53 + 1, 1) and list(map(type, numbers.values)) == [float, int, int]
    assert numbers.given((None, -2**63, None)) == (1.5, -2**63, 1) and numbers.given() == numbers.values


@given(strategies.floats(), strategies.integers(-2**63, 2**63 - 1))
def test_what_is_given_comes_back(real, whole):
    got = Numbers([0.0, 0]).given((real, whole))
    assert (got[0] == real or math.isnan(got[0]) and math.isnan(real)) and got[1] == whole


ONES = [3, 3.0, np.float32(3), np.int64(3), np.array(3), np.array([[[3.0]]]), Fraction(3),
        memoryview(np.array([3.0])), array.array("d", [3])]


@pytest.mark.parametrize("one", ONES, ids=lambda x: type(x).__name__)
def test_one_element_of_any_kind_and_rank(one):
    assert Numbers([0.0]).given((one,)) == (3.0,)
    if not isinstance(one, Fraction):
        assert Numbers([0]).given((one,)) == (3,)


class OnDevice:
    """A tensor in device memory: its number is not here."""
    is_cuda = True

    def item(self):
        raise AssertionError("must not be asked for: that would wait for the device")


BAD = ["3", b"3", bytearray(b"3"), memoryview(b"3"), np.str_("3"), np.array("3"), np.ma.array(3, mask=True),
       [], [1, 2], np.zeros(2), np.zeros(0), OnDevice(), 1j, object()]


@pytest.mark.parametrize("bad", BAD, ids=lambda x: type(x).__name__)
def test_what_is_no_number_is_refused(bad):
    where = "or an array of one in host memory; got "
    with pytest.raises(BadParam, match=f"^scalar alpha: must be a number, {where}"):
        Numbers([0.0], [(3, "alpha")]).given((bad,))
    with pytest.raises(BadParam, match=f"^scalar uid 12: must be a whole number, {where}"):
        Numbers([0], [12]).given((bad,))


@pytest.mark.parametrize("value", [2.5, math.nan, math.inf, Fraction(5, 2)])
def test_a_whole_number_has_no_fraction(value):
    with pytest.raises(BadParam, match=r"^scalar 0: must be a whole number"):
        Numbers([0]).given((value,))


def test_a_kernel_narrows_a_number():
    numbers = Numbers([7.0, 0.5])
    numbers.narrow(0, -2**31, 2**31 - 1)
    assert numbers.values == (7, 0.5) and type(numbers.values[0]) is int
    with pytest.raises(BadParam, match="scalar 0: must be in -2147483648 … 2147483647; got 2147483648"):
        numbers.given((2**31, None))
    with pytest.raises(BadParam, match="scalar 1: must be a whole number"):
        numbers.narrow(1, 0, 10)
    with pytest.raises(BadParam, match="scalar 0: must be in -5 … 5; got 7"):
        numbers.narrow(0, -5, 5)


def test_a_number_without_a_default_must_be_given():
    numbers = Numbers([None, 1.0], [(4, "epsilon"), None])
    assert numbers.required == 1 and numbers.values == (None, 1.0)
    assert numbers.given((0.5, None)) == (0.5, 1.0)
    for scalars in (None, (None, 2.0)):
        with pytest.raises(BadParam, match="^scalars: scalar epsilon must be given; got None"):
            numbers.given(scalars)


def test_each_has_one_key():
    with pytest.raises(BadParam, match="numbers: must have a key each; got 1 keys for 2"):
        Numbers([0, 1], ["a"])

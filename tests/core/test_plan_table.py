"""Descriptors, their stamps and addresses, and the table from them to executables."""
import gc
import random
import sys

import numpy as np
import pytest

from cydnn import _core
from cydnn.status import BadParam


class Executable:
    """Stands for a plan of the NumPy device."""
    def __init__(self):
        self.calls = []

    def execute(self, *args):
        self.calls.append(args)


def made(*fields, kind="tensor"):
    d = _core.Descriptor()
    d.set(kind, fields)
    return d


def test_equal_content_has_an_equal_stamp():
    a, b, c, d = made(1, 2), made(1, 2), made(1, 3), made(1, 2, kind="filter")
    assert a.stamp == b.stamp and len({a.stamp, c.stamp, d.stamp}) == 3 and _core.Descriptor().stamp == 0
    before = a.stamp
    a.set("tensor", (9,))
    a.set("tensor", (1, 2))
    assert a.stamp == before and a.fields == (1, 2) and a.kind == "tensor"


def test_an_address_stands_for_the_object():
    d = made(5)
    address = int(d)
    assert _core.descriptor(d) is d is _core.descriptor(address) and address == d.address
    kept = int(made(6))                                  # nobody holds the object, only its address
    gc.collect()
    assert _core.descriptor(kept).fields == (6,)
    _core.descriptor(kept).destroy(), d.destroy()
    for gone in (kept, d, address, 12345, "x", None):
        with pytest.raises(BadParam, match="descriptor: must be alive, or the address of one that is; got"):
            _core.descriptor(gone)


def test_addresses_never_come_back():
    seen = {_core.Descriptor().address for _ in range(1000)}
    assert len(seen) == 1000


def test_unconverted_descriptors_are_collected():
    class Mine(_core.Descriptor):
        alive = 0

        def __init__(self):
            Mine.alive += 1

        def __del__(self):
            Mine.alive -= 1
    for _ in range(10):
        Mine()
    gc.collect()
    assert Mine.alive == 0


def test_run_finds_what_put_remembered():
    table, plan, x, y = _core.PlanTable(), Executable(), made(1), made(2)
    args = ((16, 32), (1.0, 0), 64, 128, 7)
    assert table.run(3, (x, y, 1), *args) is False and plan.calls == []
    table.put(3, (x, y, 1), table.alignment((16, 32)), plan)
    assert table.run(3, (x, y, 1), *args) is True and plan.calls == [args]
    assert table.run(3, (x.__index__(), made(2), 1), *args) is True     # the address, and an equal descriptor
    for keys, fn in (((x, y, 2), 3), ((y, x, 1), 3), ((x, y), 3), ((x, y, 1), 4), ((x, y, -1), 3)):
        assert table.run(fn, keys, *args) is False
    assert (len(plan.calls) == 2 and table.get(3, (x, y, 1), True) is plan
            and table.get(3, (x, y, 1), False) is None)


def test_misaligned_pointers_have_a_plan_of_their_own():
    table, fast, slow, x = _core.PlanTable(), Executable(), Executable(), made(1)
    table.put(1, (x,), True, fast), table.put(1, (x,), False, slow)
    table.run(1, (x,), (16, None, 0), None, 0, 0, 0), table.run(1, (x,), (16, 8), None, 0, 0, 0)
    assert (len(fast.calls), len(slow.calls)) == (1, 1)
    assert table.alignment((16, None, 4096)) is True and table.alignment((16, 4)) is False


def test_a_changed_descriptor_finds_another_plan():
    table, plan, x = _core.PlanTable(), Executable(), made(1)
    table.put(1, (x,), True, plan)
    x.set("tensor", (2,))
    assert table.run(1, (x,), (), None, 0, 0, 0) is False
    x.set("tensor", (1,))
    assert table.run(1, (x,), (), None, 0, 0, 0) is True


@pytest.mark.parametrize("bad", [_core.Descriptor(), 0x7D00FFFFFF00, "x", 1.5])
def test_what_needs_the_slow_path_is_left_to_it(bad):
    table = _core.PlanTable()
    assert table.run(1, (bad,), (), None, 0, 0, 0) is False
    with pytest.raises(BadParam, match="keys: every descriptor must be set and alive"):
        table.put(1, (bad,), True, Executable())


@pytest.mark.parametrize("scalar", [None, "1", 2**40])
def test_odd_scaling_factors_are_left_to_the_slow_path(scalar):
    table, plan = _core.PlanTable(), Executable()
    table.put(1, (), True, plan)
    assert (table.run(1, (), (), (scalar,), 0, 0, 0) is False
            and table.run(1, (), (), (1, 0.5, True), 0, 0, 0) is True)


def test_destroyed_descriptors_find_nothing():
    table, x = _core.PlanTable(), made(1)
    table.put(1, (x,), True, Executable())
    address = int(x)
    x.destroy()
    assert not table.run(1, (x,), (), None, 0, 0, 0) and not table.run(1, (address,), (), None, 0, 0, 0)


def test_table_against_a_dict():
    rng, table, truth = random.Random(1), _core.PlanTable(), {}
    for _ in range(5000):
        key = rng.randrange(3), tuple(rng.randrange(6) for _ in range(rng.randrange(6))), rng.random() < 0.5
        if rng.random() < 0.5:
            truth[key] = Executable()
            table.put(*key, truth[key])
        assert table.get(*key) is truth.get(key)
    assert len(table) == len(truth) and all(table.get(*key) is plan for key, plan in truth.items())


def test_table_owns_and_gives_back():
    plan, table = Executable(), _core.PlanTable(limit=10)
    start = sys.getrefcount(plan)
    for i in range(9):
        table.put(1, (i,), True, plan)
    table.put(1, (0,), True, plan)
    assert sys.getrefcount(plan) == start + 9
    for i in range(100, 120):
        table.put(1, (i,), True, plan)
    assert len(table) <= 10
    del table
    assert sys.getrefcount(plan) == start


def test_a_table_is_bounded_and_keeps_what_is_asked_for():
    """A new shape a call, for ever, beside a few that are used all the time."""
    table, plan, hot = _core.PlanTable(), Executable(), Executable()
    assert table.limit == 4096
    for i in range(8):
        table.put(2, (i,), True, hot)
    start, largest = sys.getrefcount(plan), 0
    for i in range(30000):
        table.put(1, (i,), True, plan)
        largest = max(largest, len(table))
        if i % 100 == 0:
            assert all(table.run(2, (k,), (), None, 0, 0, 0) for k in range(8))
    assert largest <= table.limit and sys.getrefcount(plan) == start + len(table) - 8
    assert table.get(1, (29999,), True) is plan and table.get(1, (0,), True) is None


def test_a_table_of_which_everything_is_used():
    table, plan = _core.PlanTable(limit=16), Executable()
    for i in range(200):
        table.put(1, (i,), True, plan)
        for k in range(i + 1):
            table.run(1, (k,), (), None, 0, 0, 0)
        assert len(table) <= 16 and table.get(1, (i,), True) is plan


def test_sixteen_keys_and_no_more():
    table, plan = _core.PlanTable(), Executable()
    keys = tuple(made(i, kind="rnn") if i % 3 else i for i in range(16))
    table.put(1, keys, True, plan)
    for i in range(16):
        assert table.get(1, (*keys[:i], made("other"), *keys[i + 1:]), True) is None
    assert table.get(1, keys, True) is plan and table.get(1, keys[:15], True) is None
    with pytest.raises(BadParam, match="keys: must be <= 16; got 17"):
        table.put(1, tuple(range(17)), True, Executable())


def test_an_absent_descriptor_is_a_key_of_its_own():
    table, with_it, without = _core.PlanTable(), Executable(), Executable()
    x, bias = made(1), made(2)
    table.put(1, (x, bias), True, with_it), table.put(1, (x, None), True, without)
    assert table.get(1, (x, bias), True) is with_it and table.get(1, (x, None), True) is without
    for other in (0, 1, -1, bias.stamp, 1 << 62, (), [None], (bias,)):
        assert table.get(1, (x, other), True) is None


# ---- Arrays of descriptors ----

def test_an_array_is_what_its_items_say():
    table, plan, x, y = _core.PlanTable(), Executable(), made(1), made(2)
    assert table.get(1, ([x, y, x], 5), True) is None
    table.put(1, ([x, y, x], 5), True, plan)
    for same in ((x, y, x), [made(1), made(2), made(1)], (int(x), y, x.__index__())):
        assert table.get(1, (same, 5), True) is plan
    for other in ((x, y), (x, x, y), (x, y, x, x), (x, y, None), (), x, (x, y, 1), None):
        assert table.get(1, (other, 5), True) is None
    x.set("tensor", (3,))
    assert table.get(1, ((x, y, x), 5), True) is None


def test_an_array_with_a_descriptor_that_says_nothing_finds_nothing():
    table, x, gone = _core.PlanTable(), made(1), made(2)
    gone.destroy()
    for bad in ((x, gone), (x, _core.Descriptor()), (x, "y"), (x, (x,)), [[x]], (1.5,)):
        assert table.get(1, (bad,), True) is None
        with pytest.raises(BadParam, match="keys: every descriptor must be set and alive"):
            table.put(1, (bad,), True, Executable())


def test_arrays_against_a_dict():
    rng, table, truth = random.Random(2), _core.PlanTable(), {}
    descs = [made(i, kind="array") for i in range(3)]
    for _ in range(5000):
        words = tuple(rng.choice([0, 1, 2, None, 7]) for _ in range(rng.randrange(4)))
        key = words, rng.choice([None, 0, 1, (0,), (1, 1)])
        keys = tuple(rng.choice([tuple, list])(descs[i] if type(i) is int and i < 3 else i for i in part)
                     if isinstance(part, tuple) else part for part in key)
        if rng.random() < 0.5:
            truth[key] = Executable()
            table.put(1, keys, True, truth[key])
        assert table.get(1, keys, True) is truth.get(key)
    assert len(table) == len(truth) > 100


def test_arrays_whose_descriptors_change():
    """The same lists and tuples over and over; their descriptors are set anew, replaced and destroyed."""
    rng, table, truth = random.Random(5), _core.PlanTable(), {}
    arrays = [[made(0, kind="array") for _ in range(n)] for n in (1, 3, 40)]
    for _ in range(4000):
        array = rng.choice(arrays)
        place, what = rng.randrange(len(array)), rng.random()
        if what < 0.2:
            array[place].set("array", (rng.randrange(2),))
        elif what < 0.4:
            array[place] = made(rng.randrange(2), kind="array")          # perhaps where the old one was
        elif what < 0.45:
            array[place].destroy()
        given = rng.choice([tuple, lambda items: items])(array)
        said = None if any(d.is_destroyed for d in array) else tuple(d.fields for d in array)
        assert table.get(1, (given,), True) is truth.get(said)
        if said is None:
            array[:] = [made(0, kind="array") for _ in array]
        elif said not in truth:
            truth[said] = Executable()
            table.put(1, (given,), True, truth[said])
            assert table.get(1, (given,), True) is truth[said]
    assert len(truth) > 100


# ---- Pointers that may be NULL ----

def test_absent_pointers_are_left_out_and_have_a_plan_of_their_own():
    fn, table, x = _core.nullable(7, (1, 3)), _core.PlanTable(), made(1)
    plans = {absent: Executable() for absent in (0, 0b10, 0b1000, 0b1010)}
    for absent, plan in plans.items():
        table.put(fn, (x,), True, plan, absent)
        assert table.get(fn, (x,), True, absent) is plan
    for pointers, absent, given in (
            ((16, 32, 48, 64), 0, (16, 32, 48, 64)), ((16, None, 48, 64), 2, (16, 48, 64)),
            ((16, 32, 48, 0), 8, (16, 32, 48)), ((16, 0, 48, None), 10, (16, 48)),
            ((None, 0, 48, None), 10, (None, 48))):
        assert table.absent(fn, pointers) == absent
        assert table.run(fn, (x,), pointers, None, 0, 0, 0) is True
        assert plans[absent].calls.pop() == (given, None, 0, 0, 0)
    assert table.get(7, (x,), True) is plans[0]
    assert table.run(7, (x,), (16, 0, 48, 64), None, 0, 0, 0) is True        # of function 7 none may be NULL
    assert plans[0].calls[-1][0] == (16, 0, 48, 64)


def test_no_plan_for_this_choice_of_pointers_is_no_plan():
    fn, table = _core.nullable(7, (0, 1)), _core.PlanTable()
    table.put(fn, (), True, Executable(), 0b11)
    assert table.run(fn, (), (0, 16), None, 0, 0, 0) is False
    assert table.run(fn, (), (0, 0), None, 0, 0, 0) is True


def test_alignment_is_that_of_the_pointers_that_are_given():
    fn, table, slow = _core.nullable(7, (0,)), _core.PlanTable(), Executable()
    table.put(fn, (), False, slow, 1)
    assert table.run(fn, (), (None, 8), None, 0, 0, 0) is True and slow.calls[0][0] == (8,)


@pytest.mark.parametrize("number, places", [(-1, ()), (1, (31,)), (1, (-1,))])
def test_a_function_number_that_cannot_be(number, places):
    with pytest.raises(BadParam, match="function: number must be >= 0 and places of pointers below 31"):
        _core.nullable(number, places)


def test_what_is_remembered_has_an_end():
    """More contents and arrays than are kept: stamps are given anew, and no key finds the plan of another."""
    table, d = _core.PlanTable(), made("first")
    table.put(1, (d, 0), True, plan := Executable())
    arrays = [[made("item", i)] for i in range(40)]
    for i, each in enumerate(arrays):
        table.put(2, (each,), True, i)
    before = d.stamp
    for i in range(17_000):
        d.set("tensor", ("many", i))
        assert i % 1000 or table.get(1, (d, 0), True) is None
    d.set("tensor", ("first",))
    assert d.stamp != before and table.get(1, (d, 0), True) in (None, plan)
    for i in range(5000):
        table.put(2, ([i, i + 1],), True, i)
    for i, each in enumerate(arrays):
        assert table.get(2, (each,), True) in (None, i) and table.get(2, (tuple(each),), True) in (None, i)


def test_keys_of_one_hash():
    """As many words, and more: the words tell them apart. The hash is that of ``key_into``."""
    mix, odd = lambda h: h ^ (h >> np.uint64(29)), np.uint64(0xBF58476D1CE4E5B9)
    start = mix(np.array([3], np.uint64) * np.uint64(0x9E3779B97F4A7C15))         # function 1, aligned
    first = np.arange(1 << 21, dtype=np.uint64)
    left = mix((start ^ ~first) * odd)           # of a first key; the next one's word is ~key
    order = np.argsort(left)
    near = left[order][1:] ^ left[order][:-1]
    at, alone = int(near.argmin()), int((start ^ left).argmin())
    rows = [((int(order[at]), 0), (int(order[at + 1]), int(near[at]))),
            ((0,), (alone, int((start ^ left)[alone])))]
    for one, other in rows:
        assert max(one + other) < 1 << 46
        table = _core.PlanTable()
        table.put(1, one, True, "one")
        assert table.get(1, other, True) is None
        table.put(1, other, True, "other")
        assert (table.get(1, one, True), table.get(1, other, True), len(table)) == ("one", "other", 2)

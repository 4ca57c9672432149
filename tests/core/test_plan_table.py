"""Descriptors, their stamps and addresses, and the table from them to executables."""
import gc
import random
import sys

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


@pytest.mark.parametrize("bad", [_core.Descriptor(), 0x7D00FFFFFF00, None, "x", 1.5])
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


def test_more_than_ten_keys_are_refused():
    with pytest.raises(BadParam, match="keys: must be <= 10; got 11"):
        _core.PlanTable().put(1, tuple(range(11)), True, Executable())

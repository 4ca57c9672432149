"""What all threads of a process share in the extension: numbers, descriptors, tables, types that were seen.
Threads that run at once are those of a Python without a GIL (``test_free_threaded.py``).
CYDNN_ROUNDS: how many rounds a thread does."""
import copy
import ctypes
import os
import threading

import pytest

from cydnn import _core, cudnn
from cydnn.frontend import contexts, handle as handles
from support.guard import threads

from test_pointers import Table, offered

THREADS, ROUNDS = 16, int(os.environ.get("CYDNN_ROUNDS", 200))


@pytest.fixture(autouse=True)
def quick_switches():
    with threads.quick_switches():
        yield


def together(work, count=THREADS):
    """What ``work(number)`` returned in each thread; the first exception is raised here."""
    found = [None] * count

    def one(number):
        found[number] = work(number)
    failed = threads.together(one, count)
    if failed:
        raise failed[0]
    return found


def made(*fields):
    d = _core.Descriptor()
    d.set("tensor", fields)
    return d


class Plan:
    """Stands for what runs a call; leaves its key in ``last`` of the thread."""
    last = threading.local()

    def __init__(self, key):
        self.key = key

    def execute(self, *args):
        self.last.key = self.key


# ---- Numbers ----

def test_no_number_is_given_twice():
    """Addresses of descriptors, stamps of contents, handles of the front end."""
    def work(number):
        for i in range(ROUNDS):
            d = made("mine", number, i)
            yield d.address, d.stamp, handles.create_handle("numpy")
    found = [row for rows in together(lambda n: list(work(n))) for row in rows]
    for column in zip(*found):
        assert len(set(column)) == len(found)
    for row in found:
        handles.destroy_handle(row[2])


def test_equal_content_has_one_stamp():
    gate = threading.Barrier(THREADS)

    def work(_):
        found = []
        for i in range(ROUNDS):
            gate.wait()
            found.append(made("everyone's", i).stamp)
        return found
    for stamps in zip(*together(work)):
        assert len(set(stamps)) == 1


# ---- Descriptors and tables ----

def test_a_descriptor_that_changes_while_it_is_read():
    """Its text, hash, copy and content are of a content that it had."""
    d = made(0)
    wanted = {f"Descriptor((0, {i}))" for i in range(8)} | {"Descriptor((0,))"}

    def work(number):
        for i in range(ROUNDS * 5):
            if number < 4:
                d.set("tensor", (0, (i + number) % 8))
            else:
                assert repr(d) in wanted and d.fields[0] == 0
                hash(d), d == made(0), copy.copy(d), int(d)
    together(work)


def test_a_table_gives_what_was_put_there():
    """While others put, forget the old ones and clear. Keys are arrays too, whose descriptors change."""
    table = _core.PlanTable(32)

    def work(number):
        mine = [made(number, 0), made(number, 1)]
        for i in range(ROUNDS):
            mine[i % 2].set("tensor", (number, i % 7, "filter" * (i % 3)))
            for keys in ((i % 50,), (mine[0], i % 5), (mine, 3), (tuple(mine), 4)):
                said = number if len(keys) == 2 else None, tuple(
                    tuple((m.kind, m.fields) for m in k) if type(k) in (list, tuple) else
                    (k.kind, k.fields) if isinstance(k, _core.Descriptor) else k for k in keys)
                found = table.get(1, keys, True)
                assert found is None or found.key == said
                table.put(1, keys, True, Plan(said))
                if table.run(1, keys, (0x10,), (), 0, 0, 0):
                    assert Plan.last.key == said
            if i % 40 == number:
                table.clear()
    together(work)
    assert len(table) <= 32


def test_an_array_that_changes_while_it_is_a_key():
    """A list grows and shrinks in the midst: a plan is found for what it held, or none."""
    items, table = [made(i) for i in range(40)], _core.PlanTable()
    shared = list(items)
    for n in range(41):
        table.put(2, (items[:n],), True, Plan(n))

    def work(number):
        for i in range(ROUNDS * 5):
            if number < 2:
                shared[:] = items[:i % 41]
            else:
                found = table.get(2, (shared,), True)
                assert found is None or found.key <= 40
    together(work)


def test_the_turns_of_a_handle_are_one_thread_s():
    handle, inside, most = cudnn.create("numpy"), [], []

    def work(number):
        for _ in range(ROUNDS):
            with handle.turns, handle.turns:
                inside.append(number)
                most.append(len(inside))
                inside.pop()
    together(work)
    assert len(most) == THREADS * ROUNDS and max(most) == 1
    cudnn.destroy(handle)


# ---- Memory of others ----

class Tensor(ctypes.Structure):
    """DLTensor."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]


def kind_of(address):
    """A type of tensors, all at one address, which its own table says."""
    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
    def fill(x, out):
        out[0].data, out[0].byte_offset = address, 0
        return 0
    table = Table(major=1, dltensor=ctypes.cast(fill, ctypes.c_void_p).value)
    return type("Tensor", (), {"__dlpack_c_exchange_api__": offered(table), "kept": (fill, table)})


def test_tensors_of_many_types():
    """Each is asked by the table of its own type, and types come and go."""
    def work(number):
        lasting = kind_of(0x100 * (number + 1))
        for i in range(ROUNDS):
            assert _core.pointer_of(lasting()) == 0x100 * (number + 1)
            array = type("Array", (), {"__array_interface__": {"data": (0x70, False), "typestr": "<f4",
                                                               "shape": (1,), "version": 3}})()
            assert _core.pointer_of(array) == 0x70
            if i % 20 == number:
                assert _core.pointer_of(kind_of(0x10)()) == 0x10
    together(work)


def test_what_a_function_made_is_kept():
    """``graph_cache`` of one place: each is asked for another key than those that others put there."""
    @contexts.graph_cache(lambda n: n, maxsize=1)
    def make(n):
        return [n]
    together(lambda number: [make((number + i) % 3) == [(number + i) % 3] or pytest.fail("another's")
                             for i in range(ROUNDS * 5)])

"""Loads the fake driver (its soname is libcuda.so.1) before the first use of CUDA,
and gives tests its books."""
import ctypes
import gc
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))         # for support/

library = ctypes.CDLL(os.environ["CYDNN_FAKE_DRIVER"])
library.fake_count.restype = ctypes.c_long
library.fake_counted.restype = ctypes.c_long
library.fake_memory.restype = library.fake_context.restype = library.fake_graph.restype = ctypes.c_void_p
library.fake_push.argtypes = library.fake_free.argtypes = [ctypes.c_void_p]
library.fake_memory.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int]

from cydnn import _core  # noqa: E402

from lab import witnesses  # noqa: E402

PTX = b".version 7.0\n.target sm_75\n.visible .entry %s(\n)\n{ ret; }\n"
PINNED, DEVICE, MANAGED = 1, 2, 3
KERNEL, MEMSET = 0, 2                            # types of nodes


class Launch(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 128), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("smem", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("bytes", ctypes.c_size_t), ("data", ctypes.c_ubyte * 4096),
                ("attributes", ctypes.c_uint * 5)]           # cluster x, y, z, cooperative, dependent


class Map(ctypes.Structure):
    """What the fake driver writes into a tensor map."""
    _fields_ = [("address", ctypes.c_uint64), ("type", ctypes.c_uint), ("rank", ctypes.c_uint),
                ("swizzle", ctypes.c_uint), ("fill", ctypes.c_uint), ("dims", ctypes.c_uint64 * 5),
                ("strides", ctypes.c_uint64 * 4), ("box", ctypes.c_uint16 * 5), ("steps", ctypes.c_uint8 * 5),
                ("lower", ctypes.c_int8 * 3), ("upper", ctypes.c_int8 * 3)]


class Fake:
    """The fake driver's books."""
    reset, depth = library.fake_reset, library.fake_depth
    counted, on_default = library.fake_counted, library.fake_on_default
    last_for_ever, destroy, pop = library.fake_last_for_ever, library.fake_destroy, library.fake_pop
    release, free, eager = library.fake_release, library.fake_free, library.fake_eager

    def count(self, name):
        return library.fake_count(name.encode())

    def fail(self, name, nth=1, status=1):
        """The ``nth`` call of ``name`` from now on gives ``status``."""
        library.fake_fail(name.encode(), ctypes.c_long(nth), status)

    def live(self, kind):
        return library.fake_live(kind.encode())

    def memory(self, size_bytes, ordinal=0, kind=DEVICE):
        return library.fake_memory(size_bytes, ordinal, kind)

    def last(self):
        launch = Launch()
        library.fake_last(ctypes.byref(launch))
        return launch

    def mine(self):
        """The last launch of this thread."""
        launch = Launch()
        library.fake_mine(ctypes.byref(launch))
        return launch

    def books(self):
        return {kind: self.live(kind) for kind in ("contexts", "modules", "streams", "events", "blocks",
                                                    "links")}

    def called(self):
        """{function: (calls, places in the callers' code)} of what was called since ``reset``."""
        found, name, count, places = {}, ctypes.c_char_p(), ctypes.c_long(), ctypes.c_int()
        for i in range(1000):
            if not library.fake_called(i, *map(ctypes.byref, (name, count, places))):
                break
            if count.value:
                found[name.value.decode()] = count.value, places.value
        return found

    @contextmanager
    def under(self, ordinal):
        """Another library has made the context of a device current in this thread."""
        library.fake_push(library.fake_context(ordinal))
        yield
        library.fake_pop()


class Graph:
    """A CUgraph of the fake driver; ``int`` gives its address."""

    def __init__(self):
        self.handle = ctypes.c_void_p(library.fake_graph())

    def __int__(self):
        return self.handle.value

    def node(self, i):
        launch = Launch()
        return library.fake_node(self.handle, i, ctypes.byref(launch)), launch

    def kinds(self):
        return list(iter(lambda i=iter(range(2000)): self.node(next(i))[0], -1))

    def destroy(self):
        library.fake_drop(self.handle)

    def run(self, context):
        """Make it executable and launch it."""
        runs = ctypes.c_void_p()
        library.fake_push(library.fake_context(context.ordinal))
        assert not library.cuGraphInstantiateWithFlags(ctypes.byref(runs), self.handle, ctypes.c_uint64(0))
        assert not library.cuGraphLaunch(runs, ctypes.c_void_p(1))
        assert not library.cuGraphExecDestroy(runs)
        library.fake_pop()


def pytest_configure(config):
    if not config.pluginmanager.has_plugin("witnesses"):     # of a run that reads tests/conftest.py
        config.pluginmanager.register(witnesses.Witnesses(), "witnesses")


def pytest_collection_finish():
    gc.collect()
    gc.freeze()                                  # so that collecting before each test takes no time


@pytest.fixture
def fake():
    gc.collect()                                 # what earlier tests have left in cycles is in nobody's books
    gc.freeze()                                  # what is alive now is not looked through again
    library.fake_reset()
    yield Fake()
    library.fake_reset()


@pytest.fixture
def context(fake):
    return _core.Context(0)


@pytest.fixture
def kernel(context):
    """``kernel(name)``: a function of an image that has just this entry."""
    return lambda name="k": context.load(PTX % name.encode(), name)

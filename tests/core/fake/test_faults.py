"""Every place where cydnn calls the driver, failing: the first, second, middle and last time, with each
status that such a call may have. What is raised names the call; nothing is kept; what was made before works
on, or says that its context is lost.

A new call of the driver in the sources has no scenario below: ``test_every_site_has_a_scenario`` says so.
"""
import gc
import re
import sys
import threading
from collections import Counter

import numpy as np
import pytest
from cuda.bindings import driver as bindings

from cydnn import _core
from cydnn.core._context import STICKY
from cydnn.core._driver import ERRORS
from cydnn.operand import Operand
from cydnn.status import BadParam, CydnnError, ExecutionFailed, NotSupported
from cydnn.core.symbols import SYMBOLS
from support.guard.leaks import HELD, malloced

import sites
from conftest import PTX, Graph
from sites import SCENARIOS, scenario

STATUSES = sorted({1, 2, 3, 4, 46, 100, 101, 200, 201, 209, 218, 221, 222, 400, 401, 500, 600, 701, 720, 800,
                   801, 802, 900, 901, 906, 912, 999, 12345} | STICKY)
ELSEWHERE = {"_driver.load_driver Init", "_driver.fail DriverGetVersion"}      # test_old_driver.py
ENCODING = (7, (4,), (), (4,), (1,), 0, False)


class World:
    """What scenarios work with: everything is there before the call that is to fail."""

    def __init__(self):
        self.context = _core.Context(0)
        self.kernel = self.context.load(PTX % b"k", "k")
        self.a, self.b = _core.Buffer(self.context, 64), _core.Buffer(self.context, 64)
        self.stream, self.event = _core.Stream(self.context), _core.Event(self.context)
        self.host = np.arange(64, dtype=np.uint8)
        self.plain, self.mapped = self.tape(), self.tape(map=True)
        self.there = _core.Buffer(_core.Context(1), 64)
        self.remote = _core.Tape(self.context, [Operand("far", 64, is_remote=True)])
        self.remote.memset(0, 0, 64, 0)

    def tape(self, map=False):
        """A memset, and a launch; of the second kind with attributes and a tensor map."""
        tape = _core.Tape(self.context, [("a", 64, 16, False, False), ("b", 64, 16, True, False)],
                          problem="a problem")
        tape.memset(1, 0, 64, 0)
        if map:
            tape.launch(self.kernel, 2, 32, 0, self.context.tensor_map(*ENCODING), maps=[(0, 0, 0)],
                        params=(0,), cooperative=True)
        tape.launch(self.kernel, 2, 32, 0, bytes(16), [(0, 0, 0), (8, 1, 0)])
        return tape


# -- What calls the driver -----------------------------------------------------------------------------------

@scenario("_driver.device_count DeviceGetCount", "_driver.driver_version DriverGetVersion")
def facts_of_the_driver(w):
    return _core.device_count(), _core.driver_version()


@scenario("_context.Context.__cinit__ DeviceGet", "_context.Context.__cinit__ DevicePrimaryCtxRetain",
          "_context.Context.__dealloc__ DevicePrimaryCtxRelease", DevicePrimaryCtxRelease="contexts")
def a_context(w):
    return [_core.Context(0).ordinal for _ in range(3)]


@scenario("_context.Context.__dealloc__ CtxPushCurrent", "_context.Context.__dealloc__ ModuleUnload",
          "_context.Context.__dealloc__ CtxPopCurrent", CtxPushCurrent="modules", ModuleUnload="modules",
          DevicePrimaryCtxRelease="contexts")
def a_context_with_kernels(w):
    return [_core.Context(0).load(PTX % name, name.decode()).name for name in (b"one", b"two", b"three")]


@scenario("_context.Context.attribute DeviceGetAttribute", "_context.Context.name DeviceGetName",
          "_context.Context.total_bytes DeviceTotalMem", "_context.Context.memory_info MemGetInfo",
          "_context.enter CtxGetCurrent")
def facts_of_a_device(w):
    c = w.context
    return [(c.attribute(n), c.attribute(97), c.name, c.total_bytes, c.memory_info()) for n in (16, 75, 76)]


@scenario("_context.Context.synchronize CtxSynchronize", "_context.Context.synchronize StreamSynchronize")
def waiting(w):
    return [(w.context.synchronize(), w.context.synchronize(0), w.stream.synchronize()) for _ in range(3)]


@scenario("_context.Context.copy_in MemcpyHtoDAsync", "_context.Context.copy_in StreamSynchronize")
def copies_in(w):
    return [w.context.copy_in(w.a, w.host, w.stream) for _ in range(3)]


@scenario("_context.Context.copy_out MemcpyDtoHAsync", "_context.Context.copy_out StreamSynchronize")
def copies_out(w):
    return [w.context.copy_out(w.host, w.a) for _ in range(3)]


@scenario("_context.Context.copy MemcpyDtoDAsync", "_context.Context.memset MemsetD8Async")
def copies_and_memsets(w):
    return [(w.context.copy(w.b, w.a, 64), w.context.memset(w.a, 7, 64)) for _ in range(3)]


@scenario("_context.Context.tensor_map TensorMapEncodeTiled",
          "_context.Context.tensor_map TensorMapEncodeIm2col")
def tensor_maps(w):
    pixels = (6, (8, 4, 1), (16, 64), (8, 4), (1, 1, 1), 0, False, ((0,), (0,)))
    return [len(w.context.tensor_map(*encoding)) for encoding in (ENCODING, pixels) * 2]


@scenario("_context.Context.load_module ModuleLoadDataEx", "_context.Function.__cinit__ ModuleGetFunction",
          "_context.Function.__cinit__ FuncGetAttribute")
def kernels(w):
    """Loaded images stay as long as the context does."""
    return [w.context.load(PTX % name, name.decode()).registers for name in (b"k1", b"k2", b"k3")]


@scenario("_context.Function.allow_smem FuncSetAttribute",
          raises={("FuncSetAttribute", 1): NotSupported})           # more than the device has
def shared_memory(w):
    return [w.context.load(PTX % name, name.decode()).allow_smem(60_000) for name in (b"k1", b"k2", b"k3")]


@scenario("_handles.Stream.__cinit__ StreamCreateWithPriority", "_handles.Stream.__dealloc__ CtxPushCurrent",
          "_handles.Stream.__dealloc__ StreamDestroy", "_handles.Stream.__dealloc__ CtxPopCurrent",
          StreamDestroy="streams", CtxPushCurrent="streams")
def streams(w):
    return [bool(_core.Stream(w.context).address) for _ in range(3)]


@scenario("_handles.Stream.wait StreamWaitEvent", "_handles.Event.record EventRecord",
          "_handles.Event.synchronize EventSynchronize", "_handles.Event.elapsed EventElapsedTime")
def marks(w):
    return [(w.event.record(w.stream), w.stream.wait(w.event), w.event.synchronize(),
             w.event.elapsed(w.event)) for _ in range(3)]


@scenario("_handles.Event.__cinit__ EventCreate", "_handles.Event.__dealloc__ CtxPushCurrent",
          "_handles.Event.__dealloc__ EventDestroy", "_handles.Event.__dealloc__ CtxPopCurrent",
          EventDestroy="events", CtxPushCurrent="events")
def events(w):
    return [_core.Event(w.context) is not None for _ in range(3)]


@scenario("_handles.Buffer.__cinit__ MemAlloc")
def memory(w):
    return [_core.Buffer(w.context, n).free() for n in (8, 80, 800)]


@scenario("_handles.Buffer.release CtxPushCurrent", "_handles.Buffer.release MemFree",
          "_handles.Buffer.release CtxPopCurrent", CtxPushCurrent="blocks", MemFree="blocks")
def memory_that_is_dropped(w):
    return [_core.Buffer(w.context, n).bytes for n in (8, 80, 800)]


@scenario("_context.Context.inspect PointerGetAttributes", "_step.run LaunchKernel",
          "_step.set_bytes MemsetD8Async")
def a_plan(w):
    return [w.plain.execute((w.a, w.b)) for _ in range(3)]


@scenario("_step.fill TensorMapReplaceAddress", "_step.launch LaunchKernelEx")
def a_plan_with_maps(w):
    return [w.mapped.execute((w.a, w.b)) for _ in range(3)]


@scenario("_peers.reach DeviceGet", "_peers.reach DeviceCanAccessPeer", "_peers.reach DevicePrimaryCtxRetain",
          "_peers.reach CtxEnablePeerAccess", "_peers.reach DevicePrimaryCtxRelease",
          DevicePrimaryCtxRelease="contexts")
def memory_of_a_peer(w):
    return [w.remote.execute((w.there,)) for _ in range(3)]


@scenario("_nodes.count_of GraphGetNodes", "_nodes.find_all GraphGetRootNodes",
          "_nodes.find_all GraphNodeGetDependentNodes", "_nodes.check_node GraphNodeGetType",
          "_nodes.check_node GraphKernelNodeGetParams", "_nodes.add GraphAddMemsetNode",
          "_nodes.add GraphAddKernelNode", "_nodes.add GraphKernelNodeSetAttribute",
          "_nodes.set_all GraphMemsetNodeSetParams", "_nodes.set_all GraphKernelNodeSetParams",
          raises={("GraphGetNodes", 1): BadParam, ("GraphGetNodes", 400): BadParam})
def nodes_of_a_graph(w):
    found = []
    for _ in range(3):
        graph = Graph()
        try:
            found += [way(w.mapped, graph, (w.a, w.b)) for way in (_core.populate, _core.update)]
        finally:
            graph.destroy()
    return found


@scenario("_link.assemble LinkCreate", "_link.assemble LinkAddData",
          "_link.assemble LinkComplete", "_link.assemble LinkDestroy",
          LinkDestroy="links")
def machine_code(w):
    return [_core.assemble(w.context, PTX % name) for name in (b"k1", b"k2", b"k3")]


@scenario("_tape.execute_c StreamSynchronize", "_tape.wait_before StreamSynchronize")
def a_plan_step_by_step(w):
    _core.wait_for_every_step(True)
    try:
        return [w.plain.execute((w.a, w.b), stream=w.stream) for _ in range(3)]
    finally:
        _core.wait_for_every_step(False)


@scenario("_step.raw_launch_loop LaunchKernel")
def bare_launches(w):
    return _core.raw_launch_loop(w.kernel, 1, 32, bytes(8), 0, 3) > 0


@scenario("_context.Context.make_current CtxSetCurrent")
def in_a_thread_without_a_context(w):
    return in_a_thread(lambda: [w.context.memset(w.a, 7, 64) for _ in range(3)])


@scenario("_context.Context.make_current CtxPushCurrent", "_context.leave CtxPopCurrent")
def under_another_context(w):
    with w.fake.under(1):
        return [w.context.memset(w.a, 7, 64) for _ in range(3)]


@scenario("_driver.error_text GetErrorName", "_driver.error_text GetErrorString", GetErrorName="",
          GetErrorString="", is_narrow=True)
def the_text_of_an_error(w):
    found = []
    for _ in range(3):
        try:
            w.context.load(PTX % b"k", "other")
        except ExecutionFailed as error:
            found.append(re.sub("CUDA_ERROR_FAKE|CUDA error|: as the test asked", "", str(error)))
    return found


def in_a_thread(work):
    found = []

    def run():
        try:
            found.append(work())
        except CydnnError as error:
            found.append(error)
    thread = threading.Thread(target=run)
    thread.start(), thread.join()
    if isinstance(found[0], CydnnError):
        raise found.pop()                        # no name for it here: they would hold each other
    return found[0]


# -- How each of them fails ----------------------------------------------------------------------------------

def symbol(name):
    """The driver's function as the fake driver counts it."""
    return {"cuDeviceTotalMem_v2": "cuDeviceTotalMem"}.get(name, name.removesuffix("_v2"))


def attempt(fake, one, fault=None):
    """(what came out, what was raised) in a new world; ``fault``: function, how often it is called before,
    status."""
    w = World()
    w.fake = fake
    fake.reset()
    if fault is not None:
        fake.fail(*fault)
    try:
        return one.run(w), None, w
    except CydnnError as error:
        return None, (type(error), str(error)), w


def occurrences(count):
    return sorted({1, 2, (count + 1) // 2, count} & set(range(1, count + 1)))


def check(fake, one, want, fault):
    """One fault; what is wrong with how it went, or None."""
    function, nth, status = fault
    silent, depth, before = one.silent.get(symbol(function)[2:]), fake.depth(), fake.books()
    got, raised, w = attempt(fake, one, fault)
    fake.fail(function, 0, 0)
    if silent is not None and (raised or got != want):
        return f"says {raised or got}"
    if silent is None:
        kind, sentence = raised or (None, "")
        named = rf"\b{symbol(function)}: .* \({status}\): as the test asked"
        wanted = one.raises.get((symbol(function)[2:], status), ERRORS.get(status, ExecutionFailed))
        if kind is not wanted or not re.search(named, sentence):
            return f"raises {kind}: {sentence}"
        if bool(w.context.lost) is not (status in STICKY) and one.run is not a_context_with_kernels:
            if symbol(function) not in BEFORE_A_CONTEXT:
                return f"lost: {w.context.lost}"
    wrong = after(fake, one, want, w, status)
    del w
    while fake.depth() > depth:                  # a pop that failed
        fake.pop()
    left = {kind: n - before[kind] for kind, n in fake.books().items() if n != before[kind]}
    for _ in range(left.get("contexts", 0)):
        fake.release(0)
    if left and set(left) != {silent} and status not in STICKY:
        return f"keeps {left}"
    return wrong


tried = Counter()                                # faults by function
BEFORE_A_CONTEXT = {"cuDeviceGetCount", "cuDriverGetVersion", "cuDeviceGet", "cuDevicePrimaryCtxRetain"}


def after(fake, one, want, w, status):
    """The same world after a fault: it works, or says that its context is lost."""
    if w.context.lost is None:
        again = one.run(w)
        return None if again == want else f"gives {again} afterwards"
    for use in (w.context.synchronize, lambda: w.plain.execute((w.a, w.b)), lambda: _core.Stream(w.context)):
        try:
            use()
            return "is lost and works"
        except ExecutionFailed as error:
            if f"({status})" not in str(error) or "failed earlier: " not in str(error):
                return f"is lost and says {error}"
    return None


@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: one.name)
def test_every_call_may_fail(fake, one, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    gc.collect()
    want, raised, _ = attempt(fake, one)
    assert raised is None, raised
    called, _ = fake.called(), attempt(fake, one)
    del _
    assert {name.partition(" ")[2] for name in one.sites} <= {symbol(name)[2:] for name in called}
    wrong = []
    for function, (count, _) in called.items():
        if one.is_narrow and symbol(function)[2:] not in one.silent:
            continue
        for nth in occurrences(count):
            for status in STATUSES:
                tried[symbol(function)] += 1
                found = check(fake, one, want, (function, nth, status))
                if found:
                    wrong.append(f"{function} the {nth}. time, status {status}: {found}")
    assert not wrong and not unraisable, f"{len(wrong)} faults:\n" + "\n".join(wrong[:20]) + str(unraisable)


def kept(work, rounds=10):
    """(bytes of malloc, Python objects) that a round leaves."""
    gc.collect()
    held, objects = malloced(), sys.getallocatedblocks()
    for _ in range(rounds):
        work()
    gc.collect()
    return (malloced() - held) / rounds, (sys.getallocatedblocks() - objects) / rounds


@pytest.mark.skipif(hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled(),
                    reason="a Python without a GIL frees objects later, so that ten rounds say nothing")
@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: one.name)
def test_faults_leave_no_memory(fake, one):
    """Of the host: neither bytes nor objects, whichever call fails."""
    want, _, _ = attempt(fake, one)
    for function, (count, _) in fake.called().items():
        name = symbol(function)[2:]
        if one.is_narrow or one.silent.get(name) or name not in {s.partition(" ")[2] for s in one.sites}:
            continue                             # what stays is in the books of the fake driver
        for _ in range(5):                       # what leaks does so each time, what others do not
            found = kept(lambda: check(fake, one, want, (function, count, 1)))
            if found[0] < HELD and found[1] < 0.5:
                break
        assert found[0] < HELD and found[1] < 0.5, (function, found)


def test_every_site_has_a_scenario():
    there = Counter(sites.in_sources())
    provoked = Counter(site for one in SCENARIOS for site in one.sites)
    provoked.update(ELSEWHERE)
    assert there == provoked, {"without a scenario": there - provoked, "gone": provoked - there}
    functions = {f"cu{site.partition(' ')[2]}" for site in there}
    assert functions == {row.name for row in SYMBOLS}
    print(f"\n{len(functions)} driver functions, {len(there)} call sites, {len(provoked)} provoked; "
          f"{sum(tried.values())} faults of {len(STATUSES)} statuses")


def test_a_context_is_lost_by_what_the_manual_says():
    """The driver's own words for such a status; older bindings do not have them."""
    words = {int(status): " ".join((status.__doc__ or "").split()) for status in bindings.CUresult}
    said = {status for status, text in words.items() if "terminated and relaunched" in text}
    assert said <= STICKY <= words.keys()


def test_a_site_that_is_new_is_seen():
    text = "cdef class A:\n    def f(self):\n        if cu.Init(0):\n            x = driver().MemFree(1)\n"
    assert sites.of_text("_m", text) == ["_m.A.f Init", "_m.A.f MemFree"]

"""Work of a stream recorded as a CUDA graph, by the driver itself: no library is between."""
from __future__ import annotations

import ctypes

from .streams import beside, places

GLOBAL = 0                                       # CU_STREAM_CAPTURE_MODE_GLOBAL


class Updated(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""
    _fields_ = [("result", ctypes.c_int), ("node", ctypes.c_void_p), ("source", ctypes.c_void_p)]


class Recorded:
    """What ``work()`` gives to a stream, captured in global mode: no thread may then allocate or wait."""

    def __init__(self, device, stream, work):
        self.driver, self.stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(stream.address)
        self.context, self.graph, self.runs = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.ordinal = device.context.ordinal
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.ordinal)
        try:
            self._capture(work)
            self._inside("cuGraphInstantiateWithFlags", ctypes.byref(self.runs), self.graph,
                         ctypes.c_uint64(0))
        except BaseException:
            self.free()
            raise

    def _call(self, name, *args):
        status = getattr(self.driver, name)(*args)
        if status:
            raise RuntimeError(f"{name}: status {status}")

    def _inside(self, name, *args):
        """A call in the device's context."""
        self._call("cuCtxPushCurrent_v2", self.context)
        try:
            self._call(name, *args)
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _capture(self, work):
        graph = ctypes.c_void_p()
        self._inside("cuStreamBeginCapture_v2", self.stream, GLOBAL)
        try:
            work()
        finally:                                 # a capture that was broken ends too
            self._inside("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        old, self.graph = self.graph, graph
        if old:
            self._call("cuGraphDestroy", old)

    def launch(self):
        self._inside("cuGraphLaunch", self.runs, self.stream)

    def update(self, work):
        """The nodes' parameters become those of other work, which has the same nodes."""
        self._again(work)
        told = Updated()
        try:
            self._inside("cuGraphExecUpdate_v2", self.runs, self.graph, ctypes.byref(told))
        except RuntimeError as error:
            raise RuntimeError(f"{error}, result {told.result}") from None

    def _again(self, work):
        self._capture(work)

    def free(self):
        for name, handle in (("cuGraphExecDestroy", self.runs), ("cuGraphDestroy", self.graph)):
            if handle:
                self._call(name, handle)
        self._call("cuDevicePrimaryCtxRelease_v2", self.ordinal)


class Populated(Recorded):
    """The same without a capture: ``work(graph)`` gives nodes to an empty graph, and of an ``update`` other
    parameters to those that it has."""

    def _capture(self, work):
        self._inside("cuGraphCreate", ctypes.byref(self.graph), 0)
        work(self.graph.value)

    def _again(self, work):
        work(self.graph.value)


def replayed(problem, engine, device, stream, times: int, is_native=False) -> tuple[list, bool]:
    """(replays that are not as wanted and what was written beside, whether the two sets of inputs give other
    results): half on the pointers that were captured, half on others that the graph is updated to, new data
    each time. ``is_native``: the library makes the nodes, nothing is captured."""
    both, wrong = places(problem, engine, device), []
    wants, again = (runs.wants(stream) for runs in both)         # what is loaded is loaded, all is known
    if both[0].other(again, wants):
        return ["the other pointers, before any graph"], True
    recorded = (Populated(device, stream, both[0].populate) if is_native
                else Recorded(device, stream, lambda: both[0].execute(stream)))
    try:
        for part, runs in enumerate(both):
            if part:
                recorded.update(runs.update if is_native else lambda: runs.execute(stream))
            for i in range(times // 2):
                runs.give(i % 2, stream), runs.clear(stream)
                recorded.launch()
                runs.keep(i, stream, times // 2)
            wrong += [part * (times // 2) + i for i in runs.other(runs.found(times // 2, stream), wants)]
    finally:
        recorded.free()
    return wrong + beside(both), not both[0].is_exact or bool((wants[0] != wants[1]).any())

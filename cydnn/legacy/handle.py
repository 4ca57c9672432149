"""Library and handle: cudnnGetVersion to cudnnGetStream. Spec: legacy API, 3.1.

>>> from cydnn import cudnn
>>> handle = cudnn.create("numpy")
"""
from __future__ import annotations

from statistics import median
from time import perf_counter

from .. import device as devices
from .._core import Event, HandleBase, PlanTable, stream_of
from ..locks import lock
from ..status import NAMES, BadParam, NotInitialized, last_error_string
from .arguments import Kind, integer, public
from .enums import CUDNN_VERSION

TIMED_RUNS = 5


class Handle(HandleBase):
    """The library on one device: its stream, its plans, and the workspace it lends to functions
    that have no workspace argument.

    ``table``, ``stream``, ``scratch`` and ``scratch_bytes`` are read by every compute call.
    """
    __slots__ = ("device", "answers", "_lent", "_kept", "_lock")

    def __init__(self, device):
        self.device, self.table, self.answers = device, PlanTable(), {}
        self._lent, self._kept, self._lock = {}, [], lock()
        self.use(0)

    def __repr__(self):
        return ("<Handle destroyed>" if self.is_destroyed
                else f"<Handle on {self.device.name}, stream {self.stream:#x}>")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if not self.is_destroyed:
            self.destroy()

    def use(self, stream: int) -> None:
        """Work goes to ``stream`` from now on; each stream has a workspace of its own,
        as two streams may run at once."""
        with self.turns:                         # no call starts between the two
            self.stream = stream
            self.scratch, self.scratch_bytes = self._lent.get(stream, (0, 0))

    def reserve(self, size_bytes: int) -> tuple:
        """(address, bytes) of a workspace of at least this size. A smaller one stays alive:
        the device may still use it."""
        with self._lock:
            if size_bytes > self.scratch_bytes:
                self._kept.append(self.device.alloc(max(size_bytes, 2 * self.scratch_bytes)))
                self._lent[self.stream] = (self._kept[-1].ptr, self._kept[-1].bytes)
                self.scratch, self.scratch_bytes = self._lent[self.stream]
        return self.scratch, self.scratch_bytes

    def milliseconds(self, run) -> float:
        """The median of a few runs on the handle's stream, after one that is not counted; wall time where
        there is no GPU. Blocks."""
        run()
        return median(self._timed(run) for _ in range(TIMED_RUNS))

    def _timed(self, run) -> float:
        if self.device.context is None:
            start = perf_counter()
            run()
            return (perf_counter() - start) * 1e3
        start, end = Event(self.device.context), Event(self.device.context)
        start.record(self.stream)
        run()
        end.record(self.stream)
        end.synchronize()
        return end.elapsed(start)

    def destroy(self) -> None:
        """Wait for the device, free everything; that too where the device has failed."""
        try:
            self.device.synchronize()
        finally:
            super().destroy()
            self.table.clear()
            buffers = self._kept
            self.table = None
            del self._kept, self._lent
        for buffer in buffers:
            buffer.free()


HANDLE = Kind("library handle", type_=Handle)


@public("g1")
def getVersion() -> int:
    """The generation of the API that is here, in that generation's encoding: 5005.

    >>> cudnn.getVersion()
    5005
    """
    return CUDNN_VERSION


@public("g2")
def getErrorString(status) -> str:
    """The name of a status; never fails.

    >>> cudnn.getErrorString(3)
    'CUDNN_STATUS_BAD_PARAM'
    """
    return NAMES.get(status if isinstance(status, int) else None, "CUDNN_STATUS_UNKNOWN")


@public("v9")
def getLastErrorString(max_size=None) -> str:
    """The text of the last error in this thread, "" when there was none; at most ``max_size`` characters.

    >>> try:
    ...     cudnn.getStream(None)
    ... except cudnn.CuDNNError:
    ...     print(cudnn.getLastErrorString())
    CUDNN_STATUS_BAD_PARAM: cudnnGetStream: handle must not be NULL
    """
    size = None if max_size is None else integer("cudnnGetLastErrorString", "max_size", max_size)
    return last_error_string()[:size]


@public("g3")
def create(device=None) -> Handle:
    """A handle on ``device``: "cuda:0", 0, "numpy"; by default the first CUDA device,
    or "numpy" where there is none. ``with cudnn.create() as handle:`` destroys it at the end.

    >>> cudnn.create("numpy")
    <Handle on numpy, stream 0x0>
    """
    return Handle(devices.get(devices.numbered(device)))


@public("g4")
def destroy(handle) -> None:
    """Wait for the device and free what the handle holds.

    >>> cudnn.destroy(handle)
    >>> handle
    <Handle destroyed>
    """
    try:
        found = HANDLE.resolve("cudnnDestroy", "handle", handle)
    except ValueError as error:
        raise NotInitialized(error.args[0]) from None
    found.destroy()


@public("g5")
def setStream(handle, streamId) -> None:
    """Later calls use this stream: an int, an object with __cuda_stream__, a torch or cupy stream;
    None or 0 is the NULL stream.

    >>> cudnn.setStream(handle, 0x1230)
    >>> handle
    <Handle on numpy, stream 0x1230>
    """
    found = HANDLE.resolve("cudnnSetStream", "handle", handle)
    try:
        found.use(stream_of(streamId))
    except BadParam as error:
        raise BadParam(f"cudnnSetStream: streamId {error.args[0].removeprefix('stream: ')}") from None


@public("g6")
def getStream(handle) -> int:
    """The stream as the driver's handle, 0 by default.

    >>> cudnn.getStream(handle)
    0
    """
    return HANDLE.resolve("cudnnGetStream", "handle", handle).stream

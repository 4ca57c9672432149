"""Streams, events and device memory. A handle owns its context; destructors never raise."""
cimport cython
from libc.stdint cimport uint64_t, uintptr_t

from cydnn.core._address cimport stream_into
from cydnn.core._context cimport Context, enter, leave
from cydnn.core._driver cimport cu, fail
from cydnn.core.cuda cimport address_t

import cydnn.core._capsule as _capsule
from cydnn.status import BadParam


@cython.final
@cython.no_gc_clear
cdef class Stream:
    """One CUDA stream. Holds its context, so the context always outlives it."""

    def __cinit__(self, Context context not None, int priority=0, bint is_blocking=True, foreign=None):
        """A new stream; or, with ``foreign``, a view of one that someone else owns.

        ``foreign`` is an address or an object that has one.
        """
        cdef bint pushed
        self.context, self.owner = context, foreign
        if foreign is not None:
            stream_into(foreign, &self.handle)
            return
        enter(context, &pushed)
        status = cu.StreamCreateWithPriority(&self.handle, 0 if is_blocking else 1, priority)
        leave(pushed)
        context.check(status, "cuStreamCreateWithPriority")

    def __dealloc__(self):
        if (self.handle != NULL and self.owner is None and not self.context.is_lost
                and cu.CtxPushCurrent(self.context.handle) == 0):
            cu.StreamDestroy(self.handle)
            cu.CtxPopCurrent(&self.handle)

    @property
    def address(self) -> int:
        return <uintptr_t>self.handle

    def __cuda_stream__(self):
        return 0, <uintptr_t>self.handle

    def __repr__(self):
        return f"<stream {<uintptr_t>self.handle:#x} on cuda:{self.context.ordinal}>"

    def __reduce__(self):
        raise TypeError(f"pickle: a stream belongs to its process; got {self!r}")

    def synchronize(self) -> None:
        self.context.synchronize(self)

    def wait(self, Event event not None) -> None:
        """Later work of this stream starts after ``event``."""
        cdef bint pushed
        enter(self.context, &pushed)
        status = cu.StreamWaitEvent(self.handle, event.handle, 0)
        leave(pushed)
        self.context.check(status, "cuStreamWaitEvent")


@cython.final
@cython.no_gc_clear
cdef class Event:
    """A point in a stream, with a time."""

    def __cinit__(self, Context context not None, bint has_time=True):
        cdef bint pushed
        self.context = context
        enter(context, &pushed)
        status = cu.EventCreate(&self.handle, 0 if has_time else 2)
        leave(pushed)
        context.check(status, "cuEventCreate")

    def __dealloc__(self):
        if self.handle != NULL and not self.context.is_lost and cu.CtxPushCurrent(self.context.handle) == 0:
            cu.EventDestroy(self.handle)
            cu.CtxPopCurrent(&self.handle)

    def __reduce__(self):
        raise TypeError(f"pickle: an event belongs to its process; got {self!r}")

    def record(self, stream=None) -> None:
        cdef void *handle
        cdef bint pushed
        stream_into(stream, &handle)
        enter(self.context, &pushed)
        status = cu.EventRecord(self.handle, handle)
        leave(pushed)
        self.context.check(status, "cuEventRecord")

    def synchronize(self) -> None:
        """Wait for the event."""
        cdef bint pushed
        cdef int status
        with nogil:
            enter(self.context, &pushed)
            status = cu.EventSynchronize(self.handle)
            leave(pushed)
        self.context.check(status, "cuEventSynchronize")

    def elapsed(self, Event start not None) -> float:
        """Milliseconds from ``start`` to this event; both must have happened."""
        cdef float milliseconds = 0
        cdef bint pushed
        enter(self.context, &pushed)
        status = cu.EventElapsedTime(&milliseconds, start.handle, self.handle)
        leave(pushed)
        self.context.check(status, "cuEventElapsedTime")
        return milliseconds


@cython.final
@cython.no_gc_clear
cdef class Buffer:
    """Device memory at ``ptr``, 0 once freed. Freed with the object. Torch and CuPy can view it."""

    def __cinit__(self, Context context not None, bytes):
        cdef address_t ptr = 0
        cdef bint pushed
        if not 0 <= bytes < 1 << 63:
            raise BadParam(f"alloc: bytes must be >= 0 and below 2**63; got {bytes}")
        self.context, self.bytes = context, bytes
        enter(context, &pushed)
        status = cu.MemAlloc(&ptr, self.bytes if self.bytes else 1)
        leave(pushed)
        if status == 2:
            fail(status, "cuMemAlloc", f"; {bytes} bytes were asked for on cuda:{context.ordinal}")
        context.check(status, "cuMemAlloc")
        self.ptr = ptr

    def __dealloc__(self):
        cdef const char *call = NULL
        self.release(&call)

    cdef int release(self, const char **call) noexcept:
        """The driver's status, and what gave it. What could not be freed stays, and may be freed later."""
        cdef int status = 0
        cdef void *top
        if self.ptr and not self.context.is_lost:
            self.context.forget_addresses()
            call[0], status = "cuCtxPushCurrent", cu.CtxPushCurrent(self.context.handle)
            if status == 0:
                call[0], status = "cuMemFree", cu.MemFree(self.ptr)
                cu.CtxPopCurrent(&top)
        if status == 0:
            self.ptr = 0
        return status

    def free(self) -> None:
        """Give the memory back now."""
        cdef const char *call = NULL
        cdef int status
        with cython.critical_section(self):
            status = self.release(&call)
        self.context.check(status, call)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.free()

    def __repr__(self):
        return f"<buffer of {self.bytes} bytes at {self.ptr:#x} on cuda:{self.context.ordinal}>"

    def __reduce__(self):
        raise TypeError(f"copy: a buffer has one owner; got {self!r}: allocate another and copy the bytes")

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.bytes,), "typestr": "|u1", "data": (self.ptr, False), "strides": None,
                "version": 3}

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """The bytes, on the legacy stream or what waits for it. ``stream`` as DLPack says: an address, 1 the
        legacy one, -1 no wait."""
        place = self.__dlpack_device__()
        if self.ptr == 0:
            raise BadParam(f"dlpack: must be memory that was not freed; got {self!r}")
        if copy or dl_device not in (None, place):
            raise BufferError(f"memory of device {place} must be taken as it lies; got copy={copy}, "
                              f"dl_device={dl_device}")
        if stream not in (None, -1, 1):
            done = Event(self.context, False)
            done.record()
            Stream(self.context, foreign=stream).wait(done)
        return _capsule.capsule_of(self, self.ptr, place, (1, 8), (self.bytes,), (1,))

    def __dlpack_device__(self):
        return 2, self.context.ordinal        # kDLCUDA

"""Streams, events and device memory."""
cimport cython
from libc.stdint cimport uintptr_t

from cydnn.core._context cimport Context


@cython.final
cdef class Stream:
    cdef object __weakref__
    cdef readonly Context context
    cdef readonly object owner                # the foreign object that a wrapped stream belongs to, or None
    cdef void *handle


@cython.final
cdef class Event:
    cdef readonly Context context
    cdef void *handle


@cython.final
cdef class Buffer:
    cdef object __weakref__
    cdef readonly Context context
    cdef readonly size_t bytes
    cdef readonly uintptr_t ptr
    cdef int release(self, const char **call) noexcept

"""The driver table, checked calls and the handles.

Another Cython package cimports them from here or from ``_core``.
"""
cimport cython
from libc.stdint cimport uint64_t, uintptr_t

from cydnn.cuda cimport Driver


cdef enum:                                    # what `Context.inspect` and `Tape.validate` find
    FINE, IS_UNKNOWN, IS_PAGEABLE, IS_ELSEWHERE, IS_NULL, IS_MISALIGNED, IS_OVERLAPPING, IS_SMALL
    IS_OVER_WORKSPACE


cdef Driver *driver() except NULL                                # loads the driver on first use
cdef int check(int status, const char *call) except -1 nogil     # raises the class that fits a driver status
cdef int pointer_into(object x, void **out) except -1            # what `pointer_of` accepts
cdef int stream_into(object x, void **out) except -1             # what `stream_of` accepts

cpdef uintptr_t pointer_of(object x) except? 0
cpdef uintptr_t stream_of(object x) except? 0


@cython.final
cdef class Context:
    cdef object __weakref__
    cdef readonly int ordinal
    cdef readonly str lost                    # why this context cannot be used any more, or None
    cdef int device
    cdef void *handle
    cdef bint is_lost
    cdef uint64_t seen[512]                   # addresses known to be usable: 256 pairs, the younger first
    cdef const char *ring[16]                 # names of the last launches
    cdef unsigned int launches
    cdef dict modules                         # sha256 of an image's text -> module handle (int)
    cdef object lock
    cdef int enter(self, bint *pushed) except -1 nogil
    cdef void leave(self, bint pushed) noexcept nogil
    cdef int check(self, int status, const char *call) except -1 nogil
    cdef int fail(self, int status, const char *call, const char *what) except -1 with gil
    cdef int refuse_lost(self) except -1 with gil
    cdef int admit(self, void *ptr, int *status) noexcept nogil
    cdef int inspect(self, void *ptr, int *status) noexcept nogil
    cdef void *load_module(self, bytes text) except NULL


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
    cdef int release(self) noexcept


@cython.final
cdef class Function:
    cdef readonly Context context
    cdef readonly str name
    cdef readonly int registers, smem_static, local_bytes, max_threads, smem_limit
    cdef void *handle
    cdef const char *label                    # the name, alive for ever: the ring of launches points at it

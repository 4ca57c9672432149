"""Addresses of anything that has one. An int, which the hot path gets, costs no call."""
from cpython.long cimport PyLong_AsVoidPtr, PyLong_CheckExact
from libc.stdint cimport uintptr_t


cdef int pointer_other(object x, void **out) except -1           # what `pointer_of` accepts beside an int
cdef int stream_other(object x, void **out) except -1            # what `stream_of` accepts beside an int

cdef inline int pointer_into(object x, void **out) except -1:    # what `pointer_of` accepts
    if PyLong_CheckExact(x):
        out[0] = PyLong_AsVoidPtr(x)
        return 0
    return pointer_other(x, out)

cdef inline int stream_into(object x, void **out) except -1:     # what `stream_of` accepts
    if PyLong_CheckExact(x):
        out[0] = PyLong_AsVoidPtr(x)
        return 0
    return stream_other(x, out)


cpdef uintptr_t pointer_of(object x) except? 0
cpdef uintptr_t stream_of(object x) except? 0

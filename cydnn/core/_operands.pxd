"""What a plan must be given, as the check before every execute reads it."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from cydnn.core._address cimport Memory, Said

cdef enum:
    MOST_WANTED = 9                           # dims of a tensor, and its vector

cdef struct Want:
    size_t bytes
    bint is_written
    bint is_opaque
    bint is_ragged
    int kinds[2]                              # code << 8 | bits of the types that fit; 0: none is asked for
    int rank                                  # without dims of 1
    int64_t dims[MOST_WANTED]
    int64_t strides[MOST_WANTED]
    int64_t sorted_dims[MOST_WANTED]          # by strides, the largest first
    int64_t sorted_strides[MOST_WANTED]


@cython.final
cdef class Operands:
    cdef readonly tuple rows
    cdef public object on_misfit
    cdef Want *wants
    cdef int count
    cdef int check(self, tuple pointers, const Said *said, uint64_t absent) except -1
    cdef int objects_into(self, tuple pointers, Py_ssize_t ints, void **out, Said *said) except -1
    cdef int misfit(self, int i, object x, int rule) except -1


cdef tuple objects_into(tuple pointers, Py_ssize_t ints, void **out, Said *said)
cdef int scratch_into(object x, size_t size_bytes, void **out) except -1

"""What a compute call reads of a handle."""
cimport cython
from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport uint64_t

from cydnn.core._descriptor cimport Descriptor
from cydnn.core._table cimport PlanTable


@cython.final
cdef class Turns:
    cdef PyThread_type_lock lock
    cdef uint64_t owner                       # the thread that has it, ``depth`` times over; 0: none
    cdef int depth
    cdef object __weakref__
    cdef int take(self) except -1
    cdef int give(self) except -1


cdef class HandleBase(Descriptor):
    cdef public PlanTable table
    cdef public object stream, scratch, scratch_bytes
    cdef readonly Turns turns

"""What a compute call reads of a handle."""
cimport cython
from cpython.pythread cimport PyThread_type_lock

from cydnn._table cimport Descriptor, PlanTable


@cython.final
cdef class Turns:
    cdef PyThread_type_lock lock
    cdef unsigned long owner                  # the thread that has it, ``depth`` times over
    cdef int depth
    cdef object __weakref__
    cdef int take(self) except -1
    cdef int give(self) except -1


cdef class HandleBase(Descriptor):
    cdef public PlanTable table
    cdef public object stream, scratch, scratch_bytes
    cdef readonly Turns turns

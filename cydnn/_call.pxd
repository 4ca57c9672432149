"""What a compute call reads of a handle."""
from cydnn._table cimport Descriptor, PlanTable


cdef class HandleBase(Descriptor):
    cdef public PlanTable table
    cdef public object stream, scratch, scratch_bytes

"""Descriptors, and when what they say has changed."""
cimport cython
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #define CYDNN_FIRST_ADDRESS 0x7D0000000000ull
    """
    const uint64_t FIRST_ADDRESS "CYDNN_FIRST_ADDRESS"     # above any other integer of a key

cdef uint64_t epoch                           # moves behind a descriptor that was set and changes or goes


cdef class Descriptor:
    cdef object __weakref__
    cdef readonly str kind                    # None until set
    cdef readonly object fields
    cdef readonly uint64_t stamp              # 0 until set; equal for equal (kind, fields)
    cdef readonly uint64_t address
    cdef readonly bint is_destroyed
    cdef void say(self, uint64_t stamp) noexcept
    cdef tuple content(self)


cdef Descriptor at(object address)
cdef uint64_t new_stamp() noexcept

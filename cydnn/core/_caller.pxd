"""The lookup of a call."""

cdef class Caller:
    cdef dict places, calls, rows
    cdef tuple defaults
    cdef int arrays[8]
    cdef int options[32]
    cdef int count, needed, positional, array_count, option_count, out, device, explain
    cdef bint bind(self, tuple args, dict kw, void **values) except -1
    cdef object key_of(self, void **values)
    cdef tuple given(self, void **values)

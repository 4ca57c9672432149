"""The lookup of a call, and the call."""

cdef class Runner:
    cdef str name
    cdef public object execute                # of the plan
    cdef object stream, space
    cdef tuple slots, makes
    cdef Py_ssize_t most                      # arguments that there must be
    cdef size_t size_bytes
    cdef void *seen                           # the type of an array that was looked at
    cdef void *taken                          # that of an out=
    cdef public bint is_plain
    cdef public object records                # of arrays that may require a gradient: is one recorded?
    cdef public object written                # called with what out= is, once it is written
    cdef bint is_tuple
    cdef object run_c(self, tuple arrays, object out)
    cdef int refuse_gradients(self, tuple arrays) except -1
    cpdef refuse_number(self, x)


cdef class Caller:
    cdef dict places, calls, rows
    cdef tuple defaults
    cdef int arrays[8]
    cdef int options[32]
    cdef int count, needed, positional, array_count, option_count, out, device, explain
    cdef bint bind(self, tuple args, dict kw, void **values) except -1
    cdef object key_of(self, void **values)
    cdef tuple given(self, void **values)


cdef class Known:
    cdef dict calls
    cdef object records
    cdef Py_ssize_t most
    cdef object key_of(self, tuple args, dict kw)

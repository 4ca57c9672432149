"""The by-value numbers of a tape."""
cimport cython
from libc.stdint cimport int64_t

ctypedef union number_t:                      # which of the two: Rule.is_whole of its place
    double real
    int64_t whole

cdef struct Rule:
    bint is_whole
    bint is_required                          # has no default
    int64_t least                             # of a whole number
    int64_t most


@cython.final
cdef class Numbers:
    cdef readonly tuple keys
    cdef readonly int count, required         # required: how many have no default
    cdef number_t *defaults
    cdef Rule *rules
    cdef object plain(self, Py_ssize_t i, number_t number)
    cdef str name(self, Py_ssize_t i)
    cpdef int narrow(self, Py_ssize_t i, int64_t least, int64_t most) except -1
    cdef int read(self, Py_ssize_t i, object x, number_t *out) except -1
    cdef int choose(self, Py_ssize_t i, object x, number_t *out) except -1
    cdef int read_all(self, tuple given, number_t *out) except -1
    cdef int refuse_count(self, Py_ssize_t given) except -1
    cdef int refuse_missing(self) except -1 with gil

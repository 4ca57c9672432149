"""The table of plans."""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t


cdef enum:
    MAX_KEYS = 16
    MAX_NULLABLE = 31                         # pointers that may be NULL are among the first 31

cdef struct Row:
    uint64_t hash
    uint64_t words[MAX_KEYS + 1]              # function, alignment and absent pointers; then one a key
    int count
    size_t turn                               # of the table, when it was last asked for
    PyObject *executable                      # owned; NULL: a free row

@cython.final
cdef class PlanTable:
    cdef readonly size_t size, limit
    cdef size_t room, puts, turn
    cdef Row *rows
    cdef Row *find(self, Row *key) noexcept nogil
    cdef int rebuild(self, size_t room, size_t turn) except -1
    cdef bint attempt(self, int64_t fn, tuple keys, tuple pointers, tuple scalars, workspace,
                      size_t workspace_bytes, stream) except -1

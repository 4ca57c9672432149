"""The tape. ``execute_c`` runs one without the GIL."""
cimport cython
from cpython.long cimport PyLong_AsVoidPtr, PyLong_CheckExact
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint64_t, uintptr_t

from cydnn.core._context cimport Context, Function
from cydnn.core._numbers cimport Numbers, number_t
from cydnn.core._operands cimport Operands
from cydnn.core._step cimport Patch, Step

cdef enum:
    MAX_SLOTS = 1024                          # operands and scalars live on the C stack while a tape runs


cdef struct Slot:
    size_t bytes
    size_t mask                               # alignment - 1
    bint is_written
    bint is_optional
    bint is_remote

cdef struct Pair:                             # a written slot and another slot: their bytes must not overlap
    int written
    int other
    bint is_inplace                           # exactly one place is allowed
    int64_t behind                            # bytes that it is behind the written one
    uint64_t period                           # bytes; 0: none. A tensor lies in the first (its run) of each
    uint64_t run
    uint64_t other_run

cdef inline bint lies_between(Pair *pair, uintptr_t a, uintptr_t b) noexcept nogil:
    """The tensor at ``a`` lies in the gaps of the one at ``b``: both have one period, and their runs in it
    are apart."""
    cdef uint64_t after
    if pair.period == 0:
        return False
    after = (a - b) % pair.period if a >= b else pair.period - 1 - (b - a - 1) % pair.period
    return after >= pair.other_run and after + pair.run <= pair.period


@cython.final
cdef class Tape:
    cdef object __weakref__
    cdef readonly Context context
    cdef readonly Operands operands
    cdef readonly Numbers numbers
    cdef readonly size_t workspace_bytes, workspace_alignment
    cdef readonly int slot_count, scalar_count, step_count
    cdef readonly bint is_sealed
    cdef readonly str problem
    cdef uint64_t serial                      # in the ring of launches
    cdef int pair_count, step_room
    cdef Slot *slots
    cdef Pair *pairs
    cdef Step *steps
    cdef list functions
    cdef Step *append(self) except NULL
    cdef int patch_into(self, Patch *patch, size_t data_bytes, object offset, str kind, int index,
                        int64_t addend) except -1
    cdef int align_for_map(self, object offset, int index, int64_t addend) except -1
    cdef int validate(self, void **pointers, void *workspace, size_t workspace_bytes, int *slot,
                      int *other) noexcept nogil
    cdef int validate_workspace(self, void **pointers, void *workspace, size_t workspace_bytes, int *slot,
                                int *other) noexcept nogil
    cdef int refuse(self, int rule, int slot, int other, void **pointers, void *workspace,
                    size_t workspace_bytes) except -1 with gil
    cdef int start(self, void **pointers, Py_ssize_t n, object scalars, object workspace,
                 size_t workspace_bytes, object stream) except -1


cdef int execute_c(Tape tape, void **pointers, number_t *scalars, void *workspace, size_t workspace_bytes,
                   void *stream) except -1 nogil

cdef int admit(Tape tape, void **pointers, void *workspace, size_t workspace_bytes,
               bint pushed) except -1 nogil

cdef int refuse_count(tuple pointers) except -1

cdef inline Py_ssize_t ints_into(tuple pointers, void **out) except -1:
    """The addresses of the first of at most MAX_SLOTS pointers that are ints; returns how many are."""
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(pointers)
    if n > MAX_SLOTS:
        refuse_count(pointers)
    for i in range(n):
        if not PyLong_CheckExact(<object>PyTuple_GET_ITEM(pointers, i)):
            return i
        out[i] = PyLong_AsVoidPtr(<object>PyTuple_GET_ITEM(pointers, i))
    return n

"""The tape. ``execute_c`` runs one without the GIL."""
cimport cython
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint64_t

from cydnn._address cimport pointer_into
from cydnn._context cimport Context, Function
from cydnn._numbers cimport Numbers, number_t
from cydnn._step cimport Patch, Step

cdef enum:
    MAX_SLOTS = 256                           # operands and scalars live on the C stack while a tape runs


cdef struct Slot:
    size_t bytes
    size_t mask                               # alignment - 1
    bint is_written
    bint is_optional

cdef struct Pair:                             # a written slot and another slot: their bytes must not overlap
    int written
    int other
    bint is_inplace                           # exactly the same address is allowed
    uint64_t period                           # bytes; 0: none. A tensor lies in the first (its run) of each
    uint64_t run
    uint64_t other_run


@cython.final
cdef class Tape:
    cdef object __weakref__
    cdef readonly Context context
    cdef readonly tuple names
    cdef readonly Numbers numbers
    cdef readonly size_t workspace_bytes, workspace_alignment
    cdef readonly int slot_count, scalar_count, step_count
    cdef readonly bint is_sealed
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

cdef int refuse_count(tuple pointers) except -1

cdef inline int addresses_into(tuple pointers, void **out) except -1:        # of at most MAX_SLOTS pointers
    cdef Py_ssize_t i
    if PyTuple_GET_SIZE(pointers) > MAX_SLOTS:
        refuse_count(pointers)
    for i in range(PyTuple_GET_SIZE(pointers)):
        pointer_into(<object>PyTuple_GET_ITEM(pointers, i), &out[i])
    return 0

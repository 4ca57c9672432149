"""What another Cython package may cimport: ``execute_c`` runs a tape without the GIL; the handles are those of ``_driver``."""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t

from cydnn._driver cimport Buffer, Context, Event, Function, Stream, check, driver, pointer_into, pointer_of, stream_into, stream_of


cdef struct Slot:
    size_t bytes
    size_t mask                               # alignment - 1
    bint is_written
    bint is_optional

cdef struct Pair:                             # a written slot and another slot: their bytes must not overlap
    int written
    int other
    bint is_inplace                           # exactly the same address is allowed
    uint64_t period                           # bytes; 0: none. Each tensor lies in the first bytes (its run) of every period
    uint64_t run
    uint64_t other_run

cdef struct Patch:
    unsigned int offset                       # in the parameter block
    int index                                 # of the slot (-1: workspace) or of the scalar
    int kind
    int64_t addend

cdef struct Step:
    void *function                            # NULL: a memset of patches[0]
    const char *label
    unsigned int grid[3]
    unsigned int block[3]
    unsigned int smem
    size_t bytes                              # of the parameter block, or to set
    char *data
    int value
    int patch_count
    Patch *patches


@cython.final
cdef class Tape:
    cdef object __weakref__
    cdef readonly Context context
    cdef readonly tuple names
    cdef readonly size_t workspace_bytes, workspace_alignment
    cdef readonly int slot_count, scalar_count, step_count
    cdef readonly bint is_sealed
    cdef int pair_count, step_room
    cdef Slot *slots
    cdef Pair *pairs
    cdef Step *steps
    cdef double *defaults
    cdef list functions
    cdef Step *append(self, int patch_count) except NULL
    cdef int patch_into(self, Patch *patch, size_t data_bytes, object offset, int kind, int index, int64_t addend) except -1
    cdef int validate(self, void **pointers, void *workspace, size_t workspace_bytes, int *slot, int *other) noexcept nogil
    cdef int refuse(self, int rule, int slot, int other, void **pointers, void *workspace,
                    size_t workspace_bytes) except -1 with gil
    cdef int run(self, void **pointers, Py_ssize_t n, object scalars, object workspace, size_t workspace_bytes,
                  object stream) except -1


cdef int execute_c(Tape tape, void **pointers, double *scalars, void *workspace, size_t workspace_bytes,
                   void *stream) except -1 nogil


cdef class Descriptor:
    cdef object __weakref__
    cdef readonly str kind                    # None until set
    cdef readonly object fields
    cdef readonly uint64_t stamp              # 0 until set; equal for equal (kind, fields)
    cdef readonly uint64_t address
    cdef readonly bint is_destroyed


cdef struct Row:
    uint64_t hash
    uint64_t words[11]
    int count
    PyObject *executable                      # owned; NULL: a free row

@cython.final
cdef class PlanTable:
    cdef readonly size_t size, limit
    cdef size_t room
    cdef Row *rows
    cdef Row *find(self, Row *key) noexcept nogil
    cdef int grow(self) except -1
    cdef bint attempt(self, int fn_id, tuple keys, tuple pointers, tuple scalars, workspace, size_t workspace_bytes, stream) except -1


cdef class HandleBase(Descriptor):
    cdef public PlanTable table
    cdef public object stream, scratch, scratch_bytes

"""The steps of a tape: launches with packed parameters, and memsets."""
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from cydnn.core._context cimport Context, Function
from cydnn.core._driver cimport cu
from cydnn.core._numbers cimport Rule, number_t
from cydnn.core.atomics cimport read_flag
from cydnn.core.cuda cimport LaunchAttribute

cdef enum:
    MAX_DATA = 4096                           # bytes of a parameter block that every driver takes
    MAX_ATTRIBUTES = 3                        # cluster, cooperative, dependent
    MAX_PARAMS = 64                           # of a launch with tensor maps

cdef extern from *:
    """
    #define CYDNN_LAUNCH_END     ((void *)0)      /* CU_LAUNCH_PARAM_END */
    #define CYDNN_LAUNCH_POINTER ((void *)1)      /* CU_LAUNCH_PARAM_BUFFER_POINTER */
    #define CYDNN_LAUNCH_SIZE    ((void *)2)      /* CU_LAUNCH_PARAM_BUFFER_SIZE */
    typedef struct { _Alignas(128) char bytes[4096]; } cydnn_block;
    """
    void *LAUNCH_END "CYDNN_LAUNCH_END"
    void *LAUNCH_POINTER "CYDNN_LAUNCH_POINTER"
    void *LAUNCH_SIZE "CYDNN_LAUNCH_SIZE"
    ctypedef struct Block "cydnn_block":      # a parameter block, aligned for tensor maps
        char bytes[MAX_DATA]

cdef enum:                                    # keys of kinds.PATCHES
    PATCH_POINTER, PATCH_MAP, PATCH_F32, PATCH_F64, PATCH_I32, PATCH_I64

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
    unsigned int attribute_count
    unsigned int param_count                  # 0: the parameters go to the driver as one block
    unsigned short params[MAX_PARAMS]         # else where each begins
    size_t bytes                              # of the parameter block, or to set
    char *data
    int value
    int patch_count
    Patch *patches
    LaunchAttribute attributes[MAX_ATTRIBUTES]


cdef int shape_into(Step *step, Function function, object grid, object block, unsigned int smem) except -1
cdef int attributes_into(Step *step, Function function, object cluster, bint cooperative,
                         bint dependent) except -1
cdef int data_into(Step *step, Function function, bytes data, object params, Py_ssize_t patches) except -1
cdef int set_into(Step *step, size_t bytes, int value) except -1
cdef void clear(Step *step) noexcept
cdef str attributes_of(Step *step)

# What is rare in running a step
cdef int launch(Step *step, void *stream, char *data, void **extra) noexcept nogil
cdef int set_bytes(Step *step, void **pointers, void *workspace, void *stream) noexcept nogil
cdef void log_launch(Step *step) noexcept with gil
cdef int fail_step(Context context, Step *step, str problem, int number, int count, int status,
                   const char *call) except -1 with gil
cdef bint is_logging, is_stepwise


# -- Running it, where the tape is: calls from module to module cost what they do ----------------------------

cdef inline void write_number(char *to, int kind, number_t number, bint is_whole) noexcept nogil:
    """A number as a kernel takes it. Only whole ones are taken as i32 or i64."""
    cdef double real
    cdef float single
    cdef int32_t word
    if kind == PATCH_F32:
        single = <float>number.whole if is_whole else <float>number.real
        memcpy(to, &single, 4)
    elif kind == PATCH_F64:
        real = <double>number.whole if is_whole else number.real
        memcpy(to, &real, 8)
    elif kind == PATCH_I32:
        word = <int32_t>number.whole
        memcpy(to, &word, 4)
    else:
        memcpy(to, &number.whole, 8)


cdef inline int fill(Step *step, void **pointers, void *workspace, number_t *numbers, Rule *rules,
                     Block *block) noexcept nogil:
    """The parameter block of a launch, patched. Returns the status of cuTensorMapReplaceAddress."""
    cdef Patch *patch
    cdef char *base
    cdef int i, status
    memcpy(block.bytes, step.data, step.bytes)
    for i in range(step.patch_count):
        patch = &step.patches[i]
        if patch.kind > PATCH_MAP:
            write_number(&block.bytes[patch.offset], patch.kind, numbers[patch.index],
                         rules[patch.index].is_whole)
            continue
        base = <char *>(workspace if patch.index < 0 else pointers[patch.index])
        base = base + patch.addend if base != NULL else NULL
        if patch.kind == PATCH_POINTER:
            memcpy(&block.bytes[patch.offset], &base, 8)
        elif base != NULL:
            status = cu.TensorMapReplaceAddress(&block.bytes[patch.offset], base)
            if status:
                return status
    return 0


cdef inline int run(Step *step, void **pointers, void *workspace, number_t *numbers, Rule *rules,
                    void *stream, const char **call) noexcept nogil:
    """Patch and launch, or set. Returns the driver's status; ``call`` is what gave it."""
    cdef Block block
    cdef void *extra[5]
    cdef int status
    if step.function == NULL:
        call[0] = "cuMemsetD8Async"
        return set_bytes(step, pointers, workspace, stream)
    status = fill(step, pointers, workspace, numbers, rules, &block)
    if status:
        call[0] = "cuTensorMapReplaceAddress"
        return status
    extra[0], extra[1], extra[2], extra[3], extra[4] = (
        LAUNCH_POINTER, block.bytes, LAUNCH_SIZE, &step.bytes, LAUNCH_END)
    if step.attribute_count or step.param_count:
        call[0], status = "cuLaunchKernelEx", launch(step, stream, block.bytes, extra)
    else:
        call[0] = "cuLaunchKernel"
        status = cu.LaunchKernel(step.function, step.grid[0], step.grid[1], step.grid[2], step.block[0],
                                 step.block[1], step.block[2], step.smem, stream, NULL, extra)
    if status == 0 and read_flag(&is_logging):
        log_launch(step)
    return status

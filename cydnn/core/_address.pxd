"""Addresses of anything that has one, and what it says of the memory there. An int, which the hot path gets,
costs no call."""
cimport cython
from cpython.exc cimport PyErr_Occurred
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t

cdef enum:
    MOST_DIMS = 16                            # of memory that is compared with a tensor; more fit none

cdef enum:                                    # Said.code: of DLPack's type, or
    RAW = -1                                  # bytes, whatever they stand for
    FOREIGN = -2                              # a type that no tensor has
    NOTHING = -3                              # an address: nothing is said

cdef struct Said:                             # what an object says of its memory
    void *ptr
    size_t bytes                              # of RAW memory
    int code
    int bits                                  # of an element
    int rank
    bint is_swapped                           # the other byte order
    bint is_frozen                            # read-only
    const int64_t *dims
    const int64_t *strides                    # in elements; NULL: row-major

cdef struct DLTensor:
    void *data
    int32_t device_type
    int32_t device_id
    int32_t ndim
    uint8_t code
    uint8_t bits
    uint16_t lanes
    int64_t *shape
    int64_t *strides
    uint64_t byte_offset

ctypedef int (*fn_dltensor)(PyObject *x, DLTensor *out) except -1

cdef struct ExchangeAPI:                      # DLPackExchangeAPI of DLPack 1
    uint32_t major
    uint32_t minor
    ExchangeAPI *previous
    void *allocate
    void *managed_from_object
    void *managed_to_object
    fn_dltensor dltensor_from_object
    void *current_work_stream


@cython.final
cdef class Memory:
    cdef Said said
    cdef int64_t numbers[2 * MOST_DIMS]       # dims, then strides
    cdef readonly object place
    cdef object owner                         # what keeps the memory alive
    cdef object name                          # of a FOREIGN type


cdef int pointer_other(object x, void **out) except -1           # what `pointer_of` accepts beside an int
cdef int stream_other(object x, void **out) except -1            # what `stream_of` accepts beside an int
cdef bint say(object x, Said *said) except -1                    # False: it must be asked in Python
cdef ExchangeAPI *find_api(object x) except? NULL        # of a type of tensors; NULL: it has none
cdef int tensor_of(ExchangeAPI *api, object x, DLTensor *out) except -1
cdef void say_tensor(DLTensor *t, Said *said) noexcept
cpdef Memory memory_of(object x)


cdef inline size_t bytes_of(const Said *said) noexcept nogil:
    """From the first element to the end of the last."""
    cdef int64_t last = 0, packed = 1
    cdef int i
    if said.code == RAW:
        return said.bytes
    for i in range(said.rank - 1, -1, -1):
        if said.dims[i] == 0:
            return 0
        last += (said.dims[i] - 1) * (packed if said.strides == NULL else max(said.strides[i], 0))
        packed *= said.dims[i]
    return <size_t>((last + 1) * said.bits + 7) // 8

cdef extern from "Python.h":
    size_t unchecked "PyLong_AsSize_t"(object x)                 # its error is looked for below

cdef int refuse_number(const char *what, object x) except -1     # no address

cdef inline int number_into(const char *what, object x, void **out) except -1:
    """The address that an int is; one call, as in C."""
    cdef size_t number = unchecked(x)
    if number == <size_t>-1 and PyErr_Occurred():
        return refuse_number(what, x)
    out[0] = <void *>number
    return 0

cdef size_t size_of(object x) except? 0                          # bytes of a workspace, as the caller says

cdef inline int pointer_into(object x, void **out) except -1:    # what `pointer_of` accepts
    if PyLong_CheckExact(x):
        return number_into("pointer", x, out)
    return pointer_other(x, out)

cdef inline int stream_into(object x, void **out) except -1:     # what `stream_of` accepts
    if PyLong_CheckExact(x):
        return number_into("stream", x, out)
    return stream_other(x, out)


cpdef uintptr_t pointer_of(object x) except? 0
cpdef uintptr_t stream_of(object x) except? 0

"""DLPack capsules of memory that is ours."""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

cdef struct Managed:                          # DLManagedTensor: DLTensor, then what frees it
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
    void *owner
    void (*deleter)(Managed *) noexcept with gil


cdef void released(Managed *tensor) noexcept with gil:
    """Whoever took the capsule needs the memory no more."""
    Py_DECREF(<object>tensor.owner)
    free(tensor)


cdef void unused(PyObject *capsule) noexcept with gil:
    """A capsule that nobody took."""
    if PyCapsule_IsValid(<object>capsule, "dltensor"):
        released(<Managed *>PyCapsule_GetPointer(<object>capsule, "dltensor"))


ctypedef void (*destructor)(PyObject *) noexcept with gil

cdef extern from "Python.h":
    object new_capsule "PyCapsule_New"(void *pointer, const char *name, destructor end)


def capsule_of(owner, uintptr_t address, tuple place, tuple kind, tuple dims, tuple strides):
    """A capsule of the memory at ``address``, which ``owner`` keeps. ``place``: (type, number) of the device,
    ``kind``: (code, bits) of an element, as DLPack counts them; ``strides`` in elements."""
    cdef int rank = len(dims)
    cdef Managed *tensor = <Managed *>malloc(sizeof(Managed) + 2 * rank * sizeof(int64_t))
    if tensor == NULL:
        raise MemoryError()
    cdef int64_t *numbers = <int64_t *>(tensor + 1)
    try:
        for i in range(rank):
            numbers[i], numbers[rank + i] = dims[i], strides[i]
        tensor.data, tensor.ndim, tensor.lanes, tensor.byte_offset = <void *>address, rank, 1, 0
        tensor.device_type, tensor.device_id = place
        tensor.code, tensor.bits = kind
        tensor.shape, tensor.strides = numbers, numbers + rank
        tensor.owner, tensor.deleter = <void *>owner, released
        made = new_capsule(tensor, "dltensor", unused)
    except BaseException:
        free(tensor)
        raise
    Py_INCREF(owner)
    return made

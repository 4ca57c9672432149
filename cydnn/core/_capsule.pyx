"""DLPack capsules of memory that is ours."""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, malloc

from cydnn.core._address cimport DLTensor

cdef struct Managed:                          # DLManagedTensor
    DLTensor tensor
    void *owner
    void (*deleter)(Managed *) noexcept with gil


cdef void released(Managed *lent) noexcept with gil:
    """Whoever took the capsule needs the memory no more."""
    Py_DECREF(<object>lent.owner)
    free(lent)


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
    cdef Managed *lent = <Managed *>malloc(sizeof(Managed) + 2 * rank * sizeof(int64_t))
    if lent == NULL:
        raise MemoryError()
    cdef int64_t *numbers = <int64_t *>(lent + 1)
    try:
        for i in range(rank):
            numbers[i], numbers[rank + i] = dims[i], strides[i]
        type, number = place
        code, bits = kind
        lent.tensor = DLTensor(data=<void *>address, device_type=type, device_id=number, ndim=rank, code=code,
                               bits=bits, lanes=1, shape=numbers, strides=numbers + rank, byte_offset=0)
        lent.owner, lent.deleter = <void *>owner, released
        made = new_capsule(lent, "dltensor", unused)
    except BaseException:
        free(lent)
        raise
    Py_INCREF(owner)
    return made

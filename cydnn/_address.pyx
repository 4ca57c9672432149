"""Addresses out of other people's objects, and out of ours: pointers and streams.

This module and ``_context`` use each other's functions: a context copies to whatever has an address, and a
Buffer in a context has one. Their declarations (.pxd) do not.
"""
from cpython.buffer cimport PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.long cimport PyLong_AsVoidPtr, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t

from cydnn._handles cimport Buffer, Stream

from cydnn.status import BadParam


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

# The last type that offered the exchange API; a reference, so its address stays its own.
cdef object api_type = None
cdef ExchangeAPI *api_table = NULL


cdef ExchangeAPI *find_api(object x) except? NULL:
    global api_type, api_table
    cdef ExchangeAPI *api
    if type(x) is api_type:
        return api_table
    capsule = getattr(type(x), "__dlpack_c_exchange_api__", None)
    if capsule is None or not PyCapsule_IsValid(capsule, "dlpack_exchange_api"):
        return NULL
    api = <ExchangeAPI *>PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
    while api != NULL and api.major != 1:
        api = api.previous
    if api == NULL or api.dltensor_from_object == NULL:
        return NULL
    api_table, api_type = api, type(x)
    return api


cdef int pointer_other(object x, void **out) except -1:
    cdef DLTensor tensor
    cdef ExchangeAPI *api
    if x is None:
        out[0] = NULL
        return 0
    if isinstance(x, Buffer):
        out[0] = <void *>(<Buffer>x).ptr
        return 0
    api = find_api(x)
    if api == NULL:
        return pointer_slow(x, out)
    api.dltensor_from_object(<PyObject *>x, &tensor)
    out[0] = <char *>tensor.data + tensor.byte_offset
    return 0


cdef int pointer_slow(object x, void **out) except -1:
    """The ways that cost a dict or a capsule.

    Integers of NumPy come first: they too offer a buffer, which is not what they mean.
    """
    cdef Py_buffer view
    cdef DLTensor *tensor
    from numbers import Integral
    if isinstance(x, Integral):
        out[0] = PyLong_AsVoidPtr(int(x))
        return 0
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is None and PyObject_CheckBuffer(x):
        PyObject_GetBuffer(x, &view, PyBUF_STRIDED_RO)
        out[0] = view.buf
        PyBuffer_Release(&view)
        return 0
    if interface is None:
        interface = getattr(x, "__array_interface__", None)
    if interface is not None:
        out[0] = PyLong_AsVoidPtr(int(interface["data"][0]))
        return 0
    if not hasattr(x, "__dlpack__"):
        raise BadParam("pointer: must be an int address, None, or an object with DLPack, "
                       f"__cuda_array_interface__ or a buffer; got {type(x).__name__}")
    capsule = x.__dlpack__()
    if not PyCapsule_IsValid(capsule, "dltensor"):
        raise BadParam(f"pointer: __dlpack__() must give a capsule named dltensor; got {capsule!r} "
                       f"from {type(x).__name__}")
    # The tensor is first in DLManagedTensor; the capsule frees itself.
    tensor = <DLTensor *>PyCapsule_GetPointer(capsule, "dltensor")
    out[0] = <char *>tensor.data + tensor.byte_offset
    return 0


cpdef uintptr_t pointer_of(object x) except? 0:
    """The address in an int, None (0), a Buffer, a NumPy array, or any object with DLPack or
    ``__cuda_array_interface__``.
    """
    cdef void *out
    pointer_into(x, &out)
    return <uintptr_t>out


cdef int stream_other(object x, void **out) except -1:
    if x is None:
        out[0] = NULL
        return 0
    if isinstance(x, Stream):
        out[0] = (<Stream>x).handle
        return 0
    if hasattr(x, "__cuda_stream__"):
        protocol = x.__cuda_stream__
        address = (protocol() if callable(protocol) else protocol)[1]
    else:
        address = getattr(x, "cuda_stream", getattr(x, "ptr", None))        # older torch, older cupy
    if address is None:
        raise BadParam("stream: must be an int address, None, or an object with __cuda_stream__; "
                       f"got {type(x).__name__}")
    out[0] = PyLong_AsVoidPtr(int(address))
    return 0


cpdef uintptr_t stream_of(object x) except? 0:
    """The address in an int, None (the default stream, 0), a Stream, or any object with ``__cuda_stream__``
    or ``cuda_stream``.
    """
    cdef void *out
    stream_into(x, &out)
    return <uintptr_t>out

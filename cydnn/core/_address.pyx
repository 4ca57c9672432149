"""Addresses out of other people's objects, and out of ours: pointers and streams. What an object says of its
memory is read with the address, once, here.

This module and ``_context`` use each other's functions: a context copies to whatever has an address, and a
Buffer in a context has one. Their declarations (.pxd) do not.
"""
cimport cython
from cpython.buffer cimport PyBUF_RECORDS_RO, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_Check, PyLong_CheckExact
from cpython.number cimport PyIndex_Check
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int64_t, uintptr_t

from cydnn.core._handles cimport Buffer, Stream

import sys
from numbers import Integral

from cydnn.dtypes import dlpack_type
from cydnn.given import reason, shown, unmasked, whole
from cydnn.status import BadParam, CydnnError

cdef enum:                                    # DLDeviceType: those of which the host reads and writes
    ON_HOST = 1, PINNED = 3, PINNED_ROCM = 11, MANAGED = 13
cdef enum:                                    # codes of DLDataTypeCode
    INT = 0, UINT = 1, FLOAT = 2, OPAQUE = 3, COMPLEX = 5, BOOL = 6

cdef str HOST = "host", GPU = "a GPU"         # Memory.place
cdef dict CODES = {"i": INT, "u": UINT, "f": FLOAT, "c": COMPLEX, "b": BOOL}      # of a type string
cdef dict LETTERS = {**dict.fromkeys("bhilqn", INT), **dict.fromkeys("BHILQN", UINT),
                     **dict.fromkeys("efdg", FLOAT), "Zf": COMPLEX, "Zd": COMPLEX, "?": BOOL}   # of a buffer
cdef dict types = {}                          # type strings and formats that were seen -> what they mean
cdef bint is_little = sys.byteorder == "little"


# The last type that offered the exchange API, and the last that did not; references, so their addresses stay
# their own. ``seen``: what locks them where there is no GIL.
cdef object api_type = None, other_type = None, seen = object()
cdef ExchangeAPI *api_table = NULL


cdef ExchangeAPI *find_api(object x) except? NULL:
    global api_type, api_table, other_type
    cdef ExchangeAPI *api = NULL
    with cython.critical_section(seen):
        if type(x) is api_type or type(x) is other_type:
            return api_table if type(x) is api_type else NULL
    capsule = getattr(type(x), "__dlpack_c_exchange_api__", None)
    if PyCapsule_IsValid(capsule, "dlpack_exchange_api"):
        api = <ExchangeAPI *>PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
    while api != NULL and (api.major != 1 or api.dltensor_from_object == NULL):
        api = api.previous
    with cython.critical_section(seen):
        if api == NULL:
            other_type = type(x)
        else:
            api_table, api_type = api, type(x)
    return api


cdef int refuse_number(const char *what, object x) except -1:
    PyErr_Clear()
    raise BadParam(f"{what.decode()}: must be an address, from 0 to 2**64 - 1; got {shown(x)}")


cdef size_t size_of(object x) except? 0:
    cdef size_t number = unchecked(x) if PyLong_CheckExact(x) else <size_t>-1
    if number != <size_t>-1:
        return number
    PyErr_Clear()
    given = whole("execute: workspace_bytes", x)
    if given < 0:
        raise BadParam(f"execute: workspace_bytes must be >= 0; got {given}")
    return given


# -- What memory says of itself ------------------------------------------------------------------------------

cdef void say_tensor(DLTensor *t, Said *said) noexcept:
    said.ptr = <char *>t.data + t.byte_offset
    said.code, said.bits = t.code if t.lanes == 1 else FOREIGN, t.bits * t.lanes
    said.rank, said.dims, said.strides = t.ndim, t.shape, t.strides
    said.is_swapped = said.is_frozen = False


cdef bint say(object x, Said *said) except -1:
    cdef ExchangeAPI *api
    cdef DLTensor tensor
    if PyLong_CheckExact(x) or x is None:
        said.ptr, said.code = NULL, NOTHING
        if x is not None:
            number_into("pointer", x, &said.ptr)
    elif isinstance(x, Memory):
        said[0] = (<Memory>x).said
    elif isinstance(x, Buffer):
        said.ptr, said.bytes, said.code = <void *>(<Buffer>x).ptr, (<Buffer>x).bytes, RAW
        said.is_frozen = False
        if said.ptr == NULL:
            raise BadParam(f"pointer: must be memory that was not freed; got {x!r}")
    else:
        api = find_api(x)
        if api == NULL:
            return False
        tensor_of(api, x, &tensor)
        say_tensor(&tensor, said)
    return True


cdef int tensor_of(ExchangeAPI *api, object x, DLTensor *out) except -1:
    try:
        api.dltensor_from_object(<PyObject *>x, out)
    except Exception as error:                # of a tensor that has no memory, say
        raise BadParam(f"pointer: {type(x).__name__} does not give its memory: {reason(error)}") from None


@cython.final
@cython.freelist(64)
cdef class Memory:
    """What an object says of its memory: ``memory_of``. An address says nothing.

    ``place``: "host", "a GPU", for memory of an interpreter what it belongs to, None for an address.
    """
    @property
    def address(self) -> int:
        return <uintptr_t>self.said.ptr

    @property
    def bytes(self) -> int | None:
        """From the address to the end; None where nothing is said."""
        return None if self.said.code == NOTHING else bytes_of(&self.said)

    @property
    def is_frozen(self) -> bool:
        return self.said.is_frozen

    @property
    def count(self) -> int:
        """Elements."""
        cdef int64_t found = 1
        for i in range(self.said.rank):
            found *= self.said.dims[i]
        return found

    @property
    def dims(self) -> tuple:
        return tuple([self.said.dims[i] for i in range(self.said.rank)])

    @property
    def strides(self) -> tuple:
        """In elements."""
        return tuple([self.said.strides[i] for i in range(self.said.rank)])

    @property
    def type(self) -> str:
        """``float32``; what it is made of."""
        code, order = self.said.code, "byte-swapped " if self.said.is_swapped else ""
        named = {RAW: "bytes", BOOL: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2", 14: "float8_e8m0fnu",
                 FOREIGN: f"the type {self.name}"}
        sized = {INT: "int", UINT: "uint", FLOAT: "float", COMPLEX: "complex", 4: "bfloat"}
        return order + named.get(code, f"{sized.get(code, f'type {code} of ')}{self.said.bits}")

    def __repr__(self):
        return f"<memory at {self.address:#x}>"

    def part(self, size_t offset) -> Memory:
        """What lies behind the first ``offset`` bytes."""
        cdef Memory found = Memory.__new__(Memory)
        cdef size_t size = 0 if self.said.code == NOTHING else bytes_of(&self.said)
        found.said, found.place, found.owner = self.said, self.place, self
        found.said.ptr = <char *>self.said.ptr + offset
        found.said.bytes = size - min(size, offset)
        if found.said.code != NOTHING:
            found.said.code = RAW
        return found


cdef tuple meaning(str key, Py_ssize_t itemsize):
    """(code, bits, is the byte order another) of ``<f4``, or of the format ``f``."""
    other = (">", "!") if is_little else ("<",)
    is_swapped, letters = key[:1] in other and itemsize > 1, key.lstrip("@=<>!|")
    if letters == "f1":                          # what ml_dtypes says of float8_e5m2 alone
        return 12, 8, False
    if len(letters) > 1 and letters[0] in CODES and letters[1:].isdigit():
        return CODES[letters[0]], 8 * itemsize, is_swapped
    return LETTERS.get(letters, FOREIGN), 8 * itemsize, is_swapped


cdef int say_shape(Memory m, tuple dims, object strides, int64_t unit) except -1:
    """``strides``: of ``unit`` bytes, None for row-major."""
    cdef Py_ssize_t i, rank = len(dims)
    cdef int64_t packed = 1, stride, size
    if rank > MOST_DIMS:
        raise BadParam(f"pointer: memory must have <= {MOST_DIMS} dims; got {dims}")
    m.said.rank, m.said.dims, m.said.strides = <int>rank, m.numbers, m.numbers + MOST_DIMS
    for i in range(rank - 1, -1, -1):
        size = dims[i]
        if size < 0:
            raise BadParam(f"pointer: memory must have dims >= 0; got {dims}")
        stride = packed * unit if strides is None else (<tuple?>strides)[i]
        # one of parts of an element is none that a tensor has
        stride = packed if size == 1 else stride // unit if unit and stride % unit == 0 else -1
        m.numbers[i], m.numbers[MOST_DIMS + i] = size, stride
        packed *= size
    return 0


cdef int64_t say_type(Memory m, str key, Py_ssize_t itemsize) except -1:
    """Bytes of an element. ``key``: a type string of NumPy, which says them, or a format of a buffer."""
    found = types.get(key if itemsize == 0 else (key, itemsize))
    if found is None:
        size = itemsize or int(key[2:].partition("[")[0])         # times have their unit behind: <M8[s]
        found = (*meaning(key, size), size)
        if found[0] == FOREIGN:               # there is no end of them: not remembered
            m.name = key
        else:
            types[key if itemsize == 0 else (key, itemsize)] = found
    m.said.code, m.said.bits, m.said.is_swapped, size = <tuple>found
    return size


cdef int say_address(Memory m, object address, object place) except -1:
    """An address, and nothing that is said."""
    m.said.code, m.place = NOTHING, place
    return number_into("pointer", int(address), &m.said.ptr)


cdef tuple listed(int rank, const int64_t *numbers):
    """Dims or strides that a foreign structure points to; None where it has none, which is row-major."""
    return None if numbers == NULL and rank > 0 else tuple([numbers[i] for i in range(rank)])


cdef int ask_tensor(Memory m, DLTensor *tensor) except -1:
    say_tensor(tensor, &m.said)
    m.place = place_of(tensor.device_type)
    return say_shape(m, listed(tensor.ndim, tensor.shape), listed(tensor.ndim, tensor.strides), 1)


cdef int ask_interface(Memory m, object x, object interface, object place) except -1:
    cdef int64_t size
    address, m.said.is_frozen = interface["data"]
    say_address(m, address, place)
    size = say_type(m, interface["typestr"], 0)
    if m.said.code == FOREIGN:         # types of ml_dtypes have no letter of their own
        m.said.code, m.said.bits = dlpack_type(getattr(x, "dtype", None)) or (FOREIGN, 8 * size)
    return say_shape(m, interface["shape"], interface.get("strides"), size)


cdef bint ask_buffer(Memory m, object x) except -1:
    """False when there is none."""
    cdef Py_buffer view
    if not PyObject_CheckBuffer(x):
        return False
    try:
        PyObject_GetBuffer(x, &view, PyBUF_RECORDS_RO)
    except (BufferError, ValueError):     # arrays of ml_dtypes
        return False
    try:
        m.said.ptr, m.said.is_frozen, m.place = view.buf, view.readonly, HOST
        say_type(m, "B" if view.format == NULL else view.format.decode(), view.itemsize)
        say_shape(m, listed(view.ndim, <int64_t *>view.shape),
                  listed(view.ndim, <int64_t *>view.strides), view.itemsize)
    finally:
        PyBuffer_Release(&view)
    return True


cdef int ask(Memory m, object x) except -1:
    """The ways that cost a dict or a capsule. What offers DLPack may also offer ``__index__``: that of a
    tensor of one element is its value."""
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is not None:
        return ask_interface(m, x, interface, GPU)
    if PyLong_Check(x) or (PyIndex_Check(x) and isinstance(x, Integral)):
        return say_address(m, x, None)
    if hasattr(x, "__cydnn_memory__"):
        address, size, place = x.__cydnn_memory__()
        say_address(m, address, place)
        m.said.code, m.said.bytes = RAW, size
        return 0
    if ask_buffer(m, unmasked("pointer", x)):
        return 0
    interface = getattr(x, "__array_interface__", None)
    if interface is not None:
        return ask_interface(m, x, interface, HOST)
    if not hasattr(x, "__dlpack__"):
        if PyIndex_Check(x):
            return say_address(m, x, None)
        raise BadParam("pointer: must be an int address, None, or an object with DLPack, "
                       f"__cuda_array_interface__ or a buffer; got {type(x).__name__}")
    capsule = x.__dlpack__()
    if not PyCapsule_IsValid(capsule, "dltensor"):
        raise BadParam(f"pointer: __dlpack__() must give a capsule named dltensor; got {capsule!r} "
                       f"from {type(x).__name__}")
    # The tensor is first in DLManagedTensor; the capsule frees it, which may be a copy.
    m.owner = (x, capsule)
    return ask_tensor(m, <DLTensor *>PyCapsule_GetPointer(capsule, "dltensor"))


cdef object place_of(int device):
    return HOST if device in (ON_HOST, PINNED, PINNED_ROCM, MANAGED) else GPU


cpdef Memory memory_of(object x):
    """What an int (an address), None (0), a Buffer, a NumPy array, or any object with DLPack or
    ``__cuda_array_interface__`` says of its memory. Where that is of an interpreter, an object has
    ``__cydnn_memory__() -> (address, bytes, whose)``."""
    cdef Memory found
    cdef DLTensor tensor
    if isinstance(x, Memory):
        return x
    found = Memory.__new__(Memory)
    found.owner = x
    api = find_api(x)
    if api != NULL:
        tensor_of(api, x, &tensor)
        ask_tensor(found, &tensor)
    elif say(x, &found.said):
        found.place = GPU if found.said.code == RAW else None
    else:
        try:
            ask(found, x)
        except CydnnError:
            raise
        except Exception as error:            # its own methods may raise anything
            raise BadParam(f"pointer: {type(x).__name__} does not give its memory: {reason(error)}") from None
    return found


cdef int pointer_other(object x, void **out) except -1:
    cdef Said said
    if not say(x, &said):
        said = memory_of(x).said
    out[0] = said.ptr
    return 0


cpdef uintptr_t pointer_of(object x) except? 0:
    """The address in an int, None (0), a Buffer, a NumPy array, or any object with DLPack or
    ``__cuda_array_interface__``."""
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
    try:
        address = stream_said(x)
        number = None if address is None else int(address)
    except Exception as error:                # its own methods may raise anything
        raise BadParam(f"stream: {type(x).__name__} must give its address; got {error}") from None
    if number is None:
        raise BadParam("stream: must be an int address, None, or an object with __cuda_stream__; "
                       f"got {type(x).__name__}")
    return number_into("stream", number, out)


cdef object stream_said(object x):
    """What an object says of its stream; None where it is no stream."""
    if hasattr(x, "__cuda_stream__"):
        protocol = x.__cuda_stream__
        return (protocol() if callable(protocol) else protocol)[1]
    return getattr(x, "cuda_stream", getattr(x, "ptr", None))               # older torch, older cupy


cpdef uintptr_t stream_of(object x) except? 0:
    """The address in an int, None (the default stream, 0), a Stream, or any object with ``__cuda_stream__``
    or ``cuda_stream``."""
    cdef void *out
    stream_into(x, &out)
    return <uintptr_t>out

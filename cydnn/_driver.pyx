"""The CUDA driver as we use it: the table of functions, checked calls, owning handles, and addresses out of
other people's objects.

The driver is looked up at first use (cuda.bindings opens libcuda and gives the addresses), so importing this
module touches no CUDA. Every driver call goes through ``check``. A handle owns what it depends on;
destructors never raise.
"""
cimport cython
from cpython.buffer cimport (PyBUF_SIMPLE, PyBUF_STRIDED_RO, PyBUF_WRITABLE, PyBuffer_Release,
                             PyObject_CheckBuffer, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.long cimport PyLong_AsVoidPtr, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from cydnn.cuda cimport Driver, address_t

from hashlib import sha256
from os import getpid
from threading import Lock

from cydnn.status import AllocFailed, BadParam, DriverNotFound, ExecutionFailed, NotInitialized, NotSupported


# -- The driver ----------------------------------------------------------------------------------------------

SYMBOLS = (                     # the fields of cuda.Driver in order, and the version whose ABI they declare
    ("cuInit", 2000), ("cuDriverGetVersion", 2020), ("cuDeviceGetCount", 2000), ("cuDeviceGet", 2000),
    ("cuDeviceGetName", 2000), ("cuDeviceTotalMem", 3020), ("cuDeviceGetAttribute", 2000),
    ("cuGetErrorName", 6000), ("cuGetErrorString", 6000), ("cuDevicePrimaryCtxRetain", 7000),
    ("cuDevicePrimaryCtxRelease", 11000), ("cuCtxGetCurrent", 4000), ("cuCtxSetCurrent", 4000),
    ("cuCtxPushCurrent", 4000), ("cuCtxPopCurrent", 4000), ("cuCtxSynchronize", 2000),
    ("cuModuleLoadDataEx", 2010), ("cuModuleUnload", 2000), ("cuModuleGetFunction", 2000),
    ("cuFuncGetAttribute", 2020), ("cuFuncSetAttribute", 9000), ("cuLaunchKernel", 7000),
    ("cuMemAlloc", 3020), ("cuMemFree", 3020), ("cuMemGetInfo", 3020), ("cuMemcpyHtoDAsync", 7000),
    ("cuMemcpyDtoHAsync", 7000), ("cuMemcpyDtoDAsync", 7000), ("cuMemsetD8Async", 7000),
    ("cuPointerGetAttributes", 7000), ("cuStreamCreateWithPriority", 5050), ("cuStreamDestroy", 4000),
    ("cuStreamSynchronize", 7000), ("cuStreamWaitEvent", 7000), ("cuEventCreate", 2000),
    ("cuEventDestroy", 4000), ("cuEventSynchronize", 2000), ("cuEventRecord", 7000),
    ("cuEventElapsedTime", 2000),
)
ERRORS = {                      # driver status -> exception; every other status is ExecutionFailed
    2: AllocFailed, 3: NotInitialized, 4: NotInitialized, 100: NotInitialized, 201: NotInitialized,
    200: NotSupported, 209: NotSupported, 218: NotSupported, 222: NotSupported,
}
# After these a context is of no use.
STICKY = frozenset((214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719))

cdef Driver cu
cdef bint is_loaded = False
cdef object loader_pid = None


cdef Driver *driver() except NULL:
    global is_loaded, loader_pid
    if not is_loaded:
        load_driver()
        loader_pid = getpid()
        is_loaded = True
    return &cu


cdef int load_driver() except -1:
    """Fill the table and initialise the driver.

    Two threads at once write the same addresses twice, which is harmless.
    """
    cdef void **fields = <void **>&cu
    cdef int status
    if sizeof(Driver) != len(SYMBOLS) * sizeof(void *):
        raise SystemError("cydnn/cuda.pxd and SYMBOLS differ in length")
    try:
        from cuda.bindings import driver as bindings
        bindings.cuGetProcAddress(b"cuInit", 2000, 0)
    except Exception as error:
        # RuntimeError, ImportError or DynamicLibNotFoundError, by version of cuda-bindings.
        raise DriverNotFound('cuda: no NVIDIA driver (libcuda) on this machine; use device="numpy", '
                             'which needs none') from error
    for i, (symbol, version) in enumerate(SYMBOLS):
        found, address, *_ = bindings.cuGetProcAddress(symbol.encode(), version, 0)
        if int(found) or not address:
            raise DriverNotFound(f'cuda: this NVIDIA driver is too old, it has no {symbol}; update it, '
                                 'or use device="numpy"')
        fields[i] = <void *><uintptr_t>int(address)
    status = cu.Init(0)
    if status:
        raise DriverNotFound(f'cuda: the driver finds no usable GPU, {error_text(status)}; '
                             'use device="numpy", which needs none')
    return 0


cdef str error_text(int status):
    """``CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered``"""
    cdef const char *name = NULL
    cdef const char *text = NULL
    cu.GetErrorName(status, &name)
    cu.GetErrorString(status, &text)
    return f"{name.decode() if name else 'CUDA error'} ({status}){': ' + text.decode() if text else ''}"


cdef int fail(int status, const char *call, str more="") except -1 with gil:
    if loader_pid is not None and loader_pid != getpid():
        more += "; this process was forked after CUDA was initialised: start it with spawn instead"
    raise ERRORS.get(status, ExecutionFailed)(f"{call.decode()}: {error_text(status)}{more}")


cdef int check(int status, const char *call) except -1 nogil:
    return 0 if status == 0 else fail(status, call)


def device_count() -> int:
    """Number of CUDA devices this process can see. Raises DriverNotFound where there is no driver."""
    cdef int n = 0
    check(driver().DeviceGetCount(&n), "cuDeviceGetCount")
    return n


def driver_version() -> int:
    """CUDA version the driver serves, e.g. 13000."""
    cdef int version = 0
    check(driver().DriverGetVersion(&version), "cuDriverGetVersion")
    return version


# -- Context and the handles that live in it -----------------------------------------------------------------

cdef enum:                                    # CUpointer_attribute, CUmemorytype
    POINTER_MEMORY_TYPE = 2, POINTER_IS_MANAGED = 8, POINTER_ORDINAL = 9
    MEMORY_UNKNOWN = 0, MEMORY_DEVICE = 2

cdef dict LABELS = {}                         # kernel name -> its bytes, never dropped (see Function.label)


@cython.final
@cython.no_gc_clear
cdef class Context:
    """The primary context of one device, shared with torch, cupy and the CUDA runtime.

    Retained here, released when it dies.
    """

    def __cinit__(self, int ordinal=0):
        cdef int n = device_count()
        if not 0 <= ordinal < n:
            raise BadParam(f"device: ordinal must be in 0..{n - 1}; got {ordinal}")
        self.ordinal, self.modules, self.lock = ordinal, {}, Lock()
        check(cu.DeviceGet(&self.device, ordinal), "cuDeviceGet")
        check(cu.DevicePrimaryCtxRetain(&self.handle, self.device), "cuDevicePrimaryCtxRetain")

    def __dealloc__(self):
        if self.handle == NULL:
            return
        if self.modules and not self.is_lost and cu.CtxPushCurrent(self.handle) == 0:
            for module in self.modules.values():
                cu.ModuleUnload(<void *><uintptr_t>module)
            cu.CtxPopCurrent(&self.handle)
        cu.DevicePrimaryCtxRelease(self.device)

    def __repr__(self):
        return f"<cydnn context of cuda:{self.ordinal}{', lost' if self.is_lost else ''}>"

    cdef int enter(self, bint *pushed) except -1 nogil:
        """Make this context current. The caller gives ``pushed`` back to ``leave`` before it checks a status.

        A thread without a context keeps this one, as with the CUDA runtime: its next call then costs one
        query instead of three calls.
        """
        cdef void *current = NULL
        pushed[0] = False
        if self.is_lost:
            self.refuse_lost()
        self.check(cu.CtxGetCurrent(&current), "cuCtxGetCurrent")
        if current == NULL:
            self.check(cu.CtxSetCurrent(self.handle), "cuCtxSetCurrent")
        elif current != self.handle:
            self.check(cu.CtxPushCurrent(self.handle), "cuCtxPushCurrent")
            pushed[0] = True
        return 0

    cdef void leave(self, bint pushed) noexcept nogil:
        cdef void *top
        if pushed:
            cu.CtxPopCurrent(&top)

    cdef int refuse_lost(self) except -1 with gil:
        raise ExecutionFailed(self.lost)

    cdef int check(self, int status, const char *call) except -1 nogil:
        return 0 if status == 0 else self.fail(status, call, NULL)

    cdef int fail(self, int status, const char *call, const char *what) except -1 with gil:
        """Raise for a driver status; after a sticky one remember the context as lost, and what ran last."""
        more = f"; kernel {what.decode()}" if what else ""
        if status in STICKY:
            ring = [self.ring[i % 16] for i in range(self.launches, self.launches + 16) if self.ring[i % 16]]
            names = ", ".join((<bytes>name).decode() for name in ring) or "none of ours"
            more += (f"; the context of cuda:{self.ordinal} is lost, start a new process. "
                     f"Last launches (newest last): {names}")
            if not self.is_lost:
                self.lost = f"{call.decode()} failed earlier: {error_text(status)}{more}"
                self.is_lost = True
        return fail(status, call, more)

    cdef int admit(self, void *ptr, int *status) noexcept nogil:
        """FINE, or the rule that an address breaks. An address seen before costs a compare or two."""
        cdef uint64_t *pair = &self.seen[(<uint64_t>ptr * <uint64_t>0x9E3779B97F4A7C15) >> 56 << 1]
        if pair[0] == <uint64_t>ptr or pair[1] == <uint64_t>ptr:
            return FINE
        return self.inspect(ptr, status)

    cdef int inspect(self, void *ptr, int *status) noexcept nogil:
        cdef int names[3]
        cdef void *into[3]
        cdef uint64_t *pair
        cdef uint64_t values[3]               # wider than any of the three, and little-endian
        names[:] = [POINTER_MEMORY_TYPE, POINTER_IS_MANAGED, POINTER_ORDINAL]
        values[:] = [0, 0, 0]
        into[:] = [&values[0], &values[1], &values[2]]
        status[0] = cu.PointerGetAttributes(3, names, into, <address_t>ptr)
        if status[0]:
            return IS_UNKNOWN
        if <uint32_t>values[0] == MEMORY_UNKNOWN:
            return IS_PAGEABLE
        if (<uint32_t>values[0] == MEMORY_DEVICE and not <uint8_t>values[1]
                and <int32_t>values[2] != self.ordinal):
            return IS_ELSEWHERE
        pair = &self.seen[(<uint64_t>ptr * <uint64_t>0x9E3779B97F4A7C15) >> 56 << 1]
        pair[1], pair[0] = pair[0], <uint64_t>ptr
        return FINE

    def attribute(self, int number) -> int:
        """A CUdevice_attribute by its number."""
        cdef int value = 0
        self.check(cu.DeviceGetAttribute(&value, number, self.device), "cuDeviceGetAttribute")
        return value

    @property
    def name(self) -> str:
        cdef char text[256]
        self.check(cu.DeviceGetName(text, 256, self.device), "cuDeviceGetName")
        return text.decode()

    @property
    def total_bytes(self) -> int:
        cdef size_t total = 0
        self.check(cu.DeviceTotalMem(&total, self.device), "cuDeviceTotalMem")
        return total

    def memory_info(self) -> tuple:
        """(free, total) bytes of device memory."""
        cdef size_t unused = 0, total = 0
        cdef bint pushed
        self.enter(&pushed)
        status = cu.MemGetInfo(&unused, &total)
        self.leave(pushed)
        self.check(status, "cuMemGetInfo")
        return unused, total

    def synchronize(self, stream=None) -> None:
        """Wait for one stream, or for all work of the context when ``stream`` is None."""
        cdef void *handle
        cdef bint pushed, everything = stream is None
        cdef int status
        stream_into(stream, &handle)
        with nogil:
            self.enter(&pushed)
            status = cu.CtxSynchronize() if everything else cu.StreamSynchronize(handle)
            self.leave(pushed)
        self.check(status, "cuCtxSynchronize" if everything else "cuStreamSynchronize")

    def copy_in(self, dst, src, stream=None) -> None:
        """Copy a C-contiguous host buffer to device memory; returns when ``src`` may be changed."""
        cdef Py_buffer view
        cdef void *ptr
        cdef void *handle
        cdef bint pushed
        cdef int status
        pointer_into(dst, &ptr)
        stream_into(stream, &handle)
        PyObject_GetBuffer(src, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                self.enter(&pushed)
                status = cu.MemcpyHtoDAsync(<address_t>ptr, view.buf, view.len, handle) if view.len else 0
                if status == 0:
                    status = cu.StreamSynchronize(handle)
                self.leave(pushed)
            self.check(status, "cuMemcpyHtoDAsync")
        finally:
            PyBuffer_Release(&view)

    def copy_out(self, dst, src, stream=None) -> None:
        """Fill a writable C-contiguous host buffer from device memory; returns when the bytes are there."""
        cdef Py_buffer view
        cdef void *ptr
        cdef void *handle
        cdef bint pushed
        cdef int status
        pointer_into(src, &ptr)
        stream_into(stream, &handle)
        PyObject_GetBuffer(dst, &view, PyBUF_WRITABLE)
        try:
            with nogil:
                self.enter(&pushed)
                status = cu.MemcpyDtoHAsync(view.buf, <address_t>ptr, view.len, handle) if view.len else 0
                if status == 0:
                    status = cu.StreamSynchronize(handle)
                self.leave(pushed)
            self.check(status, "cuMemcpyDtoHAsync")
        finally:
            PyBuffer_Release(&view)

    def copy(self, dst, src, size_t bytes, stream=None) -> None:
        """Copy device memory to device memory, in stream order."""
        cdef void *to
        cdef void *ptr
        cdef void *handle
        cdef bint pushed
        pointer_into(dst, &to)
        pointer_into(src, &ptr)
        stream_into(stream, &handle)
        self.enter(&pushed)
        status = cu.MemcpyDtoDAsync(<address_t>to, <address_t>ptr, bytes, handle) if bytes else 0
        self.leave(pushed)
        self.check(status, "cuMemcpyDtoDAsync")

    def memset(self, dst, int value, size_t bytes, stream=None) -> None:
        """Set ``bytes`` bytes of device memory to ``value`` (0..255), in stream order."""
        cdef void *ptr
        cdef void *handle
        cdef bint pushed
        pointer_into(dst, &ptr)
        stream_into(stream, &handle)
        self.enter(&pushed)
        status = cu.MemsetD8Async(<address_t>ptr, <unsigned char>value, bytes, handle) if bytes else 0
        self.leave(pushed)
        self.check(status, "cuMemsetD8Async")

    def load(self, bytes text not None, str name not None) -> Function:
        """The kernel ``name`` of a PTX image.

        Images are remembered by the sha256 of their text for the life of the context.
        """
        return Function(self, text, name)

    cdef void *load_module(self, bytes text) except NULL:
        cdef void *module = NULL
        cdef int status
        cdef bint pushed
        cdef int options[2]
        cdef void *values[2]
        cdef char log[4096]
        cdef const char *image = PyBytes_AS_STRING(text)
        key = sha256(text).digest()
        with self.lock:
            if key not in self.modules:
                log[0] = 0
                options[:] = [5, 6]           # CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
                values[:] = [<void *>log, <void *><uintptr_t>sizeof(log)]
                with nogil:
                    self.enter(&pushed)
                    status = cu.ModuleLoadDataEx(&module, image, 2, options, values)
                    self.leave(pushed)
                if status:
                    self.check(status if status in STICKY else 0, "cuModuleLoadDataEx")
                    said = log[:4095].split(b"\0")[0].decode(errors="replace").strip()
                    fail(status, "cuModuleLoadDataEx", f"; the driver says: {said}" if said else "")
                self.modules[key] = <uintptr_t>module
            return <void *><uintptr_t>self.modules[key]


@cython.final
cdef class Function:
    """One kernel of a loaded image, with what the driver says about it."""

    def __cinit__(self, Context context not None, bytes text not None, str name not None):
        cdef bint pushed
        cdef void *module
        cdef int facts[5]
        cdef int *numbers = [0, 1, 3, 4, 8]   # CUfunction_attribute
        label = LABELS.setdefault(name, name.encode())
        self.context, self.name, self.label = context, name, PyBytes_AS_STRING(label)
        module = context.load_module(text)
        context.enter(&pushed)
        status = cu.ModuleGetFunction(&self.handle, module, self.label)
        for i in range(5):
            status = status or cu.FuncGetAttribute(&facts[i], numbers[i], self.handle)
        context.leave(pushed)
        if status:
            context.fail(status, "cuModuleGetFunction", self.label)
        self.max_threads, self.smem_static = facts[0], facts[1]
        self.local_bytes, self.registers = facts[2], facts[3]
        # Static and dynamic together may have 48 KB without asking; what another Function of this kernel was
        # allowed stays.
        self.smem_limit = facts[4] if facts[4] > 49152 else min(facts[4], 49152 - facts[1])

    def __repr__(self):
        return f"<kernel {self.name} on cuda:{self.context.ordinal}>"

    def allow_smem(self, int bytes) -> None:
        """Raise the limit of dynamic shared memory to ``bytes`` when it is lower.

        48 KB less the static part is what a kernel starts with.
        """
        cdef bint pushed
        if bytes <= self.smem_limit:
            return
        self.context.enter(&pushed)
        status = cu.FuncSetAttribute(self.handle, 8, bytes)       # MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.context.leave(pushed)
        if status:
            most = self.context.attribute(97) - self.smem_static  # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            raise NotSupported(f"{self.name}: smem must be <= {most} bytes on this device; got {bytes} "
                               f"({error_text(status)})")
        self.smem_limit = bytes


@cython.final
@cython.no_gc_clear
cdef class Stream:
    """One CUDA stream. Holds its context, so the context always outlives it."""

    def __cinit__(self, Context context not None, int priority=0, bint is_blocking=True, foreign=None):
        """A new stream; or, with ``foreign``, a view of one that someone else owns.

        ``foreign`` is an address or an object that has one.
        """
        cdef bint pushed
        self.context, self.owner = context, foreign
        if foreign is not None:
            stream_into(foreign, &self.handle)
            return
        context.enter(&pushed)
        status = cu.StreamCreateWithPriority(&self.handle, 0 if is_blocking else 1, priority)
        context.leave(pushed)
        context.check(status, "cuStreamCreateWithPriority")

    def __dealloc__(self):
        if (self.handle != NULL and self.owner is None and not self.context.is_lost
                and cu.CtxPushCurrent(self.context.handle) == 0):
            cu.StreamDestroy(self.handle)
            cu.CtxPopCurrent(&self.handle)

    @property
    def address(self) -> int:
        return <uintptr_t>self.handle

    def __cuda_stream__(self):
        return 0, <uintptr_t>self.handle

    def __repr__(self):
        return f"<stream {<uintptr_t>self.handle:#x} on cuda:{self.context.ordinal}>"

    def synchronize(self) -> None:
        self.context.synchronize(self)

    def wait(self, Event event not None) -> None:
        """Later work of this stream starts after ``event``."""
        cdef bint pushed
        self.context.enter(&pushed)
        status = cu.StreamWaitEvent(self.handle, event.handle, 0)
        self.context.leave(pushed)
        self.context.check(status, "cuStreamWaitEvent")


@cython.final
@cython.no_gc_clear
cdef class Event:
    """A point in a stream, with a time."""

    def __cinit__(self, Context context not None, bint has_time=True):
        cdef bint pushed
        self.context = context
        context.enter(&pushed)
        status = cu.EventCreate(&self.handle, 0 if has_time else 2)
        context.leave(pushed)
        context.check(status, "cuEventCreate")

    def __dealloc__(self):
        if self.handle != NULL and not self.context.is_lost and cu.CtxPushCurrent(self.context.handle) == 0:
            cu.EventDestroy(self.handle)
            cu.CtxPopCurrent(&self.handle)

    def record(self, stream=None) -> None:
        cdef void *handle
        cdef bint pushed
        stream_into(stream, &handle)
        self.context.enter(&pushed)
        status = cu.EventRecord(self.handle, handle)
        self.context.leave(pushed)
        self.context.check(status, "cuEventRecord")

    def synchronize(self) -> None:
        """Wait for the event."""
        cdef bint pushed
        cdef int status
        with nogil:
            self.context.enter(&pushed)
            status = cu.EventSynchronize(self.handle)
            self.context.leave(pushed)
        self.context.check(status, "cuEventSynchronize")

    def elapsed(self, Event start not None) -> float:
        """Milliseconds from ``start`` to this event; both must have happened."""
        cdef float milliseconds = 0
        cdef bint pushed
        self.context.enter(&pushed)
        status = cu.EventElapsedTime(&milliseconds, start.handle, self.handle)
        self.context.leave(pushed)
        self.context.check(status, "cuEventElapsedTime")
        return milliseconds


@cython.final
@cython.no_gc_clear
cdef class Buffer:
    """Device memory at ``ptr``, 0 once freed. Freed with the object. Torch and CuPy can view it."""

    def __cinit__(self, Context context not None, size_t bytes):
        cdef address_t ptr = 0
        cdef bint pushed
        self.context, self.bytes = context, bytes
        context.enter(&pushed)
        status = cu.MemAlloc(&ptr, bytes if bytes else 1)
        context.leave(pushed)
        if status == 2:
            fail(status, "cuMemAlloc", f"; {bytes} bytes were asked for on cuda:{context.ordinal}")
        context.check(status, "cuMemAlloc")
        self.ptr = ptr

    def __dealloc__(self):
        self.release()

    cdef int release(self) noexcept:
        cdef int status = 0
        cdef void *top
        if self.ptr and not self.context.is_lost:
            # The address may come back as something else.
            memset(self.context.seen, 0, sizeof(self.context.seen))
            status = cu.CtxPushCurrent(self.context.handle)
            if status == 0:
                status = cu.MemFree(self.ptr)
                cu.CtxPopCurrent(&top)
        self.ptr = 0
        return status

    def free(self) -> None:
        """Give the memory back now."""
        self.context.check(self.release(), "cuMemFree")

    def __repr__(self):
        return f"<buffer of {self.bytes} bytes at {self.ptr:#x} on cuda:{self.context.ordinal}>"

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.bytes,), "typestr": "|u1", "data": (self.ptr, False), "strides": None,
                "version": 3}


# -- Pointers and streams from other people's objects --------------------------------------------------------

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


cdef int pointer_into(object x, void **out) except -1:
    cdef DLTensor tensor
    cdef ExchangeAPI *api
    if PyLong_CheckExact(x):
        out[0] = PyLong_AsVoidPtr(x)
        return 0
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


cdef int stream_into(object x, void **out) except -1:
    if PyLong_CheckExact(x):
        out[0] = PyLong_AsVoidPtr(x)
        return 0
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

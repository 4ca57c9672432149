"""The context of a device, and the kernels that it has loaded.

A handle owns what it depends on; destructors never raise.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t, uintptr_t

from cydnn.core._address cimport pointer_into, stream_into
from cydnn.core._driver cimport check, cu, device_count, error_text, fail, need
from cydnn.core.atomics cimport read_count, read_label, read_number, write_flag, write_number
from cydnn.core.cuda cimport address_t

from hashlib import sha256
from itertools import groupby
from weakref import WeakValueDictionary

from cydnn.locks import lock
from cydnn.status import BadParam, ExecutionFailed, NotSupported

# After these a context is of no use.
STICKY = frozenset((214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911))

cdef extern from *:
    """
    typedef struct { _Alignas(128) char bytes[128]; } cydnn_map;
    """
    ctypedef struct MapBlock "cydnn_map":     # CUtensorMap
        char bytes[128]

cdef enum:
    L2_128B = 2                               # CUtensorMapL2promotion: what a miss brings into L2
    INVALID_VALUE = 1                         # CUresult

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
        self.ordinal, self.modules, self.loading, self.allowed, self.lock = ordinal, {}, {}, {}, lock()
        self.tapes = WeakValueDictionary()
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

    def __reduce__(self):
        raise TypeError(f"pickle: a context belongs to its process; got {self!r}")

    cdef int make_current(self, int status, void *current, bint *pushed) except -1 nogil:
        """What ``enter`` does where this context is not the current one.
        ``status``: of the query for that."""
        if read_flag(&self.is_lost):
            self.refuse_lost()
        self.check(status, "cuCtxGetCurrent")
        if current == NULL:
            self.check(cu.CtxSetCurrent(self.handle), "cuCtxSetCurrent")
        else:
            self.check(cu.CtxPushCurrent(self.handle), "cuCtxPushCurrent")
            pushed[0] = True
        return 0

    cdef int refuse_lost(self) except -1 with gil:
        raise ExecutionFailed(self.lost)

    cdef int check(self, int status, const char *call) except -1 nogil:
        return 0 if status == 0 else self.fail(status, call, NULL)

    cdef int fail(self, int status, const char *call, const char *what, str how="") except -1 with gil:
        """Raise for a driver status; after a sticky one remember the context as lost, and what ran last."""
        more = f"; kernel {what.decode()}{how}" if what else how
        if status in STICKY:
            more += (f"; the context of cuda:{self.ordinal} is lost, start a new process. "
                     f"Last launches (newest last): {self.last_launches() or 'none of ours'}")
            with cython.critical_section(self):
                if not self.is_lost:
                    self.lost = f"{call.decode()} failed earlier: {error_text(status)}{more}"
                    write_flag(&self.is_lost, True)
        return fail(status, call, more)

    cdef str last_launches(self):
        """``scale, softmax_fwd of PROBLEM; ...``: up to 16 kernels, by the tapes that launched them."""
        cdef unsigned int i, first = read_count(&self.launches)
        cdef const char *label
        ring, found = [], []
        for i in range(first, first + 16):
            label = read_label(&self.ring[i % 16])
            if label != NULL:
                ring.append(((<bytes>label).decode(), read_number(&self.serials[i % 16])))
        for serial, launches in groupby(ring, lambda launch: launch[1]):
            tape = self.tapes.get(serial)         # one that is gone does not say what it was for
            problem = tape.problem if tape is not None else ""
            found.append(", ".join([name for name, _ in launches]) + (f" of {problem}" if problem else ""))
        return "; ".join(found)

    cdef int inspect(self, void *ptr, int *status, bint is_remote=False) noexcept nogil:
        """FINE, or the rule that an address breaks. One that is fine ``is_known`` from then on.
        ``is_remote``: it may be memory of a device that ``_peers.reach`` has made accessible (IS_UNREACHED:
        not yet; ``status`` is its number then), and is asked for anew each time."""
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
            status[0] = <int32_t>values[2]
            return (IS_ELSEWHERE if not is_remote
                    else FINE if read_number(&self.peers) >> (status[0] & 63) & 1 else IS_UNREACHED)
        pair = &self.seen[(<uint64_t>ptr * <uint64_t>0x9E3779B97F4A7C15) >> 56 << 1]
        write_number(&pair[1], read_number(&pair[0]))
        write_number(&pair[0], <uint64_t>ptr)
        return FINE

    cdef void forget_addresses(self) noexcept nogil:
        """One that is freed may come back as something else."""
        cdef int i
        for i in range(512):
            write_number(&self.seen[i], 0)

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
        enter(self, &pushed)
        status = cu.MemGetInfo(&unused, &total)
        leave(pushed)
        self.check(status, "cuMemGetInfo")
        return unused, total

    def synchronize(self, stream=None) -> None:
        """Wait for one stream, or for all work of the context when ``stream`` is None."""
        cdef void *handle
        cdef bint pushed, everything = stream is None
        cdef int status
        stream_into(stream, &handle)
        with nogil:
            enter(self, &pushed)
            status = cu.CtxSynchronize() if everything else cu.StreamSynchronize(handle)
            leave(pushed)
        self.check(status, "cuCtxSynchronize" if everything else "cuStreamSynchronize")

    def copy_in(self, dst, src, stream=None) -> None:
        """Copy a C-contiguous host buffer to device memory; returns when ``src`` may be changed."""
        cdef Py_buffer view
        cdef void *ptr
        cdef void *handle
        cdef bint pushed
        cdef int status, waited
        pointer_into(dst, &ptr)
        stream_into(stream, &handle)
        PyObject_GetBuffer(src, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                enter(self, &pushed)
                status = cu.MemcpyHtoDAsync(<address_t>ptr, view.buf, view.len, handle) if view.len else 0
                waited = cu.StreamSynchronize(handle) if status == 0 else 0
                leave(pushed)
            self.check(status, "cuMemcpyHtoDAsync")
            self.check(waited, "cuStreamSynchronize")
        finally:
            PyBuffer_Release(&view)

    def copy_out(self, dst, src, stream=None) -> None:
        """Fill a writable C-contiguous host buffer from device memory; returns when the bytes are there."""
        cdef Py_buffer view
        cdef void *ptr
        cdef void *handle
        cdef bint pushed
        cdef int status, waited
        pointer_into(src, &ptr)
        stream_into(stream, &handle)
        PyObject_GetBuffer(dst, &view, PyBUF_WRITABLE)
        try:
            with nogil:
                enter(self, &pushed)
                status = cu.MemcpyDtoHAsync(view.buf, <address_t>ptr, view.len, handle) if view.len else 0
                waited = cu.StreamSynchronize(handle) if status == 0 else 0
                leave(pushed)
            self.check(status, "cuMemcpyDtoHAsync")
            self.check(waited, "cuStreamSynchronize")
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
        enter(self, &pushed)
        status = cu.MemcpyDtoDAsync(<address_t>to, <address_t>ptr, bytes, handle) if bytes else 0
        leave(pushed)
        self.check(status, "cuMemcpyDtoDAsync")

    def memset(self, dst, int value, size_t bytes, stream=None) -> None:
        """Set ``bytes`` bytes of device memory to ``value`` (0..255), in stream order."""
        cdef void *ptr
        cdef void *handle
        cdef bint pushed
        pointer_into(dst, &ptr)
        stream_into(stream, &handle)
        enter(self, &pushed)
        status = cu.MemsetD8Async(<address_t>ptr, <unsigned char>value, bytes, handle) if bytes else 0
        leave(pushed)
        self.check(status, "cuMemsetD8Async")

    def load(self, bytes text not None, str name not None) -> Function:
        """The kernel ``name`` of a PTX image.

        Images are remembered by the sha256 of their text for the life of the context.
        """
        return Function(self, text, name)

    def tensor_map(self, int type, tuple dims not None, tuple strides not None, tuple box not None,
                   tuple steps not None, int swizzle, bint fill_nan, tuple corners=()) -> bytes:
        """A CUtensorMap of address 0: type and swizzle by the driver's numbers; dims, box and steps in
        elements, innermost first; strides in bytes, of all dims but the innermost. With ``corners``, lower
        and upper, it is one of pixels, and box is (channels, pixels)."""
        cdef MapBlock map
        cdef uint64_t sizes[5]
        cdef uint64_t gaps[5]
        cdef uint32_t boxes[5]
        cdef uint32_t every[5]
        cdef int lower[3]
        cdef int upper[3]
        cdef bint pushed
        cdef int i, status, rank = <int>len(dims), sides = 2 if corners else rank
        if not 1 <= rank <= 5 or len(strides) != rank - 1 or len(box) != sides or len(steps) != rank:
            raise BadParam(f"tensor_map: dims must have 1 to 5 entries, strides one less, box and steps as "
                           f"many; got {dims}, {strides}, {box}, {steps}")
        if corners and (rank < 3 or [len(c) for c in corners] != [rank - 2] * 2):
            raise BadParam(f"tensor_map: corners must be two of {rank - 2} entries; got {corners}")
        for i in range(rank):
            sizes[i], every[i] = dims[i], steps[i]
            gaps[i] = strides[i] if i < rank - 1 else 0
            boxes[i] = box[i] if i < sides else 0
            if corners and i < rank - 2:
                lower[i], upper[i] = corners[0][i], corners[1][i]
        cdef const char *name = "cuTensorMapEncodeIm2col" if corners else "cuTensorMapEncodeTiled"
        need(<void *>cu.TensorMapEncodeIm2col if corners else <void *>cu.TensorMapEncodeTiled, name)
        enter(self, &pushed)
        if corners:
            status = cu.TensorMapEncodeIm2col(map.bytes, type, rank, NULL, sizes, gaps, lower, upper,
                                              boxes[0], boxes[1], every, 0, swizzle, L2_128B, fill_nan)
        else:
            status = cu.TensorMapEncodeTiled(map.bytes, type, rank, NULL, sizes, gaps, boxes, every, 0,
                                             swizzle, L2_128B, fill_nan)
        leave(pushed)
        if status:
            self.fail(status, name, NULL, f"; dims {dims}, strides {strides}, box {box}, steps {steps}"
                                          + (f", corners {corners}" if corners else ""))
        return map.bytes[:128]

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
            own = self.loading.setdefault(key, lock())       # the driver compiles several texts at once
        with own:
            if key not in self.modules:
                log[0] = 0
                options[:] = [5, 6]           # CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
                values[:] = [<void *>log, <void *><uintptr_t>sizeof(log)]
                with nogil:
                    enter(self, &pushed)
                    status = cu.ModuleLoadDataEx(&module, image, 2, options, values)
                    leave(pushed)
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
        cdef int asked = 0
        cdef int *numbers = [0, 1, 3, 4, 8]   # CUfunction_attribute
        label = LABELS.setdefault(name, name.encode())
        self.context, self.name, self.label = context, name, PyBytes_AS_STRING(label)
        module = context.load_module(text)
        enter(context, &pushed)
        status = cu.ModuleGetFunction(&self.handle, module, self.label)
        for i in range(5 if status == 0 else 0):
            asked = asked or cu.FuncGetAttribute(&facts[i], numbers[i], self.handle)
        leave(pushed)
        if status or asked:
            context.fail(status or asked, "cuModuleGetFunction" if status else "cuFuncGetAttribute",
                         self.label)
        self.max_threads, self.smem_static = facts[0], facts[1]
        self.local_bytes, self.registers = facts[2], facts[3]
        # Static and dynamic together may have 48 KB without asking; what another Function of this kernel was
        # allowed stays.
        self.smem_limit = facts[4] if facts[4] > 49152 else min(facts[4], 49152 - facts[1])

    def __repr__(self):
        return f"<kernel {self.name} on cuda:{self.context.ordinal}>"

    def __reduce__(self):
        raise TypeError(f"pickle: a loaded kernel belongs to its process; got {self!r}")

    def allow_smem(self, int bytes) -> None:
        """Raise the limit of dynamic shared memory to ``bytes`` when it is lower.

        48 KB less the static part is what a kernel starts with.
        """
        cdef bint pushed
        cdef dict allowed = self.context.allowed
        if bytes <= self.smem_limit:
            return
        with self.context.lock:               # another Function of this kernel may have raised it further
            if bytes > allowed.get(<uintptr_t>self.handle, 0):
                enter(self.context, &pushed)
                status = cu.FuncSetAttribute(self.handle, 8, bytes)       # MAX_DYNAMIC_SHARED_SIZE_BYTES
                leave(pushed)
                if status == INVALID_VALUE:
                    self.refuse_smem(bytes, status)
                self.context.check(status, "cuFuncSetAttribute")
                allowed[<uintptr_t>self.handle] = bytes
            self.smem_limit = allowed[<uintptr_t>self.handle]

    cdef int refuse_smem(self, int bytes, int status) except -1:
        most = self.context.attribute(97) - self.smem_static      # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        raise NotSupported(f"{self.name}: smem must be <= {most} bytes on this device; got {bytes} "
                           f"(cuFuncSetAttribute: {error_text(status)})")

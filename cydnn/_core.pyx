"""The hot path: the plan tape, and the table that finds a tape for a legacy call. It knows bytes and launches, never ops.

The driver, its handles and addresses are in ``_driver``; their names are here too, so that ``_core`` is all a user imports.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_CheckExact
from cpython.long cimport PyLong_AsUnsignedLongLongMask, PyLong_Check
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from cydnn._driver cimport (FINE, IS_ELSEWHERE, IS_MISALIGNED, IS_NULL, IS_OVERLAPPING, IS_OVER_WORKSPACE, IS_PAGEABLE, IS_SMALL,
                            IS_UNKNOWN, Context, Function, driver, pointer_into, pointer_of, stream_into)
from cydnn.cuda cimport Driver, address_t

from itertools import count

import cydnn._driver as _driver
from cydnn.status import BadParam, NotSupported

globals().update((name, getattr(_driver, name)) for name in (      # a cimported name is no attribute of this module by itself
    "Buffer", "Context", "Event", "Function", "Stream", "device_count", "driver_version", "pointer_of", "stream_of"))

cdef extern from *:
    """
    #define CYDNN_LAUNCH_END     ((void *)0)      /* CU_LAUNCH_PARAM_END */
    #define CYDNN_LAUNCH_POINTER ((void *)1)      /* CU_LAUNCH_PARAM_BUFFER_POINTER */
    #define CYDNN_LAUNCH_SIZE    ((void *)2)      /* CU_LAUNCH_PARAM_BUFFER_SIZE */
    """
    void *LAUNCH_END "CYDNN_LAUNCH_END"
    void *LAUNCH_POINTER "CYDNN_LAUNCH_POINTER"
    void *LAUNCH_SIZE "CYDNN_LAUNCH_SIZE"

cdef Driver *cu = NULL                        # set by the first tape


# -- The tape --------------------------------------------------------------------------------------------------------------------

cdef enum:
    MAX_SLOTS = 256                           # operands and scalars live on the C stack while a tape runs
    MAX_DATA = 4096                           # bytes of a parameter block that every driver takes

cdef enum:
    PATCH_POINTER, PATCH_F32, PATCH_F64, PATCH_I32, PATCH_I64

cdef dict SCALARS = {"f32": (PATCH_F32, 4), "f64": (PATCH_F64, 8), "i32": (PATCH_I32, 4), "i64": (PATCH_I64, 8)}
cdef tuple PATCH_BYTES = (8, 4, 8, 4, 8)

cdef object launch_log = None
cdef bint is_logging = False


def log_launches(callback) -> None:
    """Call ``callback(kernel, grid, block, smem)`` for every launch of a tape; None switches it off."""
    global launch_log, is_logging
    launch_log, is_logging = callback, callback is not None


cdef void log_launch(Step *step) noexcept with gil:
    launch_log(step.label.decode(), tuple(step.grid), tuple(step.block), step.smem)


cdef tuple triple(str name, values, tuple most):
    """(x, y, z) of a grid or block, filled up with ones."""
    full = (*values, 1, 1, 1)[:3] if not isinstance(values, int) else (values, 1, 1)
    if any(not 0 <= v <= m for v, m in zip(full, most)):
        raise NotSupported(f"{name} must be within {most}; got {tuple(full)}")
    return tuple(int(v) for v in full)


cdef int addresses_into(tuple pointers, void **out) except -1:
    cdef Py_ssize_t i
    if PyTuple_GET_SIZE(pointers) > MAX_SLOTS:
        raise BadParam(f"pointers: must be <= {MAX_SLOTS}; got {len(pointers)}")
    for i in range(PyTuple_GET_SIZE(pointers)):
        pointer_into(<object>PyTuple_GET_ITEM(pointers, i), &out[i])
    return 0


cdef int numbers_into(tuple scalars, const double *defaults, double *out) except -1:
    """None stands for the default."""
    cdef Py_ssize_t i
    cdef object x
    for i in range(PyTuple_GET_SIZE(scalars)):
        x = <object>PyTuple_GET_ITEM(scalars, i)
        if PyFloat_CheckExact(x):
            out[i] = PyFloat_AS_DOUBLE(x)
        else:
            out[i] = defaults[i] if x is None else float(x)
    return 0


cdef bint lies_between(Pair *pair, uintptr_t a, uintptr_t b) noexcept nogil:
    """The tensor at ``a`` lies in the gaps of the one at ``b``: both have one period, and their runs in it are apart."""
    cdef uint64_t after
    if pair.period == 0:
        return False
    after = (a - b) % pair.period if a >= b else pair.period - 1 - (b - a - 1) % pair.period
    return after >= pair.other_run and after + pair.run <= pair.period


@cython.final
cdef class Tape:
    """A list of launches with packed parameters. Built once, sealed by its first execute, then safe in several threads at once.

    slots                operands in the order of ``execute``: (name, bytes, alignment, is_written, is_optional)
    scalars              default values of the by-value numbers
    workspace_bytes      what ``execute`` must be given; the kernels see its address plus their own offset
    inplace              (written slot, read slot) pairs that may have exactly the same address
    periods              {(written slot, other slot): (period, run, other's run)} of pairs that may lie between each other, in bytes
    """

    def __cinit__(self, Context context not None, slots, scalars=(), size_t workspace_bytes=0, inplace=(),
                  size_t workspace_alignment=16, periods=None):
        global cu
        cu = driver()
        slots, scalars, inplace, periods = list(slots), [float(s) for s in scalars], {tuple(pair) for pair in inplace}, periods or {}
        if max(len(slots), len(scalars)) > MAX_SLOTS:
            raise NotSupported(f"tape: must have <= {MAX_SLOTS} slots and scalars; got {len(slots)} and {len(scalars)}")
        self.context, self.workspace_bytes, self.workspace_alignment = context, workspace_bytes, workspace_alignment
        self.names = tuple(str(slot[0]) for slot in slots)
        self.slot_count, self.scalar_count, self.functions = len(slots), len(scalars), []
        self.slots = <Slot *>calloc(len(slots) + 1, sizeof(Slot))
        self.defaults = <double *>calloc(len(scalars) + 1, sizeof(double))
        self.pairs = <Pair *>calloc(sum(bool(slot[3]) for slot in slots) * len(slots) + 1, sizeof(Pair))
        if self.slots == NULL or self.defaults == NULL or self.pairs == NULL:
            raise MemoryError()
        for i, (name, size, alignment, is_written, is_optional) in enumerate(slots):
            if alignment < 1 or alignment & (alignment - 1):
                raise BadParam(f"{name}: alignment must be a power of two; got {alignment}")
            self.slots[i] = Slot(bytes=size, mask=alignment - 1, is_written=is_written, is_optional=is_optional)
        for i, value in enumerate(scalars):
            self.defaults[i] = value
        for i, j in ((i, j) for i in range(len(slots)) if slots[i][3] for j in range(len(slots))):
            if i != j and slots[i][1] and slots[j][1] and (i < j or not slots[j][3]):
                period, run, other_run = periods.get((i, j), (0, 0, 0))
                self.pairs[self.pair_count] = Pair(written=i, other=j, is_inplace=(i, j) in inplace, period=period, run=run, other_run=other_run)
                self.pair_count += 1

    def __dealloc__(self):
        cdef int i
        for i in range(self.step_count):
            free(self.steps[i].data)
            free(self.steps[i].patches)
        free(self.steps)
        free(self.slots)
        free(self.pairs)
        free(self.defaults)

    def __repr__(self):
        return f"<tape of {self.step_count} steps over ({', '.join(self.names)}) on cuda:{self.context.ordinal}>"

    @property
    def scalars(self) -> tuple:
        """The defaults of the by-value numbers."""
        return tuple(self.defaults[i] for i in range(self.scalar_count))

    @property
    def kernels(self) -> tuple:
        """The names of the kernels in launch order."""
        return tuple(self.steps[i].label.decode() for i in range(self.step_count) if self.steps[i].function != NULL)

    def update_scalars(self, scalars) -> None:
        """New defaults for the by-value numbers."""
        scalars = tuple(scalars)
        if len(scalars) != self.scalar_count:
            raise BadParam(f"scalars: must be {self.scalar_count}; got {len(scalars)}")
        numbers_into(scalars, self.defaults, self.defaults)

    cdef Step *append(self, int patch_count) except NULL:
        cdef Step *steps
        cdef Step *step
        if self.is_sealed:
            raise BadParam("tape: is sealed by its first execute; got a new step")
        if self.step_count == self.step_room:
            steps = <Step *>realloc(self.steps, (self.step_room + 8) * sizeof(Step))
            if steps == NULL:
                raise MemoryError()
            self.steps, self.step_room = steps, self.step_room + 8
        step = &self.steps[self.step_count]
        memset(step, 0, sizeof(Step))
        step.patches = <Patch *>calloc(patch_count + 1, sizeof(Patch))
        if step.patches == NULL:
            raise MemoryError()
        return step

    cdef int patch_into(self, Patch *patch, size_t data_bytes, object offset, int kind, int index, int64_t addend) except -1:
        cdef int count = self.slot_count if kind == PATCH_POINTER else self.scalar_count
        if not (-1 if kind == PATCH_POINTER else 0) <= index < count:
            raise BadParam(f"patch: {'slot' if kind == PATCH_POINTER else 'scalar'} must be below {count}; got {index}")
        if offset < 0 or offset + PATCH_BYTES[kind] > data_bytes:
            raise BadParam(f"patch: offset must lie within {data_bytes} bytes of parameters; got {offset}")
        patch[0] = Patch(offset=offset, index=index, kind=kind, addend=addend)
        return 0

    def launch(self, Function function not None, grid, block, unsigned int smem, bytes data not None, pointers=(), scalars=()) -> None:
        """Add a launch. ``pointers``: (offset, slot or -1 for the workspace, addend); ``scalars``: (offset, "f32" | "f64" | "i32" | "i64",
        scalar). An empty grid is no launch."""
        cdef Step *step
        cdef size_t bytes = PyBytes_GET_SIZE(data)
        cdef int n = 0
        pointers, scalars = list(pointers), list(scalars)
        if function.context is not self.context:
            raise BadParam(f"{function.name}: must be a kernel on {self.context!r}; got one on {function.context!r}")
        grid = triple(f"{function.name}: grid", grid, (2147483647, 65535, 65535))
        block = triple(f"{function.name}: block", block, (1024, 1024, 64))
        if bytes > MAX_DATA:
            raise NotSupported(f"{function.name}: parameters must be <= {MAX_DATA} bytes; got {bytes}")
        threads = block[0] * block[1] * block[2]
        if not 0 < threads <= function.max_threads:
            raise NotSupported(f"{function.name}: block must have 1..{function.max_threads} threads; got {threads}")
        if 0 in grid:
            return
        function.allow_smem(smem)
        step = self.append(len(pointers) + len(scalars))
        try:
            for offset, slot, addend in pointers:
                self.patch_into(&step.patches[n], bytes, offset, PATCH_POINTER, slot, addend)
                n += 1
            for offset, kind, scalar in scalars:
                self.patch_into(&step.patches[n], bytes, offset, SCALARS[kind][0], scalar, 0)
                n += 1
            step.data = <char *>malloc(bytes + 1)
            if step.data == NULL:
                raise MemoryError()
        except BaseException:
            free(step.patches)
            raise
        memcpy(step.data, PyBytes_AS_STRING(data), bytes)
        step.function, step.label, step.smem, step.bytes, step.patch_count = function.handle, function.label, smem, bytes, n
        step.grid, step.block = grid, block
        self.functions.append(function)
        self.step_count += 1

    def memset(self, int slot, int64_t addend, size_t bytes, int value) -> None:
        """Add a memset of ``bytes`` bytes of a slot (-1: workspace) to ``value``."""
        cdef Step *step
        if bytes == 0:
            return
        if not -1 <= slot < self.slot_count:
            raise BadParam(f"memset: slot must be below {self.slot_count}; got {slot}")
        step = self.append(1)
        step.patches[0] = Patch(offset=0, index=slot, kind=PATCH_POINTER, addend=addend)
        step.bytes, step.value, step.patch_count = bytes, value, 1
        self.step_count += 1

    def execute(self, pointers, scalars=None, workspace=None, size_t workspace_bytes=0, stream=None) -> None:
        """Check everything, then launch every step on ``stream``. Nothing is allocated, nothing synchronised; safe under stream capture.

        pointers    one per slot: whatever ``pointer_of`` takes; None for an optional operand that is absent
        scalars     one per scalar, None for its default; or None for all defaults
        """
        cdef void *addresses[MAX_SLOTS]
        pointers = pointers if PyTuple_CheckExact(pointers) else tuple(pointers)
        addresses_into(pointers, addresses)
        self.run(addresses, PyTuple_GET_SIZE(pointers), scalars, workspace, workspace_bytes, stream)

    cdef int run(self, void **pointers, Py_ssize_t n, object scalars, object workspace, size_t workspace_bytes, object stream) except -1:
        cdef double numbers[MAX_SLOTS]
        cdef double *values = self.defaults
        cdef void *scratch
        cdef void *queue
        if n != self.slot_count:
            raise BadParam(f"pointers: must be {self.slot_count} ({', '.join(self.names)}); got {n}")
        if scalars is not None:
            scalars = scalars if PyTuple_CheckExact(scalars) else tuple(scalars)
            if PyTuple_GET_SIZE(scalars) != self.scalar_count:
                raise BadParam(f"scalars: must be {self.scalar_count}; got {len(scalars)}")
            numbers_into(scalars, self.defaults, numbers)
            values = numbers
        pointer_into(workspace, &scratch)
        stream_into(stream, &queue)
        with nogil:
            execute_c(self, pointers, values, scratch, workspace_bytes, queue)
        return 0

    cdef int validate(self, void **pointers, void *workspace, size_t workspace_bytes, int *slot, int *other) noexcept nogil:
        """FINE, or the first rule that is broken and by which slot (-1: the workspace). Runs before every execute, without the GIL."""
        cdef int i, rule
        cdef uintptr_t a, b
        cdef Pair *pair
        for i in range(self.slot_count):
            slot[0], a = i, <uintptr_t>pointers[i]
            if a == 0:
                if self.slots[i].bytes and not self.slots[i].is_optional:
                    return IS_NULL
            elif a & self.slots[i].mask:
                return IS_MISALIGNED
            elif self.slots[i].bytes:
                rule = self.context.admit(pointers[i], other)
                if rule:
                    return rule
        for i in range(self.pair_count):
            pair = &self.pairs[i]
            a, b = <uintptr_t>pointers[pair.written], <uintptr_t>pointers[pair.other]
            if a and b and a < b + self.slots[pair.other].bytes and b < a + self.slots[pair.written].bytes:
                if (a != b or not pair.is_inplace) and not lies_between(pair, a, b):
                    slot[0], other[0] = pair.written, pair.other
                    return IS_OVERLAPPING
        if self.workspace_bytes == 0:
            return FINE
        slot[0], a = -1, <uintptr_t>workspace
        if workspace_bytes < self.workspace_bytes:
            return IS_SMALL
        if a == 0:
            return IS_NULL
        if a & (self.workspace_alignment - 1):
            return IS_MISALIGNED
        rule = self.context.admit(workspace, other)
        if rule:
            return rule
        for i in range(self.slot_count):
            slot[0], b = i, <uintptr_t>pointers[i]
            if b and a < b + self.slots[i].bytes and b < a + self.workspace_bytes:
                return IS_OVER_WORKSPACE
        return FINE

    cdef int refuse(self, int rule, int slot, int other, void **pointers, void *workspace,
                    size_t workspace_bytes) except -1 with gil:
        cdef uintptr_t value = <uintptr_t>(pointers[slot] if slot >= 0 else workspace)
        name = self.names[slot] if slot >= 0 else "workspace"
        device = f"cuda:{self.context.ordinal}"
        if rule == IS_UNKNOWN:
            return self.context.check(other, "cuPointerGetAttributes")
        if rule == IS_SMALL:
            raise BadParam(f"workspace: must have at least {self.workspace_bytes} bytes; got {workspace_bytes}")
        if rule == IS_NULL:
            needs = f", {self.workspace_bytes} bytes are needed" if slot < 0 else ""
            raise BadParam(f"{name}: must not be null{needs}; got 0")
        if rule == IS_MISALIGNED:
            alignment = self.slots[slot].mask + 1 if slot >= 0 else self.workspace_alignment
            raise BadParam(f"{name}: must be aligned to {alignment} bytes; got {value:#x}")
        if rule == IS_PAGEABLE:
            raise BadParam(f"{name}: must be memory that {device} can reach; got pageable host memory at {value:#x}: copy it to the "
                           'device first, or use device="numpy"')
        if rule == IS_ELSEWHERE:
            raise BadParam(f"{name}: must be memory of {device}; got memory of another device at {value:#x}")
        if rule == IS_OVER_WORKSPACE:
            there, at, size = "workspace", <uintptr_t>workspace, self.workspace_bytes
        else:
            there, at, size = self.names[other], <uintptr_t>pointers[other], self.slots[other].bytes
        raise BadParam(f"{name}: must not overlap {there}; got {name} = {value:#x} + {self.slots[slot].bytes} bytes, "
                       f"{there} = {at:#x} + {size} bytes")


cdef int execute_c(Tape tape, void **pointers, double *scalars, void *workspace, size_t workspace_bytes,
                   void *stream) except -1 nogil:
    """Run a tape: one address per slot, one double per scalar (NULL: the defaults). Parameters are patched on this thread's stack."""
    cdef char data[MAX_DATA]
    cdef size_t bytes
    cdef void *extra[5]
    cdef Step *step
    cdef Patch *patch
    cdef char *base
    cdef float single
    cdef int32_t word
    cdef int64_t long_word
    cdef bint pushed
    cdef int i, j, rule, slot, other, status = 0
    tape.is_sealed = True
    if scalars == NULL:
        scalars = tape.defaults
    tape.context.enter(&pushed)
    rule = tape.validate(pointers, workspace, workspace_bytes, &slot, &other)
    if rule:
        tape.context.leave(pushed)
        return tape.refuse(rule, slot, other, pointers, workspace, workspace_bytes)
    extra[0], extra[1], extra[2], extra[3], extra[4] = LAUNCH_POINTER, data, LAUNCH_SIZE, &bytes, LAUNCH_END
    for i in range(tape.step_count):
        step = &tape.steps[i]
        if step.function == NULL:
            base = <char *>(workspace if step.patches[0].index < 0 else pointers[step.patches[0].index])
            if base != NULL:
                status = cu.MemsetD8Async(<address_t>(base + step.patches[0].addend), <unsigned char>step.value, step.bytes, stream)
            if status:
                break
            continue
        bytes = step.bytes
        memcpy(data, step.data, bytes)
        for j in range(step.patch_count):
            patch = &step.patches[j]
            if patch.kind == PATCH_POINTER:
                base = <char *>(workspace if patch.index < 0 else pointers[patch.index])
                base = base + patch.addend if base != NULL else NULL
                memcpy(&data[patch.offset], &base, 8)
            elif patch.kind == PATCH_F32:
                single = <float>scalars[patch.index]
                memcpy(&data[patch.offset], &single, 4)
            elif patch.kind == PATCH_F64:
                memcpy(&data[patch.offset], &scalars[patch.index], 8)
            elif patch.kind == PATCH_I32:
                word = <int32_t>scalars[patch.index]
                memcpy(&data[patch.offset], &word, 4)
            else:
                long_word = <int64_t>scalars[patch.index]
                memcpy(&data[patch.offset], &long_word, 8)
        tape.context.ring[tape.context.launches % 16] = step.label
        tape.context.launches += 1
        status = cu.LaunchKernel(step.function, step.grid[0], step.grid[1], step.grid[2], step.block[0], step.block[1], step.block[2],
                                 step.smem, stream, NULL, extra)
        if status:
            break
        if is_logging:
            log_launch(step)
    tape.context.leave(pushed)
    if status:
        return tape.context.fail(status, "cuMemsetD8Async" if step.function == NULL else "cuLaunchKernel", step.label)
    return 0


def raw_launch_loop(Function function not None, grid, block, bytes data not None, stream=None, long iterations=1000,
                    unsigned int smem=0) -> float:
    """Nanoseconds per bare cuLaunchKernel from C, the floor that a tape is compared with."""
    cdef unsigned int g[3]
    cdef unsigned int b[3]
    cdef void *extra[5]
    cdef size_t bytes = PyBytes_GET_SIZE(data)
    cdef void *queue
    cdef bint pushed
    cdef int status = 0
    cdef long i
    cdef timespec start, end
    cdef Driver *cu = driver()
    g = triple("grid", grid, (2147483647, 65535, 65535))
    b = triple("block", block, (1024, 1024, 64))
    extra[0], extra[1], extra[2], extra[3], extra[4] = LAUNCH_POINTER, PyBytes_AS_STRING(data), LAUNCH_SIZE, &bytes, LAUNCH_END
    stream_into(stream, &queue)
    function.allow_smem(smem)
    with nogil:
        function.context.enter(&pushed)
        clock_gettime(CLOCK_MONOTONIC, &start)
        for i in range(iterations):
            status |= cu.LaunchKernel(function.handle, g[0], g[1], g[2], b[0], b[1], b[2], smem, queue, NULL, extra)
        clock_gettime(CLOCK_MONOTONIC, &end)
        function.context.leave(pushed)
    if status:
        function.context.fail(status, "cuLaunchKernel", function.label)
    return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / max(iterations, 1)


# -- Descriptors and the table of plans ------------------------------------------------------------------------------------------

cdef uint64_t FIRST_ADDRESS = 0x7D0000000000  # addresses of descriptors are above any other integer of a key
cdef enum:
    MAX_STAMPS = 65536

cdef object next_address = count(FIRST_ADDRESS, 64)
cdef object next_stamp = count(1)
cdef dict stamps = {}                         # (kind, fields) -> stamp; dropped when full, stamps themselves never come back
cdef dict by_address = {}                     # descriptors that were turned into an int: someone may hold nothing but that int


cdef class Descriptor:
    """A host-side object of the legacy API: opaque address, content (``fields``), and a stamp that is equal for equal content."""

    def __cinit__(self, *args, **kwargs):
        self.address = next(next_address)

    def set(self, str kind not None, fields) -> None:
        """Give it content: ``fields`` is any hashable value."""
        stamp = stamps.get((kind, fields))
        if stamp is None:
            if len(stamps) >= MAX_STAMPS:
                stamps.clear()
            stamp = stamps[kind, fields] = next(next_stamp)
        self.kind, self.fields, self.stamp = kind, fields, stamp

    def destroy(self) -> None:
        """No later use of it or of its address is accepted. The object itself dies with its last reference."""
        by_address.pop(self.address, None)
        self.is_destroyed, self.stamp = True, 0

    def __int__(self):
        if not self.is_destroyed:
            by_address[self.address] = self
        return self.address

    def __index__(self):
        return self.__int__()

    def __repr__(self):
        state = "destroyed" if self.is_destroyed else "not set" if self.stamp == 0 else repr(self.fields)
        return f"<{type(self).__name__} {self.address:#x} {state}>"


def descriptor(x) -> Descriptor:
    """The live descriptor that ``x`` is or is the address of."""
    found = x if isinstance(x, Descriptor) else by_address.get(x) if isinstance(x, int) else None
    if found is None or (<Descriptor>found).is_destroyed:
        raise BadParam(f"descriptor: must be alive, or the address of one that is; got {x!r}")
    return found


cdef bint is_number(object x) except -1:
    """A float, or an int that is no host address: what the slow path would accept as a scaling factor without a word."""
    return PyFloat_Check(x) or (PyLong_Check(x) and -4294967296 <= x <= 4294967296)


cdef int key_into(Row *row, int fn_id, bint is_aligned, tuple keys) except -1:
    """Fill in key words and hash. 1: done; 0: a descriptor is unset, destroyed or unknown, so no plan can be found."""
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(keys)
    cdef uint64_t word, hash
    cdef object x
    if n > 10:
        raise BadParam(f"keys: must be <= 10; got {n}")
    row.count = <int>n + 1
    row.words[0] = (<uint64_t>fn_id << 1) | is_aligned
    hash = row.words[0] * <uint64_t>0x9E3779B97F4A7C15
    for i in range(n):
        x = <object>PyTuple_GET_ITEM(keys, i)
        if isinstance(x, Descriptor):
            word = (<Descriptor>x).stamp
        else:
            if not PyLong_Check(x):
                if not PyIndex_Check(x):
                    return 0
                x = PyNumber_Index(x)
            word = PyLong_AsUnsignedLongLongMask(x)
            if word >= FIRST_ADDRESS:
                x = by_address.get(x)
                word = 0 if x is None else (<Descriptor>x).stamp
            else:
                word = ~word                  # never 0, never a stamp
        if word == 0:
            return 0
        row.words[i + 1] = word
        hash = (hash ^ (hash >> 29) ^ word) * <uint64_t>0xBF58476D1CE4E5B9
    row.hash = hash ^ (hash >> 32)
    return 1


@cython.final
cdef class PlanTable:
    """From (function, up to 10 descriptors or integers, are all pointers 16-byte aligned) to what executes it."""

    def __cinit__(self, size_t limit=65536):
        self.limit, self.room = limit, 64
        self.rows = <Row *>calloc(self.room, sizeof(Row))
        if self.rows == NULL:
            raise MemoryError()

    def __dealloc__(self):
        self.clear()
        free(self.rows)

    def __len__(self):
        return self.size

    def clear(self) -> None:
        """Forget every plan."""
        cdef size_t i
        cdef PyObject *executable
        for i in range(self.room if self.rows != NULL else 0):
            executable, self.rows[i].executable = self.rows[i].executable, NULL
            if executable != NULL:
                Py_DECREF(<object>executable)
        self.size = 0

    cdef Row *find(self, Row *key) noexcept nogil:
        """The row of this key, or the free row where it belongs."""
        cdef size_t i = key.hash & (self.room - 1)
        while self.rows[i].executable != NULL:
            if (self.rows[i].hash == key.hash and self.rows[i].count == key.count
                    and memcmp(self.rows[i].words, key.words, key.count * sizeof(uint64_t)) == 0):
                break
            i = (i + 1) & (self.room - 1)
        return &self.rows[i]

    cdef int grow(self) except -1:
        cdef Row *old = self.rows
        cdef Row *rows = <Row *>calloc(self.room * 2, sizeof(Row))
        cdef size_t i, n = self.room
        if rows == NULL:
            raise MemoryError()
        self.rows, self.room = rows, n * 2
        for i in range(n):
            if old[i].executable != NULL:
                self.find(&old[i])[0] = old[i]
        free(old)
        return 0

    def alignment(self, tuple pointers not None) -> bool:
        """True when every address is a multiple of 16 (null counts as one)."""
        cdef uintptr_t bits = 0
        for x in pointers:
            bits |= pointer_of(x)
        return bits & 15 == 0

    def put(self, int fn_id, tuple keys not None, bint is_aligned, executable not None) -> None:
        """Remember ``executable`` (a Tape, or anything with ``execute`` of the same signature)."""
        cdef Row key
        cdef Row *row
        if not key_into(&key, fn_id, is_aligned, keys):
            raise BadParam(f"keys: every descriptor must be set and alive; got {keys!r}")
        if self.size >= self.limit:
            self.clear()
        if self.size * 2 >= self.room:
            self.grow()
        row = self.find(&key)
        if row.executable != NULL:
            old = <object>row.executable
            Py_INCREF(executable)
            row.executable = <PyObject *>executable
            Py_DECREF(old)
            return
        key.executable = <PyObject *>executable
        Py_INCREF(executable)
        row[0] = key
        self.size += 1

    def get(self, int fn_id, tuple keys not None, bint is_aligned):
        """What ``put`` remembered, or None."""
        cdef Row key
        cdef Row *row
        if not key_into(&key, fn_id, is_aligned, keys):
            return None
        row = self.find(&key)
        return <object>row.executable if row.executable != NULL else None

    def run(self, int fn_id, tuple keys not None, tuple pointers not None, tuple scalars, workspace, size_t workspace_bytes, stream) -> bool:
        """Execute the plan of this key. False when there is none, or when an argument needs the slow path's checks: then nothing ran."""
        return self.attempt(fn_id, keys, pointers, scalars, workspace, workspace_bytes, stream)

    cdef bint attempt(self, int fn_id, tuple keys, tuple pointers, tuple scalars, workspace, size_t workspace_bytes, stream) except -1:
        cdef void *addresses[MAX_SLOTS]
        cdef Row key
        cdef Row *row
        cdef uintptr_t bits = 0
        cdef Py_ssize_t i, n = PyTuple_GET_SIZE(pointers)
        addresses_into(pointers, addresses)
        for i in range(n):
            bits |= <uintptr_t>addresses[i]
        for i in range(PyTuple_GET_SIZE(scalars) if scalars is not None else 0):
            if not is_number(<object>PyTuple_GET_ITEM(scalars, i)):
                return False
        if not key_into(&key, fn_id, bits & 15 == 0, keys):
            return False
        row = self.find(&key)
        if row.executable == NULL:
            return False
        executable = <object>row.executable
        if type(executable) is Tape:
            (<Tape>executable).run(addresses, n, scalars, workspace, workspace_bytes, stream)
        else:
            executable.execute(pointers, scalars, workspace, workspace_bytes, stream)
        return True


cdef class HandleBase(Descriptor):
    """What every compute call reads of a library handle: its plans, its stream, and the workspace it lends. A destroyed one has no table."""


cdef bint attempt_c(int fn_id, handle, tuple keys, tuple pointers, tuple scalars, workspace, workspace_bytes) except -1:
    cdef HandleBase h
    if not isinstance(handle, HandleBase) or (<HandleBase>handle).table is None:
        return False
    h = handle
    if workspace_bytes is None:
        workspace, workspace_bytes = h.scratch, h.scratch_bytes
    try:
        return h.table.attempt(fn_id, keys, pointers, scalars, workspace, workspace_bytes, h.stream)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return False


def attempt(int fn, handle, tuple keys not None, tuple pointers not None, tuple scalars not None, workspace=None, workspace_bytes=None) -> bool:
    """Run the plan of a legacy call from the handle's table; with no ``workspace_bytes``, on the workspace that the handle lends.

    False when there is no plan yet or when anything is not as it should be: then nothing ran, and the caller's checks say what it is.
    """
    return attempt_c(fn, handle, keys, pointers, scalars, workspace, workspace_bytes)


def compute(fn, handle, tuple keys not None, tuple pointers not None, tuple scalars not None, workspace=None, workspace_bytes=None) -> None:
    """``attempt``; where it fails ``fn.run``, which checks every rule, then builds the plan or says what is wrong."""
    if not attempt_c(fn, handle, keys, pointers, scalars, workspace, workspace_bytes):
        fn.run(handle, keys, pointers, scalars, workspace, workspace_bytes)

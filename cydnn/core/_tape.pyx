"""The plan tape: launches with packed parameters, and what runs them without the GIL.

It knows bytes and launches, never ops.
"""
cimport cython
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from cydnn.core._address cimport Said, size_of, stream_into
from cydnn.core._context cimport (FINE, IS_BEYOND_REACH, IS_ELSEWHERE, IS_MISALIGNED, IS_NULL,
                                  IS_OVERLAPPING, IS_OVER_WORKSPACE, IS_PAGEABLE, IS_SMALL, IS_UNKNOWN,
                                  IS_UNREACHED, Context, Function, enter, is_known, leave, note_launch)
from cydnn.core._driver cimport cu, driver, need
from cydnn.core._numbers cimport Numbers, number_t
from cydnn.core._operands cimport Operands, scratch_into
from cydnn.core._peers cimport reach
from cydnn.core._step cimport (PATCH_F32, PATCH_F64, PATCH_I32, PATCH_I64, PATCH_MAP, PATCH_POINTER, Patch,
                               Step, attributes_into, clear, data_into, fail_step, is_stepwise, run, set_into,
                               shape_into)
from cydnn.core.atomics cimport advance_number, read_flag, write_flag

from cydnn.given import several
from cydnn.kernels import kinds
from cydnn.status import BadParam, NotSupported

cdef uint64_t next_serial = 1

cdef dict CODES = {"pointer": PATCH_POINTER, "map": PATCH_MAP, "f32": PATCH_F32, "f64": PATCH_F64,
                   "i32": PATCH_I32, "i64": PATCH_I64}


cdef int refuse_count(tuple pointers) except -1:
    raise BadParam(f"pointers: must be <= {MAX_SLOTS}; got {len(pointers)}")


@cython.final
cdef class Tape:
    """A list of launches with packed parameters. Built once, sealed by its first execute, then safe in
    several threads at once.

    slots              operands in the order of ``execute``: Operands, or their fields
    scalars            default values of the by-value numbers (an int: a whole number; None: must be given)
    workspace_bytes    what ``execute`` must be given; the kernels see its address plus their own offset
    inplace            (written slot, read slot) pairs that may have exactly the same address, or that of
                       the read one may be (a third number) so many bytes behind the written one's
    periods            {(written slot, other slot): (period, run, other's run)} of pairs that may lie between
                       each other, in bytes
    problem            what it is for, in words: of errors
    """

    def __cinit__(self, Context context not None, slots, scalars=(), size_t workspace_bytes=0, inplace=(),
                  size_t workspace_alignment=16, periods=None, str problem=""):
        self.operands, scalars = Operands(slots), tuple(scalars)
        self.problem, self.serial = problem, advance_number(&next_serial)
        context.tapes[self.serial] = self
        slots = self.operands.rows
        inplace, periods = {tuple(pair[:2]): sum(pair[2:]) for pair in inplace}, periods or {}
        if max(len(slots), len(scalars)) > MAX_SLOTS:
            raise NotSupported(f"tape: must have <= {MAX_SLOTS} slots and scalars; got {len(slots)} and "
                               f"{len(scalars)}")
        self.context, self.workspace_bytes = context, workspace_bytes
        self.workspace_alignment = workspace_alignment
        self.slot_count, self.scalar_count, self.functions = len(slots), len(scalars), []
        self.numbers = Numbers(scalars)
        self.slots = <Slot *>calloc(len(slots) + 1, sizeof(Slot))
        self.pairs = <Pair *>calloc(sum(bool(slot[3]) for slot in slots) * len(slots) + 1, sizeof(Pair))
        if self.slots == NULL or self.pairs == NULL:
            raise MemoryError()
        for i, slot in enumerate(slots):
            if slot.alignment < 1 or slot.alignment & (slot.alignment - 1):
                raise BadParam(f"{slot.name}: alignment must be a power of two; got {slot.alignment}")
            self.slots[i] = Slot(bytes=slot.bytes or slot.is_ragged, mask=slot.alignment - 1,
                                 is_written=slot.is_written, is_optional=slot.is_optional,
                                 is_remote=slot.is_remote)
        for i, j in ((i, j) for i in range(len(slots)) if slots[i][3] for j in range(len(slots))):
            if i != j and slots[i][1] and slots[j][1] and (i < j or not slots[j][3]):
                period, run, other_run = periods.get((i, j), (0, 0, 0))
                self.pairs[self.pair_count] = Pair(written=i, other=j, is_inplace=(i, j) in inplace,
                                                   behind=inplace.get((i, j), 0), period=period, run=run,
                                                   other_run=other_run)
                self.pair_count += 1

    def __dealloc__(self):
        cdef int i
        for i in range(self.step_count):
            clear(&self.steps[i])
        free(self.steps)
        free(self.slots)
        free(self.pairs)

    def __repr__(self):
        names = ", ".join(self.names)
        return f"<tape of {self.step_count} steps over ({names}) on cuda:{self.context.ordinal}>"

    @property
    def names(self) -> tuple:
        """Of the operands."""
        return tuple([row.name for row in self.operands.rows])

    @property
    def scalars(self) -> tuple:
        """The defaults of the by-value numbers; None for one that must be given."""
        return self.numbers.values

    @property
    def kernels(self) -> tuple:
        """The names of the kernels in launch order."""
        return tuple(self.steps[i].label.decode() for i in range(self.step_count)
                     if self.steps[i].function != NULL)

    def update_scalars(self, scalars) -> None:
        """New defaults for the by-value numbers."""
        self.numbers.read_all(tuple(scalars), self.numbers.defaults)

    cdef Step *append(self) except NULL:
        """Room for one more step, which counts once ``step_count`` does."""
        cdef Step *steps
        if read_flag(&self.is_sealed):
            raise BadParam("tape: is sealed by its first execute; got a new step")
        if self.step_count == self.step_room:
            steps = <Step *>realloc(self.steps, (self.step_room + 8) * sizeof(Step))
            if steps == NULL:
                raise MemoryError()
            self.steps, self.step_room = steps, self.step_room + 8
        memset(&self.steps[self.step_count], 0, sizeof(Step))
        return &self.steps[self.step_count]

    cdef int patch_into(self, Patch *patch, size_t data_bytes, object offset, str kind, int index,
                        int64_t addend) except -1:
        cdef bint is_number = kind in kinds.NUMBERS
        cdef int count = self.scalar_count if is_number else self.slot_count
        row = kinds.PATCHES[kind]
        if not (0 if is_number else -1) <= index < count:
            raise BadParam(f"patch: {'scalar' if is_number else 'slot'} must be below {count}; got {index}")
        if offset < 0 or offset + row.bytes > data_bytes:
            raise BadParam(f"patch: offset must lie within {data_bytes} bytes of parameters; got {offset}")
        if row.low is not None:
            self.numbers.narrow(index, row.low, row.high)
        if kind == "map":
            self.align_for_map(offset, index, addend)
        patch[0] = Patch(offset=offset, index=index, kind=CODES[kind], addend=addend)
        return 0

    cdef int align_for_map(self, object offset, int index, int64_t addend) except -1:
        """The address in a tensor map is a multiple of 16, the map itself one of 64: what it is made of must
        be too."""
        need(<void *>driver().TensorMapReplaceAddress, "cuTensorMapReplaceAddress")
        if offset % 64 or addend % 16:
            raise BadParam("patch: a tensor map must lie at a multiple of 64 bytes and begin a multiple of "
                           f"16 bytes behind its slot; got offset {offset}, addend {addend}")
        if index >= 0:
            self.slots[index].mask |= 15
        else:
            self.workspace_alignment = max(self.workspace_alignment, <size_t>16)
        return 0

    def launch(self, Function function not None, grid, block, unsigned int smem, bytes data not None,
               pointers=(), scalars=(), maps=(), params=(), cluster=None, bint cooperative=False,
               bint dependent=False) -> None:
        """Add a launch; an empty grid is none.

        pointers     (offset, slot or -1 for the workspace, addend)
        scalars      (offset, one of kinds.NUMBERS, scalar)
        maps         like pointers, where ``data`` has a tensor map, whose address is replaced
        params       where in ``data`` each parameter begins: asked for where there are maps; a cooperative
                     launch is captured only so
        cluster      blocks (x, y, z) that run together; None: as the kernel was compiled
        cooperative  all blocks are resident at once, so that they may wait for each other
        dependent    may begin before the launch before it has ended; the kernel waits for that itself
        """
        cdef Step *step = self.append()
        patches = [(offset, "pointer", slot, addend) for offset, slot, addend in pointers]
        patches += [(offset, "map", slot, addend) for offset, slot, addend in maps]
        patches += [(offset, kind, scalar, 0) for offset, kind, scalar in scalars]
        if maps and not params:
            raise BadParam(f"{function.name}: params must be given for a launch with tensor maps; got none")
        if function.context is not self.context:
            raise BadParam(f"{function.name}: must be a kernel on {self.context!r}; got one on "
                           f"{function.context!r}")
        try:
            shape_into(step, function, grid, block, smem)
            attributes_into(step, function, cluster, cooperative, dependent)
            data_into(step, function, data, tuple(params), len(patches))
            for n, (offset, kind, index, addend) in enumerate(patches):
                self.patch_into(&step.patches[n], len(data), offset, kind, index, addend)
            is_empty = 0 in step.grid
        except BaseException:
            clear(step)
            raise
        if is_empty:
            clear(step)
            return
        self.functions.append(function)
        self.step_count += 1

    def memset(self, int slot, int64_t addend, size_t bytes, int value) -> None:
        """Add a memset of ``bytes`` bytes of a slot (-1: workspace) to ``value``."""
        cdef Step *step
        if bytes == 0:
            return
        if not -1 <= slot < self.slot_count:
            raise BadParam(f"memset: slot must be below {self.slot_count}; got {slot}")
        step = self.append()
        set_into(step, bytes, value)
        step.patches[0] = Patch(offset=0, index=slot, kind=PATCH_POINTER, addend=addend)
        self.step_count += 1

    def execute(self, pointers, scalars=None, workspace=None, workspace_bytes=0, stream=None) -> None:
        """Check everything, then launch every step on ``stream``. Nothing is allocated, nothing
        synchronised; safe under stream capture.

        pointers    one per slot: whatever ``pointer_of`` takes; None for an optional operand that is absent
        scalars     one per scalar, None for its default; or None for all defaults
        """
        cdef void *addresses[MAX_SLOTS]
        cdef Said said[MAX_SLOTS]
        cdef Py_ssize_t ints
        if not PyTuple_CheckExact(pointers):
            pointers = tuple(several("execute: pointers", pointers, "pointers"))
        ints = ints_into(pointers, addresses)
        if ints < PyTuple_GET_SIZE(pointers):
            self.operands.objects_into(pointers, ints, addresses, said)
        self.start(addresses, PyTuple_GET_SIZE(pointers), scalars, workspace, size_of(workspace_bytes),
                   stream)

    def check(self, pointers, workspace=None, workspace_bytes=0) -> None:
        """What ``execute`` checks of its memory, and no launch."""
        cdef void *addresses[MAX_SLOTS]
        cdef void *scratch
        cdef bint pushed
        memories = self.operands.memories(pointers)
        for i, memory in enumerate(memories):
            addresses[i] = <void *><uintptr_t>memory.address
        scratch_into(workspace, size_of(workspace_bytes), &scratch)
        enter(self.context, &pushed)
        admit(self, addresses, scratch, size_of(workspace_bytes), pushed)
        leave(pushed)

    cdef int start(self, void **pointers, Py_ssize_t n, object scalars, object workspace,
                   size_t workspace_bytes, object stream) except -1:
        cdef number_t numbers[MAX_SLOTS]
        cdef number_t *values = NULL
        cdef void *scratch
        cdef void *queue
        if n != self.slot_count:
            raise BadParam(f"pointers: must be {self.slot_count} ({', '.join(self.names)}); got {n}")
        if scalars is not None:
            self.numbers.read_all(scalars if PyTuple_CheckExact(scalars) else
                                  tuple(several("execute: scalars", scalars, "numbers")), numbers)
            values = numbers
        scratch_into(workspace, workspace_bytes, &scratch)
        stream_into(stream, &queue)
        with nogil:
            execute_c(self, pointers, values, scratch, workspace_bytes, queue)
        return 0

    cdef int validate(self, void **pointers, void *workspace, size_t workspace_bytes, int *slot,
                      int *other) noexcept nogil:
        """FINE, or the first rule that is broken and by which slot (-1: the workspace). Runs before every
        execute, without the GIL."""
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
                if is_known(self.context, pointers[i]):
                    continue
                rule = self.context.inspect(pointers[i], other, self.slots[i].is_remote)
                if rule:
                    return rule
        for i in range(self.pair_count):
            pair = &self.pairs[i]
            a, b = <uintptr_t>pointers[pair.written], <uintptr_t>pointers[pair.other]
            if a and b and a < b + self.slots[pair.other].bytes and b < a + self.slots[pair.written].bytes:
                if (<int64_t>(b - a) != pair.behind or not pair.is_inplace) and not lies_between(pair, a, b):
                    slot[0], other[0] = pair.written, pair.other
                    return IS_OVERLAPPING
        return FINE if self.workspace_bytes == 0 else self.validate_workspace(
            pointers, workspace, workspace_bytes, slot, other)

    cdef int validate_workspace(self, void **pointers, void *workspace, size_t workspace_bytes, int *slot,
                                int *other) noexcept nogil:
        """The rules of the workspace, which lies in no slot."""
        cdef int i, rule
        cdef uintptr_t a = <uintptr_t>workspace, b
        slot[0] = -1
        if workspace_bytes < self.workspace_bytes:
            return IS_SMALL
        if a == 0:
            return IS_NULL
        if a & (self.workspace_alignment - 1):
            return IS_MISALIGNED
        rule = FINE if is_known(self.context, workspace) else self.context.inspect(workspace, other)
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
            raise BadParam(f"workspace: must have at least {self.workspace_bytes} bytes; "
                           f"got {workspace_bytes}")
        if rule == IS_NULL:
            needs = f", {self.workspace_bytes} bytes are needed" if slot < 0 else ""
            raise BadParam(f"{name}: must not be null{needs}; got 0")
        if rule == IS_MISALIGNED:
            alignment = self.slots[slot].mask + 1 if slot >= 0 else self.workspace_alignment
            raise BadParam(f"{name}: must be aligned to {alignment} bytes; got {value:#x}")
        if rule == IS_PAGEABLE:
            raise BadParam(f"{name}: must be memory that {device} can reach; got pageable host memory at "
                           f'{value:#x}: copy it to the device first, or use device="numpy"')
        if rule == IS_BEYOND_REACH:
            raise NotSupported(f"{name}: must be memory of {device}, or of a device that it has peer access "
                               f"to; got memory of one that it has none to, at {value:#x}")
        if rule == IS_ELSEWHERE:
            raise BadParam(f"{name}: must be memory of {device}; got memory of another device at {value:#x}")
        if rule == IS_OVER_WORKSPACE:
            there, at, size = "workspace", <uintptr_t>workspace, self.workspace_bytes
        else:
            there, at, size = self.names[other], <uintptr_t>pointers[other], self.slots[other].bytes
        raise BadParam(f"{name}: must not overlap {there}; got {name} = {value:#x} + "
                       f"{self.slots[slot].bytes} bytes, {there} = {at:#x} + {size} bytes")


cdef int execute_c(Tape tape, void **pointers, number_t *scalars, void *workspace, size_t workspace_bytes,
                   void *stream) except -1 nogil:
    """Run a tape: one address per slot, one number per scalar (NULL: the defaults), which its Rule allows."""
    cdef Step *step
    cdef const char *call = NULL
    cdef bint pushed, is_slow = read_flag(&is_stepwise)
    cdef int i, status = 0
    if not read_flag(&tape.is_sealed):
        write_flag(&tape.is_sealed, True)
    if scalars == NULL:
        if tape.numbers.required:
            tape.numbers.refuse_missing()
        scalars = tape.numbers.defaults
    enter(tape.context, &pushed)
    admit(tape, pointers, workspace, workspace_bytes, pushed)
    if is_slow:
        wait_before(tape, stream, pushed)
    for i in range(tape.step_count):
        step = &tape.steps[i]
        if step.function != NULL:
            note_launch(tape.context, step.label, tape.serial)
        status = run(step, pointers, workspace, scalars, tape.numbers.rules, stream, &call)
        if is_slow and status == 0:
            call, status = "cuStreamSynchronize", cu.StreamSynchronize(stream)
        if status:
            break
    leave(pushed)
    return fail_step(tape.context, &tape.steps[i], tape.problem, i + 1, tape.step_count, status,
                     call) if status else 0


cdef int admit(Tape tape, void **pointers, void *workspace, size_t workspace_bytes,
               bint pushed) except -1 nogil:
    """Refuse what ``validate`` finds; then the context is as it was before."""
    cdef int slot, other
    cdef int rule = tape.validate(pointers, workspace, workspace_bytes, &slot, &other)
    while rule == IS_UNREACHED:
        rule = (reach(tape.context, other, pushed)
                or tape.validate(pointers, workspace, workspace_bytes, &slot, &other))
    if rule:
        leave(pushed)
        return tape.refuse(rule, slot, other, pointers, workspace, workspace_bytes)
    return 0


cdef int wait_before(Tape tape, void *stream, bint pushed) except -1 nogil:
    """What fails here is none of this tape's."""
    cdef int status = cu.StreamSynchronize(stream)
    if status:
        leave(pushed)
        return fail_before(tape, status)
    return 0


cdef int fail_before(Tape tape, int status) except -1 with gil:
    return tape.context.fail(status, "cuStreamSynchronize", NULL,
                             f"; before the first step of {tape!r}, so by other work on its stream")

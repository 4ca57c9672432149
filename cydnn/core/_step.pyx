"""The steps of a tape: launches with packed parameters, and memsets.

A step is filled once and run many times, by several threads at once: parameters are patched on the stack.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from cydnn.core._address cimport stream_into
from cydnn.core._context cimport Context, Function, enter, leave
from cydnn.core._driver cimport cu, driver, need
from cydnn.core.atomics cimport write_flag
from cydnn.core.cuda cimport LaunchConfig, address_t

from cydnn.status import NotSupported

cdef enum:                                    # CUlaunchAttributeID
    COOPERATIVE = 2, CLUSTER = 4, DEPENDENT = 6
    MOST_OF_CLUSTER = 8                       # blocks, on every GPU that has clusters

cdef list listening = [None]                  # whom every launch is said to
is_logging = is_stepwise = False


def log_launches(callback) -> None:
    """Call ``callback(kernel, grid, block, smem, attributes)`` for every launch of a tape; None switches it
    off. ``attributes``: "cluster=2x1x1 cooperative dependent", "" without any."""
    listening[0] = callback
    write_flag(&is_logging, callback is not None)


def wait_for_every_step(bint on) -> None:
    """Tapes wait for each of their steps, so that one that fails is named. Not while a stream is captured."""
    write_flag(&is_stepwise, on)


cdef void log_launch(Step *step) noexcept with gil:
    callback = listening[0]
    if callback is not None:                  # another thread may have switched it off since
        callback(step.label.decode(), tuple(step.grid), tuple(step.block), step.smem, attributes_of(step))


cdef tuple triple(str name, values, tuple most):
    """(x, y, z) of a grid or block, filled up with ones."""
    full = (*values, 1, 1, 1)[:3] if not isinstance(values, int) else (values, 1, 1)
    if any(not 0 <= v <= m for v, m in zip(full, most)):
        raise NotSupported(f"{name} must be within {most}; got {tuple(full)}")
    return tuple(int(v) for v in full)


# -- Making a step -------------------------------------------------------------------------------------------

cdef int shape_into(Step *step, Function function, object grid, object block, unsigned int smem) except -1:
    """Grid, block and shared memory of a launch, where the driver takes them."""
    grid = triple(f"{function.name}: grid", grid, (2147483647, 65535, 65535))
    block = triple(f"{function.name}: block", block, (1024, 1024, 64))
    threads = block[0] * block[1] * block[2]
    if not 0 < threads <= function.max_threads:
        raise NotSupported(f"{function.name}: block must have 1..{function.max_threads} threads; "
                           f"got {threads}")
    function.allow_smem(smem)
    step.function, step.label = function.handle, function.label
    step.grid, step.block, step.smem = grid, block, smem
    return 0


cdef int attributes_into(Step *step, Function function, object cluster, bint cooperative,
                         bint dependent) except -1:
    """What is asked for beyond a plain launch."""
    cdef LaunchAttribute *attribute = step.attributes
    if cluster is not None:
        cluster = triple(f"{function.name}: cluster", cluster, (MOST_OF_CLUSTER,) * 3)
        if not 1 <= cluster[0] * cluster[1] * cluster[2] <= MOST_OF_CLUSTER:
            raise NotSupported(f"{function.name}: cluster must have 1..{MOST_OF_CLUSTER} blocks; "
                               f"got {cluster}")
        if any(g % c for g, c in zip(step.grid, cluster)):
            raise NotSupported(f"{function.name}: grid must be a multiple of the cluster {cluster}; "
                               f"got {tuple(step.grid)}")
        attribute.id = CLUSTER
        attribute.value[0], attribute.value[1], attribute.value[2] = cluster
        attribute += 1
    for is_wanted, number in ((cooperative, COOPERATIVE), (dependent, DEPENDENT)):
        if is_wanted:
            attribute.id, attribute.value[0] = number, 1
            attribute += 1
    step.attribute_count = <unsigned int>(attribute - step.attributes)
    return 0


cdef int data_into(Step *step, Function function, bytes data, object params, Py_ssize_t patches) except -1:
    """The parameter block, room for what is written into it, and where each parameter begins.

    A block that is handed over whole begins 16 bytes off a multiple of 32 in the kernel's memory, so a
    parameter that is aligned to more (a tensor map) would lie elsewhere: those the driver places one by one.
    """
    step.bytes, step.patch_count = PyBytes_GET_SIZE(data), <int>patches
    if step.bytes > MAX_DATA:
        raise NotSupported(f"{function.name}: parameters must be <= {MAX_DATA} bytes; got {step.bytes}")
    step.patches = <Patch *>calloc(patches + 1, sizeof(Patch))
    step.data = <char *>malloc(step.bytes + 1)
    if step.patches == NULL or step.data == NULL:
        raise MemoryError()
    memcpy(step.data, PyBytes_AS_STRING(data), step.bytes)
    if len(params) > MAX_PARAMS or any(not 0 <= at < step.bytes for at in params):
        raise NotSupported(f"{function.name}: params must be <= {MAX_PARAMS} offsets below {step.bytes}; "
                           f"got {params}")
    for i, at in enumerate(params):
        step.params[i] = at
    step.param_count = <unsigned int>len(params)
    if step.attribute_count or step.param_count:
        need(<void *>driver().LaunchKernelEx, "cuLaunchKernelEx")
    return 0


cdef int set_into(Step *step, size_t bytes, int value) except -1:
    """A memset, of what its one patch names."""
    step.patches = <Patch *>calloc(1, sizeof(Patch))
    if step.patches == NULL:
        raise MemoryError()
    step.bytes, step.value, step.patch_count = bytes, value, 1
    return 0


cdef void clear(Step *step) noexcept:
    free(step.data)
    free(step.patches)
    memset(step, 0, sizeof(Step))


cdef str attributes_of(Step *step):
    """``cluster=2x1x1 cooperative dependent``"""
    words = []
    for i in range(step.attribute_count):
        value = step.attributes[i].value
        words.append(f"cluster={value[0]}x{value[1]}x{value[2]}" if step.attributes[i].id == CLUSTER else
                     "cooperative" if step.attributes[i].id == COOPERATIVE else "dependent")
    return " ".join(words)


# -- Running it ----------------------------------------------------------------------------------------------

cdef int launch(Step *step, void *stream, char *data, void **extra) noexcept nogil:
    """With attributes, or with parameters one by one."""
    cdef LaunchConfig config
    cdef void *params[MAX_PARAMS]
    cdef unsigned int i
    for i in range(step.param_count):
        params[i] = data + step.params[i]
    config.grid[0], config.grid[1], config.grid[2] = step.grid[0], step.grid[1], step.grid[2]
    config.block[0], config.block[1], config.block[2] = step.block[0], step.block[1], step.block[2]
    config.smem, config.stream = step.smem, stream
    config.attributes, config.count = step.attributes, step.attribute_count
    return cu.LaunchKernelEx(&config, step.function, params if step.param_count else NULL,
                             NULL if step.param_count else extra)


cdef int set_bytes(Step *step, void **pointers, void *workspace, void *stream) noexcept nogil:
    cdef Patch *at = step.patches
    cdef char *base = <char *>(workspace if at.index < 0 else pointers[at.index])
    if base == NULL:
        return 0
    return cu.MemsetD8Async(<address_t>(base + at.addend), <unsigned char>step.value, step.bytes, stream)


def raw_launch_loop(Function function not None, grid, block, bytes data not None, stream=None,
                    long iterations=1000, unsigned int smem=0) -> float:
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
    g = triple("grid", grid, (2147483647, 65535, 65535))
    b = triple("block", block, (1024, 1024, 64))
    extra[0], extra[1], extra[2] = LAUNCH_POINTER, PyBytes_AS_STRING(data), LAUNCH_SIZE
    extra[3], extra[4] = &bytes, LAUNCH_END
    stream_into(stream, &queue)
    function.allow_smem(smem)
    with nogil:
        enter(function.context, &pushed)
        clock_gettime(CLOCK_MONOTONIC, &start)
        for i in range(iterations):
            status = cu.LaunchKernel(function.handle, g[0], g[1], g[2], b[0], b[1], b[2], smem, queue,
                                     NULL, extra)
            if status:
                break
        clock_gettime(CLOCK_MONOTONIC, &end)
        leave(pushed)
    if status:
        function.context.fail(status, "cuLaunchKernel", function.label)
    return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / max(iterations, 1)


cdef int fail_step(Context context, Step *step, str problem, int number, int count, int status,
                   const char *call) except -1 with gil:
    """Raise for the driver's status of a step: which one of how many, and of what."""
    how = attributes_of(step)
    text = (f" with {how}" if how else "") + (f" of {problem}" if problem else "")
    if step.function == NULL:
        text = f"; memset{text}"
    if is_stepwise:
        text += f", step {number} of {count}, each waited for"
    return context.fail(status, call, step.label, text)

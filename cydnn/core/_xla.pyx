"""Plans as foreign functions of XLA: what a compiled program of JAX calls, without a step through Python's
arrays."""
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport uintptr_t

from cydnn.core.xla cimport (ALIGNMENT, EXECUTE, MAJOR, METADATA, UNKNOWN, Api, DestroyArgs, ErrorArgs,
                             FreeArgs, Frame, MemoryArgs, MessageArgs, MetadataExtension, OrdinalArgs,
                             StreamArgs)

from ..status import ExecutionFailed, InternalError, NotSupported

cdef enum:
    LINE = 256                                # bytes: what plans align their workspace to

CALLS = {}                                    # number of a call -> what gives its plan on a device


def targets() -> dict:
    """{platform of XLA: a capsule of the function that it calls there}."""
    return dict(cpu=PyCapsule_New(<void *>on_host, NULL, NULL),
                CUDA=PyCapsule_New(<void *>on_gpu, NULL, NULL))


cdef void *on_host(Frame *frame) noexcept nogil:
    return handled(frame, False)


cdef void *on_gpu(Frame *frame) noexcept nogil:
    return handled(frame, True)


cdef void *handled(Frame *frame, bint is_gpu) noexcept nogil:
    """NULL, or an error of XLA's own."""
    cdef MetadataExtension *asked = <MetadataExtension *>frame.extensions
    if asked != NULL and asked.base.type == METADATA:
        asked.metadata.version.major = frame.api.version.major
        asked.metadata.version.minor = frame.api.version.minor
        asked.metadata.traits = 0
        return NULL
    return executed(frame, is_gpu) if frame.stage == EXECUTE else NULL


cdef void *executed(Frame *frame, bint is_gpu) noexcept with gil:
    try:
        called(frame, is_gpu)
    except BaseException as error:            # XLA hands its words to who called
        return said(frame.api, str(error).encode("utf-8", "replace"))
    return NULL


cdef void *said(const Api *api, bytes message) noexcept:
    cdef ErrorArgs args = ErrorArgs(sizeof(ErrorArgs), NULL, message, UNKNOWN)
    return api.error(&args)


cdef int called(Frame *frame, bint is_gpu) except -1:
    """Run the plan of a call: its memory in the order of slots, its numbers, scratch memory."""
    cdef void *workspace
    if frame.api.version.major != MAJOR or frame.api.struct_size < sizeof(Api):
        raise NotSupported(f"cydnn.jax: version {MAJOR}.3 of XLA's foreign functions or later must be there; "
                           f"got {frame.api.version.major}.{frame.api.version.minor}: install a newer jax")
    number = frame.attributes.values[0].value[0]
    if number not in CALLS:
        raise NotSupported(f"cydnn.jax: a program must be traced in the process that runs it; got call "
                           f"{number} of another one")
    ordinal = ordinal_of(frame) if is_gpu else None
    execute, order, numbers, size, alloc = CALLS[number](ordinal)
    cdef size_t room = size + LINE - ALIGNMENT if size else 0
    pointers = tuple([address_of(frame, slot) for slot in order])
    if not is_gpu:
        held = alloc(size) if size else None
        execute(pointers, numbers, held, size)
        return 0
    workspace = allocated(frame, room)
    aligned = (<uintptr_t>workspace + LINE - 1) // LINE * LINE
    try:
        execute(pointers, numbers, aligned, size, <uintptr_t>stream_of(frame))
    finally:
        freed(frame, room, workspace)
    return 0


cdef address_of(Frame *frame, int slot):
    """The memory of an argument, or of ~ a result."""
    if slot >= frame.arguments.size or ~slot >= frame.results.size:
        raise InternalError(f"cydnn.jax: a call must have the arrays of its plan; got none for slot {slot}")
    return <uintptr_t>(frame.arguments.arrays[slot] if slot >= 0 else frame.results.arrays[~slot]).data


cdef int fine(const Api *api, void *error, what) except -1:
    if error == NULL:
        return 0
    cdef MessageArgs args = MessageArgs(sizeof(MessageArgs), NULL, error, NULL)
    api.message(&args)
    reason = args.message.decode("utf-8", "replace") if args.message != NULL else "an error without words"
    cdef DestroyArgs over = DestroyArgs(sizeof(DestroyArgs), NULL, error)
    api.destroy(&over)
    raise ExecutionFailed(f"cydnn.jax: XLA must give {what}; got {reason}")


cdef int ordinal_of(Frame *frame) except -2:
    cdef OrdinalArgs args = OrdinalArgs(sizeof(OrdinalArgs), NULL, frame.context, 0)
    fine(frame.api, frame.api.ordinal(&args), "the device of a call")
    return args.ordinal


cdef void *stream_of(Frame *frame) except? NULL:
    cdef StreamArgs args = StreamArgs(sizeof(StreamArgs), NULL, frame.context, NULL)
    fine(frame.api, frame.api.stream(&args), "the stream of a call")
    return args.stream


cdef void *allocated(Frame *frame, size_t size) except? NULL:
    """Scratch memory that whoever comes later on the stream may have again."""
    cdef MemoryArgs args = MemoryArgs(sizeof(MemoryArgs), NULL, frame.context, size, ALIGNMENT, NULL)
    if size:
        fine(frame.api, frame.api.allocate(&args), f"{size} bytes of workspace")
    return args.data


cdef int freed(Frame *frame, size_t size, void *data) except -1:
    cdef FreeArgs args = FreeArgs(sizeof(FreeArgs), NULL, frame.context, size, data)
    if size:
        fine(frame.api, frame.api.free(&args), "its workspace back")
    return 0

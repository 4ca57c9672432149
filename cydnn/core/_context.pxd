"""The context of a device and its kernels."""
cimport cython
from libc.stdint cimport uint64_t

from cydnn.core._driver cimport cu
from cydnn.core.atomics cimport advance, read_flag, read_number, write_label, write_number


cdef enum:                                    # what `Context.inspect` and `Tape.validate` find
    FINE, IS_UNKNOWN, IS_PAGEABLE, IS_ELSEWHERE, IS_NULL, IS_MISALIGNED, IS_OVERLAPPING, IS_SMALL
    IS_OVER_WORKSPACE, IS_UNREACHED, IS_BEYOND_REACH


@cython.final
cdef class Context:
    cdef object __weakref__
    cdef readonly int ordinal
    cdef readonly str lost                    # why this context cannot be used any more, or None
    cdef int device
    cdef void *handle
    cdef bint is_lost
    cdef uint64_t seen[512]                   # addresses known to be usable: 256 pairs, the younger first
    cdef const char *ring[16]                 # names of the last launches
    cdef uint64_t serials[16]                 # of the tapes that launched them
    cdef unsigned int launches
    cdef uint64_t peers                       # a bit for each device to whose memory peer access is on
    cdef object tapes                         # serial -> Tape, while it lives
    cdef dict modules                         # sha256 of an image's text -> module handle (int)
    cdef dict loading                         # sha256 of an image's text -> the lock of who loads it
    cdef dict allowed                         # kernel handle (int) -> bytes of dynamic shared memory
    cdef object lock
    cdef int make_current(self, int status, void *current, bint *pushed) except -1 nogil
    cdef int check(self, int status, const char *call) except -1 nogil
    cdef int fail(self, int status, const char *call, const char *what, str how=*) except -1 with gil
    cdef int refuse_lost(self) except -1 with gil
    cdef str last_launches(self)
    cdef int inspect(self, void *ptr, int *status, bint is_remote=*) noexcept nogil
    cdef void forget_addresses(self) noexcept nogil
    cdef void *load_module(self, bytes text) except NULL


# What every execute needs, without a call from module to module.

cdef inline int enter(Context context, bint *pushed) except -1 nogil:
    """Make a context current. The caller gives ``pushed`` back to ``leave`` before it checks a status.

    A thread without a context keeps this one, as with the CUDA runtime: its next call then costs one
    query instead of three calls.
    """
    cdef void *current = NULL
    cdef int status = 0 if read_flag(&context.is_lost) else cu.CtxGetCurrent(&current)
    pushed[0] = False
    return 0 if current == context.handle else context.make_current(status, current, pushed)


cdef inline void leave(bint pushed) noexcept nogil:
    cdef void *top
    if pushed:
        cu.CtxPopCurrent(&top)


cdef inline bint is_known(Context context, void *ptr) noexcept nogil:
    """An address that ``context.inspect`` found fine before."""
    cdef uint64_t *pair = &context.seen[(<uint64_t>ptr * <uint64_t>0x9E3779B97F4A7C15) >> 56 << 1]
    return read_number(&pair[0]) == <uint64_t>ptr or read_number(&pair[1]) == <uint64_t>ptr


cdef inline void note_launch(Context context, const char *label, uint64_t serial) noexcept nogil:
    """A place of the ring is one thread's, until sixteen more launches have begun."""
    cdef unsigned int place = advance(&context.launches) % 16
    write_label(&context.ring[place], label)
    write_number(&context.serials[place], serial)


@cython.final
cdef class Function:
    cdef readonly Context context
    cdef readonly str name
    cdef readonly int registers, smem_static, local_bytes, max_threads, smem_limit
    cdef void *handle
    cdef const char *label                    # the name, alive for ever: the ring of launches points at it
    cdef int refuse_smem(self, int bytes, int status) except -1

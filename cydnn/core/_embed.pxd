"""What a program that embeds cydnn cimports: ``cimport cydnn``, then ``cydnn.executor`` and ``cydnn.run``.
Its layout and signatures are of version ``ABI_VERSION``; a program built against another one is refused."""
cimport cython

cdef enum:
    ABI_VERSION = 1


@cython.final
cdef class Executor:
    cdef readonly object plan
    cdef readonly int slot_count              # addresses that ``run`` reads
    cdef readonly size_t workspace_bytes
    cdef object tape, execute                 # of a GPU; what other devices have


cdef Executor bound(object plan, int abi_version)

cdef int run(Executor executor, void **pointers, void *workspace, void *stream) except -1 nogil


cdef inline Executor executor(object plan):
    return bound(plan, ABI_VERSION)

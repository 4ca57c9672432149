"""The executor of embedded plans: one C function runs them on every device. A tape runs without the GIL; the
NumPy device and the interpreter take it."""
cimport cython
from libc.stdint cimport uintptr_t

from cydnn.core._tape cimport Tape, execute_c

from ..status import BadParam


@cython.final
cdef class Executor:
    """A plan bound to a C call. ``run`` reads ``slot_count`` addresses, in the order of ``plan.slots``, and
    ``workspace_bytes`` of scratch; numbers are the plan's defaults. ``abi_version``: that of the declarations
    which the caller was built against."""

    def __cinit__(self, plan, int abi_version=ABI_VERSION):
        if abi_version != ABI_VERSION:
            raise BadParam(f"executor: the program must be built against ABI {ABI_VERSION} of cydnn; got one "
                           f"built against ABI {abi_version}: build it again")
        executable = getattr(plan, "executable", None)
        if executable is None:
            raise BadParam("executor: plan must be a built one, such as cydnn.conv.prepare(x, w).plan; got "
                           f"{type(plan).__name__}")
        self.plan, self.execute = plan, executable.execute
        self.tape = executable if isinstance(executable, Tape) else None
        self.slot_count, self.workspace_bytes = len(plan.slots), plan.workspace_bytes

    def __repr__(self):
        return f"<Executor of {self.plan!r}>"

    def __reduce__(self):
        raise TypeError(f"pickle: an executor belongs to its process; got {self!r}")


cdef Executor bound(object plan, int abi_version):
    """An executor for a program that was built against a version of the declarations."""
    return Executor(plan, abi_version)


cdef int run(Executor executor, void **pointers, void *workspace, void *stream) except -1 nogil:
    """Check everything, then execute on ``stream`` (NULL: the default one). The first error is raised."""
    if executor.tape is not None:
        return execute_c(<Tape>executor.tape, pointers, NULL, workspace, executor.workspace_bytes, stream)
    return with_gil(executor, pointers, workspace, stream)


cdef int with_gil(Executor executor, void **pointers, void *workspace, void *stream) except -1 with gil:
    cdef int i
    addresses = tuple([<uintptr_t>pointers[i] for i in range(executor.slot_count)])
    executor.execute(addresses, None, <uintptr_t>workspace, executor.workspace_bytes, <uintptr_t>stream)
    return 0

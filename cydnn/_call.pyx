"""A compute call of the legacy API: its plan from the handle's table, or the slow path."""
from libc.stdint cimport int64_t

from cydnn._table cimport Descriptor, PlanTable


cdef class HandleBase(Descriptor):
    """What every compute call reads of a library handle: its plans, its stream, and the workspace it lends.
    A destroyed one has no table. A handle equals itself only."""

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return hash(self.address)

    def __copy__(self):
        raise TypeError(f"copy: a handle is the library on a device, create() gives another; got {self!r}")

    def __reduce_ex__(self, protocol):
        raise TypeError(f"pickle: a handle belongs to its process; got {self!r}")


cdef bint attempt_c(int64_t fn, handle, tuple keys, tuple pointers, tuple scalars, workspace,
                    workspace_bytes) except -1:
    cdef HandleBase h
    if not isinstance(handle, HandleBase) or (<HandleBase>handle).table is None:
        return False
    h = handle
    if workspace_bytes is None:
        workspace, workspace_bytes = h.scratch, h.scratch_bytes
    try:
        return h.table.attempt(fn, keys, pointers, scalars, workspace, workspace_bytes, h.stream)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return False


def attempt(int64_t fn, handle, tuple keys not None, tuple pointers not None, tuple scalars not None,
            workspace=None, workspace_bytes=None) -> bool:
    """Run the plan of a legacy call from the handle's table; with no ``workspace_bytes``, on the workspace
    that the handle lends.

    False when there is no plan yet or when anything is not as it should be: then nothing ran, and the
    caller's checks say what it is.
    """
    return attempt_c(fn, handle, keys, pointers, scalars, workspace, workspace_bytes)


def compute(fn, handle, tuple keys not None, tuple pointers not None, tuple scalars not None,
            workspace=None, workspace_bytes=None) -> None:
    """``attempt``; where it fails ``fn.run``, which checks every rule, then builds the plan or says what is
    wrong."""
    if not attempt_c(fn, handle, keys, pointers, scalars, workspace, workspace_bytes):
        fn.run(handle, keys, pointers, scalars, workspace, workspace_bytes)

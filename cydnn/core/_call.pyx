"""A compute call of the legacy API: its plan from the handle's table, or the slow path."""
cimport cython
from cpython.pythread cimport (NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock,
                               PyThread_free_lock, PyThread_get_thread_ident, PyThread_release_lock)
from libc.stdint cimport int64_t, uint64_t

from cydnn.core._address cimport size_of
from cydnn.core._table cimport MAX_NULLABLE, PlanTable
from cydnn.core.atomics cimport read_number, write_number

from cydnn.status import BadParam, NotSupported


def nullable(int number, pointers=()) -> int:
    """The number by which a plan table knows a function, of whose pointers those at these places may be NULL.

    The plan of a call has the pointers that are given, in their order; calls that give others have others.
    """
    places = set(pointers)
    if number < 0 or any(not 0 <= place < MAX_NULLABLE for place in places):
        raise BadParam(f"function: number must be >= 0 and places of pointers below {MAX_NULLABLE}; "
                       f"got {number}, {sorted(places)}")
    return number | sum(1 << 32 + place for place in places)

from cydnn.locks import watched


@cython.final
cdef class Turns:
    """A lock that a thread may take several times over. Waiting for it lets other threads run."""

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError()
        watched(self)

    def __dealloc__(self):
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef int take(self) except -1:
        cdef uint64_t me = PyThread_get_thread_ident()
        if read_number(&self.owner) != me:        # so it is not this thread, whatever the others do meanwhile
            if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
                with nogil:
                    PyThread_acquire_lock(self.lock, WAIT_LOCK)
            write_number(&self.owner, me)
        self.depth += 1
        return 0

    cdef int give(self) except -1:
        self.depth -= 1
        if self.depth == 0:
            write_number(&self.owner, 0)
            PyThread_release_lock(self.lock)
        return 0

    def _at_fork_reinit(self) -> None:
        """In a forked child: nobody holds it. The old lock may be held by a thread that is not there."""
        self.lock, self.owner, self.depth = PyThread_allocate_lock(), 0, 0

    def __enter__(self):
        self.take()

    def __exit__(self, *error):
        self.give()


cdef class HandleBase(Descriptor):
    """What every compute call reads of a library handle: its plans, its stream, and the workspace it lends.
    A destroyed one has no table. A handle equals itself only.

    The workspace serves one plan after the other: whoever starts a plan in it holds ``turns``. On a stream,
    plans that were started one after the other run so.
    """

    def __cinit__(self, *args, **kwargs):
        self.turns = Turns()

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
    cdef PlanTable table
    if not isinstance(handle, HandleBase):
        return False
    h = handle
    with cython.critical_section(h):
        table, stream, is_lending = h.table, h.stream, h.scratch_bytes
    if table is None:
        return False
    try:
        if workspace_bytes is not None:
            return table.attempt(fn, keys, pointers, scalars, workspace, size_of(workspace_bytes), stream)
        if not is_lending:
            return table.attempt(fn, keys, pointers, scalars, 0, 0, stream)
        h.turns.take()
        try:
            with cython.critical_section(h):      # together: another thread may set another stream
                workspace, room, stream = h.scratch, h.scratch_bytes, h.stream
            return table.attempt(fn, keys, pointers, scalars, workspace, room, stream)
        finally:
            h.turns.give()
    except NotSupported:                          # the driver's word in the middle of a plan: steps have run
        raise
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

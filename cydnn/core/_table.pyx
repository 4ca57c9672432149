"""The table that finds what executes a call of the legacy API by what its descriptors say."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_Check
from cpython.long cimport PyLong_AsUnsignedLongLongMask, PyLong_Check
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from cydnn.core._address cimport Said, pointer_into, pointer_of
from cydnn.core._descriptor cimport FIRST_ADDRESS, Descriptor, at, epoch, new_stamp
from cydnn.core._operands cimport objects_into
from cydnn.core._tape cimport MAX_SLOTS, Tape, ints_into
from cydnn.core.atomics cimport read_number

from cydnn.status import BadParam

cdef uint64_t ABSENT = <uint64_t>1 << 62       # the word of None: no stamp, and no integer's word
cdef enum:
    MAX_ARRAYS = 4096
    NEVER = -1                                # a turn that no row has
    RECENT = 64                               # arrays, a power of 2

cdef extern from "Python.h":
    PyObject **PySequence_Fast_ITEMS(object x) noexcept   # of a list or a tuple

cdef struct Array:                            # descriptors in an array that was seen
    PyObject **items                          # not owned: one that goes moves the epoch
    Py_ssize_t count
    uint64_t epoch, word

cdef Array[RECENT] recent
cdef object looking = object()                # at them: its critical section, where there is no GIL
cdef dict arrays = {}                         # words of the items -> stamp of the array; dropped when full


cdef bint is_number(object x) except -1:
    """A float, or an int that is no host address: what the slow path would accept as a scaling factor."""
    return PyFloat_Check(x) or (PyLong_Check(x) and -4294967296 <= x <= 4294967296)


cdef inline uint64_t word_of_int(object x) except? 0:
    """An integer, or the address of a descriptor, as a key."""
    cdef uint64_t word = PyLong_AsUnsignedLongLongMask(x)
    if word < FIRST_ADDRESS:
        return ~word                          # never 0, never a stamp
    x = at(x)
    return 0 if x is None else read_number(&(<Descriptor>x).stamp)


cdef uint64_t word_of_other(object x, bint is_new) except? 0:
    """Keys that are neither descriptors nor ints: an absent descriptor, an array, what has an index."""
    if x is None:
        return ABSENT
    try:
        if isinstance(x, (tuple, list)):      # a kind of list may say another length than it has
            return word_of_array(x if type(x) is tuple or type(x) is list else tuple(x), is_new)
        return word_of_int(PyNumber_Index(x)) if PyIndex_Check(x) else 0
    except Exception:                         # its own methods may raise anything: the slow path says it
        return 0


cdef uint64_t word_of_array(object items, bint is_new) except? 0:
    """A stamp that is equal for arrays whose items have equal words. Only ``put`` makes new ones. The same
    descriptors as before, none of them changed since, are known by their addresses."""
    cdef Py_ssize_t n
    cdef Array *seen = &recent[(<uintptr_t><PyObject *>items >> 4) * <uint64_t>0x9E3779B97F4A7C15 >> 58]
    with cython.critical_section(items, looking):
        n = len(items)
        if (seen.epoch == read_number(&epoch) and seen.count == n
                and memcmp(seen.items, PySequence_Fast_ITEMS(items), n * sizeof(PyObject *)) == 0):
            return seen.word
    return word_of_items(tuple(items), is_new, seen)


cdef uint64_t word_of_items(tuple items, bint is_new, Array *seen) except? 0:
    """The same by what the items say; descriptors are remembered in ``seen``."""
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(items)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, n * sizeof(uint64_t))
    cdef uint64_t *words = <uint64_t *>PyBytes_AS_STRING(key)
    cdef uint64_t since = read_number(&epoch)
    cdef bint is_plain = True
    for i in range(n):
        x = <object>PyTuple_GET_ITEM(items, i)
        if isinstance(x, Descriptor):
            words[i] = read_number(&(<Descriptor>x).stamp)
        else:
            is_plain = False
            words[i] = (word_of_int(x) if PyLong_Check(x) else
                        0 if isinstance(x, (tuple, list)) else word_of_other(x, is_new))
        if words[i] == 0:
            return 0
    found = arrays.get(key)
    if found is None and is_new:
        if len(arrays) >= MAX_ARRAYS:
            arrays.clear()
        found = arrays.setdefault(key, new_stamp())
    if found is None:
        return 0
    if is_plain and n:
        remember(items, since, found, seen)
    return found


cdef int remember(tuple items, uint64_t since, uint64_t word, Array *seen) except -1:
    """The word of these descriptors, as it was at an epoch. Where the host has no memory nothing is kept."""
    cdef Py_ssize_t n = PyTuple_GET_SIZE(items)
    cdef void *room
    with cython.critical_section(looking):
        room = realloc(seen.items, n * sizeof(PyObject *))
        if room != NULL:
            seen.items, seen.count, seen.epoch, seen.word = <PyObject **>room, n, since, word
            memcpy(room, PySequence_Fast_ITEMS(items), n * sizeof(PyObject *))
    return 0


cdef int key_into(Row *row, int64_t fn, bint is_aligned, uint64_t absent, tuple keys, bint is_new) except -1:
    """Fill in key words and hash. 1: done; 0: a key is a descriptor that is unset, destroyed or unknown, or
    no key at all, so there is no plan."""
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(keys)
    cdef uint64_t word, hash
    cdef object x
    if n > MAX_KEYS:
        raise BadParam(f"keys: must be <= {MAX_KEYS}; got {n}")
    row.count = <int>n + 1
    row.words[0] = (<uint64_t><uint32_t>fn << 1) | is_aligned | (absent << 33)
    hash = row.words[0] * <uint64_t>0x9E3779B97F4A7C15
    for i in range(n):
        x = <object>PyTuple_GET_ITEM(keys, i)
        if isinstance(x, Descriptor):
            word = read_number(&(<Descriptor>x).stamp)
        elif PyLong_Check(x):
            word = word_of_int(x)
        else:
            word = word_of_other(x, is_new)
        if word == 0:
            return 0
        row.words[i + 1] = word
        hash = (hash ^ (hash >> 29) ^ word) * <uint64_t>0xBF58476D1CE4E5B9
    row.hash = hash ^ (hash >> 32)
    return 1


cdef uint64_t leave_out(void **addresses, Py_ssize_t *n, uint64_t optional) noexcept nogil:
    """Move the given pointers together; returns which are absent: NULL, and they may be."""
    cdef Py_ssize_t i, count = 0
    cdef uint64_t absent = 0
    for i in range(n[0]):
        if i < MAX_NULLABLE and addresses[i] == NULL and optional >> i & 1:
            absent |= <uint64_t>1 << i
        else:
            addresses[count] = addresses[i]
            count += 1
    n[0] = count
    return absent


cdef inline bint is_equal(Row *a, Row *b) noexcept nogil:
    """Do two rows have the same words? They are few: a loop is faster than a call."""
    cdef int i
    if a.count != b.count:
        return False
    for i in range(a.count):
        if a.words[i] != b.words[i]:
            return False
    return True


@cython.final
cdef class PlanTable:
    """From what a legacy call says to what executes it.

    A key is the function's number, up to 16 keys (a descriptor, an array of descriptors or integers, an
    integer, None for a descriptor that is absent), whether all pointers are multiples of 16, and which of
    those that may be NULL are (``nullable``). Of more than ``limit`` plans those go that were not asked for
    while the last half of them came.
    """

    def __cinit__(self, size_t limit=4096):
        self.limit, self.room = limit, 64
        self.rows = <Row *>calloc(self.room, sizeof(Row))
        if self.rows == NULL:
            raise MemoryError()

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.room if self.rows != NULL else 0):
            if self.rows[i].executable != NULL:
                Py_DECREF(<object>self.rows[i].executable)
        free(self.rows)

    def __len__(self):
        return self.size

    def clear(self) -> None:
        """Forget every plan."""
        with cython.critical_section(self):
            self.rebuild(self.room, NEVER)

    cdef Row *find(self, Row *key) noexcept nogil:
        """The row of this key, or the free row where it belongs."""
        cdef size_t i = key.hash & (self.room - 1)
        while self.rows[i].executable != NULL:
            if self.rows[i].hash == key.hash and is_equal(&self.rows[i], key):
                break
            i = (i + 1) & (self.room - 1)
        return &self.rows[i]

    cdef int rebuild(self, size_t room, size_t turn) except -1:
        """Have room for so many rows; those not asked for since ``turn`` are forgotten. They go last: when
        one does, other threads may come in between."""
        cdef Row *old = self.rows
        cdef Row *rows = <Row *>calloc(room, sizeof(Row))
        cdef size_t i, n = self.room
        if rows == NULL:
            raise MemoryError()
        self.rows, self.room, self.size = rows, room, 0
        for i in range(n):
            if old[i].executable != NULL and old[i].turn >= turn:
                self.find(&old[i])[0] = old[i]
                self.size, old[i].executable = self.size + 1, NULL
        for i in range(n):
            if old[i].executable != NULL:
                Py_DECREF(<object>old[i].executable)
        free(old)
        return 0

    def alignment(self, tuple pointers not None) -> bool:
        """True when every address is a multiple of 16 (null counts as one)."""
        cdef uintptr_t bits = 0
        for x in pointers:
            bits |= pointer_of(x)
        return bits & 15 == 0

    def absent(self, int64_t fn, tuple pointers not None) -> int:
        """Which pointers of a call are left out, as bits: NULL, and the function's may be."""
        cdef void *addresses[MAX_SLOTS]
        cdef Py_ssize_t i, n = PyTuple_GET_SIZE(pointers)
        for i in range(ints_into(pointers, addresses), n):
            pointer_into(pointers[i], &addresses[i])
        return leave_out(addresses, &n, <uint64_t>fn >> 32)

    def put(self, int64_t fn, tuple keys not None, bint is_aligned, executable not None,
            uint64_t absent=0) -> None:
        """Remember ``executable`` (a Tape, or anything with ``execute`` of the same signature), which takes
        the pointers that are not ``absent``."""
        cdef Row key
        cdef Row *row
        cdef PyObject *old
        if not key_into(&key, fn, is_aligned, absent, keys, True):
            raise BadParam(f"keys: every descriptor must be set and alive; got {keys!r}")
        with cython.critical_section(self):
            if self.size >= self.limit:
                self.rebuild(self.room, self.turn)
            while self.size >= self.limit:
                self.rebuild(self.room, NEVER)
            if self.size * 2 >= self.room:
                self.rebuild(self.room * 2, 0)            # forgets none
            self.puts += 1
            self.turn = key.turn = self.puts // (self.limit // 2 + 1)
            row = self.find(&key)
            key.executable, old = <PyObject *>executable, row.executable
            Py_INCREF(executable)
            self.size += old == NULL
            row[0] = key
        if old != NULL:
            Py_DECREF(<object>old)

    def get(self, int64_t fn, tuple keys not None, bint is_aligned, uint64_t absent=0):
        """What ``put`` remembered, or None."""
        cdef Row key
        cdef Row *row
        if not key_into(&key, fn, is_aligned, absent, keys, False):
            return None
        with cython.critical_section(self):
            row = self.find(&key)
            return <object>row.executable if row.executable != NULL else None

    def run(self, int64_t fn, tuple keys not None, tuple pointers not None, tuple scalars, workspace,
            size_t workspace_bytes, stream) -> bool:
        """Execute the plan of this key. False: there is none, or the slow path must check; nothing ran."""
        return self.attempt(fn, keys, pointers, scalars, workspace, workspace_bytes, stream)

    cdef bint attempt(self, int64_t fn, tuple keys, tuple pointers, tuple scalars, workspace,
                      size_t workspace_bytes, stream) except -1:
        cdef void *addresses[MAX_SLOTS]
        cdef Row key
        cdef Row *row
        cdef uintptr_t bits = 0
        cdef uint64_t absent = 0
        cdef Py_ssize_t i, n = PyTuple_GET_SIZE(pointers), ints = ints_into(pointers, addresses)
        cdef Said said[MAX_SLOTS]
        cdef bint has_objects = ints < n
        if has_objects:
            pointers = objects_into(pointers, ints, addresses, said)
        if fn >> 32:
            absent = leave_out(addresses, &n, <uint64_t>fn >> 32)
        for i in range(n):
            bits |= <uintptr_t>addresses[i]
        for i in range(PyTuple_GET_SIZE(scalars) if scalars is not None else 0):
            if not is_number(<object>PyTuple_GET_ITEM(scalars, i)):
                return False
        if not key_into(&key, fn, bits & 15 == 0, absent, keys, False):
            return False
        with cython.critical_section(self):
            row = self.find(&key)
            if row.executable == NULL:
                return False
            row.turn = self.turn
            executable = <object>row.executable
        if type(executable) is Tape:
            if has_objects:
                (<Tape>executable).operands.check(pointers, said, absent)
            (<Tape>executable).start(addresses, n, scalars, workspace, workspace_bytes, stream)
        else:
            if absent:
                pointers = tuple([x for i, x in enumerate(pointers) if not absent >> i & 1])
            executable.execute(pointers, scalars, workspace, workspace_bytes, stream)
        return True

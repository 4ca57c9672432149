"""What a plan must be given: buffers that say what they are are compared with it before anything runs.

An int is an address, of which nothing is known, and costs nothing here.
"""
cimport cython
from cpython.long cimport PyLong_CheckExact
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from cydnn.core._address cimport (FOREIGN, NOTHING, RAW, Memory, Said, bytes_of, memory_of, number_into, say,
                                  size_of)

from cydnn import operand as operands
from cydnn.dtypes import dlpack_types
from cydnn.status import BadParam

cdef enum:                                    # as in operand.py
    FITS, IS_FROZEN, IS_SHORT, IS_OTHER_TYPE, IS_OTHER_LAYOUT
cdef enum:
    BYTE = 1 << 8 | 8                         # a Want's kind of uint8


cdef inline bint is_flat(const Said *said) noexcept nogil:
    return said.rank == 1 and (said.dims[0] <= 1 or said.strides == NULL or said.strides[0] == 1)


cdef bint is_alike(int rank, const int64_t *dims, const int64_t *strides, const Said *said) noexcept nogil:
    """Equal dims, and strides unless they are NULL, where a dim is not 1."""
    cdef int i
    cdef int64_t packed = 1
    for i in range(said.rank - 1, -1, -1):
        if said.dims[i] != 1:
            rank -= 1
            if rank < 0 or said.dims[i] != dims[rank]:
                return False
            if strides != NULL and strides[rank] != (packed if said.strides == NULL else said.strides[i]):
                return False
            packed *= said.dims[i]
    return rank == 0


cdef bint is_packed(int rank, const int64_t *dims, const int64_t *strides) noexcept nogil:
    """Without gaps, the last dim innermost."""
    cdef int i
    cdef int64_t packed = 1
    for i in range(rank - 1, -1, -1):
        if strides != NULL and dims[i] != 1 and strides[i] != packed:
            return False
        packed *= dims[i]
    return True


cdef bint is_grouped(int rank, const int64_t *dims, int many, const int64_t *fine) noexcept nogil:
    """Each dim is the product of some neighbours in ``fine``."""
    cdef int i, j = many - 1
    cdef int64_t product
    for i in range(rank - 1, -1, -1):
        product = 1
        while product < dims[i] and j >= 0:
            product *= fine[j]
            j -= 1
        if product != dims[i]:
            return False
    while j >= 0 and fine[j] == 1:
        j -= 1
    return j < 0


cdef bint has_dims(int rank, const int64_t *dims, const Said *said) noexcept nogil:
    """These dims, or neighbours of one as one of the other."""
    return (is_alike(rank, dims, NULL, said) or is_grouped(rank, dims, said.rank, said.dims)
            or is_grouped(said.rank, said.dims, rank, dims))


cdef bint is_in_order(int rank, const int64_t *dims, const int64_t *strides,
                      const Said *said) noexcept nogil:
    """The same dims and strides; or both without gaps, and one has neighbouring dims of the other as one, as
    rows by inputs are steps by sequences by inputs."""
    return is_alike(rank, dims, strides, said) or (
        is_packed(rank, dims, strides) and is_packed(said.rank, said.dims, said.strides)
        and has_dims(rank, dims, said))


cdef bint has_layout(const Want *want, const Said *said) noexcept nogil:
    """The tensor's dims and strides, neighbours grouped otherwise where there are no gaps; or other dims,
    which are the tensor's from the outermost in memory to the innermost. Dims that may be both are the
    tensor's own."""
    return is_in_order(want.rank, want.dims, want.strides, said) or (
        is_in_order(want.rank, want.sorted_dims, want.sorted_strides, said)
        and not has_dims(want.rank, want.dims, said))


cdef int compare(const Want *want, const Said *said) noexcept nogil:
    """FITS, or the first rule that memory breaks. A flat array is memory, of its type or bytes for any."""
    cdef int kind = said.code * 256 | said.bits               # codes of no type are below 0
    if said.code == NOTHING or (want.bytes == 0 and not want.is_ragged):
        return FITS
    if want.is_written and said.is_frozen:
        return IS_FROZEN
    if said.code == RAW or want.kinds[0] == 0 or (kind == BYTE and is_flat(said)):
        return FITS if bytes_of(said) >= want.bytes else IS_SHORT
    if said.is_swapped or said.code < 0 or (kind != want.kinds[0] and kind != want.kinds[1]):
        return IS_OTHER_TYPE
    if is_flat(said) or want.is_ragged:
        return FITS if bytes_of(said) >= want.bytes else IS_SHORT
    return IS_OTHER_LAYOUT if want.is_opaque or not has_layout(want, said) else FITS


cdef Memory named_memory(str name, object x):
    """``memory_of``, whose error names the argument."""
    try:
        return memory_of(x)
    except BadParam as error:
        raise BadParam(f"{name}{str(error.args[0]).removeprefix('pointer')}") from None


@cython.final
cdef class Operands:
    """``rows``: an Operand, or its fields, for each pointer of a plan.

    ``on_misfit``: called with (Operand, Memory, rule) of an array that is large enough, and of another type
    or layout; None: it is refused.
    """

    def __cinit__(self, rows):
        self.rows = tuple([operands.Operand(*row) for row in rows])
        self.count = <int>len(self.rows)
        self.wants = <Want *>calloc(self.count + 1, sizeof(Want))
        if self.wants == NULL:
            raise MemoryError()
        for i, row in enumerate(self.rows):
            want_into(&self.wants[i], row)

    def __dealloc__(self):
        free(self.wants)

    def describe(self, int i, desc):
        """Arrays of operand ``i`` must look like ``desc``, another view of the same memory."""
        rows = list(self.rows)
        rows[i] = rows[i]._replace(desc=desc)
        want_into(&self.wants[i], rows[i])
        self.rows = tuple(rows)

    cdef int check(self, tuple pointers, const Said *said, uint64_t absent) except -1:
        """All fit that say what they are: ``said``. Bit i of ``absent``: pointer i is none of the plan's."""
        cdef int at = 0, rule
        cdef Py_ssize_t i
        for i in range(PyTuple_GET_SIZE(pointers)):
            if i < 64 and absent >> i & 1:
                continue
            rule = compare(&self.wants[at], &said[i]) if at < self.count else FITS
            if rule:
                self.misfit(at, <object>PyTuple_GET_ITEM(pointers, i), rule)
            at += 1
        return 0

    cdef int objects_into(self, tuple pointers, Py_ssize_t ints, void **out, Said *said) except -1:
        """The addresses behind the first, which are ints; all of them fit."""
        try:
            pointers = objects_into(pointers, ints, out, said)
        except BadParam:
            self.memories(pointers)              # says which
            raise
        self.check(pointers, said, 0)
        return 0

    cdef int misfit(self, int i, object x, int rule) except -1:
        """Memory that breaks a rule: refused, or left to ``on_misfit`` where it is numbers of another type or
        layout that reach as far as the operand does."""
        cdef Memory found = memory_of(x)
        cdef const Said *said = &found.said
        if (self.on_misfit is not None and rule in (IS_OTHER_TYPE, IS_OTHER_LAYOUT) and said.code >= 0
                and not said.is_swapped):
            if bytes_of(said) >= self.wants[i].bytes:
                self.on_misfit(self.rows[i], found, rule)
                return 0
            rule = IS_SHORT
        raise BadParam(operands.unfit(self.rows[i], found, rule))

    def memories(self, pointers) -> list:
        """What each pointer says of its memory, which fits."""
        cdef Memory one
        cdef int rule
        if len(pointers) != self.count:
            raise BadParam(f"execute: pointers must have {self.count} entries; got {len(pointers)}")
        found = [named_memory(row.name, x) for row, x in zip(self.rows, pointers)]
        for i, one in enumerate(found):
            rule = compare(&self.wants[i], &one.said)
            if rule:
                self.misfit(i, one, rule)
        return found


cdef int want_into(Want *want, row) except -1:
    want.bytes, want.is_written, want.is_ragged = row.bytes, row.is_written, row.is_ragged
    if row.desc is None:
        return 0
    is_packed = row.desc.dtype.kind == "bool"                # an array of booleans has one a byte
    own, storage = dlpack_types(row.desc.dtype)
    want.is_opaque = row.is_opaque or is_packed
    for i, (code, bits) in enumerate((storage if is_packed else own, storage)):
        want.kinds[i] = code << 8 | bits
    pairs = [(size, stride) for size, stride in zip(*operands.shape_of(row.desc)) if size != 1]
    want.rank = <int>len(pairs)
    for i, (size, stride) in enumerate(pairs):
        want.dims[i], want.strides[i] = size, stride
    for i, (size, stride) in enumerate(sorted(pairs, key=lambda pair: -pair[1])):
        want.sorted_dims[i], want.sorted_strides[i] = size, stride
    return 0


cdef tuple objects_into(tuple pointers, Py_ssize_t ints, void **out, Said *said):
    """The addresses behind the first, which are ints, and what all say. Returns the pointers; what must be
    asked in Python is asked once, and its answer in its place."""
    cdef list found = None
    cdef Py_ssize_t i
    for i in range(ints):
        said[i].code = NOTHING
    for i in range(ints, PyTuple_GET_SIZE(pointers)):
        x = <object>PyTuple_GET_ITEM(pointers, i)
        if not say(x, &said[i]):
            found = list(pointers) if found is None else found
            found[i] = memory_of(x)
            said[i] = (<Memory>found[i]).said
        out[i] = said[i].ptr
    return pointers if found is None else tuple(found)


# -- Workspace -----------------------------------------------------------------------------------------------

cpdef Memory scratch_of(object x, object size_bytes=0):
    """What an object says of its memory that is to be a workspace: any array whose bytes may be written, in
    one piece. ``size_bytes``: what the caller says that it has."""
    cdef Memory found = named_memory("workspace", x)
    cdef const Said *said = &found.said
    cdef size_t asked = size_of(size_bytes)
    if said.code == NOTHING:
        return found
    if said.code == FOREIGN:
        raise BadParam(f"workspace: must be an array of bytes or numbers; got one of {found.type}")
    if said.code != RAW and said.is_frozen:
        raise BadParam("workspace: must be writable; got a read-only array")
    if said.code != RAW and bytes_of(said) * 8 != <size_t>found.count * said.bits:
        raise BadParam(f"workspace: must have no gaps; got shape {found.dims} with strides {found.strides} "
                       "in elements: pass a contiguous array")
    if bytes_of(said) < asked:
        raise BadParam(f"workspace: must have the {size_bytes} bytes that are said; got {bytes_of(said)}")
    return found


cdef int scratch_into(object x, size_t size_bytes, void **out) except -1:
    """The address of a workspace of which ``size_bytes`` are said."""
    if PyLong_CheckExact(x) or x is None:
        out[0] = NULL
        return 0 if x is None else number_into("workspace", x, out)
    out[0] = scratch_of(x, size_bytes).said.ptr
    return 0

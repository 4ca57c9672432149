"""Descriptors of the legacy API: objects that say something, and the numbers that stand for what they say."""
cimport cython
from libc.stdint cimport uint64_t

from cydnn.core.atomics cimport advance_number, write_number

from cydnn.given import shown
from cydnn.status import BadParam

cdef enum:
    MAX_STAMPS = 16384

cdef uint64_t next_address = 0                # how many there were
cdef uint64_t next_stamp = 1
cdef dict stamps = {}                         # (kind, fields) -> stamp; dropped when full
cdef dict by_address = {}                     # descriptors turned into an int: someone may have just that
epoch = 1


cdef uint64_t new_stamp() noexcept:
    return advance_number(&next_stamp)


cdef class Descriptor:
    """A host-side object of the legacy API: opaque address, content (``fields``), and a stamp that is equal
    for equal content.

    Equality, hash and text are of the content, as of a list that can be hashed. So as a key of a dict it
    stands for what it says: set anew it is another key, and what was stored under it is not found any more,
    never found for what it now says. ``copy.copy`` gives a key that stays.
    """

    def __cinit__(self, *args, **kwargs):
        self.address = <uint64_t>FIRST_ADDRESS + 64 * advance_number(&next_address)

    def __dealloc__(self):
        self.say(0)

    cdef void say(self, uint64_t stamp) noexcept:
        """It has another stamp from here on. The epoch moves behind that: words that are made of the old one
        meanwhile are of an epoch that is over."""
        cdef uint64_t before = self.stamp
        write_number(&self.stamp, stamp)
        if before and before != stamp:
            advance_number(&epoch)

    def set(self, str kind not None, fields) -> None:
        """Give it content: ``fields`` is any hashable value."""
        content = kind, fields
        stamp = stamps.get(content)
        if stamp is None:
            if len(stamps) >= MAX_STAMPS:
                stamps.clear()
            stamp = stamps.setdefault(content, new_stamp())
        with cython.critical_section(self):
            self.kind, self.fields = kind, fields
            self.say(stamp)

    def destroy(self) -> None:
        """No later use of it or of its address is accepted. The object dies with its last reference."""
        by_address.pop(self.address, None)
        with cython.critical_section(self):
            self.is_destroyed = True
            self.say(0)

    cdef tuple content(self):
        """(kind, fields), both of one time."""
        with cython.critical_section(self):
            return self.kind, self.fields

    def __int__(self):
        if not self.is_destroyed:
            by_address[self.address] = self
        return self.address

    def __index__(self):
        return self.__int__()

    def __eq__(self, other):
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        a, b = <Descriptor>self, <Descriptor>other
        return not (a.is_destroyed or b.is_destroyed) and a.content() == b.content()

    def __hash__(self):
        return hash(self.address) if self.is_destroyed else hash((type(self), *self.content()))

    def __copy__(self):
        if self.is_destroyed:
            raise BadParam(f"copy: the descriptor must not be destroyed; got {self!r}")
        found, (kind, fields) = type(self)(), self.content()
        if kind is not None:
            found.set(kind, fields)
        return found

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __repr__(self):
        kind, fields = self.content()
        state = "destroyed" if self.is_destroyed else "not set" if kind is None else self.describe(fields)
        return f"{type(self).__name__}({state})"

    @staticmethod
    def describe(fields) -> str:
        """The text of a content: a kind of descriptor has its own."""
        return repr(fields)


cdef Descriptor at(object address):
    """The descriptor with an address that somebody asked for, or None."""
    return by_address.get(address)


def descriptor(x) -> Descriptor:
    """The live descriptor that ``x`` is or is the address of."""
    found = x if isinstance(x, Descriptor) else at(x) if isinstance(x, int) else None
    if found is None or (<Descriptor>found).is_destroyed:
        raise BadParam(f"descriptor: must be alive, or the address of one that is; got {shown(x)}")
    return found

"""The by-value numbers of a tape: what each is unless something else is given, and what may be given.

A number is real (a double), or whole (an int64, exact): whole when its default is an int, or when a kernel
takes it as one.
"""
cimport cython
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN
from libc.stdlib cimport calloc, free

from operator import index

from cydnn.given import element, several, shown
from cydnn.status import AllocFailed, BadParam


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object x, int *overflow) except? -1


def _element(x):
    """``element``, also of what only exports a buffer. Raises whatever it does, which ``read`` words."""
    if getattr(x, "is_cuda", False) or hasattr(x, "__cuda_array_interface__"):
        raise TypeError                          # no number of the host
    if isinstance(x.obj if isinstance(x, memoryview) else x, (bytes, bytearray)):
        raise TypeError                          # a text: NumPy would read its bytes as numbers
    if not any([hasattr(x, name) for name in ("item", "__float__", "__index__")]):
        from numpy import asarray
        x = asarray(x)
    return element(x)


@cython.final
cdef class Numbers:
    """``defaults``: one a number; None: it must be given. ``keys``: what errors call them."""

    def __cinit__(self, defaults, keys=None):
        defaults = tuple(defaults)
        self.keys = tuple(keys) if keys is not None else (None,) * len(defaults)
        if len(self.keys) != len(defaults):
            raise BadParam(f"numbers: must have a key each; got {len(self.keys)} keys for {len(defaults)}")
        self.count = len(defaults)
        self.defaults = <number_t *>calloc(self.count + 1, sizeof(number_t))
        self.rules = <Rule *>calloc(self.count + 1, sizeof(Rule))
        if self.defaults == NULL or self.rules == NULL:
            raise AllocFailed(f"numbers: the host must have memory for {self.count} numbers; got none")
        for i, value in enumerate(defaults):
            self.rules[i] = Rule(is_whole=isinstance(value, int), is_required=value is None,
                                 least=INT64_MIN, most=INT64_MAX)
            if value is None:
                self.required += 1
            else:
                self.read(i, value, &self.defaults[i])

    def __dealloc__(self):
        free(self.defaults)
        free(self.rules)

    @property
    def values(self) -> tuple:
        """The defaults; None for what must be given."""
        return tuple([None if self.rules[i].is_required else self.plain(i, self.defaults[i])
                      for i in range(self.count)])

    cdef object plain(self, Py_ssize_t i, number_t number):
        return number.whole if self.rules[i].is_whole else number.real

    def given(self, scalars=None) -> tuple:
        """What an execute with these numbers (None for a default, or for all) computes with.
        Raises BadParam."""
        cdef number_t number
        scalars = (None,) * self.count if scalars is None else several("execute: scalars", scalars, "numbers")
        if len(scalars) != self.count:
            self.refuse_count(len(scalars))
        found = []
        for i, x in enumerate(scalars):
            self.choose(i, x, &number)
            found.append(self.plain(i, number))
        return tuple(found)

    cdef str name(self, Py_ssize_t i):
        key = self.keys[i]
        if isinstance(key, tuple):               # (uid, name)
            key = key[len(key) - 1]
        return f"scalar {i if key is None else key if isinstance(key, str) else f'uid {key}'}"

    cpdef int narrow(self, Py_ssize_t i, int64_t least, int64_t most) except -1:
        """A kernel takes number ``i`` as a whole one of this range."""
        cdef Rule *rule = &self.rules[i]
        default = None if rule.is_required else self.values[i]
        rule.is_whole, rule.least, rule.most = True, max(rule.least, least), min(rule.most, most)
        if default is not None:
            self.read(i, default, &self.defaults[i])
        return 0

    cdef int read(self, Py_ssize_t i, object x, number_t *out) except -1:
        """Number ``i`` as somebody gives it. Raises BadParam."""
        cdef Rule *rule = &self.rules[i]
        cdef int overflow = 0
        cdef int64_t whole
        given = x
        try:
            x = x if PyLong_CheckExact(x) else _element(x)
            if not rule.is_whole:
                out.real = float(x)
                return 0
            x = int(x) if PyFloat_CheckExact(x) and x.is_integer() else index(x)
            whole = PyLong_AsLongLongAndOverflow(x, &overflow)
        except Exception:                        # its own methods may raise anything
            what = "a whole number" if rule.is_whole else "a number"
            raise BadParam(f"{self.name(i)}: must be {what}, or an array of one in host memory; "
                           f"got {shown(given)}") from None
        if overflow or not rule.least <= whole <= rule.most:
            raise BadParam(f"{self.name(i)}: must be in {rule.least} … {rule.most}; "
                           f"got {shown(x)}")
        out.whole = whole
        return 0

    cdef int read_all(self, tuple given, number_t *out) except -1:
        """``given``: one a number; None stands for the default."""
        cdef Py_ssize_t i
        cdef object x
        if PyTuple_GET_SIZE(given) != self.count:
            self.refuse_count(len(given))
        for i in range(self.count):
            x = <object>PyTuple_GET_ITEM(given, i)
            if PyFloat_CheckExact(x) and not self.rules[i].is_whole:
                out[i].real = PyFloat_AS_DOUBLE(x)
            else:
                self.choose(i, x, &out[i])
        return 0

    cdef int choose(self, Py_ssize_t i, object x, number_t *out) except -1:
        """``read``, where None stands for the default."""
        if x is not None:
            return self.read(i, x, out)
        if self.rules[i].is_required:
            self.refuse_missing()
        out[0] = self.defaults[i]
        return 0

    cdef int refuse_count(self, Py_ssize_t given) except -1:
        raise BadParam(f"execute: scalars must have {self.count} entries; got {given}")

    cdef int refuse_missing(self) except -1 with gil:
        names = ", ".join([self.name(i) for i in range(self.count) if self.rules[i].is_required])
        raise BadParam(f"scalars: {names} must be given; got None")

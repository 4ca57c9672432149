"""The lookup of a call: from arguments as a user writes them to what was prepared for arrays that lie so, and
the call of that. One that is known costs no Python but its hash, and what makes its result."""
from contextvars import ContextVar
from inspect import Parameter

from cpython.dict cimport PyDict_GetItem, PyDict_Next
from cpython.list cimport PyList_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uintptr_t

from cydnn.core._address cimport DLTensor, ExchangeAPI, find_api, tensor_of

from cydnn.status import BadParam, CydnnError

cdef enum:
    MOST = 32                                 # parameters of a function
    MOST_ARRAYS = 8
    MOST_RANK = 16
    ROOM = 8 + 2 * MOST_RANK                  # numbers that a layout takes

cdef extern from "Python.h":
    void *type_of "Py_TYPE"(object x)
    int PyContextVar_Get(object var, PyObject *default, PyObject **value) except -1

cdef object NO_DEFAULT = Parameter.empty
CHOSEN = ContextVar("cydnn.device", default=None)         # what `with cydnn.device(…)` chose
cdef object CHOSEN_HERE = CHOSEN                          # the same, without a lookup
IN_C = {}                                     # types of tensors that C asks, by DLPack's exchange API


cdef class Runner:
    """A plan with its results, and where its pointers come from.

    ``execute``: of the plan. ``slots``: of each pointer the number of an argument, or ~ that of a result.
    ``makes``: what makes each result; they are given as a tuple where ``is_tuple``. ``stream``: gives the
    stream, or None; ``space``: makes the workspace, or None where there is none, of ``size_bytes``. ``name``:
    of the function, in errors. A subclass has ``refuse_out``, and ``run_all`` where it has more to do: then
    it sets ``is_plain`` to False.
    """

    def __init__(self, str name, execute, tuple slots, tuple makes, bint is_tuple, stream, space,
                 size_t size_bytes):
        self.name, self.execute, self.slots, self.makes = name, execute, slots, makes
        self.stream, self.space, self.size_bytes, self.is_plain = stream, space, size_bytes, True
        self.most, self.is_tuple = max(slots, default=-1) + 1, is_tuple

    def __call__(self, *arrays, out=None):
        if self.records is not None:
            self.refuse_gradients(arrays)
        return self.run_c(arrays, out)

    def run(self, arrays, out=None):
        """Run on the arguments that are arrays or numbers, in order."""
        return self.run_c(tuple(arrays), out)

    cdef object run_c(self, tuple arrays, object out):
        cdef Py_ssize_t i, place, count = PyTuple_GET_SIZE(self.slots)
        cdef tuple pointers, results
        if PyTuple_GET_SIZE(arrays) < self.most:
            raise BadParam(f"{self.name}: must be given {self.most} arrays, as it was prepared; got "
                           f"{len(arrays)}")
        if out is not None and type_of(out) != self.taken:
            self.refuse_out(out)
            self.taken = type_of(out)
        if out is not None and self.records is not None:
            if out.requires_grad and self.records():
                raise BadParam(f"{self.name}: out must not require a gradient; got a tensor that does: use "
                               "torch.no_grad()")
        if not self.is_plain:
            return self.run_all(arrays, out)
        results = tuple([make() for make in self.makes]) if out is None else (out,)
        if PyTuple_GET_SIZE(results) != PyTuple_GET_SIZE(self.makes):
            return self.run_all(arrays, out)
        pointers = PyTuple_New(count)
        for i in range(count):
            place = <Py_ssize_t><object>PyTuple_GET_ITEM(self.slots, i)
            x = <object>PyTuple_GET_ITEM(arrays, place) if place >= 0 else results[~place]
            if type_of(x) != self.seen:
                self.refuse_number(x)
                self.seen = type_of(x)
            Py_INCREF(x)
            PyTuple_SET_ITEM(pointers, i, x)
        try:
            self.execute(pointers, None, 0 if self.space is None else self.space(), self.size_bytes,
                         None if self.stream is None else self.stream())
        except CydnnError as error:
            raise error.within(self.name) from None
        if out is not None and self.written is not None:
            self.written(out)
        return results if self.is_tuple else results[0]

    cpdef refuse_number(self, x):
        """Below, a whole number is an address, of NumPy too."""
        import numpy
        if isinstance(x, (int, numpy.integer, numpy.bool_)):
            raise BadParam(f"{self.name}: must be given an array where it was prepared for one; got {x}")

    cdef int refuse_gradients(self, tuple arrays) except -1:
        """Nothing is recorded here: a tensor that requires a gradient would lose it."""
        cdef bint is_wanted = False
        for x in arrays:
            if not is_wanted and type(x) in IN_C:
                is_wanted = x.requires_grad
        if is_wanted and self.records():
            raise BadParam(f"{self.name}: tensors must not require a gradient, as cydnn.torch alone "
                           f"records them; got one that does: call cydnn.torch.{self.name}, or use "
                           "torch.no_grad()")
        return 0


cdef class Caller:
    """What a function of named parameters was called with before, and what was prepared then.

    ``defaults``: {name: default, or inspect's ``empty``} of all parameters; ``needed`` of them come first and
    have none. ``positional``: how many may be given by position. ``arrays``: names of those that are arrays;
    what else is given, but for out and explain, is part of the key.
    ``rows``: {type: what has ``row(x)``, which tells arrays of the type apart}, of those that C does not ask.
    """

    def __init__(self, dict defaults, int needed, int positional, tuple arrays, dict rows):
        names = list(defaults)
        if len(names) > MOST or len(arrays) > MOST_ARRAYS:
            raise ValueError(f"Caller: must have <= {MOST} parameters, {MOST_ARRAYS} of them arrays; got "
                             f"{len(names)} and {len(arrays)}")
        self.places, self.defaults = {name: i for i, name in enumerate(names)}, tuple(defaults.values())
        self.count, self.needed, self.positional = len(names), needed, positional
        self.out, self.device, self.explain = [self.places[name] for name in ("out", "device", "explain")]
        options = [i for i, name in enumerate(names) if name not in (*arrays, "out", "explain")]
        self.array_count, self.option_count = len(arrays), len(options)
        for i, name in enumerate(arrays):
            self.arrays[i] = self.places[name]
        for i, place in enumerate(options):
            self.options[i] = place
        self.rows, self.calls = rows, {}

    def __call__(self, *args, **kw):
        cdef void *values[MOST]
        cdef object call = None
        if self.bind(args, kw, values):
            try:
                call = self.calls.get(self.key_of(values))
            except Exception:                 # the function itself has words for what is wrong
                pass
        if call is None:
            return self.first(*args, **kw)
        if <object>values[self.explain]:
            return call.explain()
        return (<Runner?>call).run_c(self.given(values), <object>values[self.out])

    cdef tuple given(self, void **values):
        """The arrays of a call."""
        return tuple([<object>values[self.arrays[i]] for i in range(self.array_count)])

    def keep(self, call, args, kw, most):
        """Remember what a call was prepared as, beside fewer than ``most`` others. One that has no key is
        prepared again: arrays that say nothing, options without a hash."""
        cdef void *values[MOST]
        if not self.bind(args, kw, values):
            return
        try:
            key = self.key_of(values)
            hash(key)
        except Exception:
            return
        if len(self.calls) >= most:
            self.calls.clear()
        self.calls[key] = call

    def forget(self):
        """What was kept is gone."""
        self.calls.clear()

    cdef bint bind(self, tuple args, dict kw, void **values) except -1:
        """The value of each parameter, borrowed; False where they do not fit."""
        cdef Py_ssize_t i, count = PyTuple_GET_SIZE(args), at = 0
        cdef PyObject *name
        cdef PyObject *value
        cdef PyObject *place
        if count > self.positional:
            return False
        for i in range(self.count):
            values[i] = <void *>PyTuple_GET_ITEM(args if i < count else self.defaults, i)
        while PyDict_Next(kw, &at, &name, &value):
            place = PyDict_GetItem(self.places, <object>name)
            if place == NULL or <Py_ssize_t><object>place < count:
                return False
            values[<Py_ssize_t><object>place] = <void *>value
        for i in range(self.needed):
            if values[i] == <void *>NO_DEFAULT:
                return False
        return True

    cdef object key_of(self, void **values):
        """What tells this call from others: where arrays lie, and which options are not their defaults."""
        cdef int64_t said[1 + MOST_ARRAYS * ROOM]
        cdef Py_ssize_t used = 1, more
        cdef int i, place
        cdef list parts = []
        said[0] = 0
        for i in range(self.array_count):
            x = <object>values[self.arrays[i]]
            more = layout_of(x, &said[used], False, False)
            if more == 0:
                said[0] |= <int64_t>1 << self.arrays[i]
                parts.append(x if x is None else self.rows[type(x)].row(x))
            used += more
        for i in range(self.option_count):
            place = self.options[i]
            if values[place] != PyTuple_GET_ITEM(self.defaults, place):
                x = <object>values[place]
                said[0] |= <int64_t>1 << place
                parts.append(tuple(x) if PyList_CheckExact(x) else x)
        add_chosen(parts)
        parts.append((<char *>said)[:used * sizeof(int64_t)])
        return tuple(parts)


cdef int add_chosen(list parts) except -1:
    """The device that this thread chose; nothing where it chose none: then the key has another length."""
    cdef PyObject *chosen = NULL
    PyContextVar_Get(CHOSEN_HERE, NULL, &chosen)
    device = <object>chosen
    Py_DECREF(device)                         # one of our own is left
    if device is not None:
        parts.append(device)
    return 0


cdef class Known:
    """What calls on tensors were prepared as, by all that they were given as it was written: where tensors
    lie, and which of them record gradients while ``records()``."""

    def __init__(self, records, Py_ssize_t most):
        self.records, self.most, self.calls = records, most, {}

    def find(self, tuple args not None, dict kw not None):
        """(what was kept for such a call, its arrays), or None."""
        cdef list arrays = []
        try:
            found = self.calls.get(self.key_of(args, kw))
        except Exception:                     # who is called has words for what is wrong
            return None
        if found is None:
            return None
        for place in <tuple>found[1]:
            arrays.append(args[place] if type(place) is int else kw[place] if place is not None else None)
        return found[0], tuple(arrays)

    def keep(self, call, tuple places not None, tuple args not None, dict kw not None):
        """Remember what a call was prepared as. ``places``: of its arrays, positions or names, or None."""
        try:
            key = self.key_of(args, kw)
            hash(key)
        except Exception:
            return
        if key is None:
            return
        if len(self.calls) >= self.most:
            self.calls.clear()
        self.calls[key] = call, places

    def forget(self):
        """What was kept is gone."""
        self.calls.clear()

    cdef object key_of(self, tuple args, dict kw):
        """What tells this call from others; None where a tensor does not say how it lies."""
        cdef int64_t said[MOST_ARRAYS * ROOM]
        cdef Py_ssize_t used = 0, more
        cdef int count = 0
        cdef bint records = self.records()
        cdef list parts = [len(args)]
        for x in (*args, *kw, *kw.values()):
            if type(x) in IN_C and count < MOST_ARRAYS:
                more = layout_of(x, &said[used], True, records)
                if more == 0:
                    return None
                used, count = used + more, count + 1
                parts.append(...)             # a tensor is here
            else:
                parts.append(tuple(x) if PyList_CheckExact(x) else x)
        add_chosen(parts)
        parts.append((<char *>said)[:used * sizeof(int64_t)])
        return tuple(parts)


cdef Py_ssize_t layout_of(object x, int64_t *out, bint is_any, bint records) except -1:
    """How many numbers say where an array lies; 0: C does not ask it, as of one that requires a gradient
    unless ``is_any``. ``records``: whether it does is among the numbers."""
    cdef ExchangeAPI *api = NULL
    cdef DLTensor t
    cdef int i
    cdef bint requires = False
    if type(x) in IN_C:
        requires = x.requires_grad
        if is_any or not requires:
            api = find_api(x)
    if api == NULL:
        return 0
    tensor_of(api, x, &t)
    if t.ndim > MOST_RANK or (t.strides == NULL and t.ndim):
        return 0
    out[0], out[1], out[2] = t.code | t.bits << 8 | t.lanes << 16, t.device_type, t.device_id
    out[1] |= <int64_t>(requires and records) << 32
    out[3], out[4] = t.ndim, (<uintptr_t>t.data + t.byte_offset) & 15
    for i in range(t.ndim):
        out[5 + i] = t.shape[i]
        out[5 + t.ndim + i] = t.strides[i]
    return 5 + 2 * t.ndim

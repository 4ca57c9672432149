"""Functions on arrays. One is written once, as a body that writes down a graph; its signature is the body's.

A call finds the plan of its layouts and options, and runs it; ``prepare`` gives that plan as something to
call.
"""
from __future__ import annotations

import inspect
from functools import partial, update_wrapper
from typing import Any, Callable, NamedTuple, Sequence, Union

import numpy as np

from .. import device as devices
from .. import plan as plans
from .._core import Caller, Runner
from ..dtypes import boolean, dtype as to_dtype
from ..given import flag, shown
from ..heuristics import best
from ..names import missing, unexpected
from ..status import BadParam, CydnnError
from ..tensor import TensorDesc
from .arrays import HOST, KINDS, kind_of
from .trace import Trace, looked, swapped

Array = Any                                      # of NumPy, torch, CuPy, the array API
Ints = Union[int, Sequence[int]]                 # one for every spatial dim, or a list
MOST = 4096                                      # plans that a function keeps at hand
COMMON = dict(out=None, dtype=None, device=None, explain=False)
ARRAYS = ("Array", "Array | None", "Array | float")          # annotations of the arguments that are arrays
FUNCTIONS: dict[str, "Function"] = {}
REAL = frozenset("""sqrt rsqrt reciprocal exp log sin cos tan erf sigmoid tanh silu div pow atan2 mean gelu
    elu leaky_relu softplus selu celu mish softsign tanhshrink softshrink hardsigmoid hardswish logsigmoid
    prelu softmax log_softmax softmin layer_norm rms_norm group_norm instance_norm batch_norm
    local_response_norm attention""".split())    # of whole numbers, their results would be rounded
COUNTS = frozenset(("seed", "offset", "offsets"))            # arguments in which nothing is computed
CALLED = dict(pre_pad="padding", post_pad="padding", window="kernel_size")      # attributes -> options


class Result(NamedTuple):
    """An array that a call gives: the description of its memory as the caller sees it."""
    desc: TensorDesc
    is_bool: bool


class Prepared(Runner):
    """A function made ready for arrays of one layout: called with others of that layout, it runs at once.

    ``plan``: what runs. Call it with the arrays in the order of the function's arguments, those that were
    absent left out or None.
    """

    def __init__(self, function: "Function", plan, slots, results, numbers, kind, is_tuple, bools):
        self.function, self.plan, self.results, self._kind = function, plan, results, kind
        self._slots = slots                   # of each pointer: number of an argument, or ~ of a result
        self._numbers = numbers                  # of each number: that of an argument, or its default
        self._is_tuple, self._bools = is_tuple, bools
        device, size = plan.device, plan.workspace_bytes
        self._makers = [kind.maker(r.desc, r.is_bool, device.name) for r in results]
        self._stream = kind.stream(device.name)
        self._space = partial(kind.scratch, size, device) if size else None
        super().__init__(function.name, plan.executable.execute, tuple(slots), tuple(self._makers), is_tuple,
                         self._stream, self._space, size)
        self.records, self.written = kind.grad, kind.written
        self.is_plain = not (bools or numbers or kind.is_foreign)

    def __repr__(self):
        return f"<{self.function.name} prepared: {self.plan.name} on {self.plan.device.name}>"

    def __getattr__(self, name):                 # only what is not found comes here
        plan, where = self.__dict__.get("plan"), f"{type(self).__name__} object"
        if plan is not None and not name.startswith("_") and hasattr(plan, name):
            raise AttributeError(f"{where} has no attribute {name!r}; it is plan.{name}")
        raise missing(where, name, ("explain", "plan"))

    def __reduce__(self):
        name = self.function.name
        raise TypeError(f"pickle: a prepared call belongs to its process; got {self!r}: pickle "
                        f"cydnn.functional.{name}, and prepare it there")

    def explain(self) -> str:
        """What runs: engines, estimates, launches, and who refused why."""
        return self.plan.explain()

    def run_all(self, arrays, out):
        """The run where there is more to do: numbers, truth values, other libraries, several results."""
        kind, like = self._kind, arrays[0]
        results = [make() for make in self._makers] if out is None else [out]
        pointers = [arrays[i] if i >= 0 else results[~i] for i in self._slots]
        for x in pointers:
            self.refuse_number(x)
        if kind.is_foreign:
            pointers = [kind.read(p) if i >= 0 else p for i, p in zip(self._slots, pointers)]
        for i in self._bools:
            pointers[i] = kind.as_bytes(pointers[i])
        numbers = self._numbers and [arrays[n] if is_given else n for is_given, n in self._numbers]
        try:
            self.plan.executable.execute(pointers, numbers or None, self._space() if self._space else 0,
                                         self.plan.workspace_bytes, self._stream and self._stream())
        except CydnnError as error:
            raise error.within(self.function.name) from None
        if out is not None and self.written is not None:
            self.written(out)
        if kind.is_foreign:
            results = [kind.given_back(r, like) for r in results]
        return tuple(results) if self._is_tuple else results[0] if out is None else out

    def refuse_out(self, out):
        """What is written into is an array of the library that the others are of."""
        if self._kind.is_foreign:
            raise BadParam(f"{self.function.name}: out must be absent, as arrays of this library do not "
                           f"change; got {shown(out)}")
        try:
            kind = kind_of(out)
        except BadParam:
            kind = None
        if kind is not self._kind:
            raise BadParam(f"{self.function.name}: out must be an array of {self._kind.name}, as the others "
                           f"are; got {shown(out)}")


class Function(Caller):
    """A function on arrays, and ``prepare`` beside it. Both take ``explain=True``, which gives the text of
    what would run in place of running it."""

    def __init__(self, body: Callable, saves: int = 0):
        self.body, self.name, self.saves = body, body.__name__, saves
        parameters = list(inspect.signature(body).parameters.values())[1:]           # without the trace
        self.arrays = tuple([p.name for p in parameters if p.annotation in ARRAYS])
        self.options = tuple([p.name for p in parameters if p.annotation not in ARRAYS])
        self.signature = inspect.Signature([*parameters, *[
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
            for name, value in COMMON.items()]])
        self._plans: dict = {}
        self.memories: list = []              # of others that call it, forgotten with its own
        update_wrapper(self, body)
        self.__doc__ = body.__doc__
        self.__signature__ = self.signature
        every = list(self.signature.parameters.values())
        self._defaults = tuple([p.default for p in every])
        self._places = {p.name: i for i, p in enumerate(every)}
        self._needed = sum(p.default is p.empty for p in every)      # they are the first
        self._positional = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in every)
        self._of_arrays = [self._places[name] for name in self.arrays]
        self._of_options = [self._places[name] for name in (*self.options, "dtype")]
        super().__init__(dict(zip(self._places, self._defaults)), self._needed, self._positional, self.arrays,
                         KINDS)

    def __getattr__(self, name):                 # only what is not found comes here
        raise missing(f"function {self.__dict__.get('name', '')!r}", name, ("prepare",))

    def __repr__(self):
        return f"<function cydnn.{self.name}{self.signature}>"

    def __reduce__(self):
        return self.name                         # where its module has it

    def _bind(self, *args, **kw) -> tuple:
        """(arrays, options, out, device, explain) of a call, in Python that torch.compile can follow."""
        count, values = len(args), list(self._defaults)
        values[:count] = args
        for name, value in kw.items():
            place = self._places.get(name, -1)
            if place < count:
                self._misfit(args, kw)
            values[place] = value
        is_short = count < self._needed and any([v is inspect.Parameter.empty for v in values[:self._needed]])
        if is_short or count > self._positional:
            self._misfit(args, kw)
        out, _, device, explain = values[-4:]
        return (tuple([values[i] for i in self._of_arrays]), tuple([values[i] for i in self._of_options]),
                out, device, explain)

    def _misfit(self, args, kw):
        """Raise what Python raises for arguments that do not fit."""
        try:
            self.signature.bind(*args, **kw)
        except TypeError as error:
            foreign = [name for name in kw if name not in self._places]
            text = unexpected(foreign[0], self._places) if foreign else str(error)
            raise TypeError(f"{self.name}() {text}") from None

    def first(self, *args, **kw):
        """A call that is not known yet: what comes of it is found or made, and kept."""
        if _has_whole(args, kw):
            return self(*map(_plain, args), **{name: _plain(x) for name, x in kw.items()})
        arrays, options, out, device, explain = self._bind(*args, **kw)
        explain = flag(f"{self.name}: explain", explain)
        if explain and devices.card(device) is not None:
            return self._told(arrays, options, device)
        prepared = self._found(arrays, options, device)
        self.keep(prepared, args, kw, MOST)
        return prepared.explain() if explain else prepared.run(arrays, out)

    def prepare(self, *args, **kw):
        """The call of these arrays and options made ready, for arrays of the same layouts."""
        if _has_whole(args, kw):
            return self.prepare(*map(_plain, args), **{name: _plain(x) for name, x in kw.items()})
        arrays, options, out, device, explain = self._bind(*args, **kw)
        if out is not None:
            raise BadParam(f"{self.name}: out must be given to the call; got it for prepare")
        if explain and devices.card(device) is not None:
            return self._told(arrays, options, device)
        prepared = self._found(arrays, options, device)
        return prepared.explain() if explain else prepared

    def _told(self, arrays, options, card) -> str:
        """What would run for these arguments on a card, which need not be here."""
        trace, results, _ = self.traced(self._said(arrays)[1], arrays, options)
        return plans.explain(trace.finish(results), card)

    def _found(self, arrays, options, device, is_saving=False) -> Prepared:
        """The call for these arrays; ``is_saving``: it also gives what the gradients read."""
        try:
            rows = [x if x is None else (KINDS.get(type(x)) or kind_of(x)).row(x) for x in arrays]
            key = (*rows, options, device, is_saving, devices.CHOSEN.get())
            found = self._plans.get(key)
        except Exception:                        # lists as options; what is refused below, by its name
            options = tuple([tuple(v) if isinstance(v, list) else v for v in options])
            key = found = None
        if found is None:
            found = self._made(arrays, options, device, is_saving)
            if key is not None:
                if len(self._plans) >= MOST:
                    self._plans.clear()
                self._plans[key] = found
        return found

    def _made(self, arrays, options, device, is_saving) -> Prepared:
        kind, said = self._said(arrays)
        trace, results, is_tuple = self.traced(said, arrays, options, is_saving)
        graph = trace.finish(results)
        return self.assembled(trace, graph, results, said, (kind, self._place(said, device)), is_tuple)

    def assembled(self, trace, graph, results, said, at, is_tuple) -> Prepared:
        """The call of a graph. ``said``: of every argument; ``at``: kind of arrays and device."""
        kind, place = at
        plan, slots, numbers = planned(trace, graph, results, place)
        made = results_of(trace, graph, results)
        bools = [i for i, s in enumerate(slots) if (made[~s].is_bool if s < 0 else said[s].is_bool)]
        return Prepared(self, plan, slots, made, numbers, kind, is_tuple, bools)

    def _said(self, arrays) -> tuple:
        """(kind, what each array says of itself) of the arguments."""
        kinds, said = {}, []
        for name, x in zip(self.arrays, arrays):
            if x is None or type(x) in (int, float):
                said.append(self.absent(name, x))
                continue
            kind = kind_of(x, f"{self.name}: {name}")
            kinds.setdefault(kind, name)
            said.append(kind.said(f"{self.name}: {name}", x))
        if len(kinds) != 1:
            what = " and ".join(f"{name} of {kind.name}" for kind, name in kinds.items())
            raise BadParam(f"{self.name}: arrays must be of one library; got {what}")
        return next(iter(kinds)), said

    def absent(self, name: str, x) -> None:
        """What a number, or None, in place of an array says of itself. Raises BadParam where it has to be
        one."""
        parameter = self.signature.parameters[name]
        is_number, is_optional = (word in parameter.annotation for word in ("float", "None"))
        if not (is_optional or parameter.default is not parameter.empty if x is None else is_number):
            what = "an array or a number" if is_number else "an array"
            raise BadParam(f"{self.name}: {name} must be {what}; got {shown(x)}")

    def _place(self, said, device):
        """The device that computes: that of the memory, or, where memory is the host's, the one named, else
        the one that the thread chose."""
        places = {s.place: name for name, s in zip(self.arrays, said) if s is not None}
        if len(places) != 1:
            what = " and ".join(f"{name} on {place}" for place, name in places.items())
            raise BadParam(f"{self.name}: arrays must be on one device; got {what}")
        place = next(iter(places))
        usual = place if place != HOST else devices.CHOSEN.get() or "numpy"
        found = devices.get(usual if device is None else device)
        if (found.context is None) != (place == HOST) or place != HOST and found.name != place:
            raise BadParam(f"{self.name}: device must be that of the arrays, which are on {place}; got "
                           f"{found.name}: move them there first")
        return found

    def traced(self, said, arrays, options, is_saving=False) -> tuple:
        """(trace, returned values and those that are saved, are they several?) for these arguments. Raises
        BadParam."""
        *options, wanted = options
        rows = [s.desc.dtype for name, s in zip(self.arrays, said) if s is not None and name not in COUNTS]
        trace = Trace(_compute(rows), rows[0] if wanted is None else self._dtype(wanted), wanted is not None)
        if self.name in REAL and rows[0].kind != "float" and trace.dtype.kind != "float":
            raise BadParam(f"{self.name}: {self.arrays[0]} must be of a float type, or dtype of one; got "
                           f"{rows[0]}")
        if self.name in REAL and trace.compute == "i32":             # what is made between has parts too
            trace.compute = _compute([trace.dtype])
        values: list[Any] = []
        for i, (name, s, x) in enumerate(zip(self.arrays, said, arrays)):
            if s is None:
                values.append(None if x is None else trace.number(x, i))
            else:
                values.append(trace.input(s.desc, i, s.alignment, name))
        trace.is_saving = is_saving
        trace.bools = {i for i, s in enumerate(said) if s is not None and s.is_bool}
        named = dict(zip((*self.arrays, *self.options), (*values, *options)))
        try:
            given = self.body(trace, **named)
        except CydnnError as error:
            raise self._worded(error, trace) from None
        is_tuple = isinstance(given, tuple) or bool(trace.saved)
        return trace, [*(given if isinstance(given, tuple) else [given]), *trace.saved], is_tuple

    def _dtype(self, wanted):
        try:
            row = to_dtype(wanted)
        except BadParam as error:
            raise BadParam(f"{self.name}: {error.args[0]}") from None
        if row is boolean:
            raise BadParam(f"{self.name}: dtype must be a type of numbers; got bool: truth values are what "
                           "comparisons give, such as cydnn.functional.ne(x, 0)")
        return row

    def _worded(self, error: CydnnError, trace: Trace) -> CydnnError:
        """An error of an operation in the words of the function."""
        head = error.args[0].partition(": ")[0]
        words = {name: option for name, option in CALLED.items() if option in self.options}
        return error if head == self.name else error.within(self.name, head, {**words, **trace.words})


def _plain(x):
    """A whole number or truth value of NumPy, such as an element of an array, as one of Python."""
    return x.item() if isinstance(x, (np.integer, np.bool_)) else x


def _has_whole(args, kw) -> bool:
    return any(isinstance(x, (np.integer, np.bool_)) for x in (*args, *kw.values()))


def results_of(trace, graph, results) -> list[Result]:
    """What a caller sees of the results of a graph."""
    return [Result(v.user or _seen(graph.tensors[v.uid].desc, v.shape), v.uid in trace.truths)
            for v in results]


def planned(trace, graph, results, device) -> tuple:
    """(plan, the argument or ~ the result of each slot, of each number (True, argument) or (False, default),
    None where no argument is a number)."""
    plan = _planned(graph, device, trace)
    uids = {v.uid: ~i for i, v in enumerate(results)}
    slots = [uids.get(t.uid, trace.sources.get(t.uid, trace.inplace.get(t.uid))) for t in plan.slots]
    numbers = [(True, trace.sources[key]) if trace.sources.get(key) is not None else (False, default)
               for key, default in plan.scalars]
    return plan, slots, numbers if any(is_given for is_given, _ in numbers) else None


def _planned(graph, device, trace):
    """The plan of a graph, to which arrays are given as the caller has them: the graph has the last two dims
    of ``trace.turned`` the other way round, and more dims of ``trace.formed``."""
    if not trace.turned and not trace.formed:
        return plans.build(graph, device)
    plan = plans.made(best(graph, device.facts), device)      # nobody else has it
    for i, slot in enumerate(plan.slots):
        if slot.uid in trace.turned:
            plan.executable.operands.describe(i, looked(slot.desc, swapped))
        elif slot.uid in trace.formed:
            plan.executable.operands.describe(i, trace.formed[slot.uid].replace(dtype=slot.desc.dtype))
    return plan


def _seen(desc: TensorDesc, shape) -> TensorDesc:
    """Memory with other dims of 1."""
    if shape is None:
        return desc
    left, strides = [s for d, s in zip(desc.dims, desc.strides) if d != 1], []
    for d in shape:
        strides.append(left.pop(0) if d != 1 else 1)
    return TensorDesc(desc.dtype, shape, tuple(strides))


def _compute(rows) -> str:
    """The type of sums and functions: f64 where an array is, i32 where all are whole numbers."""
    if any(row.name in ("f64", "i64") for row in rows):
        return "f64"
    return "i32" if all(row.kind == "int" for row in rows) else "f32"


def function(body: Callable, saves: int = 0) -> Function:
    """Make a body a function, and put it into the table. ``saves``: how many values it keeps for its
    gradients, in ``Trace.saved``, where the trace is saving."""
    made = Function(body, saves)
    FUNCTIONS[made.name] = made
    return made


def forget():
    """Forget what calls have prepared."""
    for one in FUNCTIONS.values():
        one._plans.clear()
        for memory in (one, *one.memories):
            memory.forget()


__all__ = ["Array", "FUNCTIONS", "Function", "Ints", "Prepared", "forget", "function"]

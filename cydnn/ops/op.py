"""The base of all operations: a frozen dataclass whose fields are the attributes,
whose methods are rules and meaning."""
from __future__ import annotations

import dataclasses
import inspect
import math
import re
from typing import ClassVar, NamedTuple

import numpy as np

from ..dtypes import MATH
from ..given import real as number, shown, whole, wholes
from ..status import BadParam
from ..tensor import MOST, TensorDesc
from .attribute import Attribute

MOST_F32 = float(np.finfo(np.float32).max)
COMPUTE_API = {"f32": "FLOAT", "f64": "DOUBLE", "i32": "INT32", "f16": "HALF", "bf16": "BFLOAT16",
               "bool": "BOOLEAN", "fast_f8": "FAST_FLOAT_FOR_FP8"}


def _apart(d):
    """A description that was inferred from one that may reach an element twice."""
    return TensorDesc.packed(d.dtype, d.dims) if isinstance(d, TensorDesc) and d.is_overlapping else d


def _words(text: str):
    """(names, optional ones, variadic ones) of "x b? inputs*"."""
    words = text.split()
    marked = lambda mark: {w.rstrip("?*") for w in words if mark in w}
    return tuple(w.rstrip("?*") for w in words), marked("?"), marked("*")


SQUARES = ("squares_in_compute_type",)           # sums of squares, which leave its range before results do


class Gradient(NamedTuple):
    """The gradient of an input of an op: ``output`` of ``op``, which gets for each operand that it reads the
    tensor of that name in ``reads``: an operand of the op that it is a gradient of, or ``d`` and an output,
    the gradient of that."""
    op: Op
    output: str
    reads: dict


@dataclasses.dataclass(frozen=True)
class Op:
    """One operation. Equality and hashing are by attributes, so an op is a cache key.

    Class facts: ``reads``/``writes`` name the operands (``optional`` those that may be absent, ``variadic``
    those that are several tensors), ``scalars`` the by-value numbers and their defaults (an int for a whole
    number, which stays exact), ``blends`` says ``{output: (alpha name, beta name)}``, ``inplace`` the
    (written, read) pairs that may be one buffer. ``keeps`` names the outputs whose old content is an input
    whatever beta is: ``reference`` gets it; ``fixed`` the operands whose type is part of the meaning, so that
    no cast stands between; ``asked`` the optional outputs that are there only where they are named;
    ``by_value`` the inputs that may also be numbers given at execute; ``unread`` the inputs whose values say
    nothing, only their dims do; ``typed`` {attribute: the output whose type it is}; ``shared`` those that lie
    on several devices, all of which write there, so that ``reference`` gets the memory itself (``rank``, an
    attribute, is the number of the own one);
    ``special`` {operand, or attribute: what an engine must understand where it is there, or set}. ``notes``
    are facts for the user of what any kernel makes of it. ``compute`` is the type that sums and functions
    are asked in; ``math`` the one they are done in, at least as accurate.
    ``gradient_of`` in the head of a backward op names its forward op, which has its attributes, and whose
    ``gradients`` it joins: its operands have the names of the forward op's, ``d`` and a name is a gradient.
    ``api`` is the name of the operation's descriptor in the backend API, ``api_names`` what it calls
    operands, scalars and fields (CUDNN_ATTR_ left out) that do not say it themselves.
    """
    compute: str = dataclasses.field(default="f32", kw_only=True, metadata={"attribute": Attribute(
        "choice", members={word: f"DATA_{name}" for word, name in COMPUTE_API.items()},
        doc="the type of sums and functions", is_required=True)})

    reads: ClassVar[tuple] = ()
    writes: ClassVar[tuple] = ()
    optional: ClassVar[frozenset] = frozenset()
    variadic: ClassVar[frozenset] = frozenset()
    scalars: ClassVar[dict] = dict(alpha=1.0, beta=0.0)
    blends: ClassVar[dict] = {}
    inplace: ClassVar[tuple] = ()
    keeps: ClassVar[frozenset] = frozenset()
    fixed: ClassVar[frozenset] = frozenset()
    asked: ClassVar[frozenset] = frozenset()
    by_value: ClassVar[frozenset] = frozenset()
    shared: ClassVar[frozenset] = frozenset()
    unread: ClassVar[frozenset] = frozenset()
    typed: ClassVar[dict] = {}
    special: ClassVar[dict] = {}
    name: ClassVar[str] = ""
    notes: ClassVar[tuple] = ()
    api: ClassVar[str] = ""
    api_names: ClassVar[dict] = {}
    backward: ClassVar[tuple] = ()

    def __init_subclass__(cls, reads="", writes="", name=None, gradient_of=None, **kw):
        super().__init_subclass__(**kw)
        if not writes:
            return
        cls.backward = ()
        if gradient_of is not None:
            gradient_of.backward += (cls,)
        cls.reads, maybe, several = _words(reads)
        cls.writes, maybe_out, _ = _words(writes)
        cls.optional, cls.variadic = frozenset(maybe | maybe_out), frozenset(several)
        cls.name = name or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls._wants_shapes = "shapes" in inspect.signature(cls.reference).parameters
        cls._checked = None
        if "blends" not in cls.__dict__ and len(cls.writes) == 1 and {"alpha", "beta"} <= set(cls.scalars):
            cls.blends = {cls.writes[0]: ("alpha", "beta")}

    def __post_init__(self):
        cls = type(self)
        if cls._checked is None:
            cls._checked = [(f.name, f.default, f.metadata["attribute"]) for f in dataclasses.fields(cls)]
        for name, default, attribute in cls._checked:
            value = self.__dict__[name]
            if value is not default:
                object.__setattr__(self, name, self._accept(name, value, attribute))

    def _accept(self, name, value, a: Attribute):
        """The value of an attribute as it is kept. Raises BadParam."""
        where = f"{self.name}: {name}"
        if a.kind in ("ints", "int"):
            value = self._accept_whole(where, value, a)
        elif a.kind == "float":
            value = number(where, value)
            if abs(value) > MOST_F32 and self.math == "f32":
                value = math.copysign(math.inf, value)       # what a kernel gets
        elif a.kind == "flag":
            if not isinstance(value, (bool, np.bool_)) and not (type(value) is int and value in (0, 1)):
                raise BadParam(f"{where} must be True or False; got {shown(value)}")
            value = bool(value)
        elif a.kind == "rows":
            from .rows import accepted           # they are made of an operation themselves
            value = accepted(where, value, a.names)
        elif a.kind == "choice" and not (isinstance(value, str) and value in a.members):
            raise BadParam(f"{where} must be one of {' '.join(a.members)}; got {shown(value)}")
        return value

    @staticmethod
    def _accept_whole(where, value, a: Attribute):
        """A whole number, or where the attribute is a list one for each dim: a number or a tuple."""
        is_list = a.kind == "ints" and not hasattr(value, "__index__")
        value = wholes(where, value) if is_list else whole(where, value)
        numbers = value if is_list else (value,)
        every = " in every dim" if a.kind == "ints" else ""
        if a.lo is not None and min(numbers, default=a.lo) < a.lo:
            raise BadParam(f"{where} must be >= {a.lo}{every}; got {shown(value)}")
        if max(numbers, default=0) > MOST:
            raise BadParam(f"{where} must be below 2**63{every}; got {shown(value)}")
        return value

    @property
    def math(self) -> str:
        """The type that arithmetic is done in: f32 or f64."""
        return MATH[self.compute]

    @property
    def unrounded(self) -> str:
        """The compute type of the ops that it is made of: between them nothing becomes a whole number."""
        return self.math if self.compute == "i32" else self.compute

    @classmethod
    def operands(cls) -> tuple:
        return cls.reads + cls.writes

    @classmethod
    def attributes(cls) -> dict[str, Attribute]:
        return {f.name: f.metadata["attribute"] for f in dataclasses.fields(cls)}

    def spread(self, name: str, dims: int) -> tuple:
        """An ``ints`` attribute with one entry for each of ``dims`` spatial dims."""
        value = getattr(self, name)
        if isinstance(value, int):
            return (value,) * dims
        if len(value) != dims:
            raise self._wrong(f"{name} must have {dims} entries (one for each spatial dim); "
                              f"got {shown(value)}")
        return value

    @property
    def gradients(self) -> dict[str, Gradient]:
        """{input: its gradient}, where alpha and beta have their defaults; inputs of which none is declared
        are left out. Rows with one op are one node, whose numbers (epsilon) are this op's. What that node
        keeps is zeros where it is a gradient; else it is this op's operand (a reserve), and later rows read
        what became of it. For an operand that is not read stands its gradient."""
        found = {}
        for kind in self.backward:
            op = kind(**{name: getattr(self, name) for name in kind.attributes().keys() & self.attributes()})
            made = {output: output[1:] for output in kind.writes if output[1:] in self.reads}
            reads = {name: f"d{name}" if name in kind.unread else name for name in (*kind.reads, *kind.writes)
                     if name in kind.reads or name in kind.keeps and name not in made}
            found |= {name: Gradient(op, output, reads) for output, name in made.items()}
        return found

    # ---- What a subclass says ----

    def settled(self, descs: dict) -> "Op":
        """The op with the attributes that follow from its operands: what the public APIs have no word for."""
        return self

    def check(self, **descs):
        """Yield (condition, sentence) in order; the first false one is the error."""
        return ()

    def infer(self, **descs) -> dict[str, TensorDesc]:
        """Descriptors of outputs, from the inputs."""
        return {}

    def infer_asked(self, **descs) -> dict[str, TensorDesc]:
        """Descriptors of the outputs in ``asked``, where they are named and not described."""
        return {}

    def check_outputs(self, **descs):
        """Rules that need the outputs too; same form as ``check``."""
        return ()

    def reference(self, **arrays) -> dict:
        """The meaning, in NumPy: float64 arrays of the logical shapes in and out, scalars that are no blend
        factors by name. A parameter ``shapes``, where there is one, gets {output: shape}."""
        raise NotImplementedError(f"{self.name} has no reference")

    def lower(self, descs: dict, absent=()):
        """The op as others: ``[(op, {operand: name}, {scalar: name or number})]`` over the op's own operand
        names and new ones, and ``{new name: TensorDesc}``; None where it is not made of others. A scalar's
        name is that of a scalar of this op."""
        return None

    def spellings(self, descs: dict, absent=()) -> list:
        """What the op may look like in the nodes that a user draws: lowerings, the op's own first."""
        return [self.lower(descs, absent)]

    def has_nothing(self, rank: int) -> bool:
        """An element of an output may come of nothing: then it is the lowest finite value of its type."""
        return False

    def terms(self, **descs) -> int:
        """Length of the longest sum behind one output element."""
        return 1

    def magnitude(self, arrays: dict, scalars: dict, results: dict) -> dict:
        """For each output, what its rounding error scales with:
        the sum of absolute values behind each element.

        ``results`` are the reference's unblended outputs.
        Default: their absolute values (each is relatively accurate).
        """
        return {name: np.abs(value) for name, value in results.items()}

    def inner_error(self, arrays: dict, scalars: dict, descs: dict) -> dict:
        """{output: absolute error that roundings inside the op may cost, beside those that ``magnitude``
        speaks of}: where values are rounded to the operands' type on the way."""
        return {}

    def flops(self, **descs) -> int:
        """Arithmetic operations, multiply and add counted as two; 0 for memory-bound ops."""
        return 0

    def moved_bytes(self, **descs) -> int:
        """Bytes that count for a benchmark row: every operand once, unless the op says otherwise."""
        return sum(d.dtype.bytes_of(d.count) for v in descs.values() if v is not None
                   for d in (v if isinstance(v, tuple) else (v,)))

    @classmethod
    def free_attributes(cls, words: list) -> dict:
        """Attributes that the free words of a problem text (a list of dims) say."""
        return {}

    def free_dims(self, words: list, options: dict) -> dict:
        """{operand: dims} of the free words of a problem text (a list of dims, and the words themselves in
        ``options["words"]``): one for each input in order, or for each output where there is no input."""
        names = self.reads if self.reads else self.writes
        return dict(zip((*names, *(o for o in self.writes if o not in names)), words))

    def free_dtype(self, operand: str, dtype: str) -> str:
        """The type of an operand in a problem text that names only ``dtype``."""
        return dtype

    def admit(self, name: str, values: np.ndarray) -> np.ndarray:
        """Random numbers for an operand, made such as it may hold. What tests and benchmarks draw."""
        return values

    def inside(self, descs: dict) -> dict:
        """{input: bytes} of the inputs that may lie in the output's memory at execute, so many bytes behind
        its beginning, and then are where they should be."""
        return {}

    # ---- What follows from it ----

    def read_of(self, descs: dict) -> dict:
        """What the op reads of ``descs`` ({operand: TensorDesc, a tuple of them, or None}). Raises BadParam
        where one is missing or is something else."""
        if not isinstance(descs, dict):
            raise self._wrong(f"operands must be a dict of name to TensorDesc; got {shown(descs)}")
        for name in self.reads:
            if descs.get(name) is None and name not in self.optional:
                raise self._wrong(f"{name} is missing; operands are {' '.join(self.operands())}")
        for name, value in descs.items():
            if name not in self.operands():
                raise self._wrong(f"{name} is no operand; operands are {' '.join(self.operands())}")
            if value is not None and isinstance(value, tuple) != (name in self.variadic):
                many = "several tensors" if name in self.variadic else "one tensor"
                raise self._wrong(f"{name} must be {many}; got {shown(value)}")
            for one in value if isinstance(value, tuple) else (value,):
                if one is not None and not isinstance(one, TensorDesc):
                    raise self._wrong(f"{name} must be a TensorDesc; got {shown(one)}")
        return {name: descs.get(name) for name in self.reads}

    def complete(self, descs: dict) -> dict:
        """Check every rule; return all operands in order,
        outputs inferred where they are not given. Raises BadParam."""
        given = self.read_of(descs)
        inferred, full = self.inferred(given), dict(given)
        for name in self.writes:
            want, have = inferred.get(name), descs.get(name)
            if have is None:
                full[name] = None if name in self.optional and name in descs else _apart(want)
                continue
            if want is not None and have.dims != want.dims:
                raise self._wrong(f"{name} must have dims {want.dims}; got {have.dims}")
            if have.is_overlapping:
                raise self._wrong(f"{name} must not overlap itself; got dims {have.dims}, "
                                  f"strides {have.strides}")
            full[name] = have
        self._hold(self.check_outputs(**full))
        return full

    def inferred(self, given: dict) -> dict:
        """``infer`` of what was read, after every rule of ``check``. Raises BadParam."""
        self._hold(self.check(**given))
        try:
            return self.infer(**given)
        except BadParam as error:
            sentence = error.args[0].replace("tensor: ", f"{self.name}: an output's ", 1)
            sizes = [f"{name} {shown(getattr(self, name))}" for name, default, attribute in self._checked
                     if attribute.kind in ("ints", "int") and getattr(self, name) != default]
            raise BadParam(sentence + (f", with {', '.join(sizes)}" if sizes else "")) from None

    def _hold(self, rules):
        """Raise BadParam with the sentence of the first rule that is broken."""
        for ok, sentence in rules:
            if not ok:
                raise self._wrong(sentence)

    def _wrong(self, sentence: str) -> BadParam:
        """The error of a sentence that begins with what is wrong."""
        head = re.match(r"\w*(\.\d+)?", sentence)[0]
        return BadParam(f"{self.name}: {sentence}", node=self.name,
                        operand=head if head.partition(".")[0] in self.operands() else None,
                        attribute=head if head in self.attributes() else None)

    @classmethod
    def tensors(cls, operands: dict) -> dict:
        """What is there of ``operands``, by the names of single tensors: several of one operand are
        ``extras.0``, ``extras.1`` …"""
        found: dict = {}
        for name, value in operands.items():
            several = value if isinstance(value, tuple) else ()
            found |= {f"{name}.{i}": one for i, one in enumerate(several)}
            found |= {} if value is None or isinstance(value, tuple) else {name: value}
        return found

    @classmethod
    def joined(cls, found: dict) -> dict:
        """The operands of what ``tensors`` gives."""
        several = {name: tuple([v for n, v in found.items() if n.startswith(f"{name}.")])
                   for name in cls.variadic}
        single = {name: value for name, value in found.items() if "." not in name}
        return single | {name: values for name, values in several.items() if values}

    def evaluate(self, arrays: dict, scalars: dict) -> dict:
        """``reference`` on a dict of arrays (outputs give their shapes), before the blend."""
        factors = {name for pair in self.blends.values() for name in pair}
        extra = {k: v for k, v in scalars.items() if k not in factors}
        if self._wants_shapes:
            extra["shapes"] = {n: np.shape(arrays[n]) for n in self.writes if arrays.get(n) is not None}
        given = (*self.reads, *(n for n in self.writes if n in self.keeps))
        return self.reference(**{n: arrays.get(n) for n in given}, **extra)

    def run_reference(self, arrays: dict, scalars: dict) -> dict:
        """The float64 results of every output, blended.
        ``arrays`` holds old outputs where beta != 0, else arrays of their shape."""
        return self.blend(self.evaluate(arrays, scalars), arrays, scalars)

    def blend(self, results: dict, arrays: dict, scalars: dict) -> dict:
        """alpha * R + beta * old for every result that blends; beta == 0 does not read the old value."""
        out = {}
        for name, value in results.items():
            if value is None:
                continue
            alpha, beta = 1.0, 0.0
            if name in self.blends:
                alpha, beta = (scalars.get(s, 1.0) for s in self.blends[name])
            value = value if alpha == 1.0 else alpha * value
            out[name] = value if beta == 0 else value + beta * arrays[name]
        return out

"""The base of all operations: a frozen dataclass whose fields are the attributes and whose methods are the rules and the meaning."""
from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

import numpy as np

from ..dtypes import BY_NAME
from ..status import BadParam
from ..tensor import TensorDesc


@dataclasses.dataclass(frozen=True)
class Attribute:
    """What a field accepts, and its name in the backend API."""
    kind: str                                    # "ints" | "int" | "float" | "choice" | "flag"
    lo: float | None = None
    accepts: tuple = ()
    api: str = ""
    doc: str = ""


def _field(default, attribute):
    return dataclasses.field(default=default, metadata={"attribute": attribute})


def ints(default, lo=None, api="", doc=""):
    """A tuple with one integer for each spatial dim; a scalar stands for every dim."""
    return _field(default, Attribute("ints", lo=lo, api=api, doc=doc))


def integer(default, lo=None, api="", doc=""):
    return _field(default, Attribute("int", lo=lo, api=api, doc=doc))


def real(default, api="", doc=""):
    return _field(default, Attribute("float", api=api, doc=doc))


def choice(*accepts, api="", doc=""):
    """One of the given words; the first is the default."""
    return _field(accepts[0], Attribute("choice", accepts=accepts, api=api, doc=doc))


def flag(default=False, api="", doc=""):
    return _field(default, Attribute("flag", api=api, doc=doc))


@dataclasses.dataclass(frozen=True)
class Op:
    """One operation. Equality and hashing are by attributes, so an op is a cache key.

    Class facts: ``reads``/``writes`` name the operands (``optional`` those that may be absent), ``scalars`` the by-value numbers and
    their defaults, ``blends`` says ``{output: (alpha name, beta name)}``, ``inplace`` the (written, read) pairs that may be one buffer.
    """
    compute: str = dataclasses.field(default="f32", kw_only=True, metadata={"attribute": Attribute("choice", accepts=("f32", "f64", "i32"))})

    reads: ClassVar[tuple] = ()
    writes: ClassVar[tuple] = ()
    optional: ClassVar[frozenset] = frozenset()
    scalars: ClassVar[dict] = dict(alpha=1.0, beta=0.0)
    blends: ClassVar[dict] = {}
    inplace: ClassVar[tuple] = ()
    reads_output: ClassVar[bool] = False         # the old output is an input whatever beta is
    name: ClassVar[str] = ""

    def __init_subclass__(cls, reads="", writes="", name=None, **kw):
        super().__init_subclass__(**kw)
        if not writes:
            return
        split = lambda words: tuple(w.rstrip("?") for w in words.split())
        cls.reads, cls.writes = split(reads), split(writes)
        cls.optional = frozenset(w.rstrip("?") for w in (reads + " " + writes).split() if w.endswith("?"))
        cls.name = name or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        if "blends" not in cls.__dict__ and len(cls.writes) == 1 and {"alpha", "beta"} <= set(cls.scalars):
            cls.blends = {cls.writes[0]: ("alpha", "beta")}

    def __post_init__(self):
        for f in dataclasses.fields(self):
            a, value = f.metadata["attribute"], getattr(self, f.name)
            set_ = lambda v, f=f: object.__setattr__(self, f.name, v)
            where = f"{self.name}: {f.name}"
            if a.kind == "ints":
                value = value if isinstance(value, int) else tuple(int(v) for v in value)
                if a.lo is not None and min((value,) if isinstance(value, int) else value, default=a.lo) < a.lo:
                    raise BadParam(f"{where} must be >= {a.lo} in every dim; got {value}")
                set_(value)
            elif a.kind == "int":
                if a.lo is not None and value < a.lo:
                    raise BadParam(f"{where} must be >= {a.lo}; got {value}")
                set_(int(value))
            elif a.kind == "float":
                set_(float(value))
            elif a.kind == "choice" and value not in a.accepts:
                raise BadParam(f"{where} must be one of {' '.join(a.accepts)}; got {value!r}")

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
            raise BadParam(f"{self.name}: {name} must have {dims} entries (one for each spatial dim); got {value}")
        return value

    # What a subclass says ------------------------------------------------------------------------------------------

    def check(self, **descs):
        """Yield (condition, sentence) in order; the first false one is the error."""
        return ()

    def infer(self, **descs) -> dict[str, TensorDesc]:
        """Descriptors of outputs, from the inputs."""
        return {}

    def reference(self, **arrays) -> dict:
        """The meaning, in NumPy: float64 arrays of the logical shapes in and out, scalars that are no blend factors by name."""
        raise NotImplementedError(f"{self.name} has no reference")

    def terms(self, **descs) -> int:
        """Length of the longest sum behind one output element."""
        return 1

    def magnitude(self, arrays: dict, scalars: dict, results: dict) -> dict:
        """For each output, what its rounding error scales with: the sum of absolute values behind each element.

        ``results`` are the reference's unblended outputs. Default: their absolute values (each element is relatively accurate).
        """
        return {name: np.abs(value) for name, value in results.items()}

    def flops(self, **descs) -> int:
        """Arithmetic operations, multiply and add counted as two; 0 for memory-bound ops."""
        return 0

    # What follows from it ------------------------------------------------------------------------------------------

    def complete(self, descs: dict) -> dict:
        """Check every rule; return all operands in order, outputs inferred where they are not given. Raises BadParam."""
        for name in self.reads:
            if descs.get(name) is None and name not in self.optional:
                raise BadParam(f"{self.name}: {name} is missing; operands are {' '.join(self.operands())}")
        for name in descs:
            if name not in self.operands():
                raise BadParam(f"{self.name}: {name} is no operand; operands are {' '.join(self.operands())}")
        given = {n: descs.get(n) for n in self.reads}
        for ok, sentence in self.check(**given) or ():
            if not ok:
                raise BadParam(f"{self.name}: {sentence}")
        inferred = self.infer(**given)
        full = dict(given)
        for name in self.writes:
            want, have = inferred.get(name), descs.get(name)
            if have is None:
                full[name] = None if name in self.optional and name in descs else want
                continue
            if want is not None and have.dims != want.dims:
                raise BadParam(f"{self.name}: {name} must have dims {want.dims}; got {have.dims}")
            if have.is_overlapping:
                raise BadParam(f"{self.name}: {name} must not overlap itself; got dims {have.dims}, strides {have.strides}")
            full[name] = have
        for ok, sentence in self.check_outputs(**full) or ():
            if not ok:
                raise BadParam(f"{self.name}: {sentence}")
        return full

    def check_outputs(self, **descs):
        """Rules that need the outputs too; same form as ``check``."""
        return ()

    def evaluate(self, arrays: dict, scalars: dict) -> dict:
        """``reference`` on a dict of arrays (outputs give their shapes), before the blend."""
        factors = {name for pair in self.blends.values() for name in pair}
        extra = {k: v for k, v in scalars.items() if k not in factors}
        return self.reference(**{n: arrays.get(n) for n in self.reads}, **extra)

    def run_reference(self, arrays: dict, scalars: dict) -> dict:
        """The float64 results of every output, blended. ``arrays`` holds old outputs where beta != 0, else arrays of their shape."""
        return self.blend(self.evaluate(arrays, scalars), arrays, scalars)

    def blend(self, results: dict, arrays: dict, scalars: dict) -> dict:
        """alpha * R + beta * old for every result that blends; beta == 0 does not read the old value."""
        out = {}
        for name, value in results.items():
            if value is None:
                continue
            alpha, beta = (scalars.get(s, 1.0) for s in self.blends[name]) if name in self.blends else (1.0, 0.0)
            value = value if alpha == 1.0 else alpha * value
            out[name] = value if beta == 0 else value + beta * arrays[name]
        return out


def math_dtype(op: Op):
    """The DType of the op's compute type."""
    return BY_NAME[op.compute]

"""The base of all engines, their knobs and configurations.

An engine says, in this order: what it takes (``takes``), why it would not (``refuse``), in which ways it
can do it (``configs``), how long one of them would take (``cost``), and its launches (``plan``). It
knows nothing of other engines.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Iterator

from .. import kernels
from ..dtypes import ALL, DType
from ..given import shown
from ..graph import Core, Many, Match, in_memory
from ..status import BadParam, NotSupported
from .knobs import TERMS


@dataclass(frozen=True)
class Knob:
    """A choice that an engine offers: these values, or every whole number from ``lo`` to ``hi``. The name is
    one of ``TERMS`` in knobs.py, which says what it sets and what the API calls it."""
    name: str
    values: tuple = ()
    lo: int = 0
    hi: int = 0

    @property
    def api(self) -> str:
        """The knob type of the API, CUDNN_KNOB_TYPE_ left out."""
        return TERMS[self.name].api

    @property
    def doc(self) -> str:
        return TERMS[self.name].doc

    def read(self, text: str):
        """The value of a text. Raises BadParam."""
        known = {str(v): v for v in self.values}
        if text in known:
            return known[text]
        if not self.values and re.fullmatch("-?[0-9]{1,18}", text) and self.lo <= int(text) <= self.hi:
            return int(text)
        accepted = " ".join(known) if known else f"{self.lo} to {self.hi}"
        raise BadParam(f"config: {self.name} must be one of {accepted}; got {shown(text)}")


def merged(engines) -> tuple:
    """The knobs of several engines, one for each name: all values that any of them has."""
    found: dict[str, Knob] = {}
    for knob in (knob for engine in engines for knob in engine.knobs):
        one = found.setdefault(knob.name, knob)
        values = tuple(dict.fromkeys(one.values + knob.values))
        found[knob.name] = Knob(knob.name, values, min(one.lo, knob.lo), max(one.hi, knob.hi))
    return tuple(found.values())


class Config:
    """One way in which an engine works: a value for each knob.
    Frozen, hashable; ``config.tile``; text ``tile=64 splits=2``."""
    __slots__ = ("_items",)

    def __init__(self, **values):
        object.__setattr__(self, "_items", tuple(values.items()))

    def __getattr__(self, name):
        for key, value in self._items:
            if key == name:
                return value
        raise AttributeError(f"config has no knob {name}; knobs are {' '.join(k for k, _ in self._items)}")

    def __setattr__(self, name, value):
        raise AttributeError("a config is frozen")

    def get(self, name, otherwise=None):
        return dict(self._items).get(name, otherwise)

    def items(self) -> tuple:
        return self._items

    def __eq__(self, other):
        return isinstance(other, Config) and self._items == other._items

    def __hash__(self):
        return hash(self._items)

    def __bool__(self):
        return bool(self._items)

    def __str__(self):
        return " ".join(f"{k}={v}" for k, v in self._items)

    def __repr__(self):
        return f"Config({', '.join(f'{k}={v!r}' for k, v in self._items)})"

    def __reduce__(self):
        return _config, (self._items,)

    @classmethod
    def parse(cls, text: str, knobs) -> "Config":
        """The config of a text. Raises BadParam for a knob or value that is not offered."""
        by_name, values = {k.name: k for k in knobs}, {}
        for word in text.split():
            name, _, value = word.partition("=")
            if name not in by_name:
                raise BadParam(f"config: knob must be one of {' '.join(by_name) or '(none)'}; "
                               f"got {shown(name)}")
            values[name] = by_name[name].read(value)
        return cls(**values)


def _config(items):
    return Config(**dict(items))


PLAIN = Config()                                 # of an engine without knobs


def numbers(*types: str) -> frozenset:
    """What an engine understands that takes numbers of these types (none: of any) from memory of the device:
    its kernels have ``Number<T>`` parameters, and its plan fills them in with ``cast.number_as``."""
    return frozenset(in_memory(name) for name in types or [t.name for t in ALL])


class Engine:
    """One way to compute a pattern.

    ``index`` is the global index, published once and never reused. ``takes`` the pattern. ``understands``:
    features of tensors and numbers beside dims, strides and types ("ragged", "vector", "reordering", and
    ``numbers``) that it serves; a part that has others is not offered to it. ``notes`` are facts for the
    user. ``only_for``: its numbers are not those that others give, so it serves only where a wish names one
    of these notes, or the engine itself. ``is_general``: it takes whatever there is and is seldom the
    fastest, so it is compared with what the op is made of. ``v5``: the convolution algorithms of the v5 API
    that it serves.
    """
    index: ClassVar[int] = -1
    takes: ClassVar[Core | Many] = None
    knobs: ClassVar[tuple] = ()
    notes: ClassVar[tuple] = ("deterministic",)
    understands: ClassVar[frozenset] = frozenset()
    only_for: ClassVar[tuple] = ()
    is_general: ClassVar[bool] = False
    v5: ClassVar[tuple] = ()

    @property
    def name(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def op(self) -> type:
        """The op class of its anchor."""
        return self.takes.op

    def __str__(self):
        return f"{self.index}:{self.name}"

    __repr__ = __str__

    def refuse(self, p: Match, dev) -> Iterator[str]:
        """Yield the reasons not to take ``p`` on device facts ``dev``; silence is consent."""
        return iter(())

    def configs(self, p: Match, dev) -> Iterator[Config]:
        """Every configuration there is for ``p``, the best guess first."""
        yield PLAIN

    def offers(self, p: Match, dev, config: Config) -> bool:
        """Whether ``configs`` has ``config``, where that is known sooner than which of them is the best."""
        return config in self.configs(p, dev)

    def cost(self, p: Match, dev, config: Config) -> float:
        """Estimated microseconds; a pure function."""
        return memory_us(p, dev)

    def plan(self, p: Match, dev, config: Config) -> list:
        """The steps. Decides nothing."""
        raise NotImplementedError

    def magnitude(self, op, arrays: dict, scalars: dict, results: dict) -> dict:
        """For each output, what its rounding errors scale with (docs/numerics.md): what the op says,
        where the sums are the op's own. No number where a NaN or an infinity may come by other ways."""
        return op.magnitude(arrays, scalars, results)

    def rounded_to(self, p: Match) -> DType | None:
        """The type to which values on the way are rounded before they are multiplied, where no tensor of the
        graph says so: that of w by the note ``down_convert_inputs``."""
        return p.w.dtype if "down_convert_inputs" in self.notes else None

    def place(self, p: Match) -> tuple | None:
        """(uid, bytes behind its beginning) of the tensor that the output lies in, where it is that memory in
        another form and nothing moves; None where it has a place of its own."""
        return None

    # ---- What follows from it ----

    @property
    def keeps_nan(self) -> bool:
        """A NaN or an infinity of an input reaches the elements that the op says, and no others."""
        return type(self).magnitude is Engine.magnitude

    def reasons(self, p: Match, dev) -> tuple:
        """Every reason not to take ``p``: what it does not understand, then what it refuses."""
        unknown = p.features.keys() - self.understands
        if unknown:
            return tuple(f"does not understand {name}: {p.features[name]}" for name in sorted(unknown))
        return tuple(self.refuse(p, dev))

    def fits(self, p: Match) -> bool:
        """The match has the form of its pattern."""
        if p.node is None:
            return isinstance(self.takes, Many)
        if self.op is not None and not isinstance(p.op, self.op):
            return False
        before = getattr(self.takes, "before", None)
        if p.last and not isinstance(p.last.op, getattr(self.takes, "last", ())):
            return False
        return (not p.behind or bool(getattr(self.takes, "behind", None))) and (
            not p.before or before is not None and p.before.keys() <= set(before.at))

    def accepts(self, p: Match, dev) -> bool:
        return not p.features.keys() - self.understands and next(iter(self.refuse(p, dev)), None) is None

    def least_us(self, p: Match, dev) -> float:
        """It costs more than this, whatever is attached to the node of ``p``; 0.0 where nothing is known.
        Cheap: the search for the cheapest cover asks it first, and passes over who cannot win."""
        return 0.0

    def best(self, p: Match, dev) -> Config:
        """The configuration that it would take. Raises NotSupported where none fits a device that has less
        than others of its kind."""
        for config in self.configs(p, dev):
            return config
        raise NotSupported(f"{self}: a configuration must fit {shown(dev.name)}; got none that does")


def powers(most: int) -> list[int]:
    """1, 2, 4 … up to ``most``: numbers of splits worth a look."""
    return [1 << i for i in range(max(most, 1).bit_length())]


def first_then(best: Config, others) -> Iterator[Config]:
    """``best``, then the others without it."""
    yield best
    yield from (config for config in others if config != best)


def moved_us(moved_bytes: float, dev, efficiency: float = 1.0) -> float:
    """Microseconds of a launch that moves so many bytes at a share of the device's bandwidth."""
    return dev.launch_us + moved_bytes / (dev.bandwidth_gbs * efficiency) * 1e-3


def together(near: float, *times: float) -> float:
    """The time of what goes on at once: hardly more than the longest where the others are far below it. The
    larger ``near``, the less two that are near cost each other."""
    longest = max(times)
    return longest * sum((time / longest) ** near for time in times) ** (1 / near) if longest > 0 else 0.0


def memory_us(p: Match, dev, reads: float = 1.0, efficiency: float = 0.85) -> float:
    """Microseconds of a launch that moves what must move once, or ``reads`` times."""
    return moved_us(reads * p.region.traffic_bytes, dev, efficiency)


def wrong_device(dev, least_sm: int = 75) -> Iterator[str]:
    """The reasons every CUDA engine shares."""
    if dev.kind != "cuda":
        yield f"runs CUDA kernels; device is {dev.kind}"
    elif dev.sm < least_sm:
        yield f"needs sm_{least_sm} or newer; device is sm_{dev.sm}"


def no_elements(operands: dict) -> Iterator[str]:
    """Operands that hold nothing."""
    for name, d in operands.items():
        if not d.count:
            yield f"{name} must have elements; got dims {d.dims}"


def in_bytes(p: Match) -> bool:
    """An element of every operand has bytes of its own, of which vectors may be made."""
    return all(d.dtype.bits >= 8 for d in p.descs)


def no_variant(p: Match, source: str, *names: str, axis: str = "T", same: bool = True) -> Iterator[str]:
    """Refuse operands (all, or those named) of types that no variant of a kernel has on an axis,
    or of several types when ``same``. What a kernel takes is said in its contract alone."""
    known = kernels.axis(source, axis)
    accepted = [t.name for t in ALL if t.name in known]
    operands = {name: p.operands[name] for name in names or p.operands if p.operands[name] is not None}
    for name, d in operands.items():
        if d.dtype.name not in accepted:
            yield f"{name} must be one of {' '.join(accepted)}; got {d.dtype}"
    found = sorted({d.dtype.name for d in operands.values()})
    if same and len(found) > 1:
        yield f"operands must have one type; got {' '.join(found)}"

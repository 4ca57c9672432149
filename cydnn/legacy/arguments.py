"""Arguments of the legacy functions: the table of public names, the kinds of descriptors, and the reading of
an argument.

Misuse of Python (a wrong type, a sequence that is too short) is TypeError or ValueError; what C would answer
with a status raises the class of that status. Spec: legacy API, 1.2 and 1.3.
"""
from __future__ import annotations

from .._core import Descriptor, descriptor
from ..given import LEAST, MOST, UNORDERED, element, integral, shown
from ..status import BadParam, require

FUNCTIONS: dict[str, tuple] = {}                 # public name: (function, chapter of the guide)
KINDS: dict[str, "Kind"] = {}                    # by name


def public(section: str, **aliases: str):
    """Publish a function under its name and its aliases (alias name = chapter; "" for the function's own)."""
    def record(function):
        for name, chapter in ((function.__name__, section), *aliases.items()):
            FUNCTIONS[name] = (function, chapter or section)
        return function
    return record


def integers(function: str, argument: str, values, least: int) -> tuple:
    """A tuple of the first ``least`` ints of a sequence. An int (a host address, as other
    bindings take) is a TypeError."""
    if isinstance(values, (int, *UNORDERED)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{function}: {argument} must be a sequence of ints, not an address; "
                        f"got {shown(values)}")
    try:
        values = tuple(map(integral, values))
    except Exception:
        raise TypeError(f"{function}: {argument} must be a sequence of ints; got {shown(values)}") from None
    if values:
        integer(function, argument, max(values, key=abs))
    if len(values) < least:
        raise ValueError(f"{function}: {argument} must have at least {least} entries; got {shown(values)}")
    return values[:least]


def integer(function: str, argument: str, value) -> int:
    """An int, or what stands for one. What is none is a TypeError; one that fits no type of C is BadParam."""
    try:
        found = integral(value)
    except Exception:                            # the object's own __index__ may raise anything
        raise TypeError(f"{function}: {argument} must be an int; got {shown(value)}") from None
    require(LEAST <= found <= MOST, f"{function}: {argument} must have at most 64 bits; got {shown(value)}")
    return found


def each(function: str, **arguments) -> tuple:
    """``integer`` of several arguments."""
    return tuple([integer(function, name, value) for name, value in arguments.items()])


def at_least(function: str, low: int, **arguments) -> tuple:
    """Every argument (an int or a tuple of ints) must be >= ``low``. Returns them as they were read: an
    object may say another number the next time."""
    found = tuple([value if isinstance(value, tuple) else integer(function, name, value)
                   for name, value in arguments.items()])
    for name, value in zip(arguments, found):
        if (min(value) if isinstance(value, tuple) else value) < low:
            raise BadParam(f"{function}: {name} must be >= {low}; got {shown(value)}")
    return found


def scale(function: str, argument: str, value) -> float:
    """A scaling factor. None is NULL; an int above 2**32 is the host address that other
    bindings take, so it is refused."""
    require(value is not None, f"{function}: {argument} must not be NULL")
    if isinstance(value, int) and abs(value) > 2 ** 32:
        raise TypeError(f"{function}: {argument} must be a number, not the address of one; "
                        f"got {shown(value)}")
    return number(function, argument, value)


def number(function: str, argument: str, value) -> float:
    """A floating-point argument. What is no number is a TypeError."""
    try:
        return float(element(value))
    except Exception:
        raise TypeError(f"{function}: {argument} must be a number; got {shown(value)}") from None


def is_given(pointer) -> bool:
    """False for NULL: None or 0. Nothing else is looked into, as an array may have to wait
    for its device to say what it is."""
    return pointer is not None and not (type(pointer) is int and pointer == 0)


def listed(numbers) -> str:
    return ",".join(map(str, numbers))


def plain(fields) -> str:
    """Content as name=value words."""
    return " ".join(f"{name}={value}" for name, value in fields._asdict().items())


def restored(name: str, fields):
    """The descriptor of a pickle."""
    found = KINDS[name].create()
    if fields is not None:
        KINDS[name].set(found, fields)
    return found


class Holder(Descriptor):
    """A descriptor that holds more than its fields: what its class names in ``__slots__`` counts where it is
    compared, and copies share it. It has no pickle."""
    __slots__ = ()

    def held(self) -> tuple:
        return tuple([getattr(self, name, None) for name in type(self).__slots__])

    def __eq__(self, other):
        return self is other or super().__eq__(other) is True and self.held() == other.held()

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((super().__hash__(), self.held()))

    def __copy__(self):
        found = super().__copy__()
        for name, value in zip(type(self).__slots__, self.held()):
            if value is not None:
                setattr(found, name, value)
        return found

    def __reduce__(self):
        raise TypeError(f"pickle: the descriptor holds {' '.join(type(self).__slots__)}, or is destroyed; "
                        f"got {self!r}")

    describe = staticmethod(plain)


class Kind:
    """A kind of descriptor (or handle): its class, what its fields mean to a compute function, and the text
    that they print as. ``local``: what of them lives in this process alone, so that a pickle is refused."""

    def __init__(self, name: str, content=lambda fields: fields, text=plain, local="", type_=None):
        self.name, self._content, self.local = name, content, local
        self.type = type_ or type("".join(word[0].upper() + word[1:] for word in name.split()), (Descriptor,),
                                  {"__slots__": (), "__doc__": f"A {name}.", "describe": staticmethod(text),
                                   "__reduce__": lambda desc: self._pickled(desc)})
        KINDS[name] = self

    def _pickled(self, desc) -> tuple:
        if desc.is_destroyed or self.local:
            why = "is destroyed" if desc.is_destroyed else f"holds {self.local}"
            raise TypeError(f"pickle: the {self.name} {why}; got {desc!r}")
        return restored, (self.name, desc.fields)

    def create(self) -> Descriptor:
        return self.type()

    def resolve(self, function: str, argument: str, value) -> Descriptor:
        """The live descriptor of this kind that ``value`` is, or is the address of."""
        if isinstance(value, self.type) and not value.is_destroyed:
            return value
        require(is_given(value), f"{function}: {argument} must not be NULL")
        if not isinstance(value, (Descriptor, int)):
            raise TypeError(f"{function}: {argument} must be a {self.name}; got {shown(value)}")
        try:
            found = descriptor(value)
        except BadParam:
            found = None
        require(isinstance(found, self.type), f"{function}: {argument} must be a {self.name} that was "
                                              f"created and not destroyed; got {shown(value)}")
        return found

    def set(self, value, fields) -> None:
        value.set(self.name, fields)

    def fields(self, function: str, argument: str, value):
        found = self.resolve(function, argument, value)
        if found.kind is None:
            raise BadParam(f"{function}: {argument} must be set; got a {self.name} that was only created")
        return found.fields

    def content(self, function: str, argument: str, value):
        """What a compute function sees of it."""
        return self._content(self.fields(function, argument, value))

    def destroy(self, function: str, argument: str, value) -> None:
        """NULL is a no-op; an unknown or destroyed one is BadParam."""
        if is_given(value):
            self.resolve(function, argument, value).destroy()

"""Numbers and lists as callers give them: read, or refused in one sentence that names what was given."""
from __future__ import annotations

from operator import index

from .status import BadParam

LEAST, MOST = -2 ** 63, 2 ** 64 - 1              # of a whole number
MOST_SHOWN = 120                                 # characters of a value in an error
UNORDERED = (str, bytes, bytearray, dict, set, frozenset)    # can be iterated, and are no list


def shown(value) -> str:
    """A value for an error: one line of bounded length. Never fails."""
    try:
        text = " ".join(repr(value).split())
    except Exception:                            # a number beyond Python's own limit
        text = f"an object of type {type(value).__name__}"
    return brief(text)


def brief(text: str) -> str:
    """A text of bounded length: a name, as an error has it."""
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


def reason(error: Exception) -> str:
    """What an exception of Python says, in a line of bounded length: what was read may stand in it."""
    return brief(" ".join(f"{type(error).__name__}: {error}".split()))


def is_masked(x) -> bool:
    """An array of ``numpy.ma``, which is slow to import: what lies below its mask is no value."""
    return hasattr(type(x), "filled") and hasattr(type(x), "mask")


def unmasked(where: str, x):
    """An array, or whatever it is, without a mask. Raises BadParam."""
    if is_masked(x):
        raise BadParam(f"{where}: must have no mask, as values are read and written below it; got "
                       f"{type(x).__name__}: pass its data, or filled()")
    return x


def element(x):
    """A number, or the one in an array on the host: what ``float`` reads no text of. Raises TypeError, and
    whatever the object does."""
    found = x.item() if hasattr(x, "item") and not is_masked(x) else x
    if is_masked(x) or not (hasattr(found, "__float__") or hasattr(found, "__index__")):
        raise TypeError
    return found


def integral(x) -> int:
    """The whole number that an object stands for. Raises TypeError, and whatever the object does."""
    if is_masked(x):
        raise TypeError
    return index(x)


def whole(where: str, value) -> int:
    """A whole number of at most 64 bits; a float is none, not even 2.0. Raises BadParam."""
    try:
        number = integral(value)
        if LEAST <= number <= MOST:
            return number
    except Exception:                            # the object's own __index__ may raise anything
        pass
    raise BadParam(f"{where} must be a whole number of at most 64 bits; got {shown(value)}")


def wholes(where: str, values) -> tuple:
    """A list of such numbers. Raises BadParam."""
    try:
        if not isinstance(values, UNORDERED):
            numbers = tuple(map(integral, values))
            if not numbers or LEAST <= min(numbers) and max(numbers) <= MOST:
                return numbers
    except Exception:
        pass
    raise BadParam(f"{where} must be a list of whole numbers of at most 64 bits; got {shown(values)}")


def real(where: str, value) -> float:
    """A number as a float. Raises BadParam, also where it is beyond a float's range."""
    try:
        return float(element(value))
    except Exception:
        pass
    raise BadParam(f"{where} must be a number; got {shown(value)}")


def several(where: str, values, what: str) -> list:
    """A list, whatever it is of. Raises BadParam for a text, a dict, and what is no list."""
    try:
        if not isinstance(values, (str, bytes, bytearray, dict)):
            return list(values)
    except Exception:
        pass
    raise BadParam(f"{where} must be a list of {what}; got {shown(values)}")


def text(where: str, value) -> str:
    """A text. Raises BadParam."""
    if isinstance(value, str):
        return value
    raise BadParam(f"{where} must be a text; got {shown(value)}")


def instance(where: str, value, kind: type):
    """An object of a class of the library's. Raises BadParam."""
    if isinstance(value, kind):
        return value
    raise BadParam(f"{where} must be a {kind.__name__}; got {shown(value)}")


def function(where: str, value):
    """What can be called. Raises BadParam."""
    if callable(value):
        return value
    raise BadParam(f"{where} must be a function; got {shown(value)}")


def flag(where: str, value) -> bool:
    """True or False, or what Python takes for it. Raises BadParam for an array of several."""
    try:
        return bool(value)
    except Exception:
        raise BadParam(f"{where} must be True or False; got {shown(value)}") from None

"""Status codes of the API, one exception class for each, and the last error of the process.

An error reads ``<op or function>: <argument> <rule>; got <value>``. Every class also inherits the built-in
exception that fits, so that ``except ValueError`` and ``except MemoryError`` work. ``.status`` is the code of
the v5 API (reference: Status), ``.status9`` that of v9, which tells more apart.
"""
from __future__ import annotations

import re
import threading

_last = threading.local()
_RULE = re.compile(r"(?:(?P<subject>.*?) )?(?P<needed>must .*)", re.S)
NINE = {                                         # status of v9: its number, by what CUDNN_STATUS_ leaves out
    "NOT_INITIALIZED": 1001, "LICENSE_ERROR": 1005, "BAD_PARAM": 2000, "INVALID_VALUE": 2001,
    "BAD_PARAM_NULL_POINTER": 2002, "BAD_PARAM_MISALIGNED_POINTER": 2003, "BAD_PARAM_NOT_FINALIZED": 2004,
    "BAD_PARAM_OUT_OF_BOUND": 2005, "BAD_PARAM_SIZE_INSUFFICIENT": 2006, "BAD_PARAM_STREAM_MISMATCH": 2007,
    "BAD_PARAM_SHAPE_MISMATCH": 2008, "BAD_PARAM_DUPLICATED_ENTRIES": 2009, "BAD_PARAM_ATTRIBUTE_TYPE": 2010,
    "BAD_PARAM_CUDA_GRAPH_MISMATCH": 2011, "BAD_PARAM_DESCRIPTOR_TYPE": 2012, "NOT_SUPPORTED": 3000,
    "NOT_SUPPORTED_GRAPH_PATTERN": 3001, "NOT_SUPPORTED_ARCH_MISMATCH": 3007,
    "NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API": 3013, "INTERNAL_ERROR": 4000,
    "INTERNAL_ERROR_HOST_ALLOCATION_FAILED": 4003, "EXECUTION_FAILED": 5000}
_MEMORY = (None, "pointer", "array", "buffer", "memory")         # what the sentence of a buffer begins with


class CydnnError(RuntimeError):
    """Base of all errors of the library. ``status`` is the v5 status code, ``api`` its name, ``facts`` what
    the message says, as data."""
    status, api, nine = 4, "CUDNN_STATUS_INTERNAL_ERROR", "INTERNAL_ERROR"

    def __init__(self, message: str = "", **facts):
        super().__init__(message)
        self.told, self.infos = facts, []
        _last.text = f"{self.api}: {message}"

    @property
    def facts(self) -> dict:
        """``node``: the operation or function; ``operand`` (a tensor, a buffer) or ``attribute`` (any other
        argument): which broke a rule; ``needed``: the rule; ``given``: what was there instead, a number or a
        list as such, else as text. None is what the message does not say. Beside them, what the error was
        raised with."""
        return {**_read(self.args[0] if self.args else "", self.told.get("node")), **self.told}

    @property
    def api9(self) -> str:
        """The name of the status in v9: that of the class, or of what the error was raised with."""
        return f"CUDNN_STATUS_{self.told.get('status9', self.nine)}"

    @property
    def status9(self) -> int:
        """The number of ``api9``."""
        return NINE[self.told.get("status9", self.nine)]

    def within(self, where: str, instead_of: str = "", words=()) -> CydnnError:
        """The same error, said of ``where``: a node, a function of the caller's. ``words``: what the caller
        calls operands and attributes, {name in the sentence: its name}."""
        turn = _turned(dict(words))
        sentence = turn(self.args[0].removeprefix(f"{instead_of}: "))
        return type(self)(f"{where}: {sentence}", **{**turn(self.facts), "node": where})

    def add_info(self, info: str) -> None:
        """Append a line to the message: what the caller was doing."""
        self.infos.append(str(info))

    def add_infos(self, infos) -> None:
        """Append several lines to the message."""
        self.infos.extend(map(str, infos))

    def __str__(self):
        text = f"{super().__str__()} [{self.api}]" if self.args and self.args[0] else self.api
        return "\n  ".join([text, *self.infos])

    def __reduce__(self):
        """With everything that it says; how its class is made does not matter."""
        return _restored, (type(self), self.args, self.__dict__)


def _read(message: str, node: str | None) -> dict:
    """The facts of a message of the form that every error has."""
    told = node and message.startswith(f"{node}: ")
    where = node if told else message.partition(": ")[0] if ": " in message else ""
    rule, _, given = message.removeprefix(f"{where}: ").partition("; got ")
    facts = dict(node=where or None, operand=None, attribute=None, given=_value(given), needed=rule or None)
    if found := _RULE.fullmatch(rule):
        subject, facts["needed"] = found["subject"], found["needed"]
        if node is None and subject in _MEMORY:  # `x: must not be null`, `x: array must be writable`
            facts |= dict(node=None, operand=where)
        elif subject and re.fullmatch(r"\w+(\.\w+)*", subject):
            facts["attribute"] = subject.partition(".")[0]
    return facts


def _value(given: str):
    """A number or a list that an error shows, as such; else the text up to what is to be done."""
    from ast import literal_eval                 # errors alone need it
    short = re.split(r": |; |, with |\n", given)[0]
    for text in (given, short):
        try:
            return literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
    return short or None


def _turned(words: dict):
    """What puts other names in place of those that a text is about (`w.c`, `like x;`, `y=4x8:f32`), in all
    texts of lists and dicts too."""
    names, ahead = "|".join(map(re.escape, words)), r"\.[a-z]|[=,;:)]|$| (?:must|is|and|or|of rank)\b| \("
    about = re.compile(rf"(?<![\w.'\"])({names})(?={ahead})", re.M)

    def turn(value):
        if isinstance(value, str) and words:
            return about.sub(lambda found: words[found[0]], value)
        if type(value) in (list, tuple):
            return type(value)(map(turn, value))
        return {key: turn(one) for key, one in value.items()} if isinstance(value, dict) else value
    return turn


def _restored(kind: type, args: tuple, state: dict) -> CydnnError:
    """The error of a pickle. It is not the last one of the thread that reads it."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class NotInitialized(CydnnError):
    """The library or a handle is not there."""
    status, api, nine = 1, "CUDNN_STATUS_NOT_INITIALIZED", "NOT_INITIALIZED"


class DriverNotFound(NotInitialized):
    """There is no usable CUDA driver; ``device="numpy"`` works without one."""


class AllocFailed(CydnnError, MemoryError):
    """Memory could not be had."""
    status, api, nine = 2, "CUDNN_STATUS_ALLOC_FAILED", "INTERNAL_ERROR_HOST_ALLOCATION_FAILED"


class BadParam(CydnnError, ValueError):
    """An argument breaks a rule; the message names it."""
    status, api, nine = 3, "CUDNN_STATUS_BAD_PARAM", "BAD_PARAM"


class InternalError(CydnnError):
    """A mistake of the library itself."""
    status, api = 4, "CUDNN_STATUS_INTERNAL_ERROR"


class InvalidValue(CydnnError, ValueError):
    """A size or a number is out of its range."""
    status, api, nine = 5, "CUDNN_STATUS_INVALID_VALUE", "INVALID_VALUE"


class ArchMismatch(CydnnError):
    """The device is older than what the library runs on."""
    status, api, nine = 6, "CUDNN_STATUS_ARCH_MISMATCH", "NOT_SUPPORTED_ARCH_MISMATCH"


class MappingError(CydnnError):
    """Memory could not be mapped."""
    status, api = 7, "CUDNN_STATUS_MAPPING_ERROR"


class ExecutionFailed(CydnnError):
    """The device failed while it ran."""
    status, api, nine = 8, "CUDNN_STATUS_EXECUTION_FAILED", "EXECUTION_FAILED"


class NotSupported(CydnnError, ValueError):
    """Valid, but no engine takes it. ``facts["reasons"]`` lists ``(engine, sentence)``
    pairs where engines were asked."""
    status, api, nine = 9, "CUDNN_STATUS_NOT_SUPPORTED", "NOT_SUPPORTED"


class LicenseError(CydnnError):
    """Never raised; the code is in the API."""
    status, api, nine = 10, "CUDNN_STATUS_LICENSE_ERROR", "LICENSE_ERROR"


CLASSES = (NotInitialized, AllocFailed, BadParam, InternalError, InvalidValue, ArchMismatch, MappingError,
           ExecutionFailed, NotSupported, LicenseError)
NAMES = {0: "CUDNN_STATUS_SUCCESS", **{c.status: c.api for c in CLASSES}}


def last_error_string() -> str:
    """The text of the last error raised in this thread, or ``""`` when there was none."""
    return getattr(_last, "text", "")


def require(condition, message: str, error: type[CydnnError] = BadParam):
    """Raise ``error(message)`` unless ``condition`` holds."""
    if not condition:
        raise error(message)

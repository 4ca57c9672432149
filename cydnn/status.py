"""Status codes of the API, one exception class for each, and the last error of the process.

An error reads ``<op or function>: <argument> <rule>; got <value>``. Every class also inherits the built-in
exception that fits, so that ``except ValueError`` and ``except MemoryError`` work. ``.status`` is the code of
the v5 API (reference: Status).
"""
from __future__ import annotations

import threading

_last = threading.local()


class CydnnError(RuntimeError):
    """Base of all errors of the library. ``status`` is the v5 status code, ``api`` its name."""
    status, api = 4, "CUDNN_STATUS_INTERNAL_ERROR"

    def __init__(self, message: str = "", **facts):
        super().__init__(message)
        self.facts, self.infos = facts, []
        _last.text = f"{self.api}: {message}"

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


def _restored(kind: type, args: tuple, state: dict) -> CydnnError:
    """The error of a pickle. It is not the last one of the thread that reads it."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class NotInitialized(CydnnError):
    """The library or a handle is not there."""
    status, api = 1, "CUDNN_STATUS_NOT_INITIALIZED"


class DriverNotFound(NotInitialized):
    """There is no usable CUDA driver; ``device="numpy"`` works without one."""


class AllocFailed(CydnnError, MemoryError):
    """Memory could not be had."""
    status, api = 2, "CUDNN_STATUS_ALLOC_FAILED"


class BadParam(CydnnError, ValueError):
    """An argument breaks a rule; the message names it."""
    status, api = 3, "CUDNN_STATUS_BAD_PARAM"


class InternalError(CydnnError):
    """A mistake of the library itself."""
    status, api = 4, "CUDNN_STATUS_INTERNAL_ERROR"


class InvalidValue(CydnnError, ValueError):
    """A size or a number is out of its range."""
    status, api = 5, "CUDNN_STATUS_INVALID_VALUE"


class ArchMismatch(CydnnError):
    """The device is older than what the library runs on."""
    status, api = 6, "CUDNN_STATUS_ARCH_MISMATCH"


class MappingError(CydnnError):
    """Memory could not be mapped."""
    status, api = 7, "CUDNN_STATUS_MAPPING_ERROR"


class ExecutionFailed(CydnnError):
    """The device failed while it ran."""
    status, api = 8, "CUDNN_STATUS_EXECUTION_FAILED"


class NotSupported(CydnnError, ValueError):
    """Valid, but no engine takes it. ``facts["reasons"]`` lists ``(engine, sentence)``
    pairs where engines were asked."""
    status, api = 9, "CUDNN_STATUS_NOT_SUPPORTED"


class LicenseError(CydnnError):
    """Never raised; the code is in the API."""
    status, api = 10, "CUDNN_STATUS_LICENSE_ERROR"


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

"""Devices that run plans: ``get("cuda:0")``, ``get("numpy")``, ``default()``;
``with cydnn.device("numpy"):`` chooses the default of a thread. Nothing here touches CUDA before a device is
asked for.

A device has ``name facts context``, ``alloc copy_in copy_out memset synchronize create_stream``
and ``compile(plan)``, which gives an object with ``execute(pointers, scalars, workspace,
workspace_bytes, stream)``.
"""
from __future__ import annotations

import logging
import sys
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import ModuleType

from .._core import CHOSEN
from ..given import shown
from ..locks import importing, rlock
from ..names import missing
from ..status import BadParam, CydnnError
from .facts import KNOWN, DeviceFacts, card

__all__ = ["Chosen", "DeviceFacts", "KNOWN", "default", "get", "facts_of", "is_device", "names"]
log = logging.getLogger("cydnn.device")
LEAST_SM = 75
_devices: dict = {}
_default: list = []
_lock = rlock()
_outer: ContextVar[tuple] = ContextVar("cydnn.device.outer", default=())       # what blocks around had chosen


def _cuda(ordinal: int):
    with importing:
        from .cuda import CudaDevice
    return CudaDevice(ordinal)


def _numpy():
    with importing:
        from .numpy import NumpyDevice
    return NumpyDevice()


def _ptx(target: str):
    with importing:
        from .ptx import PtxDevice
    return PtxDevice(target)


def get(device=None):
    """The device of a name (``"cuda:0"``, ``"cuda"``, ``"numpy"`` or ``"cpu"``), of a CUDA device's number,
    or of a device of torch, CuPy or cuda.core; the default for None; a device gives itself. One object a
    device.

    ``"ptx:sm_80"`` is the interpreter of that target's kernels. Raises DriverNotFound for a CUDA
    name where there is no driver.
    """
    if device is None:
        return default()
    if is_device(device):
        return device
    kind, _, rest = _text(device).partition(":")
    with _lock:
        if kind in ("cuda", "gpu") and (rest.isascii() and rest.isdigit() and len(rest) < 10 or not rest):
            ordinal = int(rest or 0)
            return _devices.get(f"cuda:{ordinal}") or _devices.setdefault(f"cuda:{ordinal}", _cuda(ordinal))
        if kind in ("numpy", "cpu") and not rest:                    # as other libraries call the host
            return _devices.get("numpy") or _devices.setdefault("numpy", _numpy())
        if kind == "ptx":
            name = f"ptx:{rest}"
            return _devices.get(name) or _devices.setdefault(name, _ptx(rest))
    if card(device) is not None:
        raise BadParam(f"device: must be one that is here, as plans run on it; got the card {shown(device)}: "
                       'explain tells of cards, "ptx:sm_N" interprets their kernels')
    raise BadParam(f'device: must be "cuda:N", "ptx:sm_N", "numpy" or a device; got {shown(device)}')


def facts_of(device=None) -> DeviceFacts:
    """What plans are made for: facts, as they are; a card that need not be here, by its name ("h200",
    "NVIDIA H200") or target ("sm_90"); else those of ``get(device)``."""
    if isinstance(device, DeviceFacts):
        return device
    found = card(device)
    try:
        return get(device).facts if found is None else found
    except BadParam as error:
        raise BadParam(f"{error.args[0]}: cards are {' '.join(KNOWN)} and targets such as sm_90") from None


def numbered(device):
    """The name of a CUDA device that was given by its number; what is no number stays as it is."""
    if type(device) is not int:
        return device
    return f"cuda:{device}" if 0 <= device < 10 ** 9 else shown(device)


def _text(device) -> str:
    """A device's name, in small letters, or what a torch.device prints as; "cuda:N" of its number, or of a
    Device of CuPy (``id``) or cuda.core (``device_id``)."""
    try:
        if isinstance(device, str) or hasattr(device, "type") and hasattr(device, "index"):
            return str(device).lower()
        number = device if type(device) is int else _number_of(device)
        return f"cuda:{number}" if type(number) is int and number >= 0 else ""
    except Exception:                            # its own methods may raise anything
        return ""


def _number_of(device):
    is_device = type(device).__name__ == "Device"
    return getattr(device, "device_id", getattr(device, "id", None)) if is_device else None


def is_device(x) -> bool:
    """What plans are made for and compiled by; no object that has whatever it is asked for."""
    try:
        return isinstance(x.facts, DeviceFacts) and callable(x.compile)
    except Exception:                            # its own methods may raise anything
        return False


def default():
    """The device that this thread chose; else the first CUDA device when one is usable, else the NumPy
    device. Says once, in the log, which of these it is and why."""
    chosen = CHOSEN.get()
    if chosen is not None:
        return chosen
    with _lock:
        if not _default:
            _default.append(_choose())
        return _default[0]


def _choose():
    try:
        device = get("cuda:0")
        if device.facts.sm >= LEAST_SM:
            log.info("default device: cuda:0 (%s, sm_%d)", device.facts.name, device.facts.sm)
            return device
        reason = f"cuda:0 is sm_{device.facts.sm}, older than sm_{LEAST_SM}"
    except CydnnError as error:
        reason = str(error)
    log.info("default device: numpy, the reference, because %s", reason)
    return get("numpy")


def names() -> list[str]:
    """The devices of this machine."""
    from .. import _core
    try:
        return [f"cuda:{i}" for i in range(_core.device_count())] + ["numpy"]
    except CydnnError:
        return ["numpy"]


# ---- Chosen by a thread ----

class Chosen(ContextDecorator):
    """``with cydnn.device("numpy"):`` inside, in this thread (or task of asyncio), the device is the default:
    of plans and handles that name none, and of functions on arrays of the host. Arrays of a GPU stay there.
    Gives the device. Blocks nest; the object may be entered again, and decorates functions. None: the usual
    default."""

    def __init__(self, device):
        self.device = None if device is None else get(device)

    def __enter__(self):
        _outer.set((*_outer.get(), CHOSEN.get()))
        CHOSEN.set(self.device)
        return self.device

    def __exit__(self, *error):
        *outer, before = _outer.get()
        _outer.set(tuple(outer))
        CHOSEN.set(before)

    def __repr__(self):
        return f"cydnn.device({getattr(self.device, 'name', None)!r})"


class _Room(ModuleType):
    """This module, which is called too."""

    def __call__(self, device=...) -> Chosen:
        if device is ...:
            raise TypeError("device() must be given a device or its name: the default is "
                            "cydnn.device.default()")
        return Chosen(device)


sys.modules[__name__].__class__ = _Room


def __getattr__(name):
    raise missing(f"module {__name__!r}", name, __all__)


def __dir__():
    return sorted(__all__)

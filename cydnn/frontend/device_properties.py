"""Facts of a device as an object: a graph made of it is planned without a handle, and without the device."""
from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

from .. import device as devices
from ..device.facts import GENERATIONS, DeviceFacts, generation
from ..given import brief, reason, shown, whole
from ..status import BadParam, CydnnError
from .errors import cudnnGraphNotSupportedError


class device_properties:
    """Device facts for heuristics and engines. ``facts`` is the row."""

    def __init__(self, facts: DeviceFacts):
        self.facts = facts

    def serialize(self) -> str:
        """The facts as JSON, which ``create_device_properties`` reads anywhere."""
        return json.dumps(asdict(self.facts))

    def __repr__(self):
        return f"<device_properties of {brief(self.facts.name)}, sm_{self.facts.sm}>"


def create_device_properties(device) -> device_properties:
    """The properties of a CUDA device by its number, of another device by its name ("numpy", "ptx:sm_80"),
    of a card that is not here by its own ("h200") or its target ("sm_90"), or those that ``serialize`` wrote.
    Raises DriverNotFound where there is no driver."""
    if isinstance(device, str) and device.lstrip().startswith("{"):
        return device_properties(_read(device))
    return device_properties(devices.facts_of(devices.numbered(device)))


def _read(text: str) -> DeviceFacts:
    try:
        row = json.loads(text)
        return DeviceFacts(**row)
    except CydnnError as error:
        raise BadParam(f"create_device_properties: {error.args[0]}") from None
    except (ValueError, TypeError, RecursionError) as error:
        names = " ".join(f.name for f in fields(DeviceFacts))
        raise BadParam(f"create_device_properties: the text must be JSON of {names}; got "
                       f"{reason(error)}") from None


def targeted(facts: DeviceFacts, sm_count: int | None, sm_version: int | None) -> DeviceFacts:
    """Facts of fewer SMs, or of another compute capability (90 or 900 for 9.0)."""
    if sm_count is not None:
        sms = whole("pygraph: sm_count", sm_count)
        if not 1 <= sms <= facts.sms:
            raise BadParam(f"pygraph: sm_count must be 1 to {facts.sms}, those of {brief(facts.name)}; got "
                           f"{shown(sms)}")
        facts = replace(facts, sms=sms)
    if sm_version is not None:
        number = whole("pygraph: sm_version", sm_version)
        sm = number // 10 if number >= 300 else number
        if not devices.LEAST_SM <= sm < 1000:
            raise cudnnGraphNotSupportedError(f"pygraph: sm_version must be at least {devices.LEAST_SM}; got "
                                              f"{shown(number)}")
        facts = replace(facts, sm=sm, **_limits(sm))
    return facts


def _limits(sm: int) -> dict:
    """What a generation says, and the usual numbers for what only others say."""
    usual = {f.name: f.default for f in fields(DeviceFacts)}
    return {name: usual[name] for row in GENERATIONS.values() for name in row} | generation(sm)

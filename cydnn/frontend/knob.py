"""The knobs of a plan as the front end shows and takes them; ``heuristics/knobs.py`` turns them."""
from __future__ import annotations

import json
from dataclasses import dataclass

from ..given import shown
from ..heuristics import Part, ranges
from ..status import BadParam
from .enums import knob_type


@dataclass(frozen=True)
class knob:
    """The numbers of a knob: all from ``min_value`` to ``max_value`` in steps of ``stride``. Each is the
    place of a value among those on offer, the smallest first."""
    type: knob_type = knob_type.NOT_SET
    max_value: int = 0
    min_value: int = 0
    stride: int = 1

    def __repr__(self):
        return json.dumps(dict(knob_type=self.type.name, max_value=self.max_value, min_value=self.min_value,
                               stride=self.stride))


def knobs_of(part: Part, facts) -> list[knob]:
    """The knobs of a part."""
    return [knob(knob_type[r.knob.api], r.most, r.least, r.stride) for r in ranges(part, facts)]


def numbers_of(knobs) -> dict:
    """{name of the API: number} of {knob_type: number}. Raises BadParam."""
    if not isinstance(knobs, dict):
        raise BadParam(f"create_execution_plan: knobs must be a dict of knob_type to number; "
                       f"got {shown(knobs)}")
    return {type_.name if isinstance(type_, knob_type) else shown(type_): value
            for type_, value in knobs.items()}

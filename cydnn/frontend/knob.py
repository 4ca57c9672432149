"""Knobs by the names of the API: which of its types stands for a knob of our engines. A number is the place
of a value among those on offer, so that every number between the least and the most is one."""
from __future__ import annotations

import json
from dataclasses import dataclass, replace

from ..engines.knobs import TERMS
from ..given import shown, whole
from ..heuristics import Choice, Part
from ..status import BadParam, NotSupported
from .enums import knob_type


@dataclass(frozen=True)
class knob:
    """What numbers a knob takes: all from ``min_value`` to ``max_value`` in steps of ``stride``. Each is the
    place of a value among those on offer, the smallest first."""
    type: knob_type = knob_type.NOT_SET
    max_value: int = 0
    min_value: int = 0
    stride: int = 1

    def __repr__(self):
        return json.dumps(dict(knob_type=self.type.name, max_value=self.max_value, min_value=self.min_value,
                               stride=self.stride))


TYPES = {name: knob_type[term.api] for name, term in TERMS.items()}    # knob of an engine -> type


def main_part(choice: Choice) -> Part:
    """The costliest part among those that have knobs, where there are some."""
    return max(choice.parts, key=lambda part: (bool(part.engine.knobs), part.us))


def offered(part: Part, facts) -> list:
    """[(configuration, {type: number})] of a part, the best first. A knob that only others have is at its
    first place; words are in the order of the offer."""
    configs = list(part.engine.configs(part.match, facts))
    names = dict.fromkeys(name for config in configs for name, _ in config.items() if name in TYPES)
    size = lambda value: -1 if value is None else value if isinstance(value, int) else 0
    places = {name: sorted(dict.fromkeys(config.get(name) for config in configs), key=size) for name in names}
    return [(config, {TYPES[name]: places[name].index(config.get(name)) for name in names})
            for config in configs]


def knobs_of(part: Part, facts) -> list[knob]:
    """The knobs of a part."""
    rows = [numbers for _, numbers in offered(part, facts)]
    return [knob(type_, max(row[type_] for row in rows)) for type_ in rows[0]]


def turned(choice: Choice, knobs: dict) -> Choice:
    """The choice with the knobs of its main part at these numbers. Raises BadParam for a number that a knob
    does not take, NotSupported for numbers that no configuration has together."""
    if not isinstance(knobs, dict):
        raise BadParam(f"create_execution_plan: knobs must be a dict of knob_type to number; "
                       f"got {shown(knobs)}")
    part = main_part(choice)
    rows = offered(part, choice.facts)
    known = {one.type: one.max_value for one in knobs_of(part, choice.facts)}
    for type_ in knobs:
        if type_ not in known:
            names = " ".join(t.name for t in known) or "(none)"
            raise BadParam(f"create_execution_plan: knobs of {part.engine} are {names}; got "
                           f"{getattr(type_, 'name', shown(type_))}")
    wanted = {type_: whole(f"create_execution_plan: {type_.name}", value) for type_, value in knobs.items()}
    for type_, value in wanted.items():
        if not 0 <= value <= known[type_]:
            raise BadParam(f"create_execution_plan: {type_.name} of {part.engine} must be from 0 to "
                           f"{known[type_]}; got {value}")
    config = next((c for c, numbers in rows if wanted.items() <= numbers.items()), None)
    if config is None:
        some = ", ".join(_text(numbers) for _, numbers in rows[:8]) + (" …" if len(rows) > 8 else "")
        raise NotSupported(f"create_execution_plan: {part.engine} offers together {some}; "
                           f"got {_text(wanted)}")
    us = part.engine.cost(part.match, choice.facts, config)
    other = Part(part.match, part.engine, config, us)
    return replace(choice, parts=tuple([other if p is part else p for p in choice.parts]))


def _text(numbers: dict) -> str:
    return " ".join(f"{type_.name}={value}" for type_, value in numbers.items())

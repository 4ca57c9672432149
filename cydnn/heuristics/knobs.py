"""Knobs of a choice by the names of the API. A number is the place of a value among those on offer, so that
every number between the least and the most is one."""
from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..engines import Config, Knob
from ..given import whole
from ..status import BadParam, NotSupported
from .choice import Choice, Part


class Range(NamedTuple):
    """The numbers that a knob of a part takes: all from ``least`` to ``most`` in steps of ``stride``. Number
    n is ``values[n]``; the value None is that of configurations without the knob."""
    knob: Knob
    values: tuple
    least: int = 0
    stride: int = 1

    @property
    def most(self) -> int:
        return len(self.values) - 1


def main_part(choice: Choice) -> Part:
    """The costliest part among those that have knobs, where there are some."""
    return max(choice.parts, key=lambda part: (bool(part.engine.knobs), part.us))


def ranges(part: Part, facts) -> list[Range]:
    """The knobs of a part, as its configurations name them."""
    return _ranges(part, list(part.engine.configs(part.match, facts)))


def _ranges(part: Part, configs: list[Config]) -> list[Range]:
    """Numbers are in their order, words in that of the offer."""
    size = lambda value: -1 if value is None else value if isinstance(value, int) else 0
    knobs = {knob.name: knob for knob in part.engine.knobs}
    names = dict.fromkeys(name for config in configs for name, _ in config.items())
    return [Range(knobs[name], tuple(sorted(dict.fromkeys(c.get(name) for c in configs), key=size)))
            for name in names]


def offered(part: Part, facts) -> list[tuple[Config, dict]]:
    """[(configuration, {name of the API: number})] of a part, the best first."""
    configs = list(part.engine.configs(part.match, facts))
    found = _ranges(part, configs)
    return [(config, {r.knob.api: r.values.index(config.get(r.knob.name)) for r in found})
            for config in configs]


def turned(function: str, choice: Choice, numbers: dict) -> Choice:
    """The choice with the knobs of its main part at ``numbers``, {name of the API: number}; the other knobs
    as the engine would take them. ``function``: the head of errors. Raises BadParam for a number that a knob
    does not take, NotSupported for numbers that no configuration has together."""
    part = main_part(choice)
    known = {r.knob.api: r for r in ranges(part, choice.facts)}
    for api in numbers:
        if api not in known:
            names = " ".join(known) or "(none)"
            raise BadParam(f"{function}: knobs of {part.engine} are {names}; got {api}")
    wanted = {api: whole(f"{function}: {api}", number) for api, number in numbers.items()}
    for api, number in wanted.items():
        if not known[api].least <= number <= known[api].most:
            raise BadParam(f"{function}: {api} of {part.engine} must be from {known[api].least} to "
                           f"{known[api].most}; got {number}")
    rows = offered(part, choice.facts)
    config = next((c for c, row in rows if wanted.items() <= row.items()), None)
    if config is None:
        some = ", ".join(_text(row) for _, row in rows[:8]) + (" …" if len(rows) > 8 else "")
        raise NotSupported(f"{function}: {part.engine} offers together {some}; got {_text(wanted)}")
    us = part.engine.cost(part.match, choice.facts, config)
    other = Part(part.match, part.engine, config, us)
    return replace(choice, parts=tuple([other if p is part else p for p in choice.parts]))


def _text(numbers: dict) -> str:
    return " ".join(f"{api}={number}" for api, number in numbers.items())

"""Descriptors that the library makes: what is asked of engines and heuristics."""
from __future__ import annotations

from ..frontend.enums import behavior_note, numerical_note
from ..frontend.notes import notes_of
from ..heuristics import Choice, main_part, ranges, turned
from ..status import BadParam
from .constants import Constant, constant, enumerations

KNOB_TYPE = "CUDNN_KNOB_TYPE_"


def _finalized(kind: str, found: dict, made=None, values=None):
    from .descriptor import Descriptor
    d = Descriptor(kind)
    d.values, d.found, d.made, d.is_finalized = values or {}, found, made, True
    return d


def _constants(enum: str, members) -> list[Constant]:
    known = enumerations()[enum]
    return sorted((known[m.value] for m in members if m.value in known), key=int)


def numerics_of(choice: Choice) -> list:
    """CUDNN_NUMERICAL_NOTE_… of a choice."""
    return _constants("cudnnBackendNumericalNote_t", [
                      n for n in notes_of(choice) if isinstance(n, numerical_note)])


def behavior_of(choice: Choice) -> list:
    """CUDNN_BEHAVIOR_NOTE_… of a choice."""
    return _constants("cudnnBackendBehaviorNote_t", [
                      n for n in notes_of(choice) if isinstance(n, behavior_note)])


def knobs_of(choice: Choice) -> list:
    """KNOB_INFO descriptors of the costliest part of a choice."""
    return [_finalized("KNOB_INFO", dict(
        KNOB_INFO_TYPE=[constant(KNOB_TYPE + r.knob.api)], KNOB_INFO_MAXIMUM_VALUE=[r.most],
        KNOB_INFO_MINIMUM_VALUE=[r.least], KNOB_INFO_STRIDE=[r.stride]))
        for r in ranges(main_part(choice), choice.facts)]


def turned_by(choice: Choice, knobs: list) -> Choice:
    """The choice with its knobs turned by KNOB_CHOICE descriptors."""
    wanted: dict = {}
    for one in knobs:
        type_ = one.value("KNOB_CHOICE_KNOB_TYPE")
        if type_ in wanted:
            raise BadParam(f"ENGINECFG_KNOB_CHOICES must have each knob once; got {type_!r} twice",
                           status9="BAD_PARAM_DUPLICATED_ENTRIES")
        wanted[type_] = one.value("KNOB_CHOICE_KNOB_VALUE")
    numbers = {type_.name.removeprefix(KNOB_TYPE): value for type_, value in wanted.items()}
    return turned("build", choice, numbers) if numbers else choice


def configs_of(graph, choices: list) -> list:
    """ENGINECFG descriptors of choices, each of an engine of its own."""
    from .making import _config, _engine
    made = []
    for choice in choices:
        engines = graph.made.engines(choice.facts)
        texts = [way.text for way in engines]
        if choice.text not in texts:             # of another mode
            engines.append(choice)
            texts.append(choice.text)
        index, of_engine, of_config = texts.index(choice.text), {}, {}
        engine = _engine(graph.made, index, choice, of_engine)
        one = _finalized("ENGINE", of_engine, engine, dict(ENGINE_OPERATION_GRAPH=[graph],
                                                           ENGINE_GLOBAL_INDEX=[index]))
        config = _config(choice, of_config)
        made.append(_finalized("ENGINECFG", of_config, config, dict(ENGINECFG_ENGINE=[one])))
    return made

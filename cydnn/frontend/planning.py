"""From a graph to plans: what the heuristics choose, which of it is left, what is built."""
from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from .. import kernels, plan as plans
from ..given import brief, flag, several, shown, whole
from ..heuristics import Choice, Wish, best, candidates, main_part, turned
from ..layout import Layout
from ..locks import Bounded
from ..status import BadParam, NotSupported
from ..steps import Launch
from .booleans import with_room
from .device_properties import targeted
from .enums import behavior_note, build_plan_policy, heur_mode, member, numerical_note
from .errors import cudnnGraphNotSupportedError, refusals
from .knob import knob, knobs_of, numbers_of
from .notes import Filter, name_of, notes_of
from .overrides import MOST, changes_of, of_dims
from .ready import Ready
from .steps import in_words

DEFAULT_MODES = heur_mode.A, heur_mode.FALLBACK  # of a graph that is built at one go
MODES = {heur_mode.A: "a", heur_mode.B: "b", heur_mode.FALLBACK: "fallback", heur_mode.OPENSOURCE: "a"}


@dataclass(eq=False)
class Candidate:
    """A choice, and what was built of it: {device: Ready}."""
    choice: Choice
    ready: dict = field(default_factory=dict)
    is_built: bool = False


class Planning:
    """Methods that choose and build. Plans are counted without those that are deselected."""

    def _no_plans(self):
        self._known: list[Candidate] = []
        self._is_partial = False
        self.filter, self._ways, self._modes = Filter(), None, ()
        self.of_dims = Bounded(MOST)             # plans for other dims
        self._choose(None)

    def _choose(self, candidate: Candidate | None):
        """What ``execute`` runs; None: nothing yet."""
        self.chosen, self.chosen_on = candidate, {} if candidate is None else candidate.ready

    def _facts(self):
        """What plans are made for."""
        place = self.own_handle.device if self.device_property is None else self.device_property
        return targeted(place.facts, self.sm_count, self.sm_version)

    # ---- Choosing ----

    def create_execution_plans(self, modes=(heur_mode.A,)):
        """Ask the heuristics, mode by mode; a plan that two modes give counts once. Nothing is built yet."""
        modes = (modes,) if isinstance(modes, heur_mode) else modes
        words = dict.fromkeys(MODES[member("create_execution_plans", "modes", heur_mode, mode)]
                              for mode in several("create_execution_plans: modes", modes, "heur_mode"))
        self._choose(None)
        self._known, self._modes = [], tuple(words)
        self._is_partial = self._ask_for_one()
        refused = [] if self._is_partial else self._ask()
        if not self._known and refused:
            first = in_words(refused[0], self.steps)
            raise cudnnGraphNotSupportedError(first.args[0], **first.facts) from None

    def _ask_for_one(self) -> bool:
        """The plan that comes first; the others are asked for when somebody looks at them."""
        cache = self.kernel_cache
        if not self._modes or (cache is not None and self._modes[0] == "b"):
            return False
        asked = self._built_graph(), self._facts(), self._wish(self._modes[0])
        try:
            choice = best(*asked) if cache is None else cache.first(*asked)
        except NotSupported:
            return False
        self._known = [] if choice is None else [Candidate(choice)]
        return choice is not None

    @property
    def candidates(self) -> list[Candidate]:
        """All that was chosen, in order."""
        if self._is_partial:
            self._is_partial = False
            self._ask()
        return self._known

    def _wish(self, word, notes=(), without_notes=()) -> Wish:
        return Wish(mode=word, workspace_bytes=self.filter.workspace_bytes, notes=notes,
                    without_notes=without_notes)

    def _wishes(self) -> list[Wish]:
        """One for each mode; and where notes are selected that must be asked for, or engines have notes that
        are deselected, one that says so."""
        notes = dict.fromkeys([((), ()), (self.filter.asked, self.filter.unasked)])
        return [self._wish(word, *asked) for asked in notes for word in self._modes]

    def _ask(self) -> list[NotSupported]:
        """What the heuristics choose in every mode that was asked for comes first; returns why modes choose
        nothing."""
        graph, facts, cache = self._built_graph(), self._facts(), self.kernel_cache
        found, refused = [], []
        for wish in self._wishes():
            make = lambda: candidates(graph, facts, wish)
            try:
                is_kept = cache is not None and wish.mode != "b"         # the tuned table may be another
                found += cache.choices(graph, facts, wish, make) if is_kept else make()
            except NotSupported as error:
                refused.append(error)
        known = {c.choice: c for c in self._known}
        first = {choice: known.get(choice) or Candidate(choice) for choice in found}
        self._known = [*first.values(), *(c for choice, c in known.items() if choice not in first)]
        return refused

    def _engines(self) -> list[Choice]:
        """One choice for each way to compute the graph; engine ids are places in this list."""
        if self._ways is None:
            try:
                self._ways = candidates(self._built_graph(), self._facts(), Wish())
            except NotSupported:
                self._ways = []
        return self._ways

    def get_engine_count(self) -> int:
        """How many engines (or combinations of them) can compute the graph; their ids count from 0."""
        return len(self._engines())

    def _engine(self, engine_id) -> Choice:
        ways = self._engines()
        if not isinstance(engine_id, int) or not 0 <= engine_id < len(ways):
            raise BadParam(f"pygraph: engine_id must be below {len(ways)}, the engines that take the graph; "
                           f"got {shown(engine_id)}")
        return ways[engine_id]

    def get_knobs_for_engine(self, engine_id: int) -> list[knob]:
        """The knobs of an engine on this graph."""
        choice = self._engine(engine_id)
        return knobs_of(main_part(choice), choice.facts)

    def create_execution_plan(self, engine_id: int, knobs=None):
        """Add the plan of an engine with knobs ({knob_type: number}) as given; the others as the engine
        would take them. Raises BadParam for a number that a knob does not take, cudnnGraphNotSupportedError
        for numbers that it does not have together."""
        with refusals():
            numbers = numbers_of({} if knobs is None else knobs)
            choice = turned("create_execution_plan", self._engine(engine_id), numbers)
        if all(choice != known.choice for known in self.candidates):
            self.candidates.append(Candidate(choice))

    # ---- Leaving out ----

    def select_numeric_notes(self, notes):
        """Keep plans that have all of these notes. Engines whose numbers differ from those of others
        (WINOGRAD_TILE_6x6, FFT, NONDETERMINISTIC) are asked for plans only here."""
        self._noted("select_numeric_notes", numerical_note, notes, True)
        if self.filter.asked:
            self._ask_again()
        return self

    def deselect_numeric_notes(self, notes):
        """Leave out plans that have one of these notes."""
        self._noted("deselect_numeric_notes", numerical_note, notes, False)
        if self.filter.unasked:
            self._ask_again()
        return self

    def select_behavior_notes(self, notes):
        """Keep plans that have all of these notes."""
        return self._noted("select_behavior_notes", behavior_note, notes, True)

    def deselect_behavior_notes(self, notes):
        """Leave out plans that have one of these notes."""
        return self._noted("deselect_behavior_notes", behavior_note, notes, False)

    def _noted(self, method, kind, notes, is_needed):
        self.filter.add(method, kind, notes, is_needed)
        return self

    def deselect_engines(self, names):
        """Leave out plans whose name holds one of these parts."""
        self.filter.bar(names)
        return self

    def deselect_workspace_greater_than(self, workspace: int):
        """Leave out plans that need more workspace. Engines that can do with less are asked for such
        plans."""
        if (most := whole("deselect_workspace_greater_than: workspace", workspace)) < 0:
            raise BadParam(f"deselect_workspace_greater_than: workspace must be 0 bytes or more; got {most}")
        self.filter.workspace_bytes = most
        self._ask_again()
        return self

    def _ask_again(self):
        self._is_partial = False
        if self._modes:
            self._ask()

    def _left(self) -> list[Candidate]:
        """The candidates that are not left out."""
        return [candidate for candidate in self.candidates if self.filter.lets(candidate.choice)]

    def _in_turn(self):
        """``_left``, the others only after the first."""
        first = next((c for c in self._known[:1] if self._is_partial and self.filter.lets(c.choice)), None)
        if first is not None:
            yield first
        yield from (candidate for candidate in self._left() if candidate is not first)

    def _at(self, index) -> Candidate:
        left, number = self._left(), whole("pygraph: plan index", index)
        if not 0 <= number < len(left):
            raise BadParam(f"pygraph: plan index must be below {len(left)}, those left; got {number}")
        return left[number]

    def check_support(self) -> bool:
        """True when at least one plan is left; raises cudnnGraphNotSupportedError otherwise."""
        if not self._modes and not self.candidates:
            raise cudnnGraphNotSupportedError("pygraph: create_execution_plans must come first; got no plans")
        if next(self._in_turn(), None) is None:
            raise cudnnGraphNotSupportedError(f"pygraph: no plan is left of {len(self.candidates)}; "
                                              f"{self.filter}")
        return True

    # ---- Building ----

    def build_plans(self, policy=build_plan_policy.HEURISTICS_CHOICE):
        """Build the first plan that can be built, or all; the first is the one that ``execute`` runs, but for
        one that was selected or built by its index, which comes first."""
        member("build_plans", "policy", build_plan_policy, policy)
        self.check_support()
        refused, built, chosen = [], [], self.chosen
        first = [] if chosen is None or not self.filter.lets(chosen.choice) else [chosen]
        for candidate in chain(first, self._in_turn()):
            try:
                self._build(candidate)
                built.append(candidate)
            except NotSupported as error:
                refused.append(error.args[0])
            if built and policy is build_plan_policy.HEURISTICS_CHOICE:
                break
        if not built:
            raise cudnnGraphNotSupportedError("pygraph: no plan can be built:\n  " + "\n  ".join(refused))
        self._choose(built[0])

    def build_plan_at_index(self, index: int):
        """Build one plan; ``execute`` runs it from now on."""
        candidate = self._at(index)
        with refusals():
            self._build(candidate)
        self._choose(candidate)

    def _build(self, candidate: Candidate):
        """Built for the graph's own device; for another one only when it is executed there."""
        candidate.choice.steps                   # what an engine cannot do after all is said now
        if self.device_property is None and candidate.choice.facts.sm == self.own_handle.device.facts.sm:
            self._on(candidate, self.own_handle.device)
        candidate.is_built = True

    def _on(self, candidate: Candidate, device) -> Ready:
        """A candidate made executable on a device."""
        if device not in candidate.ready:
            refuse_images(candidate.choice, device)
            make = lambda: plans.made(candidate.choice, device)
            cache = self.kernel_cache
            plan = make() if cache is None else cache.plan(candidate.choice, device, make)
            plan.executable.operands.on_misfit = self.misfits
            self._describe(plan)
            candidate.ready[device] = Ready(plan, {t.key: t for t in self._tensors}, self.constants)
        return candidate.ready[device]

    def _describe(self, plan):
        """What arrays of the caller look like, where the graph has it the other way round."""
        turned = {t.key: t.turned for t in self._tensors if t.is_transposed}
        for i, below in enumerate(plan.slots):
            if turn := turned.get(below.uid):
                desc = below.desc.replace(dims=turn(below.dims), strides=turn(below.strides))
                plan.executable.operands.describe(i, desc)

    def build(self, modes=None):
        """All of the steps; without modes with the plans that are there, else in the modes A and FALLBACK."""
        self.build_operation_graph()
        if modes is not None or not self._known:
            self.create_execution_plans(DEFAULT_MODES if modes is None else modes)
        self.build_plans()

    # ---- Asking ----

    def _plan(self, index=None) -> Candidate:
        """The plan of an index that was built; None: the one that ``execute`` runs."""
        candidate = self.chosen if index is None else self._at(index)
        if candidate is None:
            raise BadParam("pygraph: a plan must be built first: build([heur_mode.A]), or "
                           "create_execution_plans and build_plans")
        if not candidate.is_built:
            built = [at for at, known in enumerate(self._left()) if known.is_built]
            raise BadParam(f"pygraph: plan {index} must be built first (build_plans, build_plan_at_index); "
                           f"built are {built}")
        return candidate

    def _asked(self, index) -> Choice:
        """The choice of a plan; of None: that which ``execute`` runs, or would build first."""
        if index is not None:
            return self._at(index).choice
        if self.chosen is None and not self._known:
            raise BadParam("pygraph: plans must be chosen first: create_execution_plans, or build")
        if self.chosen is None:
            self.check_support()
        return (self.chosen or next(self._in_turn())).choice

    @property
    def plan(self) -> plans.ExecutionPlan | None:
        """The plan that ``execute`` runs on the device of the graph's handle; None before it is built."""
        ready = self.chosen_on.get(self.own_handle.device)
        return ready and ready.plan

    def explain(self, index: int | None = None, as_data: bool = False, device=None):
        """A plan in words: which nodes each kernel computes, with engine, configuration and estimate, the
        bytes that must move, FLOP, the share of the device's bandwidth, which engines refused and why, what
        the others would take, notes, what was measured, and the steps. Nothing need be built or chosen.
        ``index``: as in ``get_plan_name_at_index``; None: the plan that ``execute`` runs. ``as_data``: the
        same as dicts. ``device``: what would run on another, such as a card that is not there: "h200"."""
        if device is not None and index is not None:
            raise BadParam(f"explain: index must be None where device is given; got {shown(index)}")
        if device is not None or index is None and self.chosen is None and not self._known:
            self.validate()
            wish = self._wish(next(iter(self._modes), "a"))
            return plans.explain(self.graph, self._facts() if device is None else device, wish, as_data)
        layout = Layout(self._asked(index))
        return layout.told() if flag("explain: as_data", as_data) else layout.explain()

    def estimate(self, index: int | None = None) -> list[dict]:
        """``explain`` as data, a row for each part: {nodes, engine, config, us, bytes, flops, bandwidth};
        ``us`` in microseconds, ``bandwidth`` a share of the device's; both None for the reference."""
        return self._asked(index).estimates()

    def get_execution_plan_count(self) -> int:
        """How many plans are left."""
        return len(self._left())

    def get_plan_name_at_index(self, index: int) -> str:
        """The engines of a plan, such as ``110:conv_fprop_mma[tile=m128n256]``."""
        return name_of(self._at(index).choice)

    def get_workspace_size(self, handle=None, override_uids=None, override_shapes=None,
                           override_strides=None) -> int:
        """Bytes of workspace that ``execute`` needs, with room to pack booleans of one byte each; it is the
        same with every ``handle``. ``override_…``: for other dims of some tensors, never more."""
        return self._room(self._plan(), override_uids, override_shapes, override_strides)

    def get_workspace_size_plan_at_index(self, index: int, handle=None, override_uids=None,
                                         override_shapes=None, override_strides=None) -> int:
        """As ``get_workspace_size``, of a plan."""
        return self._room(self._at(index), override_uids, override_shapes, override_strides)

    def _room(self, candidate: Candidate, *overrides) -> int:
        graph, candidate = self._for_dims(candidate, changes_of(self, *overrides))
        return graph._workspace_of(candidate)

    def _for_dims(self, candidate: Candidate, changes: dict) -> tuple:
        """(this graph with other dims, its plan) as the first call with these dims makes them."""
        if not changes:
            return self, candidate
        key = candidate, tuple(changes.items())
        return self.of_dims.get(key) or self.of_dims.setdefault(key, of_dims(self, candidate, changes))

    def _workspace_of(self, candidate: Candidate) -> int:
        graph = self._built_graph()
        slots = [graph.tensors[uid] for uid in graph.slots]
        return with_room(slots, candidate.choice.workspace_bytes)[1]

    def get_behavior_notes(self) -> list[behavior_note]:
        """The notes of the plan that ``execute`` runs."""
        return _behavior(self._plan().choice)

    def get_behavior_notes_for_plan_at_index(self, index: int) -> list[behavior_note]:
        """The notes of a plan."""
        return _behavior(self._at(index).choice)


def _behavior(choice: Choice) -> list:
    found = notes_of(choice)
    return [note for note in behavior_note if note in found]


def refuse_images(choice: Choice, device):
    """A plan that was made for another device runs where its kernels have images."""
    made_for, facts = choice.facts, device.facts
    if made_for.kind != facts.kind:
        raise NotSupported(f"execute: the plan is for {brief(made_for.name)} ({made_for.kind}); it cannot "
                           f"run on {device.name} ({facts.kind})")
    for _, step in choice.steps if made_for.sm != facts.sm else ():
        if isinstance(step, Launch):
            try:
                kernels.get(step.kernel).image_for(facts.sm)
            except NotSupported:
                raise NotSupported(f"execute: the plan is for sm_{made_for.sm}, and {step.kernel} has no "
                                   f"image that {device.name} (sm_{facts.sm}) can run") from None

"""Tuning a pygraph: its plans are measured on the caller's buffers, and the fastest that is right is kept."""
from __future__ import annotations

from .. import plan as plans, tune
from ..graph import Graph
from ..heuristics import tuned
from ..status import BadParam
from .errors import refusals
from .handle import get_handle
from .planning import Candidate
from .ready import Ready, by_uid


class Tuning:
    """The method that measures."""

    def autotune(self, tensor_to_device_buffer, handle=None, most: int = 20, save: bool = True, clock=None):
        """Measure at most ``most`` plans with a variant pack as ``execute`` takes it, choose the fastest that
        is right, and ``save`` it in the tuned table, where mode B finds it in every process. The plan that
        mode A takes is always among them. Outputs are written into memory of its own, so buffers stay as they
        were; workspaces too, so ask ``get_workspace_size`` behind it. ``clock``: what has ``times(calls,
        repeat)``; None: events of a GPU. Returns what was measured: ``print`` it, or take its ``runs``,
        ``best``, ``default`` and ``gain``."""
        if not self.is_built:
            raise BadParam("autotune: build_operation_graph must come first; got a graph that is not built")
        graph, at = self.graph, self.own_handle if handle is None else get_handle(handle)
        if at.device.facts != self._facts():
            raise BadParam(f"autotune: the handle must be of the device that the plans are for, "
                           f"{self._facts().name}; got {at.device.name}")
        with refusals():
            clock = tune.clock_of(at.device) if clock is None else clock
        if save:
            tuned.check(tuned.place())
        at.device.synchronize(at.stream)         # what fills the inputs
        with refusals():
            pack, scalars = self._tuned_pack(graph, by_uid(tensor_to_device_buffer), at.device)
            wish = self._wish("a", self.filter.asked)
            found = tune.tune(graph, pack, at.device, wish, most, clock, scalars, self.filter.lets,
                              self._made)
        if save:
            found.save()
        self._take(found.best.choice)
        return found

    def _tuned_pack(self, graph: Graph, pack: dict, device) -> tuple:
        """({uid: memory}, numbers) of a variant pack."""
        plan = plans.build(graph, device, self._wish("a", self.filter.asked))
        ready = Ready(plan, {t.key: t for t in self._tensors}, self.constants)
        pointers, scalars = ready.looked_up(pack)
        if ready.has_byte_booleans(pointers):
            raise BadParam("autotune: booleans must be packed, eight in a byte; got an array of one a byte")
        return dict(zip(graph.slots, pointers)), scalars

    def _made(self, choice, device) -> plans.ExecutionPlan:
        """A plan that takes arrays as ``execute`` does."""
        plan = plans.made(choice, device)
        plan.executable.operands.on_misfit = self.misfits
        self._describe(plan)
        return plan

    def _take(self, choice):
        """The plan that ``execute`` runs from now on; it stands first."""
        found = next((known for known in self.candidates if known.choice == choice), None)
        if found is None:
            found = Candidate(choice)
        self._known = [found, *(known for known in self.candidates if known is not found)]
        with refusals():
            self._build(found)
        self._choose(found)

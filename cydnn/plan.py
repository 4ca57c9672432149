"""Execution plans: the parts of a graph on a device, their steps with pointers resolved, and the workspace they share.

``build`` may take milliseconds; ``ExecutionPlan.execute`` costs what the launches cost.
"""
from __future__ import annotations

import threading
from dataclasses import replace

from . import device as devices
from .steps import Launch, Memset, Pointer, ReferenceCall, Scalar, Scratch
from .graph import ByValue, Graph
from .heuristics import partition
from .log import CHOICES, REASONS, log
from .status import BadParam
from .tensor import common_period

ALIGNMENT = 256                                  # bytes; of every area in the workspace


class ExecutionPlan:
    """A graph made ready for one device.

    ``slots``: TensorDescs of the tensors to give pointers for, in uid order. ``scalars``: [(key, default)] of the by-value numbers.
    ``workspace_bytes``: least size of the workspace. ``engines``: one for each part. ``steps``: Launch/Memset/ReferenceCall whose
    Pointers name a slot index (or -1, the workspace) and whose Scalars name an index into ``scalars``.
    Spec: graph API, Execution Plan Descriptor.
    """

    def __init__(self, graph: Graph, device, parts, config=None):
        self.graph, self.device, self.parts = graph, device, parts
        self.slots = [graph.tensors[u] for u in graph.slots]
        self._slot_of = {u: i for i, u in enumerate(graph.slots)}
        self.written = {self._slot_of[u] for n in graph.nodes for u in n.writes() if u in self._slot_of}
        self.optional = {i for i, d in enumerate(self.slots) if d.count == 0}
        self.inplace = self._inplace_pairs()
        self.periods = self._periods()
        self.scalars, self._scalar_of = self._collect_scalars()
        raw = [(i, step) for i, part in enumerate(parts) for step in part.engine.plan(part.match, device.facts, **(config or {}))]
        self._offsets, self.workspace_bytes = self._lay_out(raw)
        self.steps = [self._resolve(step) for _, step in raw]
        self.executable = device.compile(self)

    @property
    def engines(self):
        return [part.engine for part in self.parts]

    @property
    def name(self) -> str:
        return "+".join(str(e) for e in self.engines)

    @property
    def cost_us(self) -> float:
        return sum(part.cost for part in self.parts)

    def execute(self, pointers, workspace=0, stream=0, scalars=None, workspace_bytes=None):
        """Run. ``pointers``: one for each slot, in order. ``scalars``: all of them in order, or None for the defaults.

        Asynchronous on a GPU. Raises BadParam before anything is launched when an argument cannot be.
        """
        if workspace_bytes is None:              # an address cannot say how much room there is, an array or a buffer can
            workspace_bytes = self.workspace_bytes if type(workspace) is int else room(workspace, self.workspace_bytes)
        self.executable.execute(tuple(pointers), None if scalars is None else tuple(scalars), workspace, workspace_bytes, stream)

    def run(self, pack: dict, workspace=0, stream=0, scalars=None):
        """Run with a variant pack ``{uid: pointer, or number for a by-value tensor}``; surplus entries are ignored."""
        missing = [d.label for d in self.slots if d.uid not in pack]
        if missing:
            raise BadParam(f"execute: the variant pack must hold tensor {', '.join(missing)}; got uids {sorted(pack)}")
        values = scalars or [pack.get(key, default) if isinstance(key, int) else default for key, default in self.scalars]
        self.execute([pack[d.uid] for d in self.slots], workspace, stream, values)

    def _inplace_pairs(self):
        """(written slot, read slot) that may be one buffer: what the op allows, of one layout and type, in a graph of one node."""
        if len(self.graph.nodes) > 1:
            return []
        node, pairs = self.graph.nodes[0], []
        for out, read in node.op.inplace:
            if out in node.operands and read in node.operands:
                a, b = (self.graph.tensors[node.operands[o]] for o in (out, read))
                if a.uid in self._slot_of and b.uid in self._slot_of and a.dtype is b.dtype and a.same_layout(b):
                    pairs.append((self._slot_of[a.uid], self._slot_of[b.uid]))
        return pairs

    def _periods(self):
        """{(written slot, other slot): their common period}, for tensors that may lie between each other in one buffer."""
        pairs = {(i, j): common_period(self.slots[i], self.slots[j]) for i in self.written for j in range(len(self.slots)) if i != j}
        return {pair: period for pair, period in pairs.items() if period}

    def _collect_scalars(self):
        scalars, index = [], {}
        for number, node in enumerate(self.graph.nodes):
            for name, default in node.op.scalars.items():
                value = node.scalars.get(name, default)
                key, start = (value.uid, 0.0) if isinstance(value, ByValue) else ((number, name), float(value))
                if key not in index:
                    index[key] = len(scalars)
                    scalars.append((key, start))
            for uid in node.reads():
                if self.graph.tensors[uid].is_by_value and uid not in index:
                    index[uid] = len(scalars)
                    scalars.append((uid, 0.0))
        return scalars, index

    def _lay_out(self, raw):
        """Offsets of virtual tensors and scratch areas in the workspace, by liveness over the parts; and its size."""
        live: dict = {}
        for part_number, step in raw:
            for pointer in _pointers(step):
                area = pointer.uid
                if isinstance(area, Scratch) or area not in self._slot_of:
                    first, _ = live.get(area, (part_number, part_number))
                    live[area] = (first, part_number)
        offsets, size = {}, 0
        placed = []                              # (offset, end, first part, last part)
        for area, (first, last) in sorted(live.items(), key=lambda kv: -self._area_bytes(kv[0])):
            length = -(-max(self._area_bytes(area), 1) // ALIGNMENT) * ALIGNMENT
            at = 0
            for low, high, a, b in sorted(placed):
                if a <= last and first <= b and low < at + length and at < high:
                    at = high
            offsets[area] = at
            placed.append((at, at + length, first, last))
            size = max(size, at + length)
        return offsets, size

    def _area_bytes(self, area) -> int:
        return area.bytes if isinstance(area, Scratch) else self.graph.tensors[area].bytes

    def _pointer(self, p: Pointer) -> Pointer:
        if p.uid in self._offsets:
            return Pointer(-1, self._offsets[p.uid] + p.addend)
        return Pointer(self._slot_of[p.uid], p.addend)

    def _value(self, v):
        if isinstance(v, Pointer):
            return self._pointer(v)
        if isinstance(v, Scalar):
            return Scalar(self._scalar_of[v.key], v.default)
        return v

    def _resolve(self, step):
        if isinstance(step, Launch):
            fuse = step.fuse.resolve(self._value) if step.fuse is not None else None
            return Launch(step.kernel, {k: self._value(v) for k, v in step.args.items()}, step.extra, fuse)
        if isinstance(step, Memset):
            return replace(step, pointer=self._pointer(step.pointer))
        return ReferenceCall(step.op, {k: v and (v[0], self._value(v[1])) for k, v in step.operands.items()},
                             {k: self._value(v) for k, v in step.scalars.items()})


def room(workspace, otherwise: int) -> int:
    """Bytes of a workspace given as an array, a tensor or a buffer; ``otherwise`` when the object does not say."""
    for name in ("nbytes", "bytes"):
        size = getattr(workspace, name, None)
        if isinstance(size, int):
            return size
    return otherwise


def _pointers(step):
    """Every symbolic pointer of a step."""
    if isinstance(step, Launch):
        values = [*step.args.values(), *(p for _, p in (step.fuse.parameters()[0] if step.fuse is not None else ()))]
        return [v for v in values if isinstance(v, Pointer)]
    if isinstance(step, Memset):
        return [step.pointer]
    return [v[1] for v in step.operands.values() if v is not None and isinstance(v[1], Pointer)]


_cache: dict = {}
_lock = threading.Lock()


def build(graph: Graph, device=None, only=None, fuse=True, parts=None, config=None) -> ExecutionPlan:
    """The plan of ``graph`` on ``device`` (a device, its name, or None for the default), from the cache when it was built before.

    ``only``: engines to choose from. ``fuse=False`` runs op by op. ``parts``: what ``partition`` gave for these, when it was asked before.
    ``config``: one of the engine's ``configs``, for a graph that one engine takes; without it the engine chooses.
    Raises NotSupported with each engine's reasons.
    """
    device = devices.get(device)
    key = (graph.key, device, None if only is None else tuple(e.index for e in only), fuse, tuple(sorted((config or {}).items())))
    with _lock:
        plan = _cache.get(key)
    if plan is None:
        parts = parts or partition(graph, device.facts, only, fuse)
        if config:
            _check_config(parts, device.facts, config)
        plan = ExecutionPlan(graph, device, parts, config)
        _say(graph, plan)
        with _lock:
            plan = _cache.setdefault(key, plan)
    return plan


def _check_config(parts, facts, config):
    """Refuse what the engine does not offer."""
    if len(parts) != 1:
        raise BadParam(f"build: config must belong to one engine; got {config} for the engines {' '.join(str(p.engine) for p in parts)}")
    offered = parts[0].engine.configs(parts[0].match, facts)
    if config not in offered:
        some = " ".join(map(str, offered[:8])) + (" …" if len(offered) > 8 else "")
        raise BadParam(f"build: config of {parts[0].engine} must be one of {some}; got {config}")


def _say(graph, plan):
    """Log the choice, and at the next level why the others refused. Lines begin with the problem."""
    if log.isEnabledFor(CHOICES):
        log.log(CHOICES, "%s: engine=%s workspace=%d device=%s", graph.text, plan.name, plan.workspace_bytes, plan.device.name)
    for refused in (r for part in plan.parts for r in part.refused) if log.isEnabledFor(REASONS) else ():
        log.log(REASONS, "%s: %s refused: %s", graph.text, refused.engine, "; ".join(refused.reasons))


def forget():
    """Empty the plan cache."""
    with _lock:
        _cache.clear()

"""A choice laid out: its steps with pointers resolved, slots, numbers,
and the workspace that all parts share.

Pure: made without a device, for one that may be elsewhere.
``Layout.to_json`` and ``from_json`` write it down and read it.
"""
from __future__ import annotations

import json
from dataclasses import asdict

from .device.facts import DeviceFacts
from .given import instance, reason, shown
from .graph import FromTensor, Graph, every, source_of
from .graph.text import from_rows, problems, rows
from .heuristics import ANYTHING, Choice, Wish, best, parse, tuned
from .locks import once
from .operand import of_slots
from .status import BadParam
from .steps import Launch, Memset, Pointer, Scalar, TensorMap, mapped
from .tensor import runs_of, shared_period

FORMAT = 1                                       # of the JSON form


class Layout:
    """A plan without a device: steps, slots, workspace.

    ``slots``: the Tensors to give pointers for, in uid order; ``operands``: what memory for them must be.
    ``scalars``: [(key, default)] of the by-value
    numbers. ``written``, ``optional``: numbers of slots. ``inplace``: (written slot, read slot) pairs that
    may be one buffer. ``inside``: {(written slot, read slot): bytes} of those of which the second may lie in
    the first, so far behind its beginning. ``periods``: {(written slot, other slot): their common period}.
    ``steps``: their Pointers name a slot (or -1, the workspace), their Scalars an index into ``scalars``.
    """

    def __init__(self, choice: Choice):
        self.choice, self.graph, self.facts = choice, choice.asked, choice.facts
        graph = choice.graph
        self.slots = [graph.tensors[u] for u in graph.slots]
        self._slot_of = {u: i for i, u in enumerate(graph.slots)}
        self.written = {self._slot_of[u] for n in graph.nodes for u in n.writes if u in self._slot_of}
        shared = [(self._slot_of[u], i == n.op.rank) for n in graph.nodes
                  for o in n.op.shared & n.operands.keys() for i, u in enumerate(every(n.operands[o]))]
        self.written |= {slot for slot, _ in shared}
        self.optional = {i for i, d in enumerate(self.slots) if d.count == 0}
        self.operands = of_slots(self.slots, self.written, self.optional, {slot for slot, _ in shared},
                                 {slot for slot, is_own in shared if not is_own})
        self.scalars, self._scalar_of = _numbers(self.graph)
        self._offsets, self.workspace_bytes = choice.areas
        self.inplace = sorted((self._slot_of[out], self._slot_of[read]) for out, read in choice.inplace)
        self.inside = self._inside()
        self.periods = self._periods()
        self.steps = [mapped(step, self._turn) for _, step in choice.steps]

    @classmethod
    def of(cls, graph: Graph, facts: DeviceFacts, wish: Wish = ANYTHING) -> "Layout":
        """The cheapest layout of a graph on a device with these facts, which need not be here."""
        for name, value, kind in (("graph", graph, Graph), ("facts", facts, DeviceFacts),
                                  ("wish", wish, Wish)):
            instance(f"plan: {name}", value, kind)
        return cls(best(graph, facts, wish))

    def __reduce__(self):
        return Layout, (self.choice,)

    def __repr__(self):
        return f"<layout of {self.text}: {self.choice.name} for {self.facts.name}>"

    @property
    def uids(self) -> tuple:
        """uids of the slots."""
        return tuple(self._slot_of)

    def _turn(self, value):
        if isinstance(value, Scalar):
            if value.key in self._scalar_of:
                return Scalar(self._scalar_of[value.key], value.default)
            return value.default                 # of a node that stands in another's place
        if value.uid in self._offsets:
            return Pointer(-1, self._offsets[value.uid] + value.addend)
        return Pointer(self._slot_of[value.uid], value.addend)

    @once
    def text(self) -> str:
        """What is computed: what lines of the log and errors say."""
        return problems(self.graph)

    # ---- Which buffers may be one ----

    def _inside(self) -> dict:
        """For the inputs of operations that they may be copied by lying there. A written one may be either of
        a pair."""
        found = {}
        for node in self.graph.nodes:
            for name, skip in node.op.inside(self.graph.described(node)).items():
                operand, _, number = name.partition(".")
                uid = node.operands[operand][int(number)] if number else node.operands[operand]
                if uid in self._slot_of and node.writes[0] in self._slot_of:
                    pair = self._slot_of[node.writes[0]], self._slot_of[uid]
                    found |= {pair: skip, pair[::-1]: -skip}
        return found

    def _periods(self) -> dict:
        """For tensors that may lie between each other in one buffer: those that have gaps."""
        runs = {i: runs_of(t) for i, t in enumerate(self.slots) if t.ragged is None}
        gaps = [i for i, found in runs.items() if any(run < period for period, run in found.items())]
        pairs = {(i, j): shared_period(runs[i], runs[j]) for i in gaps if i in self.written
                 for j in gaps if i != j}
        return {pair: period for pair, period in pairs.items() if period}

    # ---- For people, and on paper ----

    def explain(self) -> str:
        """Parts with engines, configurations and estimates, who refused why, what was measured, and the
        steps."""
        lines = [self.choice.explain(), *tuned.in_words(self.choice, self._default), "steps:"]
        for (part, _), step in zip(self.choice.steps, self.steps):
            lines.append(f"    part {part}: {_step_text(step)}")
        return "\n".join(lines)

    def told(self) -> dict:
        """``explain`` as lists, dicts, numbers and strings."""
        steps = [dict(part=part, step=_step_text(step))
                 for (part, _), step in zip(self.choice.steps, self.steps)]
        measured = tuned.measured(self.choice, self._default)
        return dict(self.choice.told(), problem=self.text, measured=measured, steps=steps)

    def _default(self) -> Choice:
        """What the cost model takes."""
        return best(self.choice.asked, self.choice.facts)

    def to_json(self) -> str:
        """The layout as text that ``from_json`` reads, the same wherever it is made."""
        facts = {k: v for k, v in asdict(self.facts).items() if k != "driver"}
        row = dict(
            format=FORMAT, device=facts, graph=rows(self.graph), choice=self.choice.text.split("\n"),
            workspace_bytes=self.workspace_bytes, slots=[t.uid for t in self.slots],
            scalars=[[list(key) if isinstance(key, tuple) else key, default]
                     for key, default in self.scalars],
            inplace=self.inplace, steps=[_step_row(step) for step in self.steps])
        return json.dumps(row, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Layout":
        """The layout of ``to_json``. Raises BadParam for a text that is none, or that was changed."""
        try:
            row = json.loads(text)
            facts, graph = DeviceFacts(**row["device"]), from_rows(row["graph"])
            lines = "\n".join(row["choice"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, BadParam):
                raise
            raise BadParam(f"plan: it must be JSON that a plan was written as; got {reason(error)}") from None
        if row.get("format") != FORMAT:
            raise BadParam(f"plan: format must be {FORMAT}; got {shown(row.get('format'))}")
        layout = cls(parse(lines, graph, facts))
        mine = json.loads(layout.to_json())
        for field in mine.keys() | row.keys():
            if (field in mine) != (field in row) or not is_equal(mine.get(field), row.get(field)):
                raise BadParam(f"plan: {field:.40} must be what this version of cydnn makes of graph and "
                               "choice; the text was changed, or written by another version")
        return layout


def is_equal(one, other) -> bool:
    """Alike as JSON: 1, 1.0 and true are three things."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _numbers(graph: Graph) -> tuple[list, dict]:
    """([(key, default)], {key: index}): numbers of the nodes in order,
    then those of by-value tensors that they read.

    A number of a node among others that has its default is fixed: spliced code may be without it, and so may
    an operation that several nodes amount to.
    """
    found: dict = {}
    for node in graph.nodes:
        for name, default in node.op.scalars.items():
            value = node.scalars.get(name, default)
            if value == default and len(graph.nodes) > 1:
                continue
            if isinstance(value, Scalar):        # the node stands in another's place
                found.setdefault(value.key, value.default)
            elif not isinstance(value, FromTensor):
                found.setdefault((min(node.writes), name), value)
            elif graph.tensors[value.uid].is_by_value:
                found.setdefault(*_given(graph.tensors[value.uid]))
        for uid in node.reads:
            if graph.tensors[uid].is_by_value:
                found.setdefault(*_given(graph.tensors[uid]))
    return list(found.items()), {key: i for i, key in enumerate(found)}


def _given(tensor) -> tuple:
    """(key, default) of a by-value tensor."""
    source = source_of(tensor)
    return source.key, source.default


def _step_text(step) -> str:
    if isinstance(step, Launch):
        marks = ", ".join(step.fuse)
        return f"{step.kernel}{f' with {marks} spliced' if marks else ''}"
    if isinstance(step, Memset):
        return f"memset of {step.bytes} bytes to {step.value}"
    return f"reference of {step.op.name}"


def _step_row(step) -> dict:
    if isinstance(step, Launch):
        fuse = {mark: dict(program=str(f.program).split("\n"), pointers=_plain(f.pointers),
                           scalars=_plain(f.scalars), numbers=list(f.numbers), divisors=list(f.divisors))
                for mark, f in step.fuse.items()}
        return dict(launch=step.kernel, args=_plain(step.args),
                    **({"extra": _plain(step.extra)} if step.extra else {}),
                    **({"fuse": fuse} if fuse else {}))
    if isinstance(step, Memset):
        return dict(memset=_plain(step.pointer), bytes=step.bytes, value=step.value)
    return dict(reference=step.op.name, operands=_plain(step.operands), scalars=_plain(step.scalars))


def _plain(value):
    """As lists, dicts, numbers and strings."""
    if isinstance(value, Pointer):
        return dict(slot=value.uid, addend=value.addend) if value.uid >= 0 else dict(workspace=value.addend)
    if isinstance(value, Scalar):
        return dict(scalar=value.key)
    if isinstance(value, TensorMap):
        return {k: _plain(v) for k, v in vars(value).items()}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (int, float, str, type(None))) else str(value)

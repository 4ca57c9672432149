"""Sequences over pygraphs: tensors, operations, plans and executions in any order, on several graphs at once,
with tensors of one in another, setters after the graph is built, handles that are gone, texts read into a
used graph.

What must hold of each call: a tensor of another graph is refused; a call that is refused leaves graph and
outputs as they were; what is built does not change, and gives the same bits behind everything else.
"""
from __future__ import annotations

import inspect

import numpy as np

import cydnn.frontend as cudnn
from cydnn.device.facts import KNOWN
from cydnn.frontend.later import Later
from cydnn.frontend.pygraph import pygraph
from cydnn.frontend.tensor import tensor

from .attack import Attack

T = cudnn.data_type
H200 = cudnn.device_properties(KNOWN["h200"])    # planned for, never executed on
MOST = 3                                         # graphs of a sequence
STEPS = ("add", "add", "add", "add", "foreign", "set", "set", "plan", "plan", "plan", "build", "execute",
         "execute", "ask", "store", "new", "handle")
PLANNING = """validate build_operation_graph create_execution_plans check_support build_plans build
    build_plan_at_index create_execution_plan deselect_engines deselect_workspace_greater_than
    select_numeric_notes deselect_numeric_notes select_behavior_notes deselect_behavior_notes""".split()
ASKING = """key serialize get_execution_plan_count get_plan_name_at_index get_workspace_size get_engine_count
    get_workspace_size_plan_at_index get_behavior_notes get_knobs_for_engine query_tensor_attributes_of_uid
    get_behavior_notes_for_plan_at_index""".split()
BESIDE = {*PLANNING, *ASKING, "execute", "execute_plan_at_index", "deserialize", "tensor", "tensor_like",
          "tensor_scalar"}
ALL = sorted(n for n, m in inspect.getmembers(pygraph, inspect.isfunction)
             if n[0] != "_" and n not in BESIDE)
METHODS = [n for n in ALL if not hasattr(Later, n)]            # those that are here
SETTERS = [n for n in dir(tensor) if n.startswith("set_")]
PARAMETERS = {}                                  # method: what its signature says


class Sequence:
    """The graphs of one sequence. ``want``: {graph: (pack, bits)} of those that have run."""

    def __init__(self, a: Attack):
        self.a, self.graphs, self.want, self.is_alone = a, [], {}, True
        self.handles = [a.front]
        self.cache = cudnn.create_kernel_cache()
        self.new()

    def new(self):
        draw = self.a.random
        types = dict(io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT) if draw.random() < .9 else {}
        handle = self.handles[-1] if self.handles[-1] in cudnn.handle.HANDLES else self.a.front
        place = dict(device_property=H200) if draw.random() < .15 else dict(handle=handle)
        g = self.a.call("pygraph", cudnn.pygraph, kernel_cache=draw.choice((None, None, self.cache)),
                        **place, **types)
        g = g or cudnn.pygraph(handle=self.a.front, **types)         # another thread has destroyed the handle
        self.graphs = [*self.graphs, g][-MOST:]
        for dims in ([1, 2, 4, 4], [1, 2, 4, 4], [2, 2, 3, 3])[:draw.randint(1, 3)]:
            g.tensor(dims, [int(np.prod(dims[i + 1:])) for i in range(4)])
        for _ in range(draw.choice((0, 1, 2, 3)) if types else 0):
            x = draw.choice([t for t in g._tensors if t.dim != (2, 2, 3, 3)])
            one = lambda: g.tensor([1, 1, 1, 1], [1, 1, 1, 1], is_pass_by_value=True)
            way = draw.choice((g.relu, g.neg, lambda x: g.add(x, g._tensors[0]),
                               lambda x: g.mul(g._tensors[0], x), lambda x: g.mul(x, one())))
            way(x).set_output(draw.random() < .8)

    def graph(self):
        return self.a.random.choice(self.graphs)

    def usual(self, g, parameter):
        """An argument that would do, by its name."""
        draw, name = self.a.random, parameter.name
        if name in ("padding", "stride", "dilation", "pre_padding", "post_padding"):
            return draw.choice(([1, 1], [0, 0], 1))
        if name == "modes":
            return [draw.choice((cudnn.heur_mode.A, cudnn.heur_mode.B, cudnn.heur_mode.FALLBACK))]
        if name in ("index", "engine_id", "uid", "axis"):
            return draw.choice((0, 0, 1, 2))
        if name in ("notes", "names", "peer_stats"):
            return []
        if name == "workspace":
            return 1 << 20
        if name == "mode":
            return draw.choice((*cudnn.reduction_mode, *cudnn.norm_forward_phase))
        return draw.choice(g._tensors) if g._tensors else None

    def arguments(self, g, method, share) -> dict:
        rows = PARAMETERS.setdefault(method.__name__, list(inspect.signature(method).parameters.values()))
        needed = {p.name: self.a.either(share, self.usual(g, p)) for p in rows
                  if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty}
        others = {p.name: self.a.either(.5, self.usual(g, p)) for p in rows
                  if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is not p.empty
                  and self.a.random.random() < share}
        return needed | others

    # ---- Calls ----

    def call(self, g, method, **kw):
        """A method; refused, it leaves the graph as it was."""
        before = shape(g)
        found = self.a.call(method.__name__, method, **kw)
        if self.a.refused and shape(g) != before:
            self.a.wrong(f"{method.__name__} is refused and has changed the graph", repr(kw))
        return found

    def method(self, g, method):
        """Any of them, with something else in a few places."""
        kw = self.arguments(g, method, self.a.random.choice((0, .1, .4)))
        for name in ("tensor_to_device_buffer", "workspace"):
            if name in kw and method.__name__.startswith("execute"):
                kw[name] = not_address(kw[name])
        self.a.call(method.__name__, method, **kw)

    def add(self, g):
        method = getattr(g, self.a.random.choice(METHODS if self.a.random.random() < .98 else ALL))
        made = self.call(g, method, **self.arguments(g, method, .1))
        for t in made if isinstance(made, list) else [made]:
            if isinstance(t, tensor) and self.a.random.random() < .5:
                self.a.call("set_output", t.set_output, True)

    def foreign(self, g):
        """A tensor of another graph, or of none."""
        others = [t for other in self.graphs if other is not g for t in other._tensors] + [tensor()]
        method = getattr(g, self.a.random.choice("relu add mul matmul conv_fprop reduction genstats".split()))
        rows = list(inspect.signature(method).parameters.values())
        names = [p for p in rows if p.name in ("input", "a", "b", "A", "B", "image", "weight")]
        kw = {p.name: self.usual(g, p) for p in rows if p.default is p.empty}
        kw |= {self.a.random.choice(names).name: self.a.random.choice(others)}
        self.call(g, method, **kw)
        if not self.a.refused:
            self.a.wrong(f"{method.__name__} takes a tensor of another graph", repr(kw))

    def set(self, g):
        if not g._tensors:
            return
        t, a = self.a.random.choice(g._tensors), self.a
        setter, before = getattr(t, a.random.choice(SETTERS)), repr(t.row())
        count = len(inspect.signature(setter).parameters)
        a.call(setter.__name__, setter, *[a.either(.6, a.random.choice((True, 1, 2, [1, 2, 4, 4], T.HALF)))
                                         for _ in range(count)])
        if (a.refused or t.is_built) and repr(t.row()) != before:
            a.wrong(f"{setter.__name__} has changed a tensor that is {'built' if t.is_built else 'refused'}",
                    before)
        a.call("row", lambda: (repr(t), t.get_dim(), t.get_stride(), t.get_uid(), t.get_data_type()))

    def plan(self, g, names):
        method = getattr(g, self.a.random.choice(names))
        self.a.call(method.__name__, method, **self.arguments(g, method, .15))

    # ---- Executing ----

    def execute(self, g):
        """What is built runs: with memory that fits, then with something else in its place."""
        a = self.a
        if g.chosen is None or not g.chosen.is_built or g.graph is None:
            a.call("execute", g.execute, a.either(.5, {}), 0)
            a.call("build", g.build, [cudnn.heur_mode.A])
            return
        pack = memory(g)
        if pack is None:
            return
        room = np.zeros(g.get_workspace_size() + 16, np.uint8)
        a.call("execute", g.execute, dict(pack), room)
        if not a.refused:
            self.same(g, {uid: pack[uid].tobytes() for uid in written(g)})
        self.misuse(g, memory(g), room)

    def same(self, g, bits):
        if self.want.setdefault(id(g), (g, bits))[1] != bits:
            self.a.wrong("a built graph gives other bits", repr(g))

    def misuse(self, g, pack, room):
        a, outs = self.a, written(g)
        before = {uid: pack[uid].tobytes() for uid in outs}
        bad, key = dict(pack), a.random.choice([*pack, 99])
        ways = (lambda: bad.pop(key, None), lambda: bad.__setitem__(key, not_address(a.any())),
                lambda: bad.__setitem__(key, np.zeros(1, np.uint8)),
                lambda: bad.__setitem__(not_address(a.any()), 1),
                lambda: [x.setflags(write=False) for x in bad.values() if isinstance(x, np.ndarray)])
        try:
            a.random.choice(ways)()
        except Exception:                        # what has no hash is no key
            return
        handle = a.random.choice((None, None, *self.handles, a.any()))
        space = a.random.choice((room, room, None, np.zeros(0, np.uint8), "x", 1.5))
        a.call("execute", g.execute, bad, space, handle=handle)
        if a.refused and any(pack[uid].tobytes() != before[uid] for uid in outs):
            a.wrong("execute is refused and has written", repr(bad))

    # ---- Paper, handles ----

    def store(self, g):
        """A text or a plan, read into another graph, or into the same."""
        a, into = self.a, self.graph()
        text = a.call("repr", repr, g)
        data = a.call("serialize", g.serialize) if a.random.random() < .5 and g.chosen else text
        data = a.misspelt(data) if isinstance(data, str) and a.random.random() < .3 else data
        self.want.pop(id(into), None)
        before = shape(into), into.chosen
        a.call("deserialize", into.deserialize, data)
        if a.refused and (shape(into), into.chosen) != before:
            a.wrong("deserialize is refused and has changed the graph", repr(data)[:300])

    def handle(self, g):
        a = self.a
        one = a.random.choice(self.handles)
        way = a.random.choice(("create", "destroy", "stream", "stream"))
        if way == "create":
            self.handles.append(a.call("create_handle", cudnn.create_handle,
                                       a.random.choice(("numpy", "numpy", a.any())))
                                or a.front)
        elif way == "destroy" and one != a.front:
            known = one in cudnn.handle.HANDLES
            a.call("destroy_handle", cudnn.destroy_handle, one)
            if a.refused == known and self.is_alone:
                a.wrong("destroy_handle of a handle that is there, or is not", repr(one))
        else:
            a.call("set_stream", cudnn.set_stream, one, a.either(.8, 0))
            a.call("get_stream", cudnn.get_stream, a.either(.3, one))

    def step(self, what):
        g = self.graph()
        if what == "new":
            self.new()
        elif what == "plan":
            self.plan(g, PLANNING)
        elif what == "ask":
            self.plan(g, ASKING)
        elif what == "build":
            self.a.call("build", g.build, [cudnn.heur_mode.A])
        else:
            getattr(self, what)(g)


def not_address(value):
    """Memory that is not there is the caller's fault: no number that could be an address."""
    is_number = hasattr(value, "__index__") and not isinstance(value, np.ndarray)
    return "x" if is_number and not (type(value) is int and value == 0) else value


def shape(g) -> tuple:
    """What a graph says of itself."""
    tensors = [(t.dim, t.stride, t.uid) for t in g._tensors]
    return g.name, tensors, [s.name for s in g.steps], g.is_built


def written(g) -> list:
    return [t.uid for t in g.graph.tensors.values() if t.kind == "memory" and t.uid in g.graph.producer]


def memory(g) -> dict | None:
    """{uid: array} of everything that the graph reads or writes; None where that is much, or of odd types."""
    below = [g.graph.tensors[uid] for uid in g._get_variant_pack_uids_sorted()]
    if any(t.bytes > 1 << 16 for t in below):
        return None
    return {t.uid: 1.0 if t.is_by_value else np.frombuffer(bytearray(t.bytes + 16), np.uint8) for t in below}


def sequences(a: Attack):
    one = Sequence(a)
    for _ in range(a.random.randint(4, 24)):
        one.step(a.random.choice(STEPS))
    for g, bits in list(one.want.values()):
        one.execute(g)

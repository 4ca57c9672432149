"""Every public entry point in its turn, with arguments that would do and with others; what none of the other
attacks reaches, this one does."""
from __future__ import annotations

import inspect
import itertools

import numpy as np

import cydnn
from cydnn import bench, cudnn, frontend, graph, heuristics, ops, plan
from cydnn.device.facts import KNOWN
from cydnn.layout import Layout

from . import pygraphs, v5
from .attack import Attack
from .entries import VERBS, entries
from .values import Shape

MANY = 48                                        # entry points of a round
T = frontend.data_type
ENTRIES = {name: function for name, function in entries().items() if name not in VERBS}
USUAL = {                                        # parameter: what does for it
    "device": ("numpy", "ptx:sm_80", None), "name": ("x", "relu", "softmax_fwd_warp_f32_8"),
    "dtype": ("f32",), "dims": ((2, 3, 4, 4), (4, 8)), "strides": ((8, 1),), "layout": ("nchw", "nhwc"),
    "uid": (1, 2),
    "text": ("softmax_fwd 4x8 f32",), "kind": ("memory", "virtual"), "alignment": (16, 4), "vector": (1, 4),
    "op": (ops.BY_NAME["softmax_fwd"](),), "x": ("f16", np.float32), "field": ("mode", "compute"),
    "operands": ({"x": 1, "y": 2}, {"x": cydnn.TensorDesc.packed("f32", (4, 8))}), "nodes": ([],),
    "heur_modes": ([frontend.heur_mode.A],), "mode": ("a", "fallback"), "status": (0, 3), "max_size": (5,)}


def pool(a: Attack) -> dict:
    """An object of each class that has public methods."""
    if "pool" not in a.kept:
        line = ops.Problem.parse("softmax_fwd 4x8 f32")
        built = plan.build(bench.graph_of(line), "numpy")
        a.kept["pool"] = {
            cydnn.TensorDesc: line.operands["x"], ops.Problem: line, Layout: built.layout,
            plan.ExecutionPlan: built, cydnn.Graph: built.graph, graph.Tensor: built.slots[0],
            heuristics.Wish: heuristics.Wish(), frontend.kernel_cache: frontend.create_kernel_cache(),
            frontend.Graph: relu(), frontend.knob: frontend.knob(),
            frontend.device_properties: frontend.device_properties(KNOWN["h200"])}
    return a.kept["pool"]


def relu() -> frontend.Graph:
    with frontend.Graph(handle=frontend.create_handle("numpy"), io_data_type=T.FLOAT) as g:
        g.relu(np.ones((2, 3), np.float32)).set_output(True)
    return g


def usual(a: Attack, one, parameter: str):
    """Something that does in a parameter's place, as far as its name says."""
    if parameter in ("graph", "other", "desc"):
        return pool(a)[{"graph": cydnn.Graph, "other": cydnn.TensorDesc, "desc": cydnn.TensorDesc}[parameter]]
    if parameter == "facts":
        return KNOWN["h200"]
    if parameter == "handle":
        return frontend.create_handle("numpy") if one is frontend.destroy_handle else a.front
    return a.random.choice(USUAL.get(parameter, (1, "x", (1, 2), None)))


def is_address(parameter: str) -> bool:
    """Memory that is not there is the caller's fault: no numbers in these places."""
    return parameter in ("pointers", "pack", "variant_pack", "workspace", "uid_to_data")


def given(a: Attack, function, share: float) -> tuple:
    """(args, keywords) by a function's signature; in a share of the places is anything."""
    try:
        rows = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [a.any()], {}
    args, kw = [], {}
    for p in rows:
        if p.kind is p.VAR_KEYWORD or p.default is not p.empty and a.random.random() < .5:
            continue
        if p.kind is p.VAR_POSITIONAL:
            args += [a.any() for _ in range(a.random.randrange(3))]
            continue
        value = a.either(share, usual(a, function, p.name))
        value = pygraphs.not_address(value) if is_address(p.name) else value
        if p.kind is p.KEYWORD_ONLY or p.default is not p.empty:
            kw[p.name] = value
        else:
            args.append(value)
    return args, kw


def one(a: Attack, name: str):
    """One entry point."""
    function = ENTRIES[name]
    short = name.rpartition(".")[2]
    if name.startswith("cudnn.") and short in v5.CALLS:
        return descriptor(a, short)
    if ".pygraph." in name:
        sequence = pygraphs.Sequence(a)
        method = getattr(sequence.graphs[0], short)
        return sequence.method(sequence.graphs[0], method)
    owner = next((made for kind, made in pool(a).items() if short in dir(kind)
                  and getattr(getattr(kind, short), "__func__", getattr(kind, short)) is function), None)
    if ".tensor." in name:
        owner = pygraphs.Sequence(a).graphs[0]._tensors[0]
    if owner is not None:
        function = getattr(owner, short)
    args, kw = given(a, function, a.random.choice((0, .3, .6)))
    if short == "graph_cache" and a.random.random() < .7:
        args = [key]
    made = a.call(name, function, *args, **kw)
    if isinstance(made, heuristics.Wish):
        a.call("build", plan.build, pool(a)[cydnn.Graph], "numpy", made)
    if made is not None and (short == "jit" or short == "graph_cache" and args[0] is key):
        decorated(a, short, made)


def key(*args):
    return args


def decorated(a: Attack, name, decorator):
    """A decorator on a function that does, or on anything."""
    def make(*args):
        g = pygraphs.Sequence(a).graphs[0]
        return a.random.choice(((g, g._tensors[:1]), a.any()))
    given = a.either(.3, make)
    function = a.call(name, decorator, given)
    if given is make and function is not None:   # what another function raises is its own
        a.call(name, function, *[a.any() for _ in range(a.random.randrange(3))])


def descriptor(a: Attack, name: str):
    desk = v5.Desk(a)
    if name == "destroy":
        desk.handle = cudnn.create("numpy")
    v5.call(desk, name, is_hostile=a.random.random() < .5, is_wrong=a.random.random() < .2)


def every_entry(a: Attack):
    """The next few, as the round's number says, and some of those that few rounds would reach."""
    start = a.turn * MANY
    for name in itertools.islice(itertools.cycle(ENTRIES), start % len(ENTRIES), start % len(ENTRIES) + MANY):
        one(a, name)


# ---- Graphs in a with block ----

def arrays(a: Attack) -> list:
    """Arrays that fit each other, and some that say odd things of themselves."""
    f = np.float32
    made = [np.ones((1, 2, 4, 4), f), np.ones((2, 2, 3, 3), f), np.ones((1, 1, 1, 1), f), np.ones((4, 8), f)]
    return made + [a.either(.5, made[0], lambda: pygraphs.not_address(a.any()))]


def wrapped(a: Attack):
    """``Graph``: its block entered and left in any order, operations on arrays, calls by place, by name."""
    memory, kw = arrays(a), {"handle": a.either(.1, a.front)}
    for name in ("inputs", "outputs", "heuristics", "workspace_alloc", "io_data_type", "name"):
        if a.random.random() < .08:
            kw[name] = a.any()
    g = a.call("Graph", frontend.Graph, **kw)
    if g is None:
        return
    steps = [lambda: a.call("enter", g.__enter__)]
    steps += [lambda: operation(a, g, memory) for _ in range(a.random.randint(1, 3))]
    steps += [lambda: a.call("exit", g.__exit__, None, None, None), lambda: named(a, g, memory),
              lambda: called(a, g, memory), lambda: called(a, g, memory)]
    if a.random.random() < .3:
        a.random.shuffle(steps)
    for step in steps:
        step()
    a.call("repr", repr, g)


def operation(a, g, memory):
    name = a.random.choice(("relu", "add", "mul", "matmul", "conv_fprop", "reduction", "build"))
    if method := a.call(name, attribute, g, name):
        count = 2 if name in ("add", "mul", "matmul", "conv_fprop") else 1
        kw = {"name": a.any()} if a.random.random() < .1 else {}
        made = a.call(name, method, *[a.either(.1, a.random.choice(memory[:4])) for _ in range(count)], **kw)
        if hasattr(made, "set_output"):
            a.call("set_output", made.set_output, True)


def attribute(g, name):
    """Python's own protocol: before the block is entered there are no methods."""
    try:
        return getattr(g, name)
    except AttributeError:
        return None


def named(a, g, memory):
    names = ["relu.0::0", "relu.0", "add.0::0", "add.0::1", 1, 2, memory[0]]
    some = lambda: a.either(.2, [a.either(.2, a.random.choice(names)) for _ in range(a.random.randrange(3))])
    a.call("set_io_tuples", g.set_io_tuples, some(), some())


def called(a, g, memory):
    way = a.random.random()
    if way < .4:
        args = [dict(zip(("relu.0::0", "add.0::0", "add.0::1", 1), memory))]
    else:
        args = [pygraphs.not_address(a.any()) if a.random.random() < .3 else a.random.choice(memory)
                for _ in range(a.random.randrange(4))]
    kw = {"handle": a.any()} if a.random.random() < .1 else {}
    a.call("Graph", g, *args, **kw)

"""The public entry points of the library, read from the library itself: functions, classes, the public
methods of classes, and the verbs of the command line."""
from __future__ import annotations

import enum
import inspect

import cydnn
from cydnn import __main__ as command_line
from cydnn import (backend, bench, cudnn, device, dtypes, frontend, graph, heuristics, kernels, layout, ops,
                   plan)

ROOMS = {                                        # room: what of it is public; None: what has no underscore
    cydnn: cydnn.__all__, cudnn: cudnn.__all__, frontend: None, backend: ("number", "words"),
    device: ("get", "names", "default"), dtypes: ("dtype",), kernels: ("get", "names", "function"),
    plan: ("build", "made", "forget", "ExecutionPlan"), layout: ("Layout",), graph: ("Tensor",),
    ops: ("Problem",), bench: ("graph_of",), heuristics: ("parse", "Wish", "best", "candidates"),
    command_line: ("info", "explain", "bench", "tune", "ptx")}
INNER = {                                        # called by the library, with what it has made or checked
    "cudnn.Handle", "cudnn.AlgoPerf", "cudnn.CuDNNAlgoPerf", "frontend.device_properties",
    "frontend.kernel_cache.choices", "frontend.kernel_cache.plan", "frontend.tensor.build",
    "frontend.tensor.like", "frontend.tensor.row", "frontend.tensor.storage", "plan.ExecutionPlan",
    "layout.Layout", "cydnn.Graph.single", "cydnn.Graph.described", "cydnn.Graph.complete",
    "cydnn.Graph.needs", "cydnn.Graph.changed",
    "heuristics.best", "heuristics.candidates", "heuristics.parse", "heuristics.Wish.allows", "plan.made"}


def plain(function):
    """The function behind a bound method."""
    return getattr(function, "__func__", function)


def name_of(function) -> str | None:
    """The name of an entry point; None for anything else."""
    return NAMES.get(id(plain(function)))


def is_entry(x) -> bool:
    if inspect.isclass(x):
        return not issubclass(x, (BaseException, enum.Enum))
    return callable(x)


def entries() -> dict:
    """{name: function}. A class is its constructor, and each of its methods."""
    found = {}
    for room, names in ROOMS.items():
        short = room.__name__.rpartition(".")[2]
        for name in names or [n for n in dir(room) if n[0] != "_"]:
            x = getattr(room, name)
            if not is_entry(x):
                continue
            found[f"{short}.{name}"] = x
            if inspect.isclass(x):
                found |= {f"{short}.{name}.{m}": plain(getattr(x, m)) for m in dir(x)
                          if m[0] != "_" and callable(getattr(x, m))}
    return {name: x for name, x in found.items() if not is_inner(name)}


def is_inner(name: str) -> bool:
    """Also the methods of what the library alone makes."""
    return name in INNER or name.startswith(("cudnn.Handle.", "cudnn.AlgoPerf.", "cudnn.CuDNNAlgoPerf."))


NAMES = {id(function): name for name, function in entries().items() if not name.startswith("__main__.")}
VERBS = [name for name in entries() if name.startswith("__main__.")]      # drawn where their words are

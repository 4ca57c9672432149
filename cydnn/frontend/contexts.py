"""Ways to write a graph in a ``with`` block or a function, and to keep what a function made."""
from __future__ import annotations

from contextlib import contextmanager
from functools import wraps

from .enums import data_type, heur_mode
from .pygraph import pygraph


@contextmanager
def graph(handle, name="cudnn_graph", io_data_type=data_type.HALF, intermediate_data_type=data_type.FLOAT,
          compute_data_type=data_type.FLOAT):
    """Yields ``(pygraph, [])``; builds nothing."""
    yield pygraph(name, io_data_type, intermediate_data_type, compute_data_type, handle), []


def jit(heur_modes=heur_mode.A, **kwargs):
    """For a function that returns ``(graph, [tensors])``: the graph is built where it has no plans, and the
    call returns ``(graph, [uids])``."""
    modes = list(heur_modes) if isinstance(heur_modes, (list, tuple)) else [heur_modes]

    def decorator(function):
        @wraps(function)
        def call(*args, **kw):
            made, tensors = function(*args, **kw)
            if made.get_execution_plan_count() <= 0:
                made.build(modes)
            return made, [t.get_uid() for t in tensors]
        return call
    return decorator


def graph_cache(key_fn, maxsize=256):
    """For a function: what it returned for an equal ``key_fn`` of its arguments is returned again; the
    first in goes first."""
    def decorator(function):
        kept: dict = {}

        @wraps(function)
        def call(*args, **kw):
            key = key_fn(*args, **kw)
            if key not in kept:
                made = function(*args, **kw)
                if len(kept) >= maxsize:
                    del kept[next(iter(kept))]
                kept[key] = made
            return kept[key]
        return call
    return decorator

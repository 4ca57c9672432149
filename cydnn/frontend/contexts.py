"""Ways to write a graph in a ``with`` block or a function, and to keep what a function made."""
from __future__ import annotations

from contextlib import contextmanager
from functools import wraps

from ..given import function, instance, several, shown, whole
from ..locks import lock
from ..status import BadParam
from .enums import data_type, heur_mode
from .pygraph import pygraph
from .tensor import tensor


@contextmanager
def graph(handle, name="cudnn_graph", io_data_type=data_type.HALF, intermediate_data_type=data_type.FLOAT,
          compute_data_type=data_type.FLOAT):
    """Yields ``(pygraph, [])``; builds nothing."""
    yield pygraph(name, io_data_type, intermediate_data_type, compute_data_type, handle), []


def jit(heur_modes=heur_mode.A, **kwargs):
    """For a function that returns ``(graph, [tensors])``: the graph is built where it has no plans, and the
    call returns ``(graph, [uids])``."""
    modes = ([heur_modes] if isinstance(heur_modes, heur_mode) else
             several("jit: heur_modes", heur_modes, "heur_mode"))

    def decorator(make):
        @wraps(function("jit: function", make))
        def call(*args, **kw):
            made, tensors = _made(make(*args, **kw))
            if made.get_execution_plan_count() <= 0:
                made.build(modes)
            return made, [t.get_uid() for t in tensors]
        return call
    return decorator


def _made(found) -> tuple:
    """The graph and the tensors that a function returned. Raises BadParam for anything else."""
    try:
        made, tensors = found
        instance("jit: the graph", made, pygraph)
        return made, [instance("jit: each of the tensors", t, tensor) for t in tensors]
    except BadParam:
        raise
    except Exception:                            # what it is made of may raise anything
        raise BadParam(f"jit: the function must return (graph, [tensors]); got {shown(found)}") from None


def _hashable(key):
    try:
        hash(key)
    except TypeError:
        raise BadParam(f"graph_cache: key_fn must return what has a hash; got {shown(key)}") from None
    return key


def graph_cache(key_fn, maxsize=256):
    """For a function: what it returned for an equal ``key_fn`` of its arguments is returned again; the
    first in goes first."""
    function("graph_cache: key_fn", key_fn)
    most = whole("graph_cache: maxsize", maxsize)
    if most < 1:
        raise BadParam(f"graph_cache: maxsize must be >= 1; got {shown(maxsize)}")

    def decorator(make):
        kept: dict = {}
        looking = lock()                         # never held while something is made

        @wraps(function("graph_cache: function", make))
        def call(*args, **kw):
            key = _hashable(key_fn(*args, **kw))
            with looking:
                if key in kept:
                    return kept[key]
            made = make(*args, **kw)
            with looking:
                if key not in kept and len(kept) >= most:
                    del kept[next(iter(kept))]
                return kept.setdefault(key, made)
        return call
    return decorator

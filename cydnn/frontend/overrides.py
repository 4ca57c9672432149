"""Plans of a pygraph for other dims and strides: the graph is inferred anew, and the plan's own engines in
their configurations compute it where they take it; else others are chosen that need no more workspace."""
from __future__ import annotations

from dataclasses import replace

from .. import heuristics
from ..given import several, wholes
from ..status import BadParam, CydnnError, NotSupported
from .errors import refusals

MOST = 256                                       # sets of dims of a graph whose plans are kept


def changes_of(g, uids, shapes, strides) -> dict:
    """{uid: (dim, stride)} of what is given otherwise than the graph was built with; the strides of a ragged
    tensor of four dims may be those of its tokens, heads and numbers. Raises BadParam."""
    uids, shapes, strides = (
        [] if given is None else several(f"execute: override_{what}", given, kind)
        for what, given, kind in (("uids", uids, "uids"), ("shapes", shapes, "dims"),
                                  ("strides", strides, "strides")))
    if not len(uids) == len(shapes) == len(strides):
        raise BadParam("execute: override_uids, override_shapes and override_strides must have equal "
                       f"lengths; got {len(uids)}, {len(shapes)} and {len(strides)}")
    found = {}
    for uid, dim, stride in zip(uids, shapes, strides):
        known = g.query_tensor_attributes_of_uid(uid)
        given = tuple([wholes(f"execute: override_{what} of uid {uid}", numbers)
                       for what, numbers in (("shapes", dim), ("strides", stride))])
        if known.ragged_offset is not None and [len(numbers) for numbers in given] == [4, 3]:
            of_token, of_head, of_number = given[1]          # of an array (tokens, heads, numbers)
            given = given[0], (known.get_stride()[0], of_head, of_token, of_number)
        if [list(numbers) for numbers in given] != [known.get_dim(), known.get_stride()]:
            found[known.key] = given
    return found


def of_dims(g, candidate, changes: dict):
    """(pygraph for other dims, its plan), of a plan of a graph."""
    with refusals():
        other = _with_dims(g, changes)
        return other, _candidate(other, candidate)


def _with_dims(g, changes: dict):
    """The same calls on tensors of which some have other dims; what was inferred is inferred anew."""
    twins = {t: _twin(t) for t in g._tensors}
    for t, twin in twins.items():
        twin.uid, twin.found, twin.is_built = t.key, None, False
        twin.dim, twin.stride = changes.get(t.key, (t.own_dim, t.own_stride))
        twin.ragged_offset = twins.get(t.ragged_offset)
    turned = lambda tensors: {name: twins[t] for name, t in tensors.items()}
    other = _twin(g)
    other._tensors = list(twins.values())
    other.steps = [replace(s, inputs=turned(s.inputs), outputs=turned(s.outputs), scalars=turned(s.scalars))
                   for s in g.steps]
    other.graph, other.is_built = None, False
    other._no_plans()
    other.filter, other._modes = g.filter, g._modes
    other.build_operation_graph()
    return other


def _twin(one):
    """A shallow copy, without the lookups of the copy module."""
    made = object.__new__(type(one))
    made.__dict__.update(one.__dict__)
    return made


def _candidate(other, candidate):
    """The plan of another's choice; where that does not serve, of the first that is left and needs no more
    workspace than its caller knows of."""
    room, facts = candidate.choice.workspace_bytes, candidate.choice.facts
    try:
        choice = heuristics.parse(candidate.choice.text, other.graph, facts)
        if choice.workspace_bytes <= room:
            return type(candidate)(choice, is_built=True)
    except CydnnError:
        pass                                     # the engines do not take these dims
    wish = heuristics.Wish(mode=next(iter(other._modes), "a"), workspace_bytes=room)
    make = lambda: heuristics.candidates(other.graph, facts, wish)
    cache = other.kernel_cache
    found = make() if cache is None or wish.mode == "b" else cache.choices(other.graph, facts, wish, make)
    choice = next((choice for choice in found if other.filter.lets(choice)), None)
    if choice is None:
        raise NotSupported(f"execute: overrides must leave a plan; got {other.filter}")
    return type(candidate)(choice, is_built=True)

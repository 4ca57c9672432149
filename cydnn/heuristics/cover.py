"""Covers: which of the offered parts make a graph together at the least cost.

Anchors first, then what attaches to them, then regions of pointwise nodes for the rest. Never dearer than
node by node, nor than any engine that takes the graph whole: both are covers like others.
"""
from __future__ import annotations

from typing import NamedTuple

from ..fusion import has_room
from ..graph import Graph, Region, bits, grow, union
from ..ops import Pointwise
from .choice import Part
from .offers import Offers

BEAM = 32                                        # covers of the anchors so far that are followed


def in_order(graph: Graph, masks) -> list[int] | None:
    """The numbers of the masks in an order in which each has what it reads; ties go to the one with the
    lowest node. Nodes outside of all masks stand alone. None where they wait for each other."""
    covered, waiting = 0, []
    for k, mask in enumerate(masks):
        covered |= mask
        waiting.append((mask & -mask, k, mask))
    alone = ((1 << len(graph.nodes)) - 1) & ~covered
    waiting += [(1 << i, None, 1 << i) for i in bits(alone)]
    waiting, needs, order, done = sorted(waiting, key=lambda row: row[0]), {}, [], 0
    for _, _, mask in waiting:
        above = 0
        for i in bits(mask):
            above |= graph.above[i]
        needs[mask] = above & ~mask
    while waiting:
        found = next((row for row in waiting if not needs[row[2]] & ~done), None)
        if found is None:
            return None
        waiting.remove(found)
        done |= found[2]
        order += [found[1]] if found[1] is not None else []
    return order


def waits_for_itself(parts, covered: int, region, more: int = 0) -> bool:
    """A region with the nodes ``more`` would wait for itself through others of ``parts``, which cover the
    nodes ``covered`` and run in some order."""
    graph, mask = region.graph, region.mask | more
    before, after = region.above, region.below
    for i in bits(more):
        before |= graph.above[i]
        after |= graph.below[i]
    before, after = before & ~mask, after & ~mask
    if before & after or not covered & after:
        return bool(before & after)
    left = [part.region.mask for part in parts]
    if not any(part & before and part & ~before for part in left):
        return False                             # no part leads from behind the region to the front of it
    left = [part for part in left if part & part - 1]        # a single node brings no others along
    while brought := [part for part in left if part & after]:
        left = [part for part in left if not part & after]
        for i in bits(union(brought)):
            after |= (graph.below[i] | 1 << i) & ~mask
    return bool(before & after)


def cheapest(offers: Offers, allows=lambda part: True) -> list[Part] | None:
    """The parts of the cheapest cover, in the order in which they run; ``allows``: which parts may be in it.
    None where there is no cover. Nodes that no part could have together are covered apart, if the parts then
    do not wait for each other."""
    whole = (1 << len(offers.graph.nodes)) - 1
    for groups in (offers.groups, [whole]):
        found = [_cheapest_of(group, offers, allows) for group in groups]
        if None in found:
            return None
        parts = [part for some in found for part in some]
        order = in_order(offers.graph, [p.region.mask for p in parts])
        if order is not None:
            return [parts[k] for k in order]


def _cheapest_of(group: int, offers: Offers, allows) -> list[Part] | None:
    """The parts of the cheapest cover of some nodes."""
    best, best_us, rest = None, float("inf"), Rest(group, offers, allows)
    for us, parts in _anchor_covers(group, offers, allows):
        if us >= best_us:
            break
        full = rest.added(parts)
        if full is not None and sum(p.us for p in full) < best_us:
            best, best_us = full, sum(p.us for p in full)
    return best


# ---- Anchors ----

class State(NamedTuple):
    """Parts that cover some nodes, and the least that the pointwise nodes left over can cost."""
    us: float
    least_us: float
    parts: tuple


def _anchor_covers(group: int, offers: Offers, allows) -> list:
    """[(microseconds, parts)] that cover every anchor of a group, the cheapest first."""
    states = {0: State(0.0, offers.least_of(group), ())}
    for number in bits(group & ~offers.pointwise):
        found: dict = {}
        for covered, state in states.items():
            if covered >> number & 1:
                if _better(found, covered, state.us):
                    found[covered] = state
                continue
            for part in offers.anchored(number):
                mask = part.region.mask
                if mask & covered or not allows(part):
                    continue
                after, us = covered | mask, state.us + part.us
                if _better(found, after, us) and not waits_for_itself(state.parts, covered, part.region):
                    found[after] = State(us, state.least_us - offers.least_of(mask), (*state.parts, part))
        states = _cheapest_states(found)
    return sorted([(state.us, state.parts) for state in states.values()], key=lambda row: row[0])


def _better(states, covered, us) -> bool:
    return covered not in states or us < states[covered].us


def _cheapest_states(states) -> dict:
    """Those worth following: what pointwise nodes are left over counts with the least that they can cost."""
    if len(states) <= BEAM:
        return states
    bound = lambda row: row[1].us + row[1].least_us
    return dict(sorted(states.items(), key=bound)[:BEAM])


# ---- Pointwise nodes that no anchor took ----

class Rest:
    """Regions for the pointwise nodes that the parts of a cover leave over. Covers differ in a few nodes: the
    region of nodes that hang together is remembered."""

    def __init__(self, group: int, offers: Offers, allows):
        self.pointwise = group & offers.pointwise
        self.offers, self.graph, self.allows = offers, offers.graph, allows
        self.known: dict = {}                    # (first node, those that it hangs together with) -> Part

    def added(self, parts: tuple) -> list[Part] | None:
        """The parts with regions for the nodes that are left; the widest node begins each."""
        found, covered = list(parts), union(p.region.mask for p in parts)
        free = self.pointwise & ~covered
        for first in grow.widest_first(self.graph, bits(free)):
            if not free >> first & 1:
                continue
            part = self._region(first, free, found, covered)
            if part is None:
                return None
            found.append(part)
            covered |= part.region.mask
            free &= ~part.region.mask
        return found

    def _region(self, first: int, free: int, parts: list, covered: int) -> Part | None:
        """The part for the region around a node."""
        if not self.offers.takes_regions:
            return self._pick(self.offers.single(first))
        near = Region(self.graph, grow.connected(self.graph, first, free))
        if _may_lead_back(near, parts):
            return self._cheapest(first, near.mask, parts, covered)
        key = first, near.mask
        if key not in self.known:
            self.known[key] = self._cheapest(first, near.mask, parts, covered)
        return self.known[key]

    def _pick(self, parts) -> Part | None:
        return next((p for p in parts if self.allows(p)), None)

    def _cheapest(self, first: int, free: int, parts: list, covered: int) -> Part | None:
        """The part that saves most against its nodes one by one."""
        closed = lambda region, more: not waits_for_itself(parts, covered, region, more)
        masks = list(grow.pointwise(self.graph, first, (Pointwise,), free, closed, has_room))
        best, best_saving = None, float("-inf")
        for mask in reversed(masks):
            part = self._pick(self.offers.elementwise(mask))
            if part is None:
                continue
            if part.us <= self.offers.least_of(mask):
                return part
            alone = [self._pick(self.offers.single(i)) for i in bits(mask)]
            saving = sum(p.us if p else float("inf") for p in alone) - part.us
            if saving > best_saving:
                best, best_saving = part, saving
        return best if best_saving >= 0 else self._pick(self.offers.single(first))


def _may_lead_back(near: Region, parts: list) -> bool:
    """Some of the parts may make a region of some of the nodes ``near`` wait for itself: those that have a
    node in front of them, and one that is not or is behind them too."""
    front, other = near.above, near.below | ~near.above
    return any([mask & front and mask & other and mask & mask - 1
                for mask in [part.region.mask for part in parts]])

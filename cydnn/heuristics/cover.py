"""Covers: which of the offered parts make a graph together at the least cost.

Anchors first, then what attaches to them, then regions of pointwise nodes for the rest. Never dearer than
node by node, nor than any engine that takes the graph whole: both are covers like others.
"""
from __future__ import annotations

from ..fusion import has_room
from ..graph import Graph, bits, grow
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


def waits_for_itself(taken, region: grow.Growing, more: int = 0) -> bool:
    """A region with the nodes ``more`` would wait for itself through others of ``taken``, the masks of parts
    that run in some order."""
    graph, mask = region.graph, region.mask | more
    above, after = region.above, region.below
    for i in bits(more):
        above |= graph.above[i]
        after |= graph.below[i]
    left = [part for part in taken if part & part - 1]       # a single node brings no others along
    while True:
        brought = [part for part in left if part & after & ~mask]
        if not brought:
            return bool(above & after & ~mask)
        left = [part for part in left if not part & after & ~mask]
        for i in bits(_union(brought)):
            after |= graph.below[i] | 1 << i


def _union(masks) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def cheapest(offers: Offers, allows=lambda part: True) -> list[Part] | None:
    """The parts of the cheapest cover, in the order in which they run; ``allows``: which parts may be in it.
    None where there is no cover."""
    best, best_us = None, float("inf")
    for us, parts in _anchor_covers(offers, allows):
        if us >= best_us:
            break
        full = _with_rest(offers, parts, allows)
        if full is not None and sum(p.us for p in full) < best_us:
            best, best_us = full, sum(p.us for p in full)
    if best is None:
        return None
    order = in_order(offers.graph, [p.region.mask for p in best])
    return [best[k] for k in order]


def _anchor_covers(offers: Offers, allows) -> list:
    """[(microseconds, parts)] that cover every anchor, the cheapest first."""
    states = {0: (0.0, ())}
    for number in offers.anchors:
        found: dict = {}
        for covered, (us, parts) in states.items():
            if covered >> number & 1:
                if _better(found, covered, us):
                    found[covered] = us, parts
                continue
            for part in offers.anchored(number):
                mask = part.region.mask
                if mask & covered or not allows(part):
                    continue
                after, sum_us = covered | mask, us + part.us
                if _better(found, after, sum_us) and not waits_for_itself(
                        [p.region.mask for p in parts], grow.Growing(offers.graph, mask)):
                    found[after] = sum_us, (*parts, part)
        states = _cheapest_states(offers, found)
    return sorted(states.values(), key=lambda state: state[0])


def _better(states, covered, us) -> bool:
    return covered not in states or us < states[covered][0]


def _cheapest_states(offers, states) -> dict:
    """Those worth following: what pointwise nodes are left over counts with the least that they can cost."""
    if len(states) <= BEAM:
        return states

    def bound(row):
        covered, (us, _) = row
        return us + sum(offers.least_us(i) for i in bits(offers.pointwise & ~covered))
    return dict(sorted(states.items(), key=bound)[:BEAM])


# ---- Pointwise nodes that no anchor took ----

def _with_rest(offers: Offers, parts: tuple, allows) -> list[Part] | None:
    """The parts with regions for the pointwise nodes that are left; the widest node begins each."""
    found, taken = list(parts), [p.region.mask for p in parts]
    free = offers.pointwise & ~_union(taken)
    for first in grow.widest_first(offers.graph, bits(free)):
        if not free >> first & 1:
            continue
        part = _region(offers, first, free, taken, allows)
        if part is None:
            return None
        found.append(part)
        taken.append(part.region.mask)
        free &= ~part.region.mask
    return found


def _region(offers: Offers, first: int, free: int, taken: list, allows) -> Part | None:
    """The part for the region around a node that saves most against its nodes one by one."""
    pick = lambda parts: next((p for p in parts if allows(p)), None)
    if not offers.takes_regions:
        return pick(offers.single(first))
    closed = lambda region, more: not waits_for_itself(taken, region, more)
    masks = list(grow.pointwise(offers.graph, first, (Pointwise,), free, closed, has_room))
    best, best_saving = None, float("-inf")
    for mask in reversed(masks):
        part = pick(offers.elementwise(mask))
        if part is None:
            continue
        if part.us <= sum(offers.least_us(i) for i in bits(mask)):
            return part
        alone = [pick(offers.single(i)) for i in bits(mask)]
        saving = sum(p.us if p else float("inf") for p in alone) - part.us
        if saving > best_saving:
            best, best_saving = part, saving
    return best if best_saving >= 0 else pick(offers.single(first))

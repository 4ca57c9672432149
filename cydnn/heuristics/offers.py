"""What engines offer for the parts of a graph:
anchors with what attaches to them, and regions of pointwise nodes."""
from __future__ import annotations

from ..engines import engines_for
from ..engines.engine import memory_us
from ..fusion import has_room
from ..graph import Graph, Match, bits, grow, merged, union
from ..locks import Bounded, once
from ..ops import Pointwise
from ..status import NotSupported
from . import errata
from .choice import Part
from .wish import Wish

MOST_FORMS = 4096                                # of matches that are remembered for a device
# (facts, errata) -> what engines said of matches: form -> {engine: (configuration, microseconds), or None}
TOLD = Bounded(32)


class Offers:
    """The parts that engines offer for one graph on one device. What was asked once is remembered.

    ``is_brief``: without engines that cannot be in the cheapest cover. ``origins``: {node: mask of the nodes
    that it stands for in the graph before all changes}; None: these are its nodes.
    """

    def __init__(self, graph: Graph, facts, wish: Wish, is_brief=False, origins=None):
        self.graph, self.facts, self.wish, self.is_brief = graph, facts, wish, is_brief
        known = facts, errata.current()
        self.told = TOLD.get(known) or TOLD.setdefault(known, Bounded(MOST_FORMS))
        self._origins = origins or {node: 1 << i for i, node in enumerate(graph.nodes)}
        self.anchors = graph.anchors
        self.takes_regions = wish.mode != "fallback" and facts.kind == "cuda"        # of pointwise nodes
        self.pointwise = (1 << len(graph.nodes)) - 1 & ~sum(1 << i for i in graph.anchors)
        self._matches: dict = {}                 # mask -> Match; there is one way to take the nodes of a mask
        self._offers: dict = {}
        self._anchored: dict = {}
        self._least: dict = {}
        self._least_us: dict = {}

    def of_graph(self, graph: Graph) -> "Offers":
        """What the engines offer for the graph after a change, on the same terms."""
        stay = set(graph.nodes)
        gone = union(mask for node, mask in self._origins.items() if node not in stay)
        origins = {node: self._origins.get(node, gone) for node in graph.nodes}
        return Offers(graph, self.facts, self.wish, self.is_brief, origins)

    def origin(self, mask: int) -> int:
        """The nodes of the graph before all changes that some nodes stand for."""
        return union(self._origins[self.graph.nodes[i]] for i in bits(mask))

    # ---- One match ----

    def of(self, match: Match) -> tuple:
        """The parts that engines make of a match, the cheapest first;
        at equal cost in the order of the table."""
        mask = match.region.mask
        if mask not in self._offers:
            found = [self.offer(match, engine) for engine in self.engines(match.op)]
            self._offers[mask] = tuple(sorted([p for p in found if p is not None], key=lambda p: p.us))
        return self._offers[mask]

    def offer(self, match: Match, engine) -> Part | None:
        """The part that one engine makes of a match."""
        if not engine.fits(match):
            return None
        if match.told is None:
            match.told = self.told.setdefault(match.form, {})
        if engine not in match.told:
            match.told[engine] = self._ask(match, engine)
        return match.told[engine] and Part(match, engine, *match.told[engine])

    def _ask(self, match: Match, engine) -> tuple | None:
        """The configuration of a match that an engine takes, and its cost."""
        if not errata.accepts(engine, match, self.facts):
            return None
        try:
            config = engine.best(match, self.facts)
        except NotSupported:
            return None
        return config, engine.cost(match, self.facts, config)

    def engines(self, op) -> list:
        """The engines for an op (None: of a region) that the wish allows."""
        return [e for e in engines_for(op or Pointwise) if self.wish.allows(e)]

    def single(self, number: int) -> tuple:
        """The parts for a node alone."""
        return self.of(self._match(1 << number, lambda: Match.single(self.graph, number)))

    def elementwise(self, mask: int) -> tuple:
        """The parts for a region of pointwise nodes."""
        return self.of(self._match(mask, lambda: Match.elementwise(self.graph, mask)))

    def _match(self, mask: int, make) -> Match:
        if mask not in self._matches:
            self._matches[mask] = make()
        return self._matches[mask]

    # ---- Anchors with what attaches to them ----

    def anchored(self, number: int) -> list:
        """The parts that a node can be the anchor of: of every engine the widest region that it takes,
        those that leave off what another anchor may take, and the node alone."""
        if number not in self._anchored:
            extents, found = self._extents(number), {}
            engines = self.engines(self.graph.nodes[number].op)
            least = self._least_of(engines, number)
            for engine in sorted(engines, key=least.get):
                if not self._is_beaten(number, engine, least[engine], extents[0][0], found.values()):
                    found[engine] = self._of_engine(number, engine, extents)
            self._anchored[number] = [part for engine in engines for part in found.get(engine, ())]
        return self._anchored[number]

    @once
    def groups(self) -> list[int]:
        """Masks that make up the graph: no part has nodes of two of them."""
        links = [union(part.region.mask for part in self.anchored(i)) | 1 << i for i in self.anchors]
        free = self.pointwise if self.takes_regions else self.pointwise & ~union(links)
        while free:
            near = grow.connected(self.graph, (free & -free).bit_length() - 1, free)
            links.append(near)
            free &= ~near
        return sorted(merged(links), key=lambda mask: mask & -mask)

    def is_last(self, number: int) -> bool:
        """Another anchor's part takes a node, as its last one."""
        above = self.graph.above[number]
        return any(part.region.mask >> number & 1 for i in self.anchors if above >> i & 1
                   for part in self.anchored(i))

    def _least_of(self, engines, number: int) -> dict:
        """What each engine costs at least; the search asks the cheapest first."""
        if not self.is_brief:
            return dict.fromkeys(engines, 0.0)
        alone = self._match(1 << number, lambda: Match.single(self.graph, number))
        return {e: e.least_us(alone, self.facts) if e.fits(alone) else 0.0 for e in engines}

    def _is_beaten(self, number: int, engine, least: float, widest: int, found) -> bool:
        """A part costs less than the engine does at least, and takes all that the engine could take."""
        better = [p.region.mask for parts in found for p in parts if p.us < least]
        before = getattr(engine.takes, "before", None) if better else None
        for mask in self._with_last(number, widest, engine) if better else ():
            widest |= mask
        for operand in before.at if before else ():
            widest |= grow.before(self.graph, number, operand, before, self.pointwise)
        return any(widest & ~mask == 0 for mask in better)

    def _of_engine(self, number: int, engine, extents) -> list:
        """An engine that takes a region is not dearer than itself with less, and the rest behind it."""
        extents = extents if getattr(engine.takes, "behind", None) else extents[-1:]
        return self._of_extents(number, engine, extents) + [
            part for mask, _ in extents for wider in self._with_last(number, mask, engine)
            for part in self._with_before(number, wider, engine)]

    def _with_last(self, number: int, mask: int, engine) -> list:
        """The region with a last node that the engine takes behind it."""
        ops = getattr(engine.takes, "last", ())
        if not ops or self.wish.mode == "fallback":
            return []
        return grow.last(self.graph, number, mask, ops, ~self.pointwise & ~mask)

    def _of_extents(self, number: int, engine, extents) -> list:
        """Of the regions without a last node."""
        found = self._with_before(number, extents[0][0], engine)
        if found or len(extents) == 1:
            stops = [mask for mask, is_stop in extents[1:] if is_stop]
            return found + [part for mask in stops for part in self._with_before(number, mask, engine)]
        alone = self._with_before(number, extents[-1][0], engine)
        if not alone:
            return []                            # what it refuses is not in what follows
        for mask, is_stop in extents[1:-1]:
            if not found or is_stop:
                found += self._with_before(number, mask, engine)
        return found + alone

    def _extents(self, number: int) -> list:
        """[(mask, whether it is worth a look although a wider one is taken)], the widest first."""
        core = 1 << number
        below = [core]
        if self.wish.mode != "fallback":
            below += grow.behind(self.graph, number, (Pointwise,), self.pointwise, has_room)
        others = ~self.pointwise & ~core & ~self.graph.above[number]
        stops = [self._touches(wider & ~mask, others) for mask, wider in zip(below, below[1:])]
        return [(mask, i < len(stops) and stops[i]) for i, mask in reversed(list(enumerate(below)))]

    def _touches(self, mask: int, others: int) -> bool:
        """Nodes that depend on other anchors, which may take them too."""
        return any(self.graph.above[i] & others for i in bits(mask))

    def _with_before(self, number: int, mask: int, engine) -> list:
        """Parts without what may be taken in front of the anchor, and with all of it, or of one operand."""
        found, before = [self._part(number, mask, {}, engine)], getattr(engine.takes, "before", None)
        if before is not None and self.wish.mode != "fallback":
            fronts = {o: grow.before(self.graph, number, o, before, self.pointwise) for o in before.at}
            fronts = {o: m for o, m in fronts.items() if m}
            trials = [fronts] * bool(fronts) + [{o: m} for o, m in fronts.items() if len(fronts) > 1]
            wider = (self._part(number, mask, trial, engine) for trial in trials)
            found.append(next((part for part in wider if part), None))
        return [part for part in found if part is not None]

    def _part(self, number, mask, before, engine) -> Part | None:
        for nodes in before.values():
            mask |= nodes
        return self.offer(self._match(mask, lambda: Match.around(self.graph, number, mask, before)), engine)

    # ---- Bounds ----

    def least_of(self, mask: int) -> float:
        """The least that the pointwise nodes of a mask can cost one by one."""
        if mask not in self._least:
            self._least[mask] = sum([self.least_us(i) for i in bits(mask & self.pointwise)])
        return self._least[mask]

    def least_us(self, number: int) -> float:
        """No engine is faster than this for a node alone."""
        if number not in self._least_us:
            match = self._match(1 << number, lambda: Match.single(self.graph, number))
            self._least_us[number] = memory_us(match, self.facts, efficiency=1.0)
        return self._least_us[number]

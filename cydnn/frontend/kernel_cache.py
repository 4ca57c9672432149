"""What was chosen and built before: a graph that equals an earlier one is planned and built from it."""
from __future__ import annotations

import json
from collections import OrderedDict

from ..device import assembled
from ..given import instance, reason, shown
from ..graph import Graph
from ..graph.text import digest
from ..heuristics import Choice, Wish, memory, parse
from ..status import BadParam

FORMAT = 1                                       # of the JSON form
MOST, MOST_TEXTS = 256, 4096                     # plans, and lists of choices, that are kept; and their texts


class kernel_cache:
    """Choices by graph, device facts and mode, and the plans that were built of them.

    ``serialize`` writes the choices down: another process that reads them asks no engine what it would cost.
    The machine code of the kernels is kept in the user's cache folder (``CYDNN_CACHE``), by the hash of their
    PTX: that process compiles nothing. A text from a stranger brings no code.
    """

    def __init__(self):
        self._texts: OrderedDict[str, list[str]] = OrderedDict()
        self._choices: OrderedDict = OrderedDict()
        self._plans: OrderedDict = OrderedDict()
        self._came, self.is_finalized = 0, False

    def __repr__(self):
        return f"<kernel_cache of {len(self._texts)} choices, {len(self._plans)} plans>"

    def size(self) -> int:
        """How many graphs it has choices of; from the first operation graph that is built with it on."""
        return len(self._finalized("size"))

    def revision(self) -> int:
        """How many graphs came in since it was made, with those that were read."""
        self._finalized("revision")
        return self._came

    def _finalized(self, method) -> set:
        if not self.is_finalized:
            raise BadParam(f"kernel_cache: {method} must be called after build_operation_graph of a graph "
                           "with the cache; got a cache that none was built with")
        return {name.partition(" ")[0] for name in self._texts}

    def __len__(self) -> int:
        """How many lists of choices and plans it holds."""
        return len(self._texts) + len(self._plans)

    def serialize(self) -> str:
        """The choices as JSON."""
        return json.dumps(dict(format=FORMAT, choices=self._texts), sort_keys=True)

    def deserialize(self, text: str):
        """Read what ``serialize`` wrote; the cache must be empty. What does not fit a graph is chosen
        anew."""
        if self._texts:
            raise BadParam(f"kernel_cache: it must be empty to be read into; got one of {len(self._texts)} "
                           f"choices")
        try:
            row = json.loads(text)
            found, kind = row["choices"], row["format"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadParam(f"kernel_cache: the text must be JSON of serialize; got {reason(error)}") from None
        if kind != FORMAT or len(row) != 2:
            raise BadParam(f"kernel_cache: format must be {FORMAT}, beside choices; got {shown(kind)}, "
                           f"{shown(sorted(row))}")
        if not isinstance(found, dict) or not all(map(_is_texts, found.values())):
            raise BadParam(f"kernel_cache: choices must be lists of texts by name; got {shown(found)}")
        self._texts = OrderedDict(found)
        self._came = len({name.partition(" ")[0] for name in found})

    def __reduce__(self):
        return _read_cache, (self.serialize(), self.is_finalized)

    def choices(self, graph: Graph, facts, wish: Wish, make) -> list[Choice]:
        """The choices of a graph, from here or from ``make()``."""
        key = graph.key, facts, wish, memory.tables_of(wish)
        if key not in self._choices:
            name = _name(graph, facts, wish)
            found = self._read(self._texts.get(name, ()), graph, facts) or make()
            self._came += not any(known.startswith(digest(graph)) for known in self._texts)
            self._texts[name] = [choice.text for choice in found]
            self._choices[key] = found
            _bounded(self._texts, MOST_TEXTS)
            _bounded(self._choices, MOST)
        return self._choices[key]

    def first(self, graph: Graph, facts, wish: Wish) -> Choice | None:
        """The first choice of a graph that was chosen for before; None where it was not. The others are not
        read."""
        instance("kernel_cache: graph", graph, Graph)
        instance("kernel_cache: wish", wish, Wish)
        return next(iter(self._read(self._texts.get(_name(graph, facts, wish), ())[:1], graph, facts)), None)

    def _read(self, texts, graph, facts) -> list[Choice]:
        """The choices that are written down; none where an engine has changed its mind."""
        try:
            return [parse(text, graph, facts) for text in texts]
        except BadParam:
            return []

    def plan(self, choice: Choice, device, make):
        """The plan of a choice on a device, from here or from ``make()``."""
        key = choice.key, device
        if key not in self._plans:
            with assembled.keeping():
                self._plans[key] = make()
            _bounded(self._plans, MOST)
        return self._plans[key]


def _read_cache(text: str, is_finalized: bool) -> kernel_cache:
    """What a cache is pickled as: its choices."""
    cache = kernel_cache()
    cache.deserialize(text)
    cache.is_finalized = is_finalized
    return cache


def _name(graph: Graph, facts, wish: Wish) -> str:
    """By which the choices of a graph are written down."""
    notes = [*wish.notes, *(f"no {note}" for note in wish.without_notes)]
    return " ".join(map(str, (digest(graph), facts.name, f"sm_{facts.sm}", facts.sms, wish.mode,
                              wish.workspace_bytes, *notes)))


def _is_texts(lines) -> bool:
    return isinstance(lines, list) and all(isinstance(line, str) for line in lines)


def _bounded(kept: OrderedDict, most: int):
    while len(kept) > most:
        kept.popitem(last=False)


def create_kernel_cache() -> kernel_cache:
    """An empty cache, to be given to pygraphs."""
    return kernel_cache()

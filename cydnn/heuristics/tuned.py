"""The tuned table: choices that were measured, by problem and card. Mode B takes them in place of the cost
model's.

A table is a text file: heads that name a card and its driver, and below each the problems, with their times,
the version of the kernels and the choice. ``CYDNN_TUNED`` names the file; else it is ``tuned.txt`` in the
user's data folder, above those that ship in ``cydnn/heuristics/shipped``. Rows may be edited and deleted. A
file that does not end with the line ``end`` was cut, and nothing of it is used.

A row counts while the kernels that its choice and the cost model's launch are those that were measured, and
the cost model's choice is the one that it was measured against: kernels of others may come and change.
"""
from __future__ import annotations

import hashlib
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .. import files, kernels
from ..given import reason, shown
from ..graph import Graph, canonical
from ..locks import Bounded
from ..log import CHOICES, log
from ..ops import Problem
from ..status import BadParam, CydnnError, NotSupported
from ..steps import Launch
from .changes import CHANGES, changed
from .choice import Choice
from .cover import in_order
from .read import is_number, parse
from .wish import Wish

VARIABLE, MOST_BYTES = "CYDNN_TUNED", 1 << 26
HEAD = "# Measured choices of cydnn, for mode B. Rows may be edited and deleted; the last line stays `end`."
SHIPPED = Path(__file__).with_name("shipped")
_CARD = re.compile(r"card (.+), (\d{1,6}) SMs, driver (\d{1,9})")
_US = r"(\d{1,12}(?:\.\d{1,6})?) us"
_TIMES = re.compile(f"{_US}, default {_US}(?:, version ([0-9a-f]{{16}}))?")


class Card(NamedTuple):
    """What a time was measured on: the card and its driver (0: any, of facts without one)."""
    name: str
    sms: int
    driver: int

    @classmethod
    def of(cls, facts) -> "Card":
        return cls(" ".join(facts.name.split()), facts.sms, facts.driver)

    def __str__(self):
        return f"card {self.name}, {self.sms} SMs, driver {self.driver}"

    def differs(self, facts) -> str:
        """Why a row of this card is not for a device; "" where it is."""
        mine = Card.of(facts)
        if self[:2] != mine[:2]:
            return f"it was measured on {self.name} with {self.sms} SMs, this is {mine.name} with {mine.sms}"
        if mine.driver and self.driver != mine.driver:
            return f"it was measured with driver {self.driver}, this is driver {mine.driver}"
        return ""


class TunedRow(NamedTuple):
    """A choice in the canonical order of its graph's nodes, its time, and that of the cost model's choice;
    ``version``: of what was measured (``version_of``), "" counts for all."""
    text: str
    us: float
    default_us: float
    version: str = ""

    @property
    def times(self) -> str:
        """The line of a table."""
        version = f", version {self.version}" if self.version else ""
        return f"{self.us:.2f} us, default {self.default_us:.2f} us{version}"


@dataclass(eq=False)
class Table:
    """``rows``: {problem: {card: TunedRow}}. ``text`` and ``Table.parse`` write and read it."""
    rows: dict = field(default_factory=dict)

    @property
    def text(self) -> str:
        by_card: dict = {}
        for problem, mine in self.rows.items():
            for card, row in mine.items():
                by_card.setdefault(card, []).append((problem, row))
        lines = [HEAD]
        for card, found in sorted(by_card.items()):
            lines += ["", str(card)]
            for problem, row in sorted(found):
                lines += ["", problem, *(f"  {line}" for line in [row.times, *row.text.split("\n")])]
        return "\n".join([*lines, "", "end", ""])

    @classmethod
    def parse(cls, text: str) -> "Table":
        """The table of a text. Raises BadParam with the number of the line that is none of a table's."""
        if not text.endswith("\nend\n"):
            raise BadParam(f"tuned table: the last line must be `end`; got {shown(text[-20:])}: it was cut")
        table, card, problem, lines = cls(), None, None, []
        for number, line in enumerate(text.split("\n")[:-2], 1):
            if line.strip().startswith("#") or not line.strip():
                continue
            if line.startswith(" ") and problem is not None:
                lines.append(line.strip())
                continue
            table._put(problem, card, lines, number)
            found = _CARD.fullmatch(line)
            if found:
                card, problem = Card(found[1], int(found[2]), int(found[3])), None
            elif card is None or line.startswith(" "):
                _refuse(number, "there must be a `card` line above the first problem", line)
            else:
                problem, lines = _in_full(line, number), []
        table._put(problem, card, lines, number + 1)
        return table

    def _put(self, problem, card, lines, number):
        """The row that ends in front of a line."""
        if problem is None:
            return
        times = _TIMES.fullmatch(lines[0]) if lines else None
        if times is None or len(lines) < 2:
            _refuse(number - 1, f"below {shown(problem)} must stand `T us, default T us, version V`, then "
                    "its choice", lines[0] if lines else "")
        if card in self.rows.setdefault(problem, {}):
            _refuse(number - 1, f"{shown(problem)} must stand once below a card", problem)
        us, default_us, version = times.groups("")
        self.rows[problem][card] = TunedRow("\n".join(lines[1:]), float(us), float(default_us), version)

    def over(self, other: "Table") -> "Table":
        """Both tables; of two rows for one problem and card the one here."""
        rows = {problem: dict(mine) for problem, mine in other.rows.items()}
        for problem, mine in self.rows.items():
            rows.setdefault(problem, {}).update(mine)
        return Table(rows)


def _in_full(line: str, number: int) -> str:
    """A problem as graphs have it: of one written by hand, such as `softmax_fwd 64x1000 f16`, the whole."""
    words = line.split()
    if "#" in line or len(words) > 1 and "=" in words[1]:
        return line
    try:
        problem = Problem.parse(line)
        return canonical.problem_of(Graph.single(problem.op, problem.operands, alignment=problem.alignment))
    except CydnnError as error:
        _refuse(number, f"a problem must be one that benchmarks read: {error.args[0]}", line)


def _refuse(number, why, line):
    raise BadParam(f"tuned table: line {number}: {why}; got {shown(line)}")


# ---- Where tables are ----

def place() -> Path:
    """The file of ``CYDNN_TUNED``, or ``tuned.txt`` in the user's data folder."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "cydnn" / "tuned.txt"


def read(path: Path) -> Table:
    """The table of a file; an empty one where there is no file. Raises BadParam for what is none."""
    try:
        data = files.read(path, MOST_BYTES, Path(os.path.realpath(path)).parent)
        return Table.parse(data.decode().replace("\r\n", "\n"))     # as some editors end lines
    except FileNotFoundError:
        return Table()
    except (OSError, ValueError) as error:
        said = error.args[0] if isinstance(error, CydnnError) else reason(error)
        raise BadParam(f"{path}: {said}") from None


def save(rows: dict, path: Path | None = None) -> Path:
    """Put rows, {(problem, card): Row}, into a table: whoever else writes meanwhile loses nothing. Raises
    BadParam where the file is no table, which is left alone, or cannot be written."""
    path, mine = place() if path is None else path, Table()
    for (problem, card), row in rows.items():
        mine.rows.setdefault(problem, {})[card] = row
    with _held(path):
        files.write(path, mine.over(read(path)).text.encode())
    return path


def check(path: Path):
    """Raises BadParam where ``save`` would, before anything is measured."""
    with _held(path):
        read(path)


@contextmanager
def _held(path: Path):
    try:
        with files.locked(path):
            yield
    except OSError as error:
        raise BadParam(f"tuned table: {path} must be a file that can be written; got {reason(error)}: "
                       f"{VARIABLE} names another") from None


_read = Bounded(2)                               # stamps of the files -> Table


def current() -> Table:
    """The user's table above those that ship, read again when a file is another. What is no table is said in
    the log, once, and nothing of it is used."""
    try:
        paths = [place(), *sorted(SHIPPED.glob("*.txt"))]
    except RuntimeError:                         # the user has no home
        paths = sorted(SHIPPED.glob("*.txt"))
    stamps = tuple([(path, files.stamp(path)) for path in paths])
    found = _read.get(stamps)
    if found is None:
        found = Table()
        for path, stamp in stamps:
            try:
                found = found.over(read(path)) if stamp else found
            except BadParam as error:
                _say(error.args[0])
        found = _read.setdefault(stamps, found)
    return found


@lru_cache(maxsize=16)
def _say(why: str):
    """Once each."""
    log.warning("the tuned table is not used: %s", why)


# ---- A graph's row ----

def key_of(graph: Graph, facts) -> tuple:
    """(problem, card) of a graph on a device."""
    return canonical.problem_of(graph), Card.of(facts)


def lookup(graph: Graph, facts) -> tuple[TunedRow | None, str]:
    """The row of a graph for a device, and why rows of it are not used, or "" where there are none."""
    mine = current().rows
    found = mine.get(canonical.problem_of(graph), {}) if mine else {}
    fits = [card for card in found if not card.differs(facts)]
    if fits:
        return found[max(fits, key=lambda card: card.driver)], ""
    return None, "; ".join([f"a tuned row is not used: {card.differs(facts)}" for card in found])


def version_of(choice: Choice, default: Choice) -> str:
    """What a time of a choice depends on beside the card, as 16 digits: the cost model's choice, which it was
    measured against, and the images of the kernels that both launch."""
    names = {step.kernel for each in (choice, default) for _, step in each.steps if isinstance(step, Launch)}
    images = [f"{name} {kernels.get(name).image_for(choice.facts.sm).sha256}" for name in sorted(names)]
    return hashlib.sha256("\n".join([canonical_text(default), *images]).encode()).hexdigest()[:16]


def choice_of_row(row: TunedRow, graph: Graph, facts, default) -> Choice:
    """The choice of a row for a graph; ``default()``: the cost model's. Raises CydnnError where the row is no
    choice of it, or of another version."""
    choice = parse(own(row.text, graph), graph, facts)
    found = version_of(choice, default()) if row.version else ""
    if row.version != found:
        raise NotSupported(f"it was measured with version {row.version} of the kernels and of mode A's "
                           f"choice, this is {found}")
    return choice


def choice_of(graph: Graph, facts, wish: Wish, default) -> Choice | None:
    """The measured choice of a graph on a device; None where there is none that the wish allows. The log says
    why a row is not used. ``default()``: the cost model's choice."""
    if wish.mode != "b" or wish.config is not None:
        return None
    row, why = lookup(graph, facts)
    if row is not None:
        try:
            choice = choice_of_row(row, graph, facts, default)
            why = _barred(choice, wish)
            if not why:
                return choice
        except CydnnError as error:
            why = f"a tuned row is not used: {error.args[0]}"
    if why:
        log.log(CHOICES, "%s: %s", canonical.problem_of(graph), why)
    return None


def measured(choice: Choice, default) -> dict:
    """What the tuned table has of a choice's graph and device: {us, default_us, text}, the times in
    microseconds and the choice that they are of; ``why``: rows that are not used; {} where it has nothing."""
    row, why = lookup(choice.asked, choice.facts)
    if row is None:
        return {"why": why} if why else {}
    try:
        text = choice_of_row(row, choice.asked, choice.facts, default).text
    except CydnnError as error:
        return {"why": f"a tuned row is not used: {error.args[0]}"}
    return dict(us=row.us, default_us=row.default_us, text=text)


def in_words(choice: Choice, default) -> list[str]:
    """The same in lines: predicted and measured side by side, or what was measured instead."""
    found = measured(choice, default)
    if "us" not in found:
        return [found["why"]] if found else []
    if found["text"] != choice.text:
        other = "; ".join(found["text"].split("\n"))
        return [f"measured: {found['us']:.1f} us of another choice, which mode B takes: {other}"]
    off = choice.us / found["us"] - 1
    return [f"measured: {found['us']:.1f} us, predicted {choice.us:.1f} us ({100 * off:+.0f} %); mode A's "
            f"choice {found['default_us']:.1f} us"]


def _barred(choice: Choice, wish: Wish) -> str:
    """Why a wish has no use for a choice."""
    barred = [str(engine) for engine in choice.engines if not wish.allows(engine)]
    if barred:
        return f"a tuned row is not used: the wish leaves out {' '.join(barred)}"
    if wish.workspace_bytes is not None and choice.workspace_bytes > wish.workspace_bytes:
        return (f"a tuned row is not used: it needs {choice.workspace_bytes} bytes of workspace, more than "
                f"{wish.workspace_bytes}")
    return ""


# ---- A choice's text, from the graph's order of nodes to the canonical one and back ----

def canonical_text(choice: Choice) -> str:
    """The text of a choice with nodes by their places in the canonical order."""
    graph, words = choice.asked, []
    for word in choice.changes:
        way, _, number = word.partition(" ")
        words.append(f"{way} {canonical.order(graph).index(int(number))}")
        graph = changed(graph, word)
    place = {number: at for at, number in enumerate(canonical.order(choice.graph))}
    parts = [" ".join(["part", *map(str, sorted(place[i] for i in part.region.nodes))])
             + str(part)[str(part).index(":"):] for part in choice.parts]
    return "\n".join([*(["composite"] if choice.is_composite else []), *words, *sorted(parts)])


def own(text: str, graph: Graph) -> str:
    """The reverse for a graph, whose uids may be others. Raises BadParam for what is no choice of it."""
    words, parts, order = [], [], canonical.order(graph)
    for line in text.split("\n"):
        head, colon, tail = line.partition(":")
        way, *numbers = head.split() or [""]
        if not all(is_number(number) and int(number) < len(order) for number in numbers):
            raise BadParam(f"choice: nodes must be below {len(order)}; got {shown(line)}")
        mine = sorted(order[int(number)] for number in numbers)
        if not mine:
            words.append(line)                   # `composite`, or what no choice has
        elif way in CHANGES and len(mine) == 1 and not parts:
            words.append(f"{way} {mine[0]}")
            graph = changed(graph, words[-1])
            if graph is None:
                raise BadParam(f"choice: there is nothing to {way}; got {shown(line)}")
            order = canonical.order(graph)
        else:
            parts.append((sum({1 << i for i in mine}), " ".join([way, *map(str, mine)]) + colon + tail))
    turns = in_order(graph, [mask for mask, _ in parts]) or range(len(parts))
    return "\n".join([*words, *(parts[k][1] for k in turns)])

"""Find problems that the engines refuse, each in another way, and those that they just take.

    python -m lab.provoke                        # writes the files of tests/refusals/

A problem that an engine takes is changed in one place (a type, a size, a stride, the alignment, an attribute,
the device) until every reason was given. Where a number was changed, the two neighbours are found between
which the engine changes its mind.
"""
from __future__ import annotations

import random
import re
import zlib
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cydnn import device, ops
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, REFERENCE, engines_for
from cydnn.ops import Problem
from cydnn.ops.problem import to_text
from cydnn.status import CydnnError
from cydnn.tensor import TensorDesc, packed_strides, stride_order

from support.draw.alone import match
from support.draw import draw
from .refusals import Watch

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "refusals"

NAMED = {engine.name: engine for engine in BY_INDEX.values()}
CARDS = {**KNOWN, "numpy": device.get("numpy").facts}
TYPES = ("f32", "f16", "bf16", "f64", "i8", "i32", "f8_e4m3", "bool")
SIZES = (0, 1, 2, 3, 5, 8, 9, 16, 24, 33, 64, 100, 128, 256, 1000, 4096, 65535, 65536, 1 << 20, 1 << 24,
         1 << 26, 1 << 30, 1 << 31, 1 << 32, 1 << 37)
DRAWS, BASES, MOST = 400, 5, 250                 # MOST: changes of a base where each engine had another


class Change(NamedTuple):
    """Another problem; ``at``: the same change with another number, where there is one in it."""
    problem: Problem
    card: str
    what: str
    value: int = 0
    before: int = 0
    at: object = None


def reasons(engine, problem, card) -> list[str]:
    """Why an engine does not take a problem on a card."""
    return list(engine.reasons(match(problem), CARDS[card]))


def made(problem, operands=None, op=None, alignment=None) -> Problem:
    """The problem with something else in it; outputs that follow from inputs follow. Raises BadParam."""
    op, operands = op or problem.op, dict(operands or problem.operands)
    wanted = op.infer(**{n: operands[n] for n in op.reads})
    for name, want in wanted.items():
        have = operands.get(name)
        if isinstance(want, TensorDesc) and isinstance(have, TensorDesc) and want.dims != have.dims:
            operands[name] = resized(have, want.dims)
    return Problem(op, operands, alignment or problem.alignment)


def resized(d: TensorDesc, dims) -> TensorDesc:
    order = stride_order(d) if len(dims) == d.rank else "nchw"
    return TensorDesc.packed(d.dtype, dims, order)


def tensors(problem) -> dict:
    return {n: d for n, d in problem.operands.items() if isinstance(d, TensorDesc)}


def sizes(problem, card):
    """Changes of extents: of one dim of one operand, of the same dim of all, of all that are as large."""
    every = [(n, i, size) for n, d in tensors(problem).items() for i, size in enumerate(d.dims)]
    groups = dict.fromkeys(group for name, i, size in every for group in (
        ((name, i),), tuple((n, j) for n, j, s in every if j == i and s == size),
        tuple((n, j) for n, j, s in every if s == size)))
    for group in groups:
        name, i = group[0]
        size = problem.operands[name].dims[i]
        at = lambda value, group=group: made(problem, {**problem.operands, **{
            n: resized(problem.operands[n], tuple(value if (n, j) in group else s for j, s in
                                                  enumerate(problem.operands[n].dims)))
            for n in {n for n, _ in group}}})
        for value in sorted({*SIZES, size + 1, max(size - 1, 0), 2 * size, size + 8} - {size}):
            yield at, f"{name}{i}", value, size


def attributes(problem, card):
    """Changes of attributes that are numbers."""
    for name, a in type(problem.op).attributes().items():
        before = getattr(problem.op, name)
        if a.kind not in ("int", "ints"):
            continue
        at = lambda value, name=name: made(problem, op=replace(problem.op, **{name: value}))
        for value in (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 33, 40, 300, 1000, 65536):
            yield at, name, value, before if isinstance(before, int) else -1


def words(problem, card):
    """Other changes: (what, a function that makes the problem)."""
    there = tensors(problem)
    for kind in TYPES:
        yield "types", lambda k=kind: made(problem, {n: d.replace(dtype=k) for n, d in there.items()}
                                           | {n: d for n, d in problem.operands.items() if n not in there})
        for names in (*((n,) for n in there), problem.op.reads, problem.op.writes):
            yield f"type {names}", lambda k=kind, ns=names: made(problem, {
                n: d.replace(dtype=k) if n in ns and n in there else d for n, d in problem.operands.items()})
    for name, a in type(problem.op).attributes().items():
        values = {"choice": a.accepts, "flag": (True, False), "float": (0.0, 0.5, 3.0)}.get(a.kind, ())
        for value in values:
            yield name, lambda n=name, v=value: made(problem, op=replace(problem.op, **{n: v}))
    for alignment in (8, 4, 2, 1):
        yield "align", lambda a=alignment: made(problem, alignment=a)
    for name in problem.op.optional & problem.operands.keys():
        yield f"no {name}", lambda n=name: made(problem, {**problem.operands, n: None})
    for names in (*((n,) for n in there), tuple(there), problem.op.reads, problem.op.writes):
        for i in range(9):
            yield f"strides {names} {i}", lambda ns=names, i=i: made(problem, {
                n: respaced(d, i) if n in ns and n in there else d for n, d in problem.operands.items()})


def respaced(d: TensorDesc, way: int) -> TensorDesc:
    """The same dims, lying otherwise."""
    n, strides = d.rank, list(d.strides)
    if way < 2:
        return TensorDesc.packed(d.dtype, d.dims, ("nchw", "nhwc")[way])
    if way < 5:                                  # a gap behind the outermost, in all but the innermost
        outer = stride_order(d)[0] if n else 0
        for axis in range(n):
            if way == 4 and strides[axis] > 1 or way < 4 and axis == outer:
                strides[axis] = strides[axis] + 1 if way == 2 else 2 * strides[axis] + 8 * (way == 3)
        return d.replace(strides=tuple(strides))
    if way == 5:
        return d.replace(strides=tuple(2 * s for s in strides))
    if way == 6:
        return d.replace(strides=tuple(0 if i == 0 else s for i, s in enumerate(strides)))
    if way == 7:
        return TensorDesc.packed(d.dtype, d.dims, tuple(reversed(range(n))))
    return d.replace(strides=packed_strides(d.dims, (*range(1, n), 0)))


def changes(problem, card):
    """Every change that leaves a problem that an operation takes."""
    for other in CARDS:
        if other != card:
            yield Change(problem, other, "card")
    for what, make in words(problem, card):
        try:
            yield Change(make(), card, what)
        except (CydnnError, ValueError, ArithmeticError):
            continue
    for source in (sizes, attributes):
        for at, what, value, before in source(problem, card):
            try:
                yield Change(at(value), card, what, value, before, at)
            except (CydnnError, ValueError, ArithmeticError):
                continue


class Search:
    """What is found for the engines of one op.

    ``given``: {(engine, sentence): (how many reasons beside it, card, problem, text)}; ``edges``: {(engine,
    sentence): {what was changed: (card, problem that is taken, its neighbour that is not)}}.
    """

    def __init__(self, op):
        self.op, self.given, self.signs, self.edges = op, {}, {}, defaultdict(dict)
        self.rng = random.Random(zlib.crc32(op.name.encode()))
        self.engines = [e for e in engines_for(op) if e is not REFERENCE]

    def ask(self, engine, problem, card) -> list:
        """The sentences behind the reasons; all are remembered. [None] where no graph has such a problem."""
        try:
            found = reasons(engine, problem, card)
        except CydnnError:
            return [None]
        signs = [(engine, re.sub(r"[\d, ]+", "#", text)) for text in found]
        if not all(sign in self.signs for sign in signs):
            self.signs |= zip(signs, followed(engine, problem, card, found))
        named = [self.signs[sign] for sign in signs]
        for text, s in zip(found, named):
            rank, old = (len(found), len(text)), self.given.get((engine, s))
            if s is not None and (old is None or rank < old[0]):
                self.given[engine, s] = (rank, card, problem, text)
        return named

    def bases(self) -> list:
        """(problem, card, engines that take it): few, and enough for every engine."""
        counts, found = Counter(), []
        for i in range(DRAWS):
            problem, card = draw(self.op, self.rng), self.rng.choice(("h200", "h200", "a100", "t4"))
            takers = [e for e in self.engines if not self.ask(e, problem, card)]
            if any(counts[e] < BASES for e in takers):
                counts.update(takers)
                found.append((problem, card, takers))
            if i > 40 and all(counts[e] >= BASES for e in self.engines):
                break
        return found

    def run(self) -> "Search":
        begun = set()
        for problem, card, takers in self.bases():
            every = list(changes(problem, card))
            if begun.issuperset(takers):
                every = self.rng.sample(every, min(len(every), MOST))
            begun |= set(takers)
            for change in every:
                for engine in takers:
                    named = self.ask(engine, change.problem, change.card)
                    if change.at and len(named) == 1 and named[0] and change.before >= 0:
                        self.edge(engine, change, named[0])
        return self

    def edge(self, engine, change, sentence):
        """The neighbours between the number that is taken and the one that is not."""
        places = self.edges[engine, sentence]
        if change.what in places or len(places) >= 2:
            return
        taken, refused = change.before, change.value
        while abs(refused - taken) > 1:
            middle = (taken + refused) // 2
            try:
                is_taken = not self.ask(engine, change.at(middle), change.card)
            except (CydnnError, ValueError, ArithmeticError):
                return
            taken, refused = (middle, refused) if is_taken else (taken, middle)
        places[change.what] = (change.card, change.at(taken), change.at(refused))

    def problems(self) -> dict:
        """{(card, problem)}: those at the edges, and one for each sentence of each engine."""
        found = dict.fromkeys((card, str(p)) for places in self.edges.values()
                              for card, *both in places.values() for p in both)
        alone = {(e, s) for card, line in found for e in self.engines
                 for s in [self.ask(e, Problem.parse(line), card)] if len(s) == 1 for s in s}
        for (engine, s), (_, card, problem, _) in list(self.given.items()):     # asking adds to them
            if (engine, s) not in alone and (card, str(problem)) not in found:
                found[card, str(problem)] = None
                named = ((e, self.ask(e, problem, card)) for e in self.engines)
                alone |= {(e, one) for e, (one, *others) in ((e, n) for e, n in named if n) if not others}
        return found


def followed(engine, problem, card, found) -> list:
    """The sentences that reasons are, by the lines that they come from."""
    with Watch() as watch:
        reasons(engine, problem, card)
    return [watch.texts.get(text) or next((s for t, s in watch.texts.items() if t in text), None)
            for text in found]


# ---- What operations refuse ----

def wrong_operands(problem):
    """Operands of which one is not as it must be."""
    for name, d in tensors(problem).items():
        others = [None, d.replace(dtype="f64"), d.replace(dtype="i8"), d.replace(strides=(0,) * d.rank),
                  d.replace(strides=tuple(2 * s for s in d.strides)),
                  *(TensorDesc.packed(d.dtype, dims) for dims in (
                      (), d.dims[:1], d.dims[:2], d.dims[:-1], (*d.dims, 1), (*d.dims, 2), (1,) * 6,
                      (2,) * 8)),
                  *(TensorDesc.packed(d.dtype, (*d.dims[:i], size, *d.dims[i + 1:]))
                    for i, before in enumerate(d.dims) for size in (0, 1, before + 1, 2 * before + 1, 40))]
        for other in others:
            yield {**problem.operands, name: other}


def wrong_lines(op, rng):
    """Lines of an operation that is mostly refused."""
    for _ in range(12):
        problem = draw(op, rng)
        for operands in wrong_operands(problem):
            yield to_text(problem.op, operands)
            inputs = {n: d for n, d in operands.items() if n in op.reads}
            yield to_text(problem.op, {**inputs, **{n: resized_all(d) for n, d in inputs.items()}})
            yield " ".join(w for w in to_text(problem.op, inputs).split() if not w.endswith("=none"))
        line = str(problem)
        for name, a in op.attributes().items():
            for value in ("-1", "0", "7", "1,1,1,1", "2,0", "99", "9" * 19, "nan", "1.5", "-0.5", "blue"):
                kept = [w for w in line.split() if not w.startswith(f"{name}=")]
                yield " ".join([*kept, f"{name}={value}"])


def resized_all(d):
    """Rank 6 in place of what was given."""
    return TensorDesc.packed(d.dtype, (*d.dims, 1, 1, 1)[:6]) if isinstance(d, TensorDesc) else d


def refused_lines(op) -> dict:
    """{sentence: (line, text)} of what an operation and the reader of lines refuse."""
    found, rng = {}, random.Random(zlib.crc32(op.name.encode()))
    for line in dict.fromkeys(wrong_lines(op, rng)):
        with Watch() as watch:
            try:
                Problem.parse(line)
            except CydnnError as error:
                text = error.args[0]
        for s in watch.seen:
            if s.kind != "said" and s.words.search(text):
                if s not in found or len(line) < len(found[s][0]):
                    found[s] = line, text
    return found


# ---- The files ----

def counted(op, line, card) -> str:
    """How many reasons each engine of an op has not to take a problem on a card: ``210:0 211:2``."""
    p = match(Problem.parse(line))
    return " ".join(f"{e.index}:{len(e.reasons(p, CARDS[card]))}" for e in engines_for(op)
                    if e is not REFERENCE)


def fewest(op, problems) -> list:
    """Of (card, line) those that show each reason of each engine alone, beside a neighbour that is taken
    where there is one."""
    problems = list(problems)
    said = [{e.index: reasons(e, Problem.parse(line), card) for e in engines_for(op) if e is not REFERENCE}
            for card, line in problems]
    alone = lambda i: {(e, re.sub(r"[\d, ]+", "#", found[0])) for e, found in said[i].items()
                       if len(found) == 1}
    beside = lambda a, b: {(e, text) for e, text in alone(a) if not said[b][e]}
    pairs = {(i, i + 1): beside(i, i + 1) | beside(i + 1, i) for i in range(len(problems) - 1)
             if problems[i][0] == problems[i + 1][0]}
    kept = set()
    for shows in (pairs, {(i,): alone(i) for i in range(len(problems))}):
        left = set().union(*shows.values()) - set().union(*map(alone, kept))
        while left:
            best = max(shows, key=lambda rows: len(shows[rows] & left))
            left -= shows[best]
            kept.update(best)
    return [problems[i] for i in sorted(kept)]


def write(searches):
    """The three files of what was found."""
    said, lines = {}, {}
    for search in searches:
        for (engine, s), (rank, card, problem, text) in search.given.items():
            row = (len(text) + len(str(problem)), f"{card} | {engine.name} | {problem} | {text}")
            said[s] = min(said.get(s, row), row)
        for s, (line, text) in refused_lines(search.op).items():
            lines[s] = min(lines.get(s, (len(line) + 1, "")), (len(line), f"{line} | {text}"))
    edges = [f"{card} | {line} | {counted(search.op, line, card)}" for search in searches
             for card, line in fewest(search.op, search.problems())]
    for name, rows in (("engines", [row for _, row in map(said.get, sorted(said))]),
                       ("operations", [row for _, row in map(lines.get, sorted(lines))]), ("edges", edges)):
        (FOLDER / f"{name}.txt").write_text("\n".join(rows) + "\n")


def rows(name) -> list[list[str]]:
    """The cells of a file; the last one may hold bars."""
    count = {"engines": 3, "edges": 2, "operations": 1, "changes": 1}[name.removesuffix("_by_hand")]
    return [line.split(" | ", count) for line in (FOLDER / f"{name}.txt").read_text().splitlines()]


def refused(line) -> str:
    """The error of a line; "" where it is none."""
    try:
        Problem.parse(line)
    except CydnnError as error:
        return error.args[0]
    return ""


def provoked() -> tuple[set, list]:
    """(the sentences behind what the rows provoke, the rows that no longer say what they said)."""
    with Watch() as watch:
        wrong = [f"{engine}: {text}" for name in ("engines", "engines_by_hand")
                 for card, engine, line, text in rows(name)
                 if text not in reasons(NAMED[engine], Problem.parse(line), card)]
        wrong += [f"{line}: {text}" for name in ("operations", "operations_by_hand")
                  for line, text in rows(name) if text not in refused(line)]
    return watch.seen, wrong


if __name__ == "__main__":
    write([Search(op).run() for op in ops.OPS])

"""Problems near a problem: its line with one to three of its numbers changed, and perhaps a word of the op,
as long as it still parses. Always the same ones."""
from __future__ import annotations

import dataclasses
import random
import re
import zlib
from itertools import islice, zip_longest
from typing import Iterator

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.ops import Problem
from cydnn.status import CydnnError

NUMBER = re.compile(r"(?<![fiu\d.e-])\d+(?![\d.e])")         # whole ones, but for those of f16, i32 …
MOST = 1 << 18                                               # elements of an operand
FLOPS = 2e6                                                  # of a problem of ``near``
PAD, WINDOW = 24, 600
STEPS = (lambda n, r: n + 1, lambda n, r: n - 1, lambda n, r: 2 * n, lambda n, r: n // 2, lambda n, r: n + 8,
         lambda n, r: n - 8, lambda n, r: -(-n // 8) * 8, lambda n, r: -(-n // 64) * 64,
         lambda n, r: -(-n // 64) * 64 + 1, lambda n, r: n + r.randrange(64),
         lambda n, r: 3 * n + r.randrange(3), lambda n, r: n + 128, lambda n, r: 1)


def neighbours(line: str, tries: int, flops: float) -> Iterator[Problem]:
    """Distinct small problems, from near to far."""
    rng, seen = random.Random(zlib.crc32(line.encode())), {line}
    for _ in range(tries):
        text = line
        for _ in range(rng.randint(1, 3)):
            text = changed(text, rng)
        try:
            problem = _other_word(Problem.parse(text), rng)
            small = (all(0 < d.extent <= MOST and not d.is_overlapping for d in problem.descs)
                     and within(problem) and problem.op.flops(**problem.operands) <= flops)
        except (CydnnError, ZeroDivisionError):
            continue
        if small and str(problem) not in seen:
            seen.add(str(problem))
            yield problem


def within(problem) -> bool:
    """Are its pads, windows and other whole numbers such that the reference has room for what they add?"""
    most = {"pre_pad": PAD, "post_pad": PAD}
    given = {name: getattr(problem.op, name) for name, a in problem.op.attributes().items()
             if a.kind in ("int", "ints")}
    return all(n <= most.get(name, WINDOW) for name, many in given.items()
               for n in (many if isinstance(many, tuple) else (many or 0,)))


def _other_word(problem, rng):
    """Half the time, another word for one of the attributes that are words."""
    words = [f for f in dataclasses.fields(problem.op) if f.metadata.get("attribute")
             and f.metadata["attribute"].kind == "choice" and f.name != "compute"]
    if not words or rng.random() < 0.5:
        return problem
    field = rng.choice(words)
    op = dataclasses.replace(problem.op, **{field.name: rng.choice(field.metadata["attribute"].accepts)})
    return Problem(op, problem.operands)


def changed(text: str, rng, steps=STEPS) -> str:
    """One number made another by one of the steps, everywhere or (half the time) in one place."""
    places = list(NUMBER.finditer(text))
    if not places:
        return text
    place = rng.choice(places)
    new = str(max(rng.choice(steps)(int(place[0]), rng), 0))
    if rng.random() < 0.5:
        return text[:place.start()] + new + text[place.end():]
    return NUMBER.sub(lambda m: new if m[0] == place[0] else m[0], text)


def near(name: str, facts, most: int):
    """Problems near those of the contract."""
    lines = [list(neighbours(line, 4 * most, FLOPS)) for line in kernels.get(name).problems]
    found = (case for problems in zip_longest(*lines) for p in problems if p
             for case, _ in islice(debug.of_problem(name, p, facts), 1))
    return islice(found, most)

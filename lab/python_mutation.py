"""Mutation of the library's Python: which mutants do quick tests kill, and which survive?

Each mutant lives in a process of its own, forked from one that has collected the tests and run none: the code
of one function is another, nothing is remembered yet. It is killed when a test fails, or does not end. Tests
that call the function run, the quickest first; which they are is found by running each once, in another
process of that kind.

``lab/data/killers.txt`` keeps which tests were needed (function | test); a draw runs those alone.
``equivalent.txt`` has the mutants that change nothing that can be seen, and why (mutant | reason); they do
not count. Estimates of time are no part of it, nor what computes: its results are compared.
"""
from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import itertools
import os
import pickle
import random
import re
import resource
import time
import traceback
import types
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

import cydnn
from cydnn import plan
from cydnn.engines import TABLE

from . import python_mutants

PACKAGE = Path(cydnn.__file__).resolve().parent
LAB = Path(__file__).resolve().parent
KILLERS, EQUIVALENT = LAB / "data" / "killers.txt", LAB / "data" / "equivalent.txt"
BUDGET = 12.0                                    # seconds of tests for a mutant, as they take without it
PATIENCE, LEAST = 5, 5                           # a mutant may take so many times that; and seconds more
MORE_BYTES = 2 << 30
MOST, QUICK = 6, 4.0                             # tests for a mutant of a draw; seconds in which more may run


class Verdict(NamedTuple):
    """``by``: the test that failed; empty for who survived. ``tests``: how many ran at most."""
    mutant: python_mutants.Mutant
    by: str
    tests: int


def in_child(work):
    """What ``work()`` gives in a forked process (None where it ended in another way), and whether it came
    back."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            with os.fdopen(write, "wb") as out:
                out.write(pickle.dumps(work()))
            os._exit(0)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(3)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = answer.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3:
        raise RuntimeError("a process of a mutant broke; see above")
    return (pickle.loads(said), True) if said else (None, False)


def fails(item, following) -> bool:
    """Run a test; did it not pass?"""
    reports = runtestprotocol(item, nextitem=following, log=False)
    return any(r.failed for r in reports)


def calls_of(items, functions: set, living: dict) -> tuple[dict, dict, list]:
    """({function: ids of the tests that call it}, {id: its seconds}, ids of those that fail)."""
    called, seconds, wrong = defaultdict(list), {}, []
    builtins.noted = set()
    for path in {path for path, *_ in functions}:
        for function, code in python_mutants.noting(path, functions, "noted").items():
            _replace(living[function], code)
    for i, item in enumerate(items):
        builtins.noted.clear()
        start = time.process_time()
        wrong += [item.nodeid] * fails(item, items[i + 1] if i + 1 < len(items) else None)
        seconds[item.nodeid] = time.process_time() - start
        for function in builtins.noted:
            called[function].append(item.nodeid)
    return dict(called), seconds, wrong


def _replace(functions, code):
    for function in functions:
        with contextlib.suppress(ValueError):    # a variable of a closure that is another
            function.__code__ = code


def living() -> tuple[dict, list]:
    """({function: what has its code}, what remembers results)."""
    gc.unfreeze()
    found, caches = defaultdict(list), []
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType):
            code = one.__code__
            found[code.co_filename, code.co_name, code.co_firstlineno].append(one)
        elif isinstance(one, functools._lru_cache_wrapper):
            caches.append(one)
    gc.collect()
    gc.freeze()
    return found, caches


class Mutating:
    """A plugin of pytest: the collected tests run on mutants. ``verdicts``: what became of them.
    ``recorded``: {place: ids of tests}, of a draw."""

    def __init__(self, mutants, recorded=None, say=lambda text: None):
        self.mutants, self.recorded, self.say = list(mutants), recorded, say
        self.verdicts, self.wrong, self.killers = [], [], defaultdict(list)

    def pytest_runtestloop(self, session):
        needed = None if self.recorded is None else {t for tests in self.recorded.values() for t in tests}
        items = [item for item in session.items if needed is None or item.nodeid in needed]
        self.items = {item.nodeid: item for item in items}
        self.living, self.caches = living()
        functions = {m.function for m in self.mutants} if self.recorded is None else set()
        said, _ = in_child(lambda: calls_of(items, functions, self.living))
        self.called, self.seconds, self.wrong = said
        self.say(f"{len(self.items)} tests, {sum(self.seconds.values()):.0f} s; "
                 f"{len(self.wrong)} fail as it is {self.wrong[:3]}")
        for mutant in self.mutants:
            verdict = self.verdict(mutant)
            self.verdicts.append(verdict)
            if not verdict.by:
                self.say(f"alive after {verdict.tests} tests: {mutant}")
        return True

    def tests(self, mutant) -> list:
        """Ids, those first that have killed mutants of the function, then the quickest."""
        if self.recorded is not None:
            ids = [i for i in self.recorded.get(mutant.place, ()) if i in self.items and i not in self.wrong]
            spent = list(itertools.accumulate(self.seconds[i] for i in ids))
            return [i for k, i in enumerate(ids) if k < MOST or spent[k] < QUICK]
        ids = [i for i in self.called.get(mutant.function, ()) if i not in self.wrong]
        first = [i for i in self.killers[mutant.place] if i in ids]
        found, total = [], 0.0
        for one in dict.fromkeys([*first, *sorted(ids, key=self.seconds.get)]):
            total += self.seconds[one]
            if total > BUDGET and found:
                break
            found.append(one)
        return found

    def verdict(self, mutant) -> Verdict:
        ids = self.tests(mutant)
        said, came_back = in_child(lambda: self.killer(mutant, [self.items[i] for i in ids]))
        by = (said or "") if came_back else "does not end"
        if by in self.items and by not in self.killers[mutant.place]:
            self.killers[mutant.place].insert(0, by)
        return Verdict(mutant, by, len(ids))

    def killer(self, mutant, items) -> str:
        """In the child: the id of the test that fails."""
        most = sum(self.seconds.get(item.nodeid, 1.0) for item in items) * PATIENCE + LEAST
        resource.setrlimit(resource.RLIMIT_CPU, (int(most) + 1, int(most) + 1))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_BYTES,) * 2)
        try:
            code = mutant.make()
            for function in self.living[mutant.function]:
                function.__code__ = code
        except (ValueError, SyntaxError):
            return "is no Python"                # a variable of a closure is not there any more
        for cache in self.caches:
            cache.cache_clear()
        plan.forget()
        for i, item in enumerate(items):
            if fails(item, items[i + 1] if i + 1 < len(items) else None):
                return item.nodeid
        return ""


def run(paths, mutants, recorded=None, say=lambda text: None) -> list[Verdict]:
    """The verdicts of mutants by tests."""
    os.environ["CYDNN_ALL"] = "1"
    plugin = Mutating(mutants, recorded, say)
    pytest.main(["-o", "addopts=", "-p", "no:cacheprovider", "-qq", "--tb=no", "-s",
                 "--no-header", "--no-summary", "-m", "not gpu", "--rootdir", str(LAB.parent),
                 *map(str, paths)], plugins=[plugin])
    return plugin.verdicts


# ---- Rooms ----

class Room(NamedTuple):
    """``files`` and ``names`` (the last part of a qualified name) are patterns of what is mutated; ``tests``:
    paths below tests/ of the quick tests; ``near``: those of an engine, in the order in which a draw runs
    them; ``most``: for a mutant of a draw."""
    files: str
    names: str
    tests: tuple
    near: tuple = ()
    most: int = MOST


RULES = ("test_rules.py",)
RULES_OF = tuple(f"tests/test_rules.py::{test}[{{e.op.name}}]" for test in (
    "test_an_engine_says_why", "test_neighbours_of_every_edge"))
GOLDEN_OF = "tests/engines/test_golden.py::test_launches_are_the_golden_ones[{e}]"
LINES_OF = "tests/engines/test_lines.py::test_small_problems[{e}]"
ROOMS = {
    "operations": Room(
        r"ops/(?!rnn_cells|philox|problem)\w+\.py",
        r"check\w*|infer|\w*rules?|parameter_dims|out_dims|spread|geometry|_accept\w*|__post_init__|read_of"
        r"|complete|_hold|window_out|_apart|layouts|sizes|described|inputs_of|_is_\w+",
        (*RULES, "ops/test_reference.py", "ops/test_random.py", "ops/test_attributes.py", "test_tensor.py")),
    "refusals": Room(
        r"engines/.*",
        r"refuse\w*|\w*limits|\w*refusals|reasons|accepts|fits|no_variant|wrong_device|in_bytes|too_many"
        r"|_wrong", (*RULES, "heuristics/test_texts.py"), (*RULES_OF, GOLDEN_OF)),
    "launches": Room(
        r"engines/.*",
        r"plan|launch\w*|args|\w*configs\w*|best|tiles_of|form_of|variant|order|_?flags|boxes|matrices"
        r"|product|bias_launches|grid|stage|_fits",
        (*RULES, "engines/test_golden.py", "engines/test_lines.py", "engines/test_configs.py"),
        (GOLDEN_OF, LINES_OF)),
    "choices": Room(r"heuristics/.*", r".*", tuple(f"heuristics/test_{name}.py" for name in (
        "candidates", "cover", "memory", "offers", "ranked", "texts")), most=30),
    "inference": Room(r"frontend/inference\.py", r".*", ("frontend",)),
}


def mutants_of(room: str, *, with_equivalent=False) -> list:
    """Every mutant of a room, without those that are known to be equivalent."""
    files, names = ROOMS[room].files, ROOMS[room].names
    known, found = {} if with_equivalent else equivalent(), []
    for path in sorted(PACKAGE.rglob("*.py")):
        if re.fullmatch(files, path.relative_to(PACKAGE).as_posix()):
            found += python_mutants.mutants(path, lambda n: re.fullmatch(names, n.rpartition(".")[2]))
    return [m for m in found if m.text not in known]


def drawn(mutants, count: int, seed) -> list:
    return random.Random(f"{seed}").sample(mutants, min(count, len(mutants)))


def rows(path) -> list[list[str]]:
    return [line.split(" | ", 1) for line in path.read_text().splitlines()] if path.exists() else []


def equivalent() -> dict:
    """{text of a mutant: why nothing of it can be seen}"""
    return dict(rows(EQUIVALENT))


def killers() -> dict:
    """{place: tests that have killed mutants of it}; of a file and a folder, those of all its places."""
    found = defaultdict(dict)
    for place, test in rows(KILLERS):
        file = place.split()[0]
        for key in (place, file, file.rpartition("/")[0]):
            found[key][test] = None
    return {place: list(tests) for place, tests in found.items()}


def of_engines(file: str, room: str) -> list:
    """Tests near some engines that have something of a file, or are of its family."""
    module = "cydnn." + file.removesuffix(".py").replace("/", ".")
    bases = {e: [c.__module__ for c in type(e).__mro__] for e in TABLE} if file.startswith("engines/") else {}
    mine = [e for e, modules in bases.items() if module in modules] or [
        e for e, modules in bases.items() if modules[0].rpartition(".")[0] == module.rpartition(".")[0]]
    some = list(dict.fromkeys([*mine[:1], *mine[len(mine) // 2:][:1], *mine[-1:], *mine[1:2]]))
    return list(dict.fromkeys(test.format(e=e) for test in ROOMS[room].near for e in some))


def record(verdicts):
    """Keep the tests that were needed; those of functions that are no more go."""
    kept = {(v.mutant.place, v.by) for v in verdicts if "::" in v.by}
    there = {m.place for room in ROOMS for m in mutants_of(room)}
    kept |= {(place, test) for place, test in rows(KILLERS) if place in there}
    KILLERS.write_text("".join(f"{place} | {test}\n" for place, test in sorted(kept)))


def whole(room: str, count: int, seed, say) -> list[Verdict]:
    """Verdicts of drawn mutants of a room by all its tests; for a count of 0 of one of each function that has
    no test in killers.txt yet."""
    mutants = drawn(mutants_of(room), count or 1 << 30, seed)
    if not count:
        kept = killers()
        mutants = list({m.place: m for m in mutants if m.place not in kept}.values())
    return run([LAB.parent / "tests" / t for t in ROOMS[room].tests], mutants, None, say)


def draw(each: int, seed, say) -> list[Verdict]:
    """Verdicts of some mutants of every room, by the tests that have killed such."""
    kept, needed = killers(), {}
    mutants = {m: room for room in ROOMS for m in drawn(mutants_of(room), each, f"{seed} {room}")}
    for m, room in mutants.items():
        near = of_engines(m.file, room) or [
            t for k in (m.file, m.file.rpartition("/")[0]) for t in kept.get(k, ())]
        needed[m.place] = list(dict.fromkeys([*kept.get(m.place, ()), *near]))[:ROOMS[room].most]
    files = dict.fromkeys(test.partition("::")[0] for tests in needed.values() for test in tests)
    return run(files, mutants, needed, say)

"""What every attack works with: what it draws from, how it calls, what it holds against the library."""
from __future__ import annotations

import logging
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from cydnn.given import shown
from cydnn.status import CydnnError, InternalError, NotSupported

from .values import interfaces, values

MOST_MIB = {"files": 64}                         # that a round may have in use beyond what was before
MOST_SECONDS = .1                                # of the processor, for a file; more are counted
ENTRIES = f"{__package__}.entries"               # which imports the whole library
MOST_SAID = 20000                                # characters of an error
FRESH = 64                                       # rounds that share the values they draw from
PYTHON = re.compile(r"\S+\(\) (missing|got|takes)|<enum .* cannot extend")      # its own sentence on a call
SENTENCE = re.compile(r"\S+: (.* )?(must|takes) |(pickle|copy): .*; got ", re.S)
MARKS = "0123456789-+*=,:@x.nchwkrs_ \x00é²٣ef_[]{}\"\\/\n"


class Attack:
    """Rounds of one seed. ``found``: {what came out and where: (example, round)}; ``counts``: calls by
    API."""

    def __init__(self, seed: int):
        self.seed, self.found, self.counts, self.rounds = seed, {}, Counter(), Counter()
        self.slowest: dict = {}                  # API: (seconds, call)
        self.files: dict = {}                    # kind: Files
        self.drawn = Counter()                   # public entry points
        self.kept: dict = {}                     # what kinds of rounds make once
        self.number, self.api, self.kind, self.refused, self.seconds = 0, "", "", False, 0
        self.turn, self.under, self._values = 0, "", []  # ``under``: the API that calls are counted for

    @cached_property
    def front(self) -> int:
        """A handle of the front end that no round destroys, whose number none of the values is."""
        from cydnn import frontend
        return next(number for number in iter(lambda: frontend.create_handle("numpy"), None) if number > 9)

    @cached_property
    def handle(self):
        """The same of the v5 functions."""
        from cydnn import cudnn
        return cudnn.create("numpy")

    @cached_property
    def folder(self) -> Path:
        """For files; gone with ``close``."""
        return Path(tempfile.mkdtemp(prefix="hostile"))

    def close(self):
        if "folder" in self.__dict__:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- Drawing ----

    def any(self):
        return self.random.choice(self._values)

    def either(self, share: float, usual, other=None):
        """``usual``, or in a share of the draws anything (what ``other`` makes)."""
        return usual if self.random.random() >= share else self.any() if other is None else other()

    def changed(self, args) -> list:
        """Arguments, of which one or two are something else, or have an element that is."""
        args = list(args)
        for _ in range(self.random.choice((1, 1, 2)) if args else 0):
            i = self.random.randrange(len(args))
            if isinstance(args[i], (list, tuple)) and [*args[i]] and self.random.random() < .5:
                inner = [*args[i]]
                inner[self.random.randrange(len(inner))] = self.any()
                args[i] = inner
            else:
                args[i] = self.any()
        return args

    def misspelt(self, text: str) -> str:
        """A text with a few other characters."""
        found = list(text)
        for _ in range(self.random.randint(1, 3)):
            at, way = self.random.randrange(len(found) + 1), self.random.random()
            one = self.random.choice(MARKS)
            found[at:at + (way > .4)] = [one] if way < .7 else []
        return "".join(found)

    # ---- Calling ----

    def call(self, called: str, function, /, *args, **kw):
        """The result, or None; ``refused`` says which. An exception that may not come out is remembered."""
        self.counts[self.under] += 1
        self.refused = False
        if ENTRIES in sys.modules and (name := sys.modules[ENTRIES].name_of(function)):
            self.drawn[name] += 1
        start = time.thread_time()
        try:
            return function(*args, **kw)
        except Exception as error:
            self.refused = True
            self.judge(called, error, args, kw)
        finally:
            self.seconds = time.thread_time() - start
            if self.seconds > self.slowest.get(self.api, (0,))[0]:
                self.slowest[self.api] = round(self.seconds, 3), f"{called}, round {self.number}"

    def read(self, kind: str, function, /, *args):
        """``call`` of what reads one damaged file, which is counted by its kind."""
        self.under, under = "files", self.under
        found = self.call(kind, function, *args)
        self.under = under
        files, refused, beyond, longest = self.files.get(kind, (0, 0, 0, 0))
        self.files[kind] = (files + 1, refused + self.refused, beyond + (self.seconds > MOST_SECONDS),
                            max(longest, round(self.seconds, 4)))
        return found

    def judge(self, name, error, args, kw):
        is_own = isinstance(error, CydnnError) and (not isinstance(error, InternalError)
                                                    or self.api == "files")
        text = str(error)
        is_said = is_own or type(error) in (TypeError, ValueError) and (
            PYTHON.match(text) or SENTENCE.match(text))
        if is_said and (len(text) < MOST_SAID or isinstance(error, NotSupported)):
            return
        place = [f for f in traceback.extract_tb(error.__traceback__) if "/cydnn/" in f.filename][-1:]
        where = "".join(f" at {f.filename.rpartition('cydnn/')[2]}:{f.lineno}" for f in place)
        said = text[:60] if len(text) < MOST_SAID else f"{len(text)} characters"
        self.wrong(f"{type(error).__name__}: {said}{where}", f"{name} {', '.join(map(shown, args))} "
                   + " ".join(f"{k}={shown(v)}" for k, v in kw.items()))

    def wrong(self, what: str, example: str):
        self.found.setdefault(what, (f"{self.kind}: {example}", self.number))

    # ---- Rounds ----

    def run(self, table, numbers, goes_on=lambda number: True):
        """Rounds of a table of (API, function), in turn, by their numbers, as long as it ``goes_on``;
        ``number`` is then the next."""
        with self.quiet():
            for self.number in numbers:
                self.turn = self.number // len(table)
                if not goes_on(self.number):
                    return self
                self.round(self.number, *table[self.number % len(table)])
        self.number = numbers.stop
        return self

    @contextmanager
    def quiet(self):
        """Warnings and the log are not looked at; what a destructor raises is."""
        hook, level = sys.unraisablehook, logging.root.manager.disable
        sys.unraisablehook = lambda said: self.wrong(f"ignored in {said.object!r:.60}: "
                                                     f"{said.exc_type.__name__} {said.exc_value}", "")
        logging.disable(logging.CRITICAL)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                yield
        finally:
            sys.unraisablehook = hook
            logging.disable(level)

    def round(self, number, api, function):
        if number % FRESH == 0 or not self._values:
            self._values = values() + interfaces()
        self.api, self.kind = api, function.__name__
        self.under = "behind files" if api == "files" else api
        self.random = random.Random(f"{self.seed} {number}")
        self.rounds[api] += 1
        before = memory_kib("VmRSS", reset=True)
        try:
            function(self)
        except Exception:                        # a mistake of the attack itself
            self.wrong("the attack fails: " + traceback.format_exc(limit=-3).strip(), "")
        most = MOST_MIB.get(api, 256)
        if (more := memory_kib("VmHWM") - before) > most << 10:
            self.wrong(f"{function.__name__}: more than {most} MiB of memory", f"{more >> 10} MiB")


def memory_kib(line: str, reset=False) -> int:
    """A line of what Linux says of this process's memory; ``reset``: its peak is what it has now."""
    if reset:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    with open("/proc/self/status") as file:
        return next((int(row.split()[1]) for row in file if row.startswith(line)), 0)

"""Mutation of shipped kernels: which mutants do the kernel's cases kill on the interpreter,
by what, and which survive?

A mutant counts when the unchanged kernel runs its instruction in some case. It is killed by a *finding* of
the interpreter, by a wrong *value*, or because it does not *end*. Of the survivors those are equivalent that
ptxas turns into the same machine code. The tool is tools/mutate_ptx.py; its tables are printed by report.py.
"""
from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, count, islice, repeat
from pathlib import Path
from typing import NamedTuple

from cydnn import kernels, ops
from cydnn.bench import trial as debug
from cydnn.device.ptx import Finding
from cydnn.status import CydnnError

from support import draw
from support.draw import streamed
from .mutants import SYNC, Mutant, mutants, statements
from support.draw.neighbours import FLOPS, near
from .shipped import run_lines
from support.check.trial import FusedCase, FusedTrial, Slow, Trial, cpu_limit

PATIENCE, LEAST = 20, 2.0  # a mutant may take so many times the unchanged kernel's time; and seconds at least
BUDGET = 3.0                                                 # CPU seconds for all cases of a mutant


PARTS, COUNT = range(4), 80                      # which of the GPU matrix's draws


class Verdict(NamedTuple):
    """``how``: finding, value, endless, refused (the text is no PTX), survived or equivalent;
    ``what``: the finding's kind or sentence."""
    mutant: Mutant
    how: str
    what: str = ""

    @property
    def killed(self) -> bool:
        return self.how in ("finding", "value", "endless", "refused")


@dataclass
class Score:
    """What became of the mutants of one kernel."""
    kernel: str
    target: str
    cases: int
    executed: int                                            # instructions that ran, of
    total: int
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def source(self) -> str:
        return kernels.get(self.kernel).source

    def count(self, *hows) -> int:
        return sum(v.how in hows for v in self.verdicts)

    @property
    def alive(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.how == "survived"]

    @property
    def fraction(self) -> float:
        """Killed, of those that are not known to be equivalent."""
        return sum(v.killed for v in self.verdicts) / max(len(self.verdicts) - self.count("equivalent"), 1)


@dataclass
class Ground:
    """A trial of the unchanged kernel: which lines it runs, how long it takes, what it writes;
    how many mutants it was tried on, and has killed."""
    trial: Trial
    lines: set
    seconds: float
    bits: bytes
    tries: int = 0
    kills: int = 0

    @property
    def price(self) -> float:
        """Seconds for a mutant that it kills, as far as it is known."""
        return self.seconds * (self.tries + 1) / (self.kills + 1)


class Mutation:
    """A kernel on a device with its cases, each run once as it is; ``lazily``: when it is needed. ``more``:
    (case, facts of a card or None) that are tried on mutants that survive the others."""

    def __init__(self, kernel: str, device, cases, more=(), budget: float = BUDGET, patience=PATIENCE,
                 lazily=False):
        self.kernel, self.device, self.more, self.budget, self.patience, self.seeds = (
            kernel, device, iter(more), budget, patience, count())
        self.image = kernels.get(kernel).image_for(device.facts.sm)
        self.text = self.image.text().decode()
        self.lines, self.grounds, self.total = set(), [], sum(1 for _ in statements(self.text, kernel))
        self.every, self.left = list(mutants(self.text, kernel)), deque(cases)
        while self.left and not lazily:
            self._next()

    @property
    def mutants(self) -> list[Mutant]:
        """Those of lines that have run."""
        return [m for m in self.every if m.line in self.lines]

    def reach(self, kinds, cases) -> list[Mutant]:
        """Of these kinds, what still has not run where the first (case, facts of a card or None), the own
        cases, and then each that runs more of them, were tried."""
        def tried(more):
            for case, facts in more if idle() else ():
                found = self._add(case, facts).lines
                if not any(m.line in found for m in idle()):
                    self.grounds.pop()
                self.lines |= found
                if not idle():
                    break

        idle = lambda: [m for m in self.every if m.kind in kinds and m.line not in self.lines]
        cases = iter(cases)
        tried(islice(cases, 1))
        while self.left and idle():
            self._next()
        tried(cases)
        return idle()

    def _next(self) -> Ground:
        """Run the next of the own cases."""
        ground = self._add(self.left.popleft())
        self.lines |= ground.lines
        return ground

    def _add(self, case, facts=None) -> Ground:
        """Run a case on the kernel as it is."""
        self.device.replaced.clear()
        self._forget()
        kind = FusedTrial if isinstance(case, FusedCase) else Trial
        trial, start = kind(case, self.device, next(self.seeds), facts), time.process_time()
        texts = trial()
        assert not texts, f"{self.kernel} is wrong as it is: {trial.case}: {texts}"
        found = [(text, c) for text, c in self.device.codes.items() if c.program.name == self.kernel]
        assert found, f"{trial.case} does not launch {self.kernel}"
        text, code = found[0]
        lines = run_lines({text: code}, self.kernel, self.text)
        self.grounds.append(Ground(trial, lines, time.process_time() - start, trial.bits))
        return self.grounds[-1]

    def _forget(self):
        for text in [t for t, c in self.device.codes.items() if c.program.name == self.kernel]:
            del self.device.codes[text]

    def _reaching(self, line: int):
        """Cases that run a line: those first that kill for the least, then more."""
        yield from sorted((g for g in self.grounds if line in g.lines), key=lambda g: g.price)
        own = (self._next() for _ in repeat(None, len(self.left)))
        for ground in chain(own, (self._add(case, facts) for case, facts in self.more)):
            if line in ground.lines:
                yield ground

    def verdict(self, mutant: Mutant) -> Verdict:
        """Run a mutant over the cases that reach it until one kills it or the budget is spent."""
        same, end = True, time.process_time() + self.budget
        try:
            for ground in self._reaching(mutant.line):
                self.device.replaced[self.kernel] = mutant.text
                ground.tries, ground.kills = ground.tries + 1, ground.kills + 1   # taken back when it has not
                with cpu_limit(max(LEAST, self.patience * ground.seconds)):
                    texts = ground.trial()
                if texts:
                    return Verdict(mutant, "value", texts[0])
                ground.kills -= 1
                same &= ground.trial.bits == ground.bits
                if time.process_time() > end:
                    break
        except Finding as found:
            return Verdict(mutant, "finding", found.kind)
        except Slow as slow:
            return Verdict(mutant, "endless", str(slow))
        except CydnnError as error:
            return Verdict(mutant, "refused", str(error).splitlines()[0])
        finally:
            self.device.replaced.clear()
            self._forget()
        if self.equivalent(mutant.text):
            return Verdict(mutant, "equivalent", "same machine code")
        return Verdict(mutant, "survived", "the same bits" if same else "other bits, within the tolerance")

    def equivalent(self, text: str) -> bool:
        """Does ptxas make the same machine code of it? False where there is no ptxas."""
        return bool(shutil.which("ptxas")) and machine_code(text, self.image.target) == self._code

    @property
    def _code(self) -> bytes:
        if not hasattr(self, "_kept"):
            self._kept = machine_code(self.text, self.image.target)
        return self._kept

    def score(self, chosen) -> Score:
        return Score(self.kernel, self.device.target, len(self.grounds), len(self.lines),
                     self.total, [self.verdict(m) for m in chosen])

    def sample(self, count: int, seed: int) -> list[Mutant]:
        """Every dropped barrier and wait, and ``count`` others, all equally likely."""
        sync = [m for m in self.mutants if m.kind in SYNC]
        others = [m for m in self.mutants if m.kind not in SYNC]
        return sync + random.Random(f"{self.kernel} {seed}").sample(others, min(count, len(others)))


def machine_code(text: str, target: str) -> bytes:
    """What ptxas makes of the text: the sections of code of the cubin, empty when it refuses the text."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(text)
        done = subprocess.run(["ptxas", f"-arch={target}", "-o", out, source], capture_output=True)
        return b"" if done.returncode else code_sections(out.read_bytes())


def code_sections(elf: bytes) -> bytes:
    """The bytes of the .text sections of a 64-bit ELF file."""
    number = lambda at, size: int.from_bytes(elf[at:at + size], "little")
    table, each, count, names = number(40, 8), number(58, 2), number(60, 2), number(62, 2)
    field = lambda section, at, size: number(table + section * each + at, size)
    name = lambda section: elf[(start := field(names, 24, 8) + field(section, 0, 4)):elf.index(b"\0", start)]
    return b"".join(elf[field(i, 24, 8):field(i, 24, 8) + field(i, 32, 8)]
                    for i in range(count) if name(i).startswith(b".text."))


# ---- Kernels and their cases ----

@lru_cache(maxsize=None)
def drawn(facts) -> dict:
    """{kernel: cases} of the small problems among the GPU matrix's draws."""
    found = defaultdict(list)
    for op in ops.OPS:
        for problem in (p for part in PARTS for p in draw.gpu_draws(op, part, COUNT)
                        if p.op.flops(**p.operands) <= FLOPS):
            for engine, config, launches in debug.launchers(problem, facts):
                for kernel in set(launches):
                    found[kernel].append(debug.TrialCase(kernel, problem, engine, config))
    return found


def contract_cases(name: str, facts) -> list:
    """The problems of the kernel's contract, each plain and with a blend."""
    return [case for case in debug.cases(name, facts) for _ in range(2)]


def tight(name: str, facts):
    """(case, facts) of the contract's problems for a card of one SM, whose blocks take many turns."""
    small = replace(facts, sms=1, l2_bytes=4096)
    yield from ((case, small) for case in contract_cases(name, small))


def staying(name: str, facts):
    """(case, facts) of the contract's problems, by their engine's choice and every other, where few blocks
    take all; and of those that a kernel takes by stream-K."""
    yield from streamed.cases(name, facts)
    yield from streamed.many(name, facts)
    yield from tight(name, facts)
    for sms in (2, 4):
        few = replace(facts, sms=sms)
        yield from ((case, few) for case, _ in debug.every_case(name, few))


def behind(name: str, facts) -> list:
    """Cases of the tile program whose sums leave by TMA, plain and with something fused: of whole tiles and
    of others, several of each block."""
    kernel, n = kernels.get(name), kernels.get(name).axes["TILE_N"]
    if "TILE_M" not in kernel.axes:              # filters stay
        line = streamed.conv(9 * 64 + 16, n, 64, 1, **kernel.axes)
        case = next(case for case, _ in debug.every_case(name, facts, [line])
                    if case.config and case.config.get("resident"))
        return [case, FusedCase(*case)]
    m, found = kernel.axes["TILE_M"], []
    for rows, columns, cast in ((2 * m, 2 * n, None), (2 * m + 16, n + 8, None), (2 * m + 16, n, 2)):
        line = streamed.TILED[kernel.source](rows, columns, 128, 1, **kernel.axes)
        wanted = dict(store="tma", cluster_k=1, splits=1, stream_k=None, multicast=cast)
        case = next((case for case, _ in debug.every_case(name, facts, [line])
                     if (c := case.config) and {knob: c.get(knob) for knob in wanted} == wanted), None)
        found += [case, FusedCase(*case)] if case else []
    return found


def more_cases(name: str, facts, most: int):
    """(case, facts or None) for mutants that the contract's own cases do not kill."""
    return chain(tight(name, facts), ((case, None) for case in near(name, facts, most)))


def score(name: str, target: str | None = None, sample: int = 24, seed: int = 0,
          draws: int = 4, most: int = 40) -> Score:
    """Mutate one kernel."""
    from watched import PtxDevice, watching
    device = PtxDevice(target or debug.target_of(kernels.get(name)))
    with watching():
        made = Mutation(name, device, contract_cases(name, device.facts) + drawn(device.facts)[name][:draws],
                        more_cases(name, device.facts, most))
        return made.score(made.sample(sample, seed))

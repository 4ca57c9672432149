"""A kernel on the interpreter: the problems of its contract (or yours), checked against the reference.
``python -m cydnn ptx NAME --run``.

``run("softmax_fwd_warp_f32_8", text=edited)`` gives a Report: one Trial a case, and which instructions ran.
"""
from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from .. import kernels, ops
from . import run as bench
from .. import plan as plans
from ..device.facts import of_target
from ..engines import engines_for
from ..engines.engine import Config, Engine
from ..heuristics import Wish
from ..steps import Launch
from ..graph import Match
from ..status import BadParam, require


class TrialCase(NamedTuple):
    """``plan.build(graph_of(problem), device, wish)`` launches ``kernel``.
    ``config``: None for the engine's own."""
    kernel: str
    problem: ops.Problem
    engine: Engine
    config: Config | None

    def __str__(self):
        return f"{self.kernel}: {self.problem} {self.engine} {self.config or ''}".rstrip()

    @property
    def wish(self) -> Wish:
        return Wish(engines=(self.engine.index,), config=self.config)


@dataclass
class Trial:
    """One case and what came of it. ``finding``: what the interpreter raised, with its facts;
    None when nothing was found."""
    problem: str
    engine: str
    config: str
    launches: int
    ok: bool
    verdict: str
    finding: dict | None = None


@dataclass
class Report:
    """All trials of one kernel, and the instructions that ran in any of them."""
    kernel: str
    target: str
    seed: int | None
    trials: list[Trial] = field(default_factory=list)
    executed: int = 0
    total: int = 0
    uncovered: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(t.ok for t in self.trials)


def launchers(problem, facts):
    """(engine, config, names of the kernels) of everything that takes a problem on a device;
    the engine's own choice is the config None."""
    match = Match.single(bench.graph_of(problem))
    for engine in engines_for(problem.op)[:-1]:
        if engine.accepts(match, facts):
            for config in [None, *engine.configs(match, facts)]:
                steps = engine.plan(match, facts, config or engine.best(match, facts))
                yield engine, config, [s.kernel for s in steps if isinstance(s, Launch)]


def cases(kernel: str, facts, lines=None, all_of=launchers) -> list[TrialCase]:
    """Cases of each problem line (of the kernel's contract, for None) on a device:
    one for each number of launches, so alone and among helpers, one that splits no sum and no row, and one
    for each number of blocks that share a sum, or an operand.
    Pure functions of plans; no GPU needed."""
    found: dict = {}
    for case, launches in every_case(kernel, facts, lines, all_of):
        whole = case.config and 1 in (case.config.get("splits"), case.config.get("slices"))
        blocks = [case.config.get(name, 1) for name in ("team", "cast")] if case.config else [1, 1]
        found.setdefault((case.problem, launches, bool(whole), *blocks), case)
    return list(found.values())


def every_case(kernel: str, facts, lines=None, all_of=launchers):
    """(case, number of launches) of every problem line with every engine
    and configuration that launches the kernel."""
    for line in kernels.get(kernel).problems if lines is None else lines:
        yield from of_problem(kernel, ops.Problem.parse(line), facts, all_of)


def of_problem(kernel: str, problem: ops.Problem, facts, all_of=launchers):
    """The same of one problem."""
    for engine, config, launches in all_of(problem, facts):
        if kernel in launches:
            yield TrialCase(kernel, problem, engine, config), len(launches)


def run(name: str, target: str | None = None, seed: int | None = None,
        lines=None, text: str | None = None) -> Report:
    """Run a kernel's cases on the interpreter, warps in a fixed order or, with a ``seed``, in a random one.
    ``text`` replaces the shipped PTX."""
    from ..device.ptx import PtxDevice
    require(seed is None or seed >= 0, f"ptx: --seed must be >= 0; got {seed}")
    device = PtxDevice(serving_target(name) if target is None else target)
    device.seed = seed
    if text is not None:
        device.replaced[name] = text
    chosen = cases(name, device.facts, lines)
    if not chosen:
        what = f"got {lines}" if lines else "its contract has none for this target"
        raise BadParam(
            f"ptx: --line must be a problem for which an engine launches {name} on {device.target}; {what}")
    device.code(name)                            # a text that cannot be read is an error before anything runs
    report = Report(name, device.target, seed)
    for case in chosen:
        report.trials.append(_try(case, device))
    _coverage(report, device)
    return report


def target_of(kernel) -> str:
    """sm_80 where the kernel has an image for it, else the oldest that it has."""
    numbers = sorted(int(t.removeprefix("sm_").rstrip("af")) for t in kernel.images)
    return f"sm_{max(80, numbers[0])}"


def serving_target(name: str) -> str:
    """``target_of``, or sm_90 where no problem of the kernel's contract launches it there: its engines are
    for Hopper."""
    target = target_of(kernels.get(name))
    facts = of_target(int(target.removeprefix("sm_")), target)
    return target if next(every_case(name, facts), None) else "sm_90"


def _try(case: TrialCase, device) -> Trial:
    from ..device.ptx import Finding
    plans.forget()                               # a plan of another text of the kernel may be there
    trial = Trial(str(case.problem), str(case.engine), str(case.config or ""), 0, False, "")
    try:
        made = bench.Case(case.problem, device, case.wish)
        trial.launches = len([s for s in made.plan.steps if isinstance(s, Launch)])
        for name in case.problem.op.writes:
            if name in made.buffers and name not in case.problem.op.keeps:
                device.forget_contents(made.buffers[name].ptr, case.problem.operands[name].bytes)
        trial.verdict = bench.verdict(made)
        trial.ok = not trial.verdict.startswith("WRONG")
    except Finding as found:
        trial.verdict, trial.finding = str(found), dict(
            kind=found.kind, **{k: v for k, v in found.facts.items() if k != "kind"})
    finally:
        plans.forget()
    return trial


def _coverage(report: Report, device):
    for code in device.codes.values():
        if code.program.name == report.kernel:
            report.executed, report.total, report.uncovered = (int(code.executed.sum()),
                                                               len(code.executed), code.uncovered())


def table(report: Report, uncovered: bool) -> str:
    """The report as text: a line a trial, then the coverage."""
    order = "the fixed order of warps" if report.seed is None else f"random order of warps {report.seed}"
    rows = [f"# {report.kernel} on ptx:{report.target}, {order}"]
    for t in report.trials:
        config = f" {t.config}" if t.config else ""
        state = "ok" if t.ok else "FINDING" if t.finding else "WRONG"
        rows.append(f"{state:<9}{t.problem}  {t.engine}{config}  {t.launches} "
                    f"launch{'es' * (t.launches != 1)}\n{'':9}{t.verdict}")
    rows.append(f"coverage {report.executed / max(report.total, 1):.1%}: "
                f"{report.executed} of {report.total} instructions ran")
    return "\n".join(rows + (report.uncovered if uncovered else []))


def main(args) -> int:
    """The verb: print a report; 1 when something was found or wrong."""
    try:
        text = None if args.file is None else Path(args.file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadParam("ptx: --file must be a file of PTX; "
                       f"got {args.file!r} ({getattr(error, 'strerror', 'not text')})") from None
    report = run(args.name, args.target, args.seed, args.line, text)
    if args.json:
        json.dump({**asdict(report), "ok": report.ok}, sys.stdout, indent=1)
        print()
    else:
        print(table(report, args.uncovered))
    return 0 if report.ok else 1

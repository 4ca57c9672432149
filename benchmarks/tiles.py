"""Every configuration of the engines of Hopper's tile program on the lines of problem files, checked and
timed in one run, beside the mma.sync engine and torch.
``python benchmarks/tiles.py [family …] [--only REGEX] [--most N] [--bands 4,32] [--check] [--out DIR]``.

Checked: of small whole numbers every sum is exact, so that all must give the bits of the first, twice, over a
poisoned output; the first is compared with torch. Timed: random numbers, in random order, cold L2, medians.
Writes tiles_<family>.csv, from which fit.py takes the constants of cydnn/engines/tile/cost.py, and .md.
"""
from __future__ import annotations

import argparse
import csv
import re
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from cydnn import bench, device as devices, plan as plans      # noqa: E402
from cydnn.engines import engines_for                          # noqa: E402
from cydnn.engines.tile.cost import TILES                      # noqa: E402
from cydnn.engines.tile.program import TileProgram             # noqa: E402
from cydnn.graph import Match                                  # noqa: E402
from cydnn.heuristics import Wish                              # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402
from cydnn.status import CydnnError                            # noqa: E402
from run import header                                         # noqa: E402

BESIDE = {"matmul": 190, "conv_fprop": 110, "conv_dgrad": 130, "conv_wgrad": 150}
FAMILIES = ("conv_resnet50_bf16", "conv_resnet50_f16", "matmul_shapes")
FIELDS = ("problem", "engine", "config", "band", "is_chosen", "model_us", "us", "torch_us", "verdict")
NAN = float("nan")


@dataclass(frozen=True)
class Candidate:
    """One way to do a problem. ``band``: of tiles that go together; 0 as the engine has it."""
    engine: object
    config: object
    model_us: float
    band: int = 0

    def __str__(self):
        return f"{self.engine.index} {self.config}{f' band={self.band}' if self.band else ''}"


def way(config) -> tuple:
    """How the sums are made and leave."""
    knobs = "store", "stream_k", "blocks_per_tile", "resident", "multicast"
    return tuple(config.get(knob) for knob in knobs)


def distinct(engine, match, facts) -> dict:
    """{configuration: microseconds by the model} of an engine, those that are cut alike once, the cheapest
    first."""
    seen = {}
    for config in engine.configs(match, facts):
        cut = engine.cut(match, facts, config)
        seen.setdefault((config.get("tile"), cut.splits, getattr(cut, "team", 1), *way(config)), config)
    found = {config: engine.cost(match, facts, config) for config in seen.values()}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def candidates(problem, facts, chosen, most: int, bands=()) -> list:
    """The choice first, then of each engine the best of every tile and way out, then what costs less than
    twice the cheapest; engines of other algorithms that cost no more than that; the one beside them last."""
    match = Match.single(bench.graph_of(problem))
    engine, config = chosen
    found = [Candidate(engine, config, engine.cost(match, facts, config))]
    for engine in engines_for(problem.op):
        if isinstance(engine, TileProgram) and engine.accepts(match, facts):
            every, tiles, ways = distinct(engine, match, facts), {}, {}
            for config in every:
                tiles.setdefault(config.get("tile"), config)
                ways.setdefault((config.get("tile"), config.get("cluster_k"), *way(config)), config)
            near = [c for c, us in every.items() if us < 2 * min(every.values())]
            some = list(dict.fromkeys([*tiles.values(), *ways.values(), *near]))[:most or None]
            found += [Candidate(engine, config, every[config]) for config in some]
            cheapest = next(iter(every.items()))
            found += [Candidate(engine, *cheapest, band) for band in bands if cheapest[0].get("tile")]
    beside, least = BESIDE[problem.op.name], min(c.model_us for c in found)
    others = [e for e in engines_for(problem.op) if e.index >= 100 and not isinstance(e, TileProgram)]
    for engine in sorted(others, key=lambda e: e.index == beside):
        if engine.accepts(match, facts):
            best = engine.best(match, facts)
            us = engine.cost(match, facts, best)
            found += [Candidate(engine, best, us)] if engine.index == beside or us < 2 * least else []
    return list(dict.fromkeys(found))


class Bench:
    """A problem in memory, and calls that do it in other ways."""

    def __init__(self, problem, device, peer):
        self.case, self.device = bench.Case(problem, device), device
        part = self.case.plan.parts[0]
        self.chosen, self.out = (part.engine, part.config), problem.op.writes[0]
        self.theirs, self.error = peer.make(self.case) if peer else (None, None)
        self.copy_of = peer.copy_of if peer else None
        self.rooms = {}

    def fill(self, numbers):
        """Put numbers into the operands that are read, those of a new Case where they stay as they are: the
        peer has copies of these."""
        for seed, name in enumerate(self.case.names):
            if name in self.case.problem.op.reads:
                d = self.case.problem.operands[name]
                bench.fill(self.device, self.case.buffers[name].ptr, d, seed, numbers)

    def call(self, candidate):
        """A call of a candidate; its plan keeps the band that it was made with."""
        tiles = dict(TILES)
        if candidate.band:
            tile = candidate.config.tile
            TILES[tile] = tiles[tile]._replace(band=candidate.band)
        try:
            plans.forget()
            plan = plans.build(bench.graph_of(self.case.problem), self.device,
                               Wish(engines=(candidate.engine.index,), config=candidate.config or None))
        finally:
            TILES.update(tiles)
        size = max(plan.workspace_bytes, 1)
        if size not in self.rooms:
            self.rooms[size] = self.device.alloc(size)
        room = int(self.rooms[size].ptr)
        return lambda: plan.execute(self.case.pointers, room)

    def bits(self, call):
        """What a call writes over a poisoned output, with poisoned workspace."""
        d, buffer = self.case.problem.operands[self.out], self.case.buffers[self.out]
        self.device.memset(buffer.ptr, 0xFF, d.bytes)
        for size, room in self.rooms.items():
            self.device.memset(room.ptr, 0xFF, size)
        call()
        self.device.synchronize()
        if self.copy_of:
            return self.copy_of(self.case, self.out)
        return self.device.copy_out(buffer.ptr, np.empty(d.bytes, np.uint8))

    def verdict(self, call, want) -> tuple:
        """(the first bits, what is wrong or "ok")."""
        found = [self.bits(call) for _ in range(2)]
        want = found[0] if want is None else want
        same = [bool((bits == want).all()) for bits in found]
        return want, "ok" if all(same) else "BITS DIFFER" if any(same) else "WRONG"


def measure(line, device, clock, peer, args) -> list:
    """The rows of a problem."""
    bench_, rows, calls, want = Bench(Problem.parse(line), device, peer), [], [], None
    bench_.fill(lambda values: np.round(2 * values))
    for candidate in candidates(bench_.case.problem, device.facts, bench_.chosen, args.most, args.bands):
        row = dict(problem=line, engine=candidate.engine.index, config=str(candidate.config),
                   band=candidate.band, is_chosen=int(not rows), model_us=round(candidate.model_us, 2),
                   us=NAN, torch_us=NAN)
        call = bench_.call(candidate)
        want, row["verdict"] = bench_.verdict(call, want)
        rows.append(row)
        if row["verdict"] == "ok":
            calls.append((row, call))
        else:
            print(f"{line}: {candidate}: {row['verdict']}", flush=True)
    bench_.fill(lambda values: values)
    first = bench.verdict(bench_.case, bench_.error) if bench_.error else "unchecked"
    rows[0]["verdict"] += "" if not first.startswith("WRONG") else f"; {first}"
    if not args.check:
        theirs = [bench_.theirs] if bench_.theirs else []
        every = clock.times([call for _, call in calls] + theirs, args.repeat)
        medians = [statistics.median(times) for times in every]
        for (row, _), us in zip(calls, medians):
            row.update(us=round(us, 2), torch_us=round(medians[-1], 2) if theirs else NAN)
    plans.forget()
    return rows


# ---- What is said of it ----

def by_problem(rows) -> dict:
    """{problem: its timed rows} of those whose choice was timed; the choice first."""
    found = {}
    for row in rows:
        if row["us"] == row["us"]:
            found.setdefault(row["problem"], []).append(row)
    return {line: mine for line, mine in found.items() if mine[0]["is_chosen"]}


def line_of(rows) -> str:
    """A row of the table."""
    chosen, best = rows[0], min(rows, key=lambda row: row["us"])
    name = lambda row: f"{row['engine']} {row['config']}" + (f" band={row['band']}" if row["band"] else "")
    other = next((row["us"] for row in rows if row["engine"] in BESIDE.values()), NAN)
    return (f"| {chosen['problem']} | {chosen['torch_us']:.1f} | {name(chosen)} | {chosen['model_us']:.1f} | "
            f"{chosen['us']:.1f} | {name(best)} | {best['us']:.1f} | {chosen['us'] / best['us']:.2f} | "
            f"{chosen['torch_us'] / best['us']:.2f} | {other:.1f} |")


TITLE = ("| problem | torch us | choice | model us | us | best | us | choice / best | torch / best | mma |\n"
         "|---|--:|---|--:|--:|---|--:|--:|--:|--:|")


def summary(rows) -> str:
    """A line for each op and type: sums, and what the choice loses."""
    groups, lines = {}, []
    for line, mine in by_problem(rows).items():
        kind = " bf16" if "bf16" in line else " f16"
        groups.setdefault(line.split()[0] + kind, []).append(mine)
    for what, problems in groups.items():
        best = [min(row["us"] for row in mine) for mine in problems]
        loss = [mine[0]["us"] / us for mine, us in zip(problems, best)]
        theirs, chosen = (sum(mine[0][key] for mine in problems) for key in ("torch_us", "us"))
        worst = max(range(len(loss)), key=loss.__getitem__)
        mean, where = statistics.geometric_mean(loss), problems[worst][0]["problem"]
        lines.append(f"{what}: {len(problems)} problems; torch over choice {theirs / chosen:.3f}, over best "
                     f"{theirs / sum(best):.3f} (sums); choice over best {mean:.3f} (geometric mean), "
                     f"{loss[worst]:.2f} at {where}")
    return "\n".join(lines)


def write(family, rows, args):
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"tiles_{family}.csv", "w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    page = header(f"tiles_{family}", args, f"python benchmarks/tiles.py {family}")
    lines = [line_of(mine) for mine in by_problem(rows).values()]
    out.joinpath(f"tiles_{family}.md").write_text("\n".join([page + TITLE, *lines, "", summary(rows)]) + "\n")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*", default=FAMILIES, help="files of benchmarks/problems")
    parser.add_argument("--only", default="", help="a pattern that is in a line")
    parser.add_argument("--most", type=int, default=12, help="configurations of an engine; 0: all")
    parser.add_argument("--bands", default=(), type=lambda text: tuple(map(int, text.split(","))))
    parser.add_argument("--check", action="store_true", help="time nothing")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no problem later than that")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--out", default=str(HERE / "results"))
    parser.add_argument("--device", default="cuda:0")
    return parser.parse_args()


def main():
    args, begin, wrong = parsed(), time.time(), 0
    device = devices.get(args.device)
    clock = bench.Clock(device)
    peer = None if args.no_peer else bench.peer_of("torch", device)
    for family in args.family:
        rows = []
        for line in (HERE / "problems" / f"{family}.txt").read_text().splitlines():
            if line.split(" ")[0] not in BESIDE or not re.search(args.only, line):
                continue
            if time.time() - begin > args.seconds:
                print(f"out of time before {line}")
                break
            try:
                rows += (mine := measure(line, device, clock, peer, args))
            except CydnnError as error:
                print(f"{line}: {error}", flush=True)
                continue
            print(*(line_of(timed) for timed in by_problem(mine).values()), flush=True)
        wrong += sum(row["verdict"] != "ok" for row in rows)
        write(family, rows, args)
        print(summary(rows))
    print(f"{wrong} not ok, {time.time() - begin:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

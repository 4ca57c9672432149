"""The constants of the models of the tile program (cydnn/engines/tile/cost.py), of thin products and of
the engines on mma.sync beside them, as a function of measured tables:
``python benchmarks/fit.py [tiles_<family>.csv …] [--rounds N]``; default: all of benchmarks/results.

Two commands fit another card: tiles.py there, then this; tables of several cards are fitted together, each
with the facts of the card that the page beside it names. Constants are moved one after the other as long as
the error of the models falls: the mean square of log(model / measured), where a configuration counts by the
square of how near it is to the best of its problem, and what the choice loses. POWER stays: only its product
with the shares of the tiles is seen. Prints what was and what is better; nothing is written.
"""
from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from cydnn import bench                                        # noqa: E402
from cydnn.device.facts import KNOWN                           # noqa: E402
from cydnn.engines import BY_INDEX                             # noqa: E402
from cydnn.engines.conv import mma as conv_mma, resident, wgmma        # noqa: E402
from cydnn.engines.engine import Config                        # noqa: E402
from cydnn.engines.matmul import mma, thin                     # noqa: E402
from cydnn.engines.tile import cost, split_k                   # noqa: E402
from cydnn.engines.tile.program import TileProgram             # noqa: E402
from cydnn.graph import Match                                  # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402

NUMBERS = {cost: ("MEMORY", "NEAR", "INTAKE", "TAIL", "TAIL_OF", "TILE", "OUT", "TEAM_CLOCKS", "NEIGHBOUR",
                  "SUM_US", "COOPERATIVE_US", "L2_SHARE", "MEET", "KEPT", "ADDED", "ASTRAY", "OUTSIDE"),
           split_k: ("SPLIT_US",),
           thin: ("BANDWIDTH", "INTAKE", "AROUND_US", "SHARED_US", "PIECE_US", "TILE", "COLUMN", "NEAR"),
           mma: ("MEMORY", "NEAR", "STEP", "START", "OUT", "SUM_US"),
           resident: ("LATE", "LATE_EACH", "TILE", "START", "MEMORY", "NEAR"),
           conv_mma: ("PRODUCT", "MEMORY", "NEAR", "FIXED_US")}
MODELS = {186: thin, 190: mma, 110: conv_mma, 130: conv_mma}   # of engines that are not the tile program's
COMMON = {(cost, "INTAKE"), (split_k, "SPLIT_US"), (conv_mma, "FIXED_US")}    # of several models
SHARES = {"MEMORY", "BANDWIDTH", "L2_SHARE", "TILES", "AT_ONCE", "SHARE"}    # at most 1
LOSS = 2.0                                       # of the choice, beside the square of the model's error
STEPS = (0.7, 0.85, 0.95, 0.98, 1.02, 1.05, 1.15, 1.4)


@dataclass
class Row:
    """A measured configuration, and its time by the model ``of``; None: nothing of it is fitted."""
    problem: str
    engine: object
    config: Config
    match: Match
    us: float
    weight: float
    of: object
    facts: object
    model: float = 0.0

    def look(self):
        """The model's time with the constants as they are."""
        self.model = self.engine.cost(self.match, self.facts, self.config)


def config_of(text: str) -> Config:
    values = dict(item.split("=") for item in text.split())
    return Config(**{key: int(value) if value.isdigit() else value for key, value in values.items()})


def model_of(engine, config):
    if config.get("resident"):
        return resident
    return MODELS.get(engine.index, cost if isinstance(engine, TileProgram) else None)


def card_of(path: Path, default):
    """The facts of the card that a table's page names."""
    page = path.with_suffix(".md")
    words = page.read_text() if page.exists() else ""
    return next((facts for facts in KNOWN.values() if f"{facts.name}, CUDA" in words), default)


def read(paths, default=KNOWN["h200"]) -> list[Row]:
    """The rows, each weighted within its problem on its card."""
    every, found = defaultdict(dict), []
    for path in map(Path, paths):
        facts = card_of(path, default)
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                if row["verdict"] == "ok" and row["band"] == "0" and float(row["us"]) > 0:
                    every[row["problem"], facts][row["engine"], row["config"]] = row
    for (line, facts), of_problem in every.items():
        rows, match = list(of_problem.values()), Match.single(bench.graph_of(Problem.parse(line)))
        least = min(float(row["us"]) for row in rows)
        for row in rows:
            engine, us = BY_INDEX[int(row["engine"])], float(row["us"])
            config = config_of(row["config"])
            found.append(Row(f"{line}, {facts.name}", engine, config, match, us, (least / us) ** 2,
                             model_of(engine, config), facts))
    return found


# ---- The constants ----

def names() -> list:
    """Every constant: (module, name) or (module, name, key of a table)."""
    return [*((module, name) for module, found in NUMBERS.items() for name in found),
            *((cost, "TILES", tile) for tile in cost.TILES), (cost, "AT_ONCE", 4),
            *((wgmma, "LATE", step) for step in wgmma.LATE), *((mma, "SHARE", tile) for tile in mma.SHARE),
            *((resident, "SHARE", columns) for columns in resident.SHARE)]


def get(name) -> float:
    module, table, *key = name
    found = getattr(module, table)
    return found if not key else found[key[0]].share if table == "TILES" else found[key[0]]


def put(name, value: float):
    module, table, *key = name
    if not key:
        setattr(module, table, value)
    elif table == "TILES":
        module.TILES[key[0]] = module.TILES[key[0]]._replace(share=value)
    else:
        getattr(module, table)[key[0]] = value


def look(rows, name=None):
    """Every row's model, or those that a constant may move."""
    conv_mma.times.cache_clear()
    for row in rows:
        if name is None or name in COMMON or name[0] in (row.of, cost) or name[0] is wgmma and row.of is cost:
            row.look()


def error(rows) -> float:
    """The weighted mean square of log(model / measured), and what the choice loses."""
    total, weights, least = 0.0, 0.0, {}
    for row in rows:
        if row.of is not None:
            total += row.weight * math.log(row.model / row.us) ** 2
            weights += row.weight
        if row.problem not in least or row.model < least[row.problem].model:
            least[row.problem] = row
    loss = statistics.fmean(-math.log(row.weight) / 2 for row in least.values())
    return total / weights + LOSS * loss


def better(name, rows, best: float) -> float:
    """The error with the best value of a constant, which is put."""
    old, tried = get(name), {}
    for step in STEPS:
        put(name, min(old * step, 1.0) if name[1] in SHARES else old * step)
        look(rows, name)
        tried[get(name)] = error(rows)
    value = min(tried, key=tried.get)
    put(name, value if tried[value] < best else old)
    look(rows, name)
    return min(best, tried[value])


def fit(rows, rounds: int, say=print) -> dict:
    """{constant: value}; the modules have them behind it."""
    look(rows)
    best = error(rows)
    for turn in range(rounds):
        before = best
        for name in names():
            best = better(name, rows, best)
        say(f"round {turn + 1}: error {math.sqrt(best):.4f}", flush=True)
        if best > 0.999 * before:
            break
    return {name: get(name) for name in names()}


def halves(rows) -> tuple:
    """(those of every second problem, the others)."""
    places = {problem: n for n, problem in enumerate(dict.fromkeys(row.problem for row in rows))}
    return tuple([row for row in rows if places[row.problem] % 2 == part] for part in (0, 1))


def report(rows) -> str:
    """A line an op: the models' error, and what their choice loses among what was measured."""
    groups, lines = defaultdict(lambda: defaultdict(list)), []
    for row in rows:
        groups[row.problem.split()[0]][row.problem].append(row)
    for op, problems in groups.items():
        loss, spread = [], []
        for mine in problems.values():
            chosen = min(mine, key=lambda row: row.model)
            loss.append(chosen.us / min(row.us for row in mine))
            spread += [math.log(row.model / row.us) ** 2 for row in mine]
        lines.append(f"{op}: {len(problems)} problems, {len(spread)} rows; error "
                     f"{math.sqrt(statistics.fmean(spread)):.3f}; choice over best "
                     f"{statistics.geometric_mean(loss):.3f} (geometric mean), {max(loss):.2f} (worst)")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--card", default="h200", choices=sorted(KNOWN), help="where no page says it")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--half", action="store_true", help="fit to every second problem, judge the others")
    args = parser.parse_args()
    rows = read(args.tables or sorted((HERE / "results").glob("tiles_*.csv")), KNOWN[args.card])
    if not rows:
        sys.exit("fit: no rows; run benchmarks/tiles.py first")
    old = {name: get(name) for name in names()}
    look(rows)
    print(f"as it is\n{report(rows)}", flush=True)
    ours, others = halves(rows) if args.half else (rows, [])
    new = fit(ours, args.rounds)
    print(f"fitted\n{report(ours)}")
    if others:
        look(others)
        print(f"not fitted to\n{report(others)}")
    for name, value in new.items():
        words = f"{name[0].__name__.removeprefix('cydnn.engines.')} {' '.join(map(str, name[1:]))}"
        print(f"{words:<32}{old[name]:>10.4g} ->{value:>10.4g}")


if __name__ == "__main__":
    main()

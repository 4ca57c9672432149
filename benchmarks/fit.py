"""The constants of cydnn/engines/matmul/blocks.py as a function of measured tables:
``python benchmarks/fit.py [tiles_<family>.csv …] [--rounds N]``; default: all of benchmarks/results.

Two commands fit another card: tiles.py there, then this. Constants are moved one after the other as long as
the error of the model falls: the mean square of log(model / measured), where a configuration counts by the
square of how near it is to the best of its problem, and what the choice loses. POWER stays: only its product
with the shares of the tiles is seen. Prints what was and what is better; nothing is written.
"""
from __future__ import annotations

import argparse
import csv
import math
import re
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
from cydnn.engines.engine import Config                        # noqa: E402
from cydnn.engines.matmul import blocks                        # noqa: E402
from cydnn.engines.matmul.blocks import TileProgram            # noqa: E402
from cydnn.graph import Match                                  # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402

NUMBERS = ("INTAKE", "TAIL", "TAIL_OF", "TEAM_CLOCKS", "NEIGHBOUR", "SUM_US", "SUM_SHARE",
           "COOPERATIVE_US")
MOST = {"SUM_SHARE": 1.0, "share": 1.0}          # shares of something
LOSS = 2.0                                       # of the choice, beside the square of the model's error
STEPS = (0.7, 0.85, 0.95, 0.98, 1.02, 1.05, 1.15, 1.4)


@dataclass(frozen=True)
class Row:
    """A measured configuration, and the model's function of it."""
    problem: str
    engine: object
    config: Config
    match: Match
    us: float
    weight: float

    def model(self, facts) -> float:
        return self.engine.cost(self.match, facts, self.config)


def config_of(text: str) -> Config:
    values = dict(item.split("=") for item in text.split())
    return Config(**{key: int(value) if value.isdigit() else value for key, value in values.items()})


def read(paths) -> list[Row]:
    """The rows of the tile program, each weighted within its problem. The model does not know turns; thin
    products have another."""
    every, found = defaultdict(dict), []
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                is_ours = isinstance(BY_INDEX[int(row["engine"])], TileProgram)
                is_usual = row["band"] == "0" and not re.search("turns|pieces", row["config"])
                if row["verdict"] == "ok" and is_usual and float(row["us"]) > 0 and is_ours:
                    every[row["problem"]][row["engine"], row["config"]] = row
    for line, of_problem in every.items():
        rows, match = list(of_problem.values()), Match.single(bench.graph_of(Problem.parse(line)))
        least = min(float(row["us"]) for row in rows)
        found += [Row(line, BY_INDEX[int(row["engine"])], config_of(row["config"]), match, float(row["us"]),
                      (least / float(row["us"])) ** 2) for row in rows]
    return found


# ---- The constants ----

def names() -> list:
    """Every constant: of the module, of a tile, of a team."""
    return [*((name,) for name in NUMBERS), *(("share", tile) for tile in blocks.TILES), ("AT_ONCE", 4)]


def get(name) -> float:
    if name[0] == "share":
        return blocks.TILES[name[1]].share
    return blocks.AT_ONCE[name[1]] if name[0] == "AT_ONCE" else getattr(blocks, name[0])


def put(name, value: float):
    if name[0] == "share":
        blocks.TILES[name[1]] = blocks.TILES[name[1]]._replace(share=value)
    elif name[0] == "AT_ONCE":
        blocks.AT_ONCE[name[1]] = value
    else:
        setattr(blocks, name[0], value)


def error(rows, facts) -> float:
    """The weighted mean square of log(model / measured), and what the choice loses."""
    total, least = 0.0, {}
    for row in rows:
        model = row.model(facts)
        total += row.weight * math.log(model / row.us) ** 2
        if row.problem not in least or model < least[row.problem][0]:
            least[row.problem] = model, row
    loss = statistics.fmean(-math.log(row.weight) / 2 for _, row in least.values())
    return total / sum(row.weight for row in rows) + LOSS * loss


def fit(rows, facts, rounds: int, say=print) -> dict:
    """{constant: value}; the module has them behind it."""
    best = error(rows, facts)
    for turn in range(rounds):
        before = best
        for name in names():
            old = get(name)
            tried = {}
            for step in STEPS:
                value = min(old * step, MOST.get(name[0], math.inf))
                put(name, value)
                tried[value] = error(rows, facts)
            value = min(tried, key=tried.get)
            put(name, value if tried[value] < best else old)
            best = min(best, tried[value])
        say(f"round {turn + 1}: error {math.sqrt(best):.4f}")
        if best > 0.999 * before:
            break
    return {name: get(name) for name in names()}


def report(rows, facts) -> str:
    """A line an op: the model's error, and what its choice loses among what was measured."""
    groups, lines = defaultdict(lambda: defaultdict(list)), []
    for row in rows:
        groups[row.problem.split()[0]][row.problem].append(row)
    for op, problems in groups.items():
        loss, spread = [], []
        for mine in problems.values():
            chosen = min(mine, key=lambda row: row.model(facts))
            loss.append(chosen.us / min(row.us for row in mine))
            spread += [math.log(row.model(facts) / row.us) ** 2 for row in mine]
        lines.append(f"{op}: {len(problems)} problems, {len(spread)} rows; error "
                     f"{math.sqrt(statistics.fmean(spread)):.3f}; choice over best "
                     f"{statistics.geometric_mean(loss):.3f} (geometric mean), {max(loss):.2f} (worst)")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--card", default="h200", choices=sorted(KNOWN))
    parser.add_argument("--rounds", type=int, default=6)
    args = parser.parse_args()
    rows, facts = read(args.tables or sorted((HERE / "results").glob("tiles_*.csv"))), KNOWN[args.card]
    if not rows:
        sys.exit("fit: no rows of the tile program; run benchmarks/tiles.py first")
    old = {name: get(name) for name in names()}
    print(f"as it is\n{report(rows, facts)}", flush=True)
    new = fit(rows, facts, args.rounds)
    print(f"fitted\n{report(rows, facts)}")
    for name, value in new.items():
        print(f"{' '.join(map(str, name)):<16}{old[name]:>10.4g} ->{value:>10.4g}")


if __name__ == "__main__":
    main()

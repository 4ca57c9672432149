"""Every tile of the mma.sync convolution engines on every line of a problem file: what the cost model chose, and what was best.

``python benchmarks/tiles.py [conv_resnet50_bf16] [--splits 1,2,4] [--only wgrad] [--json FILE]``. The constants of
cydnn/engines/conv_mma.py come from this. ``--splits``: also every number of splits of the weight gradient.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cydnn import bench, device as devices, plan as plans      # noqa: E402
from cydnn.engines import BY_INDEX                             # noqa: E402
from cydnn.engines.conv_mma import TILES                       # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402

ENGINES = {"conv_fprop": 110, "conv_dgrad": 130, "conv_wgrad": 150}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="?", default="conv_resnet50_bf16")
    parser.add_argument("--json")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", default="conv")
    parser.add_argument("--splits", default="")
    args = parser.parse_args()
    device = devices.get("cuda:0")
    clock, found = bench.Clock(device), []
    for line in (HERE / "problems" / f"{args.family}.txt").read_text().splitlines():
        if line.startswith("#") or args.only not in line:
            continue
        problem = Problem.parse(line)
        engine, row = BY_INDEX[ENGINES[problem.op.name]], {"problem": line, "us": {}}
        counts = [int(n) for n in args.splits.split(",") if n] if engine.index == 150 else []
        for tile, splits in [(None, None), *((t, n) for t in TILES for n in counts or [None])]:
            engine.tile, engine.splits = tile and (tile.m, tile.n), splits
            plans.forget()
            case = bench.Case(problem, device, engine)
            name = str(tile) + (f"/{splits}" if splits else "")
            row["us"][name] = round(statistics.median(clock.times([case], args.repeat)[0]), 1)
            if tile is None:
                row["model_us"] = round(engine.cost(case.plan.parts[0].match, device.facts), 1)
        engine.tile = engine.splits = None
        best = min((us, name) for name, us in row["us"].items() if name != "None")
        found.append({**row, "best": best[1]})
        print(f"{line:<72} chosen {row['us']['None']:8.1f} model {row['model_us']:8.1f} best {best[0]:8.1f} {best[1]:<9} "
              + " ".join(f"{k}={v}" for k, v in row["us"].items() if k != "None"), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Every configuration of the mma.sync convolution engines on every line of a problem file: what
the cost model chose, and what was best.

``python benchmarks/tiles.py [conv_resnet50_bf16] [--only wgrad] [--json FILE]``. The constants of
cydnn/engines/conv_mma.py come from this. The weight gradient is run with every tile and 1, 2, 4 … splits.
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
from cydnn.heuristics import Wish                              # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402

ENGINES = {"conv_fprop": 110, "conv_dgrad": 130, "conv_wgrad": 150}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="?", default="conv_resnet50_bf16")
    parser.add_argument("--json")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", default="conv")
    args = parser.parse_args()
    device = devices.get("cuda:0")
    clock, found = bench.Clock(device), []
    for line in (HERE / "problems" / f"{args.family}.txt").read_text().splitlines():
        if line.startswith("#") or args.only not in line:
            continue
        problem = Problem.parse(line)
        engine, row = BY_INDEX[ENGINES[problem.op.name]], {"problem": line, "us": {}}
        chosen = bench.Case(problem, device, Wish(engines=(engine.index,)))
        part = chosen.plan.parts[0]
        row["model_us"], row["chosen"] = round(part.us, 1), str(part.config)
        for config in [None, *engine.configs(part.match, device.facts)]:
            plans.forget()
            case = bench.Case(problem, device, Wish(engines=(engine.index,), config=config))
            name = "chosen" if config is None else str(config)
            row["us"][name] = round(statistics.median(clock.times([case], args.repeat)[0]), 1)
        best = min((us, name) for name, us in row["us"].items() if name != "chosen")
        found.append({**row, "best": best[1]})
        print(f"{line:<72} chosen {row['us']['chosen']:8.1f} model {row['model_us']:8.1f} best "
              f"{best[0]:8.1f} {best[1]:<9} "
              + " ".join(f"{k}={v}" for k, v in row["us"].items() if k != "chosen"), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

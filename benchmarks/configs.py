"""Every engine and configuration that takes a problem line, timed in one run beside copies of as many bytes.

``python benchmarks/configs.py batch_norm_n32 [--only nchw] [--json FILE] [--most N]``. The constants of cost
models come from this. ``once``: a copy of every operand once, ``needed``: of the bytes that the op counts.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cydnn import bench, device as devices, plan as plans      # noqa: E402
from cydnn.engines import engines_for                          # noqa: E402
from cydnn.heuristics import Wish                              # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402
from cydnn.status import CydnnError                            # noqa: E402


class Swapped:
    """A plan of a wish on the buffers of another case."""

    def __init__(self, case, wish):
        plans.forget()
        self.plan = plans.build(bench.graph_of(case.problem), case.device, wish)
        self.workspace = case.device.alloc(max(self.plan.workspace_bytes, 1))
        self.pointers = case.pointers

    def __call__(self):
        self.plan.execute(self.pointers, int(self.workspace.ptr))


def wishes(problem, match, facts, most):
    """(text, wish, estimated microseconds) of every engine that takes the problem: the configurations of
    least cost, without those that cannot win."""
    found = {(engine, config): engine.cost(match, facts, config)
             for engine in engines_for(problem.op) if engine.index >= 100 and engine.accepts(match, facts)
             for config in engine.configs(match, facts)}
    seen = Counter()
    for (engine, config), us in sorted(found.items(), key=lambda item: item[1]):
        seen[engine] += 1
        if seen[engine] <= most and us < 2.5 * min(found.values()):
            yield f"{engine} {config}".strip(), Wish(engines=(engine.index,), config=config or None), us


def measure(line, device, clock, args) -> dict:
    problem = Problem.parse(line)
    case = bench.Case(problem, device)
    part = case.plan.parts[0]
    row = {"problem": line, "chosen": f"{part.engine} {part.config}".strip(), "us": {}, "model": {}}
    for name, moved in (("once", problem.bytes), ("needed", problem.op.moved_bytes(**problem.operands))):
        row[name] = clock.copy_us(moved, args.repeat)
    for text, wish, cost in wishes(problem, part.match, device.facts, args.most):
        call = Swapped(case, wish)
        row["us"][text] = statistics.median(clock.times([call], args.repeat)[0])
        row["model"][text] = cost
    return row


def show(row):
    print(f"{row['problem']}: copy once {row['once']:.1f}, needed {row['needed']:.1f}")
    for text, us in sorted(row["us"].items(), key=lambda item: item[1]):
        mark = "*" if text == row["chosen"] else " "
        print(f"  {mark} {us:7.1f} us {row['once'] / us:5.0%} {row['needed'] / us:5.0%}  model "
              f"{row['model'][text]:7.1f}  {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--most", type=int, default=4, help="configurations of an engine")
    args = parser.parse_args()
    device = devices.get(args.device)
    clock, found = bench.Clock(device), []
    for family in args.family:
        for line in (HERE / "problems" / f"{family}.txt").read_text().splitlines():
            if line.startswith("#") or args.only not in line:
                continue
            try:
                found.append(measure(line, device, clock, args))
                show(found[-1])
            except CydnnError as error:
                print(f"{line}: {error}", flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

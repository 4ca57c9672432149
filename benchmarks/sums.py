"""A product and the sums of its columns behind it (the gradient of a bias, GenStats; or scale, bias and ReLU
in front and GenStats), in one run: the product alone, all in one plan, and node by node.
``python benchmarks/sums.py [family …] [--only TEXT] [--end bias|stats|prologue] [--out DIR]``.

The sums of both ways are compared before they are timed. Writes sums_<family>.md, or prologue_<family>.md.
"""
from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from cydnn import bench, device as devices, plan as plans      # noqa: E402
from cydnn.bench import fill, summed                           # noqa: E402
from cydnn.heuristics import Wish                              # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402
from run import header                                         # noqa: E402

OPS = {"bias": ("conv_fprop", "conv_dgrad", "matmul"), "stats": ("conv_fprop", "conv_dgrad"),
       "prologue": ("conv_fprop",)}
HEAD = ("| problem | plan | plain us | whole us | whole / plain | parts us | parts / whole | note |\n"
        "|---|---|--:|--:|--:|--:|--:|---|")


class Buffers:
    """Memory of one graph by uid, filled with random numbers, and the plans over it."""

    def __init__(self, graph, device):
        self.graph, self.device, self.rooms = graph, device, []
        self.at = {uid: self.room(graph.tensors[uid].bytes) for uid in graph.slots}
        for uid, room in self.at.items():
            fill(device, room.ptr, graph.tensors[uid].desc, uid, lambda values: values)

    def room(self, size_bytes):
        self.rooms.append(self.device.alloc(max(size_bytes, 1)))
        return self.rooms[-1]

    def call(self, graph, wish):
        """(call, plan) of a graph over these tensors."""
        plan = plans.build(graph, self.device, wish)
        pointers = tuple(int(self.at[uid].ptr) for uid in graph.slots)
        room = self.room(plan.workspace_bytes)
        return lambda: plan.execute(pointers, int(room.ptr)), plan

    def read(self, uids) -> list:
        self.device.synchronize()
        return [self.device.copy_out(self.at[u].ptr, np.empty(self.graph.tensors[u].count, np.float32))
                for u in uids]


def measure(line, device, clock, args) -> tuple:
    """(row of the table, plain, whole, parts in microseconds)."""
    problem = Problem.parse(line)
    graph = summed(problem, args.end)
    buffers = Buffers(graph, device)
    plain, _ = buffers.call(bench.graph_of(problem), Wish())
    (whole, plan), (parts, _) = buffers.call(graph, Wish()), buffers.call(graph, Wish(mode="fallback"))
    sums, found = [uid for uid in graph.slots if 4 <= uid <= 5], []
    for call in (parts, whole):
        call()
        found.append(buffers.read(sums))
    terms = graph.tensors[3].count // max(graph.tensors[sums[0]].count, 1)
    wrong = any(np.abs(a - b).max() > 1e-6 * terms + 1e-4 * np.abs(a).max() for a, b in zip(*found))
    times = [statistics.median(each) for each in clock.times([plain, whole, parts], args.repeat)]
    row = (f"| {line} | {plan.name} | {times[0]:.1f} | {times[1]:.1f} | {times[1] / times[0]:.2f} | "
           f"{times[2]:.1f} | {times[2] / times[1]:.2f} | {'WRONG' if wrong else ''} |")
    return row, *times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*", default=["conv_resnet50_bf16", "matmul"])
    parser.add_argument("--only", default="", help="a part of the problem text")
    parser.add_argument("--end", default="bias", choices=tuple(OPS))
    parser.add_argument("--out", default=str(HERE / "results"))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeat", type=int, default=15)
    args = parser.parse_args()
    device = devices.get(args.device)
    clock = bench.Clock(device)
    for family in args.family:
        lines = (HERE / "problems" / f"{family}.txt").read_text().splitlines()
        lines = [line for line in lines if line.startswith(OPS[args.end]) and args.only in line]
        rows = []
        for line in lines:
            rows.append(measure(line, device, clock, args))
            plans.forget()
            print(rows[-1][0], flush=True)
        plain, whole, parts = (sum(row[i] for row in rows) for i in (1, 2, 3))
        said = (f"{len(rows)} lines; whole over plain {whole / plain:.3f}, parts over whole "
                f"{parts / whole:.3f} (sums)" if rows else "no line")
        print(said, flush=True)
        out = Path(args.out)
        out.mkdir(parents=True, exist_ok=True)
        name = f"{'prologue' if args.end == 'prologue' else 'sums'}_{family}"
        page = header(name, args, f"python benchmarks/sums.py {family} --end {args.end}")
        text = "\n".join([page + HEAD, *(row[0] for row in rows), "", said, ""])
        out.joinpath(f"{name}.md").write_text(text)


if __name__ == "__main__":
    main()

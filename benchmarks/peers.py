"""Batch norm of a batch whose parts lie on several GPUs (``peer_stats``), beside batch norm of one part:
``python benchmarks/peers.py [--dims 64,256,56,56] [--type bf16] [--devices cuda:0 cuda:1] [--out DIR]``.

Statistics must be those of the joined batch on one GPU, equal bits on all, before anything is timed. Times
are of rounds of calls on all GPUs, by events; tensors are larger than an L2. Writes peers.md.
"""
from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from run import HERE                             # the folder of this script is on the path
from cydnn import bench, device as devices, plan as plans
from cydnn.ops import Problem

CALLS, ROUNDS = 50, 7


class Part:
    """Plans and memory of one GPU: forward and backward, with peers and alone."""

    def __init__(self, device, seed: int, dims, kind: str):
        self.device, self.seed, self.dims, self.kind = device, seed, dims, kind
        self.stream, self.rooms, self.of = device.create_stream(), {}, {}

    def line(self, way: str, peers: int = 1, rank: int = 0, images: int = 0) -> str:
        """The problem, ``way`` fwd or bwd."""
        n, c, h, w = self.dims
        big, thin = f"{images or n}x{c}x{h}x{w}:{self.kind}@nhwc", f"1x{c}x1x1:f32"
        mail = "" if peers == 1 else " peer_stats=" + "+".join([f"{peers}x{4 * c}:f32"] * peers)
        end = mail and f" rank={rank}"
        if way == "fwd":
            return (f"batch_norm_training x={big} scale={thin} bias={thin}{mail} y={big} mean={thin} "
                    f"rstd={thin} mode=spatial{end}")
        return (f"batch_norm_bwd x={big} dy={big} scale={thin} mean={thin} rstd={thin}{mail} dx={big} "
                f"dscale={thin} dbias={thin} mode=spatial{end}")

    def call(self, line: str, mail=()):
        """What runs a problem on memory that all of them share, by their operands' names."""
        problem = Problem.parse(line)
        graph = bench.graph_of(problem)
        plan, boxes, pointers = plans.build(graph, self.device), iter(mail), []
        for seed, slot in enumerate(plan.slots):
            name = graph.tensors[slot.uid].name
            if name.startswith("peer_stats"):
                pointers.append(int(next(boxes).ptr))
                continue
            if name not in self.of:
                self.of[name] = self.device.alloc(slot.bytes)
                bench.fill(self.device, self.of[name].ptr, slot.desc, 31 * self.seed + seed, lambda v: v)
            pointers.append(int(self.of[name].ptr))
        room = self.rooms[line] = self.device.alloc(max(plan.workspace_bytes, 1))
        return lambda: plan.execute(tuple(pointers), int(room.ptr), self.stream)

    def thin(self, name: str) -> np.ndarray:
        return self.device.copy_out(self.of[name].ptr, np.empty(self.dims[1], np.float32))


def checked(parts) -> str:
    """Compare the statistics with those of the joined batch on the first GPU; the largest error in words."""
    first, n = parts[0], sum(part.dims[0] for part in parts)
    joined = Part(first.device, 0, first.dims, first.kind)
    call = joined.call(joined.line("fwd", images=n))
    at = int(joined.of["x"].ptr)
    for part in parts:
        size = part.of["x"].bytes
        first.device.copy_in(at, part.device.copy_out(part.of["x"].ptr, np.empty(size, np.uint8)))
        at += size
    call()
    joined.device.synchronize()
    worst = 0.0
    for name in ("mean", "rstd"):
        mine, want = [part.thin(name) for part in parts], joined.thin(name)
        if not all(np.array_equal(mine[0], other) for other in mine):
            raise SystemExit(f"WRONG: {name} has other bits on other GPUs")
        worst = max(worst, float(np.abs(mine[0] / want - 1).max()) if name == "rstd"
                    else float(np.abs(mine[0] - want).max()))
    if not worst < 1e-5:
        raise SystemExit(f"WRONG: statistics are off by {worst}")
    return f"statistics of all GPUs have equal bits, within {worst:.1g} of those of the joined batch"


def timed(parts, calls) -> float:
    """Microseconds of a call on the slowest GPU, all of them running: the median of rounds."""
    found = []
    for _ in range(ROUNDS):
        marks = [(part.device.create_event(), part.device.create_event()) for part in parts]
        for part, (start, _) in zip(parts, marks):
            start.record(part.stream)
        for _ in range(CALLS):
            for call in calls:
                call()
        for part, (_, end) in zip(parts, marks):
            end.record(part.stream)
        for part in parts:
            part.device.synchronize()
        found.append(max(1e3 * end.elapsed(start) for start, end in marks) / CALLS)
    return statistics.median(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", default="64,256,56,56", help="n,c,h,w of each part")
    parser.add_argument("--type", default="bf16")
    parser.add_argument("--devices", nargs="+", default=["cuda:0", "cuda:1"])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    args = parser.parse_args()
    dims = tuple(int(size) for size in args.dims.split(","))
    parts = [Part(devices.get(name), seed, dims, args.type) for seed, name in enumerate(args.devices)]
    mail = [part.device.alloc(16 * dims[1] * len(parts)) for part in parts]
    for part, box in zip(parts, mail):
        part.device.memset(box.ptr, 0, box.bytes)
        part.device.synchronize()
    rows = []
    for way in ("fwd", "bwd"):
        alone = [part.call(part.line(way)) for part in parts]
        joined = [part.call(part.line(way, len(parts), rank), mail) for rank, part in enumerate(parts)]
        for call in joined:
            call()
        for part in parts:
            part.device.synchronize()
        said = checked(parts) if way == "fwd" else ""
        one = timed(parts[:1], alone[:1])
        each, with_peers = timed(parts, alone), timed(parts, joined)
        rows.append(f"| {parts[0].line(way, len(parts), 0)} | {one:.1f} | {each:.1f} | {with_peers:.1f} "
                    f"| {with_peers / one:.2f} |")
        print(said or way, rows[-1], sep="\n", flush=True)
    facts = parts[0].device.facts
    (args.out / "peers.md").write_text(
        f"# Batch norm over several GPUs\n\n{len(parts)} x {facts.name}, driver {facts.driver}; "
        f"{time.strftime('%Y-%m-%d')}. Microseconds of a call, median of {ROUNDS} rounds of {CALLS}.\n\n"
        "Command: `python benchmarks/peers.py`\n\n"
        "| problem | one GPU alone | each alone, all running | with peers | over one alone |\n"
        "|---|---|---|---|---|\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()

"""TEMPORARY, not to be merged: times of candidates on the rows of the perf task. python benchmarks/try_perf.py"""
import statistics, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cydnn import bench, device as devices, plan
from cydnn.device import cuda
from cydnn.engines import batch_norm_columns, batch_norm_rows, engines_for, softmax_cluster
from cydnn.ops import Problem

dev = devices.get("cuda:0")
clock = bench.Clock(dev)
LINES = [l.split("#")[0].strip() for f in ("batch_norm", "softmax", "pooling", "pointwise") for l in (Path(__file__).parent / "problems" / f"{f}.txt").read_text().splitlines()]
LINES = [l for l in LINES if l and l.startswith(("batch_norm", "softmax", "reduction", "pooling_bwd"))]
walk, allowed = batch_norm_columns.walk_back, cuda.OVERLAPS


def case(line):
    return bench.Case(Problem.parse(line), dev)


def variants(line):
    """{label: case}: overlap off and on, second pass forwards, clusters of halves."""
    found = {}
    for label, after in (("apart", 10 ** 9), ("overlapping", allowed)):
        cuda.OVERLAPS = after
        found[label] = case(line)
        plan.forget()
    if line.startswith("batch_norm") and "nhwc" in line:
        batch_norm_columns.walk_back = lambda p, dev: 0
        found["overlapping, forwards"] = case(line)
        batch_norm_columns.walk_back = walk
        plan.forget()
    if line.startswith("softmax_bwd") and "cluster" in found["apart"].plan.name:
        engine = softmax_cluster.ENGINES[1]
        keep = engine.sizes, engine.held, engine.suffix
        engine.sizes, engine.held, engine.suffix = (4, 8), 4096, "_512"
        found["halves"] = case(line)
        engine.sizes, engine.held, engine.suffix = keep
        plan.forget()
    return found


for line in LINES:
    cases = variants(line)
    moved = bench.bytes_moved(Problem.parse(line))
    for found in cases.values():
        found()
    dev.synchronize()
    times = clock.times(list(cases.values()), 12)
    same = clock.copy_us(moved, 8)
    text = "   ".join(f"{label} {statistics.median(t):.1f}" for label, t in zip(cases, times))
    print(f"{line:75s} {next(iter(cases.values())).plan.name:36s} copy {same:.1f}   {text}", flush=True)
    del cases

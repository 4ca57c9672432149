"""TEMPORARY, not to be merged: times of candidates on the rows of the perf task. python benchmarks/try_perf.py [pool|rest|ncu]"""
import statistics, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cydnn import bench, device as devices, plan
from cydnn.engines import engines_for
from cydnn.ops import Problem

dev = devices.get("cuda:0")
clock = bench.Clock(dev)
POOL = ["pooling_bwd n256c64h112w112 window=3 stride=2 pre_pad=1 mode=max bf16 nhwc", "pooling_bwd n4c64h128w128 window=2 stride=2 mode=max bf16 nhwc",
        "pooling_bwd n64c256h56w56 window=3 stride=2 pre_pad=1 mode=max bf16 nhwc",
        "pooling_bwd n256c64h112w112 window=3 stride=2 pre_pad=1 mode=max nan=propagate bf16 nhwc",
        "pooling_bwd n256c64h112w112 window=3 stride=2 pre_pad=1 mode=max f16 nhwc", "pooling_bwd n64c64h112w112 window=3 stride=2 pre_pad=1 mode=max f32 nhwc"]
REST = [l.split("#")[0].strip() for f in ("batch_norm", "softmax", "pooling", "pointwise") for l in (Path(__file__).parent / "problems" / f"{f}.txt").read_text().splitlines()]
REST = [l for l in REST if l and not l.startswith(("pointwise", "transform"))]


def show(line, label, engine=None):
    problem = Problem.parse(line)
    case = bench.Case(problem, dev, engine)
    moved = bench.bytes_moved(problem)
    us = statistics.median(clock.times([case], 12)[0])
    print(f"{us:8.1f} us {moved / us * 1e-3:6.0f} GB/s  same-size copy {clock.copy_us(moved, 8) / us:4.0%}  {case.plan.name:38s} {label:14s} {line}", flush=True)
    plan.forget()


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "pool":
        engine = next(e for e in engines_for(Problem.parse(POOL[0]).op) if e.index == 243)
        for line in POOL:
            for engine.words in (1, 2, 4):
                show(line, f"words={engine.words}", engine)
    elif what == "rest":
        for line in REST:
            show(line, "")
    elif what == "ncu":                          # every kernel once, for ncu
        words = int(sys.argv[2])
        for line in sys.argv[3:]:
            problem = Problem.parse(line)
            if problem.op.name == "pooling_bwd":
                next(e for e in engines_for(problem.op) if e.index == 243).words = words
            bench.Case(problem, dev)()
            dev.synchronize()

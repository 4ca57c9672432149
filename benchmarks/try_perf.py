"""TEMPORARY, not to be merged: batch norm training with x in shared memory (engine 261) against 250 and 251. python benchmarks/try_perf.py"""
import statistics, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cydnn import bench, device as devices, plan
from cydnn.engines import BY_INDEX
from cydnn.heuristics.partition import match_of
from cydnn.ops import Problem
from tests.support import matrix

dev = devices.get("cuda:0")
clock = bench.Clock(dev)


for dims in ("n32c512h28w28", "n32c1024h14w14", "n32c2048h7w7", "n32c256h28w28", "n32c256h14w14", "n32c512h14w14", "n32c512h7w7", "n32c128h28w28", "n32c64h28w28", "n64c1024h14w14",
             "n256c2048h7w7", "n256c512h7w7", "n256c256h14w14", "n8c512h28w28", "n8c256h56w56", "n1c64h112w112"):
    problem = Problem.parse(f"batch_norm_training {dims} bf16 nhwc")
    graph = bench.graph_of(problem)
    match = match_of(graph, graph.nodes[0])
    cases = {}
    for index in (251, 250, 261):
        engine = BY_INDEX[index]
        if engine.accepts(match, dev.facts):
            for config in engine.configs(match, dev.facts)[:4]:
                cases[f"{index} {tuple(config.values()) or ''}"] = bench.Case(problem, dev, engine, config=config)
                plan.forget()
    moved = bench.bytes_moved(problem)
    times = clock.times(list(cases.values()), 14)
    text = "   ".join(f"{label}: {statistics.median(t):.1f}" for label, t in zip(cases, times))
    print(f"{dims:16s} copy of as many bytes {clock.copy_us(moved, 8):.1f}   80 % of the big copy {moved / 4.2e6 / 0.8:.1f}   {text}", flush=True)
    bad = [f for seed in range(3) for f in matrix.run(problem, dev, seed, engines=[BY_INDEX[261]]).findings] if problem.bytes < 2e7 else []
    print("\n".join(bad), end="\n" if bad else "", flush=True)

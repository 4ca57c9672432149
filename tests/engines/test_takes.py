"""Every engine with each thing that its pattern takes around its operation: the same values as on the NumPy
device.

``CYDNN_AROUND`` graphs of each on a Hopper GPU (default 12).
"""
from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "device" / "ptx")]
import watched
from cydnn import plan
from cydnn.engines import BY_INDEX, TABLE
from cydnn.heuristics import Wish
from cydnn.heuristics.choice import Choice
from cydnn.heuristics.offers import Offers
from cydnn.ops.batch_norm import MODES as BATCH_NORMS
from cydnn.ops.norm import MODES as NORMS
from support.check import streams, sums
from support.draw import around, dags, of_engine

# Engines of peers splice as those do whose launches they have: 266 and 267.
AROUND = [(engine, *thing) for engine in TABLE if not streams.of_peers(engine)
          for thing in around.things(engine.takes)]
COUNT, TRIES, FLOPS = int(os.environ.get("CYDNN_AROUND", "12")), 2000, 3e6
NAMES = [f"{engine}-{where}-{getattr(which, 'name', which)}" for engine, where, which in AROUND]


def choices(engine, where, which, device, flops):
    """(choice of the engine in a random configuration, are results more than sums of small whole numbers?) of
    graphs that it takes whole."""
    rng = random.Random(f"{engine} {where} {which}")
    small = lambda p: p.flops <= flops and getattr(p.op, "mode", "add") in (
        *around.EXACT, *NORMS, *BATCH_NORMS, "bilinear", "sum_sqsum", "cross_correlation", "convolution",
        "none", "gather", "scatter")
    alone = BY_INDEX[117] if engine.index in sums.FRONTED else engine
    for problem, _ in zip(of_engine.problems(alone, device.facts, where, small), range(TRIES)):
        graph, smooth = around.graph_of(problem, where, which, rng, sums.between(engine, problem))
        whole = (1 << len(graph.nodes)) - 1
        core = next(i for i, node in enumerate(graph.nodes) if isinstance(node.op, engine.op))
        offered = Offers(graph, device.facts, Wish(engines=(engine.index,))).anchored(core)
        for part in [p for p in offered if p.region.mask == whole]:
            config = rng.choice(list(engine.configs(part.match, device.facts)))
            yield Choice(graph, graph, device.facts, (replace(part, config=config),)), smooth


def wrong(device, engine, where, which, count, flops=FLOPS) -> list:
    """What is wrong with so many of them."""
    found = [(choice, dags.check(choice.graph, smooth, device, seed, built=plan.made(choice, device)))
             for seed, (choice, smooth) in zip(range(count), choices(engine, where, which, device, flops))]
    assert len(found) == count, f"{engine} must take what its pattern says; got {len(found)} graphs"
    return [f"{choice.graph} {choice.text}: {text}" for choice, texts in found for text in texts]


@pytest.mark.share(48)
@pytest.mark.parametrize("engine, where, which", AROUND, ids=NAMES)
def test_on_the_interpreter(engine, where, which):
    with watched.watching():
        assert not wrong(watched.PtxDevice("sm_90"), engine, where, which, 2)


@pytest.mark.gpu
@pytest.mark.parametrize("engine, where, which", AROUND, ids=NAMES)
def test_on_hopper(engine, where, which, hopper, family_counts):
    found = wrong(hopper, engine, where, which, COUNT, 3e7)
    key = f"around/{engine} {where} {getattr(which, 'name', which)}"
    family_counts[key] = dict(problems=COUNT, engine_runs=COUNT, wrong=len(found))
    plan.forget()
    assert not found, f"{len(found)} findings:\n" + "\n".join(found[:12])

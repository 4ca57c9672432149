"""Every engine on streams: the same bits each time under load, behind a producer that is late, replayed
from a CUDA graph on new data and on other pointers.

``CYDNN_REPEATS`` runs under load of each problem (default 1000), ``CYDNN_DELAYED`` late producers
(default 4), ``CYDNN_REPLAYS`` replays (default 100); ``CYDNN_SOME`` problems of each engine (default 2).
"""
from __future__ import annotations

import os

import pytest

from cydnn import plan as plans
from cydnn.engines import TABLE
from cydnn.status import BadParam
from support.check import captured, streams
from support.draw.of_engine import some

pytestmark = pytest.mark.gpu
REPEATS, DELAYED, REPLAYS, SOME = (int(os.environ.get(f"CYDNN_{name}", default)) for name, default in
                                   (("REPEATS", 1000), ("DELAYED", 4), ("REPLAYS", 100), ("SOME", 2)))
LATE = 5.0                                       # milliseconds


@pytest.fixture(scope="module")
def load(gpu):
    return streams.Load(gpu)


@pytest.fixture(scope="module")
def spin(gpu):
    return streams.spinner(gpu, LATE)


def each(engine, gpu, check, times, count: str, family_counts):
    """``check(problem)`` -> (numbers of the runs that are wrong, whether inputs tell) for some problems."""
    found, wrong, telling = some(engine, gpu.facts, SOME), [], 0
    for problem in found:
        runs, tells = check(problem)
        telling += bool(tells)
        wrong += [f"{problem}: runs {runs[:5]}, {len(runs)} of {times}"] if runs else []
        plans.forget()
    family_counts[f"{count}/{engine}"] = dict(problems=len(found), engine_runs=times * len(found),
                                              telling=telling, wrong=len(wrong))
    assert found, f"{engine} takes none of its problems"
    assert not wrong, "\n".join(wrong)
    return telling


@pytest.mark.parametrize("engine", [e for e in streams.ALONE if "deterministic" in e.notes], ids=str)
def test_the_same_bits_under_load(engine, gpu, load, family_counts):
    stream = streams.stream_of(gpu)
    check = lambda problem: (streams.repeated(
        streams.places(problem, engine, gpu), load, stream, REPEATS), True)
    each(engine, gpu, check, REPEATS, "repeats", family_counts)


@pytest.mark.parametrize("engine", streams.ALONE, ids=str)
def test_a_late_producer(engine, gpu, spin, family_counts):
    """Inputs come 5 ms late on another stream, and only an event is between."""
    telling = each(engine, gpu, lambda problem: streams.delayed(
        streams.places(problem, engine, gpu), spin, DELAYED), DELAYED, "delayed", family_counts)
    assert telling or not reads(engine), "two sets of inputs give the same results"


def test_a_late_producer_that_nobody_waits_for_is_seen(gpu, spin):
    """So the delay is one, and the test can fail."""
    engine = next(e for e in TABLE if e.name == "transform_any")
    wrong, tells = streams.delayed(streams.places(some(engine, gpu.facts, 1)[0], engine, gpu), spin, 8,
                                   waits=False)
    assert tells and wrong


@pytest.mark.parametrize("engine", streams.ALONE, ids=str)
def test_a_graph_replayed(engine, gpu, family_counts):
    """Captured in global mode; half of the replays on other pointers."""
    stream = streams.stream_of(gpu)
    telling = each(engine, gpu, lambda problem: captured.replayed(problem, engine, gpu, stream, REPLAYS),
                   REPLAYS, "replayed", family_counts)
    assert telling or not reads(engine), "two sets of inputs give the same results"


@pytest.mark.parametrize("engine", streams.ALONE, ids=str)
def test_native_nodes_replayed(engine, gpu, family_counts):
    """Nodes of the plan's own; half of the replays behind an update to other pointers."""
    stream = streams.stream_of(gpu)
    check = lambda problem: captured.replayed(problem, engine, gpu, stream, REPLAYS, is_native=True)
    telling = each(engine, gpu, check, REPLAYS, "native", family_counts)
    assert telling or not reads(engine), "two sets of inputs give the same results"


def test_foreign_graphs_are_refused(gpu):
    """On a driver that runs: a graph of another plan, and one that is not empty."""
    kinds = [next(e for e in TABLE if e.name == name) for name in ("transform_any", "softmax_fwd_warp")]
    one, other = (streams.places(some(engine, gpu.facts, 1)[0], engine, gpu)[0] for engine in kinds)
    made = captured.Populated(gpu, streams.stream_of(gpu), one.populate)
    try:
        with pytest.raises(BadParam, match="must be one that was populated from this plan, a chain of"):
            other.update(made.graph.value)
        with pytest.raises(BadParam, match="must be empty to be populated; got one of"):
            one.populate(made.graph.value)
        one.update(made.graph.value)
    finally:
        made.free()


def reads(engine) -> bool:
    """Do its results follow from tensors?"""
    return bool(set(engine.op.reads) - set(engine.op.keeps))

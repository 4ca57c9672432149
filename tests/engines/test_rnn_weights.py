"""RnnBwdWeightsProducts on the PTX device against NumPy: sums of biases whole and in splits, h of the step
before copied and where it lies; how many launches that is."""
from __future__ import annotations

import random

import pytest

from cydnn import ops, plan
from cydnn.bench import Case
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.rnn.previous_state import before_of
from cydnn.engines.rnn.layers import Net
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from support.draw import alone
from support.check import hopper
from support.draw.rnn import network
from support.check.matrix import plain

H200, ENGINE = KNOWN["h200"], BY_INDEX[318]
TYPES = ("f16", "bf16", "f32", "f64 acc=f64")


def kernels_of(network, card="h200", config=None):
    p = alone.match(Problem.parse(f"rnn_bwd_weights {network}"))
    return [s.kernel for s in alone.steps(ENGINE, p, KNOWN[card], config)]


@pytest.mark.parametrize("card", KNOWN)
@pytest.mark.parametrize("network, least", [
    ("t1n32i512 cell=gru hidden=512 f16", 4), ("t1n32i512 cell=lstm hidden=512 f16", 3),
    ("t1n32i512 cell=gru hidden=512 hx=none bf16", 2), ("t8n4i64 cell=tanh hidden=64 f32", 3),
    ("t8n4i64 cell=gru hidden=64 bidirectional=True f64", 4), ("t1n2i8 cell=relu input=skip hidden=8 f32", 2),
    ("t1n2i8 cell=relu input=skip hidden=8 hx=none f16", 1),
    ("t4n4i8 cell=lstm hidden=8 batches=4,4,2,1 layers=2 f16", 7)])
def test_launches_of_small_networks(card, network, least):
    """One for the biases and the copy; one for each product, of which GRU has one more. A batch that shrinks
    has a table."""
    found = kernels_of(network, card)
    assert len([k for k in found if not k.startswith("matmul_sum")]) == least
    assert sum(k.startswith("rnn_bias") for k in found) == 1 + ("layers=2" in network)


@pytest.mark.parametrize("network, row, rows, is_copy", [
    ("t5n4i8 cell=lstm hidden=8 f16", 8, 20, True), ("t5n4i8 cell=lstm hidden=8 hx=none f16", 8, 16, False),
    ("t5n4i8 cell=gru hidden=8 bidirectional=True hx=none f16", 16, 16, False),
    ("t1n4i8 cell=gru hidden=8 bidirectional=True f16", 8, 4, False),
    ("t3n4i8 cell=gru hidden=8 batches=4,4,3 hx=none f16", 8, 11, True)])
def test_what_is_copied(network, row, rows, is_copy):
    p = alone.match(Problem.parse(f"rnn_bwd_weights {network}"))
    found = before_of(Net.of(p), 0, p.scratch(4096))
    assert (found.row, found.rows, found.is_copy) == (row, rows, is_copy)
    launch = next(s for s in alone.steps(ENGINE, p, H200) if s.kernel.startswith("rnn_bias"))
    assert bool(launch.args["shares"]) == is_copy == (launch.args["to"] is not None)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("network", [
    "t3n5i4 cell=lstm hidden=5 bidirectional=True hx=none", "t1n5i8 cell=gru hidden=8 bidirectional=True",
    "t4n3i8 cell=gru hidden=16 hx=none", "t4n3i8 cell=tanh hidden=8 batches=3,3,2,1 layers=2 hx=none",
    "t1n5i6 cell=lstm hidden=3 hx=none", "t3n2i6 cell=gru hidden=7 layers=2 bidirectional=True"])
def test_h_where_it_lies(network, kind):
    hopper.check(ENGINE, Problem.parse(f"rnn_bwd_weights {network} {kind}"), None, plain)


@pytest.mark.share(5)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("network", [
    "t3n80i4 cell=gru hidden=8 bidirectional=True", "t2n150i3 cell=lstm hidden=5",
    "t2n130i2 cell=relu hidden=72 hx=none"])
def test_every_number_of_splits(network, kind):
    problem = Problem.parse(f"rnn_bwd_weights {network} {kind}")
    configs = list(ENGINE.configs(alone.match(problem), H200))
    assert {c.splits for c in configs} >= {1, 2, 4}
    for config in configs:
        hopper.check(ENGINE, problem, config, plain)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(6))
def test_any_network_in_any_order_of_threads(seed):
    rng, device = random.Random(seed), hopper.device()
    device.seed = seed
    for _ in range(3):
        problem = network(ops.RnnBwdWeights, rng)
        configs = list(ENGINE.configs(alone.match(problem), H200))
        hopper.check(ENGINE, problem, rng.choice(configs), plain, device, seed)


def test_bits_do_not_depend_on_the_order_of_threads():
    problem, bits = Problem.parse("rnn_bwd_weights t3n90i8 cell=gru hidden=16 bidirectional=True f32"), set()
    config = next(c for c in ENGINE.configs(alone.match(problem), H200) if c.splits == 4)
    for seed in (None, 1, 2):
        device = hopper.device()
        device.seed = seed
        case = Case(problem, device, Wish(engines=(ENGINE.index,), config=config))
        case()
        bits.add(case.output("dw").tobytes())
        plan.forget()
    assert len(bits) == 1


@pytest.mark.parametrize("network, lanes, is_split", [
    ("t1n32i512 cell=gru hidden=512 f16", 8, False), ("t25n16i512 cell=lstm hidden=512 f16", 8, False),
    ("t100n64i512 cell=lstm hidden=512 f16", 32, True), ("t1500n32i2816 cell=gru hidden=2816 f16", 32, True),
    ("t100n64i63 cell=lstm hidden=63 f16", 32, True)])
def test_rows_are_cut_where_columns_do_not_fill_the_card(network, lanes, is_split):
    p = alone.match(Problem.parse(f"rnn_bwd_weights {network}"))
    found = [s for s in alone.steps(ENGINE, p, H200) if s.kernel.startswith("rnn_bias")]
    assert (found[0].args["lanes"], len(found) == 2) == (lanes, is_split)
    assert (found[0].args["splits"] > 1) == is_split

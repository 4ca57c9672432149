"""Teams of blocks that share the depth in RnnBwdDataPersist, on the PTX device against NumPy: every
configuration, orders of threads, bits; who has teams; and faults planted in the kernel."""
from __future__ import annotations

import random

import pytest

from cydnn import ops, plan
from cydnn.bench import Case
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import Finding, PtxDevice
from cydnn.engines import BY_INDEX
from cydnn.engines.rnn.layers import Net
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from support.draw import alone
from support.draw.rnn import network
from support.check.matrix import run
from lab.planted import plant

H200, ENGINE = KNOWN["h200"], BY_INDEX[315]
LINES = [
    "rnn_bwd_data t3n9i8 cell=lstm hidden=40 f16",
    "rnn_bwd_data t3n18i8 cell=gru hidden=72 batches=18,9,1 bf16",
    "rnn_bwd_data t2n40i8 cell=lstm hidden=16 batches=40,3 bidirectional=True f16",
    "rnn_bwd_data t2n70i8 cell=tanh hidden=24 layers=2 dropout=0.5 bf16",
    "rnn_bwd_data t2n35i24 cell=gru hidden=24 layers=2 input=skip cx=none dhx=none f16",
]


def offered(line):
    """The problem and its configurations of two blocks."""
    problem = Problem.parse(line)
    return problem, [c for c in ENGINE.configs(alone.match(problem), H200) if c.cluster_k == 2]


@pytest.mark.share(2)
@pytest.mark.parametrize("line", LINES)
def test_every_configuration(line):
    problem, configs = offered(line)
    device = PtxDevice("sm_90")
    assert {c.unit_tiles for c in configs} == {1, 2} and {c.resident for c in configs} == {"all", "none"}
    for config in configs:
        outcome = run(problem, device, 1, [ENGINE], config)
        assert outcome.ran and not outcome.findings, (config, outcome)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(4))
def test_any_network_in_any_order_of_threads(seed):
    rng, taken = random.Random(seed), 0
    device = PtxDevice("sm_90")
    device.seed = seed
    while taken < 2:
        problem = network(ops.RnnBwdData, rng)
        if not ENGINE.accepts(alone.match(problem), H200):
            continue
        if configs := offered(str(problem))[1]:
            taken += 1
            outcome = run(problem, device, seed, [ENGINE], rng.choice(configs))
            assert outcome.ran and not outcome.findings, (str(problem), outcome.findings)


def test_bits_do_not_depend_on_groups():
    line, bits = "rnn_bwd_data t2n70i8 cell=lstm hidden=24 bidirectional=True f16", []
    configs = [c for c in offered(line)[1] if c.unit_tiles == 1 and c.prefetch == "late"]
    assert len({c.batch_groups for c in configs}) > 1
    for config in configs:
        case = Case(Problem.parse(line), PtxDevice("sm_90"), Wish(engines=(315,), config=config))
        case()
        bits.append([case.output(name).tobytes() for name in ("dx", "dhx", "dcx", "reserve")])
        plan.forget()
    assert all(each == bits[0] for each in bits)


@pytest.mark.parametrize("text, facts", [
    ("rnn_bwd_data t3n9i8 cell=lstm hidden=40 f32", "h200"),
    ("rnn_bwd_data t3n9i8 cell=lstm hidden=40 f16", "a100")])
def test_who_has_no_teams(text, facts):
    assert {c.cluster_k for c in ENGINE.configs(alone.match(Problem.parse(text)), KNOWN[facts])} == {1}


def test_a_team_reads_half_of_the_exchange():
    p = alone.match(Problem.parse("rnn_bwd_data t100n64i1024 cell=lstm hidden=1024 f16"))
    configs = {(c.cluster_k, c.unit_tiles, c.batch_groups): c
               for c in ENGINE.configs(p, H200) if c.resident == "all"}
    one, two = (ENGINE.form(Net.of(p), H200, configs[team, 1, 2]) for team in (1, 2))
    assert two.exchanged * 2 == one.exchanged and two.resident * 2 == one.resident
    assert two.blocks == one.blocks
    assert ENGINE.best(p, H200).cluster_k == 2


# ---- Faults ----

FAULTS = [                                       # the instruction, which of them, in its place, the finding
    ("barrier.cluster.wait", 0, "", "cluster barrier|race|address"),
    ("barrier.cluster.wait", 1, "", "cluster barrier|race"),
    ("barrier.cluster.arrive", 1, "", "cluster barrier|deadlock"),
]


@pytest.mark.parametrize("instruction, nth, other, kinds", FAULTS)
def test_planted_fault(instruction, nth, other, kinds):
    name, device = "rnn_persist_bwd_f16_lstm_2x2_2", PtxDevice("sm_90")
    plant(device, name, instruction, nth, other)
    problem, configs = offered("rnn_bwd_data t3n5i8 cell=lstm hidden=96 f16")
    config = next(c for c in configs if c.unit_tiles == 1)
    with pytest.raises(Finding) as found:
        run(problem, device, 1, [ENGINE], config)
    assert found.value.kind in kinds.split("|"), found.value
    plan.forget()


def test_sums_that_are_not_given_are_wrong():
    name, device = "rnn_persist_bwd_f16_lstm_2x2_2", PtxDevice("sm_90")
    plant(device, name, "st.shared::cluster")
    problem, configs = offered("rnn_bwd_data t3n5i8 cell=lstm hidden=96 f16")
    with pytest.raises(Finding, match="unwritten"):
        run(problem, device, 1, [ENGINE], next(c for c in configs if c.unit_tiles == 1))
    plan.forget()

"""RnnFwdCluster on the PTX device against NumPy: every configuration, orders of threads, bits; its refusals;
and faults planted in its kernel."""
from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cydnn import ops, plan
from cydnn.bench import Case
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import Finding, PtxDevice
from cydnn.engines import BY_INDEX
from cydnn.engines.rnn.fwd_cluster import RnnFwdCluster, form_of
from cydnn.engines.rnn.layers import Net
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from support.draw import alone
from support.draw.rnn import network
from support.check.matrix import run
from lab.planted import plant

H200, ENGINE = KNOWN["h200"], BY_INDEX[RnnFwdCluster.index]
LINES = [
    "rnn_fwd t3n9i8 cell=lstm hidden=40 f16", "rnn_fwd t4n9i8 cell=gru hidden=72 batches=9,9,4,1 bf16",
    "rnn_fwd t4n9i8 cell=lstm hidden=64 batches=9,8,8,2 bidirectional=True f16",
    "rnn_fwd t3n3i8 cell=tanh hidden=144 layers=2 dropout=0.5 f16",
    "rnn_fwd t1n18i8 cell=gru hidden=136 bidirectional=True hx=none f16",
    "rnn_fwd t3n34i24 cell=lstm hidden=24 layers=2 input=skip reserve=none cx=none f16",
    "rnn_fwd t3n2i8 cell=relu hidden=520 bf16", "rnn_fwd t3n2i8 cell=lstm hidden=304 hy=none f16",
    "rnn_fwd t2n17i8 cell=gru hidden=512 reserve=none bf16",
]


def offered(line):
    """The problem and the configurations for it."""
    problem = Problem.parse(line)
    return problem, list(ENGINE.configs(alone.match(problem), H200))


@pytest.mark.share(4)
@pytest.mark.parametrize("line", LINES)
def test_every_configuration(line):
    problem, configs = offered(line)
    device = PtxDevice("sm_90")
    assert configs
    for config in configs:
        outcome = run(problem, device, 1, [ENGINE], config)
        assert outcome.ran and not outcome.findings, (config, outcome)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(5))
def test_any_network_in_any_order_of_threads(seed):
    """Of random networks those that it takes; initial and last states lie as the op allows."""
    rng, taken = random.Random(seed), 0
    device = PtxDevice("sm_90")
    device.seed = seed
    while taken < 3:
        problem = network(ops.RnnFwd, rng)
        outcome = run(problem, device, seed, [ENGINE])
        taken += bool(outcome.ran)
        assert not outcome.findings, (str(problem), outcome.findings)


def outputs(line, config):
    case = Case(Problem.parse(line), PtxDevice("sm_90"), Wish(engines=(ENGINE.index,), config=config))
    case()
    found = [case.output(name).tobytes() for name in ("y", "hy", "reserve")]
    plan.forget()
    return found


def test_bits_do_not_depend_on_how_many_blocks_share_a_direction():
    line = "rnn_fwd t4n5i8 cell=lstm hidden=96 bidirectional=True f16"
    _, configs = offered(line)
    assert len({c.cluster for c in configs}) == 3
    bits = [outputs(line, config) for config in configs if config.batch_rows == 8]
    assert all(each == bits[0] for each in bits)


# ---- What it says of itself ----

@pytest.mark.parametrize("line, sentence", [
    ("rnn_fwd t3n5i8 cell=lstm hidden=520 f16",
     "hidden must be at most 512 of cell lstm (8 blocks of 8 warps); got 520"),
    ("rnn_fwd t3n5i8 cell=relu hidden=1032 bf16",
     "hidden must be at most 1024 of cell relu (8 blocks of 8 warps); got 1032"),
    ("rnn_fwd t3n5i8 cell=gru hidden=36 f16", "hidden must be a multiple of 8 (units of a warp); got 36"),
    ("rnn_fwd t3n5i8 cell=gru hidden=32 f32", "x must be one of f16 bf16; got f32"),
])
def test_refusals(line, sentence):
    assert sentence in ENGINE.reasons(alone.match(Problem.parse(line)), H200)


def test_it_refuses_what_is_not_aligned():
    p = Problem.parse("rnn_fwd t3n5i8 cell=gru hidden=32 f16")
    made = alone.of(p.op, alignment=2, **{n: d for n, d in p.operands.items() if d is not None})
    reasons = ENGINE.reasons(made, H200)
    assert {"x must be aligned to 4 bytes; got 2", "w must be aligned to 16 bytes; got 2"} <= set(reasons)


def test_it_refuses_other_devices():
    p = alone.match(Problem.parse("rnn_fwd t3n5i8 cell=lstm hidden=512 f16"))
    assert ENGINE.reasons(p, KNOWN["a100"])[0] == "needs sm_90 or newer; device is sm_80"
    assert ENGINE.reasons(p, H200) == () == ENGINE.reasons(p, KNOWN["b200"])
    small = replace(H200, smem_bytes=99 << 10)
    assert ENGINE.reasons(p, small) == (
        "hidden 512 needs 147456 bytes of shared memory a block; the device has 101376",)


@pytest.mark.parametrize("hidden, units", [(8, 8), (40, 8), (264, 8), (512, 8), (24, 16), (1024, 16)])
def test_blocks_have_units_and_all_units_have_a_block(hidden, units):
    cell = "lstm" if units == 8 else "tanh"
    problem, configs = offered(f"rnn_fwd t3n40i8 cell={cell} hidden={hidden} f16")
    net = Net.of(alone.match(problem))
    assert configs and {c.batch_rows for c in configs} <= {8, 16}
    for config in configs:
        form = form_of(net, config)
        owned = form.warps * units
        assert owned * form.blocks >= hidden and (form.blocks == 2 or owned * form.blocks // 2 < hidden)


def test_cost_prefers_it_where_steps_are_small():
    """To the engine whose states go through L2; not where rows are so many that clusters take turns."""
    costs = {b: [alone.cost(BY_INDEX[i], alone.match(p), H200) for i in (ENGINE.index, 311)] for b, p in
             ((b, Problem.parse(f"rnn_fwd t50n{b}i256 cell=lstm hidden=256 f16")) for b in (1, 16, 64))}
    assert all(cluster < persist for cluster, persist in costs.values())
    assert costs[1][0] <= 1.01 * costs[16][0] and costs[16][0] <= costs[64][0]


# ---- Faults ----

FAULTS = [                                       # the instruction, which of them, in its place, the finding
    ("mbarrier.try_wait", 0, "setp.eq.u32 p, 0, 0;", "mbarrier|race|in flight"),
    ("mbarrier.arrive.expect_tx", 0, "", "deadlock"),
    ("mbarrier.arrive.expect_tx", 2, "", "deadlock"),
    ("mbarrier.init", 1, "", "mbarrier|unwritten"),
    ("st.async", 0, "", "deadlock"),
    ("barrier.cluster.wait", 0, "", "cluster barrier|mbarrier|race|address"),
]


@pytest.mark.parametrize("instruction, nth, other, kinds", FAULTS)
def test_planted_fault(instruction, nth, other, kinds):
    name, device = "rnn_cluster_f16_lstm_1", PtxDevice("sm_90")
    plant(device, name, instruction, nth, other)
    problem, configs = offered("rnn_fwd t6n5i8 cell=lstm hidden=96 f16")
    for config in configs:
        if config.cluster == 2:
            with pytest.raises(Finding) as found:
                run(problem, device, 1, [ENGINE], config)
            assert found.value.kind in kinds.split("|"), found.value
    plan.forget()

"""Estimates of the engines of recurrent networks with a launch a step."""
from __future__ import annotations

from dataclasses import replace

import pytest

from cydnn import device
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.rnn.layers import Net
from cydnn.engines.rnn.rnn import plain_step_us
from cydnn.ops import Problem
from support.draw import alone
from support.check import matrix

H200, FORWARD, BACKWARD = KNOWN["h200"], BY_INDEX[310], BY_INDEX[314]


@pytest.mark.parametrize("steps", [1, 2, 9])
@pytest.mark.parametrize("states", ["", "dhx=none dcx=none"])
def test_every_launch_back_but_the_first_has_a_product(steps, states):
    p = alone.match(Problem.parse(f"rnn_bwd_data t{steps}n32i512 cell=lstm hidden=512 {states} f16"))
    net, config = Net.of(p), BACKWARD.best(p, H200)
    launches = [s for s in alone.steps(BACKWARD, p, H200) if s.kernel.startswith("rnn_step_bwd")]
    assert len(launches) == steps + (not states)
    us, each = BACKWARD.recurrence_us(net, H200, config), plain_step_us(net, H200, config.tile, 1)
    assert 0 < us - (len(launches) - 1) * each < each


def test_a_gate_near_one():
    """The square of 0.9996 is rounded, and 1 takes most of it away."""
    states = " ".join(f"{name}=2x2x1x3:f32@6,3,6,1" for name in ("dhy", "dcy", "cx"))
    problem = Problem.parse(f"rnn_bwd_data y=1x6:f32 dy=1x6:f32@8,1 w=720:f32 {states} dx=1x14:f32 "
                            "reserve=704:f32 dhx=2x2x1x3:f32@6,3,6,1 dcx=2x2x1x3:f32@6,3,6,1 cell=lstm "
                            "hidden=3 layers=2 bidirectional=True dropout=1.0 align=2")
    outcome = matrix.run(problem, device.get("ptx:sm_90"), seed=1229021671, engines=[BACKWARD])
    assert outcome.ran and not outcome.findings, outcome


@pytest.mark.parametrize("engine, op", [(FORWARD, "rnn_fwd"), (BACKWARD, "rnn_bwd_data")])
def test_a_step_costs_more_than_a_launch(engine, op):
    """However little there is to do; a slower launch shows in every step."""
    p = alone.match(Problem.parse(f"{op} t8n1i1 cell=relu hidden=1 f32"))
    net, config = Net.of(p), engine.best(p, H200)
    us = engine.recurrence_us(net, H200, config)
    slow = engine.recurrence_us(net, replace(H200, launch_us=H200.launch_us + 1), config)
    assert 8 * (H200.launch_us + 1) < us < 8 * (H200.launch_us + 4)
    assert slow - us == pytest.approx(8 + (engine is BACKWARD))

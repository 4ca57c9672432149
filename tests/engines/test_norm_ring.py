"""Long rows of layer and RMS norm in rings, on the interpreter: random problems, several blocks of a row,
what is chosen, and how rows are shared out."""
from __future__ import annotations

import random

import pytest

from cydnn import device as devices
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.engine import Config
from cydnn.heuristics import best
from cydnn.ops import Problem
from support.check import matrix
from support.draw import alone

H200 = KNOWN["h200"]


@pytest.mark.parametrize("index, name", [(401, "norm_fwd"), (407, "norm_bwd")])
@pytest.mark.parametrize("seed", range(4))
def test_random_rows(index, name, seed):
    rng, engine = random.Random(seed), BY_INDEX[index]
    rows, cols = rng.randint(1, 20), 8 * rng.randint(1, 200)
    line = f"{name} {rows}x{cols} {rng.choice(['f16', 'bf16', 'f32'])} mode={rng.choice(['layer', 'rms'])}"
    problem = Problem.parse(line)
    blocks = rng.choice(engine.ways(alone.match(problem), H200)[:3])
    found = matrix.run(problem, devices.get("ptx:sm_90"), seed, [engine], Config(blocks_per_row=blocks))
    assert found.ran and not found.findings, (line, blocks, found.findings)


@pytest.mark.parametrize("line, text", [
    ("norm_fwd 256x131072 bf16", "part 0: 401 blocks_per_row=16"),
    ("norm_fwd 4096x16384 bf16", "part 0: 400 channels=8 cluster=1"),
    ("norm_bwd 8192x8192 bf16 mode=rms", "part 0: 407 blocks_per_row=1"),
    ("norm_bwd 1024x12288 bf16", "part 0: 407 blocks_per_row=2"),
    ("norm_bwd 128x262144 bf16", "part 0: 407 blocks_per_row=43")])
def test_choices(line, text):
    assert best(graph_of(Problem.parse(line)), H200).text == text


@pytest.mark.parametrize("line", ["norm_bwd 128x262144 bf16", "norm_bwd 1024x32768 f32",
                                  "norm_bwd 7x4104 f16"])
def test_blocks_of_a_row_have_all_of_it_and_fit(line):
    engine, p = BY_INDEX[407], alone.match(Problem.parse(line))
    for blocks in engine.ways(p, H200):
        width, stages = engine.width(p, blocks), engine.stages(p, H200, blocks)
        assert width * (blocks - 1) < p.x.dims[1] <= width * blocks
        assert engine.ahead(p, H200, blocks) + 1 < stages
        assert stages * 2 * width * p.x.dtype.bytes <= H200.smem_bytes
        assert engine.teams(p, H200, blocks) * blocks <= H200.sms

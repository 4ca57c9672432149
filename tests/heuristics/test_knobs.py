"""Knobs of a choice: what a range says is taken, and what is taken is what it says."""
from __future__ import annotations

import pytest

from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.heuristics import candidates, main_part, offered, ranges, turned
from cydnn.ops import Problem

H200 = KNOWN["h200"]
LINES = ("matmul 64x4096 4096x64 f16", "conv_fprop n8c64h28w28 k64r3s3 pad1 f16 nhwc",
         "conv_dgrad n8c64h12w12 k64r3s3 pad1 f32", "batch_norm_training n8c64h28w28 f16 nhwc",
         "softmax_fwd 64x100000 f16")


@pytest.mark.parametrize("line", LINES)
def test_every_number_of_a_range_is_taken_alone(line):
    ways = {str(main_part(c).engine): c for c in candidates(graph_of(Problem.parse(line)), H200)
            if main_part(c).engine.knobs}
    assert ways
    for choice in ways.values():
        for one in ranges(main_part(choice), H200):
            for number in range(one.least, one.most + 1, one.stride):
                part = main_part(turned("test", choice, {one.knob.api: number}))
                assert part.config.get(one.knob.name) == one.values[number]


def test_numbers_and_configurations_are_the_same_thing():
    choice = candidates(graph_of(Problem.parse(LINES[0])), H200)[0]
    rows = offered(main_part(choice), H200)
    assert len({tuple(row.items()) for _, row in rows}) == len(rows) > 30
    for config, row in rows[::5]:
        assert main_part(turned("test", choice, row)).config == config

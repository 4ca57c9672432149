"""What is fused behind Hopper's tile program where whole tiles lie in the output: it works on the sums, and
leaves by TMA. Beside them tiles that end outside, and graphs with a second output, which take other ways."""
from __future__ import annotations

import pytest

from cydnn.engines import BY_INDEX
from cydnn.engines.tile.store import FUSED, ROWS
from cydnn.ops import Problem
from support.check import hopper
from support.check.fused import differences, graph_of

LINES = {"conv": (117, "conv_fprop n2c72h9w16 k136r1s2 pad1 bf16 nhwc"),
         "product": (189, "matmul a=2x200x72 b=2x72x320 c=2x200x320 f16")}
FIRST = {"few": "conv_fprop n1c3h3w150 k72r3s7 stride=1,2 pad=1,3 bf16 nhwc",
         "many": "conv_fprop n1c1h2w300 k136r3s20 stride=1,2 pad=1,9 f16 nhwc"}


@pytest.mark.share(7)
@pytest.mark.parametrize("keeps", ["", "sum"], ids=["one output", "two outputs"])
@pytest.mark.parametrize("tile", ["128x256", "128x128", "64x256", "64x128", "128x64"])
@pytest.mark.parametrize("kind", LINES)
def test_values(kind, tile, keeps):
    index, line = LINES[kind]
    assert not differences(hopper.device(3), BY_INDEX[index], graph_of(Problem.parse(line), keeps),
                           lambda c: (c.tile, c.splits, c.cluster_k) == (tile, 1, 1),
                           ROWS if keeps else FUSED)


@pytest.mark.share(2)
@pytest.mark.parametrize("resident", [128, 64])
@pytest.mark.parametrize("mode, alpha", [("gelu_fwd", 1.0), ("relu_fwd", -1.5)])
@pytest.mark.parametrize("line", ["n3c72h9w11 k128r1s1 bf16", "n1c40h13w24 k128r2s1 f16"])
def test_values_where_filters_stay(line, mode, alpha, resident):
    graph = graph_of(Problem.parse(f"conv_fprop {line} nhwc"), mode=mode, alpha=alpha)
    assert not differences(hopper.device(3), BY_INDEX[117], graph,
                           lambda c: c.get("resident") == resident, FUSED, f"_{resident}_bk", is_rounded=True)


@pytest.mark.share(1)
@pytest.mark.parametrize("line", FIRST.values(), ids=FIRST)
def test_values_of_first_layers(line):
    graph = graph_of(Problem.parse(line), mode="gelu_fwd")
    assert not differences(hopper.device(3), BY_INDEX[118], graph, lambda c: c.get("store") == "tma", FUSED,
                           "_pairs", is_rounded=True)

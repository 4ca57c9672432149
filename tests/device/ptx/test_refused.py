"""What takes no tensor of 2^31 elements says so before a launch, with the number; and no kernel is left out:
each has large tensors (test_large.py), or far ones (test_far.py), or both are refused here.
"""
from __future__ import annotations

import re

import pytest

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.device.ptx import PtxDevice
from cydnn.heuristics import Wish
from cydnn.ops.problem import Problem
from cydnn.status import BadParam, NotSupported
from support.draw import alone

import sparse
import test_far
import test_large

DEVICE = PtxDevice("sm_90a")
COUNT = "elements of x must be fewer than 2^31; got {most}"
CELLS, VECTORS = (f"{what} must be fewer than 2147483648; got {{most}}"
                  for what in ("elements of dx", "dx vectors"))
GRID = "must have fewer than 2^31 elements; got {most}"
AT_ONCE = "the blocks of hidden 64, batch {n}, 1 layers and 1 directions must run at once"
BATCH = "batch must be at most {rows}; got {{n}}"
MAX, AVERAGE = (f"pooling_bwd n{{n}}c8h8w8 window=2 stride=2 mode={mode} f16"
                for mode in ("max", "avg_include_padding"))
SAMPLER = "spatial_sampler_bwd x=64x{n}x8x8:f16 dy=64x{n}x8x8:f16 grid=64x8x8x2:f16"
POINTS = "spatial_grid_bwd dgrid=64x{n}x64x2:f32"
STEP = "t1n{n}i8 hidden=64 f16"
TABLE = "must be at most 429496729; got {most}"
# source: (engine, a problem of n slices, what the engine says of it)
REFUSED = {
    "divisive_norm_fwd_channels": ("", "divisive_norm_fwd n{n}c8h8w8 f16 nhwc", COUNT),
    "divisive_norm_fwd_planes": ("", "divisive_norm_fwd n{n}c8h8w8 f16", COUNT),
    "divisive_norm_fwd_strided": ("", "divisive_norm_fwd n{n}c8h8w8 f16", COUNT),
    "divisive_norm_bwd_channels": ("", "divisive_norm_bwd n{n}c8h8w8 f16 nhwc", COUNT),
    "divisive_norm_bwd_planes": ("", "divisive_norm_bwd n{n}c8h8w8 f16", COUNT),
    "divisive_norm_bwd_strided": ("", "divisive_norm_bwd n{n}c8h8w8 f16", COUNT),
    "divisive_norm_bwd_terms": ("divisive_norm_bwd_strided", "divisive_norm_bwd n{n}c8h8w8 f16", COUNT),
    "lrn_fwd_channels": ("", "lrn_fwd n{n}c8h8w8 f16 nhwc", COUNT),
    "lrn_fwd_strided": ("", "lrn_fwd n{n}c8h8w8 f16", COUNT),
    "lrn_bwd_channels": ("", "lrn_bwd n{n}c8h8w8 f16 nhwc", COUNT),
    "lrn_bwd_strided": ("", "lrn_bwd n{n}c8h8w8 f16", COUNT),
    "pooling_bwd_any": ("pooling_bwd_strided", MAX, CELLS),
    "pooling_bwd_avg_nchw": ("", AVERAGE, CELLS),
    "pooling_bwd_avg_nhwc": ("", AVERAGE + " nhwc", VECTORS),
    "pooling_bwd_avg_nhwc_apart": ("", AVERAGE + " nhwc", VECTORS),
    "pooling_bwd_max_nhwc": ("", MAX + " nhwc", VECTORS),
    "pooling_bwd_max_plane": ("", MAX, CELLS),
    "pooling_bwd_whole": ("", "pooling_bwd n{n}c8h8w8 window=8 mode=avg_include_padding f16", CELLS),
    "dropout_fwd_any": ("", "dropout_fwd {n}x512 f16", "x " + GRID),
    "dropout_bwd_any": ("", "dropout_bwd {n}x512 f16", "dy " + GRID),
    "spatial_grid_fwd_any": ("", "spatial_grid_fwd theta={n}x2x3:f32 grid={n}x64x64x2:f32", "grid " + GRID),
    "spatial_grid_bwd_split": ("", POINTS, "dgrid " + GRID),
    "spatial_grid_bwd_sum": ("spatial_grid_bwd_split", POINTS, "dgrid " + GRID),
    "spatial_sampler_fwd_any": ("", "spatial_sampler_fwd x={n}x8x8x8:f16 grid={n}x8x8x2:f16", "x " + GRID),
    "spatial_sampler_bwd_bins": ("spatial_sampler_bwd_gather", SAMPLER, "x " + GRID),
    "spatial_sampler_bwd_gather": ("", SAMPLER, "x " + GRID),
    "spatial_sampler_bwd_points": ("spatial_sampler_bwd_gather", SAMPLER, "x " + GRID),
    "conv_depthwise_planes_wgrad": ("conv_wgrad_depthwise_planes", "conv_wgrad n{n}c1h1w1 k1r3s3 pad1 f16",
                                    "planes of x (n and c) must be at most 2147482624; got {n}"),
    "conv_fprop_index": ("conv_fprop_indexed", "conv_fprop n1c{n}h1w1 k1r1s1 f16", TABLE),
    "conv_wgrad_index": ("conv_wgrad_indexed", "conv_wgrad n1c1h{n}w1 k1r1s1 f16", TABLE),
    "rnn_persist": ("rnn_fwd_persist", "rnn_fwd " + STEP, AT_ONCE),
    "rnn_pack": ("rnn_fwd_persist", "rnn_fwd " + STEP, AT_ONCE),
    "rnn_persist_bwd": ("rnn_bwd_data_persist", "rnn_bwd_data " + STEP, AT_ONCE),
    "rnn_cluster": ("rnn_fwd_cluster", "rnn_fwd " + STEP,
                    BATCH.format(rows="1048560 (65535 blocks of 16 rows)")),
    "rnn_step": ("rnn_fwd_plain", "rnn_fwd " + STEP, BATCH.format(rows="4194240 (65535 blocks of 64 rows)")),
    "rnn_step_bwd": ("rnn_bwd_data_plain", "rnn_bwd_data " + STEP,
                     BATCH.format(rows="4194240 (65535 blocks of 64 rows)")),
    "rnn_bias": ("rnn_bwd_weights_products", "rnn_bwd_weights t1n{n}i8 hidden=64 f16",
                 "batch * hidden must be at most 2147482624; got {step}"),
}
# What is in none of the lists: nothing of them grows with a tensor.
SMALL = {"dropout/dropout_states.cu": "two numbers", "rnn/rnn_starts.cu": "a number for each step",
         "signal/signal_flag.cu": "a number", "norm/peer_parts.cu": "some numbers for each channel",
         "norm/peer_reduction.cu": "some numbers for each channel"}


@pytest.mark.parametrize("source", REFUSED)
def test_refused_with_the_number(source):
    """By the engine, and by name of the engine before a launch."""
    name, line, sentence = REFUSED[source]
    problem, count = sparse.long_problem(line, 2**31)
    facts = dict(n=count, most=max(d.count for d in problem.descs), step=64 * count)
    engine = alone.BY_NAME[name or source]
    reasons = engine.reasons(alone.match(problem), DEVICE.facts)
    assert any(sentence.format(**facts) in reason for reason in reasons), reasons
    with pytest.raises(NotSupported, match=re.escape(sentence.format(**facts))):
        plan.build(graph_of(problem), DEVICE, Wish(engines=(engine.index,)))


FAR = "conv_wgrad x=1x3x4x6:f16 dy=1x4x4x6:f16@24,6,4294968320,1 dw=4x3x1x1:f16"


@pytest.mark.parametrize("name", ["conv_wgrad_simt", "conv_wgrad_atomic", "conv_wgrad_indexed"])
def test_pixels_of_one_image_that_lie_apart(name):
    """Their places are numbers of 31 bits, however few images there are."""
    reasons = alone.BY_NAME[name].reasons(alone.match(Problem.parse(FAR)), DEVICE.facts)
    assert ("the pixels of one image of dy must span less than 2^31 elements; got 12884904966") in reasons


def test_states_have_no_gap():
    with pytest.raises(BadParam, match="states must be 2:i64"):
        Problem.parse("dropout_states states=2:i64@4294968321")


def test_every_kernel_is_large_far_or_refused():
    every = [found for line in (*test_large.LINES, test_large.LONGEST)
             for found in test_large.takers(line).values()]
    large = {source for *_, sources in every for source in sources} | set(test_large.DRAWN)
    refused = {s for s in test_far.SOURCES if s.split("/")[1].removesuffix(".cu") in REFUSED}
    far = set(test_far.SOURCES) - set(test_far.NEAR)
    assert set(test_far.SOURCES) - large - far - refused == SMALL.keys() | test_far.BOUNDED.keys()
    assert not (SMALL.keys() | test_far.BOUNDED.keys()) & (large | refused)

"""Every kernel on tensors whose elements lie more than 2^32 elements apart: one axis after the other, and
whatever operands the engines take so. All blocks run, every element is compared.
"""
from __future__ import annotations

import itertools
import os
import random
import re

import pytest

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.device.ptx import Finding
from cydnn.heuristics import Wish
from cydnn.steps import Launch
from support.draw import alone
from support.check import matrix
from lab import sampling
from support.draw.cases import SERVING

import far
import sparse
import test_large

DEPTHS = range(3)                                # axes from the outermost on
MOST_FLOPS = 2e6
SOURCES = sorted({kernels.get(name).source for name in SERVING})

# Kernels that come to tensors without gaps alone (test_large.py; sweeps of networks: test_long_nets.py), or
# refuse what is large (test_refused.py).
NEAR = """conv/conv_depthwise_planes_wgrad.cu
    conv/conv_dgrad_mma.cu conv/conv_fprop_mma.cu conv/conv_wgrad_mma.cu conv/conv_fprop_index.cu
    conv/conv_wgrad_index.cu dropout/dropout_bwd_nhwc.cu dropout/dropout_bwd_vector.cu
    dropout/dropout_factors.cu dropout/dropout_fwd_nhwc.cu dropout/dropout_fwd_vector.cu
    dropout/dropout_states.cu pointwise/pointwise_vector.cu pool/pooling_bwd_whole.cu
    pool/pooling_fwd_whole.cu rnn/rnn_bias.cu rnn/rnn_cluster.cu rnn/rnn_pack.cu rnn/rnn_persist.cu
    rnn/rnn_persist_bwd.cu rnn/rnn_starts.cu rnn/rnn_step.cu rnn/rnn_step_bwd.cu
    softmax/softmax_bwd_packed.cu softmax/softmax_fwd_packed.cu spatial/spatial_grid_bwd_split.cu
    spatial/spatial_grid_bwd_sum.cu spatial/spatial_grid_fwd_any.cu spatial/spatial_sampler_bwd_bins.cu
    conv/conv_fft_columns.cu conv/conv_fft_product.cu
    signal/signal_flag.cu norm/peer_parts.cu norm/peer_reduction.cu""".split()
# Those that come to the workspace alone, and engines that launch them for a part of the images at a time.
BOUNDED = {"conv/conv_fft_columns.cu": "conv_fprop_fft", "conv/conv_fft_product.cu": "conv_fprop_fft_tiling"}


def smallest(source: str) -> str:
    """The kernel with the smallest image, of f16 before f32 before others."""
    size = lambda n: min(image.bytes for image in kernels.get(n).images.values())
    return min((n for n in kernels.names() if kernels.get(n).source == source),
               key=lambda n: ("_f16" not in n, "_f32" not in n, size(n), n))


@pytest.mark.share(16)
@pytest.mark.parametrize("source", [s for s in SOURCES if s not in NEAR])
def test_far_operands(source):
    name, wrong, reached = smallest(source), [], set()
    device = far.device_for(name)
    for depth in DEPTHS:
        if found := far.most_stretched(name, device.facts, depth):
            texts, came = found.run(device)
            wrong += [f"{found.case}: {text}" for text in texts]
            reached |= came
    assert not wrong, "\n".join(wrong)
    assert reached, "the kernel came to no operand's far end"


def other_ways(name, facts):
    """(what is stretched, by-value numbers): every line of a contract, axis and configuration, that blends
    and that does not. A plain run has the small ones."""
    found = [f for f in far.every_stretched(name, facts)
             if sampling.ALL or f.case.problem.flops <= MOST_FLOPS]
    return itertools.product(found, (matrix.plain, matrix.blended))


@pytest.mark.share(10)
@pytest.mark.parametrize("source", [s for s in SOURCES if s not in NEAR])
def test_other_ways_there(source):
    """Of a kernel that is drawn; a plain run takes two."""
    rng = random.Random(f"{os.environ.get('CYDNN_SEED')} far {source}")
    name = rng.choice([n for n in kernels.names() if kernels.get(n).source == source])
    device, wrong = far.device_for(name), []
    for found, numbers in sampling.of(other_ways(name, device.facts), 2, f"far ways {source}"):
        wrong += [f"{found.case}: {text}" for text in found.run(device, numbers)[0]]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("source", BOUNDED)
def test_workspaces_stay_below(source):
    """Of 2^32 elements of x, fewer than 2^31 numbers are in the workspace at a time."""
    problem, _ = sparse.long_problem("conv_fprop n{n}c8h8w8 k8r3s3 pad1 f32", 2**32)
    wish = Wish(engines=(alone.BY_NAME[BOUNDED[source]].index,))
    built = plan.build(graph_of(problem), test_large.DEVICE, wish)
    launched = [kernels.get(s.kernel).source for s in built.steps if isinstance(s, Launch)]
    assert launched.count(source) > 1 and 1 << 24 < built.workspace_bytes < 4 << 31


# ---- Address arithmetic in 32 bits, planted in shipped kernels ----

PRODUCT = re.compile(r"\b(?:mul|mad)\.(?:wide\.[su]32|lo\.s64)\s+(%rd\d+)[^;]*;")


def narrowed(text: str, number: int) -> str:
    """The text with that product, counted from 0, cut to its lower 32 bits and extended."""
    found = list(PRODUCT.finditer(text))[number]
    at = found[1]
    return f"{text[:found.end()]} shl.b64 {at}, {at}, 32; shr.s64 {at}, {at}, 32;{text[found.end():]}"


def finds(name: str, number: int, depth: int) -> bool:
    """Is it found that a product is cut?"""
    device = far.device_for(name)
    text = kernels.get(name).image_for(device.facts.sm).text().decode()
    device.replaced[name] = narrowed(text, number)
    try:
        found = far.most_stretched(name, device.facts, depth)
        return bool(found and found.run(device)[0])
    except Finding:
        return True

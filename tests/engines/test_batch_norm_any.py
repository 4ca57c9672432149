"""Batch norm of any types on the interpreter: random problems, what stands around it in one part, what is
read and stored how often, and the statistics of a tensor in one read."""
from __future__ import annotations

import random

import pytest

from cydnn import device as devices
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.graph import Graph, Node, Tensor
from cydnn.heuristics import best
from cydnn.ops import BatchNormBwd, BatchNormTraining, Pointwise, Problem
from cydnn.tensor import TensorDesc
from support.check import matrix
from support.draw import alone, draw
from support.draw.dags import check, dag

H200 = KNOWN["h200"]
X, SCALE, BIAS, Z, NORMAL, SUM, Y, MEAN, RSTD, MASK, ZERO, DY, DZ, DX, DSCALE, DBIAS = range(1, 17)


def drawn(engine, rng):
    while True:
        problem = draw(engine.op, rng)
        if max(d.count for d in problem.descs) <= 2000 and engine.accepts(alone.match(problem), H200):
            return problem


@pytest.mark.parametrize("index", [266, 267, 410, 415, 490])
@pytest.mark.parametrize("seed", range(8))
def test_random_problems(index, seed):
    rng, engine = random.Random(seed), BY_INDEX[index]
    problem = drawn(engine, rng)
    configs = list(engine.configs(alone.match(problem), H200))
    for config in (configs[0], rng.choice(configs)):
        found = matrix.run(problem, devices.get("ptx:sm_80"), seed, [engine], config)
        assert found.ran and not found.findings, (str(problem), found.findings)


def layer(layout: str, mask: str):
    """(description of a tensor of a type, that of a channel's, tensors that both passes have)."""
    dims = n, c, h, w = 256, 256, 56, 56
    strides = (c * h * w, 1, w * c, c) if layout == "nhwc" else (c * h * w, h * w, w, 1)
    big, thin = (lambda kind: TensorDesc(kind, dims, strides)), TensorDesc("f32", (1, c, 1, 1), (c, 1, 1, 1))
    return big, thin, [Tensor(X, big("bf16")), Tensor(MASK, big(mask)),
                       *(Tensor(u, thin) for u in (SCALE, MEAN, RSTD))]


def bn_add_relu(layout, mask, out) -> Graph:
    big, thin, tensors = layer(layout, mask)
    tensors += [Tensor(BIAS, thin), Tensor(Z, big("bf16")), Tensor(Y, big(out)),
                *(Tensor(u, big("f32"), "virtual") for u in (NORMAL, SUM)),
                Tensor(ZERO, TensorDesc.packed("f32", (1, 1, 1, 1)), "value")]
    return Graph([Node(BatchNormTraining(mode="spatial"),
                       dict(x=X, scale=SCALE, bias=BIAS, y=NORMAL, mean=MEAN, rstd=RSTD)),
                  Node(Pointwise(mode="add"), dict(x=NORMAL, b=Z, y=SUM)),
                  Node(Pointwise(mode="relu_fwd"), dict(x=SUM, y=Y)),
                  Node(Pointwise(mode="cmp_gt"), dict(x=SUM, b=ZERO, y=MASK))], tensors)


def drelu_fork_dbn(layout, mask, kind) -> Graph:
    big, thin, tensors = layer(layout, mask)
    tensors += [Tensor(DY, big("bf16")), Tensor(DX, big("bf16")), Tensor(DSCALE, thin), Tensor(DBIAS, thin),
                Tensor(DZ, big("bf16" if kind == "memory" else "f32"), kind)]
    return Graph([Node(Pointwise(mode="mul"), dict(x=DY, b=MASK, y=DZ)),
                  Node(BatchNormBwd(mode="spatial"),
                       dict(x=X, dy=DZ, scale=SCALE, mean=MEAN, rstd=RSTD, dx=DX, dscale=DSCALE,
                            dbias=DBIAS))], tensors)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("mask", ["bool", "u8"])
@pytest.mark.parametrize("make, kind, index", [
    (bn_add_relu, "bf16", 266), (bn_add_relu, "f8_e4m3", 266), (drelu_fork_dbn, "memory", 267),
    (drelu_fork_dbn, "virtual", 267)])
def test_what_stands_around_is_in_its_part(layout, mask, make, kind, index):
    part, = best(make(layout, mask, kind), H200).parts
    steps = part.engine.plan(part.match, H200, part.config)
    assert (part.engine.index, part.config.channels, len(steps)) == (index, 8, 2)


@pytest.mark.parametrize("kind, stores, reads_mask", [("memory", 1, False), ("virtual", 0, True)])
def test_the_first_launch_stores_what_the_second_reads(kind, stores, reads_mask):
    part, = best(drelu_fork_dbn("nhwc", "bool", kind), H200).parts
    first, last = part.engine.plan(part.match, H200, part.config)
    reads = [pointer.uid for pointer in last.fuse["load_dy"].pointers]
    assert len(first.fuse["load_dy"].program.stores) == stores
    assert (MASK in reads) == reads_mask and (DZ in reads) == (not reads_mask)


@pytest.mark.parametrize("line, index", [
    ("norm_bwd 64x64x56x56 f16 mode=instance axis=2", 415),
    ("norm_bwd 64x64x56x56 f16 nhwc mode=instance axis=2", 415),
    ("norm_fwd 64x64x56x56 f16 nhwc mode=instance axis=2", 410),
    ("norm_fwd 64x64x56x56 f16 mode=instance axis=2", 400)])
def test_instance_norm_is_batch_norm_of_each_image(line, index):
    part, = best(graph_of(Problem.parse(line)), H200).parts
    assert (part.engine.index, part.config.channels) == (index, 8)


@pytest.mark.parametrize("seed", [271, 1048648])
def test_neighbours_are_of_one_row_where_others_have_less(seed):
    """What stands behind reads a tensor of some of the dims; eight means at once would cross a row."""
    graph, smooth = dag(seed)
    assert any(part.engine.index == 266 for part in best(graph, H200).parts)
    assert check(graph, smooth, devices.get("ptx:sm_90"), seed) == []


@pytest.mark.parametrize("line", ["gen_stats x=32x64x28x28:bf16@nhwc", "gen_stats x=32x64x28x28:f16",
                                  "gen_stats x=32x64x27x25:f32"])
def test_sums_and_squares_in_one_read(line):
    assert [part.engine.index for part in best(graph_of(Problem.parse(line)), H200).parts] == [490]

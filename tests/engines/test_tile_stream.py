"""Stream-K of Hopper's tile program: blocks have equal shares of the steps, or a part of one tile; what
several have of a tile they add together, in order."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import bench, kernels, plan
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.tile.store import FUSED, ROWS
from cydnn.engines.tile.stream_k import LEAST, PIECES, STREAMS, even, lanes_of, stream
from cydnn.heuristics import parse
from cydnn.kernels.expressions import ceil_div
from cydnn.ops import Problem
from cydnn.status import NotSupported
from support.draw import alone, graphs, streamed
from support.check import hopper
from lab import sampling
from support.check.fused import differences, graph_of
from support.check.matrix import blended, plain

# one tile; tiles that are not whole; some that blocks take alone; matrices; groups; rows across
LINES = {"one": (189, "matmul 64x320 320x128 f16"),
         "several": (189, "matmul a=150x448:f16 b=448x248:f16@1,448 c=150x248:f16"),
         "alone": (189, "matmul 330x192 192x136 bf16"),
         "matrices": (189, "matmul a=3x104x200:f16@20800,1,104 b=3x200x136:f16 c=3x104x136:f16"),
         "copies": (187, "matmul 129x131 131x133 bf16"),
         "by hand": (185, "matmul 129x195 195x133 bf16"),
         "fprop": (117, "conv_fprop n2c64h9w13 k120r3s3 pad1 f16 nhwc"),
         "groups": (117, "conv_fprop n1c128h9w10 k80r2s3 groups=2 pad1 bf16 nhwc"),
         "dgrad": (137, "conv_dgrad n2c72h9w13 k64r3s3 pad1 bf16 nhwc"),
         "wgrad": (157, "conv_wgrad n3c64h9w13 k104r3s2 pad1 f16 nhwc")}


def configs(index, problem, machine):
    found = BY_INDEX[index].configs(alone.match(problem), machine.facts)
    return [c for c in found if c.get("stream_k")]


@pytest.mark.share(9)
@pytest.mark.parametrize("draw", range(4))
@pytest.mark.parametrize("name", LINES)
def test_values(name, draw):
    """The exact sums on a few SMs, under a drawn schedule, where others write too early or late."""
    index, line = LINES[name]
    problem, rng = Problem.parse(line), random.Random(f"{name} {draw}")
    few = [hopper.device(sms) for sms in (3, 4, 5)]
    machine, config = rng.choice([(m, c) for m in few for c in configs(index, problem, m)])
    machine.seed = rng.choice([None, rng.randrange(100)])
    hopper.check(BY_INDEX[index], problem, config, rng.choice([plain, blended]), machine)


@pytest.mark.share(2)
@pytest.mark.parametrize("keeps", ["", "sum", "mask"], ids=["one output", "two outputs", "mask"])
@pytest.mark.parametrize("index, line", [(117, "conv_fprop n1c8h13w24 k264r3s3 pad1 bf16 nhwc"),
                                         (189, "matmul a=200x456 b=456x320 c=200x320 f16")])
def test_what_is_fused_works_on_all_of_a_sum(index, line, keeps):
    assert not differences(hopper.device(3), BY_INDEX[index], graph_of(Problem.parse(line), keeps),
                           lambda c: c.get("stream_k"), ROWS if keeps else FUSED, "")


@pytest.mark.parametrize("kind", STREAMS)
def test_schedules_do_not_change_bits(kind):
    """Who comes first does not matter: parts are added in the order of the depth."""
    problem, bits = Problem.parse("matmul 64x704 704x128 f16"), set()
    for seed in (None, 1, 2, 3):
        machine = hopper.device(4)
        machine.seed = seed
        config, = [c for c in configs(189, problem, machine)
                   if c.tile == "64x128" and c.store == "tma" and c.stream_k == kind]
        bits.add(bits_of(problem, config, machine))
    assert len(bits) == 1


def bits_of(problem, config, machine) -> bytes:
    """What a product of real numbers becomes."""
    whole, rng = bench.graph_of(problem), np.random.default_rng(5)
    values = {whole.nodes[0].operands[n]: rng.normal(size=problem.operands[n].dims) for n in "ab"}
    choice = parse(f"part 0: 189 {config}", whole, machine.facts)
    return graphs.execute(plan.made(choice, machine), values)[whole.nodes[0].operands["c"]].tobytes()


@pytest.mark.parametrize("seed", range(20))
def test_every_step_has_one_block(seed):
    """Shares follow each other through all steps of the tiles that no block takes alone."""
    rng = random.Random(seed)
    lanes, steps, sms = rng.choice([1, 1, 2, 3, 5, 8]), rng.randint(1, 90), rng.choice([3, 64, 132])
    tiles = rng.randint(1, 700 // lanes) * lanes
    found = stream(tiles, steps, sms, lanes=lanes)
    if found is None:
        blocks = min(sms, PIECES * tiles) // lanes * lanes
        assert (not blocks or tiles % blocks == 0
                or (tiles - max(tiles // blocks - 1, 0) * blocks) * steps <= blocks)
        return
    blocks, alone_, each, rest = found[:4]
    assert blocks <= min(sms, PIECES * tiles) and alone_ % blocks == 0 and each >= LEAST
    assert found.lanes == lanes and blocks % lanes == rest // steps % lanes == 0 and found.steps == steps
    assert rest == (tiles - alone_) * steps and each * (blocks - 1) < rest + blocks <= (each + 1) * blocks
    of_tile = ceil_div(steps, each) + 1
    assert of_tile <= PIECES + 2, "few blocks to a tile"


@pytest.mark.parametrize("seed", range(20))
def test_every_block_has_a_part_of_one_tile(seed):
    """As many of each tile that is shared; the last of them has something, too."""
    rng = random.Random(seed)
    tiles, steps, sms = rng.randint(1, 300), rng.randint(1, 400), rng.choice([3, 12, 64, 132])
    every = list(even(tiles, steps, sms))
    assert every or tiles * 2 > sms or steps < 2 * LEAST
    for found in every:
        assert found.is_even and found.blocks <= sms and found.share >= LEAST
        pieces, shared = found.steps // found.share, tiles - found.alone
        assert found.lanes == shared
        assert pieces >= 2 and (pieces - 1) * found.share < steps <= found.steps
        assert found.blocks == shared * pieces and found.rest == shared * found.steps
        assert found.alone % found.blocks == 0


DEEP = {"a warp adds them": (7, "matmul 64x904 904x128 f16"),
        "eight warps": (8, "matmul 64x1024 1024x104 bf16"),
        "some twice": (13, "matmul 130x1600 1600x64 f16"),
        "more than units": (12, "matmul 64x1536 1536x64 f16")}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", DEEP)
def test_many_blocks_of_a_tile(name):
    """Of 8 and more parts each warp adds some, and one of them what they have."""
    sms, line = DEEP[name]
    problem, machine = Problem.parse(line), hopper.device(sms)
    every = [c for c in configs(189, problem, machine) if c.stream_k == 2]
    assert every
    for config in sampling.of(every, 2, f"deep {name}"):
        hopper.check(BY_INDEX[189], problem, config, plain, machine)


def test_lanes_go_along_a_column():
    """Of every band's rows; only what divides them."""
    assert lanes_of(2, 8) == [1, 2] and lanes_of(6, 8) == [1, 2, 3, 6] and lanes_of(7, 8) == [1, 7]
    assert lanes_of(16, 8) == [1, 2, 4, 8] and lanes_of(12, 8) == [1, 2, 4] and lanes_of(11, 16) == [1]


@pytest.mark.parametrize("m, lanes", [(256, 2), (384, 3), (640, 5)])
def test_blocks_go_abreast(m, lanes):
    """A wide operand that the cache does not hold is read by the rows of tiles at the same time."""
    problem = Problem.parse(f"matmul a={m}x8192:bf16 b=8192x10240:bf16@1,8192 c={m}x10240:bf16")
    match, engine = alone.match(problem), BY_INDEX[189]
    config, = [c for c in engine.configs(match, KNOWN["h200"])
               if c.get("stream_k") == 1 and c.tile == "128x256" and c.store == "tma"]
    assert engine.cut(match, KNOWN["h200"], config).shares.lanes == lanes


def test_what_the_kernel_refuses():
    """Steps that nobody takes, or two blocks."""
    problem, machine = Problem.parse(LINES["several"][1]), hopper.device(4)
    match, engine = alone.match(problem), BY_INDEX[189]
    config = configs(189, problem, machine)[0]
    launch, = engine.plan(match, machine.facts, config)
    kernel = kernels.get(launch.kernel)
    assert kernel.pack(launch.args, **launch.extra).attributes.cooperative
    for change in (dict(share=launch.args["share"] - 1), dict(alone=1), dict(rest=launch.args["rest"] - 1),
                   dict(lanes=launch.args["lanes"] + 1), dict(share=0), dict(splits=2), dict(parts=None)):
        with pytest.raises(NotSupported, match=f"{launch.kernel}: needs"):
            kernel.pack({**launch.args, **change}, **launch.extra)


def test_where_blocks_have_equal_work_there_is_none():
    machine = hopper.device(4)
    for line in ("matmul 256x640 640x128 f16", "matmul 512x64 64x128 f16"):
        assert not [c for c in configs(189, Problem.parse(line), machine) if c.tile == "64x128"]
    strided = Problem.parse("conv_dgrad n2c64h18w26 k64r3s3 stride2 pad1 bf16 nhwc")
    assert not configs(137, strided, machine)
    padded = Problem.parse("conv_wgrad n3c40h9w13 k104r3s2 pad1 f16 nhwc")
    assert not configs(157, padded, machine)


@pytest.mark.parametrize("source", streamed.LINES)
def test_parts_are_added_in_their_order(source):
    """Block after block: in f32 the order of large and small numbers shows."""
    for name in sampling.of(streamed.names(source), 1, source):
        got, want = streamed.in_order(name, hopper.device())
        assert (got == want).all() and len(set(want)) > 2, name

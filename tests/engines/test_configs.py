"""Configurations: what an engine offers, its plan takes and packs; what it does not offer is refused."""
import random
import zlib

import pytest

from cydnn import kernels, ops, plan
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, engines_for
from cydnn.steps import Launch
from cydnn.heuristics.cover import match_of
from cydnn.status import BadParam
from support.draw import draw

DRAWS = 12


@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
@pytest.mark.parametrize("card", ["t4", "h200"])
def test_every_configuration_packs(op, card):
    rng, facts = random.Random(zlib.crc32(op.name.encode())), KNOWN[card]
    for _ in range(DRAWS):
        problem = draw(op, rng)
        graph = graph_of(problem)
        match = lambda: match_of(graph, graph.nodes[0])
        for engine in (e for e in engines_for(op)[:-1] if e.accepts(match(), facts)):
            offered = engine.configs(match(), facts)
            assert (offered and len({tuple(sorted(c.items())) for c in offered})
                    == len(offered)), (str(problem), engine)
            for config in offered:
                for step in (s for s in engine.plan(match(), facts, **config) if isinstance(s, Launch)):
                    kernel = kernels.get(step.kernel)
                    packed = kernel.pack(step.args, **step.extra)
                    assert (packed.smem + kernel.image_for(facts.sm).smem_static
                            <= facts.smem_bytes), (str(problem), engine, config)


@pytest.mark.parametrize("line, index, config, launches", [
    ("conv_fprop n1c64h8w8 k64r3s3 pad1 f16 nhwc", 110, dict(tile="m64n128"),
     ["conv_fprop_mma_m64n128_f16_f16"]),
    ("conv_dgrad n1c64h8w8 k64r3s3 pad1 f32", 129, dict(tile="t128x64"), ["conv_dgrad_simt_f32_t128x64"]),
    ("matmul 64x256 256x64 f16", 190, dict(tile=128, splits=4),
     ["matmul_mma_f16_128_ak_bn", "matmul_sum_f16"]),
    ("matmul 64x256 256x64 f32", 199, dict(tile="t64x64", splits=1), ["matmul_simt_f32_t64x64"]),
    ("conv_wgrad n1c64h8w8 k64r3s3 pad1 f32", 149, dict(tile="t32x32", splits=2),
     ["conv_wgrad_simt_f32_t32x32", "conv_wgrad_simt_sum_f32"]),
    ("softmax_fwd 4x1000 f16", 212, dict(size=4), ["softmax_fwd_cluster_f16_4"]),
])
def test_a_configuration_is_obeyed(line, index, config, launches):
    graph = graph_of(ops.Problem.parse(line))
    engine, match = BY_INDEX[index], match_of(graph, graph.nodes[0])
    assert config in engine.configs(match, KNOWN["h200"])
    assert [s.kernel for s in engine.plan(match, KNOWN["h200"], **config)] == launches


def test_what_is_not_offered_is_refused():
    device, graph = get("ptx:sm_80"), graph_of(ops.Problem.parse("matmul 8x64 64x8 f32"))
    with pytest.raises(BadParam, match=r"build: config of 199:matmul_simt must be one of \{'tile': "
                                       r"'t128x128', 'splits': 1\} .*; got \{'tile': 't1x1'\}"):
        plan.build(graph, device, only=(BY_INDEX[199],), config=dict(tile="t1x1"))
    built = plan.build(graph, device, only=(BY_INDEX[199],), config=dict(tile="t32x32", splits=2))
    assert [s.kernel for s in built.steps] == ["matmul_simt_f32_t32x32", "matmul_sum_f32"]
    assert plan.build(graph, device, only=(BY_INDEX[199],)) is not built

"""Configurations: what an engine offers, its plan takes and packs; what it does not offer is refused."""
import pickle
import random
import zlib

import pytest

from cydnn import kernels, ops, plan
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, PLAIN, Config, Knob
from cydnn.heuristics import Wish, candidates
from cydnn.steps import Launch
from cydnn.status import BadParam
from support.draw.alone import match, takers
from support.draw import draw

DRAWS = 12


@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
@pytest.mark.parametrize("card", ["t4", "h200"])
def test_every_configuration_packs(op, card):
    """Each is offered once, reads back from its text, has an estimate, and is as good as the kernels need."""
    rng, facts = random.Random(zlib.crc32(op.name.encode())), KNOWN[card]
    for _ in range(DRAWS):
        problem = draw(op, rng)
        p = match(problem)
        for engine in takers(p, facts):
            offered = list(engine.configs(p, facts))
            assert offered and len(set(offered)) == len(offered), (str(problem), engine)
            assert engine.best(p, facts) == offered[0] and list(engine.configs(p, facts)) == offered
            for config in offered:
                assert Config.parse(str(config), engine.knobs) == config, (engine, config)
                assert {name for name, _ in config.items()} <= {knob.name for knob in engine.knobs}
                assert 0 <= engine.cost(p, facts, config) < float("inf")
                for step in (s for s in engine.plan(p, facts, config) if isinstance(s, Launch)):
                    kernel = kernels.get(step.kernel)
                    packed = kernel.pack(step.args, **step.extra)
                    assert (packed.smem + kernel.image_for(facts.sm).smem_static
                            <= facts.smem_bytes), (str(problem), engine, config)


@pytest.mark.parametrize("op", [ops.Matmul, ops.ConvFprop, ops.ConvWgrad], ids=lambda op: op.name)
def test_an_engine_offers_what_is_among_its_configurations(op):
    """Whether it does is known without a search; any values of its knobs are asked for."""
    rng, facts, asked = random.Random(7), KNOWN["h200"], []
    for _ in range(DRAWS):
        p = match(problem := draw(op, rng))
        for engine in takers(p, facts):
            offered = list(engine.configs(p, facts))
            values = lambda knob: [*knob.values, *(c.get(knob.name) for c in offered)]
            drawn = [Config(**{k.name: rng.choice(values(k)) for k in engine.knobs}) for _ in range(20)]
            for config in [*offered, *drawn]:
                asked.append(engine.offers(p, facts, config))
                assert asked[-1] == (config in offered), (str(problem), engine, config)
    assert {True, False} == set(asked)


@pytest.mark.parametrize("line", ["matmul 65x4099 4099x130 bf16", "matmul 512x4096 4096x520 f16",
                                  "conv_fprop n2c128h14w14 k128r3s3 pad1 f16 nhwc",
                                  "conv_dgrad n2c128h14w14 k128r3s3 pad1 bf16 nhwc",
                                  "conv_wgrad n2c128h14w14 k128r3s3 pad1 f16 nhwc"])
def test_an_estimate_does_not_depend_on_who_was_asked_before(line):
    """Engines share what they find out about a match, never what is their own."""
    problem, facts = ops.Problem.parse(line), KNOWN["h200"]
    shared = match(problem)
    for engine in takers(shared, facts):
        alone = match(problem)
        found = [engine.cost(alone, facts, config) for config in engine.configs(alone, facts)]
        assert [engine.cost(shared, facts, config) for config in engine.configs(shared, facts)] == found



@pytest.mark.parametrize("line, index, config, launches", [
    ("conv_fprop n1c64h8w8 k64r3s3 pad1 f16 nhwc", 110, "tile=m64n128",
     ["conv_fprop_mma_m64n128_f16_f16"]),
    ("conv_dgrad n1c64h8w8 k64r3s3 pad1 f32", 129, "tile=t128x64", ["conv_dgrad_simt_f32_t128x64"]),
    ("matmul 64x256 256x64 f16", 190, "tile=128 splits=4",
     ["matmul_mma_f16_128_ak_bn", "matmul_sum_f16"]),
    ("matmul 64x256 256x64 f32", 199, "tile=t64x64 splits=1", ["matmul_simt_f32_t64x64"]),
    ("matmul 64x256 256x64 f32", 180, "tile=t32x32 splits=2", ["matmul_any_f32_t32x32", "matmul_sum_f32"]),
    ("conv_wgrad n1c64h8w8 k64r3s3 pad1 f32", 149, "tile=t32x32 splits=2",
     ["conv_wgrad_simt_f32_t32x32_ordered", "conv_wgrad_simt_sum_f32"]),
    ("conv_wgrad n1c64h8w8 k64r3s3 pad1 f32", 140, "tile=t64x64 splits=2",
     ["conv_wgrad_any_f32_t64x64", "conv_wgrad_simt_sum_f32"]),
    ("conv_fprop n1c64h8w8 k64r3s3 pad1 f32", 100, "tile=t64x64", ["conv_any_f32_t64x64"]),
    ("softmax_fwd 4x1000 f16", 212, "cluster=4 threads=512", ["softmax_fwd_cluster_f16_4_512"]),
])
def test_a_configuration_is_obeyed(line, index, config, launches):
    engine, p = BY_INDEX[index], match(ops.Problem.parse(line))
    config = Config.parse(config, engine.knobs)
    assert config in list(engine.configs(p, KNOWN["h200"]))
    assert [s.kernel for s in engine.plan(p, KNOWN["h200"], config)] == launches


def test_what_is_not_offered_is_refused():
    device, graph = get("ptx:sm_80"), graph_of(ops.Problem.parse("matmul 8x64 64x8 f32"))
    wish = lambda **values: Wish(engines=(199,), config=Config(**values) if values else None)
    for config in (dict(tile="t1x1"), dict(tile="t32x32"), dict(tile="t32x32", splits=4096)):
        with pytest.raises(BadParam,
                           match=r"build: config of 199:matmul_simt must be one of tile=\w+ splits=1, .*; "
                                           rf"got tile={config['tile']}"):
            plan.build(graph, device, wish(**config))
    built = plan.build(graph, device, wish(tile="t32x32", splits=2))
    assert [s.kernel for s in built.steps] == ["matmul_simt_f32_t32x32", "matmul_sum_f32"]
    assert built.parts[0].config == Config(tile="t32x32", splits=2)
    assert plan.build(graph, device, wish()) is not built


def test_a_configuration_belongs_to_one_engine():
    graph = graph_of(ops.Problem.parse("matmul 8x64 64x8 f32"))
    with pytest.raises(BadParam, match=r"build: config of \S+ must be one of .*; got depth=2"):
        candidates(graph, KNOWN["h200"], Wish(config=Config(depth=2)))
    [only] = candidates(graph, KNOWN["h200"], Wish(engines=(199,), config=Config(tile="t64x64", splits=1)))
    assert only.text == "part 0: 199 tile=t64x64 splits=1"


def test_configs_are_values():
    config = Config(tile="t64x64", splits=2)
    assert (config.tile, config.splits, config.get("size"),
            str(config)) == ("t64x64", 2, None, "tile=t64x64 splits=2")
    assert config == Config(tile="t64x64", splits=2) != Config(tile="t64x64", splits=3)
    assert len({config, Config(tile="t64x64", splits=2)}) == 1
    assert pickle.loads(pickle.dumps(config)) == config
    assert not PLAIN and str(PLAIN) == "" and config
    with pytest.raises(AttributeError, match="config has no knob cluster; knobs are tile splits"):
        config.cluster
    with pytest.raises(AttributeError, match="frozen"):
        config.tile = 1


KNOBS = Knob("tile", (128, 64)), Knob("splits", lo=1, hi=8)


@pytest.mark.parametrize("text, sentence", [
    ("tile=32", "config: tile must be one of 128 64; got '32'"),
    ("splits=9", "config: splits must be one of 1 to 8; got '9'"),
    ("splits=two", "config: splits must be one of 1 to 8; got 'two'"),
    ("splits=²", "config: splits must be one of 1 to 8; got '²'"),
    ("splits=--1", "config: splits must be one of 1 to 8; got '--1'"),
    ("splits=" + "1" * 5000, "config: splits must be one of 1 to 8; got '1{100,120}…"),
    ("size=4", "config: knob must be one of tile splits; got 'size'"),
])
def test_texts_that_are_no_configuration(text, sentence):
    with pytest.raises(BadParam, match=sentence):
        Config.parse(text, KNOBS)
    assert Config.parse("tile=64 splits=8", KNOBS) == Config(tile=64, splits=8)

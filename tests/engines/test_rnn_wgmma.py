"""Products of recurrent networks on Hopper's tensor cores: the tile program of matmul_wgmma over addresses
inside x, w, dw, the reserve and the workspace."""
from __future__ import annotations

from dataclasses import replace

import pytest

from cydnn import plan
from cydnn.bench import Case
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import PtxDevice
from cydnn.engines import BY_INDEX
from cydnn.engines.nested import AFTER_US
from cydnn.engines.matmul.wgmma import MatmulWgmma
from cydnn.engines.rnn import layers
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from cydnn.steps import Scratch, TensorMap
from support.draw import alone
from support.check import hopper
from support.check.matrix import plain

H200 = KNOWN["h200"]
FORWARD, DATA, WEIGHTS = ((op, BY_INDEX[i]) for op, i in (("rnn_fwd", 310), ("rnn_bwd_data", 314),
                                                          ("rnn_bwd_weights", 318)))
OPS = pytest.mark.parametrize("op, engine", (FORWARD, DATA, WEIGHTS), ids=lambda v: str(v))
NETWORKS = [
    "t3n5i24 cell=gru hidden=16 f16", "t2n9i16 cell=lstm hidden=24 bidirectional=True bf16",
    "t3n7i8 cell=tanh hidden=72 layers=2 dropout=0.5 f16",
    "t3n4i40 cell=gru hidden=8 batches=4,3,1 layers=2 bidirectional=True bf16",
    "t2n8i136 cell=relu hidden=40 hx=none f16", "t1n3i16 cell=gru hidden=32 bf16",
]


@pytest.fixture
def alone_in_products(monkeypatch):
    """No other engine may do a product."""
    monkeypatch.setattr(layers, "PRODUCTS", tuple(e for e in layers.PRODUCTS if type(e) is MatmulWgmma))
    plan.forget()
    yield
    plan.forget()


def kernels_of(op, engine, network, facts=H200):
    return [s.kernel for s in alone.steps(engine, alone.match(Problem.parse(f"{op} {network}")), facts)]


@OPS
@pytest.mark.parametrize("network", NETWORKS)
def test_every_product_on_wgmma(op, engine, network, alone_in_products):
    problem = Problem.parse(f"{op} {network}")
    assert any(k.startswith("matmul_wgmma") for k in kernels_of(op, engine, network))
    hopper.check(engine, problem, None, plain)


@pytest.mark.parametrize("network, parts", [
    ("t40n16i64 cell=gru hidden=64 f16", 2), ("t40n16i64 cell=lstm hidden=64 bidirectional=True bf16", 4)])
def test_deep_products_in_parts(network, parts, alone_in_products, monkeypatch):
    """The rows of all steps, cut, added in order, behind what dw holds."""
    best = MatmulWgmma.best
    cut = lambda self, p, dev: next(c for c in self.configs(p, dev) if c.splits == parts)
    monkeypatch.setattr(MatmulWgmma, "best", lambda *a: cut(*a) if a[1].op.name == "matmul" else best(*a))
    op, engine = WEIGHTS
    assert "matmul_sum_" in " ".join(kernels_of(op, engine, network))
    hopper.check(engine, Problem.parse(f"{op} {network}"), None, plain)


@OPS
def test_maps_lie_in_the_tensors_and_the_workspace_of_the_network(op, engine, alone_in_products):
    """One plan gives the same bits at other addresses."""
    problem = Problem.parse(f"{op} t3n8i16 cell=lstm hidden=32 layers=2 bidirectional=True f16")
    maps = [v for s in alone.steps(engine, alone.match(problem), H200) for v in s.args.values()
            if isinstance(v, TensorMap)]
    uids = {t.uid for t in alone.match(problem).graph.tensors.values()}
    assert maps and all(m.pointer.uid in uids or isinstance(m.pointer.uid, Scratch) for m in maps)
    plan.forget()
    device, wish = PtxDevice("sm_90"), Wish(engines=(engine.index,))
    first, second = (Case(problem, device, wish) for _ in range(2))
    assert first.plan is second.plan and not set(first.pointers) & set(second.pointers)
    first(), second()
    for name in (n for n in problem.op.writes if n in first.buffers):
        assert first.output(name).tobytes() == second.output(name).tobytes()
    plan.forget()


# ---- Who does a product ----

@pytest.mark.parametrize("card, kind", [("h200", "wgmma"), ("a100", "mma"), ("b200", "mma"), ("t4", "simt")])
@OPS
def test_the_device_says_which_products_there_are(op, engine, card, kind):
    found = kernels_of(op, engine, "t20n128i512 cell=lstm hidden=512 f16", KNOWN[card])
    products = {k.split("_")[1] for k in found if k.startswith("matmul_")} - {"sum"}
    assert products == {kind}


@OPS
@pytest.mark.parametrize("network, alignment", [("t20n128i510 cell=lstm hidden=510 f16", 16),
                                                ("t20n128i512 cell=lstm hidden=512 f16", 4),
                                                ("t20n128i512 cell=lstm hidden=512 f32", 16)])
def test_what_tma_cannot_take_goes_to_others(op, engine, network, alignment):
    problem = Problem.parse(f"{op} {network}")
    p = alone.match(replace(problem, alignment=alignment))
    found = [s.kernel for s in alone.steps(engine, p, H200)]
    assert any(k.startswith("matmul_") for k in found) and "wgmma" not in " ".join(found)


def test_of_two_that_cost_nearly_the_same_the_one_without_a_sum_is_taken(monkeypatch):
    """A launch waits for the one before it."""
    op, engine = DATA
    p = alone.match(Problem.parse(f"{op} t1n96i1368 cell=gru hidden=1024 f16"))
    inner, = engine.products(layers.Net.of(p))
    accepting = [e for e in layers.PRODUCTS if e.accepts(inner.match, H200)]
    launches = {e: len(alone.steps(e, inner.match, H200)) for e in accepting}
    costs = {e: alone.cost(e, inner.match, H200) for e in accepting if launches[e] == 1}
    us, one = min((us, e) for e, us in costs.items())
    two = next(e for e in accepting if launches[e] == 2)
    for less, chosen in ((0.5, one), (1.5, two)):
        monkeypatch.setattr(two, "cost", lambda *_: us - less * AFTER_US)
        assert inner.choice(H200)[1] is chosen

"""Layer, RMS, instance and ada-layer normalization of a pygraph: phases, statistics, gradients."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .conftest import floats
from .programs import MODES

TRAINING, INFERENCE = cudnn.norm_forward_phase.TRAINING, cudnn.norm_forward_phase.INFERENCE
KINDS = {"layernorm": ((6, 32, 1, 1), (1, 32, 1, 1), (1, 2, 3)), "rmsnorm": ((2, 3, 40), (1, 1, 40), (2,)),
         "instancenorm": ((2, 3, 4, 5), (1, 3, 1, 1), (2, 3)), "adalayernorm": ((2, 3, 8), (2, 1, 8), (2,))}


@pytest.fixture(scope="module", params=["numpy", "ptx:sm_80"])
def handle(request):
    found = cudnn.create_handle(Mirror("sm_80") if request.param.startswith("ptx") else "numpy")
    yield found
    cudnn.destroy_handle(found)


def run(g, pack):
    for t in pack:
        t.set_output(True) if t.get_is_virtual() else None
    g.build(MODES)
    g.execute(pack, np.empty(g.get_workspace_size() + 1, np.uint8))


def drawn(seed, *shapes):
    gen = np.random.default_rng(seed)
    return [gen.normal(size=dims).astype(np.float32) for dims in shapes]


def meaning(method, x, scale, bias, axes):
    mean = 0.0 if method == "rmsnorm" else x.mean(axis=axes, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + 1e-3)
    return (x - mean) * rstd * scale + (0 if bias is None else bias), mean, rstd


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("phase", [TRAINING, INFERENCE], ids=["training", "inference"])
@pytest.mark.parametrize("method", KINDS)
def test_forward(handle, method, phase, has_bias):
    dims, parameter, axes = KINDS[method]
    x, s, b = drawn(0, dims, parameter, parameter)
    g = floats(handle=handle)
    X, S, B = g.tensor_like(x), g.tensor_like(s), g.tensor_like(b)
    E = g.tensor([1] * x.ndim, [1] * x.ndim, is_pass_by_value=True)
    Y, *kept = getattr(g, method)(phase, X, S, B if has_bias else None, E)
    want = meaning(method, x.astype(float), s, b if has_bias else None, axes)
    assert [t is None for t in kept] == [phase is INFERENCE] * (1 if method == "rmsnorm" else 2)
    outs = {t: np.empty(np.shape(v), np.float32) for t, v in zip((Y, *kept), (want[0], *want[-len(kept):]))
            if t is not None}
    run(g, {X: x, S: s, **({B: b} if has_bias else {}), E: np.full((1,), 1e-3, np.float32), **outs})
    for found, value in zip(outs.values(), (want[0], *want[-len(kept):])):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", KINDS)
def test_backward(handle, method):
    """Against differences of the forward meaning along a random direction of all inputs."""
    dims, parameter, axes = KINDS[method]
    x, dy, s, b, way_x, way_s, way_b = drawn(1, dims, dims, *[parameter] * 2, dims, *[parameter] * 2)
    _, mean, rstd = meaning(method, x.astype(float), s, b, axes)
    kept = [v.astype(np.float32) for v in ((rstd,) if method == "rmsnorm" else (mean, rstd))]
    g = floats(handle=handle)
    X, DY, S = g.tensor_like(x), g.tensor_like(dy), g.tensor_like(s)
    K = [g.tensor_like(v) for v in kept]
    more = dict(has_dbias=True) if method == "rmsnorm" else {}
    DX, DS, DB = getattr(g, f"{method}_backward")(DY, X, S, *K, **more)
    dx, ds, db = (np.empty(d, np.float32) for d in (dims, parameter, parameter))
    run(g, {X: x, DY: dy, S: s, **dict(zip(K, kept)), DX: dx, DS: ds, DB: db})
    wide = [(v.astype(float), way) for v, way in ((x, way_x), (s, way_s), (b, way_b))]
    at = lambda h: (dy * meaning(method, *(v + h * way for v, way in wide), axes)[0]).sum()
    slope = (at(1e-5) - at(-1e-5)) / 2e-5
    found = (dx * way_x).sum() + (ds * way_s).sum() + (db * way_b).sum()
    np.testing.assert_allclose(found, slope, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("has_bias", [True, False])
def test_layer_norm_by_statistics_that_are_there(handle, has_bias):
    x, scale, bias = drawn(5, *[KINDS["layernorm"][i] for i in (0, 1, 1)])
    mean, rstd = (np.float32(f(x).reshape(6, 1, 1, 1)) for f in (lambda v: v.mean((1, 2, 3)),
                                                                 lambda v: 1 / v.std((1, 2, 3))))
    g, y = floats(handle=handle), np.zeros_like(x)
    given = [g.tensor_like(a).set_is_pass_by_value(False) for a in (x, scale, bias, mean, rstd)]
    made, *none = g.layernorm(INFERENCE, *given[:2], given[2] if has_bias else None,
                              pre_calculated_mean=given[3], pre_calculated_invvar=given[4], name="N")
    assert none == [None, None] and made.get_name() == "N::Y"
    pack = dict(zip(given, (x, scale, bias, mean, rstd)))
    run(g, {t: a for t, a in pack.items() if has_bias or a is not bias} | {made: y})
    np.testing.assert_allclose(y, (x - mean) * rstd * scale + has_bias * bias, rtol=1e-5, atol=1e-5)


def test_what_is_refused(handle):
    g = floats(handle=handle)
    x, s, e = g.tensor([4, 8], [8, 1]), g.tensor([1, 8], [8, 1]), g.tensor([1, 1], [1, 1])
    with pytest.raises(BadParam, match="norm_forward_phase must be TRAINING or INFERENCE; got NOT_SET"):
        g.layernorm(cudnn.norm_forward_phase.NOT_SET, x, s, None, e)
    with pytest.raises(BadParam, match="epsilon must be a tensor of the graph; got NoneType"):
        g.rmsnorm(TRAINING, x, s)
    with pytest.raises(BadParam, match="norm_forward_phase must be INFERENCE where pre_calculated_mean and "):
        g.layernorm(TRAINING, x, s, None, e, pre_calculated_mean=e, pre_calculated_invvar=e)
    with pytest.raises(BadParam, match="pre_calculated_invvar must be a tensor of the graph; got NoneType"):
        g.layernorm(INFERENCE, x, s, None, e, pre_calculated_mean=e)
    assert g.rmsnorm_backward(x, x, s)[2] is None
    names = lambda made: [t.get_name() for t in made]
    assert names(g.rmsnorm_backward(x, x, s, has_dbias=True, name="R")) == ["R::DX", "R::Dscale", "R::Dbias"]
    assert names(g.layernorm_backward(x, x, s, name="L")) == ["L::DX", "L::DSCALE", "L::DBIAS"]

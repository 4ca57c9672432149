"""Random tensors: their numbers, seeds from host and device, dropout in one launch."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.device.facts import KNOWN
from cydnn.layout import Layout
from cydnn.ops import philox
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .conftest import floats
from .programs import MODES

D = cudnn.rng_distribution


@pytest.fixture(scope="module", params=["numpy", "ptx:sm_80"])
def handle(request):
    found = cudnn.create_handle(Mirror("sm_80") if request.param.startswith("ptx") else "numpy")
    yield found
    cudnn.destroy_handle(found)


def drawn(handle, seed, offset, dim, **how):
    """The numbers, and those by arrays of one element in memory for seed and offset."""
    found = []
    for as_memory in (False, True):
        g, y, pack = floats(handle=handle), np.empty(dim, np.float32), {}
        numbers = (seed, offset)
        if as_memory:
            arrays = [np.full((1, 1, 1, 1), n, kind) for n, kind in zip(numbers, (np.int64, np.int32))]
            numbers = [g.tensor([1] * 4, [1] * 4, kind) for kind in (cudnn.data_type.INT64,
                                                                   cudnn.data_type.INT32)]
            pack = dict(zip(numbers, arrays))
        Y = g.rng(*numbers, dim=dim, stride=[s // 4 for s in y.strides], **how).set_output(True)
        g.build(MODES)
        g.execute({**pack, Y: y}, np.empty(g.get_workspace_size() + 1, np.uint8))
        found.append(y)
    np.testing.assert_array_equal(*found)
    return y


def test_bernoulli_keeps_what_dropout_keeps(handle):
    y = drawn(handle, 2 ** 40 + 7, 3, (6, 5, 64), probability=0.9)
    states = philox.seeded(2 ** 40 + 7)
    states[philox.DRAWS] = 3 * philox.ONE_DRAW
    np.testing.assert_array_equal(y.reshape(-1), philox.kept(states, y.size, 0.1))


@pytest.mark.parametrize("how, mean, spread", [
    (dict(distribution=D.UNIFORM, minimum=-1.0, maximum=3.0), 1.0, 4 / 12 ** 0.5),
    (dict(distribution=D.NORMAL, mean=2.0, standard_deviation=0.5), 2.0, 0.5),
    (dict(probability=0.25), 0.25, 0.1875 ** 0.5)], ids=["uniform", "normal", "bernoulli"])
def test_moments(handle, how, mean, spread):
    y = drawn(handle, 1, 0, (40, 513), **how).astype(float)
    error = spread / y.size ** 0.5
    assert abs(y.mean() - mean) < 5 * error and abs(y.std() - spread) < 5 * error
    assert abs(np.corrcoef(y[:, :-1].ravel(), y[:, 1:].ravel())[0, 1]) < 5 / y.size ** 0.5
    if "minimum" in how:
        assert y.min() >= -1 and y.max() < 3


def test_dropout_is_one_launch(handle):
    x = np.random.default_rng(0).uniform(-1, 1, (8, 40)).astype(np.float16)
    g, y = floats(handle=handle), np.empty_like(x)
    X = g.tensor_like(x)
    mask = g.rng(5, 0, probability=0.75, dim=[8, 40], stride=[40, 1])
    Y = g.scale(g.mul(X, mask), g.tensor_scalar(1 / 0.75, cudnn.scalar_type.COMPILE_TIME_CONST))
    Y.set_output(True).set_data_type(cudnn.data_type.HALF)
    g.validate()
    assert [s.kernel for s in Layout.of(g.graph, KNOWN["h200"]).steps] == ["rng_any_bernoulli_f32"]
    g.build(MODES)
    g.execute({X: x, Y: y}, np.empty(g.get_workspace_size() + 1, np.uint8))
    keep = philox.numbers(5, 0, 8, 40) >= philox.threshold(0.25)
    np.testing.assert_allclose(y, np.where(keep, x / 0.75, 0), rtol=1e-3)


@pytest.mark.parametrize("how, text", [
    (dict(distribution="normal"), "distribution must be one of rng_distribution.BERNOULLI"),
    (dict(distribution=D.NOT_SET), "distribution must be set; got rng_distribution.NOT_SET"),
    (dict(probability=2), "probability must be in 0 to 1; got 2"), (dict(seed=0.5), "seed must be")])
def test_what_is_refused(g, how, text):
    with pytest.raises(BadParam, match=text):
        g.rng(**{"seed": 1, "dim": [4], "stride": [1], **how}).set_output(True)
        g.validate()


@pytest.mark.parametrize("is_given", [False, True])
def test_a_seed_is_a_whole_number(g, is_given):
    """A tensor of floats is none, in memory or given at execute."""
    g.rng(g.tensor([1], data_type=cudnn.data_type.FLOAT, is_pass_by_value=is_given), dim=[4]).set_output(True)
    with pytest.raises(BadParam, match="rng.0: seed must be a tensor of whole numbers; got uid 1 of f32"):
        g.validate()

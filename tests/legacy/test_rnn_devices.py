"""Recurrent networks of the v5 API: every device gives what the NumPy device gives, writes nothing else."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.dtypes import BY_ENUM
from support.guard.mirror import Mirror

from .arrays import BFLOAT16, DOUBLE, FLOAT, HALF
from .recurrent import GRU, LSTM, RELU, TANH, Network

pytestmark = pytest.mark.usefixtures("between_zones")

DEVICES = ["ptx:sm_80", pytest.param("cuda:0", marks=pytest.mark.gpu)]
OUTPUTS = ("y", "hy", "cy", "dx", "dhx", "dcx", "dw")
SHAPES = {                                       # what a network is, in words
    "plain": dict(hidden=8, inputs=8, batches=(2, 2, 2)),
    "odd": dict(hidden=5, inputs=3, layers=2, bidirectional=True, batches=(3, 2, 1), split=True),
    "dropout": dict(hidden=6, layers=3, batches=(2, 2), p=0.4),
    "skip": dict(hidden=7, layers=2, skip=True, bidirectional=True, batches=(3, 1)),
}


@pytest.fixture(scope="module", params=DEVICES)
def handle(request):
    kind, _, target = request.param.partition(":")
    found = c.create(Mirror(target) if kind == "ptx" else request.param)
    yield found
    c.destroy(found)


def twins(handle, **facts):
    """The same network on NumPy and on the device."""
    here = Network(c.create("numpy"), **facts)
    there = Network(handle, **facts)
    for name in here.t:
        there[name] = here[name]
    return here, there


def agree(here, there, dtype, mode):
    """Up to a few roundings of every step."""
    eps = 16 * max(BY_ENUM[dtype].eps, 2.0 ** -40 if dtype == DOUBLE else 2.0 ** -21)
    for name in OUTPUTS:
        if mode == LSTM or "c" not in name:
            want = here[name]
            np.testing.assert_allclose(there[name], want, atol=eps * (1 + np.abs(want).max()), err_msg=name)
    assert there.stray_bytes() == 0


@pytest.mark.share(40)
@pytest.mark.parametrize("dtype", (FLOAT, DOUBLE, HALF, BFLOAT16))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", (RELU, TANH, LSTM, GRU))
def test_training_agrees(handle, mode, shape, dtype):
    here, there = twins(handle, mode=mode, dtype=dtype, **SHAPES[shape])
    here.train(), there.train()
    agree(here, there, dtype, mode)
    np.testing.assert_array_equal(here.generator, there.generator)


@pytest.mark.parametrize("mode", (RELU, TANH, LSTM, GRU))
def test_inference_without_states_agrees(handle, mode):
    here, there = twins(handle, mode=mode, **SHAPES["odd"])
    null = dict(hx=0, cx=0, hy=0, cy=0, hxDesc=None, cxDesc=None, hyDesc=None, cyDesc=None)
    for net in (here, there):
        net.run("RNNForwardInference", **null)
    np.testing.assert_allclose(there["y"], here["y"], atol=1e-5)
    assert there.stray_bytes() == 0


@pytest.mark.parametrize("mode", (RELU, TANH, LSTM, GRU))
def test_gradients_without_states_agree(handle, mode):
    here, there = twins(handle, mode=mode, **SHAPES["odd"])
    names = ("hx", "cx", "hy", "cy", "dhy", "dcy", "dhx", "dcx")
    null = {**dict.fromkeys(names, 0), **{f"{name}Desc": None for name in names}}
    here.train(**null), there.train(**null)
    for name in ("y", "dx", "dw"):
        np.testing.assert_allclose(there[name], here[name], atol=1e-5 * (1 + np.abs(here[name]).max()))


@pytest.mark.gpu
@pytest.mark.parametrize("mode", (LSTM, GRU))
def test_a_network_of_a_usual_size_agrees(gpu, mode):
    handle = c.create("cuda:0")
    for dtype in (FLOAT, HALF):
        here, there = twins(handle, mode=mode, dtype=dtype, hidden=256, inputs=128, layers=2,
                            batches=(32,) * 8 + (16,) * 4)
        weights = here["w"] / 4
        for net in (here, there):
            net["w"] = weights
            net.train()
        agree(here, there, dtype, mode)
    c.destroy(handle)

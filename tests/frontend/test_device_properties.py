"""Plans for a device that is not here, or for a part or another architecture of the one that is."""
from __future__ import annotations

import json

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.device import ptx
from cydnn.device.facts import LEAST
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .conftest import conv, floats, names, nhwc

T, MODE = cudnn.data_type, cudnn.heur_mode


def test_properties_are_read_back(h200):
    again = cudnn.create_device_properties(h200.serialize())
    assert again.facts == h200.facts and json.loads(again.serialize())["sms"] == 132
    assert cudnn.create_device_properties("numpy").facts.kind == "numpy"
    for wrong in ("{}", "{nonsense", json.dumps(dict(sms=3))):
        with pytest.raises(BadParam, match="create_device_properties: the text must be JSON of kind name sm"):
            cudnn.create_device_properties(wrong)


@pytest.mark.parametrize("fact, least", LEAST.items())
def test_what_every_gpu_has(h200, fact, least):
    """What estimates divide by, and the registers and shared memory that engines count on."""
    less = json.dumps({**json.loads(h200.serialize()), fact: least - 1})
    with pytest.raises(BadParam, match=f"facts: {fact} of a GPU must be at least {least}; got {least - 1}"):
        cudnn.create_device_properties(less)


def test_a_gpu_that_has_less_than_others_of_its_kind(h200):
    """Engines of which no configuration fits are passed over."""
    facts = {**json.loads(h200.serialize()), "smem_bytes": 48 << 10}
    small = cudnn.create_device_properties(json.dumps(facts))
    g, *_ = conv(device_property=small)
    g.build([MODE.A])
    assert names(g)


def test_a_graph_of_properties_runs_on_any_handle(h200):
    """Planned without a handle; made executable where it is executed."""
    properties = cudnn.create_device_properties("numpy")
    g = floats(device_property=properties)
    x = g.tensor([2, 3], [3, 1])
    y = g.exp(x).set_output(True)
    g.build([MODE.A])
    handle, out = cudnn.create_handle("numpy"), np.empty((2, 3), np.float32)
    g.execute({x: np.zeros((2, 3), np.float32), y: out}, handle=handle)
    assert (out == 1).all()
    far = floats(device_property=h200)
    far.exp(far.tensor([2, 3], [3, 1])).set_output(True)
    far.build([MODE.A])
    with pytest.raises(cudnn.cudnnGraphNotSupportedError,
                       match=r"the plan is for NVIDIA H200 \(cuda\); it cannot run on numpy"):
        far.execute({}, handle=handle)


def test_fewer_multiprocessors(h200):
    assert conv(device_property=h200, sm_count=8)[0]._facts().sms == 8
    slow, fast = (conv(False, device_property=h200, sm_count=n)[0] for n in (8, 132))
    for g in (slow, fast):
        g.create_execution_plans([MODE.A])
    assert slow.candidates[0].choice.us > 2 * fast.candidates[0].choice.us
    for wrong in (0, 133):
        with pytest.raises(BadParam, match="sm_count must be 1 to 132, those of NVIDIA H200"):
            conv(device_property=h200, sm_count=wrong)[0].build([MODE.A])


def test_facts_of_another_architecture(h200):
    """What its row leaves out is the usual number, not that of the device it is asked on."""
    facts = floats(device_property=h200, sm_version=86)._facts()
    assert (facts.sm, facts.smem_bytes, facts.fma_f64, facts.mma_16) == (86, 99 << 10, 2, 512)
    assert facts.sms == 132 and facts.bandwidth_gbs == h200.facts.bandwidth_gbs


def test_another_architecture(h200):
    """Planned for it wherever it is; run only where its kernels have images."""
    handle = cudnn.create_handle(Mirror("sm_80"))
    for version in (90, 900):
        g = cudnn.pygraph(io_data_type=T.HALF, compute_data_type=T.FLOAT, intermediate_data_type=T.FLOAT,
                          handle=handle,
                          sm_version=version)
        assert g._facts().sm == 90 and g._facts().fma_f64 == 64
    x = g.tensor(*nhwc(32, 256, 14, 14))
    s, b = (g.tensor(*nhwc(1, 256, 1, 1)).set_data_type(T.FLOAT) for _ in range(2))
    eps = g.tensor([1] * 4, [1] * 4, T.FLOAT, is_pass_by_value=True)
    y, mean, rstd, *_ = g.batchnorm(x, s, b, None, None, eps, None)
    y.set_output(True)
    for t in (mean, rstd):
        t.set_output(True).set_data_type(T.FLOAT)
    g.build([MODE.A])
    assert names(g)[0].startswith("261:batch_norm_training_cluster"), names(g)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError,
                       match="the plan is for sm_90, and .* has no image that .*sm_80.* can run"):
        g.execute({}, g.get_workspace_size())
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="sm_version must be at least 75; got 70"):
        conv(handle=handle, sm_version=70)[0].build([MODE.A])


def test_an_older_plan_runs_on_a_newer_device():
    device = Mirror("sm_90")
    assert isinstance(device.inner, ptx.PtxDevice)
    g = floats(handle=cudnn.create_handle(device), sm_version=80)
    x = g.tensor([2, 64], [64, 1])
    y = g.exp(x).set_output(True)
    g.build([MODE.A])
    out = np.empty((2, 64), np.float32)
    g.execute({x: np.zeros((2, 64), np.float32), y: out})
    assert (out == 1).all() and g.candidates[0].choice.facts.sm == 80

"""GenStats and bias gradients behind a product: one plan of one engine, which gives what NumPy gives."""
from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import device as devices

from .conftest import conv, names, nhwc

T = cudnn.data_type


def statistics(**options):
    """Convolution, GenStats: the graph, {tensor: shape} of what it reads and of what it writes."""
    g = cudnn.pygraph(io_data_type=T.HALF, compute_data_type=T.FLOAT, **options)
    x, w = g.tensor(*nhwc(2, 16, 9, 10)), g.tensor(*nhwc(40, 16, 3, 3))
    y = g.conv_fprop(x, w, [1, 1], [1, 1], [1, 1]).set_output(True)
    found = [t.set_output(True).set_data_type(T.FLOAT) for t in g.genstats(y)]
    return g, {x: (2, 9, 10, 16), w: (40, 3, 3, 16)}, {y: (2, 9, 10, 40), **dict.fromkeys(found, (40,))}


def normalized(**options):
    """Scale, bias and ReLU in f32, convolution, GenStats."""
    kinds = dict(io_data_type=T.HALF, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT)
    g = cudnn.pygraph(**kinds, **options)
    x, w = g.tensor(*nhwc(2, 64, 9, 10)), g.tensor(*nhwc(40, 64, 1, 1))
    s, b = (g.tensor(*nhwc(1, 64, 1, 1)) for _ in range(2))
    front = g.relu(g.bias(g.scale(x, s), b))
    y = g.conv_fprop(front, w, [0, 0], [1, 1], [1, 1]).set_output(True)
    found = [t.set_output(True).set_data_type(T.FLOAT) for t in g.genstats(y)]
    reads = {x: (2, 9, 10, 64), w: (40, 1, 1, 64), s: (64,), b: (64,)}
    return g, reads, {y: (2, 9, 10, 40), **dict.fromkeys(found, (40,))}


def test_f32_in_front_is_rounded_unless_that_is_deselected():
    device = devices.get("ptx:sm_90")
    (name, found), (_, want) = results(normalized, device), results(normalized, "numpy")
    assert re.match("16[12]:", name)
    for here, there in zip(found, want):
        np.testing.assert_array_equal(here, there)
    g, _, _ = normalized(handle=device)
    g.validate()
    g.build_operation_graph()
    g.create_execution_plans([cudnn.heur_mode.A])
    note = cudnn.numerical_note.DOWN_CONVERT_INPUTS
    g.deselect_numeric_notes([note])
    g.check_support()
    g.build_plans()
    assert names(g)[0].startswith("100:")


def bias_gradient(**options):
    """The gradient of ReLU behind a product, and of the bias in front of it."""
    kinds = dict(io_data_type=T.HALF, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT)
    g = cudnn.pygraph(**kinds, **options)
    dims = lambda *d: (list(d), [d[1] * d[2], d[2], 1])
    a, b, before = (g.tensor(*dims(*d)) for d in ((2, 120, 200), (1, 200, 136), (2, 120, 136)))
    dx = g.relu_backward(g.matmul(a, b), before).set_output(True)
    db = g.reduction(dx, cudnn.reduction_mode.ADD).set_output(True)
    db.set_dim([1, 1, 136]).set_data_type(T.FLOAT)
    return g, {t: t.get_dim() for t in (a, b, before)}, {dx: (2, 120, 136), db: (1, 1, 136)}


def results(make, handle) -> tuple:
    """(name of the plan, what it writes) of small whole numbers."""
    g, reads, writes = make(handle=handle)
    g.build([cudnn.heur_mode.A])
    rng = np.random.default_rng(0)
    pack = {t: rng.integers(-2, 3, shape).astype(np.float16) for t, shape in reads.items()}
    kind = lambda t: np.float32 if t.get_data_type() is T.FLOAT else np.float16
    pack |= {t: np.full(shape, 7, kind(t)) for t, shape in writes.items()}
    g.execute(pack, np.empty(g.get_workspace_size(), np.uint8))
    return names(g)[0], [pack[t] for t in writes]


@pytest.mark.parametrize("make, engine, gbs", [(statistics, "117:conv_fprop_wgmma[", 4.0),
                                               (bias_gradient, "189:matmul_wgmma[", 8.0)])
def test_one_engine_gives_all(make, engine, gbs):
    """On a card of little bandwidth, where it pays for small tensors."""
    device = devices.get("ptx:sm_90")
    slow = type(device)("sm_90a", replace(device.facts, bandwidth_gbs=gbs, sms=2, sm_gbs=4.0))
    (name, found), (_, want) = results(make, slow), results(make, "numpy")
    assert name.startswith(engine) and "+" not in name
    for here, there in zip(found, want):
        np.testing.assert_array_equal(here, there)


def test_an_h200_takes_it_so(h200):
    g, tensors = conv(n=64, c=128, device_property=h200)
    for total in g.genstats(tensors[-1]):
        total.set_output(True).set_data_type(T.FLOAT)
    g.create_execution_plans([cudnn.heur_mode.A])
    assert names(g)[0].startswith("117:conv_fprop_wgmma[") and "+" not in names(g)[0]

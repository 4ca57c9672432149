"""``handle`` on the NumPy device; ``h200``: the properties of a GPU that need not be here."""
from __future__ import annotations

import json
from dataclasses import asdict

import pytest

import cydnn.frontend as cudnn
from cydnn.device.facts import KNOWN


@pytest.fixture
def handle():
    number = cudnn.create_handle("numpy")
    yield number
    cudnn.destroy_handle(number)


@pytest.fixture(scope="session")
def h200():
    return cudnn.create_device_properties(json.dumps(asdict(KNOWN["h200"])))


@pytest.fixture
def g(handle):
    """A graph of 32-bit types on the NumPy device."""
    return floats(handle=handle)


def floats(**options):
    kind = cudnn.data_type.FLOAT
    return cudnn.pygraph(io_data_type=kind, intermediate_data_type=kind, compute_data_type=kind, **options)


def nhwc(*dims):
    """Dims and channels-last strides of four dims."""
    return list(dims), [dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]]


def conv(tail=True, n=8, c=64, **options):
    """conv (+ bias + relu) of 16-bit types, and its tensors."""
    kinds = cudnn.data_type
    g = cudnn.pygraph(io_data_type=kinds.HALF, intermediate_data_type=kinds.FLOAT,
                      compute_data_type=kinds.FLOAT, **options)
    x, w, b = (g.tensor(*nhwc(*d)) for d in ((n, c, 28, 28), (c, c, 3, 3), (1, c, 1, 1)))
    y = g.conv_fprop(x, w, [1, 1], [1, 1], [1, 1])
    y = (g.relu(g.bias(y, b)) if tail else y).set_output(True)
    return g, (x, w, *([b] if tail else []), y)


def names(g):
    """The names of the plans of a graph, in their order."""
    return [g.get_plan_name_at_index(i) for i in range(g.get_execution_plan_count())]

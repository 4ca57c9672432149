"""What a user of pygraph gets wrong: each refusal is one sentence of an exception
of the library, before anything runs."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn
from cydnn import data_type, heur_mode

IMAGE, FILTER = np.ones((2, 8, 6, 6), np.float32), np.ones((8, 8, 3, 3), np.float32)


@pytest.fixture
def g():
    number = cydnn.create_handle("numpy")
    yield cydnn.pygraph(io_data_type=data_type.FLOAT, intermediate_data_type=data_type.FLOAT,
                        compute_data_type=data_type.FLOAT, handle=number)
    cydnn.destroy_handle(number)


def conv(g, **changed):
    g.conv_fprop(g.tensor_like(IMAGE), g.tensor_like(FILTER),
                 **{**dict(padding=[1, 1], stride=[1, 1], dilation=[1, 1]), **changed})


CALLS = [
    (lambda g: conv(g, stride=1),
     r"conv_fprop: stride must have one integer for each spatial dim, such as \[1, 1\]; got 1"),
    (lambda g: conv(g, padding=[1.5, 1]),
     r"conv_fprop: padding must have one integer for each spatial dim.*; got \[1.5, 1\]"),
    (lambda g: conv(g, convolution_mode="conv"),
     "convolution_mode must be one of convolution_mode.CONVOLUTION .*; got 'conv'"),
    (lambda g: g.reduction(g.tensor_like(IMAGE), "add"),
     "reduction: mode must be one of reduction_mode.ADD .*; got 'add'"),
    (lambda g: g.batchnorm(g.tensor_like(IMAGE), None, None, epsilon=1e-5),
     "epsilon must be a pass-by-value tensor .*; got 1e-05"),
    (lambda g: g.query_tensor_attributes_of_uid(99), r"uid must be one of \[\]; got 99"),
    (lambda g: g.get_workspace_size(), "a plan must be built first"),
    (lambda g: (g.relu(g.tensor_like(IMAGE)), g.validate()),
     r"must be an output \(not virtual: set_output\(True\)\)"),
    (lambda g: (g.relu(g.tensor_like(IMAGE)).set_output(True), g.build(["A"])),
     "modes must be one of heur_mode.A .*; got 'A'"),
]


@pytest.mark.parametrize("call, sentence", CALLS, ids=[s[:40] for _, s in CALLS])
def test_calls(g, call, sentence):
    with pytest.raises(cydnn.BadParam, match=sentence):
        call(g)


@pytest.fixture
def built(g):
    x = g.tensor_like(IMAGE)
    y = g.relu(x).set_output(True)
    g.build(heur_mode.A)
    return g, x, y


def frozen():
    array = np.empty_like(IMAGE)
    array.setflags(write=False)
    return array


PACKS = [
    (lambda x, y: {x: IMAGE, y: np.empty(3, np.float32)},
     r"array must have at least 2304 bytes, .*; got 12 bytes in shape \(3,\) of float32"),
    (lambda x, y: {x: np.ones(3, np.float64), y: np.empty_like(IMAGE)},
     "array must have at least 2304 bytes"),
    (lambda x, y: {x: IMAGE, y: cydnn.device.get("numpy").alloc(16)},
     "buffer must have at least 2304 bytes; got 16"),
    (lambda x, y: {x: IMAGE, y: frozen()}, "array must be writable, as it is an output; got a read-only one"),
    (lambda x, y: {x: IMAGE, y: -8}, "pointer must be an address; got -8"),
    (lambda x, y: {"x": IMAGE, y: IMAGE}, "keys of the variant pack must be tensors or uids; got 'x'"),
    (lambda x, y: [IMAGE, IMAGE], "the variant pack must be a dict of tensor or uid to buffer; got list"),
]


@pytest.mark.parametrize("pack, sentence", PACKS, ids=[s[:40] for _, s in PACKS])
def test_variant_packs(built, pack, sentence):
    g, x, y = built
    with pytest.raises(cydnn.BadParam, match=sentence):
        g.execute(pack(x, y))


def test_plan_indices(built):
    g, _, _ = built
    for call in (g.get_plan_name_at_index, g.build_plan_at_index):
        with pytest.raises(cydnn.BadParam, match="plan index must be below 1, .*; got 99"):
            call(99)


def test_a_part_of_a_larger_array_is_long_enough(built):
    """What counts is the memory behind the pointer, not the shape of the view."""
    g, x, y = built
    store = np.full(2 * IMAGE.size, -1, np.float32)
    g.execute({x: IMAGE, y: store[IMAGE.size:IMAGE.size + 1]})
    assert (store[:IMAGE.size] == -1).all() and (store[IMAGE.size:] == 1).all()


def test_numbers_go_only_where_numbers_are_read(g):
    number = g.tensor([1, 8, 3, 3], [72, 9, 3, 1], is_pass_by_value=True)
    g.conv_fprop(g.tensor_like(IMAGE), number, padding=[1, 1],
                 stride=[1, 1], dilation=[1, 1]).set_output(True)
    with pytest.raises(cydnn.BadParam, match="must be in memory; got pass-by-value tensor"):
        g.validate()


@pytest.mark.parametrize("name", ["layernorm", "sdpa", "resample", "concatenate", "serialize"])
def test_what_comes_later_says_so(g, name):
    with pytest.raises(cydnn.cudnnGraphNotSupportedError, match=f"{name}: .* comes with a later release"):
        getattr(g, name)(1, axis=2)

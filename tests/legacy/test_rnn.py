"""Recurrent networks of the v5 API: recorded values, differences, layouts of states, what may be NULL."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.dtypes import BY_ENUM

from .arrays import BFLOAT16, DOUBLE, FLOAT, HALF, filter_desc, tensor_desc
from .recurrent import GRU, LSTM, RELU, STATES, TANH, Network

MODES = (RELU, TANH, LSTM, GRU)


@pytest.fixture(params=["numpy", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def handle(request):
    found = c.create(request.param)
    yield found
    c.destroy(found)


# -- Recorded values (legacy API, 4.16) ----------------------------------------------------------------------

def ones(handle, bidirectional=False):
    net = Network(handle, RELU, hidden=2, layers=3, inputs=2, batches=(3,) * 4, bidirectional=bidirectional)
    for name in ("x", "hx", "dy", "dhy"):
        net[name] = 1.0
    for p in range(3 * net.directions):
        for side in (0, 1):
            net.matrix(p, side)[...] = 1.0
            net.bias(p, side)[...] = 1.0 - side
    return net


def test_relu_in_one_direction(handle):
    net = ones(handle).run("RNNForwardTraining")
    want = np.repeat([29, 165, 661, 2229], 3)
    np.testing.assert_array_equal(net["y"][:, :, 0], np.stack([want] * 2, 1))
    net.run("RNNBackwardData")
    np.testing.assert_array_equal(net["dx"][:, 0, 0], np.repeat([1672, 496, 124, 22], 3))
    np.testing.assert_array_equal(net["dhx"][:, 0, 0], [1672, 340, 46])


def test_relu_in_both_directions(handle):
    net = ones(handle, bidirectional=True).run("RNNForwardInference")
    forward = np.repeat([3719, 9739, 21779, 47275], 3)
    np.testing.assert_array_equal(net["y"][:, 0, 0], forward)
    np.testing.assert_array_equal(net["y"][:, 2, 0], forward[::-1])


def test_gru_that_skips_its_input(handle):
    net = Network(handle, GRU, hidden=2, skip=True, batches=(1,))
    net["w"], net["x"], net["hx"] = 0.0, 1.0, 0.0
    net.run("RNNForwardInference")
    np.testing.assert_allclose(net["y"], 0.2048242, atol=1e-6)


# -- Gradients -----------------------------------------------------------------------------------------------

def loss(net, **other):
    """sum(dy * y) + sum(dhy * hy) + sum(dcy * cy) of a training pass whose masks are those of the first."""
    before = net.generator.copy()
    net.run("RNNForwardTraining", **other)
    net.generator[...] = before
    total = (net["dy"] * net["y"]).sum() + (net["dhy"] * net["hy"]).sum()
    return total + ((net["dcy"] * net["cy"]).sum() if net.mode == LSTM else 0.0)


@pytest.mark.parametrize("p", (0.0, 0.4))
@pytest.mark.parametrize("split", (False, True))
@pytest.mark.parametrize("skip", (False, True))
@pytest.mark.parametrize("batches", ((2, 2, 2), (3, 3, 1)))
@pytest.mark.parametrize("bidirectional", (False, True))
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_the_differences(handle, mode, bidirectional, batches, skip, split, p):
    net = Network(handle, mode, layers=2, bidirectional=bidirectional, batches=batches, skip=skip,
                  split=split, dtype=DOUBLE, p=p)
    net.mode, h, gen = mode, 1e-6, np.random.default_rng(3)
    loss(net)
    net.run("RNNBackwardData", "RNNBackwardWeights")
    for name in ("x", "hx", "w", *(["cx"] if mode == LSTM else [])):
        start = net[name]
        way, sides = gen.normal(size=start.shape), []
        for sign in (1, -1):
            net[name] = start + sign * h * way
            sides.append(loss(net))
        net[name] = start
        want = (sides[0] - sides[1]) / (2 * h)
        got = (net[{"x": "dx", "hx": "dhx", "cx": "dcx", "w": "dw"}[name]] * way).sum()
        assert abs(got - want) < 1e-6 * (1 + abs(want)), name
    assert net.stray_bytes() == 0


def test_weight_gradients_are_added_every_time(handle):
    net = Network(handle, GRU, dtype=DOUBLE).train()
    once = net["dw"]
    net.run("RNNBackwardWeights")
    np.testing.assert_allclose(net["dw"], 2 * once, atol=1e-14)
    net["dw"] = 1.0
    net.run("RNNBackwardWeights")
    np.testing.assert_allclose(net["dw"], 1 + once, atol=1e-14)


# -- States --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", MODES)
def test_both_layouts_of_states_say_the_same(handle, mode):
    """(layers * directions, batch, hidden) and (layers, batch, directions * hidden)."""
    one = Network(handle, mode, layers=2, bidirectional=True, batches=(3, 1))
    two = Network(handle, mode, layers=2, bidirectional=True, batches=(3, 1), split=True)
    as_split = lambda v: v.reshape(2, 2, 3, 3).transpose(0, 2, 1, 3).reshape(2, 3, 6)
    for name in two.t:
        two[name] = as_split(one[name]) if name in STATES else one[name]
    one.train(), two.train()
    for name in ("y", "dx", "dw"):
        np.testing.assert_array_equal(one[name], two[name])
    for name in ("hy", "dhx", *(("cy", "dcx") if mode == LSTM else ())):
        np.testing.assert_array_equal(as_split(one[name]), two[name])


@pytest.mark.parametrize("null", (0, None))
def test_states_may_be_null(handle, null):
    """NULL pointers are zeros or are not stored; their descriptors may be NULL, too."""
    net, zero = Network(handle, LSTM, dtype=DOUBLE), Network(handle, LSTM, dtype=DOUBLE)
    for name in ("hx", "cx", "dhy", "dcy"):
        zero[name] = 0.0
    zero.train()
    for desc in (None, 0, tensor_desc(1, 3, 3, dtype=DOUBLE)):
        net["dw"] = 0.0
        before = {name: net.t[name].raw.copy() for name in STATES}
        net.train(**{name: null for name in STATES}, **{f"{name}Desc": desc for name in STATES})
        for name in ("y", "dx", "dw"):
            np.testing.assert_array_equal(net[name], zero[name])
        for name in STATES:
            np.testing.assert_array_equal(net.t[name].raw, before[name])


@pytest.mark.parametrize("mode", (RELU, TANH, GRU))
def test_cells_are_ignored_where_there_are_none(handle, mode):
    net, other = Network(handle, mode), Network(handle, mode)
    cells = [name for name in STATES if name in ("cx", "cy", "dcx", "dcy")]
    before = {name: net.t[name].raw.copy() for name in cells}
    net.train()
    gone = c.createTensorDescriptor()
    c.destroyTensorDescriptor(gone)
    for desc in (tensor_desc(1, 1, 7), c.createTensorDescriptor(), gone, gone.address):
        other["dw"] = 0.0
        other.train(**{name: 0 for name in cells}, **{f"{name}Desc": desc for name in cells})
        for name in ("y", "hy", "dx", "dhx", "dw"):
            np.testing.assert_array_equal(net[name], other[name])
    for name in cells:
        np.testing.assert_array_equal(net.t[name].raw, before[name])


def test_short_sequences_keep_their_last_state(handle):
    net = Network(handle, TANH, batches=(3, 2, 2), bidirectional=True).run("RNNForwardInference")
    y, hy = net["y"][..., 0], net["hy"]
    np.testing.assert_array_equal(hy[0], [*y[5:7, :3], y[2, :3]])         # forward: after a row's last step
    np.testing.assert_array_equal(hy[1], y[:3, 3:])                       # backward: after step 0


# -- Weights, types, memory ----------------------------------------------------------------------------------

@pytest.mark.parametrize("mode, gates", [(RELU, 1), (TANH, 1), (LSTM, 4), (GRU, 3)])
def test_matrices_and_biases_fill_the_blob(handle, mode, gates):
    net, seen = Network(handle, mode, hidden=5, layers=2, bidirectional=True, dtype=DOUBLE), []
    for p in range(4):
        for gate in range(2 * gates):
            found = filter_desc(1, 1, 1)
            for get in (c.getRNNLinLayerMatrixParams, c.getRNNLinLayerBiasParams):
                ask = lambda w: get(handle, net.rnn, p, net.x_descs[0], net.t["w"].desc, w, gate, found)
                start, (dtype, format, rank, dims) = ask(0), c.getFilterNdDescriptor(found, 8)
                assert ask(net.t["w"].ptr) == net.t["w"].ptr + start
                assert (dtype, format, rank) == (DOUBLE, 0, 3)
                columns = 5 if gate >= gates else 4 if p < 2 else 10
                assert dims == ((1, 5, columns) if get is c.getRNNLinLayerMatrixParams else (1, 5, 1))
                seen += range(start // 8, start // 8 + 5 * dims[2])
    assert sorted(seen) == list(range(net.params))


def test_matrices_that_are_skipped_do_not_exist(handle):
    net, found = Network(handle, LSTM, hidden=4, skip=True, layers=2), filter_desc(1, 1, 1)
    ask = lambda p, gate: c.getRNNLinLayerMatrixParams(handle, net.rnn, p, net.x_descs[0], net.t["w"].desc,
                                                       net.t["w"].ptr, gate, found)
    assert ask(0, 0) == 0 and np.prod(c.getFilterNdDescriptor(found, 8)[3]) == 0
    assert ask(0, 4) == net.t["w"].ptr and ask(1, 0) == net.t["w"].ptr + 4 * 4 * 16
    assert net.params == 4 * 16 * 3 + 2 * 2 * 16


@pytest.mark.parametrize("dtype", (FLOAT, DOUBLE, HALF, BFLOAT16))
def test_types_agree_with_double(handle, dtype):
    net, want = Network(handle, LSTM, layers=2, dtype=dtype), Network(handle, LSTM, layers=2, dtype=DOUBLE)
    for name in net.t:
        want[name] = net[name]
    net.train(), want.train()
    for name in ("y", "hy", "cy", "dx", "dhx", "dcx", "dw"):
        eps = BY_ENUM[dtype].eps
        np.testing.assert_allclose(net[name], want[name], atol=16 * eps * (1 + np.abs(want[name]).max()))
    assert net.stray_bytes() == 0


def test_half_math_is_taken(handle):
    nets = [Network(handle, GRU, dtype=HALF, math=math).train() for math in (FLOAT, HALF)]
    np.testing.assert_array_equal(*[net["dx"] for net in nets])


def test_a_copy_of_the_reserve_serves(handle):
    """Between the calls the reserve moves to another address."""
    net, want = (Network(handle, LSTM, layers=2, p=0.5) for _ in range(2))
    want.train()
    for call in ("RNNForwardTraining", "RNNBackwardData", "RNNBackwardWeights"):
        net.run(call)
        moved = np.full(net.reserve.nbytes + 256, 0xEE, np.uint8)[4:][:net.reserve.nbytes]
        moved[...] = net.reserve
        net.reserve[...] = 0
        net.reserve = moved
    for name in ("y", "dx", "dw"):
        np.testing.assert_array_equal(net[name], want[name])


def test_longer_arrays_and_addresses_of_descriptors(handle):
    net, want = Network(handle, GRU).run("RNNForwardInference"), None
    want = net["y"]
    for xs, ys in (([*net.x_descs, None], [*net.y_descs, c.createTensorDescriptor()]),
                   (tuple(map(int, net.x_descs)), list(map(int, net.y_descs)))):
        net["y"] = 0.0
        net.run("RNNForwardInference", xDesc=xs, yDesc=ys, rnnDesc=int(net.rnn))
        np.testing.assert_array_equal(net["y"], want)


def test_a_workspace_may_start_at_any_element(handle):
    net = Network(handle, GRU)
    room = np.empty(net.workspace.nbytes + 64, np.uint8)
    for shift in (0, 4, 12):
        net.run("RNNForwardInference", workspace=net.memory.address(room) + shift)


# -- Dropout -------------------------------------------------------------------------------------------------

def test_dropout_acts_between_layers_in_training_only(handle):
    net, plain = (Network(handle, RELU, layers=2, hidden=64, batches=(4,) * 4, p=p, seed=7)
                  for p in (0.5, 0.0))
    for one in (net, plain):
        one["x"], one["hx"], one["w"] = 1.0, 0.0, 0.0
        for unit in range(64):                   # layer 0: h = 1; layer 1: h = what it reads
            one.bias(0, 0)[unit] = one.matrix(1, 0)[unit, unit] = 1.0
    net.run("RNNForwardInference")
    np.testing.assert_array_equal(net["y"], 1.0)
    assert net.reserve.nbytes > plain.reserve.nbytes
    net.run("RNNForwardTraining")
    first = net["y"]
    assert set(np.unique(first)) == {0.0, 2.0} and 0.4 < (first == 0).mean() < 0.6
    net.run("RNNForwardTraining")
    assert (net["y"] != first).any()                                      # the states have moved on
    states = net.memory.address(net.generator), net.generator.nbytes
    c.setDropoutDescriptor(net.dropout, handle, 0.5, *states, 7)
    net.memory.pull()
    net.run("RNNForwardTraining")
    np.testing.assert_array_equal(net["y"], first)                        # same seed, same masks


def test_one_layer_drops_nothing(handle):
    net, plain = Network(handle, LSTM, p=0.9), Network(handle, LSTM)
    net.train(), plain.train()
    np.testing.assert_array_equal(net["y"], plain["y"])
    assert net.reserve.nbytes == plain.reserve.nbytes


def test_a_later_change_of_dropout_counts(handle):
    net = Network(handle, TANH, layers=2, p=0.0).run("RNNForwardTraining")
    plain = net["y"]
    c.setDropoutDescriptor(net.dropout, handle, 0.5, None, 0, 0)
    net.resize()
    net.run("RNNForwardTraining")
    assert (net["y"] != plain).any()


@pytest.mark.parametrize("p", (0.0, 1.0))
def test_dropout_of_nothing_and_of_all(handle, p):
    net = Network(handle, TANH, layers=2, p=p)
    net["x"] = np.nan if p == 1 else 1.0
    net.train()
    assert np.isfinite(net["y"]).all()

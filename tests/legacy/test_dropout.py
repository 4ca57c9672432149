"""g111 to g117: dropout descriptors, sizes, forward and backward."""
import itertools

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.ops import philox
from cydnn.status import BadParam, InvalidValue

from .arrays import DOUBLE, FLOAT, FLOATS, HALF, Tensor, draw, tensor_desc

SEED = 0xFEDCBA9876543210
DIMS = (3, 5, 7, 2)


class Bytes:
    """Memory of a handle's device."""

    def __init__(self, handle, size_or_array):
        self.device = handle.device
        array = np.full(size_or_array, 0xFF, np.uint8) if isinstance(size_or_array, int) else size_or_array
        self.bytes, self.buffer = array.nbytes, self.device.alloc(array.nbytes)
        self.array = array

    @property
    def ptr(self):
        return int(self.buffer.ptr)

    @property
    def array(self):
        return self.device.copy_out(self.ptr, np.empty(self.bytes, np.uint8))

    @array.setter
    def array(self, array):
        self.device.copy_in(self.ptr, array)


class Layer:
    """A dropout descriptor with states, on tensors of a handle's device."""

    def __init__(self, handle, p=0.5, seed=SEED, states=None):
        self.handle, self.desc = handle, c.createDropoutDescriptor()
        self.states = states or Bytes(handle, c.dropoutGetStatesSize(handle))
        c.setDropoutDescriptor(self.desc, handle, p, self.states.ptr, self.states.bytes, seed)

    def forward(self, x, y):
        """(y as float64, reserve); ``x`` and ``y`` are Tensors."""
        there, back = Bytes(self.handle, x.raw), Bytes(self.handle, y.raw)
        reserve = Bytes(self.handle, c.dropoutGetReserveSpaceSize(x.desc))
        c.dropoutForward(self.handle, self.desc, x.desc, there.ptr + at(x), y.desc, back.ptr + at(y),
                         reserve.ptr, reserve.bytes)
        y.raw = back.array
        return y.values, reserve

    def backward(self, dy, dx, reserve):
        there, back = Bytes(self.handle, dy.raw), Bytes(self.handle, dx.raw)
        c.dropoutBackward(self.handle, self.desc, dy.desc, there.ptr + at(dy), dx.desc, back.ptr + at(dx),
                          reserve.ptr, reserve.bytes)
        dx.raw = back.array
        return dx.values


def at(t):
    return t.ptr - t.raw.ctypes.data


def ones(dims=DIMS, dtype=FLOAT, **layout):
    return Tensor(dims, np.ones(dims), dtype, **layout)


# -- Sizes and descriptors -----------------------------------------------------------------------------------

def test_sizes(handle):
    assert c.dropoutGetStatesSize(handle) == 16
    assert c.getDropoutReserveSpaceSize is c.dropoutGetReserveSpaceSize
    for dims, size in [((1, 1, 1), 1), ((2, 2, 2), 1), ((3, 3, 1), 2), ((1, 1, 8001), 1001)]:
        for dtype in FLOATS:
            assert c.dropoutGetReserveSpaceSize(tensor_desc(*dims, dtype=dtype)) == size


def test_what_is_refused(handle, refused):
    desc, states = c.createDropoutDescriptor(), Bytes(handle, 16)
    give = lambda **changed: {**dict(dropoutDesc=desc, handle=handle, dropout=0.5, states=states.ptr,
                                     stateSizeInBytes=16, seed=1), **changed}
    alignment = 8 if handle.device.name == "numpy" else 16
    for words, changed in {
            "dropoutDesc must not be NULL": dict(dropoutDesc=0),
            "handle must not be NULL": dict(handle=None),
            r"dropout must be in 0 to 1; got 1\.5": dict(dropout=1.5),
            r"dropout must be in 0 to 1; got -0\.25": dict(dropout=-0.25),
            "dropout must be in 0 to 1; got nan": dict(dropout=float("nan")),
            r"seed must be in 0 to 2\*\*64 - 1; got -1": dict(seed=-1),
            f"states: pointer must be aligned to {alignment} bytes": dict(states=states.ptr + 4)}.items():
        refused(c.setDropoutDescriptor, BadParam, "cudnnSetDropoutDescriptor: " + words, **give(**changed))
    refused(c.setDropoutDescriptor, InvalidValue, "stateSizeInBytes must be at least 16.*; got 15",
            **give(stateSizeInBytes=15))
    refused(c.setDropoutDescriptor, TypeError, "dropout must be a number", **give(dropout="half"))
    assert (states.array == 0xFF).all()
    refused(c.dropoutGetStatesSize, BadParam, "handle must not be NULL", 0)
    refused(c.dropoutGetReserveSpaceSize, BadParam, "xDesc must not be NULL", 0)
    refused(c.dropoutGetReserveSpaceSize, BadParam, "xDesc must be set", c.createTensorDescriptor())
    c.destroyDropoutDescriptor(0), c.destroyDropoutDescriptor(desc)
    refused(c.destroyDropoutDescriptor, BadParam, "created and not destroyed", desc)
    refused(c.setDropoutDescriptor, BadParam, "created and not destroyed", **give())


FORWARD, BACKWARD = c.dropoutForward, c.dropoutBackward
OTHER, SMALL = tensor_desc(3, 5, 7, 3), tensor_desc(*DIMS, dtype=HALF)
COMPUTE = [                                      # what is changed of a call that is right, and what is said
    (dict(handle=0), BadParam, "handle must not be NULL"),
    (dict(desc=0), BadParam, "dropoutDesc must not be NULL"),
    (dict(out_desc=OTHER), BadParam, r"(yDesc|dxDesc) must have 210 elements like (x|dy)Desc; got 315"),
    (dict(out_desc=SMALL), BadParam, "(yDesc|dxDesc) must have data type f32 like (x|dy)Desc; got f16"),
    (dict(in_desc=0), BadParam, "(xDesc|dyDesc) must not be NULL"),
    (dict(in_desc=c.createTensorDescriptor()), BadParam, "(xDesc|dyDesc) must be set"),
    (dict(size=26), BadParam, "reserveSpaceSizeInBytes must be at least 27, as .*; got 26"),
    (dict(size=0), BadParam, "reserveSpaceSizeInBytes must be at least 27, as .*; got 0"),
    (dict(reserve=0), BadParam, "reserveSpace must not be NULL"),
    (dict(source=0), BadParam, "(x|dy) must not be NULL"),
    (dict(target=0), BadParam, "(y|dx) must not be NULL"),
    (dict(out_desc=c.createDropoutDescriptor()), BadParam, "must be a tensor descriptor"),
    (dict(desc=OTHER), BadParam, "dropoutDesc must be a dropout descriptor"),
    (dict(desc="text"), TypeError, "dropoutDesc must be a dropout descriptor"),
]


@pytest.mark.parametrize("changed, error, words", COMPUTE)
@pytest.mark.parametrize("function", (FORWARD, BACKWARD), ids=lambda f: f.__name__)
def test_compute_refusals(handle, refused, function, changed, error, words):
    layer, x, y = Layer(handle), ones(), Bytes(handle, 840)
    data, reserve = Bytes(handle, x.stored.copy()), Bytes(handle, 27)
    before = layer.states.array
    for _ in range(2):                           # before and after the plan is known
        args = dict(handle=handle, desc=layer.desc, in_desc=x.desc, source=data.ptr, out_desc=x.desc,
                    target=y.ptr, reserve=reserve.ptr, size=27)
        refused(function, error, words, *{**args, **changed}.values())
        assert (y.array == 0xFF).all() and (reserve.array == 0xFF).all()
        assert (layer.states.array == before).all()
        function(*args.values())
        y.array, reserve.array = np.full(840, 0xFF, np.uint8), np.full(27, 0xFF, np.uint8)
        before = layer.states.array


def test_a_descriptor_without_states(handle, refused):
    x, desc, reserve = ones(), c.createDropoutDescriptor(), Bytes(handle, 27)
    for is_set in (False, True):
        words = "dropoutDesc must have states; got .* never given any"
        if is_set:
            c.setDropoutDescriptor(desc, handle, 0.5, 0, 0, 0)
        refused(FORWARD, BadParam, words, handle, desc, x.desc, x.ptr, x.desc, x.ptr, reserve.ptr, 27)
    c.destroyDropoutDescriptor(desc)
    refused(FORWARD, BadParam, "created and not destroyed", handle, desc, x.desc, x.ptr, x.desc, x.ptr,
            reserve.ptr, 27)


# -- Compute -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", (0.0, 0.3, 1.0))
def test_both_directions(handle, dtype, p):
    layer, x = Layer(handle, p), Tensor(DIMS, draw(*DIMS), dtype)
    x.values = np.where(np.arange(210).reshape(DIMS) % 4 == 0, np.nan, x.values)
    y, reserve = layer.forward(x, Tensor(DIMS, dtype=dtype))
    keep = philox.kept(philox.seeded(SEED), 210, p).reshape(DIMS)
    want = np.where(keep, x.values * philox.factor(p), 0.0)
    np.testing.assert_allclose(y, want, rtol=1e-2 if dtype not in (FLOAT, DOUBLE) else 1e-6)
    assert (reserve.array == np.packbits(keep, bitorder="little")).all()
    dx = layer.backward(x, Tensor(DIMS, dtype=dtype), reserve)
    np.testing.assert_array_equal(dx, y)
    if p == 0:
        np.testing.assert_array_equal(y, x.values)


FORMS = [dict(layout="nhwc"), dict(strides=(70, 14, 2, 1)), dict(strides=(100, 20, 2, 1)),
         dict(strides=(1, 45, 6, 3))]


@pytest.mark.parametrize("form, other", list(itertools.product(FORMS, FORMS)))
def test_the_mask_is_by_logical_index(handle, form, other):
    x, y = Tensor(DIMS, draw(*DIMS), **form), Tensor(DIMS, **other)
    plain, reserve = Layer(handle).forward(Tensor(DIMS, x.values), Tensor(DIMS))
    got, again = Layer(handle).forward(x, y)
    np.testing.assert_array_equal(got, plain)
    assert (reserve.array == again.array).all() and y.stray_bytes() == 0
    dx = Tensor(DIMS, **form)
    np.testing.assert_array_equal(Layer(handle).backward(y, dx, again), np.where(plain != 0, 2 * plain, 0))
    assert dx.stray_bytes() == 0


def test_input_and_output_of_other_dims(handle):
    x, y = ones(), Tensor((1, 210, 1), strides=(500, 2, 1))
    got, _ = Layer(handle).forward(x, y)
    np.testing.assert_array_equal(got.reshape(-1), Layer(handle).forward(x, Tensor(DIMS))[0].reshape(-1))


def test_in_place(handle, refused):
    layer, x, reserve = Layer(handle), ones(), Bytes(handle, 27)
    data = Bytes(handle, x.stored.copy())
    want, _ = Layer(handle).forward(x, Tensor(DIMS))
    FORWARD(handle, layer.desc, x.desc, data.ptr, x.desc, data.ptr, reserve.ptr, 27)
    np.testing.assert_array_equal(data.array.view(np.float32).reshape(DIMS), want)
    BACKWARD(handle, layer.desc, x.desc, data.ptr, x.desc, data.ptr, reserve.ptr, 27)
    np.testing.assert_array_equal(data.array.view(np.float32).reshape(DIMS), 2 * want)
    turned = tensor_desc(*DIMS, layout="nhwc")
    for function, words in ((FORWARD, "y: output must not overlap x"),
                            (BACKWARD, "dx: output must not overlap dy")):
        refused(function, BadParam, words, handle, layer.desc, x.desc, data.ptr, turned, data.ptr,
                reserve.ptr, 27)


@pytest.mark.parametrize("p", (0.1, 0.5, 0.8))
def test_averages(p):
    handle, x = c.create("numpy"), ones((8, 16, 64, 64))
    y, _ = Layer(handle, p).forward(x, Tensor(x.dims))
    n, dropped = y.size, (y == 0).sum()
    assert abs(dropped - n * p) < 5 * (n * p * (1 - p)) ** 0.5
    assert abs(y.mean() - 1) < 5 * (p / (1 - p) / n) ** 0.5
    np.testing.assert_allclose(y[y != 0], 1 / (1 - p), rtol=1e-6)


# -- The stream of numbers -----------------------------------------------------------------------------------

def test_one_seed_one_sequence(handle):
    x = ones()
    runs = []
    for seed in (SEED, SEED, 1):
        layer = Layer(handle, seed=seed)
        runs.append([layer.forward(x, Tensor(DIMS))[0] for _ in range(3)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0][0] != runs[0][1]).any() and (runs[0][1] != runs[0][2]).any()
    assert (runs[0][0] != runs[2][0]).any()


def test_states_that_are_copied_back_replay(handle):
    layer, x = Layer(handle), ones()
    layer.forward(x, Tensor(DIMS))
    saved = layer.states.array
    first = [layer.forward(x, Tensor(DIMS))[0] for _ in range(2)]
    layer.states.array = saved
    np.testing.assert_array_equal(first, [layer.forward(x, Tensor(DIMS))[0] for _ in range(2)])


def test_descriptors_that_share_states_share_the_stream(handle):
    x, alone = ones(), Layer(handle)
    want = [alone.forward(x, Tensor(DIMS))[0] for _ in range(2)]
    a = Layer(handle)
    b = Layer(handle, states=a.states)           # begins the stream anew
    np.testing.assert_array_equal(want, [layer.forward(x, Tensor(DIMS))[0] for layer in (a, b)])


def test_null_states_change_the_probability_alone(handle):
    x, layer, other = ones(), Layer(handle), Layer(handle)
    for one in (layer, other):
        one.forward(x, Tensor(DIMS))
    for null in (None, 0):
        c.setDropoutDescriptor(layer.desc, handle, 0.75, null, 0, 12345)
    got, reserve = layer.forward(x, Tensor(DIMS))
    assert set(got.reshape(-1)) == {0.0, 4.0}
    keep = philox.kept(philox.advanced(philox.seeded(SEED), 210), 210, 0.75).reshape(DIMS)
    np.testing.assert_array_equal(got != 0, keep)
    c.setDropoutDescriptor(layer.desc, handle, 0.5, None, 0, 0)       # backward takes the p of its own call
    np.testing.assert_array_equal(layer.backward(x, Tensor(DIMS), reserve), 2.0 * keep)


def test_a_mask_may_move(handle):
    layer, x = Layer(handle), ones()
    y, reserve = layer.forward(x, Tensor(DIMS))
    moved = Bytes(handle, np.concatenate([np.zeros(3, np.uint8), reserve.array]))
    dx, out = Bytes(handle, x.stored.copy()), Bytes(handle, 840)
    BACKWARD(handle, layer.desc, x.desc, dx.ptr, x.desc, out.ptr, moved.ptr + 3, 27)
    np.testing.assert_array_equal(out.array.view(np.float32).reshape(DIMS), y)


def test_descriptors_by_number(handle):
    layer, x, reserve = Layer(handle), ones(), Bytes(handle, 27)
    data, out = Bytes(handle, x.stored.copy()), Bytes(handle, 840)
    for _ in range(2):
        FORWARD(int(handle), int(layer.desc), int(x.desc), data.ptr, int(x.desc), out.ptr, reserve.ptr, 27)
    keep = philox.kept(philox.advanced(philox.seeded(SEED), 210), 210, 0.5)
    np.testing.assert_array_equal(out.array.view(np.float32) != 0, keep)

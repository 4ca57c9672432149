"""Tensors that are passed by value: one number, given at execute as a number or an array of one on the
host."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.frontend.pygraph import scalar_of
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .conftest import floats
from .fakes import CUDA, Plain, Tensor
from .worlds import Arrays

T = cudnn.data_type


@pytest.fixture(params=["numpy", "ptx:sm_80"])
def anywhere(request):
    world = Arrays("numpy" if request.param == "numpy" else Mirror("sm_80"))
    yield world.handle
    world.close()


def scaled(handle, kind=T.FLOAT, io=T.FLOAT):
    """y = x * number, and its tensors."""
    g = floats(handle=handle)
    x = g.tensor([2, 3], [3, 1], io)
    number = g.tensor([1, 1], [1, 1], data_type=kind, is_pass_by_value=True, name="number")
    y = g.mul(x, number).set_output(True).set_data_type(io)
    g.build([cudnn.heur_mode.A])
    return g, x, number, y


FORMS = [0.1, np.float32(0.1), np.float64(0.1), np.array(0.1), np.full((1, 1, 1, 1), 0.1, np.float32),
         np.full((1, 1), 0.1), Tensor(np.full((1, 1, 1, 1), 0.1, np.float32)),
         Tensor(np.array(0.1, np.float32)),
         Plain(np.full(1, 0.1, np.float32)), Plain(np.array(0.1, np.float32))]


@pytest.mark.parametrize("given", FORMS, ids=lambda v: f"{type(v).__name__}{getattr(v, 'shape', '')}")
def test_what_a_number_may_be(anywhere, given):
    g, x, number, y = scaled(anywhere)
    out = np.empty((2, 3), np.float32)
    g.execute({x: np.full((2, 3), 2, np.float32), number: given, y: out}, 0)
    assert (out == np.float32(2) * np.float32(0.1)).all()


@pytest.mark.parametrize("kind, rounded", [
    ("HALF", np.float16(1.001)), ("BFLOAT16", ml_dtypes.bfloat16(1.001)), ("FLOAT", np.float32(1.001)),
                                           ("DOUBLE", 1.001),
    ("INT32", 1), ("INT8", 1), ("BOOLEAN", 1)])
def test_a_number_is_rounded_to_its_type(handle, kind, rounded):
    g, x, number, y = scaled(handle, T[kind])
    out = np.empty((2, 3), np.float32)
    g.execute({x: np.ones((2, 3), np.float32), number: 1.001, y: out}, 0)
    assert (out == np.float32(float(rounded))).all()


def test_a_number_that_the_graph_holds_is_rounded_whatever_numpy_is_to_raise():
    with np.errstate(all="raise"):
        assert [scalar_of(value)[1] for value in (1e300, 1e-300)] == [np.inf, 0]


def test_whole_numbers_stay_exact(handle):
    large = 2 ** 62 + 1
    for given in (large, np.int64(large), np.array([large]), Tensor(np.full((1, 1), large)),
                  Plain(np.array(large))):
        g = cudnn.pygraph(io_data_type=T.INT64, handle=handle)
        number = g.tensor([1, 1], [1, 1], is_pass_by_value=True)
        y = g.identity(number).set_output(True)
        g.build([cudnn.heur_mode.A])
        out = np.zeros((1, 1), np.int64)
        g.execute({number: given, y: out}, 0)
        assert out[0, 0] == large


def test_numbers_out_of_range(handle):
    g, x, number, y = scaled(handle, T.INT8)
    pack = {x: np.ones((2, 3), np.float32), y: np.empty((2, 3), np.float32)}
    with pytest.raises(BadParam, match="number must be from -128 to 127, as its type is i8; got 300"):
        g.execute({**pack, number: 300}, 0)
    g, x, number, y = scaled(handle)
    out = np.empty((2, 3), np.float32)
    g.execute({x: np.ones((2, 3), np.float32), number: -1e300, y: out}, 0)
    assert (out == -np.inf).all()


def test_what_a_number_may_not_be(handle):
    g, x, number, y = scaled(handle)
    pack = {x: np.ones((2, 3), np.float32), y: np.empty((2, 3), np.float32)}
    one = np.ones(1, np.float32)
    for given, sentence in (
            (np.ones(2), r"number is passed by value: it must hold one number; got dims \(2,\)"),
            (Plain(np.ones(2)), r"it must hold one number; got dims \(2,\)"),
            (Tensor(one, place="cuda"),
             "number is passed by value: it must be a number, .* got memory of a device"),
            (Plain(one, place=CUDA), "got memory of a device"),
            *[(text, "must be a number, or an array of one .* got ")
              for text in ("1.0", np.str_("1.0"), np.array("1.0"), np.ma.array(1.0))],
            (one.ctypes.data, "got the int .*, which may be an address")):
        with pytest.raises(BadParam, match=sentence):
            g.execute({**pack, number: given}, 0)
    with pytest.raises(BadParam, match="the variant pack must hold pass-by-value tensor number; got uids"):
        g.execute(pack, 0)


def test_a_number_is_no_part_of_the_plan(anywhere):
    """It may be the first operand, and change from one execution to the next."""
    g = floats(handle=anywhere)
    one, x = g.tensor([1, 1], [1, 1], is_pass_by_value=True), g.tensor([3, 4], [4, 1])
    y = g.sub(one, x).set_output(True)
    g.build([cudnn.heur_mode.A])
    image, out = np.arange(12, dtype=np.float32).reshape(3, 4), np.empty((3, 4), np.float32)
    for value in (1, 2.5, -7):
        g.execute({x: image, one: value, y: out}, 0)
        np.testing.assert_array_equal(out, value - image)


def test_numbers_that_the_graph_holds(anywhere):
    """A constant stays what it is; a parameter is what the pack says, where it says something."""
    g = floats(handle=anywhere)
    x = g.tensor([4], [1])
    fixed = g.tensor_scalar(2.0, cudnn.scalar_type.COMPILE_TIME_CONST)
    free = g.tensor_scalar(10, cudnn.scalar_type.RUNTIME_PARAM)
    y = g.add(g.mul(x, fixed), free).set_output(True)
    g.build([cudnn.heur_mode.A])
    ones, out = np.ones(4, np.float32), np.empty(4, np.float32)
    for extra, want in (({}, 12), ({free: 20, fixed: 99}, 22), ({free.get_uid(): 30}, 32), ({}, 12)):
        g.execute({x: ones, y: out, **extra}, np.empty(g.get_workspace_size(), np.uint8))
        assert (out == want).all()


def test_constants_make_different_graphs(handle):
    keys = set()
    for value in (2.0, 3.0):
        g = floats(handle=handle)
        g.mul(g.tensor([4], [1]),
              g.tensor_scalar(value, cudnn.scalar_type.COMPILE_TIME_CONST)).set_output(True)
        keys.add(g.key())
    assert len(keys) == 2


def test_numbers_go_only_where_numbers_are_read(g):
    number = g.tensor([1, 8, 3, 3], [72, 9, 3, 1], is_pass_by_value=True)
    g.conv_fprop(g.tensor([2, 8, 6, 6], [288, 36, 6, 1]), number, [1, 1], [1, 1], [1, 1]).set_output(True)
    with pytest.raises(BadParam, match="weight must be in memory; got pass-by-value tensor"):
        g.validate()


@pytest.mark.parametrize("by_value", [True, False], ids=["by value", "in memory"])
def test_epsilon_and_momentum(anywhere, by_value):
    """By value, or one element of the device's memory."""
    g = floats(handle=anywhere)
    column = lambda: g.tensor([1, 3, 1, 1], [3, 1, 1, 1])
    x, s, b, m, v = g.tensor([4, 3, 5, 5], [75, 25, 5, 1]), column(), column(), column(), column()
    eps, momentum = (g.tensor([1] * 4, [1] * 4, is_pass_by_value=by_value) for _ in range(2))
    y, mean, rstd, next_mean, next_var = (t.set_output(True)
                                          for t in g.batchnorm(x, s, b, m, v, eps, momentum))
    g.build([cudnn.heur_mode.A])
    pack = {t: np.ones(t.get_dim(), np.float32) for t in (x, s, b, m, v, y, mean, rstd, next_mean, next_var)}
    pack[x][:] = np.random.default_rng(0).normal(size=(4, 3, 5, 5))
    one = lambda value: np.full((1, 1, 1, 1), value, np.float32)
    g.execute({**pack, eps: one(1e-3), momentum: one(0.25)}, np.empty(g.get_workspace_size(), np.uint8))
    data = pack[x].astype(float)
    np.testing.assert_allclose(pack[next_mean], 0.75 + 0.25 * data.mean((0, 2, 3), keepdims=True), atol=1e-6)
    np.testing.assert_allclose(pack[rstd], 1 / np.sqrt(data.var((0, 2, 3), keepdims=True) + 1e-3), rtol=1e-5)
    with pytest.raises(BadParam, match="epsilon must be a tensor of one element"):
        wrong = floats(handle=anywhere)
        x, s, b = wrong.tensor([4, 3, 5, 5],
                               [75, 25, 5, 1]), *(wrong.tensor([1, 3, 1, 1], [3, 1, 1, 1]) for _ in "ab")
        wrong.batchnorm(x, s, b, None, None, wrong.tensor([2], [1]), None)[0].set_output(True)
        wrong.validate()


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_remainders_of_either_sign(device):
    """``mod`` has the sign of the dividend, ``floor_mod`` that of the divisor, as Python's %."""
    a, b = (np.float32([row]) for row in ([-7, 7, -7, 7, 6, 0, -0.5], [3, 3, -3, -3, -3, 2, 2]))
    g = cudnn.pygraph(handle=device, io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT,
                      compute_data_type=T.FLOAT)
    x, y = g.tensor_like(a), g.tensor_like(b)
    made = [g.mod(x, y).set_output(True), g.floor_mod(x, y, name="r").set_output(True)]
    x, y = (t.set_is_pass_by_value(False) for t in (x, y))
    g.build([cudnn.heur_mode.A])
    found = [np.zeros_like(a) for _ in made]
    g.execute({x: a, y: b, **dict(zip(made, found))}, np.empty(max(g.get_workspace_size(), 1), np.uint8))
    np.testing.assert_array_equal(found, [np.fmod(a, b), np.mod(a, b)])


@pytest.mark.parametrize("way", cudnn.scalar_type)
def test_operations_are_recognised_by_numbers_that_never_change(h200, way):
    """A square by an exponent, an average by a factor; a number that a pack may change is none of these. The
    bytes of a plan tell them apart too."""
    g = floats(device_property=h200)
    x, number = g.tensor([8, 1, 64]), lambda value: g.tensor_scalar(value, way)
    total = g.reduction(g.pow(x, number(2.0)), cudnn.reduction_mode.ADD).set_dim([8, 1, 1])
    least = g.add(g.mul(total, number(1 / 64)), g.tensor_scalar(1e-5, way))
    g.mul(x, g.rsqrt(least)).set_output(True)
    g.build([cudnn.heur_mode.A])
    again = cudnn.pygraph(device_property=h200)
    again.deserialize(g.serialize())
    is_fixed = way is way.COMPILE_TIME_CONST
    assert ("norm_fwd" in g.get_plan_name_at_index(0)) == is_fixed
    assert {t.is_constant for t in again._tensors if t.value is not None} == {is_fixed}

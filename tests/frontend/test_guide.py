"""Batch normalization in parts around a convolution, softmax, and what else the package has in C++ alone."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.ops import BatchNormBwd
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .conftest import floats
from .programs import MODES

CONST = cudnn.scalar_type.COMPILE_TIME_CONST


@pytest.fixture(scope="module", params=["numpy", "ptx:sm_80"])
def handle(request):
    found = cudnn.create_handle(Mirror("sm_80") if request.param.startswith("ptx") else "numpy")
    yield found
    cudnn.destroy_handle(found)


def run(g, pack):
    g.build(MODES)
    g.execute(pack, np.empty(g.get_workspace_size() + 1, np.uint8))


def drawn(*dims, low=-1.0):
    return np.random.default_rng(sum(dims)).uniform(low, 1.0, dims).astype(np.float32)


def results(g, pack, made):
    """Arrays for virtual results, which become outputs."""
    made = [t for t in made if t is not None]
    for t in made:
        t.set_output(True)
    g.validate()
    found = [np.zeros(t.get_dim(), np.float32) for t in made]
    for t, array in zip(made, found):
        t.set_stride([s // 4 for s in array.strides])
    run(g, {**pack, **dict(zip(made, found))})
    return found


@pytest.mark.parametrize("running", [False, True])
def test_statistics_become_a_scale_and_a_bias(handle, running):
    x, scale, bias = drawn(4, 8, 5, 5), drawn(1, 8, 1, 1), drawn(1, 8, 1, 1)
    g, axes, m = floats(handle=handle), (0, 2, 3), 100
    X, S, B = map(g.tensor_like, (x, scale, bias))
    total, squares = g.genstats(X)
    rank, epsilon = 1 if running else 4, 1e-3
    count = g.tensor([1] * rank, data_type=cudnn.data_type.INT64, is_pass_by_value=True)
    before = dict(prev_running_mean=S, prev_running_var=B, momentum=g.tensor_scalar(0.25, CONST))
    before = before if running else {}
    made = g.bn_finalize(total, squares, S, B, g.tensor_scalar(epsilon, CONST), count, **before)
    assert [t is None for t in made] == [False] * 4 + [not running] * 2
    found = results(g, {X: x, S: scale, B: bias, count: np.array([m])}, made)
    mean, var = (f(x.astype(float), axis=axes, keepdims=True) for f in (np.mean, np.var))
    rstd = 1 / np.sqrt(var + epsilon)
    want = [scale * rstd, bias - mean * scale * rstd, mean, rstd]
    want += [0.75 * scale + 0.25 * mean, 0.75 * bias + 0.25 * var * m / (m - 1)] if running else []
    for one, exact in zip(found, want):
        np.testing.assert_allclose(one, exact, rtol=2e-5, atol=2e-6)


def test_the_gradient_is_a_blend_a_channel(handle):
    x, dy, scale = drawn(4, 8, 5, 5), drawn(4, 8, 5, 6)[..., 1:].copy(), drawn(1, 8, 1, 1)
    mean, var = (f(x, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.var))
    rstd = (1 / np.sqrt(var)).astype(np.float32)
    g = floats(handle=handle)
    DY, X, M, R, S = map(g.tensor_like, (dy, x, mean, rstd, scale))
    dscale, dbias, first, second, level = g.bn_backward_weights(DY, X, M, R, S)
    dx = g.add(g.add(g.mul(DY, first), g.mul(X, second)), level)
    found = results(g, {DY: dy, X: x, M: mean, R: rstd, S: scale}, [dx, dscale, dbias])
    double = [a.astype(float) for a in (x, dy, scale, mean, rstd)]
    want = BatchNormBwd(mode="spatial").reference(*double, None, 0.0)
    for one, name in zip(found, ("dx", "dscale", "dbias")):
        np.testing.assert_allclose(one, want[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax(handle, axis):
    x = drawn(3, 7, 20)
    g = floats(handle=handle)
    X = g.tensor_like(x)
    y, stats = results(g, {X: x}, g.softmax(X, axis, generate_stats=True))
    raised = np.exp(x.astype(float))
    np.testing.assert_allclose(y, raised / raised.sum(axis, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(stats, np.log(raised.sum(axis, keepdims=True)), rtol=1e-5)


def test_the_last_dim_of_what_has_none(g):
    with pytest.raises(BadParam, match="axis must be >= 0 where the dim of input is not set; got -1"):
        g.softmax(g.reshape(g.tensor([2, 3], [3, 1])))


def test_rotary_embedding_and_its_gradient(handle):
    """Turned and turned back is the input, pairs keep their lengths."""
    x, angle = drawn(2, 4, 9, 16), 3 * drawn(1, 1, 9, 8)
    for interleaved in (False, True):
        g = floats(handle=handle)
        X, C, S = g.tensor_like(x), g.tensor_like(np.cos(angle)), g.tensor_like(np.sin(angle))
        tables = dict(cos=C, sin=S, interleaved=interleaved)
        turned = g.rope(X, **tables)
        y, back = results(g, {X: x, C: np.cos(angle), S: np.sin(angle)},
                          [turned, g.rope_backward(turned, **tables)])
        pair = (lambda a: (a[..., ::2], a[..., 1::2])) if interleaved else (lambda a: (a[..., :8],
                                                                                       a[..., 8:]))
        (a, b), (c, d) = pair(x), pair(y)
        np.testing.assert_allclose(c + 1j * d, (a + 1j * b) * np.exp(1j * angle), atol=1e-6)
        np.testing.assert_allclose(back, x, atol=1e-6)


@pytest.mark.parametrize("count", [0, 6])
def test_rotary_embedding_by_angles(handle, count):
    """The last ``count`` elements of a row turned, all times a number, and back."""
    x, angle = drawn(2, 3, 5, 16), 3 * drawn(7, 1, 1, 16)
    g = floats(handle=handle)
    X, F = g.tensor_like(x), g.tensor_like(angle)
    y = g.rope(X, F, output_scale=2.0, rope_dim=count).set_dim(x.shape)
    y, back = results(g, {X: x, F: angle}, [y, g.rope_backward(y, freqs=F, output_scale=0.5, rope_dim=count)])
    first = 16 - (count or 16)
    half = (16 - first) // 2
    (a, b), (c, d) = ((z[..., first:first + half], z[..., first + half:]) for z in (x, y))
    np.testing.assert_allclose(c + 1j * d, 2 * (a + 1j * b) * np.exp(1j * angle[:5, 0, 0, :half]), atol=1e-5)
    np.testing.assert_allclose(y[..., :first], 2 * x[..., :first], atol=1e-6)
    np.testing.assert_allclose(back, x, atol=1e-5)


def test_a_part_of_rows_is_turned_in_the_type_of_virtual_tensors(handle):
    """What is not turned has it too, whatever type the input has."""
    x, angle = drawn(1, 2, 5, 16).astype(np.float16), drawn(5, 1, 1, 8)
    g = cudnn.pygraph(io_data_type=cudnn.data_type.HALF, handle=handle,
                      intermediate_data_type=cudnn.data_type.FLOAT)
    X, F = g.tensor_like(x), g.tensor_like(angle)
    y = g.rope(X, F, rope_dim=8).set_output(True)
    g.build([cudnn.heur_mode.A])
    found = np.empty_like(x)
    g.execute({X: x, F: angle, y: found}, np.empty(g.get_workspace_size(), np.uint8))
    (a, b), (c, d) = ((z[..., 8:12].astype(float), z[..., 12:].astype(float)) for z in (x, found))
    np.testing.assert_array_equal(found[..., :8], x[..., :8])
    np.testing.assert_allclose(c + 1j * d, (a + 1j * b) * np.exp(1j * angle[:, 0, 0, :4]), atol=4e-3)


@pytest.mark.parametrize("given, sentence", [
    (dict(), "freqs must be given, or cos and sin in its place; got neither"),
    (dict(cos="f"), "freqs must be given, or cos and sin in its place; got others"),
    (dict(cos="f", sin="f", rope_dim=4), "output_scale and rope_dim must be given with freqs; got 1.0 and 4"),
    (dict(freqs="f", rope_dim=5), "rope_dim be even and at most its last; got .* and 5"),
    (dict(freqs="x"), r"freqs must be of dim \[5, 1, 1, 16\], or more; got \[2, 3, 5, 16\]")])
def test_what_rotary_embedding_refuses(g, given, sentence):
    known = dict(x=g.tensor([2, 3, 5, 16], [240, 80, 16, 1]), f=g.tensor([5, 1, 1, 16], [16, 16, 16, 1]))
    with pytest.raises(BadParam, match=sentence):
        g.rope(known["x"], **{name: known.get(value, value) for name, value in given.items()})
    assert not g.steps and len(g._tensors) == 2


def test_a_cache_in_pages(handle):
    cache, lengths = drawn(5, 2, 4, 8), np.array([6, 9], np.int32).reshape(2, 1, 1, 1)
    table = np.array([[3, 1, 0], [4, 0, 2]], np.int32).reshape(2, 1, 3, 1)
    g = floats(handle=handle)
    C, L, T = (
        g.tensor(a.shape, [s // 4 for s in a.strides], kind) for a, kind in (
            (cache, cudnn.data_type.FLOAT), (lengths, cudnn.data_type.INT32), (table, cudnn.data_type.INT32)))
    found, = results(g, {C: cache, L: lengths, T: table}, [g.paged_cache_load(C, L,
                                                                              T).set_dim([2, 2, 11, 8])])
    for b, t in np.ndindex(2, 11):
        want = cache[table[b, 0, t // 4, 0], :, t % 4] if t < lengths[b, 0, 0, 0] else 0
        np.testing.assert_array_equal(found[b, :, t], np.broadcast_to(want, (2, 8)))


def test_a_product_of_sizes_that_differ(handle):
    """Rows and sums end at the lengths of each batch; what lies beyond may be NaN."""
    a, b, lengths = drawn(3, 4, 6), drawn(3, 6, 5), np.array([6, 0, 2], np.int32).reshape(3, 1, 1)
    cut = np.where(np.arange(6) < lengths, a, np.nan).astype(np.float32)
    g = floats(handle=handle)
    A, B = g.tensor_like(cut), g.tensor_like(b)
    L = g.tensor([3, 1, 1], [1, 1, 1], cudnn.data_type.INT32)
    c, = results(g, {A: cut, B: b, L: lengths}, [g.matmul(A, B, padding=-1.0, m_override=L, k_override=L)])
    for i, n in enumerate(lengths.ravel()):
        want = np.full((4, 5), -1.0)
        want[:n] = a[i, :n, :n] @ b[i, :n]
        np.testing.assert_allclose(c[i], want, atol=1e-6)


def test_a_flag_is_set_and_waited_for(handle):
    x, flag = drawn(3, 5), np.zeros(1, np.int32)
    for mode in (cudnn.signal_mode.SET, cudnn.signal_mode.WAIT):
        g, y = floats(handle=handle), np.zeros((3, 5), np.float32)
        X = g.tensor_like(x)
        Y, F = g.signal(g.neg(X), mode, value=3)
        run(g, {X: x, Y.set_output(True).set_stride([5, 1]): y, F: flag})
        np.testing.assert_array_equal(y, -x)
        assert flag.tolist() == [3]


def test_a_flag_that_nobody_sets():
    g = floats(handle=cudnn.create_handle("numpy"))
    X = g.tensor([4], [1])
    Y, F = g.signal(X, cudnn.signal_mode.WAIT, value=2)
    x = np.ones(4, np.float32)
    with pytest.raises(RuntimeError, match="signal: flag must hold 2 where nothing else runs; got 0"):
        run(g, {X: x, Y.set_output(True): x.copy(), F: np.zeros(1, np.int32)})
    with pytest.raises(BadParam, match="mode must be set; got signal_mode.NOT_SET"):
        floats().signal(X, cudnn.signal_mode.NOT_SET)

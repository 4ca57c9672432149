"""Slice, reshape, transpose, concatenate: values, views that launch nothing, and what may share memory."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.device.facts import KNOWN
from cydnn.layout import Layout
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .programs import MODES

HALF, FLOAT = cudnn.data_type.HALF, cudnn.data_type.FLOAT


@pytest.fixture(scope="module", params=["numpy", "ptx:sm_80"])
def handle(request):
    found = cudnn.create_handle(Mirror("sm_80") if request.param.startswith("ptx") else "numpy")
    yield found
    cudnn.destroy_handle(found)


def graph(handle=None):
    return cudnn.pygraph(io_data_type=FLOAT, intermediate_data_type=FLOAT, compute_data_type=FLOAT,
                         handle=handle)


def run(g, pack):
    g.build(MODES)
    g.execute(pack, np.empty(g.get_workspace_size() + 1, np.uint8))


def floats(*dims, dtype=np.float32):
    return np.random.default_rng(3).uniform(-1, 1, dims).astype(dtype)


def test_each_moves_what_numpy_moves(handle):
    x, g = floats(4, 6, 10), graph(handle)
    X = g.tensor_like(x)
    made = {g.slice(X, [slice(1, None), slice(0, 5, 2), slice(None, 8)]): x[1:, 0:5:2, :8],
            g.reshape(X).set_dim([8, 30]).set_stride([30, 1]): x.reshape(8, 30),
            g.transpose(X, [2, 0, 1]): x.transpose(2, 0, 1),
            g.concatenate([X, X, X], 1): np.concatenate([x, x, x], 1)}
    pack = {X: x}
    for t, want in made.items():
        t.set_output(True)
    g.validate()
    for t in made:
        strided = np.lib.stride_tricks.as_strided(np.zeros(2000, np.float32), t.get_dim(),
                                                  [4 * s for s in t.get_stride()])
        pack[t] = strided
    run(g, pack)
    for t, want in made.items():
        np.testing.assert_array_equal(pack[t], want)


def steps_of(g, card="h200"):
    g.validate()
    return [step.kernel.split("_")[0] for step in Layout.of(g.graph, KNOWN[card]).steps]


def test_views_launch_nothing(handle):
    """Heads are cut out of one tensor of projections: the product reads them where they lie."""
    qkv, g = floats(2, 32, 3 * 64, dtype=np.float16), graph(handle)
    X = g.tensor_like(qkv)
    part = lambda i: g.slice(X, [slice(None), slice(None), slice(64 * i, 64 * i + 64)])
    q = g.transpose(g.reshape(part(0)).set_dim([2, 32, 4, 16]).set_stride([6144, 192, 16, 1]), [0, 2, 1, 3])
    k = g.transpose(g.reshape(part(1)).set_dim([2, 32, 4, 16]).set_stride([6144, 192, 16, 1]), [0, 2, 3, 1])
    S = g.matmul(q, k).set_output(True)
    assert steps_of(g) == ["matmul"]
    s = np.zeros((2, 4, 32, 32), np.float32)
    run(g, {X: qkv, S: s})
    heads = lambda i: qkv.astype(float)[..., 64 * i:64 * i + 64].reshape(2, 32, 4, 16).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(s, heads(0) @ heads(1).swapaxes(2, 3), atol=1e-5)


def test_a_view_at_an_odd_place_is_copied():
    g = graph()
    X = g.tensor([8, 64], [64, 1], HALF)
    g.relu(g.slice(X, [slice(0, 8), slice(1, 9)])).set_output(True)
    assert steps_of(g) == ["move", "pointwise"]


def test_an_output_over_the_input_of_views_waits(handle):
    """Rotary embedding in place: both halves are read by both."""
    x, angle = floats(2, 8, 16), floats(1, 8, 8)
    g = graph(handle)
    X, C, S = g.tensor_like(x), g.tensor_like(np.cos(angle)), g.tensor_like(np.sin(angle))
    a, b = (g.slice(X, [slice(None), slice(None), slice(i, i + 8)]) for i in (0, 8))
    first, second = g.sub(g.mul(a, C), g.mul(b, S)), g.add(g.mul(b, C), g.mul(a, S))
    Y = g.concatenate([first, second], 2).set_output(True).set_dim([2, 8, 16]).set_stride([128, 16, 1])
    lo, hi = x[..., :8].copy(), x[..., 8:].copy()
    run(g, {X: x, C: np.cos(angle), S: np.sin(angle), Y: x})
    want = np.concatenate([lo * np.cos(angle) - hi * np.sin(angle),
                           hi * np.cos(angle) + lo * np.sin(angle)], 2)
    np.testing.assert_allclose(x, want, atol=1e-6)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_input_may_lie_in_the_result(handle, place):
    y = np.zeros((3, 12), np.float32)
    parts = [floats(3, 4) + i for i in range(3)]
    g = graph(handle)
    X = [g.tensor_like(y[:, :4] if i == place else part).set_alignment(4) for i, part in enumerate(parts)]
    Y = g.concatenate(X, 1, in_place_index=place).set_output(True).set_dim([3, 12]).set_stride([12, 1])
    inside = y[:, 4 * place:4 * place + 4]
    inside[...] = parts[place]
    run(g, {**dict(zip(X, parts)), X[place]: inside, Y: y})
    np.testing.assert_array_equal(y, np.concatenate(parts, 1))
    y[...] = 0                                   # or elsewhere
    g.execute({**dict(zip(X, parts)), X[place]: np.lib.stride_tricks.as_strided(
        np.pad(parts[place], ((0, 0), (0, 8))).copy(), (3, 4), (48, 4)), Y: y})
    np.testing.assert_array_equal(y, np.concatenate(parts, 1))


def test_another_input_may_not(handle):
    y, other = np.zeros((6, 4), np.float32), floats(3, 4)
    g = graph(handle)
    X = [g.tensor_like(other).set_name("a"), g.tensor_like(other).set_name("b")]
    Y = g.concatenate(X, 0, in_place_index=0).set_output(True)
    with pytest.raises(BadParam, match="must not overlap"):
        run(g, {X[0]: other, X[1]: y[3:], Y: y})


WRONG = [(lambda g, X: g.slice(X, [slice(-1, None), slice(None)]), "numbers >= 0, and steps >= 1"),
         (lambda g, X: g.slice(X, [slice(None, None, 0), slice(None)]), "numbers >= 0, and steps >= 1"),
         (lambda g, X: g.slice(X, [3, slice(None)]), "must be Python slices; got 3"),
         (lambda g, X: g.concatenate([], 0), "inputs must be at least one tensor; got none"),
         (lambda g, X: g.concatenate([X], 0, -2), "in_place_index must be >= 0, or None; got -2")]


@pytest.mark.parametrize("call, text", WRONG, ids=range(len(WRONG)))
def test_what_is_refused_when_called(call, text):
    g = graph()
    with pytest.raises(BadParam, match=text):
        call(g, g.tensor([4, 6], [6, 1], FLOAT))


def test_moves_are_written_down_and_read_back():
    g = graph()
    X = g.tensor([4, 6], [6, 1], FLOAT, name="X")
    g.concatenate([g.slice(X, [slice(0, 2), slice(None)]), X], 0, name="joined").set_output(True)
    again = graph()
    again.deserialize(repr(g))
    assert repr(again) == repr(g) and again.key() == g.key()

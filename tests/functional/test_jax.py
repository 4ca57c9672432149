"""Operations of JAX: values and gradients against JAX's own, eager and compiled, transforms, refusals."""
import hashlib
from contextlib import nullcontext

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np

import cydnn
from cydnn import jax as C
from cydnn._core import CALLS
from cydnn.status import BadParam, NotSupported

jax.config.update("jax_default_matmul_precision", "highest")
NN = jax.nn
_keys = iter(jax.random.split(jax.random.key(3), 16))
_draw = lambda *dims: jax.random.normal(next(_keys), dims)
X, W, B = _draw(2, 4, 6, 5), _draw(8, 2, 3, 3), _draw(8)
M, S, V, R = _draw(3, 4), _draw(4, 4), _draw(4), _draw(2, 3, 4)


def _conv(x, w, b):
    y = jax.lax.conv_general_dilated(x, w, (2, 2), [(1, 1)] * 2, feature_group_count=2)
    return y + b[:, None, None]


def _pool(x, init, how, size, step, pad=0):
    pads = [(0, 0), (0, 0), (pad, pad), (pad, pad)]
    return jax.lax.reduce_window(x, init, how, (1, 1, size, size), (1, 1, step, step), pads)


def _norm(x, axes, w=None, b=None):
    y = (x - x.mean(axes, keepdims=True)) / jnp.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return y if w is None else y * w + b


def _attention(q, k, v, bias=None, is_causal=False):
    k, v = (jnp.repeat(t, q.shape[-3] // k.shape[-3], -3) for t in (k, v))
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5 + (0 if bias is None else bias)
    s = jnp.where(jnp.tri(*s.shape[-2:], dtype=bool), s, -jnp.inf) if is_causal else s
    return NN.softmax(s) @ v


channels = lambda v: v[:, None, None]
CASES = {                                        # name: (ours, JAX's, arrays)
    "conv": (lambda x, w, b: C.conv(x, w, b, 2, 1, groups=2), _conv, (X, W, B)),
    "linear": (C.linear, lambda x, w, b: x @ w.T + b, (R, S, V)), "matmul": (C.matmul, jnp.matmul, (R, S)),
    "grouped_matmul": (lambda x, w: C.grouped_matmul(x, w, jnp.array([0, 1])),
                       lambda x, w: jax.lax.ragged_dot(x, w, jnp.array([1, 2])), (M, jnp.stack([S, S + 1]))),
    "vector": (C.matmul, jnp.matmul, (R, V)), "relu": (C.relu, NN.relu, (X,)),
    "gelu": (C.gelu, lambda x: NN.gelu(x, approximate=False), (X,)), "silu": (C.silu, NN.silu, (X,)),
    "softmax": (lambda x: C.softmax(x, 1), lambda x: NN.softmax(x, 1), (X,)),
    "log_softmax": (C.log_softmax, NN.log_softmax, (M,)),
    "max_pool": (lambda x: C.max_pool(x, 2), lambda x: _pool(x, -jnp.inf, jax.lax.max, 2, 2), (X,)),
    "avg_pool": (lambda x: C.avg_pool(x, 3, 1, 1), lambda x: _pool(x, 0.0, jax.lax.add, 3, 1, 1) / 9, (X,)),
    "batch_norm": (lambda x, w, b: C.batch_norm(x, None, None, w, b, True),
                   lambda x, w, b: _norm(x, (0, 2, 3), channels(w), channels(b)), (X, V, V + 1)),
    "layer_norm": (lambda x, w, b: C.layer_norm(x, (4,), w, b), lambda x, w, b: _norm(x, -1, w, b),
                   (R, V, V + 1)),
    "rms_norm": (lambda x, w: C.rms_norm(x, (4,), w, 1e-5),
                 lambda x, w: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w, (R, V)),
    "instance_norm": (C.instance_norm, lambda x: _norm(x, (2, 3)), (X,)),
    "attention": (lambda *qkv: C.attention(*qkv, is_causal=True),
                  lambda *qkv: _attention(*qkv, is_causal=True), (X, X - 1, X + 1)),
    "attention with a bias": (C.attention, _attention, (R, R - 1, R + 1, M[:, :3])),
    "attention of shared heads": (lambda q, k: C.attention(q, k, k, enable_gqa=True),
                                  lambda q, k: _attention(q, k, k), (X, X[:, :2])),
    "sub": (C.sub, jnp.subtract, (X, B[:5])), "div": (C.div, jnp.divide, (X, jnp.abs(B[:5]) + 1)),
    "mul": (lambda x, v: C.mul(x, channels(v)), lambda x, v: x * channels(v), (X, V)),
    "a number": (lambda x: C.add(x, 2.5), lambda x: x + 2.5, (X,)),
    "square": (lambda x: C.mul(x, x), jnp.square, (X,)), "exp": (C.exp, jnp.exp, (M,)),
    "sqrt": (C.sqrt, jnp.sqrt, (jnp.abs(M) + 1,)), "mean": (C.mean, jnp.mean, (X,)),
    "sum": (lambda x: C.sum(x, (1, 3)), lambda x: x.sum((1, 3)), (X,)),
}
near = lambda found, want, tol=1e-5: np.testing.assert_allclose(found, want, 10 * tol, tol)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_jax(name):
    ours, theirs, arrays = CASES[name]
    want, back = jax.vjp(theirs, *arrays)
    grad = jax.random.normal(jax.random.key(7), want.shape)
    found, mine = jax.vjp(ours, *arrays)
    near(found, want)
    near(jax.jit(ours)(*arrays), want)
    for one, right in zip(mine(grad), back(grad)):
        assert one.dtype == right.dtype
        near(one, right)
    loss = lambda f: lambda *a: (f(*a) * grad).sum()
    every = tuple(range(len(arrays)))
    for one, right in zip(jax.jit(jax.grad(loss(ours), every))(*arrays), back(grad)):
        near(one, right)


def test_a_gradient_that_nobody_wants_is_not_made():
    before = set(CALLS)
    loss = lambda x: C.conv(x, W, B, 2, 1, groups=2).sum()
    near(jax.grad(loss)(X), jax.grad(lambda x: _conv(x, W, B).sum())(X))
    (walk,) = [CALLS[n].__self__ for n in set(CALLS) - before if "_backward" in CALLS[n].__self__.key]
    assert len(walk.results) == 1 and len(walk.given) == 2          # dx, of the filter and dy alone


@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.float16])
def test_16_bits(kind):
    x, w = X.astype(kind), W.astype(kind)
    y, back = jax.vjp(lambda x, w: C.conv(x, w, groups=2), x, w)
    assert y.dtype == kind and [g.dtype for g in back(y)] == [kind, kind]
    near(y.astype(jnp.float32), C.conv(X, W, groups=2), 2e-2)
    assert C.conv(x, w, groups=2, dtype=jnp.float32).dtype == jnp.float32


def test_truth_values_and_whole_numbers():
    assert (C.ne(X, 0.0) == (X != 0)).all() and C.ne(X, 0.0).dtype == jnp.bool_
    mask = jnp.tri(3, dtype=bool)
    near(C.attention(R, R, R, attn_mask=mask), _attention(R, R, R, is_causal=True))
    i = jnp.arange(6, dtype=jnp.int32).reshape(2, 3)
    assert (C.add(i, i) == 2 * i).all() and C.add(i, i).dtype == jnp.int32
    where = lambda x: C.where(mask, x, 0.0).sum()
    near(jax.grad(where)(S[:3, :3]), mask.astype(jnp.float32))


def test_transforms():
    one = lambda r: C.layer_norm(r, (4,))
    near(jax.vmap(one)(R), _norm(R, -1))
    near(jax.jit(jax.vmap(jax.grad(lambda r: (one(r) ** 3).sum())))(R),
         jax.vmap(jax.grad(lambda r: (_norm(r, -1) ** 3).sum()))(R))
    step = lambda c, _: (C.tanh(C.matmul(c, S)), c.sum())
    near(jax.lax.scan(step, M, None, 3)[0], jnp.tanh(jnp.tanh(jnp.tanh(M @ S) @ S) @ S))
    deep = lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(M)
    near(deep(lambda x: C.gelu(C.matmul(x, S))), deep(lambda x: NN.gelu(x @ S, approximate=False)))
    assert jax.eval_shape(C.linear, R, S).shape == (2, 3, 4)


def test_channels_last():
    """Between operations nothing is copied; the gradient lies so, too."""
    def network(x, w, is_last):
        with C.channels_last() if is_last else nullcontext():
            y = C.max_pool(C.relu(C.conv(jnp.transpose(x, (0, 3, 1, 2)), w, padding=1)), 2)
            y = C.softmax(C.instance_norm(y), 1)
        return jnp.transpose(y, (0, 2, 3, 1))
    x, w = jnp.transpose(X, (0, 2, 3, 1)), W[:, :1].repeat(4, 1)
    last = jax.jit(lambda x, w: network(x, w, True))
    near(last(x, w), network(x, w, False))
    calls = [line for line in last.lower(x, w).compile().as_text().splitlines() if "custom-call(" in line]
    assert len(calls) == 5 and all("{1,3,2,0} custom-call" in line for line in calls[:4])
    loss = lambda is_last: lambda x, w: (network(x, w, is_last) ** 3).sum()
    for one, right in zip(*(jax.jit(jax.grad(loss(is_last), (0, 1)))(x, w) for is_last in (True, False))):
        near(one, right, 1e-4)
    with C.channels_last():                      # products and attention have no images
        near(C.attention(X, X, X), _attention(X, X, X))


def test_seeds_are_arrays_of_a_program():
    ones = jnp.ones((16, 16))
    drop = jax.jit(lambda x, seed: C.dropout(x, 0.25, seed=seed))
    drop(ones, 3)
    before = len(CALLS)
    found = [drop(ones, seed) for seed in (3, 4, 2 ** 31 - 1)]
    assert len(CALLS) == before and (found[0] != found[1]).any()
    assert all((one == C.dropout(ones, 0.25, seed=s)).all() for one, s in zip(found, (3, 4, 2 ** 31 - 1)))
    grad = jax.jit(jax.grad(lambda x, seed: (C.dropout(x, 0.25, seed=seed) ** 2).sum()))(ones, 3)
    near(grad, 2 * found[0] / 0.75)
    weighed = lambda seed: C.attention(R, R, R, dropout_p=0.5, seed=seed)
    assert (jax.jit(weighed)(5) == weighed(5)).all() and (weighed(5) != weighed(6)).any()
    C.dropout(ones, 0.25, seed=jax.random.randint(jax.random.key(0), (), 0, 99))


def test_a_call_has_one_number_in_every_process():
    """Compiled programs are kept on disk, and know a call by it."""
    before = set(CALLS)
    C.relu(jnp.ones((2, 77)))
    (number,) = set(CALLS) - before
    jax.jit(lambda x: C.relu(x) + 1)(jnp.ones((2, 77)))
    assert set(CALLS) == before | {number}
    digest = hashlib.sha256(CALLS[number].__self__.key.encode()).digest()
    assert number == int.from_bytes(digest[:8], "big") >> 1


def test_an_error_of_a_plan_reaches_who_called():
    program = jax.jit(C.neg).lower(jnp.ones(5)).compile()
    (number,) = [n for n, f in CALLS.items() if f.__self__.key.startswith("neg [('5:f32")]
    call = CALLS.pop(number)
    with pytest.raises(Exception, match="must be traced in the process that runs it"):
        program(jnp.ones(5)).block_until_ready()
    CALLS[number] = call
    near(program(jnp.ones(5)), -jnp.ones(5))


def test_on_the_device_that_a_thread_chose():
    with cydnn.device("ptx:sm_80"):
        near(jax.jit(C.tanh)(M), jnp.tanh(M))
        near(jax.grad(lambda x: C.tanh(x).sum())(M), 1 - jnp.tanh(M) ** 2, 1e-4)


@pytest.mark.parametrize("call, sentence", [
    (lambda: C.relu(X, out=X), "relu: out, device and explain must be left out"),
    (lambda: C.dropout(X), "dropout: seed must be given, as a program of jax is traced once; got None"),
    (lambda: C.relu([1.0]), "relu: input: must be an array of jax; got [1.0]"),
    (lambda: C.relu(X, dtype="f64"),
     "relu: the result must be of a type that jax has turned on; got float64"),
    (lambda: C.relu(X.astype(jnp.complex64)), "relu: input: "),
    (lambda: C.conv(X, W), "conv: "),
    (lambda: jax.jit(C.matmul)(X, W), "matmul: "),
    (lambda: C.conv(X), "missing a required argument: 'weight'")])
def test_refusals(call, sentence):
    with pytest.raises((BadParam, TypeError)) as error:
        call()
    assert sentence in str(error.value)


def test_running_statistics_do_not_move():
    with pytest.raises(NotSupported, match="running_mean and running_var must be None in training"):
        C.batch_norm(X, V, jnp.abs(V), training=True)
    near(C.batch_norm(X, V, jnp.abs(V)), (X - channels(V)) / jnp.sqrt(channels(jnp.abs(V)) + 1e-5))


def test_sums_of_whole_numbers_are_of_the_widest_type():
    for call in (C.sum, jax.jit(C.sum)):
        assert call(jnp.full(300, 100, jnp.int8)) == 30000 and call(M > -99).dtype == jnp.int32
    assert C.sum(M > -99, dtype="i8").dtype == jnp.int8


def test_names():
    assert set(dir(C)) == {"channels_last", *cydnn.functional.FUNCTIONS}
    assert C.conv.__doc__ == cydnn.conv.__doc__
    with pytest.raises(AttributeError, match="did you mean relu"):
        C.rellu

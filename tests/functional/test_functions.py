"""Functions on arrays: values against formulas in NumPy, what comes back, what is refused."""
import sys
from importlib import import_module

import numpy as np
import pytest

import cydnn
from cydnn import functional as F
from cydnn.status import BadParam

RNG = np.random.default_rng(3)
X, W, B = (RNG.standard_normal(s).astype("f4") for s in ((2, 4, 6, 5), (8, 2, 3, 3), (8,)))
M, V, R, S = (RNG.standard_normal(s).astype("f4") for s in ((3, 4), (4,), (2, 6, 3), (5, 3)))
Q, K = (RNG.standard_normal(s).astype("f4") for s in ((2, 4, 5, 8), (2, 4, 7, 8)))
ROWS = X.reshape(8, 30)
MASK = RNG.random((5, 7)) < 0.7
MASK[:, 0] = True


def conv(x, w, groups, pad):
    """The plain sum, one filter at a time."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    view = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    own, k = x.shape[1] // groups, w.shape[0] // groups
    return np.stack([np.einsum("nchwrs,crs->nhw", view[:, i // k * own:(i // k + 1) * own], one)
                     for i, one in enumerate(w)], 1)


def soft(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normal(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def attend(mask=None, k=K):
    s = Q @ k.swapaxes(2, 3) / np.sqrt(8)
    return soft(s if mask is None else np.where(mask, s, -np.inf)) @ k


WINDOWS = np.lib.stride_tricks.sliding_window_view(X, (2, 2), (2, 3))[:, :, ::2, ::2]
CASES = {                                        # name: (the call, the formula)
    "conv": (lambda **o: F.conv(X, W, B, padding=1, groups=2, **o),
             lambda: conv(X, W, 2, 1) + B[:, None, None]),
    "conv same": (lambda **o: F.conv(X, W[:, :1], padding="same", groups=4, **o),
                  lambda: conv(X, W[:, :1], 4, 1)),
    "matmul": (lambda **o: F.matmul(R, R.swapaxes(1, 2), **o), lambda: R @ R.swapaxes(1, 2)),
    "matmul of a vector": (lambda **o: F.matmul(M, V, **o), lambda: M @ V),
    "matmul with a vector": (lambda **o: F.matmul(V[:3], M, **o), lambda: V[:3] @ M),
    "linear": (lambda **o: F.linear(R, S, B[:5], **o), lambda: R @ S.T + B[:5]),
    "linear of a square": (lambda **o: F.linear(R, S[:3], **o), lambda: R @ S[:3].T),
    "grouped_matmul": (lambda **o: F.grouped_matmul(S, R.swapaxes(1, 2), np.array([1, 3]), **o),
                       lambda: np.concatenate([np.zeros((1, 6)), S[1:3] @ R[0].T, S[3:] @ R[1].T])),
    "max_pool": (lambda **o: F.max_pool(X, 2, **o), lambda: WINDOWS.max((4, 5))),
    "avg_pool": (lambda **o: F.avg_pool(X, 2, **o), lambda: WINDOWS.mean((4, 5))),
    "softmax": (lambda **o: F.softmax(M, **o), lambda: soft(M)),
    "softmax of a vector": (lambda **o: F.softmax(V, 0, **o), lambda: soft(V)),
    "log_softmax": (lambda **o: F.log_softmax(X, dim=1, **o),
                    lambda: np.log(np.moveaxis(soft(np.moveaxis(X, 1, -1)), -1, 1))),
    "layer_norm": (lambda **o: F.layer_norm(X, (6, 5), X[0, 0], X[0, 1], **o),
                   lambda: normal(X, (2, 3)) * X[0, 0] + X[0, 1]),
    "rms_norm": (lambda **o: F.rms_norm(M, 4, V, eps=0.5, **o),
                 lambda: M / np.sqrt((M * M).mean(1, keepdims=True) + 0.5) * V),
    "instance_norm": (lambda **o: F.instance_norm(X, weight=V, **o),
                      lambda: normal(X, (2, 3)) * V[:, None, None]),
    "batch_norm": (lambda **o: F.batch_norm(X, V, V * V, V, V, **o),
                   lambda: (X - V[:, None, None]) / np.sqrt((V * V)[:, None, None] + 1e-5)
                   * V[:, None, None] + V[:, None, None]),
    "local_response_norm": (lambda **o: F.local_response_norm(X, 1, 2.0, 0.5, 3.0, **o),
                            lambda: X / np.sqrt(3 + 2 * X * X)),
    "attention": (lambda **o: F.attention(Q, K, K, **o), attend),
    "attention with a mask": (lambda **o: F.attention(Q, K, K, MASK, **o), lambda: attend(MASK)),
    "causal attention": (lambda **o: F.attention(Q[:1, 0:1], K[:1, 0:1], K[:1, 0:1], is_causal=True, **o),
                         lambda: attend(np.tri(5, 7, dtype=bool))[:1, :1]),
    "shared heads": (lambda **o: F.attention(Q, K[:, :2], K[:, :2], enable_gqa=True, **o),
                     lambda: attend(None, np.repeat(K[:, :2], 2, 1))),
    "gelu": (lambda **o: F.gelu(X, "tanh", **o),
             lambda: X / (1 + np.exp(-2 * 0.7978845608 * (X + 0.044715 * X ** 3)))),
    "silu": (lambda **o: F.silu(X, **o), lambda: X / (1 + np.exp(-X))),
    "leaky_relu": (lambda **o: F.leaky_relu(X, 0.25, **o), lambda: np.where(X > 0, X, X / 4)),
    "elu": (lambda **o: F.elu(X, 2.0, **o), lambda: np.where(X > 0, X, 2 * np.expm1(X))),
    "softplus": (lambda **o: F.softplus(X, 2.0, **o), lambda: np.log1p(np.exp(2 * X)) / 2),
    "add": (lambda **o: F.add(X, V[:, None, None], **o), lambda: X + V[:, None, None]),
    "a number": (lambda **o: F.mul(X, 2.5, **o), lambda: X * 2.5),
    "where": (lambda **o: F.where(X > 0, X, V[:, None, None], **o),
              lambda: np.where(X > 0, X, V[:, None, None])),
    "where, numbers": (lambda **o: F.where(X[0] > 0, 0.5, F.where(X > 1, X, 0.0, **o), **o),
                       lambda: np.where(X[0] > 0, 0.5, np.where(X > 1, X, 0.0))),
    "mean": (lambda **o: F.mean(X, (1, -1), **o), lambda: X.mean((1, -1))),
    "amax": (lambda **o: F.amax(X, 2, True, **o), lambda: X.max(2, keepdims=True)),
    "all": (lambda **o: F.sum(X, **o), lambda: X.sum()),
}


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_formula(name, device):
    call, formula = CASES[name]
    found, want = call(device=device), formula()
    assert type(found) is np.ndarray and found.dtype == np.float32 and found.shape == np.shape(want)
    assert np.allclose(found, want, rtol=1e-4, atol=1e-5), abs(found - want).max()


def test_numbers_are_given_to_one_plan():
    before = len(F.mul._plans)
    assert np.array_equal(F.mul(V, 3.0), V * 3) and np.array_equal(F.mul(V, 5.0), V * 5)
    assert len(F.mul._plans) == before + 1


def test_a_whole_number_of_numpy_is_a_number():
    """And no address."""
    for call in (F.add, F.add.prepare(V, 4096)):
        assert np.array_equal(call(V, np.int64(4096)), V + 4096)
    assert np.array_equal(F.add.prepare(V, np.int32(2))(V, 5), V + 5)
    assert np.array_equal(F.max_pool(X, np.int64(2)), WINDOWS.max((4, 5)))
    for one in (np.int64(16), np.bool_(True), np.uint8(1)):
        with pytest.raises(BadParam, match="relu: input.* must be an array"):
            F.relu(one)
    with pytest.raises(BadParam, match="add: other: must be an array of NumPy, .*; got True"):
        F.add(V, V.any())


def test_whole_numbers_stay_whole_and_truth_values_are_some():
    whole = np.array([2 ** 24 + 1, -7], np.int32)
    assert F.add(whole, 1).dtype == np.int32 and F.add(whole, 1).tolist() == [2 ** 24 + 2, -6]
    assert F.gt(V, 0).dtype == bool and np.array_equal(F.gt(V, 0), V > 0)


def test_sums_of_whole_numbers_hold_them():
    few, many = np.full(300, 100, np.int8), np.full(4, 2 ** 30, np.int32)
    for x, total in ((few > 0, 300), (few, 30000), (many, 2 ** 32), (few.astype("i8"), 30000)):
        assert F.sum(x).dtype == np.int64 and F.sum(x) == total == F.sum(x, dtype="f32")
    assert F.prod(np.array([2 ** 20, 2 ** 20], np.int32)) == 2 ** 40 and F.sum(few, dtype="i8") == 127


def test_whole_numbers_have_parts_where_the_result_has():
    x, f32 = np.array([[1, 2, 4]], np.int8), dict(dtype="f32")
    for call, want in ((F.div(x, 8, **f32), x / 8), (F.reciprocal(x, **f32), 1 / x), (F.fmod(x, 2.5, **f32),
                       np.fmod(x, 2.5)), (F.softsign(x, **f32), x / (x + 1.0)), (F.mean(x, **f32), x.mean())):
        assert call.dtype == np.float32 and np.allclose(call, want)


def test_one_of_some_truth_values_is_one():
    a, b = V > 0, V < 0.5
    for call, want in ((F.mul(a, b), a & b), (F.maximum(a, b), a | b), (F.minimum(a, b), a & b),
                       (F.where(a, b, a), np.where(a, b, a)), (F.amax(a), a.any()), (F.amin(a), a.all())):
        assert call.dtype == bool and np.array_equal(call, want)
    assert F.mul(a, 2).dtype == F.add(a, b).dtype == F.mul(a, b, dtype="u8").dtype == np.uint8


def test_running_statistics_move():
    mean, var = np.zeros(4, "f4"), np.ones(4, "f4")
    y = F.batch_norm(X, mean, var, np.ones(4, "f4"), np.zeros(4, "f4"), True, 0.25)
    assert np.allclose(y, normal(X, (0, 2, 3)), atol=1e-5)
    assert np.allclose(mean, X.mean((0, 2, 3)) / 4, atol=1e-6)
    assert np.allclose(var, 0.75 + X.var((0, 2, 3), ddof=1) / 4, atol=1e-6)


def test_results_have_the_memory_format_of_the_input():
    last = np.ascontiguousarray(X.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    y = cydnn.conv(last, W, groups=2)
    assert y.transpose(0, 2, 3, 1).flags.c_contiguous and np.allclose(y, conv(X, W, 2, 0), atol=1e-5)


def test_results_have_no_gaps_where_the_input_has():
    y = F.relu(X[:, 1:3, ::2])
    assert y.flags.c_contiguous and np.array_equal(y, np.maximum(X[:, 1:3, ::2], 0))


def test_types_have_short_names_and_those_of_libraries():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name, kind in (("f16", np.float16), (np.float16, np.float16), ("bf16", ml_dtypes.bfloat16),
                       ("fp16", np.float16), ("half", np.float16), (np.dtype("f8"), np.float64)):
        assert cydnn.relu(X, dtype=name).dtype == kind
    thin = cydnn.softmax(X.astype(ml_dtypes.bfloat16), 1)
    assert thin.dtype == ml_dtypes.bfloat16 and np.allclose(thin.astype("f4").sum(1), 1, atol=0.02)


def test_prepared_is_the_function_without_looking():
    call = cydnn.conv.prepare(X, W, padding=1, groups=2)
    out = np.empty((2, 8, 6, 5), "f4")
    assert call(X, W, out=out) is out and np.array_equal(out, cydnn.conv(X, W, padding=1, groups=2))
    assert np.array_equal(call(2 * X, W), cydnn.conv(2 * X, W, padding=1, groups=2))
    with pytest.raises(BadParam, match="conv: must be given 2 arrays, as it was prepared; got 1"):
        call(X)
    text = cydnn.conv(X, W, groups=2, explain=True)
    assert "conv_fprop" in text and text == cydnn.conv.prepare(X, W, groups=2, explain=True)
    assert "part 0" in cydnn.conv(X, W, groups=2, device="ptx:sm_80", explain=True)


class Foreign:
    """An array of a library that knows the standard, and no other way to its memory."""
    def __init__(self, array, device=1):
        self._array, self._device = array, device

    def __dlpack__(self, **_):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        if self._device is None:
            raise AttributeError                 # as a tracer of JAX
        return self._device, 0

    def __array_namespace__(self):
        return Library

    def __array__(self, *_, **how):
        return self._array


class Library:
    from_dlpack = staticmethod(lambda x: Foreign(np.from_dlpack(x)))
    asarray = Foreign


def test_any_library_of_the_array_api_gets_its_own_arrays_back():
    y = cydnn.matmul(Foreign(M), Foreign(M.T.copy()))
    assert type(y) is Foreign and np.allclose(y._array, M @ M.T, atol=1e-5)
    thin = M.astype(pytest.importorskip("ml_dtypes").bfloat16)
    y = cydnn.relu(Foreign(thin))                # DLPack of NumPy has no bf16
    assert type(y) is Foreign and y._array.dtype == thin.dtype


@pytest.mark.gpu
def test_arrays_of_jax_on_a_gpu(gpu, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs a jax that has CUDA")
    for kind in ("float32", "bfloat16"):
        x, w = jax.numpy.asarray(M, kind), jax.numpy.asarray(S[:, :3], kind)
        for _ in range(20):                      # the product of JAX may not be there yet
            y = cydnn.relu(cydnn.linear(x @ x.T, w))
            assert isinstance(y, jax.Array) and y.dtype == x.dtype and y.devices() == x.devices()
            assert float(abs(y - jax.nn.relu((x @ x.T) @ w.T)).max()) < (1e-4 if kind == "float32" else 0.5)
    assert cydnn.functional.gt(x, x).dtype == bool
    with pytest.raises(BadParam, match="must be on one device; got input on cuda:0 and weight on host"):
        cydnn.linear(w, jax.device_put(w, jax.devices("cpu")[0]))


class Data:
    ptr = 4096


class Device:
    def __init__(self, number):
        self.id = number


class ndarray:
    """What CuPy's arrays say of themselves."""
    shape, strides, dtype, itemsize, data = (4,), (4,), np.dtype("f4"), 4, Data

    def __init__(self, number):
        self.device = Device(number)


ndarray.__module__ = "cupy"


def test_arrays_of_a_gpu_stay_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Library)
    with pytest.raises(BadParam, match="device must be that of the arrays, which are on cuda:1; got numpy"):
        F.relu(ndarray(1), device="numpy")
    with pytest.raises(BadParam, match="must be on one device; got input on cuda:0 and other on cuda:1"):
        F.add(ndarray(0), ndarray(1))


def test_operators_of_torch_need_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "cydnn.torch", raising=False)
    with pytest.raises(ImportError, match="cydnn.torch: the package torch must be installed; got: import of"):
        import_module("cydnn.torch")


@pytest.mark.parametrize("args, kw, words", [
    ((X,), {}, "missing a required argument: 'weight'"), ((X, W), dict(weight=W), "multiple values"),
    ((X, W), dict(paddin=1), r"unexpected keyword argument 'paddin'; did you mean padding\?"),
    ((X,), dict(filters=W), r"unexpected keyword argument 'filters'; did you mean weight\?"),
    ((X, W), dict(stream=0), "unexpected keyword argument 'stream': work goes to the current stream of"),
    ((X, W), dict(where=X > 0), "'where': all elements are computed: choose among results by"),
    ((X, W), dict(order="F"), "'order': the result lies as the input does: pass out="),
    ((X, W), dict(casting="safe"), "'casting': types are mixed freely, and dtype= is that of the result"),
    ((X, W), dict(data_format="NHWC"), r"'data_format': shapes are \(n, c, spatial…\), and the arrays'"),
    ((X, W), dict(padding_mode="reflect"), "'padding_mode': what is padded is 0: pad the array by its own"),
    ((X, W), dict(keys=0), "unexpected keyword argument 'keys'$"),
    ((X,) * 8, {}, "too many positional")])
def test_wrong_calls_are_those_of_python(args, kw, words):
    with pytest.raises(TypeError, match=r"^conv\(\) .*" + words):
        F.conv(*args, **kw)


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_seeds_may_be_arrays(device):
    for call in (lambda seed: F.dropout(X, 0.5, seed=seed, device=device),
                 lambda seed: F.attention(Q, Q, Q, dropout_p=0.5, seed=seed, device=device)):
        assert (call(np.array([7], np.int32)) == call(7)).all() and (call(np.array(8)) != call(7)).any()
    said = [F.attention(Q, Q, Q, dropout_p=0.5, seed=seed, explain=True, device="ptx:sm_80").split(": ")[0]
            for seed in (7, np.array([7]))]
    assert said[0] == said[1]                    # what counts the draws says nothing of the sums' type
    with pytest.raises(BadParam, match="seed must be a tensor of one element"):
        F.dropout(X, 0.5, seed=np.array([7, 8]), device=device)


REFUSED = [
    (lambda: F.relu(Foreign(X, None)),
     "relu: input: must be an array with memory; .*the function of cydnn.jax"),
    (lambda: F.where(X > 0, 1.0, 0.0), "where: input or other must be an array, or dtype be given; got two"),
    (lambda: F.conv(X, W), "conv: groups must be such that weight has input's 4 channels / groups; got"),
    (lambda: F.conv(X, W, B[:3], groups=2), r"conv: bias must have dims \(8,\); got \(3,\)"),
    (lambda: F.conv(X, W[0]), "conv: weight must have rank 4 like input; got 3"),
    (lambda: F.conv(X, W, padding="some"), 'conv: padding must be a number, a list, "valid", or "same"'),
    (lambda: F.conv(X, W, groups=2, stride=(1, 1, 1)), "conv: stride must be a number or 2 of them"),
    (lambda: F.conv(X, W, groups=2, padding=-1), "conv: padding must be >= 0 in every dim; got -1"),
    (lambda: F.max_pool(X, 0), "max_pool: kernel_size must be >= 1 in every dim; got 0"),
    (lambda: F.conv([1], W), "conv: input: must be an array of NumPy, torch, CuPy or another"),
    (lambda: F.conv(X, Foreign(W)), "conv: arrays must be of one library; got input of NumPy and"),
    (lambda: F.relu(Foreign(X, 7)), "relu: input: must be in the host's memory or in that of a CUDA device; "
     r"got one on device \(7, 0\)"),
    (lambda: F.relu(Foreign(X), out=X), "relu: out must be absent, as arrays of this library"),
    (lambda: F.relu(X[:, ::-1]), "relu: input: strides must be >= 0; got .* bytes: pass a copy of it"),
    (lambda: F.relu(X.astype("c8")), "relu: input: dtype must be one of f64 f32"),
    (lambda: F.relu(np.zeros(4, "f4, i1")["f0"]), "strides must be whole elements"),
    (lambda: F.relu(np.ma.array(X)), "relu: input: must have no mask"),
    (lambda: F.relu(3.0), "relu: input must be an array; got 3.0"),
    (lambda: F.conv(X, None), "conv: weight must be an array; got None"),
    (lambda: F.conv(X, W, 1.0), "conv: bias must be an array; got 1.0"),
    (lambda: F.add(X, None), "add: other must be an array or a number; got None"),
    (lambda: F.instance_norm(X[0, 0, 0]), "instance_norm: input must have rank >= 2, \\(n, c, …\\); got"),
    (lambda: F.add(3, X), "add: input must be an array; got 3"),
    (lambda: F.relu(X, dtype="f17"), "relu: dtype must be one of f64 f32"),
    (lambda: F.relu(X, device="cuda:x"), 'device: must be "cuda:N", "ptx:sm_N"'),
    (lambda: F.relu(X, out=[X]), "relu: out must be an array of NumPy, as the others are; got"),
    (lambda: F.relu(X, out=np.empty((2, 4, 6, 5))), "relu: out: array must be of type float32"),
    (lambda: F.relu.prepare(X, out=X), "relu: out must be given to the call; got it for prepare"),
    (lambda: F.add.prepare(X, X)(X, 4096), "add: must be given an array where it was prepared for one; got"),
    (lambda: F.relu(X, out=np.int64(16)), "relu: out must be an array of NumPy, as the others are; got"),
    (lambda: F.relu.prepare(X)(X, out=4096), "relu: out must be an array of NumPy, as the others are"),
    (lambda: F.where.prepare(X > 0, X, X)(X > 0, X, 4096), "where: must be given an array where it was"),
    (lambda: F.relu.prepare(X)(X[:1]), r"relu: input: array must have shape \(2, 4, 6, 5\)"),
    (lambda: F.softmax(X, 4), "softmax: dim must be from -4 to 3; got 4"),
    (lambda: F.sum(X, (0, 0)), r"sum: dim must be dims that differ; got \(0, 0\)"),
    (lambda: F.sum(X, ()), r"sum: dim must have dims, or be None for all of them; got \(\)"),
    (lambda: F.amax(X[:0], 0), r"amax: input must have elements along dim; got dims \(0, 4, 6, 5\) and"),
    (lambda: F.avg_pool(np.ones((1, 1, 2, 2), int), 2),
     "avg_pool: dtype must be given where input is of whole numbers and its mean is not; got i64"),
    (lambda: F.hardtanh(np.ones(3, int), -0.5), "numbers and min_val is not; got i64 and -0.5"),
    (lambda: F.relu(X, dtype=bool), "relu: dtype must be a type of numbers; got bool: truth values are what"),
    (lambda: F.add(np.ones(3, int), 2.5), "add: dtype must be given where input is of whole numbers and"),
    (lambda: F.where(X > 0, np.ones(5, int), 0.5), "where: dtype must be given where input is of whole"),
    (lambda: F.softmax(np.ones(3, int)), "softmax: input must be of a float type, or dtype of one; got i64"),
    (lambda: F.exp(np.ones(3, int)), "exp: input must be of a float type, or dtype of one; got i64"),
    (lambda: F.gelu(X, "erf"), 'gelu: approximate must be "none" or "tanh"'),
    (lambda: F.matmul(M, M), r"matmul: other must have input's 4 columns as rows; got input \(3, 4\) and"),
    (lambda: F.grouped_matmul(M, M, V), r"grouped_matmul: weight must have rank 3; got dims \(3, 4\)"),
    (lambda: F.grouped_matmul(M, R, V), "grouped_matmul: weight must have input's 4 columns as rows; got"),
    (lambda: F.grouped_matmul(S, R.swapaxes(1, 2), V[:2]), "grouped_matmul: offsets must be i32 or i64; got"),
    (lambda: F.linear(M, V), r"linear: weight must have rank 2; got dims \(4,\)"),
    (lambda: F.layer_norm(X, 6), "layer_norm: normalized_shape must be the last of input's dims"),
    (lambda: F.layer_norm(X, 5, V), r"layer_norm: weight must have dims \(5,\); got \(4,\)"),
    (lambda: F.batch_norm(X, V, None), "batch_norm: running_var must be given, as training is False; got"),
    (lambda: F.attention(V, V, V), r"attention: query must have rank 3 or 4; got dims \(4,\)"),
    (lambda: F.attention(Q, K, K, dropout_p=0.1), "attention: seed must be a number where dropout_p"),
    (lambda: F.attention(Q, K, K, dropout_p=2, seed=1), "attention: drop must be a probability, 0 to 1"),
    (lambda: F.attention(Q, K[:, :2], K[:, :2]), "attention: key must have query's 4 heads where enable_gqa"),
    (lambda: F.attention(Q, K, K, MASK, is_causal=True), "attention: attn_mask must be absent where"),
    (lambda: F.attention(Q, K, K, MASK[:, :6]), r"attention: attn_mask must broadcast to \(2, 4, 5, 7\),"),
    (lambda: F.attention(Q, K[..., :6], K), "attention: key must have heads of 8 elements like query; got"),
]


@pytest.mark.parametrize("call, sentence", REFUSED)
def test_refusals(call, sentence):
    with pytest.raises(BadParam, match=sentence):
        call()

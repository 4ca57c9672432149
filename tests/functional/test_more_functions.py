"""Images of other sizes, norms of groups, activations, selections: values and gradients against torch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as T

from cydnn import functional as F, torch as C
from cydnn.status import BadParam

torch.manual_seed(5)
X, L, D = torch.randn(2, 4, 6, 5), torch.randn(2, 4, 7), torch.randn(1, 4, 2, 3, 4)
LAST = X.to(memory_format=torch.channels_last)
W, V, B = torch.randn(4, 2, 3, 2), torch.randn(4), torch.randn(6)
ACTIVATIONS = ("hardsigmoid hardswish mish selu celu logsigmoid softsign tanhshrink softshrink hardshrink "
               "hardtanh relu6 sigmoid tanh").split()
CASES = {                                        # name: (ours, torch's, arrays)
    **{n: (lambda F, x, n=n: getattr(F, n)(x), lambda x, n=n: getattr(T, n)(x), (4 * X,))
       for n in ACTIVATIONS},
    "threshold": (lambda F, x: F.threshold(x, 0.2, -3), lambda x: T.threshold(x, 0.2, -3), (X,)),
    "softplus": (lambda F, x: F.softplus(x, 2, 0.5), lambda x: T.softplus(x, 2, 0.5), (X,)),
    "prelu": (lambda F, x, w: F.prelu(x, w), T.prelu, (X, V)),
    "prelu of one": (lambda F, x, w: F.prelu(x, w), T.prelu, (X, V[:1])),
    "softmin of a number": (lambda F, x: F.softmin(x, -1), lambda x: T.softmin(x, -1), (X[0, 0, 0, 0],)),
    "softmin of a vector": (lambda F, x: F.softmin(x, 0), lambda x: T.softmin(x, 0), (V,)),
    "softmin": (lambda F, x: F.softmin(x, 1), lambda x: T.softmin(x, 1), (X,)),
    "conv_transpose": (lambda F, x, w, b: F.conv_transpose(x, w, b, 2, 1, 1, 2, (1, 2)),
                       lambda x, w, b: T.conv_transpose2d(x, w, b, 2, 1, 1, 2, (1, 2)), (X, W, V)),
    "conv_transpose channels last": (lambda F, x, w: F.conv_transpose(x, w), T.conv_transpose2d, (LAST, W)),
    "conv_transpose of one dim": (lambda F, x, w: F.conv_transpose(x, w, stride=3),
                                  lambda x, w: T.conv_transpose1d(x, w, stride=3), (L, W[:, :, 0])),
    "conv of one image": (lambda F, x, w, b: F.conv(x, w, b, 2, 1, groups=2),
                          lambda x, w, b: T.conv2d(x, w, b, 2, 1, groups=2), (X[1], W, V)),
    "conv of one line": (lambda F, x, w: F.conv(x, w, padding="same"),
                         lambda x, w: T.conv1d(x, w, padding="same"), (L[0], torch.randn(3, 4, 3))),
    "conv_transpose of one image": (lambda F, x, w, b: F.conv_transpose(x, w, b, 2, 1, 1, 2),
                                    lambda x, w, b: T.conv_transpose2d(x, w, b, 2, 1, 1, 2),
                                    (X[1], W, B[:4])),
    "max_pool of one image": (lambda F, x: F.max_pool(x, [3, 2], 2, 1, True),
                              lambda x: T.max_pool2d(x, [3, 2], 2, 1, 1, True), (X[1],)),
    "avg_pool of one line": (lambda F, x: F.avg_pool(x, 3), lambda x: T.avg_pool1d(x, 3), (L[1],)),
    "means of one image": (lambda F, x: F.adaptive_avg_pool(x, (3, 1)),
                           lambda x: T.adaptive_avg_pool2d(x, (3, 1)), (X[1],)),
    "maximum of one volume": (lambda F, x: F.adaptive_max_pool(x, (1, 1, 1)),
                              lambda x: T.adaptive_max_pool3d(x, 1), (D[0],)),
    "nearest": (lambda F, x: F.interpolate(x, (13, 3)), lambda x: T.interpolate(x, (13, 3)), (X,)),
    "nearest twice": (lambda F, x: F.interpolate(x, scale_factor=2.0),
                      lambda x: T.interpolate(x, scale_factor=2.0),
                      (LAST,)),
    "linear": (lambda F, x: F.interpolate(x, 4, mode="linear"),
               lambda x: T.interpolate(x, 4, mode="linear"), (L,)),
    "bilinear": (lambda F, x: F.interpolate(x, (8, 11), None, "bilinear"),
                 lambda x: T.interpolate(x, (8, 11), None, "bilinear"), (X,)),
    "bilinear, corners": (lambda F, x: F.interpolate(x, (1, 11), None, "bilinear", True),
                          lambda x: T.interpolate(x, (1, 11), None, "bilinear", True), (X,)),
    "trilinear": (lambda F, x: F.interpolate(x, scale_factor=2, mode="trilinear"),
                  lambda x: T.interpolate(x, scale_factor=2, mode="trilinear"), (D,)),
    "global mean": (lambda F, x: F.adaptive_avg_pool(x, 1), lambda x: T.adaptive_avg_pool2d(x, 1), (LAST,)),
    "adaptive means": (lambda F, x: F.adaptive_avg_pool(x, (3, None)),
                       lambda x: T.adaptive_avg_pool2d(x, (3, None)),
                       (X,)),
    "adaptive copies": (lambda F, x: F.adaptive_avg_pool(x, 14),
                        lambda x: T.adaptive_avg_pool1d(x, 14), (L,)),
    "adaptive maxima": (lambda F, x: F.adaptive_max_pool(x, (2, 5)),
                        lambda x: T.adaptive_max_pool2d(x, (2, 5)), (X,)),
    "global maximum": (lambda F, x: F.adaptive_max_pool(x, 1), lambda x: T.adaptive_max_pool3d(x, 1), (D,)),
    "max_pool, ceil_mode": (lambda F, x: F.max_pool(x, 2, 2, 1, True),
                            lambda x: T.max_pool2d(x, 2, 2, 1, 1, True),
                            (X,)),
    "avg_pool, ceil_mode": (lambda F, x: F.avg_pool(x, 3, 2, ceil_mode=True),
                            lambda x: T.avg_pool2d(x, 3, 2, 0, True),
                            (X,)),
    "avg_pool, ceil_mode, padding": (
        lambda F, x: F.avg_pool(x, 3, 2, 1, True, False),
        lambda x: T.avg_pool2d(x, 3, 2, 1, True, False), (X,)),
    "group_norm": (lambda F, x, w, b: F.group_norm(x, 2, w, b), lambda x, w, b: T.group_norm(x, 2, w, b),
                   (X, V, V + 1)),
    "group_norm channels last": (lambda F, x, w: F.group_norm(x, 4, w),
                                 lambda x, w: T.group_norm(x, 4, w), (LAST, V)),
    "group_norm of none": (lambda F, x: F.group_norm(x, 2), lambda x: T.group_norm(x, 2), (X[:, :, 0, 0],)),
    "group_norm with gaps": (lambda F, x: F.group_norm(x, 2), lambda x: T.group_norm(x, 2),
                             (X[:, :, ::2, 1],)),
    "area": (lambda F, x: F.interpolate(x, (3, 1), mode="area"),
             lambda x: T.interpolate(x, (3, 1), mode="area"), (X,)),
    "group_norm of three dims": (lambda F, x: F.group_norm(x, 1), lambda x: T.group_norm(x, 1), (D,)),
    "instance_norm, running": (lambda F, x, m, v: F.instance_norm(x, m, v, use_input_stats=False),
                               lambda x, m, v: T.instance_norm(x, m, v, use_input_stats=False),
                               (X, V, V * V + 1)),
    "batch_norm, no weight": (lambda F, x: F.batch_norm(x, None, None, training=True),
                              lambda x: T.batch_norm(x, None, None, training=True), (X,)),
    "batch_norm, eval": (lambda F, x, w, b: F.batch_norm(x, V, V * V, w, b),
                         lambda x, w, b: T.batch_norm(x, V, V * V, w, b), (LAST, V, V + 1)),
    "batch_norm, eval, no bias": (lambda F, x, w: F.batch_norm(x, V, V * V, w),
                                  lambda x, w: T.batch_norm(x, V, V * V, w),
                                  (X, V)),
    "abs": (lambda F, x: F.abs(x), torch.abs, (X,)),
    "rsqrt": (lambda F, x: F.rsqrt(x), torch.rsqrt, (X.abs() + 1,)),
    "reciprocal": (lambda F, x: F.reciprocal(x), torch.reciprocal, (X.abs() + 1,)),
    "sin": (lambda F, x: F.sin(x), torch.sin, (X,)), "cos": (lambda F, x: F.cos(x), torch.cos, (X,)),
    "tan": (lambda F, x: F.tan(x / 4),
            lambda x: torch.tan(x / 4), (X,)),
    "erf": (lambda F, x: F.erf(x), torch.erf, (X,)),
    "square": (lambda F, x: F.pow(x, 2.0), lambda x: x ** 2.0, (X,)),
    "pow": (lambda F, x, b: F.pow(x, b), torch.pow, (X.abs() + 0.5, X[:, :, :1])),
    "maximum": (lambda F, x, b: F.maximum(x, b), torch.maximum, (X.round(), X.flip(0).round())),
    "minimum": (lambda F, x, b: F.minimum(x, b), torch.minimum, (X, V[:, None, None])),
    "where, a number": (lambda F, x: F.where(X > 0, x, 0.0), lambda x: torch.where(X > 0, x, 0.0), (X,)),
    "where": (lambda F, x, b: F.where(X > 0, x, b),
              lambda x, b: torch.where(X > 0, x, b), (X, V[:, None, None])),
    "amax": (lambda F, x: F.amax(x, 2), lambda x: x.amax(2), (X.round(),)),
    "amin": (lambda F, x: F.amin(x, (1, 3), True), lambda x: x.amin((1, 3), True), (X,)),
}


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_torch(name, device):
    class On:
        def __getattr__(self, function):
            return lambda *args, **kw: getattr(F, function)(*args, **kw, device=device)
    ours, theirs, arrays = CASES[name]
    found, want = ours(On(), *arrays), theirs(*arrays)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    assert found.stride() == want.stride() or 1 in want.shape
    assert torch.allclose(found, want, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_torch(name):
    ours, theirs, arrays = CASES[name]
    if name == "instance_norm, running":
        arrays = arrays[:1]
        ours = lambda F, x, call=ours: call(F, x, V, V * V + 1)
        theirs = lambda x, call=theirs: call(x, V, V * V + 1)
    mine, own = ([a.detach().clone().requires_grad_() for a in arrays] for _ in range(2))
    y, want = ours(C, *mine), theirs(*own)
    grad = torch.randn_like(want)
    for found, right in zip(torch.autograd.grad(y, mine, grad), torch.autograd.grad(want, own, grad)):
        assert found.shape == right.shape and torch.allclose(found, right, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("name", [*ACTIVATIONS, "threshold"])
def test_nan_stays_nan(name):
    x, more = torch.tensor([float("nan"), float("inf"), -float("inf")]), (0.5, 2.0) * (name == "threshold")
    assert torch.allclose(getattr(F, name)(x, *more), getattr(T, name)(x, *more), equal_nan=True)


def test_dropout_scales_what_it_keeps():
    x = np.ones((64, 64), "f4")
    y = F.dropout(x, 0.25, seed=3)
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)} and abs((y > 0).mean() - 0.75) < 0.03
    assert np.array_equal(y, F.dropout(x, 0.25, seed=3)) and not np.array_equal(y, F.dropout(x, 0.25, seed=4))
    assert np.array_equal(F.dropout(x, training=False), x) and not F.dropout(x, 1.0, seed=0).any()
    t = torch.ones(64, 64, requires_grad=True)
    torch.manual_seed(1)
    found = C.dropout(t, 0.25)
    assert torch.equal(torch.autograd.grad(found.sum(), t)[0], found)
    assert not torch.equal(found, C.dropout(t, 0.25))


REFUSED = [
    (lambda: F.conv_transpose(X, W[:3]), "conv_transpose: weight must have input's rank, 3 to 5, and its"),
    (lambda: F.conv_transpose(X, W, output_padding=1), "output_padding must be >= 0 and less than stride or"),
    (lambda: F.conv_transpose(X, W, groups=3),
     "conv_transpose: groups must divide input's 4 channels; got 3"),
    (lambda: F.conv_transpose(X, W, padding=9),
     "conv_transpose: padding must leave a cell of the result; got 9"),
    (lambda: F.interpolate(V), "interpolate: input must have 1 to 3 spatial dims with cells; got dims"),
    (lambda: F.interpolate(X, 3, mode="bicubic"),
     'interpolate: mode must be "nearest", "area" or "bilinear" for'),
    (lambda: F.interpolate(X, 3, align_corners=True), 'align_corners must be None for "nearest"; got True'),
    (lambda: F.interpolate(X, 3, 2),
     "interpolate: size or scale_factor must be given, not both; got 3 and 2"),
    (lambda: F.interpolate(X, scale_factor=0.3), "scale_factor must make whole numbers of the dims"),
    (lambda: F.interpolate(X, scale_factor="2"),
     "interpolate: scale_factor must be a number > 0 or 2 of them"),
    (lambda: F.interpolate(X, 0), "interpolate: size must be >= 1 in every dim; got"),
    (lambda: F.interpolate(X, 2, mode="bilinear"), "interpolate: size must be at least half of input's"),
    (lambda: F.adaptive_avg_pool(X, 4), r"adaptive_avg_pool: output_size must divide input's \(6, 5\) or be"),
    (lambda: F.adaptive_max_pool(V, 1),
     "adaptive_max_pool: input must have 1 to 3 spatial dims, and elements"),
    (lambda: F.avg_pool(X, 3, 2, 1, True),
     "avg_pool: ceil_mode must be False where padding counts and a window"),
    (lambda: F.group_norm(X, 3), "group_norm: num_groups must divide input's 4 channels; got 3"),
    (lambda: F.group_norm(D.mT, 2), "group_norm: input's last two dims must be one in memory; got strides"),
    (lambda: F.instance_norm(X, V, V),
     "instance_norm: running_mean must be absent where use_input_stats is True"),
    (lambda: F.batch_norm(X, None, V, V, V), "batch_norm: running_mean must be given, as training is False"),
    (lambda: F.hardtanh(X, 2, 1), "hardtanh: min_val must be <= max_val; got 2 and 1"),
    (lambda: F.softshrink(X, -1), "softshrink: lambd must be >= 0; got -1"),
    (lambda: F.interpolate(X.int(), 12, mode="bilinear"), "interpolate: dtype must be given where input"),
    (lambda: F.threshold(X.int(), 1, 0.5), "threshold: dtype must be given .* value is not; got i32 and"),
    (lambda: F.celu(X, 0), "celu: alpha must not be 0; got 0"),
    (lambda: F.prelu(X, B),
     r"prelu: weight must have dims \(1,\) or \(4,\), one for each channel; got \(6,\)"),
    (lambda: F.dropout(X, 2, seed=1), "dropout: p must be a probability, 0 to 1; got 2"),
    (lambda: F.dropout(X), "dropout: seed must be a number where p is not 0; got None"),
]


@pytest.mark.parametrize("call, sentence", REFUSED)
def test_refusals(call, sentence):
    with pytest.raises(BadParam, match=sentence):
        call()

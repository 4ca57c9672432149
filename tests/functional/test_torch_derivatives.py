"""Derivatives that ours do not have are those of torch's own functions, and said: gradients of gradients,
forward ones."""
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as T
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jvp, linearize, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from cydnn import torch as C
from cydnn.status import NotSupported

from .test_more_functions import CASES

torch.manual_seed(9)
X, W = torch.randn(3, 4), torch.randn(5, 4)
M = torch.ones(3, 4, dtype=torch.bool).tril()


def wide(*shape):
    return torch.rand(*shape, dtype=torch.float64).add(0.5).requires_grad_()


MORE = {                                         # name: (ours, arrays)
    "conv": (lambda x, w, b: C.conv(x, w, b, 2, 1), (wide(1, 2, 5, 5), wide(4, 2, 3, 3), wide(4))),
    "matmul": (C.matmul, (wide(2, 3, 4), wide(4, 5))),
    "one tensor": (lambda x: C.matmul(x, x), (wide(3, 3),)),
    "linear": (C.linear, (wide(3, 4), wide(5, 4), wide(5))),
    "grouped_matmul": (lambda x, w: C.grouped_matmul(x, w, torch.tensor([1, 2, 3])),
                       (wide(4, 3), wide(2, 3, 2))),
    "layer_norm": (lambda x, w: C.layer_norm(x, 4, w), (wide(3, 4), wide(4))),
    "rms_norm": (lambda x, w: C.rms_norm(x, (4,), w), (wide(3, 4), wide(4))),
    "batch_norm": (lambda x, w: C.batch_norm(x, None, None, w, training=True), (wide(3, 4, 2), wide(4))),
    "max_pool": (lambda x: C.max_pool(x, (2, 2)), (wide(2, 4, 4),)), "mean": (C.mean, (wide(3, 4),)),
    "attention": (lambda q, m: C.attention(q, q, q, m), (wide(1, 2, 3, 4), wide(3, 3))),
    "hardsigmoid": (lambda x: C.hardsigmoid(x), (wide(3, 4),)),
    "a number": (lambda x: C.maximum(x, 1.0), (wide(3, 4),)), "div": (C.div, (wide(3, 4), wide(4))),
    "dropout": (lambda x: C.dropout(x, 0.5, seed=3), (wide(3, 4),)),
    "dropout of none": (lambda x: C.dropout(x, 0.0), (wide(3, 4),)),
    "another type": (lambda x: C.exp(x, dtype="f64"), (X.clone().requires_grad_(),))}


@pytest.mark.parametrize("name", [n for n in CASES if n not in (
    "instance_norm, running", "hardsigmoid")])   # statistics are given as arrays; torch's has one derivative
def test_gradients_of_gradients_are_those_of_torch(name):
    ours, theirs, arrays = CASES[name]
    found = []
    for call in (lambda *a: ours(C, *a), theirs):
        own = [x.detach().clone().requires_grad_() for x in arrays]
        first = torch.autograd.grad(call(*own).pow(3).sum(), own, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), own, allow_unused=True))
    for mine, right in zip(*found):
        assert (mine is None) == (right is None)
        scale = 0 if right is None else float(right.abs().max() + 1)
        assert mine is None or torch.allclose(mine, right, rtol=2e-3, atol=2e-3 * scale)


@pytest.mark.parametrize("name", MORE)
def test_gradients_of_gradients_are_those_of_differences(name):
    ours, arrays = MORE[name]
    if name == "another type":
        first, = torch.autograd.grad(ours(*arrays).sum(), arrays, create_graph=True)
        assert torch.allclose(torch.autograd.grad(first.sum(), arrays)[0], X.exp())
    else:
        assert torch.autograd.gradgradcheck(ours, arrays)
    C.report(reset=True)
    with torch.profiler.profile():               # or the operator's own backward
        torch.autograd.grad(ours(*arrays).sum(), arrays[0], create_graph=True)
    assert "1 by torch: gradients of gradients" in C.report()


def test_transforms_beyond_one_gradient():
    pairs = ((C.gelu, T.gelu), (lambda x: C.linear(x, W), lambda x: T.linear(x, W)),
             (lambda x: C.batch_norm(x, None, None, training=True),
              lambda x: T.batch_norm(x, None, None, training=True)))
    for ours, theirs in pairs:
        for wish in (lambda f: hessian(lambda x: f(x).pow(3).sum())(X), lambda f: jacfwd(f)(X),
                     lambda f: jvp(f, (X,), (X,))[1], lambda f: linearize(f, X)[1](X),
                     lambda f: grad(lambda x: grad(lambda x: f(x).pow(3).sum())(x).sum())(X)):
            assert torch.allclose(wish(ours), wish(theirs), atol=1e-4)
    each = vmap(hessian(lambda x: C.tanh(x).sum()))(X)
    assert torch.allclose(each, vmap(hessian(lambda x: torch.tanh(x).sum()))(X), atol=1e-5)
    moved = jacfwd(lambda x: C.batch_norm(x, torch.zeros(4), torch.ones(4), training=True))(X)
    assert torch.allclose(moved, jacfwd(pairs[2][1])(X), atol=1e-5)
    kept = C.dropout(torch.ones(3, 4), 0.5, seed=3)
    assert torch.equal(jvp(lambda x: C.dropout(x, 0.5, seed=3), (X,), (torch.ones(3, 4),))[1], kept)
    with forward_ad.dual_level():
        C.report(reset=True)
        dual = C.exp(forward_ad.make_dual(X, X))
        assert torch.allclose(forward_ad.unpack_dual(dual).tangent, X * X.exp())
        assert C.report() == "exp: 1 by torch: forward gradients"
    q = torch.randn(1, 1, 3, 4)
    with pytest.raises(NotSupported, match="attention: dropout_p must be 0 where derivatives are torch's"):
        jvp(lambda q: C.attention(q, q, q, dropout_p=0.5, seed=3), (q,), (q,))
    with pytest.raises(NotSupported, match="linear: forward gradients are torch's, which must take the arg"):
        jvp(lambda x: C.linear(x, W.int()), (X,), (X,))


class Looking(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kw=None):
        return function(*args, **kw or {})


def test_where_a_mode_looks_on_it_is_refused():
    x = X.clone().requires_grad_()
    with Looking(), pytest.raises(NotSupported, match="a gradient must not be differentiated again"):
        torch.autograd.grad(torch.autograd.grad(C.gelu(x).sum(), x, create_graph=True)[0].sum(), x)


@pytest.mark.parametrize("is_over", [False, True])
def test_a_penalty_of_gradients_of_a_replaced_model(is_over):
    """What was written over its input has the past of the input."""
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 6, 3), torch.nn.SiLU(is_over), torch.nn.Conv2d(6, 4, 2),
                                torch.nn.LeakyReLU(0.2, is_over), torch.nn.Flatten(), torch.nn.Linear(16, 1))
    x = torch.randn(2, 2, 5, 5)

    def penalty():
        own = x.clone().requires_grad_()
        slope, = torch.autograd.grad(model(own).sum(), own, create_graph=True)
        return torch.autograd.grad((slope.flatten(1).norm(dim=1) - 1).square().sum(), own)[0]
    want = penalty()
    with C.replaced():
        C.report(reset=True)
        found = penalty()
    assert torch.allclose(found, want, atol=1e-5) and want.abs().max() > 0
    assert "silu: 1 by torch: gradients of gradients" in C.report()

"""The functions under transforms of torch.func and traces of torch.fx: values and gradients are torch's."""
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as T
from torch.func import grad, jacrev, vmap

from cydnn import torch as C
from cydnn.status import NotSupported

torch.manual_seed(7)
X, W, B, V = torch.randn(3, 4, 6, 5), torch.randn(8, 4, 3, 3), torch.randn(8), torch.rand(4) + 0.5
CASES = {                                        # name: (ours, torch's, arrays)
    "conv": (C.conv, T.conv2d, (X, W, B)), "relu": (C.relu, T.relu, (X,)),
    "linear": (lambda x, w: C.linear(x, w), lambda x, w: T.linear(x, w), (X, W[0, 0, :3, :1].repeat(1, 5))),
    "max_pool": (lambda x: C.max_pool(x, 2), lambda x: T.max_pool2d(x, 2), (X,)),
    "softmax": (lambda x: C.softmax(x, 1), lambda x: T.softmax(x, 1), (X,)),
    "batch_norm": (lambda x, w: C.batch_norm(x, None, None, w, training=True),
                   lambda x, w: T.batch_norm(x, None, None, w, training=True), (X, V)),
    "attention": (lambda q, k: C.attention(q, k, k, is_causal=True),
                  lambda q, k: T.scaled_dot_product_attention(q, k, k, is_causal=True), (X, X + 1)),
    "a number": (lambda x: C.mul(x, 2.5), lambda x: x * 2.5, (X,)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_transforms_are_those_of_torch(name):
    ours, theirs, arrays = CASES[name]
    places = tuple(range(len(arrays)))
    found, want = (grad(lambda *a: f(*a).square().sum(), places)(*arrays) for f in (ours, theirs))
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(found, want))


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("batch_norm", "attention")])
def test_gradients_of_each_example_are_those_of_torch(name):
    """The gradient of what is shared, one for each image."""
    ours, theirs, arrays = CASES[name]
    dims, place = (0, *[None] * (len(arrays) - 1)), len(arrays) - 1
    found, want = (vmap(grad(lambda x, *a: f(x[None], *a).square().sum(), place), dims)(*arrays)
                   for f in (ours, theirs))
    assert found.shape == want.shape and torch.allclose(found, want, rtol=1e-3, atol=1e-4)


def test_transforms_of_transforms():
    w = torch.randn(2, 5)
    for f, g in ((C.linear, T.linear), (lambda x, w: C.matmul(x, w.T), lambda x, w: x @ w.T)):
        assert torch.allclose(jacrev(f)(X[0, 0], w), jacrev(g)(X[0, 0], w), atol=1e-5)
        every = vmap(vmap(f, (0, None)), (0, None))(X, w)
        assert torch.allclose(every, g(X, w), atol=1e-5)
    outer = grad(lambda x: vmap(lambda row: C.softmax(row, -1).square().sum())(x).sum())(X)
    assert torch.allclose(outer, grad(lambda x: T.softmax(x, -1).square().sum())(X), atol=1e-5)


@pytest.mark.parametrize("name", ["linear", "max_pool", "batch_norm", "attention"])
def test_compiled_transforms_are_one_graph(name):
    ours, theirs, arrays = CASES[name]
    places, several = tuple(range(len(arrays))), name not in ("batch_norm", "attention")
    loss = lambda f: lambda *a: f(*a).square().sum()
    each = lambda f: vmap(grad(lambda x, *a: f(x[None], *a).square().sum()), (0, *[None] * (len(arrays) - 1)))
    for wish in ([lambda f: grad(loss(f), places)] + [each] * several):
        found = torch.compile(wish(ours), backend="aot_eager", fullgraph=True)(*arrays)
        for y, right in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, wish(theirs)(*arrays))]):
            assert torch.allclose(y, right, rtol=1e-3, atol=1e-4)


def test_what_transforms_do_not_have():
    with pytest.raises(NotSupported, match="gelu: must be differentiated once, backwards, as"):
        torch.func.jvp(torch.func.vjp(lambda x: C.gelu(x).sum(), X)[1], (V[0],), (V[0],))
    with pytest.raises(Exception, match="gelu: must be differentiated once, backwards"):
        torch.compile(lambda x: torch.func.hessian(lambda x: C.gelu(x).sum())(x), backend="eager")(X[0, 0])
    with pytest.raises(NotSupported, match="relu: vmap must be of at least one example; got 0"):
        vmap(C.relu)(X[:0])


def test_dropout_of_examples_is_torchs_of_each():
    for randomness, is_one in (("same", True), ("different", False)):
        y = vmap(lambda x: C.dropout(x, 0.5), randomness=randomness)(torch.ones(2, 64))
        assert torch.equal(y[0], y[1]) == is_one and set(y.flatten().tolist()) == {0.0, 2.0}
    with pytest.raises(RuntimeError, match="vmap: called random operation"):
        vmap(lambda x: C.dropout(x, 0.5))(torch.ones(2, 64))


def test_a_batch_of_gradients_is_refused():
    with pytest.raises(NotSupported, match="gelu: a gradient must not be a batch of them; got one, by"):
        torch.autograd.functional.jacobian(C.gelu, X[0, 0], vectorize=True)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(W.clone())

    def forward(self, x):
        return C.dropout(C.softmax(C.conv(x, self.w, padding=1), dim=1), 0.5, self.training)


def test_a_trace_of_fx_has_a_node_for_each_call():
    model = Network().eval()
    traced = torch.fx.symbolic_trace(model)
    names = [node.target.__name__ for node in traced.graph.nodes if node.op == "call_function"]
    assert names == ["conv", "softmax", "dropout"] and "cydnn_torch_conv(x, w, padding = 1)" in traced.code
    assert torch.equal(traced(X), model(X))
    traced(X.clone()).sum().backward()
    assert traced.w.grad is not None
    kinds = [n.meta["tensor_meta"].shape for n in propagated(traced).graph.nodes if n.op == "call_function"]
    assert kinds == [(3, 8, 6, 5)] * 3


def propagated(traced):
    from torch.fx.passes.shape_prop import ShapeProp
    ShapeProp(traced).propagate(X)
    return traced


def test_a_trace_of_a_replaced_model_is_torchs():
    C.report(reset=True)
    with C.replaced():
        traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.MaxPool2d(2)))
    assert torch.equal(traced(X), T.max_pool2d(X.relu(), 2))
    inside = torch.fx.symbolic_trace(lambda x: T.relu(x))
    assert torch.equal(inside(X), X.relu())
    with C.replaced():
        torch.fx.symbolic_trace(lambda x: T.relu(x))
    assert "relu: 1 by torch: relu: tensors must have values; got a trace of torch.fx" in C.report()

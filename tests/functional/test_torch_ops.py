"""Operators of torch: values and gradients against torch's own, opcheck, compiled graphs, fall-backs."""
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as T

from cydnn import torch as C, torch_attention, torch_operators
from cydnn.status import BadParam, NotSupported

torch.manual_seed(3)
X, W, B = torch.randn(2, 4, 6, 5), torch.randn(8, 2, 3, 3), torch.randn(8)
LAST = X.to(memory_format=torch.channels_last)
M, S, V, R = torch.randn(3, 4), torch.randn(4, 4), torch.randn(4), torch.randn(2, 3, 4)
CASES = {
    "conv": (lambda x, w, b: C.conv(x, w, b, 2, 1, groups=2),
             lambda x, w, b: T.conv2d(x, w, b, 2, 1, groups=2), (X, W, B)),
    "conv channels last": (lambda x, w: C.conv(x, w, groups=2), lambda x, w: T.conv2d(x, w, groups=2),
                           (LAST, W)),
    "linear": (C.linear, T.linear, (R, S, V)), "matmul": (C.matmul, torch.matmul, (R, M.T.contiguous())),
    "grouped_matmul": (lambda x, w: C.grouped_matmul(x, w, torch.tensor([0, 0, 2])),
                       lambda x, w: torch.cat([x[:2] @ w[1], x[2:] @ w[2]]) + 0 * w[0].sum(),
                       (M, torch.stack([S, S + 1, S - 1]))),
    "vector": (C.matmul, torch.matmul, (R, V)), "gelu": (C.gelu, T.gelu, (X,)),
    "relu": (C.relu, T.relu, (LAST,)),
    "softmax": (lambda x: C.softmax(x, 1), lambda x: T.softmax(x, 1), (X,)),
    "log_softmax": (C.log_softmax, lambda x: T.log_softmax(x, -1), (M,)),
    "max_pool": (lambda x: C.max_pool(x, 2), lambda x: T.max_pool2d(x, 2), (X,)),
    "avg_pool": (lambda x: C.avg_pool(x, 3, 1, 1), lambda x: T.avg_pool2d(x, 3, 1, 1), (X,)),
    "lrn": (lambda x: C.local_response_norm(x, 3), lambda x: T.local_response_norm(x, 3), (X,)),
    "batch_norm": (lambda x, w, b: C.batch_norm(x, None, None, w, b, True),
                   lambda x, w, b: T.batch_norm(x, None, None, w, b, True), (X, V, V + 1)),
    "layer_norm": (lambda x, w, b: C.layer_norm(x, (4,), w, b), lambda x, w, b: T.layer_norm(x, (4,), w, b),
                   (R, V, V + 1)),
    "layer_norm, no weight": (lambda x: C.layer_norm(x, (3, 4)), lambda x: T.layer_norm(x, (3, 4)), (R,)),
    "rms_norm": (lambda x, w: C.rms_norm(x, (4,), w), lambda x, w: T.rms_norm(x, (4,), w), (R, V)),
    "instance_norm": (lambda x, w: C.instance_norm(x, weight=w), lambda x, w: T.instance_norm(x, weight=w),
                      (X, V)),
    "attention": (lambda q, k, v: C.attention(q, k, v, is_causal=True),
                  lambda q, k, v: T.scaled_dot_product_attention(q, k, v, is_causal=True), (X, X - 1, X + 1)),
    "attention with a bias": (C.attention, T.scaled_dot_product_attention, (R, R - 1, R + 1, M[:, :3])),
    "attention of shared heads": (lambda q, k: C.attention(q, k, k, enable_gqa=True),
                                  lambda q, k: T.scaled_dot_product_attention(q, k, k, enable_gqa=True),
                                  (X, X[:, :2])),
    "sub": (C.sub, torch.sub, (X, B[:5])), "mul": (C.mul, torch.mul, (X, V[:, None, None])),
    "div": (C.div, torch.div, (X, B[:5].abs() + 1)),
    "a number": (lambda x: C.mul(x, 2.5), lambda x: x * 2.5, (X,)),
    "square": (lambda x: C.mul(x, x), lambda x: x * x, (X,)), "exp": (C.exp, torch.exp, (M,)),
    "sqrt": (C.sqrt, torch.sqrt, (M.abs() + 1,)), "log": (C.log, torch.log, (M.abs() + 1,)),
    "sum": (lambda x: C.sum(x, (1, 3)), lambda x: x.sum((1, 3)), (X,)), "mean": (C.mean, torch.mean, (X,)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_torch(name):
    ours, theirs, arrays = CASES[name]
    mine, own = ([a.detach().clone().requires_grad_() for a in arrays] for _ in range(2))
    y, want = ours(*mine), theirs(*own)
    grad = torch.randn_like(want)
    assert torch.allclose(y, want, rtol=1e-4, atol=1e-5)
    for found, right in zip(torch.autograd.grad(y, mine, grad), torch.autograd.grad(want, own, grad)):
        assert found.dtype == right.dtype and torch.allclose(found, right, rtol=1e-4, atol=1e-5)


def test_running_statistics_move_as_those_of_torch():
    running = [torch.zeros(4), torch.ones(4), torch.zeros(4), torch.ones(4)]
    x = X.clone().requires_grad_()
    C.batch_norm(x, *running[:2], V, V, True).sum().backward()
    T.batch_norm(X, *running[2:], V, V, True)
    assert torch.allclose(torch.cat(running[:2]), torch.cat(running[2:]), atol=1e-6) and x.grad is not None


@pytest.mark.parametrize("name, tensors, options", [
    ("conv", (X, W, B), (1, 1, 1, 2, None)), ("softmax", (X,), (1, None)), ("linear", (R, S, None), (None,)),
    ("batch_norm", (X, None, None, V, V), (True, 0.1, 1e-5, None)), ("relu", (LAST,), (None,)),
    ("attention", (X, X, X, None, None, None), (0.0, False, None, False, None)),
    ("rms_norm", (R, V), ((4,), None, None))])
def test_operators_are_what_torch_expects(name, tensors, options):
    given = [None if t is None else t.clone().requires_grad_() for t in tensors]
    found = torch.library.opcheck(getattr(torch.ops.cydnn, name), (*given, repr(({}, options))))
    assert set(found.values()) == {"SUCCESS"}


def test_a_compiled_network_has_one_graph_and_equal_gradients():
    def network(x, w, b):
        return C.softmax(C.relu(C.conv(x, w, b, padding=1, groups=2)), dim=1).square().sum()
    arrays = [a.clone().requires_grad_() for a in (X, W, B)]
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    pairs = zip(torch.autograd.grad(compiled(*arrays), arrays), torch.autograd.grad(network(*arrays), arrays))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)


def test_a_model_of_torch_calls_ours_and_what_is_refused_is_said():
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 4),
                                torch.nn.ReLU(inplace=True), torch.nn.Unflatten(1, (2, 2)),
                                torch.nn.AdaptiveAvgPool1d(3))
    C.report(reset=True)
    with C.replaced():
        y = model.train()(X)
        y.sum().backward()
    text, mine = C.report(), [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(X).sum().backward()
    assert all(torch.allclose(a, p.grad, atol=1e-4) for a, p in zip(mine, model.parameters()))
    assert T.conv2d is torch.nn.functional.conv2d and "conv2d: 1 calls, 0 by torch" in text
    for name in ("batch_norm", "max_pool2d", "linear"):
        assert f"{name}: 1 calls, 0 by torch" in text
    assert "relu: 2 calls, 0 by torch" in text and "adaptive_avg_pool1d: 1 calls, 1 by torch" in text
    assert "adaptive_avg_pool1d: 1 by torch: adaptive_avg_pool: output_size must divide input's (2,)" in text


def test_a_compiled_model_calls_ours_in_one_graph():
    """Whatever the batch; a call that is refused goes to torch; a trace outside of the block is torch's."""
    layers = torch.nn.Conv2d(4, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True)
    model = torch.nn.Sequential(*layers, torch.nn.Dropout(0.0), torch.nn.AdaptiveAvgPool2d(3))
    compiled, found = torch.compile(model, fullgraph=True, backend="aot_eager"), []
    C.report(reset=True)
    with C.replaced():
        for count in (2, 1, 2):
            compiled(X[:count]).square().sum().backward()
            found.append([p.grad for p in model.parameters()])
            model.zero_grad(set_to_none=True)
    assert "conv2d: 3 calls, 0 by torch" in C.report() and "relu: 3 calls, 0 by torch" in C.report()
    assert "adaptive_avg_pool2d: 3 calls, 3 by torch" in C.report()
    compiled(X).square().sum().backward()
    assert "conv2d: 3 calls, 0 by torch" in C.report()
    assert all(torch.allclose(a, p.grad, atol=1e-4) for a, p in zip(found[0], model.parameters()))


@pytest.mark.skipif(not hasattr(torch.nn.attention, "activate_flash_attention_impl"),
                    reason="torch 2.13 asks for a flash attention")
def test_attention_is_a_flash_attention_of_torch():
    torch.nn.attention.activate_flash_attention_impl("cydnn")
    assert torch.nn.attention.current_flash_attention_impl() == "cydnn"
    torch.nn.attention.restore_flash_attention_impl()
    q, k, v = ((X * n).requires_grad_() for n in (1, 2, 3))
    want = T.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    arrays, grad = [x.detach() for x in (q, k, v)], torch.randn_like(want)
    o, stats, *more = torch_attention.forward(q, k, v, is_causal=True, scale=0.3)
    found = torch_attention.backward(torch_operators.backward_of(torch_attention.ATTENTION))(
        grad, *arrays, o, stats, *more[:4], 0.0, True, None, None, scale=0.3)
    for a, b in zip((o, *found), (want, *torch.autograd.grad(want, (q, k, v), grad))):
        assert torch.allclose(a, b, atol=1e-5)
    with pytest.raises(BadParam, match="dropout_p must be 0 while cydnn is torch's flash attention; got 0.1"):
        torch_attention.forward(*arrays, dropout_p=0.1)
    with pytest.raises(BadParam, match="return_debug_mask must be False"):
        torch_attention.forward(*arrays, return_debug_mask=True)


def test_attention_drops_what_torch_draws():
    """Forward and backward by one seed: the result is linear in the values, and so is its gradient."""
    q, v = (X.clone().requires_grad_() for _ in range(2))
    torch.manual_seed(5)
    with C.replaced():
        C.report(reset=True)
        found = [T.scaled_dot_product_attention(q, q, v, dropout_p=0.4) for _ in range(2)]
    assert "scaled_dot_product_attention: 2 calls, 0 by torch" in C.report()
    torch.manual_seed(5)
    again = C.attention(q, q, v, None, 0.4)
    assert torch.equal(found[0], again) and not torch.equal(*found)
    dv, = torch.autograd.grad(again.sum(), v)
    assert torch.allclose((dv * v).sum(), again.sum(), rtol=1e-4)
    assert torch.equal(C.attention(X, X, X, None, 0.4, seed=3), C.attention(q, X, X, None, 0.4, seed=3))
    with pytest.raises(BadParam, match="attention: seed must be a number where dropout_p is not 0; got None"):
        C.FUNCTIONS["attention"](X, X, X, None, 0.4)


def test_a_compiled_call_draws_anew_each_time():
    for call in (lambda x: C.attention(X, X, x, None, 0.4), lambda x: C.dropout(x, 0.4)):
        compiled, x = torch.compile(call, backend="aot_eager", fullgraph=True), X.clone().requires_grad_()
        first, second = compiled(x), compiled(x)
        assert not torch.equal(first, second)
        dx, = torch.autograd.grad(second.sum(), x)
        assert torch.allclose((dx * x).sum(), second.sum(), rtol=1e-4)


def test_tensors_without_memory_have_shapes():
    x, w = torch.empty(2, 4, 6, 6, device="meta"), torch.empty(8, 4, 3, 3, device="meta", requires_grad=True)
    y = C.dropout(C.conv(x, w), 0.5)
    y.sum().backward()
    assert y.is_meta and y.shape == (2, 8, 4, 4) and w.grad.shape == w.shape
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).to("meta")
    with C.replaced():
        C.report(reset=True)
        assert model(x).shape == (2, 8, 4, 4)
    assert all(line.endswith(" 0 by torch") for line in C.report().splitlines()), C.report()


def test_autocast_is_kept():
    """What a model computes in another type, ours compute in it too."""
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(1, 2),
                                torch.nn.Linear(3, 6), torch.nn.LayerNorm(6))
    with torch.autocast("cpu", torch.bfloat16):
        want = [model[:n](X).dtype for n in (1, 3, 4, 5)]
        with C.replaced():
            C.report(reset=True)
            assert [model[:n](X).dtype for n in (1, 3, 4, 5)] == want and want[0] == torch.bfloat16
    assert all(line.endswith(" 0 by torch") for line in C.report().splitlines()), C.report()


def test_one_image_has_no_batch_dim():
    """A call of torch by the name of its dims, whatever else is a number."""
    layers = torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.AdaptiveAvgPool2d(1))
    w = torch.randn(3, 4, 3, 3)
    x = X[0].clone().requires_grad_()
    want = layers(T.conv2d(x, w)), T.max_pool2d(x, 2), T.avg_pool1d(x[0], 2)
    C.report(reset=True)
    with C.replaced():
        found = layers(T.conv2d(x, w)), T.max_pool2d(x, 2), T.avg_pool1d(x[0], 2)
    assert all(line.endswith(" 0 by torch") for line in C.report().splitlines()), C.report()
    for y, right in zip(found, want):
        assert torch.allclose(y, right, atol=1e-5)
        assert torch.allclose(*(torch.autograd.grad(v.sum(), x)[0] for v in (y, right)), atol=1e-5)


def test_refusals():
    with C.replaced():
        assert torch.equal(T.max_pool2d(X, 2, dilation=2), T.max_pool2d(X, 2, dilation=2))
    assert "max_pool2d: dilation must be 1; got 2" in C.report()
    with pytest.raises(BadParam, match="relu: input: must be a strided tensor, .*; got a nested one"):
        C.relu(torch.nested.nested_tensor([X[0, 0, 0], X[0, 0, 1]]))
    with pytest.raises(BadParam, match="relu: out, device and explain must be left out, as cydnn"):
        C.relu(X, out=X)
    with pytest.raises(NotSupported, match="ceil: pointwise must have a gradient, as an array requires one"):
        C.ceil(X.clone().requires_grad_()).sum().backward()
    with pytest.raises(NotSupported, match="prod: reduction must have a gradient"):
        C.prod(X.clone().requires_grad_()).sum().backward()
    with torch.profiler.profile(), pytest.raises(BadParam, match="one device; got input on cpu and other on"):
        C.add(X, X.to("meta"))
    with pytest.raises(AttributeError, match="no attribute 'conv9'; did you mean conv"):
        C.conv9

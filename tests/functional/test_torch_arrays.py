"""Functions on tensors of torch, against torch's own: values, types, memory formats."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as T

import cydnn
from cydnn import functional as F, torch as torch_functions
from cydnn.status import BadParam

torch.manual_seed(3)
X, W, B = torch.randn(2, 4, 6, 5), torch.randn(8, 2, 3, 3), torch.randn(8)
M, V, Q = torch.randn(3, 4), torch.randn(4), torch.randn(2, 4, 6, 6)
CASES = [
    (lambda: F.conv(X, W, B, 2, 1, groups=2), lambda: T.conv2d(X, W, B, 2, 1, groups=2)),
    (lambda: F.conv(X, W[:, :1], padding="same", groups=4),
     lambda: T.conv2d(X, W[:, :1], padding="same", groups=4)),
    (lambda: F.linear(X, M[:, [0, 1, 2, 3, 0]]), lambda: T.linear(X, M[:, [0, 1, 2, 3, 0]])),
    (lambda: F.matmul(Q, Q.mT[0]), lambda: Q @ Q.mT[0]),
    (lambda: F.max_pool(X, 3, 2, 1), lambda: T.max_pool2d(X, 3, 2, 1)),
    (lambda: F.avg_pool(X, 3, 1, 1, count_include_pad=False),
     lambda: T.avg_pool2d(X, 3, 1, 1, count_include_pad=False)),
    (lambda: F.softmax(X, 2), lambda: T.softmax(X, 2)),
    (lambda: F.layer_norm(X, (6, 5)), lambda: T.layer_norm(X, (6, 5))),
    (lambda: F.rms_norm(M, (4,), V), lambda: T.rms_norm(M, (4,), V)),
    (lambda: F.local_response_norm(X, 3), lambda: T.local_response_norm(X, 3)),
    (lambda: F.gelu(M), lambda: T.gelu(M)),
    (lambda: F.attention(Q, Q, Q, is_causal=True),
     lambda: T.scaled_dot_product_attention(Q, Q, Q, is_causal=True)),
    (lambda: F.attention(Q[0], Q[0], Q[0], Q[0, 0]),
     lambda: T.scaled_dot_product_attention(Q[0], Q[0], Q[0], Q[0, 0])),
    (lambda: F.eq(M.bfloat16(), 0), lambda: M.bfloat16() == 0),
    (lambda: F.where(M > 0, M.double(), 2 * M.double()), lambda: torch.where(M > 0, M, 2 * M).double()),
    (lambda: F.mean(X, (1, 2)), lambda: X.mean((1, 2))),
    (lambda: F.exp(V[0]), lambda: V[0].exp()),
]


@pytest.mark.parametrize("ours, theirs", CASES)
def test_values_and_forms_are_those_of_torch(ours, theirs):
    found, want = ours(), theirs()
    assert (found.dtype, found.shape, found.device) == (want.dtype, want.shape, want.device)
    assert torch.allclose(found.double(), want.double(), rtol=1e-4, atol=1e-5)


def test_memory_formats_and_given_results():
    last = X.to(memory_format=torch.channels_last)
    assert F.conv(last, W, groups=2).is_contiguous(memory_format=torch.channels_last)
    out = torch.empty_like(last)
    assert cydnn.relu(last, out=out) is out and torch.equal(out, X.relu())


@pytest.mark.parametrize("call", [
    lambda T, x: T.layer_norm(x, (6,)), lambda T, x: T.softmax(x, 1),
    lambda T, x: T.conv1d(x, W[:, :, :, 0].repeat(1, 2, 1)),
    lambda T, x: T.max_pool1d(x, 2), lambda T, x: T.rms_norm(x, (6,)), lambda T, x: T.gelu(x),
    lambda T, x: T.group_norm(x, 2)])
def test_results_lie_as_those_of_torch_where_the_input_is_turned(call):
    """So that a view that torch gives of them is one of ours."""
    x = X[:, :, :, 0].transpose(1, 2).contiguous().transpose(1, 2)
    with torch_functions.replaced():
        found = call(T, x)
    assert found.stride() == call(T, x).stride() and torch.allclose(found, call(T, x), atol=1e-5)


def test_autograd_knows_what_is_written():
    """A gradient that would read it as what it was is refused by torch."""
    for call in (cydnn.relu, cydnn.relu.prepare(M), F.add):
        kept, w = M.clone(), M.clone().requires_grad_()
        y = (kept * w).sum()
        call(M, *[2.0] * (call is F.add), out=kept)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
    with torch.inference_mode():
        assert torch.equal(cydnn.relu(M, out=torch.empty(3, 4)), M.relu())


def test_parameters_are_tensors():
    layer = torch.nn.Linear(4, 3)
    with torch.no_grad():
        assert torch.allclose(F.linear(M, layer.weight, layer.bias), layer(M), atol=1e-5)


@pytest.mark.parametrize("call, sentence", [
    (lambda: F.relu(M.clone().requires_grad_()), "relu: input: must not require a gradient, as"),
    (lambda: F.relu(M, out=M.clone().requires_grad_()), "relu: out must not require a gradient; got a"),
    (lambda: F.relu(M, out=np.empty((3, 4), "f4")), "relu: out must be an array of torch, as the others are"),
    (lambda: F.relu(M.numpy(), out=torch.empty(3, 4)), "relu: out must be an array of NumPy, as the others"),
    (lambda: F.relu.prepare(M)(M.clone().requires_grad_()), "relu: tensors must not require a gradient, as"),
    (lambda: F.relu(M.to("meta")), "relu: input: must be on the CPU or a CUDA device; got meta"),
    (lambda: torch.vmap(F.relu)(M), "relu: input: must have memory; got a Tensor without: call"),
    (lambda: F.relu(M.to(torch.cfloat).conj().imag),
     "neither nested, conjugated nor negated; got a negated one"),
    (lambda: F.relu(M.to_sparse()), "relu: input: must be a strided tensor"),
    (lambda: torch_functions.add(M, M.int().numpy()[0, 0]), "other: must be an array or a number of Python"),
    (lambda: F.add(M, V.numpy()), "arrays must be of one library; got input of torch and other of")])
def test_refusals(call, sentence):
    with pytest.raises(BadParam, match=sentence):
        call()

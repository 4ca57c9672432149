"""Calls that record gradients past torch's dispatcher: found again by what they were given, by it alone."""
import contextlib
import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as T
from torch.utils.checkpoint import checkpoint

from cydnn import torch as C, torch_recording
from cydnn._core import Known
from cydnn.functional import forget
from cydnn.status import NotSupported

X, Y, W = (torch.randn(2, 4, 6, 5, requires_grad=True) for _ in range(3))


@pytest.fixture
def made(monkeypatch):
    """The calls that are prepared; none is known before."""
    found = []

    class RecordedCall(torch_recording.RecordedCall):
        def __init__(self, function, arrays, options):
            found.append(function.name)
            super().__init__(function, arrays, options)
    monkeypatch.setattr(torch_recording, "RecordedCall", RecordedCall)
    monkeypatch.setattr(C, "CALLERS", {n: C._caller(f, getattr(torch.ops.cydnn, n))
                                       for n, f in C.FUNCTIONS.items() if n in ("mul", "conv", "relu")})
    return found


def gradients(call, *arrays):
    return torch.autograd.grad(call(*arrays).square().sum(), arrays)


def test_a_call_is_found_again_with_other_tensors(made):
    for pair in ((X, Y), (Y, X), (X, Y)):
        found = zip(gradients(C.mul, *pair), gradients(torch.mul, *pair))
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in found)
    assert made == ["mul"]


@pytest.mark.parametrize("other", [
    lambda: C.mul(X, Y.detach()), lambda: C.mul(X.detach(), Y), lambda: C.mul(X, other=Y),
    lambda: C.mul(X.transpose(0, 1).contiguous().transpose(0, 1), Y), lambda: C.mul(X, Y[:, :, :1]),
    lambda: C.mul(X, 2.5), lambda: torch.no_grad()(C.mul)(X, Y), lambda: C.mul(X, Y, dtype="f64")])
def test_what_is_given_otherwise_is_another_call(made, other):
    C.mul(X, Y)
    y = other()
    assert made == ["mul"] * 2 and y.shape == X.shape
    other()
    assert made == ["mul"] * 2


def test_one_tensor_twice_is_not_the_call_with_two(made):
    dx, = torch.autograd.grad(C.mul(X, X).sum(), X)
    assert torch.allclose(dx, 2 * X)
    assert torch.equal(C.mul(X, Y), X * Y)
    C.conv(X, W[:, :, :3, :3], padding=1)
    with pytest.raises(Exception, match="bias"):
        C.conv(X, W[:, :, :3, :3], "padding", 1)


def test_what_is_saved_is_torchs():
    """Hooks of saved tensors, checkpoints, changes in place."""
    want, = gradients(T.gelu, X)
    with torch.autograd.graph.save_on_cpu():
        y = C.gelu(X)
    assert torch.allclose(torch.autograd.grad(y.square().sum(), X)[0], want, atol=1e-5)
    again = gradients(lambda x: checkpoint(C.gelu, x, use_reentrant=False), X)[0]
    assert torch.allclose(again, want, atol=1e-5)
    changed = X * 1
    y = C.gelu(changed)
    changed.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_running_statistics_move_once_a_step():
    """The backward pass leaves them alone."""
    ours, theirs = torch.nn.BatchNorm2d(4), torch.nn.BatchNorm2d(4)
    for _ in range(2):
        with C.replaced():
            C.report(reset=True)
            ours(X).square().sum().backward()
        theirs(X).square().sum().backward()
    assert "batch_norm: 1 calls, 0 by torch" in C.report()
    for name, value in theirs.state_dict().items():
        assert torch.allclose(ours.state_dict()[name], value, atol=1e-5)
    assert torch.allclose(ours.weight.grad, theirs.weight.grad, atol=1e-3)


def test_a_result_that_no_gradient_reads_may_be_changed():
    """As a ReLU in place behind a batch norm, or a sum in place, changes it."""
    scale, shift = torch.rand(4, requires_grad=True), torch.rand(4, requires_grad=True)

    def block(normed):
        def run(x):
            y = normed(x, None, None, scale, shift, True)
            y += x
            return y.relu_()
        return run
    pairs = zip(gradients(block(C.batch_norm), X), gradients(block(T.batch_norm), X))
    assert all(torch.allclose(a, b, atol=1e-3) for a, b in pairs)


def test_a_subclass_and_a_forward_gradient_take_the_dispatcher(made):
    class Own(torch.Tensor):
        pass
    C.mul(X, Y)
    assert isinstance(C.mul(X.detach().as_subclass(Own), Y), Own) and made == ["mul"]
    with torch.autograd.forward_ad.dual_level():
        C.mul(torch.autograd.forward_ad.make_dual(X.detach(), Y.detach()), Y)
    assert made == ["mul"]


def test_transforms_are_torchs():
    """Those of a replaced model; ours of their own are in test_torch_transforms.py."""
    x = X.detach()
    for transform in (lambda f: torch.func.jvp(f, (x,), (x,))[1],
                      lambda f: torch.func.grad(lambda a: f(a).sum())(x)):
        want = transform(T.gelu)
        with C.replaced():
            C.report(reset=True)
            assert torch.allclose(transform(lambda a: T.gelu(a)), want)
        assert "gelu: 1 by torch: gelu: transforms of torch.func must be left out; got one" in C.report()
    assert torch.allclose(torch.vmap(C.gelu)(x), T.gelu(x), atol=1e-5)


def test_softmax_of_no_dim_is_torchs():
    with pytest.warns(UserWarning, match="Implicit dimension"):
        want = T.softmax(X[0])
        with C.replaced():
            assert torch.allclose(torch.nn.functional.softmax(X[0]), want)


def test_a_memory_begins_anew_when_it_is_full():
    memory = Known(torch.is_grad_enabled, 2)
    for n in range(3):
        memory.keep(n, (0, "other", None), (X,), dict(other=Y, n=n))
    assert memory.find((X,), dict(other=Y, n=0)) is None
    assert memory.find((Y,), dict(other=X, n=2)) == (2, (Y, X, None))
    assert memory.find((X,), dict(other={}, n=2)) is None


def test_a_step_knows_the_calls_of_the_step_before(monkeypatch):
    """A block of replaced() each; functional.forget() forgets them."""
    found = []
    monkeypatch.setattr(torch_recording.RecordedCall, "_prepare", lambda self, arrays: found.append(self))
    monkeypatch.setattr(torch_recording.RecordedCall, "run", lambda self, arrays: arrays[0])
    for is_cast in (False, False, True, True):               # the second kind: in the types of autocast
        with torch.autocast("cpu", torch.bfloat16, enabled=is_cast), C.replaced():
            T.conv2d(Y, W)
    assert len(found) == 2
    forget()
    with C.replaced():
        T.conv2d(Y, W)
    assert len(found) == 3
    forget()


def test_a_first_call_keeps_no_tensor():
    """What a call is remembered by holds neither tensors nor the gradients behind them."""
    w, scale, bias = (torch.randn(n, requires_grad=True) for n in ((8, 3, 3, 3), 8, 8))
    forget()
    with C.replaced():
        x = T.conv2d(torch.randn(2, 3, 8, 8), w, padding=1)
        y = T.batch_norm(x, None, None, scale, bias, training=True)
        refs = [weakref.ref(x), weakref.ref(y)]
        del x
        y.sum().backward()
        del y
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


INPLACE = ("relu", "leaky_relu", "hardtanh", "relu6", "silu", "hardswish", "elu", "threshold", "dropout")


@pytest.mark.parametrize("name", INPLACE)
def test_what_is_written_over_its_input(name):
    """With gradients, without, and under a trace; a leaf that requires one is refused by torch."""
    more = dict(threshold=(0.1, 2.0), dropout=(1.0,)).get(name, ())
    y, (want,) = getattr(T, name)(X, *more), gradients(lambda x: getattr(T, name)(x * 1, *more), X)

    def over(x):
        x = x * 1
        y = getattr(torch.nn.functional, name)(x, *more, inplace=True)
        assert y is x
        return x
    C.report(reset=True)
    with C.replaced():
        assert all(torch.allclose(gradients(over, X)[0], want, atol=1e-4) for _ in range(2))
        with torch.no_grad():
            assert torch.allclose(over(X), y, atol=1e-5)
        with torch.inference_mode():
            over(X)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            getattr(torch.nn.functional, name)(X, *more, inplace=True)
    assert f"{name}: 5 calls, 0 by torch" in C.report()


def test_a_change_of_what_is_saved_is_seen_where_a_call_is_written_over_its_input():
    x = X * 1
    y = x.square()
    with C.replaced(), torch.no_grad():
        torch.nn.functional.relu(x, True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_an_image_of_other_dims_is_torchs():
    with C.replaced():
        C.report(reset=True)
        with pytest.raises(RuntimeError):
            T.max_pool2d(X[0, 0], 2)
        with pytest.raises(TypeError):
            T.relu(X, False, 3)
    assert "max_pool2d: input must have rank 4, or 3 for one image; got 2" in C.report()
    assert "relu: 1 by torch: TypeError: relu() takes 2 positional arguments; got 3" in C.report()

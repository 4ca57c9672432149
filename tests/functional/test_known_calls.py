"""A call that is known runs at once; what lies or is asked otherwise is looked at anew."""
import copy
import pickle

import numpy as np
import pytest

from cydnn import functional as F
from cydnn._core import Caller
from cydnn.status import BadParam


@pytest.fixture(params=["numpy", "torch"])
def make(request):
    """An array of ones of the library."""
    if request.param == "torch":
        return pytest.importorskip("torch").ones
    return lambda *dims, dtype=None: np.ones(dims, dtype or "f4")


@pytest.fixture
def seen(monkeypatch):
    """The calls that were not known, since the functions were forgotten."""
    F.forget()
    calls: list = []
    first = F.Function.first

    def watched(self, *args, **kw):
        calls.append(self.name)
        return first(self, *args, **kw)
    monkeypatch.setattr(F.Function, "first", watched)
    yield calls
    F.forget()


def test_the_second_call_is_known(make, seen):
    x, w = make(1, 2, 4, 4), make(3, 2, 3, 3)
    found = [F.conv(x, w, padding=1), F.conv(x + 0, weight=w, padding=1), F.conv(x, w, None, padding=1)]
    assert seen == ["conv"] and all((y == found[0]).all() for y in found)
    out = found[0] * 0
    assert F.conv(x, w, padding=1, out=out) is out and (out == found[0]).all()
    assert F.conv(x, w, padding=1, explain=True) == F.conv.prepare(x, w, padding=1).explain()
    assert seen == ["conv"]
    F.forget()
    F.conv(x, w, padding=1)
    assert seen == ["conv"] * 2


@pytest.mark.parametrize("other", [
    lambda m: F.add(m(4, 3), m(4, 4)[:, :3]), lambda m: F.add(m(4, 3), m(3)), lambda m: F.add(m(4, 3), 2.0),
    lambda m: F.add(m(4, 3), m(13)[1:].reshape(4, 3)), lambda m: F.add(m(4, 3), m(4, 3), dtype="f16"),
    lambda m: F.add(m(4, 3), m(4, 3), device="ptx:sm_80")])
def test_what_lies_otherwise_is_another_call(make, seen, other):
    usual = F.add(make(4, 3), make(4, 3))
    y = other(make)
    assert len(seen) == 2 and y.shape == usual.shape
    F.add(make(4, 3), make(4, 3))
    other(make)
    assert len(seen) == 2


def test_numbers_are_read_anew(make, seen):
    assert [float(F.add(make(2), n)[0]) for n in (1.0, 2.0, 5.0)] == [2, 3, 6] and seen == ["add"]


def test_options_in_lists_and_without_a_hash(make, seen):
    x = make(1, 2, 4, 4)
    for _ in range(2):
        F.max_pool(x, [2, 2])
        with pytest.raises(BadParam, match="max_pool"):
            F.max_pool(x, {2: 2})
    assert seen == ["max_pool", "max_pool", "max_pool"]


def test_what_does_not_fit_has_pythons_words(make, seen):
    x = make(2)
    F.relu(x)
    for call, words in ((lambda: F.relu(), "missing a required argument"), (lambda: F.relu(x, x), "too many"),
                        (lambda: F.relu(x, pad=1), "unexpected keyword"),
                        (lambda: F.relu(x, input=x), "multiple values")):
        with pytest.raises(TypeError, match=rf"relu\(\) .*{words}"):
            call()


@pytest.mark.parametrize("name", ["conv", "add", "gelu", "sum"])
def test_a_function_is_itself_in_copies(name):
    """A model that holds one can be copied, and sent to another process."""
    function = F.FUNCTIONS[name]
    assert copy.deepcopy(function) is function is pickle.loads(pickle.dumps(function))


def test_how_much_a_caller_holds():
    names = {f"p{i}": None for i in range(33)} | dict(out=None, device=None, explain=False)
    with pytest.raises(ValueError, match="must have <= 32 parameters, 8 of them arrays; got 36 and 0"):
        Caller(names, 0, 0, (), {})


def test_a_tensor_that_wants_a_gradient_is_never_known(seen):
    torch = pytest.importorskip("torch")
    x = torch.ones(3)
    F.relu(x)
    with pytest.raises(BadParam, match="must not require a gradient"):
        F.relu(x.clone().requires_grad_())
    with torch.no_grad():
        assert (F.relu(torch.nn.Parameter(x)) == x).all()


def test_who_looks_on_sees_the_operator():
    """Past torch's dispatcher only where nobody does."""
    torch = pytest.importorskip("torch")
    import cydnn.torch as C
    from torch.utils._python_dispatch import TorchDispatchMode
    called: list = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            called.append(str(operator))
            return operator(*args, **(kwargs or {}))
    x = torch.randn(3, 4)
    right = torch.relu(x)
    assert torch.equal(C.relu(x), right)
    with Mode():
        found = C.relu(x)
    assert called == ["cydnn.relu.default"] and torch.equal(found, right)
    with torch.profiler.profile() as profile:
        C.relu(x)
    assert "cydnn::relu" in {event.key for event in profile.key_averages()}
    assert torch.equal(torch.vmap(C.relu)(x), right)
    assert C.relu(torch.nn.Parameter(x)).requires_grad

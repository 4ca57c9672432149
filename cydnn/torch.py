"""The functions as operators of torch: registered with fakes and gradients, so that autograd records them and
``torch.compile`` does not break its graph at them. Importing it imports torch.

``cydnn.torch.conv(x, w, padding=1)`` is ``cydnn.conv`` with gradients. ``with cydnn.torch.replaced():``
models call ours in place of ``torch.nn.functional``; what ours refuse goes to torch, and ``report()`` says
what and why.
"""
from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import wraps
from operator import index

try:
    import torch
except ModuleNotFoundError as error:
    raise ImportError(f"cydnn.torch: the package torch must be installed; got: {error}") from None

from . import torch_attention
from .functional import FUNCTIONS, Function
from .functional.arrays import of_layout
from .locks import Bounded
from .given import reason
from .names import missing
from .status import BadParam, CydnnError, NotSupported
from .torch_names import NAMES, given as arguments
from .functional.passes import DRAWING, plain
from .torch_operators import backward_of, refusal, registered
from .torch_theirs import FORWARD, fallbacks as _fallbacks, theirs
from .torch_transforms import beyond, noted, one_by_one, proxies, transformed
from .torch_recording import are_plain, has_tangent, inplace, is_transformed, is_watched, known, recorded

_refused = Bounded(4096)                         # calls in place of torch's -> why ours refuse them, or ""
_calls: Counter = Counter()


# ---- What is called ----

COMMON = frozenset(("out", "device", "explain"))

def _caller(function: Function, operator):
    memory = known(function)

    def call(*args, **kw):
        if not (torch.compiler.is_compiling() or is_watched()):
            found = memory.find(args, kw)
            if found is not None:
                return found[0].run(found[1])
            if proxies(args, kw):
                return noted(call, args, kw)
            if COMMON.isdisjoint(kw):
                if are_plain(args, kw):
                    names = dict(zip(function.signature.parameters, args))
                    return recorded(function, memory, {**names, **kw}, args, kw)
                if not any(isinstance(x, torch.Tensor) for x in (*args, *kw.values())):
                    return function(*args, **kw)
        return slow(*args, **kw)

    def whole(*args, **kw):
        arrays, options, out, device, explain = function._bind(*args, **kw)
        if out is not None or device is not None or explain:
            raise BadParam(f"{function.name}: out, device and explain must be left out, as cydnn.torch "
                           f"records gradients; got one: use cydnn.functional.{function.name}")
        numbers = {n: x for n, x in zip(function.arrays, arrays) if isinstance(x, (int, float))}
        tensors = [None if isinstance(x, (int, float)) else x for x in arrays]
        text = repr((numbers, plain(options)))
        why = FORWARD if has_tangent(tensors) else "" if torch.compiler.is_compiling() else beyond()
        if why:
            return theirs(function, arrays, plain(options), why)
        if is_transformed():
            return transformed(function.name, text, *tensors)
        return operator(*tensors, text)

    def by_operator(*args, **kw):
        found = whole(*args, **kw)
        return found[0] if function.saves else found
    slow = _moving(by_operator, whole) if function.name == "batch_norm" else by_operator
    call.__name__ = call.__qualname__ = function.name
    call.__doc__, call.__signature__ = function.__doc__, function.signature
    return call


def _moving(normalized, whole):
    """``batch_norm`` whose running statistics move beside the operator, which changes no argument."""
    def batch_norm(input, running_mean=None, running_var=None, weight=None, bias=None, training=False,
                   momentum=0.1, eps=1e-5, **common):
        if not training or running_mean is None or running_var is None:
            return normalized(input, running_mean, running_var, weight, bias, training, momentum, eps,
                              **common)
        y, mean, rstd = whole(input, None, None, weight, bias, True, momentum, eps, **common)
        with torch.no_grad():
            count = input.numel() // input.shape[1]
            var = (rstd.flatten() ** -2 - eps) * (count / max(count - 1, 1))
            running_mean.lerp_(mean.flatten().to(running_mean.dtype), momentum)
            running_var.lerp_(var.to(running_var.dtype), momentum)
        return y
    return batch_norm


def _drawn(name: str, given: dict) -> dict:
    """The arguments of a function, with the seed of dropout, of torch's generator, where none is given. It is
    a tensor where others look on: a number would be the same in every run of a trace, for every example of a
    batch."""
    share = given.get(DRAWING.get(name), 0.5 if name == "dropout" else 0)
    if not share or given.get("seed") is not None or not given.get("training", True) or name not in DRAWING:
        return given
    if torch.compiler.is_compiling() or is_watched():
        x = given["query" if name == "attention" else "input"]
        return {**given, "seed": torch.randint(1 << 31, (), device=x.device)}
    return {**given, "seed": int(torch.randint(1 << 31, ()))}


def _drawing(function: Function, call):
    """A function of which torch says what is dropped."""
    names = tuple(function.signature.parameters)

    def drawing(*args, **kw):
        if function.name == "dropout" or len(args) > 4 or kw.get("dropout_p"):
            if proxies(args, kw):
                return noted(drawing, args, kw)
            args, kw = (), _drawn(function.name, {**dict(zip(names, args)), **kw})
        return call(*args, **kw)
    return wraps(call)(drawing)


CALLERS = {name: _caller(function, registered(function)) for name, function in FUNCTIONS.items()}
for _name in FUNCTIONS:
    one_by_one(_name)
    one_by_one(f"{_name}_backward")

for _name in DRAWING:
    CALLERS[_name] = _drawing(FUNCTIONS[_name], CALLERS[_name])
torch_attention.register(backward_of(FUNCTIONS["attention"]))


def __getattr__(name):
    if name in CALLERS:
        return CALLERS[name]
    raise missing(f"module {__name__!r}", name, __all__)


def __dir__():
    return sorted(__all__)


# ---- In place of torch.nn.functional ----

MEMORIES = {name: known(FUNCTIONS[row.ours]) for name, row in NAMES.items()}


@torch.compiler.assume_constant_result
def _refusal(name: str, rows, text: str, wanted) -> str:
    """Why a function refuses tensors that lie so, or has no gradient of those that are ``wanted``; "" where
    it does neither. What was looked at once is known."""
    key = name, rows, text, wanted
    if _refused.get(key) is None:
        function = FUNCTIONS[name]
        try:
            said = [None if row is None else of_layout(f"{name}: {n}", *row)
                    for n, row in zip(function.arrays, rows)]
            _refused.setdefault(key, refusal(function, said, text, wanted) or "")
        except CydnnError as error:
            _refused.setdefault(key, error.args[0])
    return _refused.get(key)


def _why_not(function: Function, given) -> str:
    """Why ours do not take these arguments; while torch compiles, what is found out is a constant. In eager
    mode calls without a gradient refuse for themselves."""
    arrays, options, *_ = function._bind(**given)
    moving = inplace(function, options)
    wanted = tuple([i for i, x in enumerate(arrays)
                    if i not in moving and torch.is_grad_enabled()
                    and torch.is_tensor(x) and x.requires_grad])
    if not wanted and not torch.compiler.is_compiling():
        return ""
    rows = tuple([(tuple([index(d) for d in x.shape]), tuple([index(s) for s in x.stride()]), x.dtype)
                  if torch.is_tensor(x) else None for x in arrays])          # an index: no symbol to compile
    numbers = {n: x for n, x in zip(function.arrays, arrays) if isinstance(x, (int, float))}
    return _refusal(function.name, rows, repr((numbers, plain(options))), wanted)


# What autocast makes of floating tensors that these are given: its own type, or, on GPUs, f32.
LOWER = frozenset(("conv1d", "conv2d", "conv3d", "linear", "scaled_dot_product_attention"))
UPPER = frozenset(("layer_norm", "softmax", "log_softmax", "softplus"))


def _cast(name: str, given: dict) -> dict:
    """The arguments as torch's own function would compute with them."""
    place = next((x.device.type for x in given.values() if torch.is_tensor(x)), "cpu")
    known = LOWER | UPPER if place == "cuda" else LOWER
    if name not in known or place not in ("cpu", "cuda") or not torch.is_autocast_enabled(place):
        return given
    kind = torch.get_autocast_dtype(place) if name in LOWER else torch.float32
    is_cast = lambda x: torch.is_tensor(x) and x.is_floating_point() and x.dtype != torch.float64
    return {n: x.to(kind) if is_cast(x) else x for n, x in given.items()}


def _overwritten(call, given: dict):
    """What a call writes over its input, by what torch records of it."""
    return given["input"].copy_(call(**{**given, "input": given["input"].clone()}))


def _replacement(name: str, theirs):
    function, ours, memory = FUNCTIONS[NAMES[name].ours], CALLERS[NAMES[name].ours], MEMORIES[name]

    def call(*args, **kw):
        _calls[name] += 1
        is_short = not (torch.compiler.is_compiling() or is_watched())
        is_cast = torch._C._is_any_autocast_enabled()            # then known as it is after that
        try:
            found = memory.find(args, kw) if is_short and not is_cast else None
            if found is not None:
                return found[0].run(found[1])
            if proxies(args, kw):
                raise NotSupported(f"{name}: tensors must have values; got a trace of torch.fx")
            if not is_short and is_transformed():
                raise NotSupported(f"{name}: transforms of torch.func must be left out; got one")
            given = arguments(name, args, kw)
            if name == "dropout" and not (given.get("training", True) and given.get("p", 0.5)):
                return given["input"]                            # as torch's
            given = _drawn(function.name, _cast(name, given))
            is_over = given.pop("inplace", False)
            is_kept = is_cast and not is_over
            found = memory.find((), given) if is_short and is_kept else None
            if found is not None:
                return found[0].run(found[1])
            why = _why_not(function, given)
            if why:
                _fallbacks[name, why] += 1
                return theirs(*args, **kw)
            if is_short and are_plain(args, kw):
                return recorded(function, memory, given, *(((), given) if is_kept else (args, kw)), is_over)
            return _overwritten(ours, given) if is_over else ours(**given)
        except (CydnnError, TypeError) as error:
            _fallbacks[name, error.args[0] if isinstance(error, CydnnError) else reason(error)] += 1
            return theirs(*args, **kw)
    return call


@contextmanager
def replaced():
    """Inside, the functions of torch.nn.functional that ours stand for are ours, in all threads."""
    room = torch.nn.functional
    before = {name: getattr(room, name) for name in NAMES}
    try:
        for name, theirs in before.items():
            setattr(room, name, _replacement(name, theirs))
        yield
    finally:
        for name, theirs in before.items():
            setattr(room, name, theirs)


def report(reset: bool = False) -> str:
    """How often ``replaced()`` called what, and what went to torch, with the reason; a line each. ``reset``:
    what comes is counted from 0."""
    gone: Counter = Counter()
    for (name, _), count in _fallbacks.items():
        gone[name] += count
    lines = [f"{name}: {count} calls, {gone[name]} by torch" for name, count in _calls.most_common()]
    lines += [f"{name}: {count} by torch: {why}" for (name, why), count in _fallbacks.most_common()]
    if reset:
        _calls.clear()
        _fallbacks.clear()
    return "\n".join(lines) or "nothing was called"


__all__ = [*FUNCTIONS, "NAMES", "replaced", "report"]

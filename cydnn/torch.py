"""The functions as operators of torch: registered with fakes and gradients, so that autograd records them and
``torch.compile`` does not break its graph at them. Importing it imports torch.

``cydnn.torch.conv(x, w, padding=1)`` is ``cydnn.conv`` with gradients. ``with cydnn.torch.replaced():``
models call ours in place of ``torch.nn.functional``; what ours refuse goes to torch, and ``report()`` says
what and why.
"""
from __future__ import annotations

from ast import literal_eval
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache, wraps

try:
    import torch
except ModuleNotFoundError as error:
    raise ImportError(f"cydnn.torch: the package torch must be installed; got: {error}") from None

from . import torch_attention
from .dtypes import boolean, dtype as to_dtype, u8
from .functional import FUNCTIONS, Function
from .functional.arrays import HOST, Said, foreign_name, kind_of
from .functional.backward import gradients, reads_results
from .functional.function import _seen
from .locks import Bounded
from .given import reason, shown
from .names import missing
from .status import BadParam, CydnnError
from .tensor import TensorDesc

LIBRARY = torch.library.Library("cydnn", "DEF")
_backwards = Bounded(4096)                       # (function, layouts, options) -> the backward pass
_passed = Bounded(4096)                          # calls in place of torch's whose gradients are ours
_needs_result: dict = {}                         # function -> its gradients read what it returned
_calls: Counter = Counter()
_fallbacks: Counter = Counter()


# ---- What an operator gets ----

@lru_cache(maxsize=4096)
def _read(options: str) -> tuple:
    return literal_eval(options)


def _arguments(function: Function, tensors, text: str) -> tuple:
    """(arrays and numbers in order, options) of a call."""
    numbers, options = _read(text)
    arrays = [x if x is not None else numbers.get(name) for name, x in zip(function.arrays, tensors)]
    return arrays, options


def _described(name: str, x) -> Said | None:
    """What a tensor says of itself, also one without memory."""
    if x is None or isinstance(x, (int, float)):
        return None
    row = to_dtype(x.dtype)
    is_bool = row is boolean
    desc = TensorDesc(u8 if is_bool else row, [int(d) for d in x.shape], [int(s) for s in x.stride()])
    return Said(desc, HOST, 16, is_bool)


def _empty(like, result):
    """A tensor of a description."""
    desc, is_bool = result
    kind = torch.bool if is_bool else getattr(torch, foreign_name(desc.dtype))
    return like.new_empty_strided(desc.dims, desc.strides, dtype=kind)


def _run(function: Function):
    def run(*given):
        *tensors, text = given
        arrays, options = _arguments(function, tensors, text)
        with torch.no_grad():                    # autograd is above
            found = function._found(arrays, options, None, bool(function.saves)).run(arrays)
        return _filled(function, found, tensors[0])
    return run


def _filled(function: Function, found, like):
    """What an operator gives: the result, and as many tensors as the function may save."""
    if not function.saves:
        return found
    found = found if isinstance(found, tuple) else (found,)
    return (*found, *[like.new_empty(0) for _ in range(1 + function.saves - len(found))])


def _fake(function: Function):
    def fake(*given):
        *tensors, text = given
        arrays, options = _arguments(function, tensors, text)
        said = [_described(name, x) for name, x in zip(function.arrays, arrays)]
        trace, results, is_tuple = function.traced(said, arrays, options, bool(function.saves))
        graph = trace.finish(results)
        made = [_empty(tensors[0], (_seen(graph.tensors[v.uid].desc, v.shape), v.uid in trace.truths))
                for v in results]
        return _filled(function, tuple(made) if is_tuple else made[0], tensors[0])
    return fake


# ---- Backward ----

def _walked(function: Function, arrays, said, options, wanted):
    """(trace, gradients, graph) of the arguments ``wanted``, of ``said``: arguments, result and what was
    saved with it, gradient."""
    count, ends = len(function.arrays), len(function.arrays) + 1 + function.saves
    trace, results, _ = function.traced(said[:count], arrays, options, bool(function.saves))
    descs = {i: said[i].desc for i in wanted}
    grads = [None] * len(results)
    outputs, grads[0] = said[count:count + len(results)], said[ends]
    found = gradients(function.name, trace, results, outputs, grads, descs, (count, ends))
    return trace, found, trace.finish(found, [v.desc for v in found])


def _backward(function: Function):
    def backward(grad, result, saved, *given):
        *tensors, text, wanted = given
        arrays, options = _arguments(function, tensors, text)
        numbers = tuple([x if isinstance(x, (int, float)) else None for x in arrays])
        every = [*arrays, result, *saved, grad]
        kind = kind_of(grad)
        with torch.no_grad():
            key = (function.name, tuple([None if not torch.is_tensor(x) else kind.row(x) for x in every]),
                   numbers, options, tuple(wanted))
            call = _backwards.get(key)
            if call is None:
                names = [f"{function.name}: {n}" for n in (*function.arrays, "result",
                                                           *["saved"] * function.saves, "grad")]
                said = [kind.said(n, x) if torch.is_tensor(x) else None for n, x in zip(names, every)]
                trace, found, graph = _walked(function, arrays, said, options, wanted)
                at = kind, function._place(said, None)
                call = _backwards.setdefault(key, function.assembled(trace, graph, found, said, at, True))
            return list(call.run(every))
    return backward


def _backward_fake(function: Function):
    def fake(grad, result, saved, *given):
        *tensors, text, wanted = given
        dense = lambda d: d if d.is_dense else d.like(d.dims)
        return [_empty(grad, (dense(_described("x", tensors[i]).desc), False)) for i in wanted]
    return fake


def _autograd(function: Function):
    count = len(function.arrays)
    operator = getattr(torch.ops.cydnn, f"{function.name}_backward")

    def setup(ctx, inputs, output):
        *tensors, ctx.text = inputs
        if function.name not in _needs_result:
            arrays, options = _arguments(function, tensors, ctx.text)
            said = [_described(n, x) for n, x in zip(function.arrays, arrays)]
            _needs_result[function.name] = reads_results(
                *function.traced(said, arrays, options, bool(function.saves))[:2])
        ctx.has_result = _needs_result[function.name]
        there = [x for x in tensors if x is not None]
        ctx.places = [i for i, x in enumerate(tensors) if x is not None]
        output, *saved = output if function.saves else (output,)
        ctx.mark_non_differentiable(*saved)
        ctx.save_for_backward(*there, *[output] * ctx.has_result, *saved)

    def backward(ctx, grad, *_):
        there, result = list(ctx.saved_tensors), None
        saved = [there.pop() for _ in range(function.saves)][::-1]
        if ctx.has_result:
            result = there.pop()
        tensors: list = [None] * count
        for i, x in zip(ctx.places, there):
            tensors[i] = x
        wanted = [i for i in range(count) if ctx.needs_input_grad[i]]
        found = iter(operator(grad, result, saved, *tensors, ctx.text, wanted))
        return (*[next(found) if i in wanted else None for i in range(count)], None)
    return setup, backward


def _registered(function: Function):
    """Define the operators of a function: itself, and its backward pass."""
    name = function.name
    tensors = ", ".join(f"Tensor{'' if i == 0 else '?'} {n}" for i, n in enumerate(function.arrays))
    made = ", ".join(["Tensor"] * (1 + function.saves))
    LIBRARY.define(f"{name}({tensors}, str options) -> ({made})")
    LIBRARY.define(f"{name}_backward(Tensor grad, Tensor? result, Tensor[] saved, {tensors}, str options, "
                   "int[] wanted) -> Tensor[]")
    for what, run, fake in ((name, _run(function), _fake(function)),
                            (f"{name}_backward", _backward(function), _backward_fake(function))):
        LIBRARY.impl(what, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"cydnn::{what}", fake, lib=LIBRARY)
    setup, backward = _autograd(function)
    torch.library.register_autograd(f"cydnn::{name}", backward, setup_context=setup, lib=LIBRARY)
    return getattr(torch.ops.cydnn, name)


# ---- What is called ----

def _plain(value):
    """An option as a literal: lists are tuples, types their names."""
    if isinstance(value, (list, tuple)):
        return tuple([_plain(v) for v in value])
    return value if value is None or isinstance(value, (bool, int, float, str)) else to_dtype(value).name


COMMON = frozenset(("out", "device", "explain"))
_TENSORS = (torch.Tensor, torch.nn.Parameter)


def _is_watched(args, kw) -> bool:
    """Somebody looks on: autograd, a trace, a mode, a transform, the profiler, a class of tensors of its own.
    Otherwise the function is called past torch's dispatcher, which would cost four times what it does."""
    c, records = torch._C, torch.is_grad_enabled()
    if (c._len_torch_dispatch_stack() or c._len_torch_function_stack() or c._get_tracing_state() is not None
            or c._functorch.peek_interpreter_stack() is not None or c._autograd._profiler_enabled()):
        return True
    for x in (*args, *kw.values()):
        if type(x) in _TENSORS:
            if records and x.requires_grad:
                return True
        elif isinstance(x, torch.Tensor):
            return True
    return False


def _caller(function: Function, operator):
    def call(*args, **kw):
        if not (torch.compiler.is_compiling() or not COMMON.isdisjoint(kw) or _is_watched(args, kw)):
            return function(*args, **kw)
        found = whole(*args, **kw)
        return found[0] if function.saves else found

    def whole(*args, **kw):
        arrays, options, out, device, explain = function._bind(*args, **kw)
        if out is not None or device is not None or explain:
            raise BadParam(f"{function.name}: out, device and explain must be left out, as cydnn.torch "
                           f"records gradients; got one: use cydnn.functional.{function.name}")
        numbers = {n: x for n, x in zip(function.arrays, arrays) if isinstance(x, (int, float))}
        tensors = [None if isinstance(x, (int, float)) else x for x in arrays]
        return operator(*tensors, repr((numbers, _plain(options))))
    call.__name__ = call.__qualname__ = function.name
    call.__doc__, call.__signature__ = function.__doc__, function.signature
    call.whole = whole                           # with what is saved
    return call


def _moving(normalized):
    """``batch_norm`` whose running statistics move beside the operator, which changes no argument."""
    whole = normalized.whole

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
    return wraps(normalized)(batch_norm)


CALLERS = {name: _caller(function, _registered(function)) for name, function in FUNCTIONS.items()}

CALLERS["batch_norm"] = _moving(CALLERS["batch_norm"])
torch_attention.register(_backward(FUNCTIONS["attention"]))


def __getattr__(name):
    if name in CALLERS:
        return CALLERS[name]
    raise missing(f"module {__name__!r}", name, __all__)


# ---- In place of torch.nn.functional ----

def _pooled(name: str, *order):
    """Arguments of a pool of torch; those that ours does not have must be left at their defaults."""
    others = dict(dilation=1, ceil_mode=False, return_indices=False, divisor_override=None)

    def turned(*args, **kw):
        given = {**dict(zip(("input", "kernel_size", "stride", "padding", *order), args)), **kw}
        for option in [o for o in others if o in given]:
            value = given.pop(option)
            if value not in (others[option], (1,) * (given["input"].dim() - 2)):
                raise BadParam(f"{name}: {option} must be {others[option]}; got {shown(value)}")
        return given
    return turned


def _plainly(name: str):
    """Arguments of a function of torch that has ways of its own to run."""
    def turned(input, *args, inplace=False, _stacklevel=3, **kw):
        if inplace:
            raise BadParam(f"{name}: inplace must be False; got True")
        return dict(zip(FUNCTIONS[REPLACED[name]].signature.parameters, (input, *args)), **kw)
    return turned


REPLACED = {                                     # name in torch.nn.functional -> ours
    **{f"conv{n}d": "conv" for n in (1, 2, 3)}, **{f"avg_pool{n}d": "avg_pool" for n in (1, 2, 3)},
    "max_pool2d": "max_pool", "scaled_dot_product_attention": "attention",
    **{name: name for name in ("linear", "batch_norm", "layer_norm", "rms_norm", "relu", "gelu", "silu",
                               "softplus", "leaky_relu", "elu", "softmax", "log_softmax")}}
TURNED = {"max_pool2d": _pooled("max_pool2d", "dilation", "ceil_mode", "return_indices"),
          **{f"avg_pool{n}d": _pooled(f"avg_pool{n}d", "ceil_mode", "count_include_pad", "divisor_override")
             for n in (1, 2, 3)}}


def _checked(function: Function, given):
    """Raise where a gradient is wanted and a function has none for these arguments. What was looked at once
    is known."""
    arrays, options, *_ = function._bind(**given)
    if function.name == "batch_norm" and options[0]:
        arrays = (arrays[0], None, None, *arrays[3:])
    wanted = tuple([i for i, x in enumerate(arrays) if torch.is_tensor(x) and x.requires_grad])
    if not wanted or not torch.is_grad_enabled():
        return
    text = repr(({}, _plain(options)))
    rows = tuple([(x.shape, x.stride(), x.dtype) if torch.is_tensor(x) else x for x in arrays])
    key = function.name, rows, text, wanted
    if _passed.get(key) is None:
        said = [_described(n, x) for n, x in zip(function.arrays, arrays)]
        made = _fake(function)(*[x if torch.is_tensor(x) else None for x in arrays], text)
        out = [_described("out", x) for x in (made if function.saves else (made,))]
        _walked(function, arrays, [*said, *out, out[0]], options, wanted)
        _passed.setdefault(key, True)


# What autocast makes of floating tensors that these are given: its own type, or, on GPUs, f32.
LOWER = frozenset(("conv1d", "conv2d", "conv3d", "linear", "scaled_dot_product_attention"))
UPPER = frozenset(("layer_norm", "softmax", "log_softmax", "softplus"))


def _cast(name: str, given: dict) -> dict:
    """The arguments as torch's own function would compute with them."""
    place = next((x.device.type for x in given.values() if torch.is_tensor(x)), "cpu")
    known = LOWER | UPPER if place == "cuda" else LOWER
    if name not in known or not torch.is_autocast_enabled(place):
        return given
    kind = torch.get_autocast_dtype(place) if name in LOWER else torch.float32
    is_cast = lambda x: torch.is_tensor(x) and x.is_floating_point() and x.dtype != torch.float64
    return {n: x.to(kind) if is_cast(x) else x for n, x in given.items()}


def _replacement(name: str, theirs):
    function, ours = FUNCTIONS[REPLACED[name]], CALLERS[REPLACED[name]]
    turned = TURNED.get(name) or _plainly(name)

    def call(*args, **kw):
        _calls[name] += 1
        try:
            given = _cast(name, turned(*args, **kw))
            _checked(function, given)
            return ours(**given)
        except (CydnnError, TypeError) as error:
            _fallbacks[name, error.args[0] if isinstance(error, CydnnError) else reason(error)] += 1
            return theirs(*args, **kw)
    return call


@contextmanager
def replaced():
    """Inside, the functions of torch.nn.functional that ours stand for are ours, in all threads."""
    room = torch.nn.functional
    before = {name: getattr(room, name) for name in REPLACED}
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


__all__ = [*FUNCTIONS, "replaced", "report"]

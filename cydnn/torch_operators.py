"""The functions as operators of torch, which ``cydnn.torch`` calls: registered with fakes and gradients."""
from __future__ import annotations

from ast import literal_eval
from functools import lru_cache

import torch

from ._core import CHOSEN
from .functional import Function
from .functional.arrays import HOST, Said, foreign_name, kind_of, of_layout
from .functional.passes import made_of, needs_result, walked
from .locks import Bounded
from .status import BadParam, CydnnError, NotSupported
from .torch_theirs import again

LIBRARY = torch.library.Library("cydnn", "DEF")
_backwards = Bounded(4096)                       # (function, layouts, options) -> the backward pass
DRAWN = frozenset(("seed", "offset"))            # numbers that no plan depends on


@lru_cache(maxsize=4096)
def _read(options: str) -> tuple:
    return literal_eval(options)


def _arguments(function: Function, tensors, text: str) -> tuple:
    """(arrays and numbers in order, options) of a call."""
    numbers, options = _read(text)
    arrays = [x if x is not None else numbers.get(name) for name, x in zip(function.arrays, tensors)]
    return arrays, options


def described(name: str, x) -> Said | None:
    """What a tensor says of itself, also one without memory."""
    if x is None or isinstance(x, (int, float)):
        return None
    return of_layout(name, x.shape, x.stride(), x.dtype)


def described_all(function: Function, arrays) -> list:
    """The same of all arguments of a function."""
    return [described(name, x) for name, x in zip(function.arrays, arrays)]


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


def fake_of(function: Function):
    def fake(*given):
        *tensors, text = given
        arrays, options = _arguments(function, tensors, text)
        places = {x.device: name for name, x in zip(function.arrays, tensors) if x is not None}
        if len(places) > 1:
            what = " and ".join(f"{name} on {place}" for place, name in places.items())
            raise BadParam(f"{function.name}: tensors must be on one device; got {what}")
        said = [described(name, x) or function.absent(name, x) for name, x in zip(function.arrays, arrays)]
        made, is_tuple = made_of(function, said, arrays, options)
        made = [_empty(tensors[0], one) for one in made]
        return _filled(function, tuple(made) if is_tuple else made[0], tensors[0])
    return fake


def refusal(function: Function, said, text: str, wanted) -> str | None:
    """Why a call is refused, or a gradient of the arguments ``wanted`` is; None where both are there.
    ``said``: what the tensors say of themselves."""
    arrays, options = _arguments(function, [None] * len(said), text)
    try:
        made, _ = made_of(function, said, arrays, options)
        if wanted:
            out = [Said(desc, HOST, 16, is_bool) for desc, is_bool in made]
            out += [None] * (1 + function.saves - len(out))
            walked(function, arrays, [*said, *out, out[0]], options, wanted)
    except CydnnError as error:
        return error.args[0]


# ---- Backward ----

def backward_call(function: Function, every, options, wanted):
    """The backward pass of ``every`` tensor or number that a call has: arguments, result, what was saved,
    gradient; None for those that are not read."""
    kind = kind_of(every[-1])
    numbers = tuple([x if isinstance(x, (int, float)) and n not in DRAWN else None
                     for n, x in zip(function.arrays, every)])
    with torch.no_grad():
        key = (function.name, tuple([kind.row(x) if torch.is_tensor(x) else None for x in every]), numbers,
               options, tuple(wanted), CHOSEN.get())
        call = _backwards.get(key)
        if call is None:
            names = [f"{function.name}: {n}" for n in (*function.arrays, "result",
                                                       *["saved"] * function.saves, "grad")]
            said = [kind.said(n, x) if torch.is_tensor(x) else None for n, x in zip(names, every)]
            trace, found, graph = walked(function, every, said, options, wanted)
            at = kind, function._place(said, None)
            call = _backwards.setdefault(key, function.assembled(trace, graph, found, said, at, True))
    return call


def backward_of(function: Function):
    def backward(grad, result, saved, *given):
        *tensors, text, wanted = given
        arrays, options = _arguments(function, tensors, text)
        every = [*arrays, result, *saved, grad]
        with torch.no_grad():
            return list(backward_call(function, every, options, wanted).run(every))
    return backward


def _backward_fake(function: Function):
    def fake(grad, result, saved, *given):
        *tensors, text, wanted = given
        dense = lambda d: d if d.is_dense else d.like(d.dims)
        return [_empty(grad, (dense(described("x", tensors[i]).desc), False)) for i in wanted]
    return fake


def context_of(function: Function, ctx, inputs, output):
    """Keep in autograd's context what the gradients of a call read."""
    *tensors, ctx.text = inputs
    arrays, options = _arguments(function, tensors, ctx.text)
    ctx.has_result = needs_result(function, described_all(function, arrays), arrays, options)
    there = [x for x in tensors if x is not None]
    ctx.places = [i for i, x in enumerate(tensors) if x is not None]
    output, *saved = output if function.saves else (output,)
    ctx.mark_non_differentiable(*saved)
    ctx.save_for_backward(*there, *[output] * ctx.has_result, *saved)


def operands_of(function: Function, ctx) -> tuple:
    """The result or None, what was saved, and the arguments, out of autograd's context."""
    there, result = list(ctx.saved_tensors), None
    saved = [there.pop() for _ in range(function.saves)][::-1]
    if ctx.has_result:
        result = there.pop()
    tensors: list = [None] * len(function.arrays)
    for i, x in zip(ctx.places, there):
        tensors[i] = x
    return result, *saved, *tensors


def _autograd(function: Function):
    count, saves = len(function.arrays), function.saves
    operator = getattr(torch.ops.cydnn, f"{function.name}_backward")

    def setup(ctx, inputs, output):
        context_of(function, ctx, inputs, output)

    def backward(ctx, grad, *_):
        result, *rest = operands_of(function, ctx)
        if torch.is_grad_enabled() and not torch._C._len_torch_dispatch_stack():
            arrays, options = _arguments(function, rest[saves:], ctx.text)
            return *again(function, arrays, options, grad, ctx.needs_input_grad[:count]), None
        wanted = [i for i in range(count) if ctx.needs_input_grad[i]]
        found = iter(operator(grad, result, rest[:saves], *rest[saves:], ctx.text, wanted))
        return (*[next(found) if i in wanted else None for i in range(count)], None)
    return setup, backward


def twice(ctx, *grads):
    """The gradient of a gradient, where a trace or a mode looks on."""
    raise NotSupported("cydnn.torch: a gradient must not be differentiated again, as ours have no gradients "
                       "of their own; got the operator of one: call torch's functions there")


def registered(function: Function):
    """Define the operators of a function: itself, and its backward pass."""
    name = function.name
    tensors = ", ".join(f"Tensor{'' if i == 0 else '?'} {n}" for i, n in enumerate(function.arrays))
    made = ", ".join(["Tensor"] * (1 + function.saves))
    LIBRARY.define(f"{name}({tensors}, str options) -> ({made})")
    LIBRARY.define(f"{name}_backward(Tensor grad, Tensor? result, Tensor[] saved, {tensors}, str options, "
                   "int[] wanted) -> Tensor[]")
    for what, run, fake in ((name, _run(function), fake_of(function)),
                            (f"{name}_backward", backward_of(function), _backward_fake(function))):
        LIBRARY.impl(what, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"cydnn::{what}", fake, lib=LIBRARY)
    torch.library.register_autograd(f"cydnn::{name}_backward", twice, lib=LIBRARY)
    setup, backward = _autograd(function)
    torch.library.register_autograd(f"cydnn::{name}", backward, setup_context=setup, lib=LIBRARY)
    return getattr(torch.ops.cydnn, name)

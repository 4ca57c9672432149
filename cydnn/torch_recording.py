"""Calls on tensors of torch that record gradients past torch's dispatcher, which costs several times what
they do: where autograd alone looks on. What a call was prepared as is found by where its tensors lie."""
from __future__ import annotations

import torch
from torch.autograd import forward_ad

from ._core import CHOSEN, Known
from .device import Chosen
from .functional import Function
from .functional.arrays import kind_of
from .functional.function import MOST
from .functional.passes import needs_result, plain
from .status import NotSupported
from .torch_operators import backward_call, described_all
from .torch_theirs import again

_TENSORS = (torch.Tensor, torch.nn.Parameter)


class Recording(torch.autograd.Function):
    """A node of autograd. What a gradient reads is saved, so that hooks of saved tensors see it."""

    @staticmethod
    def forward(ctx, call, *arrays):
        found = call.forward.run(arrays)
        out, *saved = found if type(found) is tuple else (found,)
        ctx.call = call
        ctx.save_for_backward(*[arrays[i] for i in call.kept], *[out] * call.has_result, *saved)
        return out

    @staticmethod
    def backward(ctx, grad):
        return None, *_gradients(ctx, grad, ctx.needs_input_grad[1:])


class Overwriting(torch.autograd.Function):
    """The same of a function whose result is written over its input ``x``. What a gradient reads is ``kept``,
    a copy of the input that autograd knows as one, or the result where the gradient is the same of both."""

    @staticmethod
    def forward(ctx, call, x, *rest):
        *numbers, kept = rest
        call.forward.run((x if kept is None else kept, *numbers), x)
        ctx.mark_dirty(x)
        ctx.call = call
        ctx.save_for_backward(x if kept is None else kept)
        return x

    @staticmethod
    def backward(ctx, grad):
        return None, *_gradients(ctx, grad, ctx.needs_input_grad[1:-1]), None


def _gradients(ctx, grad, needed) -> list:
    """Of each argument, or None. While the backward pass is recorded, as their own gradients may be asked
    for: by torch's function."""
    call = ctx.call
    if not torch.is_grad_enabled():
        return call.gradients(ctx.saved_tensors, grad, needed)
    arrays = list(call.numbers)
    for i, x in zip(call.kept, ctx.saved_tensors):
        arrays[i] = x
    return again(call.function, arrays, call.options, grad, needed)


class RecordedCall:
    """A call made ready together with its gradients, for tensors of one layout."""

    def __init__(self, function: Function, arrays, options):
        self.function, self.options, self.chosen = function, options, CHOSEN.get()
        self.records = torch.is_grad_enabled() and any(torch.is_tensor(x) and x.requires_grad for x in arrays)
        self.saves = function.saves if self.records else 0
        with torch.no_grad():
            self.forward = function._found(arrays, options, None, bool(self.saves))
        if self.records:
            self._prepare(arrays)

    def _prepare(self, arrays):
        moving = inplace(self.function, self.options)
        self.kept = [i for i, x in enumerate(arrays) if torch.is_tensor(x) and i not in moving]
        self.numbers = [None if torch.is_tensor(x) or i in moving else x for i, x in enumerate(arrays)]
        self.has_result = needs_result(self.function, described_all(self.function, arrays),
                                       arrays, self.options)
        self.row, self.backwards = kind_of(arrays[self.kept[0]]).row, {}

    def run(self, arrays):
        """The result for tensors that lie as those that it was made of."""
        return Recording.apply(self, *arrays) if self.records else self.forward.run(arrays)

    def gradients(self, saved, grad, needed) -> list:
        """The gradient of each argument, or None."""
        every = [*self.numbers, None, *[None] * self.function.saves, grad]
        count, kept = len(self.numbers), len(self.kept)
        for i, x in zip(self.kept, saved):
            every[i] = x
        if self.has_result:
            every[count] = saved[kept]
        rest = saved[kept + self.has_result:]
        every[count + 1:count + 1 + len(rest)] = rest
        if torch._C._functorch.is_legacy_batchedtensor(grad):
            raise NotSupported(f"{self.function.name}: a gradient must not be a batch of them; got one, by "
                               "is_grads_batched or vectorize: take torch.func.jacrev, or vmap of vjp")
        key = self.row(grad), needed
        found = self.backwards.get(key)
        if found is None:
            wanted = [i for i, is_needed in enumerate(needed) if is_needed]
            with Chosen(self.chosen):            # of the forward pass, whatever thread this is
                found = wanted, backward_call(self.function, every, self.options, wanted)
            if len(self.backwards) >= MOST:
                self.backwards.clear()
            self.backwards[key] = found
        grads: list = [None] * count
        for i, x in zip(found[0], found[1].run(every)):
            grads[i] = x
        return grads


READS_EITHER = frozenset(("relu", "leaky_relu", "hardtanh"))    # the slope at y is that at x


class OverwritingCall(RecordedCall):
    """A call of a function of one array and numbers, whose result is written over it."""

    @property
    def reads_either(self) -> bool:
        return self.function.name in READS_EITHER

    def run(self, arrays):
        x = arrays[0]
        if self.records:
            return Overwriting.apply(self, *arrays, None if self.reads_either else x.clone())
        self.forward.run(arrays, x)
        return x


def inplace(function: Function, options) -> tuple:
    """Which arguments a call moves on, and no gradient reads: the running statistics of batch norm."""
    return (1, 2) if function.name == "batch_norm" and options[0] else ()


def known(function: Function) -> Known:
    """A memory of recorded calls of a function."""
    function.memories.append(Known(torch.is_grad_enabled, MOST))
    return function.memories[-1]


def is_watched() -> bool:
    """Somebody but autograd looks on: a trace, a mode, a transform, forward gradients, the profiler."""
    c = torch._C
    return bool(c._len_torch_dispatch_stack() or c._len_torch_function_stack()
                or c._autograd._profiler_enabled() or c._get_tracing_state() is not None
                or c._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0)


def has_tangent(tensors) -> bool:
    """One carries a forward gradient, which an operator of torch would drop."""
    return forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(x).tangent is not None for x in tensors if x is not None)


@torch.compiler.assume_constant_result           # as torch.compile itself enters and leaves transforms
def is_transformed() -> bool:
    """A transform of torch.func other than vmap is at work: it asks for derivatives that ours do not give."""
    stack = torch._C._functorch.get_interpreter_stack()
    return any(one.key() != torch._C._functorch.TransformType.Vmap for one in stack or ())


def are_plain(args, kw) -> bool:
    """No tensor is of a class of its own or without memory, and there is one."""
    tensors = [x for x in (*args, *kw.values()) if isinstance(x, torch.Tensor)]
    return bool(tensors) and all(type(x) in _TENSORS and not x.is_meta for x in tensors)


def recorded(function: Function, memory: Known, given: dict, args, kw, is_over=False):
    """The result of a call that is not known yet. ``given``: its arguments by our names; ``args``, ``kw``: as
    the caller wrote them, by which it is known from now on, unless a seed is drawn each time. Arrays have
    torch's places and names. ``is_over``: the result is written over the input."""
    arrays, options, *_ = function._bind(**given)
    made = (OverwritingCall if is_over else RecordedCall)(function, arrays, plain(options))
    if given.get("seed") is None:
        places = [(name, function._places[name]) for name in function.arrays]
        memory.keep(made, tuple([at if at < len(args) else name if name in kw else None
                                 for name, at in places]), args, kw)
    return made.run(arrays)

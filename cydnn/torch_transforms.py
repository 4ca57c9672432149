"""The functions under the transforms of torch.func, which take a node of autograd whose context is made
apart, and under torch.fx, which traces by proxies. Gradients are of the first order; vmap runs a call an
example."""
from __future__ import annotations

import torch

from .functional import FUNCTIONS
from .status import NotSupported
from .torch_operators import LIBRARY, context_of, operands_of
from .torch_theirs import FORWARD, TWICE


def _once_only(ctx, what: str):
    raise NotSupported(f"{ctx.function.name}: must be differentiated once, backwards, as ours have no "
                       f"gradients of gradients and none forwards; got {what}: call torch's function there")


class Transformed(torch.autograd.Function):
    """A function on (itself, the text of its options, tensors)."""
    generate_vmap_rule = True

    @staticmethod
    def forward(function, text, *tensors):
        return getattr(torch.ops.cydnn, function.name)(*tensors, text)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.function, text, *tensors = inputs
        context_of(ctx.function, ctx, (*tensors, text), output)

    @staticmethod
    def backward(ctx, grad, *_):
        needed = ctx.needs_input_grad[2:]
        wanted = [i for i, is_needed in enumerate(needed) if is_needed]
        found = iter(Gradients.apply(ctx.function, ctx.text, wanted, grad, *operands_of(ctx.function, ctx)))
        return None, None, *[next(found) if is_needed else None for is_needed in needed]

    @staticmethod
    def jvp(ctx, *tangents):
        _once_only(ctx, "a forward gradient")


class Gradients(torch.autograd.Function):
    """The gradients of a function: (itself, options, which arguments, the gradient of the result, the result
    or None, what was saved and the arguments)."""
    generate_vmap_rule = True

    @staticmethod
    def forward(function, text, wanted, grad, result, *rest):
        operator = getattr(torch.ops.cydnn, f"{function.name}_backward")
        saved, tensors = list(rest[:function.saves]), rest[function.saves:]
        return tuple(operator(grad, result, saved, *tensors, text, wanted))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.function = inputs[0]

    @staticmethod
    def backward(ctx, *grads):
        _once_only(ctx, "a gradient of a gradient")

    @staticmethod
    def jvp(ctx, *tangents):
        _once_only(ctx, "a gradient of a gradient")


def one_by_one(name: str):
    """Give the operator of a name its rule of vmap: the examples one after the other."""
    operator = getattr(torch.ops.cydnn, name)

    def rule(info, dims, *args):
        if info.batch_size < 1:
            raise NotSupported(f"{name}: vmap must be of at least one example; got {info.batch_size}")
        found = [operator(*[_example(x, d, i) for x, d in zip(args, dims)]) for i in range(info.batch_size)]
        if isinstance(found[0], torch.Tensor):
            return torch.stack(found), 0
        return type(found[0])([torch.stack(one) for one in zip(*found)]), type(found[0])([0] * len(found[0]))
    torch.library.register_vmap(f"cydnn::{name}", rule, lib=LIBRARY)


def _example(x, dim, i):
    """One of a batch of tensors, or of lists of them; what has no batch is that of all."""
    if isinstance(x, (list, tuple)) and dim is not None:
        return [_example(one, d, i) for one, d in zip(x, dim)]
    return x if dim is None else x.select(dim, i)


def proxies(args, kw) -> list:
    """The arguments that stand for tensors while torch.fx traces."""
    return [x for x in (*args, *kw.values()) if isinstance(x, torch.fx.Proxy)]


def beyond() -> str:
    """What transforms at work want that ours do not have; "" where it is one gradient."""
    kinds = torch._C._functorch.TransformType
    keys = [one.key() for one in torch._C._functorch.get_interpreter_stack() or ()]
    return FORWARD if kinds.Jvp in keys else TWICE if keys.count(kinds.Grad) > 1 else ""


def noted(call, args, kw):
    """The node of a call that torch.fx traces."""
    return torch.overrides.handle_torch_function(call, proxies(args, kw), *args, **kw)


@torch.compiler.allow_in_graph                   # traced through, it would be an operator without transforms
def transformed(name: str, text: str, *tensors):
    """What a function's operator gives, with gradients for transforms."""
    return Transformed.apply(FUNCTIONS[name], text, *tensors)

"""The pointwise operations of a pygraph: one row a method."""
from __future__ import annotations

from inspect import Parameter, Signature

from ..given import real, whole
from ..ops import Pointwise
from .enums import data_type, scalar_type

NOT_SET = data_type.NOT_SET


def _rows(methods: str, arguments: str, mode="{}") -> dict:
    """{method: (mode, arguments)} of methods that are called alike."""
    return {name: (mode.format(name.removesuffix("_backward")), arguments.split())
            for name in methods.split()}


METHODS = {                                      # tensors in the order of the call are the operands x, b, t
    **_rows("add sub mul div add_square logical_and logical_or", "a b"),
    **_rows("max min mod pow", "input0 input1"),
    **_rows("cmp_eq cmp_neq cmp_gt cmp_ge cmp_lt cmp_le", "input comparison"),
    **_rows("bias", "input bias", "add"), **_rows("scale", "input scale", "mul"),
    **_rows("binary_select", "input0 input1 mask"),
    **_rows("sqrt rsqrt exp log neg abs ceil floor sin cos tan erf identity reciprocal logical_not", "input"),
    **_rows("tanh sigmoid elu gelu softplus gelu_approx_tanh", "input", "{}_fwd"),
    **_rows("tanh_backward sigmoid_backward elu_backward gelu_backward softplus_backward "
            "gelu_approx_tanh_backward", "loss input", "{}_bwd")}

ARGUMENTS = dict(negative_slope="relu_lower_clip_slope", lower_clip="relu_lower_clip",
                 upper_clip="relu_upper_clip")  # those that are not called as the attributes are


class PointwiseOperations:
    """Element by element, with the broadcast of NumPy. Backward methods take the gradient and the forward's
    input."""

    def _pointwise(self, method, mode, tensors: dict, compute_data_type, name, **attributes):
        """Write one down; ``tensors``: {argument: tensor} in the order of x, b, t."""
        read = lambda k, v: (whole if k == "axis" else real)(f"{self._named(method, name)}: {k}", v)
        given = {ARGUMENTS.get(k, k): (k, read(k, v)) for k, v in attributes.items() if v is not None}
        made = self._record(method, Pointwise, dict(zip(("x", "b", "t"), tensors.items())), dict(y="OUT_0"),
                            compute_data_type, name, attributes=dict(mode=("mode", mode), **given))
        return made["y"]

    def relu(self, input, negative_slope=None, lower_clip=None, upper_clip=None, compute_data_type=NOT_SET,
             name=""):
        """input where it is above the lower clip, and at most the upper one; the slope goes on below."""
        return self._pointwise("relu", "relu_fwd", dict(input=input), compute_data_type, name,
                               negative_slope=negative_slope, lower_clip=lower_clip, upper_clip=upper_clip)

    def leaky_relu(self, input, negative_slope, compute_data_type=NOT_SET, name=""):
        """``relu`` whose slope must be given."""
        return self._pointwise("leaky_relu", "relu_fwd", dict(input=input), compute_data_type, name,
                               negative_slope=negative_slope)

    def relu_backward(self, loss, input, negative_slope=None, lower_clip=None, upper_clip=None,
                      compute_data_type=NOT_SET, name=""):
        """The gradient of ``relu`` at ``input``, times ``loss``."""
        return self._pointwise("relu_backward", "relu_bwd", dict(loss=loss, input=input), compute_data_type,
                               name, negative_slope=negative_slope, lower_clip=lower_clip,
                               upper_clip=upper_clip)

    def leaky_relu_backward(self, loss, input, negative_slope, compute_data_type=NOT_SET, name=""):
        """``relu_backward`` whose slope must be given."""
        return self._pointwise("leaky_relu_backward", "relu_bwd", dict(loss=loss, input=input),
                               compute_data_type, name, negative_slope=negative_slope)

    def swish(self, input, swish_beta=None, compute_data_type=NOT_SET, name=""):
        """input * sigmoid(swish_beta * input)."""
        return self._pointwise("swish", "swish_fwd", dict(input=input), compute_data_type, name,
                               swish_beta=swish_beta)

    def swish_backward(self, loss, input, compute_data_type=NOT_SET, swish_beta=None, name=""):
        """The gradient of ``swish`` at ``input``, times ``loss``; the compute type stands before the beta."""
        return self._pointwise("swish_backward", "swish_bwd", dict(loss=loss, input=input), compute_data_type,
                               name, swish_beta=swish_beta)

    def gen_index(self, input, axis, compute_data_type=NOT_SET, name=""):
        """The index along ``axis``, in the shape of input."""
        return self._pointwise("gen_index", "gen_index", dict(input=input), compute_data_type, name,
                               axis=axis)


    def floor_mod(self, input0, input1, compute_data_type=NOT_SET, name=""):
        """input0 - floor(input0 / input1) * input1, of the sign of input1, where ``mod`` has that of input0:
        five pointwise operations, fused where an engine takes them."""
        name = self._named("floor_mod", name)
        step = lambda method, *given: getattr(self, method)(*given, compute_data_type, f"{name}::{method}")
        rest = step("mod", input0, input1)
        zero = self.tensor_scalar(0.0, scalar_type.COMPILE_TIME_CONST)
        is_apart = step("cmp_lt", step("mul", rest, input1), zero).set_data_type(data_type.BOOLEAN)
        return self.binary_select(step("add", rest, input1), rest, is_apart, compute_data_type, name)


def _add(method: str, mode: str, arguments: list):
    """A method from its row: the tensors, then compute_data_type and name."""
    any_ = Parameter.POSITIONAL_OR_KEYWORD
    signature = Signature([*(Parameter(p, any_) for p in ("self", *arguments)),
                           Parameter("compute_data_type", any_, default=NOT_SET),
                           Parameter("name", any_, default="")])

    def call(self, *args, **kw):
        try:
            found = signature.bind(self, *args, **kw)
        except TypeError as error:
            raise TypeError(f"{method}{signature}: {error}") from None
        found.apply_defaults()
        given = found.arguments
        return self._pointwise(method, mode, {a: given[a] for a in arguments}, given["compute_data_type"],
                               given["name"])

    call.__name__, call.__qualname__, call.__signature__ = method, f"pygraph.{method}", signature
    call.__doc__ = (f"Pointwise {mode} of {', '.join(arguments)}, with broadcast; "
                    "the result is virtual until set_output(True).")
    setattr(PointwiseOperations, method, call)


for _method, (_mode, _arguments) in METHODS.items():
    _add(_method, _mode, _arguments)

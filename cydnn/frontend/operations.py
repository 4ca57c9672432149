"""The operations of a pygraph: each records what was called; pointwise methods come from a table."""
from __future__ import annotations

from inspect import Parameter, Signature

from ..ops import BatchNormBwd, BatchNormTraining, ConvDgrad, ConvFprop, ConvWgrad, Matmul, Pointwise, Reduction
from ..status import BadParam
from .enums import convolution_mode, cudnnGraphNotSupportedError, data_type, member, reduction_mode, row_of
from .tensor import tensor

# name of the method: (mode, its operands in the order of the call). Backward methods take (loss, input).
_ONE, _TWO = ("x",), ("x", "b")
_POINTWISE = {
    **{n: (n, _TWO) for n in ("add", "sub", "mul", "div", "add_square", "logical_and", "logical_or", "max", "min", "mod", "pow",
                              "cmp_eq", "cmp_neq", "cmp_gt", "cmp_ge", "cmp_lt", "cmp_le")},
    "bias": ("add", _TWO), "scale": ("mul", _TWO), "binary_select": ("binary_select", ("x", "b", "t")),
    **{n: (n, _ONE) for n in ("sqrt", "rsqrt", "exp", "log", "neg", "abs", "ceil", "floor", "sin", "cos", "tan", "erf", "identity",
                              "reciprocal", "logical_not")},
    **{n: (n + "_fwd", _ONE) for n in ("tanh", "sigmoid", "elu", "gelu", "softplus", "gelu_approx_tanh")},
    **{n + "_backward": (n + "_bwd", _TWO) for n in ("tanh", "sigmoid", "elu", "gelu", "softplus", "gelu_approx_tanh")},
}
# the first positional names of the front end, beside a/b
_KEYWORDS = {"add sub mul div add_square logical_and logical_or": ("a", "b"), "max min mod pow": ("input0", "input1"),
             "bias": ("input", "bias"), "scale": ("input", "scale"), "binary_select": ("input0", "input1", "mask"),
             "cmp_eq cmp_neq cmp_gt cmp_ge cmp_lt cmp_le": ("input", "comparison")}
_ANY = Parameter.POSITIONAL_OR_KEYWORD
_KEYWORDS = {name: keys for names, keys in _KEYWORDS.items() for name in names.split()}


class _Step:
    """One operation as it was called: a function of its operand descriptors that makes the op, operands, outputs."""

    def __init__(self, make, inputs, outputs, compute, name, channels_last=False, scalars=()):
        self.make, self.inputs, self.outputs = make, inputs, outputs
        self.compute, self.name, self.channels_last, self.scalars = compute, name, channels_last, dict(scalars)


class Operations:
    """Methods that add one operation each; results are virtual until ``set_output(True)``."""

    def _op(self, make, inputs, outputs, compute_data_type, name, default, channels_last=False, scalars=()):
        """Record an operation; its outputs are virtual until ``set_output(True)``."""
        name = name or f"{default}.{len(self._steps)}"
        for operand, t in inputs.items():
            if t is not None and not isinstance(t, tensor):
                raise BadParam(f"{name}: {operand} must be a tensor of the graph; got {type(t).__name__}")
        made = {o: self._add(tensor(is_virtual=True, name=f"{name}::{o}")) for o in outputs}
        self._steps.append(_Step(make, {k: t for k, t in inputs.items() if t is not None}, made, row_of(compute_data_type), name,
                                 channels_last, scalars))
        return made

    def _conv(self, op, inputs, output, padding, pre_padding, post_padding, stride, dilation, mode, compute, name, default):
        pre, post = (p or padding for p in (pre_padding, post_padding))
        for key, value in (("padding", pre), ("padding", post), ("stride", stride), ("dilation", dilation)):
            if not isinstance(value, (list, tuple)) or not value or not all(hasattr(v, "__index__") for v in value):
                raise BadParam(f"{name or default}: {key} must have one integer for each spatial dim, such as [1, 1]; got {value!r}")
        word = member(name or default, "convolution_mode", convolution_mode, mode).value
        make = lambda compute: op(pre_pad=list(pre), post_pad=list(post), stride=list(stride), dilation=list(dilation), mode=word, compute=compute)
        return self._op(make, inputs, [output], compute, name, default, channels_last=True)[output]

    def conv_fprop(self, image, weight, padding=(), stride=(), dilation=(), convolution_mode=convolution_mode.CROSS_CORRELATION,
                   compute_data_type=data_type.NOT_SET, name="", pre_padding=(), post_padding=()):
        """Y = conv(image, weight); image (n, c, …), weight (k, c/groups, …). Y is channels-last unless its stride is set."""
        return self._conv(ConvFprop, dict(x=image, w=weight), "y", padding, pre_padding, post_padding, stride, dilation, convolution_mode,
                          compute_data_type, name, "conv_fprop")

    def conv_dgrad(self, loss, filter, padding=(), stride=(), dilation=(), convolution_mode=convolution_mode.CROSS_CORRELATION,
                   compute_data_type=data_type.NOT_SET, name="", pre_padding=(), post_padding=()):
        """DX from DY and the filter; set the dim of DX."""
        return self._conv(ConvDgrad, dict(dy=loss, w=filter), "dx", padding, pre_padding, post_padding, stride, dilation, convolution_mode,
                          compute_data_type, name, "conv_dgrad")

    def conv_wgrad(self, image, loss, padding=(), stride=(), dilation=(), convolution_mode=convolution_mode.CROSS_CORRELATION,
                   compute_data_type=data_type.NOT_SET, name="", pre_padding=(), post_padding=()):
        """DW from X and DY; set the dim of DW."""
        return self._conv(ConvWgrad, dict(x=image, dy=loss), "dw", padding, pre_padding, post_padding, stride, dilation, convolution_mode,
                          compute_data_type, name, "conv_wgrad")

    def matmul(self, A, B, compute_data_type=data_type.NOT_SET, padding=0.0, name=""):
        """C[…, m, n] = A[…, m, k] @ B[…, k, n], batch dims broadcast; C is row-major unless its stride is set."""
        if padding:
            raise cudnnGraphNotSupportedError(f"matmul: padding must be 0; got {padding}")
        return self._op(lambda compute: Matmul(compute=compute), dict(a=A, b=B), ["c"], compute_data_type, name, "matmul")["c"]

    def reduction(self, input, mode, compute_data_type=data_type.NOT_SET, name=""):
        """Reduce the dims in which the result's dim (set by the caller) is 1."""
        word = member(name or "reduction", "mode", reduction_mode, mode).value
        make = lambda compute: Reduction(mode=word, compute=compute)
        return self._op(make, dict(x=input), ["y"], compute_data_type, name, "reduction", channels_last=True)["y"]

    def _pointwise(self, mode, operands, compute_data_type, name, default, **attributes):
        attributes = {k: v for k, v in attributes.items() if v is not None}
        make = lambda compute: Pointwise(mode=mode, compute=compute, **attributes)
        return self._op(make, operands, ["y"], compute_data_type, name, default)["y"]

    def relu(self, input, negative_slope=None, lower_clip=None, upper_clip=None, compute_data_type=data_type.NOT_SET, name=""):
        """input where it is positive, negative_slope times it elsewhere, within the clips."""
        return self._pointwise("relu_fwd", dict(x=input), compute_data_type, name, "relu", relu_lower_clip_slope=negative_slope,
                               relu_lower_clip=lower_clip, relu_upper_clip=upper_clip)

    def leaky_relu(self, input, negative_slope, compute_data_type=data_type.NOT_SET, name=""):
        """``relu`` whose slope must be given."""
        return self.relu(input, negative_slope, None, None, compute_data_type, name)

    def relu_backward(self, loss, input, negative_slope=None, lower_clip=None, upper_clip=None, compute_data_type=data_type.NOT_SET, name=""):
        """The gradient of ``relu`` at ``input``, times ``loss``."""
        return self._pointwise("relu_bwd", dict(x=loss, b=input), compute_data_type, name, "relu_backward",
                               relu_lower_clip_slope=negative_slope, relu_lower_clip=lower_clip, relu_upper_clip=upper_clip)

    def leaky_relu_backward(self, loss, input, negative_slope, compute_data_type=data_type.NOT_SET, name=""):
        """``relu_backward`` whose slope must be given."""
        return self.relu_backward(loss, input, negative_slope, None, None, compute_data_type, name)

    def swish(self, input, swish_beta=None, compute_data_type=data_type.NOT_SET, name=""):
        """input * sigmoid(swish_beta * input)."""
        return self._pointwise("swish_fwd", dict(x=input), compute_data_type, name, "swish", swish_beta=swish_beta)

    def swish_backward(self, loss, input, compute_data_type=data_type.NOT_SET, swish_beta=None, name=""):
        """The gradient of ``swish`` at ``input``, times ``loss``; the compute type stands before the beta."""
        return self._pointwise("swish_bwd", dict(x=loss, b=input), compute_data_type, name, "swish_backward", swish_beta=swish_beta)

    def gen_index(self, input, axis, compute_data_type=data_type.NOT_SET, name=""):
        """The index along ``axis``, in the shape of input."""
        return self._pointwise("gen_index", dict(x=input), compute_data_type, name, "gen_index", axis=axis)

    def batchnorm(self, input, scale, bias, in_running_mean=None, in_running_var=None, epsilon=None, momentum=None, peer_stats=(),
                  compute_data_type=data_type.NOT_SET, name=""):
        """[Y, mean, inv_variance, next_running_mean, next_running_var]; the last two None without running inputs. ``momentum`` is needed with them only."""
        running = in_running_mean is not None
        for key, t in (("epsilon", epsilon), ("momentum", momentum))[:1 + running]:
            if t is None:
                raise BadParam(f"{name or 'batchnorm'}: {key} must be a pass-by-value tensor; got None")
        self._by_value_only(name or "batchnorm", peer_stats, epsilon=epsilon, momentum=momentum)
        outputs = ["y", "mean", "rstd"] + (["next_running_mean", "next_running_var"] if running else [])
        scalars = {k: t for k, t in (("epsilon", epsilon), ("factor", momentum)) if t is not None}
        made = self._op(lambda compute: BatchNormTraining(mode="spatial", compute=compute),
                        dict(x=input, scale=scale, bias=bias, running_mean=in_running_mean, running_var=in_running_var), outputs,
                        compute_data_type, name, "batchnorm", scalars=scalars)
        return [made.get(o) for o in ("y", "mean", "rstd", "next_running_mean", "next_running_var")]

    def batchnorm_inference(self, input, mean, inv_variance, scale, bias, compute_data_type=data_type.NOT_SET, name=""):
        """Y = (input - mean) * inv_variance * scale + bias: four pointwise operations, fused where an engine can."""
        name = name or f"batchnorm_inference.{len(self._steps)}"
        centred = self.sub(input, mean, compute_data_type, name + ".sub")
        normal = self.mul(centred, inv_variance, compute_data_type, name + ".mul")
        return self.bias(self.scale(normal, scale, compute_data_type, name + ".scale"), bias, compute_data_type, name + ".bias")

    def batchnorm_backward(self, grad, input, scale, mean, inv_variance, peer_stats=(), compute_data_type=data_type.NOT_SET, name=""):
        """[DX, Dscale, Dbias]; DX is channels-last unless its stride is set."""
        self._by_value_only(name or "batchnorm_backward", peer_stats)
        made = self._op(lambda compute: BatchNormBwd(mode="spatial", compute=compute),
                        dict(x=input, dy=grad, scale=scale, mean=mean, rstd=inv_variance), ["dx", "dscale", "dbias"], compute_data_type, name,
                        "batchnorm_backward", channels_last=True)
        return [made["dx"], made["dscale"], made["dbias"]]

    def _by_value_only(self, name, peer_stats, **scalars):
        if peer_stats:
            raise cudnnGraphNotSupportedError(f"{name}: peer_stats comes with a later release")
        for key, t in scalars.items():
            if t is not None and not getattr(t, "_by_value", False):
                raise BadParam(f"{name}: {key} must be a pass-by-value tensor (is_pass_by_value=True); got {t!r}")


def _add_pointwise(name, mode, operands):
    keywords = _KEYWORDS.get(name, ("loss", "input") if name.endswith("_backward") else ("input",))

    def method(self, *args, compute_data_type=data_type.NOT_SET, name="", **kw):
        count = len(operands)
        rest = list(args[count:])
        compute_data_type = rest.pop(0) if rest else compute_data_type
        name = rest.pop(0) if rest else name
        values = dict(zip(keywords, args[:count]), **kw)
        unknown = [k for k in values if k not in keywords] + rest
        if unknown or len(values) != count:
            raise BadParam(f"{method.__name__}: arguments must be {', '.join(keywords)}, compute_data_type, name; got {', '.join(map(str, [*values, *rest]))}")
        return self._pointwise(mode, dict(zip(operands, (values[k] for k in keywords))), compute_data_type, name, method.__name__)

    method.__name__ = name
    method.__signature__ = Signature([Parameter("self", _ANY), *(Parameter(k, _ANY) for k in keywords),
                                      Parameter("compute_data_type", _ANY, default=data_type.NOT_SET), Parameter("name", _ANY, default="")])
    method.__doc__ = f"Pointwise {mode} of {', '.join(keywords)}, with broadcast; the result is virtual until set_output(True)."
    setattr(Operations, name, method)


for _name, (_mode, _operands) in _POINTWISE.items():
    _add_pointwise(_name, _mode, _operands)


# ---- What comes later, and says so

_LATER = {"normalisation": "genstats layernorm layernorm_backward rmsnorm rmsnorm_backward instancenorm instancenorm_backward adalayernorm "
                           "adalayernorm_backward",
          "attention": "sdpa sdpa_backward sdpa_fp8 sdpa_fp8_backward",
          "resampling": "resample resample_backward",
          "moving data": "concatenate slice reshape transpose rng block_scale_quantize block_scale_dequantize",
          "storing a graph": "serialize deserialize populate_cuda_graph update_cuda_graph"}


def _add_later(name, family):
    def method(self, *args, **kw):
        raise cudnnGraphNotSupportedError(f"{name}: {family} comes with a later release; what is here is listed in docs/api.md")

    method.__name__, method.__doc__, method.is_later = name, f"Comes with a later release ({family}).", True
    setattr(Operations, name, method)


for _family, _names in _LATER.items():
    for _name in _names.split():
        _add_later(_name, _family)

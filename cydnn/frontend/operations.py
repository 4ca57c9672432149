"""The operations of a pygraph: each writes down what was called. Pointwise ones are in pointwise.py, later
ones in later.py."""
from __future__ import annotations

import inspect

import numpy as np

from ..given import real, several, shown, whole, wholes
from ..ops import (BatchNormBwd, BatchNormTraining, ConvDgrad, ConvFprop, ConvWgrad, GenStats, Matmul,
                   MatmulSized, Reduction)
from ..status import BadParam
from .arrays import is_array
from .datatypes import compute_of, type_or_none
from .enums import convolution_mode, data_type, member, reduction_mode
from .steps import Step
from .tensor import FREE, tensor

NOT_SET = data_type.NOT_SET


class Operations:
    """Methods that add one operation each; results are virtual until ``set_output(True)``. An array in place
    of a tensor is ``tensor_like`` of it, and what ``execute`` reads there unless it is given another.

    ``name`` names the operation (default: method and number), and its results: ``name::Y``.
    """

    def _record(self, method, op, inputs, outputs, compute_data_type, name, *, attributes=(), scalars=(),
                channels_last=(), optional=()) -> dict:
        """Write an operation down; returns its results, {operand: tensor}.

        ``inputs``, ``scalars``: {operand: (argument of the method, tensor)}, ``attributes``: {attribute:
        (argument, value)}; ``outputs``: {operand: how the name of the result ends}; ``optional``:
        as ``inputs``, of what may be None, so that an error knows its name.
        """
        name = self._named(method, name)
        given = {o: self._mine(name, *pair) for o, pair in inputs.items()}
        numbers = {o: self._mine(name, *pair) for o, pair in dict(scalars).items()}
        compute = compute_of(name, type_or_none(compute_data_type))
        self._adopt(*given.values(), *numbers.values())
        made = {o: self._added(tensor().set_is_virtual(True).set_name(f"{name}::{end}"))
                for o, end in outputs.items()}
        pairs = {**dict(optional), **dict(attributes), **inputs, **dict(scalars)}
        words = {**{o: argument for o, (argument, _) in pairs.items()}, **outputs}
        values = {a: value for a, (_, value) in dict(attributes).items()}
        self.steps.append(Step(op, values, given, made, name, compute, numbers, tuple(channels_last), words))
        return made

    def _named(self, method, name) -> str:
        if not isinstance(name, str):
            raise BadParam(f"{method}: name must be a text; got {shown(name)}")
        return name or f"{method}.{len(self.steps)}"

    def _adopt(self, *tensors):
        """Own those that no graph has."""
        for t in tensors:
            if t.owner is FREE:
                self._added(t)

    def _mine(self, name, argument, t) -> tensor:
        if is_array(t) and not isinstance(t, (tensor, np.generic)):
            t = self._of_array(t, f"{name}::{argument}")
        if not isinstance(t, tensor) or t.owner not in (self.owner, FREE):
            got = "one of another graph" if isinstance(t, tensor) else type(t).__name__
            raise BadParam(f"{name}: {argument} must be a tensor of the graph; got {got}", node=name,
                           operand=argument, attribute=None)
        return t

    # ---- Convolution ----

    def conv_fprop(self, *args, **kw):
        """Y = conv(image, weight); image (n, c, …), weight (k, c/groups, …). Padding is 0, stride
        and dilation 1 unless given, each a list, or one number for all spatial dims. Y is channels-last
        unless its stride is set. ``pre_padding, post_padding`` may stand in place of ``padding``."""
        return self._conv("conv_fprop", ConvFprop, dict(x="image", w="weight"), ("y", "Y"), args, kw)

    def conv_dgrad(self, *args, **kw):
        """DX from DY and the filter; set the dim of DX. ``pre_padding, post_padding`` may stand in place of
        ``padding``."""
        return self._conv("conv_dgrad", ConvDgrad, dict(dy="loss", w="filter"), ("dx", "DX"), args, kw)

    def conv_wgrad(self, *args, **kw):
        """DW from X and DY; set the dim of DW. ``pre_padding, post_padding`` may stand in place of
        ``padding``."""
        return self._conv("conv_wgrad", ConvWgrad, dict(x="image", dy="loss"), ("dw", "DW"), args, kw)

    def _conv(self, method, op, operands, output, args, kw):
        call = bound(method, tuple(operands.values()), args, kw)
        name = self._named(method, call["name"])
        pads = ("padding", "padding") if "padding" in call else ("pre_padding", "post_padding")
        arguments = dict(zip(("pre_pad", "post_pad", "stride", "dilation"), (*pads, "stride", "dilation")))
        attributes = {o: (argument, whole_numbers(name, argument, call[argument]))
                      for o, argument in arguments.items()}
        mode = member(name, "convolution_mode", convolution_mode, call["convolution_mode"])
        attributes["mode"] = "convolution_mode", mode.name.lower()
        inputs = {o: (argument, call[argument]) for o, argument in operands.items()}
        made = self._record(method, op, inputs, dict([output]), call["compute_data_type"], name,
                            attributes=attributes,
                            channels_last=output[:1])
        return made[output[0]]

    # ---- Matmul, reduction ----

    def matmul(self, A, B, compute_data_type=NOT_SET, padding=0.0, name="", m_override=None, n_override=None,
               k_override=None):
        """C[…, m, n] = A[…, m, k] @ B[…, k, n], batch dims broadcast; C is row-major unless its stride
        is set. ``m_override`` … are tensors of sizes, one for each batch: beyond them C is ``padding``, and
        nothing is summed."""
        name = self._named("matmul", name)
        sizes = dict(m_size=("m_override", m_override), n_size=("n_override", n_override),
                     k_size=("k_override", k_override))
        given = {size: pair for size, pair in sizes.items() if pair[1] is not None}
        number, inputs = real(f"{name}: padding", padding), dict(a=("A", A), b=("B", B))
        attributes = dict(padding=("padding", number)) if given else {}
        return self._record("matmul", MatmulSized if given else Matmul, inputs | given, dict(c="C"),
                            compute_data_type, name, attributes=attributes)["c"]

    def reduction(self, input, mode, compute_data_type=NOT_SET, name="", *, out_dims=None):
        """Reduce the dims in which the result's dim (``out_dims``, or set by the caller) is 1."""
        name = self._named("reduction", name)
        if member(name, "mode", reduction_mode, mode) is reduction_mode.NOT_SET:
            raise BadParam(f"{name}: mode must be set; got {mode}")
        dims = None if out_dims is None else wholes(f"{name}: out_dims", out_dims)
        made = self._record("reduction", Reduction, dict(x=("input", input)), dict(y="Y"), compute_data_type,
                            name,
                            attributes=dict(mode=("mode", mode.name.lower())), channels_last="y")
        return made["y"] if dims is None else made["y"].set_dim(dims)

    def genstats(self, input, compute_data_type=NOT_SET, name=""):
        """[SUM, SQ_SUM]: of each channel over images and positions, the sum and the sum of squares."""
        made = self._record("genstats", GenStats, dict(x=("input", input)), dict(sum="SUM", sq_sum="SQ_SUM"),
                            compute_data_type, name, channels_last=("sum", "sq_sum"))
        return [made["sum"], made["sq_sum"]]

    # ---- Batch normalization ----

    def batchnorm(self, input, scale, bias, in_running_mean=None, in_running_var=None, epsilon=None,
                  momentum=None,
                  peer_stats=(), compute_data_type=NOT_SET, name="", *, rank=None):
        """[Y, mean, inv_variance, next_running_mean, next_running_var]; the last two are None without
        running inputs, which ``momentum`` is needed with. ``epsilon`` and ``momentum`` are tensors of one
        element, by value or in memory. With ``peer_stats`` the statistics are those of several GPUs, each of
        which executes its graph with the same list: a FLOAT tensor of 4 * channels elements for each GPU and
        peer, in the memory of that GPU, zero before its first use. ``rank``: which of them is this GPU's;
        None: the number of the handle's device."""
        name = self._named("batchnorm", name)
        peers, own = self._peers(name, peer_stats, rank)
        inputs = dict(x=("input", input), scale=("scale", scale), bias=("bias", bias))
        outputs = dict(y="Y", mean="MEAN", rstd="INV_VARIANCE")
        scalars = dict(epsilon=("epsilon", epsilon))
        if in_running_mean is not None or in_running_var is not None:
            inputs |= dict(running_mean=("in_running_mean", in_running_mean),
                           running_var=("in_running_var", in_running_var))
            outputs |= dict(next_running_mean="NEXT_RUNNING_MEAN", next_running_var="NEXT_RUNNING_VAR")
            scalars |= dict(factor=("momentum", momentum))
        made = self._record("batchnorm", BatchNormTraining, inputs | peers, outputs, compute_data_type, name,
                            scalars=scalars, attributes=dict(mode=("mode", "spatial")) | own,
                            channels_last=tuple(outputs)[1:])
        return [made.get(o) for o in ("y", "mean", "rstd", "next_running_mean", "next_running_var")]

    def batchnorm_inference(self, input, mean, inv_variance, scale, bias, compute_data_type=NOT_SET, name=""):
        """Y = (input - mean) * inv_variance * scale + bias: four pointwise operations, fused where an
        engine can."""
        name = self._named("batchnorm_inference", name)
        given = dict(input=input, mean=mean, inv_variance=inv_variance, scale=scale, bias=bias)
        for argument, one in given.items():      # before the first of them is written down
            self._mine(name, argument, one)
        return self._normalized(name, compute_data_type, **given)

    def _normalized(self, name, compute_data_type, input, mean, inv_variance, scale, bias) -> tensor:
        """By statistics that are there."""
        t = self.sub(input, mean, compute_data_type, f"{name}::CENTERED")
        t = self.mul(t, inv_variance, compute_data_type, f"{name}::NORMALIZED")
        t = self.mul(t, scale, compute_data_type, f"{name}::SCALED" if bias is not None else name)
        t = t if bias is None else self.add(t, bias, compute_data_type, name)
        return t.set_name(f"{name}::Y")

    def batchnorm_backward(self, grad, input, scale, mean, inv_variance, peer_stats=(),
                           compute_data_type=NOT_SET, name="", *, rank=None):
        """[DX, Dscale, Dbias]; DX is channels-last unless its stride is set. ``peer_stats`` and ``rank`` as
        in ``batchnorm``: then DX is that of the batch of all GPUs, and Dscale and Dbias are the sums over all
        by the number of GPUs."""
        name = self._named("batchnorm_backward", name)
        peers, own = self._peers(name, peer_stats, rank)
        inputs = dict(x=("input", input), dy=("grad", grad), scale=("scale", scale), mean=("mean", mean),
                      rstd=("inv_variance", inv_variance))
        outputs = dict(dx="DX", dscale="DSCALE", dbias="DBIAS")
        made = self._record("batchnorm_backward", BatchNormBwd, inputs | peers, outputs, compute_data_type,
                            name, attributes=dict(mode=("mode", "spatial")) | own, channels_last=outputs)
        return list(made.values())

    def _peers(self, name, peer_stats, rank) -> tuple:
        """(operands, attributes) of the statistics of several GPUs."""
        peers = several(f"{name}: peer_stats", peer_stats, "tensors")
        if rank is None and len(peers) > 1:
            context = self.own_handle.device.context
            if context is None:
                raise BadParam(f"{name}: rank must be given, as no GPU of the handle says which of "
                               f"{len(peers)} peer_stats is its own; got None")
            rank = context.ordinal
        operands = {f"peer_stats.{i}": ("peer_stats", t) for i, t in enumerate(peers)}
        return operands, dict(rank=("rank", whole(f"{name}: rank", rank or 0)))


# ---- The two forms of a convolution ----

_ANY = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _form(*paddings) -> list:
    """The parameters behind the two tensors."""
    lists = [inspect.Parameter(p, _ANY, default=0 if p in paddings else 1)
             for p in (*paddings, "stride", "dilation")]
    rest = dict(convolution_mode=convolution_mode.CROSS_CORRELATION, compute_data_type=NOT_SET, name="")
    return [*lists, *(inspect.Parameter(p, _ANY, default=value) for p, value in rest.items())]


FORMS = _form("padding"), _form("pre_padding", "post_padding")


def bound(method: str, tensors: tuple, args: tuple, kw: dict) -> dict:
    """The arguments of a convolution by name, in the first of its two forms that they fit. Raises
    TypeError."""
    head, errors = [inspect.Parameter(t, _ANY) for t in tensors], []
    has_four_lists = len(args) > 5 and not isinstance(args[5], (str, convolution_mode))
    for form in FORMS[has_four_lists:]:
        signature = inspect.Signature([*head, *form])
        try:
            call = signature.bind(*args, **kw)
        except TypeError as error:
            errors.append(f"{method}: {error}; its arguments are {', '.join(signature.parameters)}")
            continue
        call.apply_defaults()
        return call.arguments
    raise TypeError("\n".join(errors))


def whole_numbers(name: str, argument: str, values) -> list[int] | int:
    """One for each spatial dim, in a sequence of any kind, or one for all of them."""
    for read in (whole, wholes):
        try:
            found = read(f"{name}: {argument}", values)
        except BadParam:
            continue
        if found != ():
            return found if read is whole else list(found)
    raise BadParam(f"{name}: {argument} must have one integer for each spatial dim, such as [1, 1], or "
                   f"be one for all; got {shown(values)}")


for _method, _tensors in (("conv_fprop", ("image", "weight")), ("conv_dgrad", ("loss", "filter")),
                          ("conv_wgrad", ("image", "loss"))):
    getattr(Operations, _method).__signature__ = inspect.Signature(
        [*(inspect.Parameter(p, _ANY) for p in ("self", *_tensors)), *FORMS[0]])

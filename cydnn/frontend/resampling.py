"""Resampling as operations of a pygraph: pooling and interpolation of images."""
from __future__ import annotations

from fractions import Fraction

from ..given import flag, shown
from ..ops import ResampleBwd, ResampleFwd
from ..ops.attribute import in_units
from ..status import BadParam
from .enums import data_type, member, padding_mode, resample_mode

NOT_SET = data_type.NOT_SET
MODES = dict(AVGPOOL_EXCLUDE_PADDING="avg_exclude_padding", AVGPOOL_INCLUDE_PADDING="avg_include_padding",
             BILINEAR="bilinear", NEAREST="nearest", MAXPOOL="max")


class ResamplingOperations:
    """``window``, paddings and ``stride`` have one number for each spatial dim. Paddings and strides may be
    fractions: numbers, or pairs (numerator, denominator)."""

    def resample(self, input, resampling_mode, padding_mode, window, pre_padding, post_padding, stride,
                 generate_index=False, propagate_nan=False, compute_data_type=NOT_SET, name=""):
        """[Y, Index]: what the windows of the input give, and for maxima the number of the first largest cell
        of each window, where ``generate_index`` (else None); set the type of Index (default INT32)."""
        name = self._named("resample", name)
        attributes = resampled(name, ResampleFwd, resampling_mode, padding_mode, window, pre_padding,
                               post_padding, stride, propagate_nan)
        outputs = dict(y="Y")
        if flag(f"{name}: generate_index", generate_index):
            outputs["index"] = "INDEX"
        made = self._record("resample", ResampleFwd, dict(x=("input", input)), outputs, compute_data_type,
                            name, attributes=attributes)
        if "index" in made:
            made["index"].set_data_type(data_type.INT32)
        return [made["y"], made.get("index")]

    def resample_backward(self, loss, resampling_mode, padding_mode, window, pre_padding, post_padding,
                          stride, input=None, output=None, index=None, propagate_nan=False,
                          compute_data_type=NOT_SET, name=""):
        """DX: the gradient of ``resample``. Maxima need ``index``, or the forward's ``input``; without input
        set the dim of DX."""
        name = self._named("resample_backward", name)
        attributes = resampled(name, ResampleBwd, resampling_mode, padding_mode, window, pre_padding,
                               post_padding, stride, propagate_nan)
        given = dict(dy=("loss", loss), x=("input", input), y=("output", output), index=("index", index))
        inputs = {o: pair for o, pair in given.items() if pair[1] is not None}
        return self._record("resample_backward", ResampleBwd, inputs, dict(dx="DX"), compute_data_type, name,
                            attributes=attributes, optional=given)["dx"]


def resampled(name, op, mode, padding, window, pre, post, stride, propagate_nan) -> dict:
    """The attributes of a resample: {attribute: (argument, value)}."""
    mode = member(name, "resampling_mode", resample_mode, mode)
    padding = member(name, "padding_mode", padding_mode, padding)
    for argument, one in (("resampling_mode", mode), ("padding_mode", padding)):
        if one.name == "NOT_SET":
            raise BadParam(f"{name}: {argument} must be set; got {one}")
    lists = dict(window=("window", window), pre_pad=("pre_padding", pre), post_pad=("post_padding", post),
                 stride=("stride", stride))
    found = in_units(name, op, {attribute: fractions(f"{name}: {argument}", values)
                                for attribute, (argument, values) in lists.items()})
    words = {attribute: argument for attribute, (argument, _) in lists.items()}
    return dict(mode=("resampling_mode", MODES[mode.name]),
                padding=("padding_mode", padding.name.removesuffix("_PAD").removesuffix("_VAL").lower()),
                nan=("propagate_nan", "propagate" if flag(f"{name}: propagate_nan", propagate_nan)
                     else "ignore"), **{a: (words.get(a, "stride"), value) for a, value in found.items()})


def fractions(where: str, values) -> list[Fraction]:
    """A list of numbers or pairs. Raises BadParam."""
    try:
        return [Fraction(*v) if isinstance(v, (tuple, list)) else Fraction(v) for v in values]
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise BadParam(f"{where} must have a number, or a pair (numerator, denominator), for each spatial "
                       f"dim; got {shown(values)}") from None

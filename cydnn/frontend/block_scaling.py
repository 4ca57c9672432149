"""The operations of a pygraph on numbers of few bits that have a scale for each block of them."""
from __future__ import annotations

from ..given import flag, whole, wholes
from ..ops import BlockScaleDequantize, BlockScaleQuantize
from ..status import BadParam
from .enums import data_type

NOT_SET = data_type.NOT_SET


class BlockScaleOperations:
    """Scales of reordering F8_128x4 lie in tiles, as the tensor cores of Blackwell take them; their memory
    has whole tiles of 128 rows and 4 columns, whatever their dim says. Tensors of FP4_E2M1 count numbers, of
    which a byte holds two along the dim of stride 1, the first in its lower half."""

    def block_scale_dequantize(self, input, descale, block_size, is_negative_scale=False,
                               compute_data_type=NOT_SET, name=""):
        """Y: each element times the scale of its block. ``block_size``: elements of each dim that share one,
        those of the last dims where there are fewer; a number: along the dim that has fewer scales, else the
        last. A scale with a sign is read with it, whatever ``is_negative_scale`` says."""
        name = self._named("block_scale_dequantize", name)
        flag(f"{name}: is_negative_scale", is_negative_scale)
        x, scale = self._mine(name, "input", input), self._mine(name, "descale", descale)
        if hasattr(block_size, "__index__"):
            block = _along(x.get_dim(), scale.get_dim(), whole(f"{name}: block_size", block_size))
        else:
            block = list(wholes(f"{name}: block_size", block_size))
        return self._record("block_scale_dequantize", BlockScaleDequantize,
                            dict(x=("input", input), scale=("descale", descale)), dict(y="Y"),
                            compute_data_type, name, attributes=dict(block=("block_size", block)))["y"]

    def block_scale_quantize(self, input, block_size, axis=None, transpose=False, compute_data_type=NOT_SET,
                             name=""):
        """[Y, scale]: the least scale of its type with which a block of elements along ``axis`` (None or -1:
        the last dim) fits the type of Y, and the elements by it. Set the data types of both. With
        ``transpose`` the axis is innermost in results whose stride is not set."""
        name = self._named("block_scale_quantize", name)
        at = -1 if axis is None else whole(f"{name}: axis", axis)
        if at < -1:
            raise BadParam(f"{name}: axis must be a dim, or -1 for the last; got {at}")
        is_turned = flag(f"{name}: transpose", transpose)
        made = self._record("block_scale_quantize", BlockScaleQuantize, dict(x=("input", input)),
                            dict(y="Y", scale="SCALE"), compute_data_type, name,
                            attributes=dict(block=("block_size", whole(f"{name}: block_size", block_size)),
                                            axis=("axis", at)))
        step = self.steps[-1]
        step.words |= dict(to="data_type of Y", scales="data_type of SCALE")
        step.innermost = at if is_turned else None
        return [made["y"], made["scale"]]


def _along(dims: list, scales: list, size: int) -> list | int:
    """Blocks of so many elements along the one dim that has fewer scales; a number where none is the one."""
    fewer = [i for i, (n, m) in enumerate(zip(dims, scales)) if m < n]
    if len(dims) != len(scales) or len(fewer) != 1:
        return size
    return [size if i == fewer[0] else 1 for i in range(len(dims))]

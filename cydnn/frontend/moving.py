"""The operations of a pygraph that move elements and compute nothing."""
from __future__ import annotations

from ..given import several, shown, whole, wholes
from ..ops import Concatenate, Reshape, Slice, Transpose
from ..status import BadParam
from ..tensor import MOST
from .enums import data_type, member, reshape_mode

NOT_SET, VIEW_ONLY = data_type.NOT_SET, reshape_mode.VIEW_ONLY


class MovingOperations:
    """Nothing is launched where a virtual result may lie in its input's memory. A virtual result has its
    input's type unless one is set."""

    def concatenate(self, inputs, axis, in_place_index=None, name=""):
        """The inputs behind each other along a dim. The one with number ``in_place_index`` may be given where
        it lies in the result, and is not copied then."""
        name = self._named("concatenate", name)
        inputs = several(f"{name}: inputs", inputs, "tensors")
        if not inputs:
            raise BadParam(f"{name}: inputs must be at least one tensor; got none")
        place = -1 if in_place_index is None else whole(f"{name}: in_place_index", in_place_index)
        if in_place_index is not None and place < 0:
            raise BadParam(f"{name}: in_place_index must be >= 0, or None; got {place}")
        return self._record("concatenate", Concatenate, {f"inputs.{i}": ("inputs", t) for i, t in
                                                         enumerate(inputs)}, dict(y="Y"), NOT_SET, name,
                            attributes=dict(axis=("axis", axis), in_place=("in_place_index", place)))["y"]

    def slice(self, input, slices=(), compute_data_type=NOT_SET, name=""):
        """``input[slices]``, one Python slice for each dim, none of whose numbers is negative. The result has
        the input's type and strides unless they are set."""
        name = self._named("slice", name)
        slices = several(f"{name}: slices", slices, "slices")
        found = [slice_of(f"{name}: slices", one) for one in slices]
        starts, stops, steps = ([one[i] for one in found] for i in range(3))
        return self._record("slice", Slice, dict(x=("input", input)), dict(y="Y"), compute_data_type, name,
                            attributes=dict(start=("slices", starts), stop=("slices", stops),
                                            step=("slices", steps)))["y"]

    def reshape(self, input, name="", reshape_mode=VIEW_ONLY):
        """The elements in row-major order in the dims that are set for the result, channels-last unless its
        stride is set."""
        name = self._named("reshape", name)
        mode = member(name, "reshape_mode", type(VIEW_ONLY), reshape_mode)
        return self._record("reshape", Reshape, dict(x=("input", input)), dict(y="Y"), NOT_SET, name,
                            attributes=dict(mode=("reshape_mode", mode.name.lower())), channels_last="y")["y"]

    def transpose(self, input, permutation, compute_data_type=NOT_SET, name=""):
        """Dim i of the result is dim permutation[i] of the input, whose strides it has unless others are
        set."""
        name = self._named("transpose", name)
        order = list(wholes(f"{name}: permutation", permutation))
        return self._record("transpose", Transpose, dict(x=("input", input)), dict(y="Y"), compute_data_type,
                            name, attributes=dict(permutation=("permutation", order)))["y"]


def slice_of(where: str, given) -> tuple:
    """(start, stop, step) of a Python slice. Raises BadParam."""
    if not isinstance(given, slice):
        raise BadParam(f"{where} must be Python slices; got {shown(given)}")
    found = [default if n is None else whole(where, n)
             for n, default in zip((given.start, given.stop, given.step), (0, MOST, 1))]
    if min(found) < 0 or not found[2]:
        raise BadParam(f"{where} must have numbers >= 0, and steps >= 1; got {shown(given)}")
    return tuple(found)

"""Rotary embedding of a pygraph: by angles, as the package has it, or by their cosines and sines."""
from __future__ import annotations

from ..given import flag, real, whole
from ..ops import Rope
from ..status import BadParam
from .enums import data_type, scalar_type
from .tensor import tensor

NOT_SET = data_type.NOT_SET


class TurningOperations:
    """Methods that turn pairs of a row's elements."""

    def rope(self, input, freqs=None, output_scale=1.0, rope_dim=0, compute_data_type=NOT_SET, name="", *,
             cos=None, sin=None, interleaved=False):
        """Y: the last ``rope_dim`` elements of each row (0: all) turned, element i and the one half of them
        behind it by the angle ``freqs[s, 0, 0, i]``, and all times ``output_scale``. In place of ``freqs``,
        ``cos`` and ``sin`` (…, s, r), with the input's other dims, or 1: the first 2 * r are turned,
        neighbours where ``interleaved``."""
        return self._rope("rope", "input", input, freqs, output_scale, rope_dim, compute_data_type, name,
                          (cos, sin, interleaved), False)

    def rope_backward(self, dY, freqs=None, output_scale=1.0, rope_dim=0, compute_data_type=NOT_SET, name="",
                      *, cos=None, sin=None, interleaved=False):
        """DX: the gradient of ``rope``, which turns back."""
        return self._rope("rope_backward", "dY", dY, freqs, output_scale, rope_dim, compute_data_type, name,
                          (cos, sin, interleaved), True)

    def _rope(self, method, argument, x, freqs, output_scale, rope_dim, compute_data_type, name, tables,
              inverse):
        name = self._named(method, name)
        cos, sin, interleaved = tables
        scale, count = real(f"{name}: output_scale", output_scale), whole(f"{name}: rope_dim", rope_dim)
        pairing = "interleaved" if flag(f"{name}: interleaved", interleaved) else "half"
        if (freqs is None) == (cos is None) or (cos is None) != (sin is None):
            raise BadParam(f"{name}: freqs must be given, or cos and sin in its place; got "
                           f"{'neither' if freqs is None and cos is None else 'others'}")
        if cos is not None and (scale != 1 or count):
            raise BadParam(f"{name}: output_scale and rope_dim must be given with freqs; got {scale} and "
                           f"{count}")
        with self._whole():
            x = self._mine(name, argument, x)
            if cos is None:
                return self._by_angles(method, argument, x, freqs, scale, count, compute_data_type, name,
                                       inverse)
            return self._turned(method, argument, x, cos, sin, pairing, inverse, compute_data_type, name)

    def _turned(self, method, argument, x, cos, sin, pairing, inverse, compute_data_type, name) -> tensor:
        inputs = dict(x=(argument, x), cos=("cos", cos), sin=("sin", sin))
        return self._record(method, Rope, inputs, dict(y="Y"), compute_data_type, name, attributes=dict(
            pairing=("interleaved", pairing), inverse=("inverse", inverse)))["y"]

    def _by_angles(self, method, argument, x, freqs, scale, count, compute_data_type, name, inverse):
        """The rows' ends turned by the cosines and sines of angles, their beginnings scaled."""
        dims, angles = x.get_dim(), self._mine(name, "freqs", freqs).get_dim()
        count = count or (dims or [0])[-1]
        if len(dims) != 4 or count % 2 or not 0 < count <= dims[3]:
            raise BadParam(f"{name}: {argument} must have its dim of rank 4 set, and rope_dim be even and at "
                           f"most its last; got {dims} and {count}")
        if len(angles) != 4 or angles[0] < dims[2] or angles[1:3] != [1, 1] or 2 * angles[3] < count:
            raise BadParam(f"{name}: freqs must be of dim [{dims[2]}, 1, 1, {count}], or more; got {angles}")
        part = [slice(0, dims[2]), slice(0, 1), slice(0, 1), slice(0, count // 2)]
        freqs = self.transpose(self.slice(freqs, part, name=f"{name}::part"), [1, 2, 0, 3],
                               name=f"{name}::rows")
        cos, sin = (self._scaled(made(freqs, name=f"{name}::{made.__name__}"), scale, name)
                    for made in (self.cos, self.sin))
        if count == dims[3]:
            return self._turned(method, argument, x, cos, sin, "half", inverse, compute_data_type, name)
        at = [slice(0, n) for n in dims[:3]]
        head, tail = (self.slice(x, [*at, slice(*ends)], name=f"{name}::from_{ends[0]}")
                      for ends in ((0, dims[3] - count), (dims[3] - count, dims[3])))
        tail = self._turned(method, argument, tail, cos, sin, "half", inverse, compute_data_type,
                            f"{name}::turned")
        kind = x.get_data_type() if x.is_virtual or x.get_data_type() is not NOT_SET else self.types[0]
        head = self._scaled(head, scale, name, keeps=kind is self.types[1])
        return self.concatenate([head, tail], 3, name=name)

    def _scaled(self, t, scale, name, keeps=True) -> tensor:
        """A tensor times a number, of the type of virtual tensors; as it is where that changes nothing, but
        for one of another type (not ``keeps``)."""
        if scale == 1 and keeps:
            return t
        factor = self.tensor_scalar(scale, scalar_type.COMPILE_TIME_CONST)
        return self.mul(t, factor, name=f"{name}::{len(self.steps)}")

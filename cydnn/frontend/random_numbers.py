"""Random tensors as operations of a pygraph."""
from __future__ import annotations

from ..given import real, whole
from ..ops import Rng
from ..status import BadParam
from .enums import data_type, member, rng_distribution, scalar_type
from .tensor import tensor

NOT_SET, BERNOULLI = data_type.NOT_SET, rng_distribution.BERNOULLI


class RandomOperations:
    """A random tensor follows from seed, offset and the place in it alone."""

    def rng(self, seed, offset=0, distribution=BERNOULLI, probability=0.5, minimum=0.0, maximum=1.0, mean=0.0,
            standard_deviation=1.0, dim=(), stride=(), compute_data_type=NOT_SET, name=""):
        """Y, of ``dim`` and ``stride`` (or set them): 1 with ``probability`` and else 0; uniform numbers from
        minimum to maximum; or normal ones. ``seed`` and ``offset``: whole numbers, or tensors of one, by
        value or in memory. ``rng`` of 1 - p keeps what dropout with p keeps."""
        name = self._named("rng", name)
        way = member(name, "distribution", rng_distribution, distribution)
        if way.name == "NOT_SET":
            raise BadParam(f"{name}: distribution must be set; got {way}")
        values = dict(probability=probability, minimum=minimum, maximum=maximum, mean=mean,
                      standard_deviation=standard_deviation)
        words = dict(low="minimum", high="maximum", stdev="standard_deviation")
        given = {a: (words.get(a, a), real(f"{name}: {words.get(a, a)}", values[words.get(a, a)]))
                 for a in ("probability", "low", "high", "mean", "stdev")}
        scalars = {argument: (argument, self._whole_number(f"{name}: {argument}", number))
                   for argument, number in (("seed", seed), ("offset", offset))}
        made = self._record("rng", Rng, {}, dict(y="Y"), compute_data_type, name, scalars=scalars,
                            attributes=dict(distribution=("distribution", way.name.lower()), **given))["y"]
        return made.set_dim(dim).set_stride(stride) if len(dim) else made

    def _whole_number(self, where, number) -> tensor:
        """A tensor, or a whole number as one."""
        if isinstance(number, tensor):
            return number
        return self.tensor_scalar(whole(where, number), scalar_type.COMPILE_TIME_CONST)

"""Dropout of attention's weights: what callers of pygraph give for it, as attributes and operands."""
from __future__ import annotations

from ..given import real, shown
from ..ops import Pointwise, Sdpa, rows
from ..status import BadParam
from .enums import data_type, scalar_type
from .tensor import tensor

FORMS = "(probability, seed, offset), or (mask, scale) of tensors"


class DroppingOperations:
    """The parts of ``sdpa`` and ``sdpa_backward`` that drop weights."""

    def _dropped(self, name, dropout, extras: dict) -> tuple:
        """({attribute: (argument, value)}, {operand: (argument, tensor)} with the ``extras``, {number:
        (argument, tensor)})."""
        if dropout is None:
            return {}, extras, {}
        if not isinstance(dropout, (tuple, list)) or len(dropout) not in (2, 3):
            raise BadParam(f"{name}: dropout must be {FORMS}; got {shown(dropout)}")
        if isinstance(dropout[0], tensor):       # the third is the inverse of the second
            return *self._masked(name, dropout[:2], extras), {}
        share = real(f"{name}: dropout's probability", dropout[0])
        if not 0 <= share <= 1 or len(dropout) != 3:
            raise BadParam(f"{name}: dropout must be {FORMS}, the probability 0 to 1; got {shown(dropout)}")
        numbers = {n: ("dropout", self._whole_number(f"{name}: dropout's {n}", value))
                   for n, value in zip(("seed", "offset"), dropout[1:])}
        return dict(drop=("dropout", share)), extras, numbers

    def _masked(self, name, given, extras: dict) -> tuple:
        """A tensor of factors times a number."""
        places = []
        for t in given:
            t = t if isinstance(t, tensor) else self.tensor_scalar(
                real(f"{name}: dropout's scale", t), scalar_type.COMPILE_TIME_CONST)
            known = [operand for operand, (_, other) in extras.items() if other is t]
            places.append(known[0] if known else f"extras.{len(extras)}")
            extras = extras | {places[-1]: ("dropout", self._mine(name, "dropout", t))}
        reads = tuple([place.replace("extras.", "e") for place in places])
        keep = Sdpa(keep=((Pointwise(mode="mul"), reads),)).keep
        return dict(keep=("dropout", rows.text(keep))), extras

    def _dumped(self, name, rng_dump, dropout, *attended):
        """An operation more, whose output is 1 where a weight is kept and else 0; ``attended``: what the dim
        of the scores follows from."""
        if rng_dump is None:
            return
        if dropout is None or isinstance(dropout[0], tensor):
            raise BadParam(f"{name}: rng_dump must be given with dropout's {FORMS.partition(', or')[0]}; got "
                           f"dropout {shown(dropout)}")
        share, *numbers = dropout
        y = self._mine(name, "rng_dump", rng_dump)
        self._adopt(y)
        space = space_of(*attended)
        if space and not y.dim:
            y.set_dim(space)
        if space and tuple(y.dim) != space:
            raise BadParam(f"{name}: rng_dump must have dim {list(space)}, that of the scores; got "
                           f"{list(y.dim)}")
        made = self.rng(*numbers, probability=1 - real(f"{name}: dropout's probability", share),
                        compute_data_type=data_type.FLOAT, name=f"{name}::rng_dump")
        self._tensors.remove(made)
        self.steps[-1].outputs["y"], self.steps[-1].words["y"] = y, "rng_dump"


def space_of(q, k, table=None, most=None) -> tuple:
    """The dim of the scores, of keys in pages by their table; () where it is not known yet."""
    known = [t.get_dim() for t in (q, k, table) if t is not None]
    if any(len(dim) != 4 for dim in known):
        return ()
    keys = known[1][2] if table is None else most or known[2][2] * known[1][2]
    return (*known[0][:3], keys)

"""Calls of a pygraph's operations, written down as data: what a graph is made of when it is validated."""
from __future__ import annotations

from dataclasses import dataclass, field

from ..given import brief, flag, whole
from ..ops import BY_NAME, Op
from ..status import BadParam, CydnnError
from .tensor import tensor


@dataclass
class Step:
    """One operation. ``inputs`` and ``outputs``: operand of the op to tensor, several of one operand as
    ``extras.0``, ``extras.1`` …; ``scalars``: number of the op to tensor.

    ``compute`` is the op's word for a type, None for the graph's default. ``channels_last``: outputs whose
    strides are so unless they are set; others follow the inputs, but for the dim that is ``innermost`` (-1:
    the last). ``words``: what the method calls operands,
    attributes and numbers, by the op's names; of a graph that was stored there are none. ``is_spare``: it is
    left out where nobody reads its results.
    """
    op: type[Op]
    attributes: dict
    inputs: dict[str, tensor]
    outputs: dict[str, tensor]
    name: str
    compute: str | None = None
    scalars: dict[str, tensor] = field(default_factory=dict)
    channels_last: tuple = ()
    words: dict[str, str] = field(default_factory=dict)
    is_spare: bool = False
    innermost: int | None = None

    @property
    def tensors(self) -> list[tensor]:
        """Every tensor, once each time that it is named."""
        return [*self.inputs.values(), *self.scalars.values(), *self.outputs.values()]

    def said(self, error: CydnnError) -> CydnnError:
        """An error of this operation in the words of its call; any other as it is."""
        node, name = error.facts["node"], brief(self.name)
        return error.within(name, node, self.words) if node in (self.op.name, name) else error

    def row(self, number_of: dict) -> dict:
        """As lists, numbers and strings; ``number_of``: {tensor: its number}."""
        names = lambda tensors: {k: number_of[t] for k, t in tensors.items()}
        row = dict(op=self.op.name, name=self.name, attributes=self.attributes, inputs=names(self.inputs),
                   outputs=names(self.outputs), compute=self.compute)
        row |= dict(scalars=names(self.scalars)) if self.scalars else {}
        row |= dict(is_spare=True) if self.is_spare else {}
        row |= dict(innermost=self.innermost) if self.innermost is not None else {}
        return row | (dict(channels_last=list(self.channels_last)) if self.channels_last else {})

    @classmethod
    def of(cls, row: dict, tensors: list) -> "Step":
        """The step of ``row``."""
        op, scalars = BY_NAME[row["op"]], row.get("scalars", {})
        for what, names, known in (("attributes", row["attributes"], op.attributes()),
                                   ("inputs", row["inputs"], op.reads),
                                   ("outputs", row["outputs"], op.writes), ("scalars", scalars, op.scalars)):
            unknown = sorted({name.partition(".")[0] for name in names} - set(known))
            if unknown:
                raise BadParam(f"{op.name}: {what} must be some of {' '.join(known)}; "
                               f"got {' '.join(unknown)}")
        found = lambda numbers: {k: tensors[i] for k, i in numbers.items()}
        return cls(op, dict(row["attributes"]), found(row["inputs"]), found(row["outputs"]),
                   str(row["name"]), row["compute"], found(scalars), tuple(row.get("channels_last", ())),
                   is_spare=flag("deserialize: is_spare", row.get("is_spare")),
                   innermost=None if row.get("innermost") is None else whole("deserialize: innermost",
                                                                             row["innermost"]))


def in_words(error: CydnnError, steps: list[Step]) -> CydnnError:
    """An error in the words of the call that it is about."""
    for step in steps:
        if brief(step.name) == error.facts["node"]:
            return step.said(error)
    return error

"""Arrays of one boolean a byte, as torch.bool and np.bool_ are, for BOOLEAN tensors, which hold eight in a
byte: packed in front of a plan and unpacked behind it, on its stream, in memory behind its own workspace."""
from __future__ import annotations

from .. import plan as plans
from .._core import memory_of, scratch_of
from ..graph import Graph, Node, Tensor
from ..ops import Pointwise
from ..status import BadParam
from ..tensor import TensorDesc

ALIGNMENT = 256


def with_room(slots, workspace_bytes: int) -> tuple[dict, int]:
    """({slot: where its packed booleans lie}, bytes of a workspace that has room for them)."""
    places, end = {}, workspace_bytes
    for i, t in enumerate(slots):
        if t.dtype.kind == "bool" and t.ragged is None:
            places[i] = -(-end // ALIGNMENT) * ALIGNMENT
            end = places[i] + t.bytes
    return places, end


class ByteBooleans:
    """A plan on packs with such arrays."""

    def __init__(self, plan: plans.ExecutionPlan):
        self.plan, self._casts = plan, {}
        self.places, self.workspace_bytes = with_room(plan.slots, plan.workspace_bytes)

    def among(self, pointers) -> dict:
        """{slot: memory} of such arrays that have the tensor's dims."""
        said = {i: _said(pointers[i]) for i in self.places if type(pointers[i]) is not int}
        return {i: memory for i, memory in said.items() if memory is not None and memory.type == "bool"
                and memory.dims == self.plan.slots[i].dims}

    def run(self, arrays: dict, pointers, scalars, workspace, stream):
        """Run the plan; ``arrays``: what is ``among`` the pointers."""
        space = self._space(workspace)
        packed = {i: space.part(self.places[i]) for i in arrays}
        for i, memory in arrays.items():
            if not self._is_output(i):
                self._cast(i, memory).execute([memory.part(0), packed[i]], stream=stream)
        given = [packed.get(i, pointer) for i, pointer in enumerate(pointers)]
        self.plan.execute(given, space, stream, scalars)
        for i, memory in arrays.items():
            if self._is_output(i):
                self._cast(i, memory).execute([memory.part(0), packed[i]], stream=stream)

    def _space(self, workspace):
        space = scratch_of(workspace)
        size = space.bytes if space.bytes is not None else self.workspace_bytes if space.address else 0
        if size < self.workspace_bytes:
            raise BadParam(f"workspace: must have at least {self.workspace_bytes} bytes, as booleans of one "
                           f"byte each are packed there; got {size}")
        return space

    def _is_output(self, i: int) -> bool:
        return self.plan.executable.operands.rows[i].is_written

    def _cast(self, i: int, memory) -> plans.ExecutionPlan:
        """The plan between an array, whatever its strides, and packed booleans."""
        key = i, memory.strides
        if key not in self._casts:
            t, array, packed = self.plan.slots[i], 1, 2
            tensors = [Tensor(array, TensorDesc("u8", t.dims, memory.strides), alignment=1, name=t.name),
                       Tensor(packed, t.desc, name=t.name)]
            read, written = (packed, array) if self._is_output(i) else (array, packed)
            cast = Graph([Node(Pointwise(mode="identity"), dict(x=read, y=written))], tensors)
            self._casts[key] = plans.build(cast, self.plan.device)
        return self._casts[key]


def _said(x):
    """What an object says of its memory; None where it is none."""
    try:
        return memory_of(x)
    except BadParam:                             # the plan's own check says it, with the tensor's name
        return None

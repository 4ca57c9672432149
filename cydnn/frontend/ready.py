"""A plan with everything that ``execute`` needs at hand: what is looked up and how numbers are read is
decided when it is built."""
from __future__ import annotations

import struct
from math import copysign, inf

import numpy as np

from ..given import brief, shown, whole
from ..graph import Tensor
from ..plan import ExecutionPlan, room
from ..status import BadParam
from .arrays import number_of
from .booleans import ByteBooleans
from .tensor import tensor

_SINGLE = struct.Struct("f")
LEAST_ADDRESS = 1 << 16                          # an int from here on may be a pointer


class Ready:
    """``run(buffers, workspace, stream)``: ``buffers`` is {tensor or uid: pointer, or number for a tensor
    that is passed by value}.

    ``tensors``: those of the graph by uid; ``constants``: uids of numbers that the graph holds and the pack
    cannot change.
    """
    __slots__ = ("plan", "numbers", "workspace_bytes", "_execute", "_defaults", "_by_uid", "_by_tensor",
                 "_has_optional", "_booleans", "_named")

    def __init__(self, plan: ExecutionPlan, tensors: dict[int, tensor], constants=frozenset()):
        below, uids = plan.graph.tensors, [t.uid for t in plan.slots]
        self.plan, self.workspace_bytes, self._execute = plan, plan.workspace_bytes, plan.executable.execute
        self._defaults = [default for _, default in plan.scalars]
        keys = [key for key, _ in plan.scalars]
        given = [(i, key) for i, key in enumerate(keys) if isinstance(key, int) and key not in constants]
        self.numbers = [(i, uid, reader(below[uid]), below[uid].scalar is None) for i, uid in given]
        booleans = ByteBooleans(plan)
        self._booleans = booleans if booleans.places else None
        self._has_optional = not all(is_needed for *_, is_needed in self.numbers)
        self._by_uid, self._named = (uids, self.numbers), tensors.values()
        self._by_tensor = ([tensors[uid] for uid in uids],
                           [(i, tensors[uid], read, is_needed) for i, uid, read, is_needed in self.numbers])

    def run(self, buffers: dict, workspace, stream):
        """Run the plan. Raises BadParam before anything is launched when an entry is missing or cannot be."""
        key = None
        try:
            if type(buffers) is not dict and not hasattr(buffers, "items"):
                raise TypeError                  # a list has places, which are no uids
            for key in buffers:
                break
            slots, numbers = self._by_uid if type(key) is int else self._by_tensor
            if self._has_optional:               # it may be there under the other kind of key
                raise KeyError
            pointers = tuple([buffers[key] for key in slots])
            scalars = self._scalars(buffers, numbers) if numbers else None
        except (KeyError, TypeError, IndexError):            # keys of other kinds, not all there, or no dict
            pointers, scalars = self.looked_up(by_uid(buffers, self._named))
        if self._booleans is not None and (arrays := self._booleans.among(pointers)):
            return self._booleans.run(arrays, pointers, scalars, workspace, stream)
        size = self.workspace_bytes
        if not size:
            workspace = 0
        elif type(workspace) is not int:         # an address cannot say how much room there is
            workspace, size = room(workspace, size)
        self._execute(pointers, scalars, workspace, size, stream)

    def has_byte_booleans(self, pointers) -> bool:
        """Some of the arrays have booleans of one byte each."""
        return self._booleans is not None and bool(self._booleans.among(pointers))

    def into(self, way: str, buffers, workspace, cuda_graph) -> int:
        """``populate`` or ``update`` the nodes of a CUDA graph with buffers as ``run`` has them."""
        pointers, scalars = self.looked_up(by_uid(buffers, self._named))
        if self.has_byte_booleans(pointers):
            raise BadParam("cuda_graph: booleans must be packed, eight in a byte; got an array of one a byte")
        if not self.workspace_bytes:
            return getattr(self.plan, way)(cuda_graph, pointers, 0, scalars, 0)
        return getattr(self.plan, way)(cuda_graph, pointers, workspace, scalars)

    def bound(self, buffers: dict, workspace) -> tuple | None:
        """(execute, its pointers, numbers, workspace, bytes) for buffers by uid; None where numbers are read
        of them at each execute, or one is not there."""
        uids = self._by_uid[0]
        if self.numbers or self._booleans is not None or any(uid not in buffers for uid in uids):
            return None
        size = self.workspace_bytes
        if size and type(workspace) is not int:
            workspace, size = room(workspace, size)
        return self._execute, tuple([buffers[uid] for uid in uids]), None, workspace if size else 0, size

    def _scalars(self, buffers, numbers) -> tuple:
        values = list(self._defaults)
        for place, key, read, is_needed in numbers:
            if is_needed or key in buffers:
                values[place] = read(buffers[key])
        return tuple(values)

    def looked_up(self, pack: dict) -> tuple:
        """(pointers, numbers) of a pack whose keys are uids."""
        below = self.plan.graph.tensors
        lost = {uid: "tensor" for uid in self._by_uid[0] if uid not in pack}
        lost |= {uid: "pass-by-value tensor" for _, uid, _, is_needed in self.numbers
                 if is_needed and uid not in pack}
        if lost:
            names = ", ".join(f"{kind} {below[uid].label}" for uid, kind in lost.items())
            raise BadParam(f"execute: the variant pack must hold {names}; got uids {sorted(pack)}, missing a "
                           f"buffer for tensor uid {', '.join(map(str, lost))}")
        return tuple([pack[uid] for uid in self._by_uid[0]]), self._scalars(pack, self.numbers)


def by_uid(buffers, tensors=()) -> dict:
    """{uid: buffer} of a dict whose keys are tensors, names of ``tensors``, uids or None."""
    if not hasattr(buffers, "items"):
        raise BadParam(f"execute: the variant pack must be a dict of tensor or uid to buffer; got "
                       f"{type(buffers).__name__}")
    found = {}
    for key, value in buffers.items():
        if key is None:
            continue
        if isinstance(key, tensor):
            key = key.get_uid()
        elif isinstance(key, str):
            key = _named(key, tensors)
        elif not hasattr(key, "__index__"):
            raise BadParam(f"execute: keys of the variant pack must be tensors, their names, or uids; got "
                           f"{shown(key)}")
        found[whole("execute: key of the variant pack", key)] = value
    return found


def _named(name: str, tensors) -> int:
    """The uid of the one tensor of a name."""
    found = [t.key for t in tensors if t.name == name]
    if len(found) != 1:
        known = sorted({t.name for t in tensors if t.name})
        raise BadParam(f"execute: names in the variant pack must be those of one tensor, some of "
                       f"{brief(' '.join(known))}; got {shown(name)}, that of {len(found)}")
    return found[0]


# ---- Numbers ----

def reader(below: Tensor):
    """The function that makes a number of what was given for a tensor that is passed by value, rounded to its
    type."""
    row, name = below.dtype, below.label
    if row.kind != "float":
        return lambda value: _whole(name, row, number_of(name, value))
    if row.name == "f64":
        return lambda value: value if type(value) is float else float(_float(name, value))
    if row.name == "f32":
        return _single_reader(name)
    return lambda value: float(row.round(np.float64(_float(name, value))))


def _single_reader(name):
    pack, unpack = _SINGLE.pack, _SINGLE.unpack

    def read(value):
        value = value if type(value) is float else float(_float(name, value))
        try:
            return unpack(pack(value))[0]
        except OverflowError:
            return copysign(inf, value)
    return read


def _float(name, value):
    """The number for a tensor of floats."""
    if type(value) is int and abs(value) >= LEAST_ADDRESS:
        raise BadParam(f"execute: {name} is passed by value: it must be a float or an array of one on the "
                       f"host; got the int {value}, which may be an address (write {float(value)!r} for the "
                       f"number)")
    return number_of(name, value)


def _whole(name, row, value) -> int:
    """The number for a tensor of whole numbers: exact, or refused."""
    if isinstance(value, float):
        return int(row.round(np.float64(value)))
    if not row.lowest <= value <= row.highest:
        raise BadParam(f"execute: {name} must be from {row.lowest} to {row.highest}, as its type is {row}; "
                       f"got {value}")
    return int(value)

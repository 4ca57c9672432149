"""Tensors of a graph: a description of memory, and the part it plays."""
from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..locks import once
from ..given import brief, shown, text, whole
from ..status import BadParam
from ..steps import Scalar
from ..tensor import TensorDesc

KINDS = ("memory", "virtual", "value")
MOST_BYTES = 2 ** 44                             # more than any device has
REORDERINGS = ("none", "int8x32", "f16x16", "f8_128x4")


@dataclass(frozen=True)
class Tensor:
    """One tensor of a graph. What its description says (``dims``, ``dtype``, ``is_packed`` …)
    can be asked of it directly.

    ``kind``      "memory": the caller gives a pointer; "virtual": it lives inside the graph only;
                  "value": one number that the caller gives at execute
    ``alignment`` bytes; what the caller promises of the pointer
    ``ragged``    uid of the tensor with the offsets of its batches in elements, and that of the end: element
                  (b, …) lies at offsets[b] + the other strides' part, and is not there from offsets[b + 1]
                  on: it reads as 0 and is not written. Its extent does not follow from its dims, and the
                  stride of its batches says nothing: one with which they overlap is that of packed ones
    ``scalar``    of a "value": the number that it stands for, with a default; None: one that must be
                  given at execute
    The ``name`` is for people: it takes no part in equality, so not in the key of a plan.
    """
    uid: int
    desc: TensorDesc
    kind: str = "memory"
    alignment: int = 16
    ragged: int | None = None
    reordering: str = "none"
    scalar: Scalar | None = None
    name: str = field(default="", compare=False)

    def __post_init__(self):
        set_, desc = object.__setattr__, self.desc
        set_(self, "uid", whole("tensor: uid", self.uid))
        text("tensor: name", self.name)
        if not isinstance(desc, TensorDesc):
            raise BadParam(f"tensor {self.label}: desc must be a TensorDesc; got {shown(desc)}")
        if self.ragged is not None and desc.is_overlapping:
            one = desc.replace(dims=(1, *desc.dims[1:]))
            desc = desc.replace(strides=(one.extent, *desc.strides[1:]))
            set_(self, "desc", desc)
        set_(self, "dtype", desc.dtype)
        set_(self, "dims", desc.dims)
        set_(self, "strides", desc.strides)
        set_(self, "rank", len(desc.dims))
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise BadParam(f"tensor {self.label}: kind must be one of {' '.join(KINDS)}; "
                           f"got {shown(self.kind)}")
        if not isinstance(self.reordering, str) or self.reordering not in REORDERINGS:
            raise BadParam(f"tensor {self.label}: reordering must be one of {' '.join(REORDERINGS)}; "
                           f"got {shown(self.reordering)}")
        alignment = whole(f"tensor {self.label}: alignment", self.alignment)
        if alignment < 1 or alignment & (alignment - 1):
            raise BadParam(f"tensor {self.label}: alignment must be a power of two; got {shown(alignment)}")
        if desc.bytes > MOST_BYTES:
            raise BadParam(f"tensor {self.label}: must reach at most 2**44 bytes; got {desc.bytes} bytes of "
                           f"dims {desc.dims}, strides {desc.strides}")

    def __getattr__(self, name):                 # only what is not found here comes this way
        if name.startswith("__") or name == "desc":
            raise AttributeError(name)
        found = getattr(self.desc, name)
        if not callable(found):
            object.__setattr__(self, name, found)            # the description does not change
        return found

    @property
    def label(self) -> str:
        """What errors call it."""
        return brief(self.name) or f"uid {self.uid}"

    @property
    def is_virtual(self) -> bool:
        return self.kind == "virtual"

    @property
    def is_by_value(self) -> bool:
        return self.kind == "value"

    @property
    def features(self) -> tuple:
        """What an engine must understand to take it, beside dims and strides."""
        found = (("ragged", self.ragged is not None), ("vector", self.desc.vector > 1),
                 ("reordering", self.reordering != "none"))
        return tuple([name for name, is_there in found if is_there])

    @once
    def form(self) -> tuple:
        """What it is beside its uid and name."""
        return (self.desc, self.kind, self.alignment, self.ragged is not None, self.reordering, self.scalar)

    def replace(self, **facts) -> "Tensor":
        """A copy with other fields; those of the description may be named too."""
        own = {k: facts.pop(k) for k in tuple(facts) if k in self.__dataclass_fields__}
        if facts:
            own["desc"] = own.get("desc", self.desc).replace(**facts)
        return replace(self, **own)

    def __str__(self):
        return str(self.desc)

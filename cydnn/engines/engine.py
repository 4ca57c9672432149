"""The base of all engines, and the match of an engine's pattern in a graph.

An engine says, in this order: what it takes (``op``), why it would not (``refuse``), how long it would take (``cost``), and the
launches (``plan``). It knows nothing of other engines.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Iterator

from ..graph import ByValue
from ..ops import Op
from ..tensor import TensorDesc
from ..steps import Pointer, Scalar, Scratch


@dataclass
class Match:
    """One op (and the pointwise nodes fused behind it) with the descriptors of its operands.

    ``p.x`` is the TensorDesc of operand x, or None when it is absent; ``p.op`` the operation; ``p.epilogue`` the nodes that follow.
    ``key`` tells the node apart in the plan's scalars. ``uids`` maps operand names to tensor uids.
    """
    op: Op
    operands: dict
    uids: dict
    key: object = 0
    scalar_values: dict = field(default_factory=dict)   # scalar name -> fixed number, or the uid of a by-value tensor
    epilogue: tuple = ()                                # graph nodes, in order
    graph: object = None
    scratches: list = field(default_factory=list)
    fused: dict = field(default_factory=dict)           # what fusion made of the epilogue, by output

    def __getattr__(self, name) -> TensorDesc | None:
        try:
            return self.__dict__["operands"][name]
        except KeyError:
            raise AttributeError(f"{self.__dict__['op'].name} has no operand {name}") from None

    @property
    def descs(self) -> list[TensorDesc]:
        """Descriptors of all present operands, inputs first."""
        return [d for d in self.operands.values() if d is not None]

    @property
    def dtypes(self) -> set:
        return {d.dtype.name for d in self.descs}

    def ptr(self, name: str, offset_bytes: int = 0) -> Pointer | None:
        """The address of an operand; None (a null pointer) when it is absent."""
        return Pointer(self.uids[name], offset_bytes) if self.operands.get(name) is not None else None

    def source(self, name: str) -> Pointer | Scalar:
        """Where a present operand comes from: memory, or a number given at execute."""
        return Scalar(self.uids[name], 0.0) if self.operands[name].is_by_value else self.ptr(name)

    @property
    def out(self) -> TensorDesc:
        """Descriptor of what the engine finally writes: the last fused node's output, or the op's own first output."""
        if self.epilogue:
            return self.graph.tensors[self.epilogue[-1].operands["y"]]
        return self.operands[self.op.writes[0]]

    def out_ptr(self, offset_bytes: int = 0) -> Pointer:
        """The address that belongs to ``out``."""
        uid = self.epilogue[-1].operands["y"] if self.epilogue else self.uids[self.op.writes[0]]
        return Pointer(uid, offset_bytes)

    def scalar(self, name: str) -> Scalar:
        """A by-value number of the op, read at execute."""
        value = self.scalar_values.get(name, self.op.scalars[name])
        if isinstance(value, ByValue):
            return Scalar(value.uid, 0.0)
        return Scalar((self.key, name), float(value))

    def scratch(self, size_bytes: int) -> Pointer:
        """A fresh area of the workspace, 256-byte aligned."""
        self.scratches.append(Scratch(int(size_bytes)))
        return Pointer(self.scratches[-1])


class Engine:
    """One way to compute a pattern.

    ``index`` is the global index, published once and never reused. ``op`` is the Op class it computes; ``fuses_epilogue`` says that a
    chain of pointwise nodes may follow. ``notes`` are facts for the user.
    """
    index: ClassVar[int] = -1
    op: ClassVar[type] = None
    fuses_epilogue: ClassVar[bool] = False
    notes: ClassVar[tuple] = ("deterministic",)

    @property
    def name(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    def __str__(self):
        return f"{self.index}:{self.name}"

    __repr__ = __str__

    def refuse(self, p: Match, dev) -> Iterator[str]:
        """Yield the reasons not to take ``p`` on device facts ``dev``; silence is consent."""
        return iter(())

    def cost(self, p: Match, dev) -> float:
        """Estimated microseconds; a pure function."""
        return memory_us(p, dev)

    def configs(self, p: Match, dev) -> list[dict]:
        """Every choice there is for ``p`` (tile, splits), each as keywords of ``plan``; ``[{}]`` when there is nothing to choose."""
        return [{}]

    def plan(self, p: Match, dev, **config) -> list:
        """The steps: Launch, Memset or ReferenceCall. What ``config`` leaves open is chosen as ``cost`` assumes."""
        raise NotImplementedError

    def accepts(self, p: Match, dev) -> bool:
        return next(iter(self.refuse(p, dev)), None) is None


def powers(most: int) -> list[int]:
    """1, 2, 4 … up to ``most``: numbers of splits worth a look."""
    return [1 << i for i in range(max(most, 1).bit_length())]


def memory_us(p: Match, dev, reads: float = 1.0, efficiency: float = 0.85) -> float:
    """Microseconds to move every operand once (``reads`` times), at a share of the device's bandwidth, plus a launch."""
    return 2.0 + reads * sum(d.count * d.dtype.bytes for d in p.descs) / (dev.bandwidth_gbs * efficiency) * 1e-3


def wrong_device(dev, least_sm: int = 75) -> Iterator[str]:
    """The reasons every CUDA engine shares."""
    if dev.kind != "cuda":
        yield f"runs CUDA kernels; device is {dev.kind}"
    elif dev.sm < least_sm:
        yield f"needs sm_{least_sm} or newer; device is sm_{dev.sm}"


def wrong_types(p: Match, *accepted: str, same: bool = True) -> Iterator[str]:
    """Refuse operands of other types than ``accepted``, or of several types when ``same``."""
    for name, d in p.operands.items():
        if d is not None and d.dtype.name not in accepted:
            yield f"{name} must be one of {' '.join(accepted)}; got {d.dtype}"
    if same and len(p.dtypes) > 1:
        yield f"operands must have one type; got {' '.join(sorted(p.dtypes))}"

"""The plan tape: launches with packed parameters, and what runs them without the GIL."""
from typing import Any, Iterable, Sequence

from ._context import Context, Function
from ._numbers import Numbers
from ._operands import Operands

class Tape:
    context: Context
    operands: Operands
    numbers: Numbers
    workspace_bytes: int
    workspace_alignment: int
    slot_count: int
    scalar_count: int
    step_count: int
    is_sealed: bool
    problem: str
    def __init__(self, context: Context, slots: Iterable[tuple],
                 scalars: Iterable[float | None] = (), workspace_bytes: int = 0,
                 inplace: Iterable[tuple[int, ...]] = (), workspace_alignment: int = 16,
                 periods: dict[tuple[int, int], tuple[int, int, int]] | None = None,
                 problem: str = "") -> None: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def scalars(self) -> tuple[float | None, ...]: ...
    @property
    def kernels(self) -> tuple[str, ...]: ...
    def update_scalars(self, scalars: Iterable[float | None]) -> None: ...
    def launch(self, function: Function, grid: Sequence[int] | int, block: Sequence[int] | int, smem: int,
               data: bytes, pointers: Iterable[tuple[int, int, int]] = (),
               scalars: Iterable[tuple[int, str, int]] = (),
               maps: Iterable[tuple[int, int, int]] = (), params: Sequence[int] = (),
               cluster: Sequence[int] | None = None, cooperative: bool = False,
               dependent: bool = False) -> None: ...
    def memset(self, slot: int, addend: int, bytes: int, value: int) -> None: ...
    def execute(self, pointers: Sequence[Any], scalars: Sequence[float | None] | None = None,
                workspace: Any = None, workspace_bytes: int = 0, stream: Any = None) -> None: ...
    def check(self, pointers: Sequence[Any], workspace: Any = None, workspace_bytes: int = 0) -> None: ...

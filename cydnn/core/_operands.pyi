"""What a plan must be given: buffers that say what they are are compared with it before anything runs."""
from typing import Any, Callable, Iterable

from ._address import Memory
from ..operand import Operand
from ..tensor import TensorDesc

class Operands:
    rows: tuple[Operand, ...]
    on_misfit: Callable[[Operand, Memory, int], None] | None
    def __init__(self, rows: Iterable[tuple]) -> None: ...
    def describe(self, i: int, desc: TensorDesc) -> None: ...
    def memories(self, pointers: Iterable[Any]) -> list[Memory]: ...

def scratch_of(x: Any, size_bytes: int = 0) -> Memory: ...

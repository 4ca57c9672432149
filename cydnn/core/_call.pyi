"""A compute call of the legacy API: its plan from the handle's table, or the slow path."""
from typing import Any, Iterable

from ._descriptor import Descriptor
from ._table import PlanTable

def nullable(number: int, pointers: Iterable[int] = ()) -> int: ...
def attempt(fn: Any, handle: Any, keys: tuple, pointers: tuple, scalars: tuple, workspace: Any = None,
            workspace_bytes: int | None = None) -> bool: ...
def compute(fn: Any, handle: Any, keys: tuple, pointers: tuple, scalars: tuple, workspace: Any = None,
            workspace_bytes: int | None = None) -> None: ...

class Turns:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: Any) -> None: ...

class HandleBase(Descriptor):
    table: PlanTable | None
    stream: int
    scratch: int
    scratch_bytes: int
    turns: Turns

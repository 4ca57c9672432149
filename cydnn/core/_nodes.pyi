"""Tapes as nodes of a CUDA graph of the caller's."""
from typing import Any, Sequence

from ._tape import Tape

def populate(tape: Tape, graph: Any, pointers: Sequence[Any], scalars: Sequence[float | None] | None = None,
             workspace: Any = None, workspace_bytes: int = 0) -> int: ...
def update(tape: Tape, graph: Any, pointers: Sequence[Any], scalars: Sequence[float | None] | None = None,
           workspace: Any = None, workspace_bytes: int = 0) -> int: ...

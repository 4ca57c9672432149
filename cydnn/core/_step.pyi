"""The steps of a tape: launches with packed parameters, and memsets."""
from typing import Any, Callable, Sequence

from ._context import Function

def log_launches(
    callback: Callable[[str, tuple[int, ...], tuple[int, ...], int, str], None] | None) -> None: ...
def wait_for_every_step(on: bool) -> None: ...
def raw_launch_loop(function: Function, grid: Sequence[int] | int, block: Sequence[int] | int, data: bytes,
                    stream: Any = None, iterations: int = 1000, smem: int = 0) -> float: ...

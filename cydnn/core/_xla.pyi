"""Plans as foreign functions of XLA."""
from typing import Any, Callable

CALLS: dict[int, Callable[[int | None], tuple]]

def targets() -> dict[str, Any]: ...

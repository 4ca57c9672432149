"""DLPack capsules of memory that is ours."""
from typing import Any

def capsule_of(owner: Any, address: int, place: tuple[int, int], kind: tuple[int, int],
               dims: tuple[int, ...], strides: tuple[int, ...]) -> Any: ...

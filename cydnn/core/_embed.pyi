"""The executor of embedded plans: what C calls."""
from typing import Any

class Executor:
    plan: Any
    slot_count: int
    workspace_bytes: int
    def __init__(self, plan: Any, abi_version: int = 1) -> None: ...

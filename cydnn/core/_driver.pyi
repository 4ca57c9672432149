"""The CUDA driver as we use it: the table of functions and checked calls."""

SYMBOLS: tuple[tuple[str, int, str], ...]
ERRORS: dict[int, type[Exception]]

def device_count() -> int: ...
def driver_version() -> int: ...

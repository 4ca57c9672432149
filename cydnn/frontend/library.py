"""Version and properties of the library."""
from __future__ import annotations

from ..status import last_error_string

VERSION = 9, 22, 0                               # of the API that the front end answers to


def backend_version() -> int:
    """The version of the API as one number: 92200 for 9.22.0."""
    major, minor, patch = VERSION
    return 10000 * major + 100 * minor + patch


def backend_version_string() -> str:
    """The version of the API, "9.22.0"."""
    return ".".join(map(str, VERSION))


def get_last_error_string() -> str:
    """The text of the last error raised in this thread, or ``""`` when there was none."""
    return last_error_string()

"""The problems in a kernel's contract that launch it: with which engine, in which configuration (cydnn/debug.py)."""
from cydnn.debug import Case, cases, every_case

__all__ = ["Case", "cases", "every_case"]

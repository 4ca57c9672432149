"""The problems in a kernel's contract that launch it: with which engine, in which
configuration (cydnn/bench/trial.py)."""
from cydnn.bench.trial import Case, cases, every_case

__all__ = ["Case", "cases", "every_case"]

"""Every opcode of the interpreter against a GPU: tiny kernels (probes), their answers
on an H200 kept as a table.

    values: edge values of every type -> table, conversions, memory, lanes, matrix, warpgroup: the probes
        -> run: a device answers -> answers: the table on disk
    rules: how an answer of the interpreter is compared with the table's
    python -m support.opcodes --write FILE        (on the GPU, from tests/) writes the table
"""
from . import conversions, lanes, matrix, memory, warpgroup  # noqa: F401  (each enters its probes)
from .table import PROBES

__all__ = ["PROBES"]
assert len({p.name for p in PROBES}) == len(PROBES), "two probes of one name"

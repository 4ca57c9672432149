"""The PTX device: kernels interpreted in NumPy, with checks that a GPU does not make.
Docs: docs/debug_a_kernel.md.

    parse (text -> flat program) -> code (steps, by the opcode table) -> machine (lanes, control flow)
    table: how rows are written;  rows: integer floating movement warp copies bulk matrix;
    memory, check, gate: every access, race and wait
"""
from .bulk import DecodedMap
from .check import Checks, Finding
from .device import PtxDevice
from .parse import PtxError

__all__ = ["Checks", "DecodedMap", "Finding", "PtxDevice", "PtxError"]

"""The PTX device: kernels interpreted in NumPy, with checks that a GPU does not make. Docs: docs/debug_a_kernel.md.

    parse (text -> program) -> machine (lanes, control flow) <- opcodes by family: integer floating convert movement warp tensor asynchronous
    memory and check: what every byte is, who touched it;  device: the tape of a plan;  run: kernels by their contracts
"""
from .check import Checks, Finding
from .device import PtxDevice
from .mbarrier import TensorMap
from .parse import PtxError

__all__ = ["Checks", "Finding", "PtxDevice", "PtxError", "TensorMap"]

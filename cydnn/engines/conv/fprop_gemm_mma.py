"""Forward convolution as an explicit matrix product on tensor cores."""
from __future__ import annotations

from .fprop_gemm import ConvFpropGemm


class ConvFpropGemmMma(ConvFpropGemm):
    """Every window of x becomes a row of a matrix in the workspace; y is that matrix times the filters."""
    index = 102
    notes = ("tensor_core", "deterministic")

"""Forward convolution as an explicit matrix product on tensor cores."""
from __future__ import annotations

from ..matmul.mma import MatmulMma
from .fprop_gemm import ConvFpropGemm, product_knobs


class ConvFpropGemmMma(ConvFpropGemm):
    """Every window of x becomes a row of a matrix in the workspace; y is that matrix times the filters."""
    index = 102
    products = (MatmulMma(),)
    knobs = product_knobs(*products)
    notes = ("tensor_core", "deterministic")

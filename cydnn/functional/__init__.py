"""Functions on arrays of NumPy, torch, CuPy and the array API: ``y = cydnn.conv(x, w, padding=1)``.
Results are arrays of the caller's library, on its device, in its memory format.
"""
from ..names import missing
from . import activations, images, network, pointwise, products
from .function import FUNCTIONS, Function, Prepared, forget

globals().update(FUNCTIONS)
__all__ = [*FUNCTIONS, "FUNCTIONS", "Function", "Prepared", "forget"]


def __getattr__(name):
    raise missing(f"module {__name__!r}", name, FUNCTIONS)


def __dir__():
    return sorted(__all__)

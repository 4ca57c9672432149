"""Functions on arrays of CuPy: results are arrays of CuPy, on its current stream. Needs a GPU and cupy.

    python examples/cupy_call.py
"""
from __future__ import annotations

import sys

try:
    import cupy as cp
except ImportError:
    sys.exit("cupy_call: needs the package cupy: pip install cupy-cuda12x, or cupy-cuda13x")

import cydnn


def main() -> float:
    """The largest error against CuPy's own arithmetic."""
    x, w = cp.random.rand(2, 8, 6, 6, dtype="f4"), cp.random.rand(4, 8, 1, 1, dtype="f4")
    with cp.cuda.Stream(non_blocking=True) as stream:
        y = cydnn.relu(cydnn.conv(x, w))
        p = cydnn.softmax(y, 1)
        stream.synchronize()
    right = cp.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])
    powers = cp.exp(right - right.max(1, keepdims=True))
    error = float(abs(p - powers / powers.sum(1, keepdims=True)).max())
    print(f"{type(p).__module__}.{type(p).__name__} {p.shape}: largest error {error:.1g}")
    return error


if __name__ == "__main__":
    main()

"""Random dims, types and tensors: what random problems (draw.py) are made of."""
from __future__ import annotations

from cydnn.dtypes import BY_NAME
from cydnn.tensor import TensorDesc

FLOATS = ("f32", "f16", "bf16", "f64")


def size(rng, most=40):
    """A dim: often small or 1, sometimes a multiple of 8, sometimes odd and large."""
    return rng.choice([1, rng.randint(1, 5), rng.randint(1, most), 8 * rng.randint(1, max(most // 8, 1)),
                       rng.randint(1, most)])


def tensor(rng, dtype, dims, layout=None, writable=False) -> TensorDesc:
    """A descriptor: packed in one of the layouts, permuted, or with gaps."""
    kind = layout or rng.choices(["nchw", "nhwc", "permuted", "gaps"], [4, 4, 1, 1])[0]
    if kind in ("nchw", "nhwc"):
        return TensorDesc.packed(dtype, dims, kind)
    order = list(range(len(dims)))
    rng.shuffle(order)
    if kind == "permuted":
        return TensorDesc.packed(dtype, dims, order)
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * dims[axis] + rng.randint(0, 3)
    return TensorDesc(dtype, dims, strides)


def spaced(rng, dtype, dims) -> TensorDesc:
    """A descriptor with gaps whose strides are whole 16 bytes: what a tensor map takes."""
    unit = 16 // BY_NAME[dtype].bytes
    strides, step = [1] * len(dims), 1
    for axis in reversed(range(len(dims))):
        strides[axis] = step
        step = -(-(step * dims[axis] + rng.randint(0, unit)) // unit) * unit
    return TensorDesc(dtype, dims, strides)


def types(rng):
    dtype = rng.choices(FLOATS, [4, 4, 4, 1])[0]
    return dtype, "f64" if dtype == "f64" else "f32"


def image(rng, most=40, ranks=(3, 4, 4, 4, 5)):
    rank = rng.choice(ranks)
    budget = {2: 300, 3: 60, 4: most // 2, 5: 9}[rank]
    return (rng.randint(1, 6), size(rng, most), *(rng.randint(1, budget) for _ in range(rank - 2)))

"""Random grids and samplings of spatial transformers."""
from __future__ import annotations

from cydnn import ops
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc

from .tensors import size, tensor, types as _types


def _grid(op_class, rng):
    dtype, compute = _types(rng)
    n, h, w = rng.randint(1, 5), size(rng, 70), size(rng, 70)
    theta, grid = (TensorDesc.packed(dtype, dims) for dims in ((n, 2, 3), (n, h, w, 2)))
    return Problem(op_class(compute=compute), dict(theta=theta, grid=grid) if op_class is ops.SpatialGridFwd
                   else dict(dgrid=grid, dtheta=theta))


def _sampler(op_class, rng):
    dtype, compute = _types(rng)
    n, c = rng.randint(1, 4), size(rng, 40)
    image, points = ([size(rng, 24) for _ in range(2)] for _ in range(2))
    layout = rng.choice(["nchw", "nhwc", None])
    makes = {**dict.fromkeys(("x", "dx"), lambda: tensor(rng, dtype, (n, c, *image), layout)),
             **dict.fromkeys(("y", "dy"), lambda: tensor(rng, dtype, (n, c, *points), layout)),
             **dict.fromkeys(("grid", "dgrid"), lambda: TensorDesc.packed(dtype, (n, *points, 2)))}
    return Problem(op_class(compute=compute), {name: makes[name]() for name in op_class.operands()})


MAKERS = {ops.SpatialGridFwd: _grid, ops.SpatialGridBwd: _grid, ops.SpatialSamplerFwd: _sampler,
          ops.SpatialSamplerBwd: _sampler}

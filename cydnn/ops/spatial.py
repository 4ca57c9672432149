"""The spatial transformer: a grid of coordinates from affine maps, and bilinear sampling of images there."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..tensor import TensorDesc
from .op import Op


def steps(size: int) -> np.ndarray:
    """-1 to 1 in so many steps; -1 for one."""
    return 2.0 * np.arange(size) / max(size - 1, 1) - 1.0


def _is_theta(name, theta):
    yield theta.rank == 3 and theta.dims[1:] == (2, 3), f"{name} must have dims (n, 2, 3); got {theta.dims}"
    yield theta.is_packed(), f"{name} must be packed; got dims {theta.dims}, strides {theta.strides}"


def _is_grid(name, grid):
    yield grid is not None, f"{name} must be given"
    yield grid.rank == 4 and grid.dims[3] == 2, f"{name} must have dims (n, h, w, 2); got {grid.dims}"
    yield grid.is_packed(), f"{name} must be packed; got dims {grid.dims}, strides {grid.strides}"


def _positions(shape) -> np.ndarray:
    """(h, w, 3): x, y and 1 at every point of a grid."""
    _, h, w, _ = shape
    y, x = np.meshgrid(steps(h), steps(w), indexing="ij")
    return np.stack([x, y, np.ones_like(x)], -1)


@dataclass(frozen=True)
class SpatialGridFwd(Op, reads="theta", writes="grid"):
    """grid[n, i, j] = theta[n] @ (x, y, 1), x = -1 + 2 j / (w - 1), y = -1 + 2 i / (h - 1), -1 where the size
    is 1.

    theta (n, 2, 3) and grid (n, h, w, 2), packed; of grid's last dim x comes first.
    Spec: v5 guide, cudnnSpatialTfGridGeneratorForward.
    """
    scalars = {}

    def check(self, theta):
        yield from _is_theta("theta", theta)

    def check_outputs(self, theta, grid):
        yield from _is_grid("grid", grid)
        yield grid.n == theta.n, f"grid must have n = {theta.n} like theta; got {grid.n}"

    def reference(self, theta, shapes):
        return dict(grid=np.einsum("nak,hwk->nhwa", theta, _positions(shapes["grid"])))

    def magnitude(self, arrays, scalars, results):
        return dict(grid=np.abs(arrays["theta"]).sum(-1)[:, None, None] + 0 * results["grid"])

    def terms(self, **_):
        return 3


@dataclass(frozen=True)
class SpatialGridBwd(Op, reads="dgrid", writes="dtheta", gradient_of=SpatialGridFwd):
    """dtheta[n, a] = the sum of dgrid[n, i, j, a] * (x, y, 1) over all points, as in the forward pass."""
    scalars = {}

    def check(self, dgrid):
        yield from _is_grid("dgrid", dgrid)

    def infer(self, dgrid):
        return dict(dtheta=TensorDesc.packed(dgrid.dtype, (dgrid.n, 2, 3)))

    def check_outputs(self, dgrid, dtheta):
        yield from _is_theta("dtheta", dtheta)

    def reference(self, dgrid):
        return dict(dtheta=np.einsum("nhwa,hwk->nak", dgrid, _positions(dgrid.shape)))

    def magnitude(self, arrays, scalars, results):
        return dict(dtheta=np.abs(arrays["dgrid"]).sum((1, 2))[..., None] + 0 * results["dtheta"])

    def terms(self, dgrid, **_):
        return dgrid.dims[1] * dgrid.dims[2]


CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))       # (below, right of) the cell that a point is in


class Points:
    """Points of a grid (n, h, w, 2) in images of h x w pixels: cell, fractions, corners.

    -1 and 1 are the centres of the corner pixels: px = (gx + 1) * (w - 1) / 2. The cell is the floor."""

    def __init__(self, grid, height: int, width: int):
        self.sizes = np.array([width, height])
        at = (grid + 1.0) * ((self.sizes - 1) / 2)
        near = (at >= -1) & (at < self.sizes)
        self.near = near.all(-1)                 # a corner may be inside; no NaN is
        cell = np.floor(np.where(near, at, 0.0))
        self.cell, self.fraction = cell.astype(np.int64), np.where(near, at, 0.0) - cell

    def corners(self):
        """(x, y, what is inside, weight of x, weight of y, sign of x, sign of y) of the four corners."""
        fx, fy = np.moveaxis(self.fraction, -1, 0)
        for below, right in CORNERS:
            x, y = self.cell[..., 0] + right, self.cell[..., 1] + below
            inside = self.near & (x >= 0) & (x < self.sizes[0]) & (y >= 0) & (y < self.sizes[1])
            weights = fx if right else 1 - fx, fy if below else 1 - fy
            yield (np.where(inside, x, 0), np.where(inside, y, 0), inside, *weights, 2 * right - 1,
                   2 * below - 1)


def _at(x, rows, columns):
    """(n, h, w, c): the pixels of x (n, c, H, W) at rows and columns (n, h, w)."""
    return np.moveaxis(x, 1, -1)[np.arange(len(x))[:, None, None], rows, columns]


class Sampler(Op):
    """The base of the two samplers."""

    def check(self, x, grid, **others):
        yield x.rank == 4, f"x must have rank 4; got {x.rank}"
        yield min(x.dims[2:]) > 0, f"x must have pixels; got dims {x.dims}"
        yield from _is_grid("grid", grid)
        yield grid.n == x.n, f"grid must have n = {x.n} like x; got {grid.n}"

    def output_dims(self, x, grid) -> tuple:
        return (x.n, x.c, *grid.dims[1:3])


@dataclass(frozen=True)
class SpatialSamplerFwd(Sampler, reads="x grid", writes="y"):
    """y[n, c, i, j] = the pixels of x around grid[n, i, j], weighted bilinearly; pixels outside of x are 0.

    x (n, c, H, W) and y (n, c, h, w), any strides; grid (n, h, w, 2) packed. -1 and 1 are the centres of the
    corner pixels; where a coordinate is NaN or far away, y is 0.
    Spec: v5 guide, cudnnSpatialTfSamplerForward.
    """
    def infer(self, x, grid):
        return dict(y=x.like(self.output_dims(x, grid)))

    def reference(self, x, grid):
        total = 0.0
        for columns, rows, inside, wx, wy, *_ in Points(grid, *x.shape[2:]).corners():
            total = total + np.where(inside[..., None], (wx * wy)[..., None] * _at(x, rows, columns), 0.0)
        return dict(y=np.moveaxis(total, -1, 1))

    def magnitude(self, arrays, scalars, results):
        x, grid = np.abs(arrays["x"]), arrays["grid"]
        total = sum(np.where(inside[..., None], _at(x, rows, columns), 0.0) for columns, rows, inside, *_
                    in Points(grid, *x.shape[2:]).corners())
        return dict(y=np.moveaxis(total, -1, 1))

    def terms(self, **_):
        return 4


@dataclass(frozen=True)
class SpatialSamplerBwd(Sampler, reads="x dy grid", writes="dx dgrid", gradient_of=SpatialSamplerFwd):
    """The gradients of sampling: every point adds weight * dy to the pixels around it in dx; dgrid is dy by
    the slopes of x there, summed over channels, in units of the grid. At a pixel's centre the cell to the
    right and below counts.

    Spec: v5 guide, cudnnSpatialTfSamplerBackward.
    """
    scalars = dict(alpha=1.0, beta=0.0, alpha_dgrid=1.0, beta_dgrid=0.0)
    blends = dict(dx=("alpha", "beta"), dgrid=("alpha_dgrid", "beta_dgrid"))

    def check(self, x, dy, grid):
        yield from super().check(x, grid)
        want = self.output_dims(x, grid)
        yield dy.dims == want, f"dy must have dims {want}, n and c of x, h and w of grid; got {dy.dims}"

    def infer(self, x, dy, grid):
        return dict(dx=x, dgrid=grid)

    def check_outputs(self, dgrid, **_):
        yield from _is_grid("dgrid", dgrid)

    def reference(self, x, dy, grid):
        points, rows_dy = Points(grid, *x.shape[2:]), np.moveaxis(dy, 1, -1)
        dx, slopes = np.zeros(np.moveaxis(x, 1, -1).shape), [0.0, 0.0]
        image = np.broadcast_to(np.arange(len(x))[:, None, None], points.near.shape)
        for columns, rows, inside, wx, wy, sx, sy in points.corners():
            np.add.at(dx, (image[inside], rows[inside], columns[inside]),
                      (wx * wy)[inside][:, None] * rows_dy[inside])
            seen = np.where(inside[..., None], _at(x, rows, columns), 0.0)
            products = np.where(points.near[..., None], rows_dy * seen, 0.0).sum(-1)
            slopes = [slopes[0] + sx * wy * products, slopes[1] + sy * wx * products]
        dgrid = np.stack(slopes, -1) * ((points.sizes - 1) / 2)
        return dict(dx=np.moveaxis(dx, -1, 1), dgrid=np.where(points.near[..., None], dgrid, 0.0))

    def magnitude(self, arrays, scalars, results):
        """Weights have absolute errors, so they count as 1."""
        x, rows_dy = np.abs(arrays["x"]), np.abs(np.moveaxis(arrays["dy"], 1, -1))
        points, dx, seen = Points(arrays["grid"], *x.shape[2:]), np.zeros(np.moveaxis(x, 1, -1).shape), 0.0
        image = np.broadcast_to(np.arange(len(x))[:, None, None], points.near.shape)
        for columns, rows, inside, *_ in points.corners():
            np.add.at(dx, (image[inside], rows[inside], columns[inside]), rows_dy[inside])
            seen = seen + np.where(inside[..., None], _at(x, rows, columns), 0.0)
        total = (rows_dy * seen).sum(-1)[..., None] * ((points.sizes - 1) / 2)
        return dict(dx=np.moveaxis(dx, -1, 1), dgrid=total)

    def terms(self, x, grid, **_):
        return max(x.c, grid.dims[1] * grid.dims[2])

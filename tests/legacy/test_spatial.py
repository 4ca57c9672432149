"""g118 to g124: spatial transformer descriptors, grid generator and bilinear sampler."""
import itertools

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from .arrays import DOUBLE, FLOAT, FLOATS, HALF, Tensor, draw, ramp, tensor_desc, tolerance

BILINEAR = c.CUDNN_SAMPLER_BILINEAR
DIMS = (2, 3, 5, 4)                              # of the output
IMAGE = (2, 3, 6, 7)
SHAPES = dict(theta=(2, 2, 3), grid=(2, 5, 4, 2))


def st_desc(dims=DIMS, dtype=FLOAT):
    desc = c.createSpatialTransformerDescriptor()
    c.setSpatialTransformerNdDescriptor(desc, BILINEAR, dtype, len(dims), dims)
    return desc


def points(seed=0, dims=SHAPES["grid"]):
    """Coordinates inside and outside, none at a pixel's centre."""
    return np.random.default_rng(seed).uniform(-1.7, 1.7, dims)


def sample(handle, desc, x, grid, y, alpha=1, beta=0):
    c.spatialTfSamplerForward(handle, desc, alpha, x.desc, x.ptr, grid.ptr, beta, y.desc, y.ptr)


def gradients(handle, desc, x, dx, dy, grid, dgrid, factors=(1, 0, 1, 0)):
    alpha, beta, alpha_dgrid, beta_dgrid = factors
    c.spatialTfSamplerBackward(handle, desc, alpha, x.desc, x.ptr, beta, dx.desc, dx.ptr, alpha_dgrid,
                               dy.desc, dy.ptr, grid.ptr, beta_dgrid, dgrid.ptr)


# -- Descriptors ---------------------------------------------------------------------------------------------

def test_setter_refusals(refused):
    desc = st_desc()
    text = repr(desc)
    right = dict(stDesc=desc, samplerType=0, dataType=FLOAT, nbDims=4, dimA=DIMS)
    give = lambda **changed: {**right, **changed}
    for words, changed in {
            "stDesc must not be NULL": dict(stDesc=None),
            r"samplerType must be one of CUDNN_SAMPLER_BILINEAR \(0\); got 1": dict(samplerType=1),
            "dataType must be one of .*; got 3": dict(dataType=3),
            "nbDims must be >= 4; got 3": dict(nbDims=3, dimA=(2, 3, 5)),
            "dimA must not be NULL": dict(dimA=None),
            r"dimA must be >= 1; got \(2, 3, 0, 4\)": dict(dimA=(2, 3, 0, 4)),
            r"dimA must be >= 1; got \(-2, 3, 5, 4\)": dict(dimA=(-2, 3, 5, 4))}.items():
        refused(c.setSpatialTransformerNdDescriptor, BadParam,
                "cudnnSetSpatialTransformerNdDescriptor: " + words, **give(**changed))
    refused(c.setSpatialTransformerNdDescriptor, NotSupported, "nbDims must be <= 8; got 9",
            **give(nbDims=9, dimA=(1,) * 9))
    refused(c.setSpatialTransformerNdDescriptor, TypeError, "dimA must be a sequence", **give(dimA=4711))
    refused(c.setSpatialTransformerNdDescriptor, ValueError, "dimA must have at least 4",
            **give(dimA=(1, 2, 3)))
    assert repr(desc) == text == "SpatialTransformerDescriptor(f32 n2c3h5w4 sampler=BILINEAR)"
    assert c.setSpatialTransformerDescriptor is c.setSpatialTransformerNdDescriptor
    c.destroySpatialTransformerDescriptor(0), c.destroySpatialTransformerDescriptor(desc)
    refused(c.destroySpatialTransformerDescriptor, BadParam, "created and not destroyed", desc)
    refused(c.setSpatialTransformerNdDescriptor, BadParam, "created and not destroyed", **give())


class Call:
    """A function with arguments that are right, by name; ``outputs`` among them."""

    def __init__(self, handle, name):
        self.function = getattr(c, name)
        dims = dict(x=IMAGE, dx=IMAGE, y=DIMS, dy=DIMS, **SHAPES, dgrid=SHAPES["grid"],
                    dtheta=SHAPES["theta"])
        t = {n: Tensor(d, draw(*d, seed=i)) for i, (n, d) in enumerate(dims.items())}
        p = {n: v.ptr for n, v in t.items()}
        d = {n: t[n].desc for n in ("x", "dx", "y", "dy")}
        args = dict(
            spatialTfGridGeneratorForward=dict(theta=p["theta"], grid=p["grid"]),
            spatialTfGridGeneratorBackward=dict(dgrid=p["dgrid"], dtheta=p["dtheta"]),
            spatialTfSamplerForward=dict(alpha=1, xDesc=d["x"], x=p["x"], grid=p["grid"], beta=0,
                                         yDesc=d["y"], y=p["y"]),
            spatialTfSamplerBackward=dict(alpha=1, xDesc=d["x"], x=p["x"], beta=0, dxDesc=d["dx"], dx=p["dx"],
                                          alphaDgrid=1, dyDesc=d["dy"], dy=p["dy"], grid=p["grid"],
                                          betaDgrid=0, dgrid=p["dgrid"]))[name]
        self.args, self.tensors = dict(handle=handle, stDesc=st_desc(), **args), t

    def refused(self, refused, error, words, **changed):
        before = {n: t.raw.copy() for n, t in self.tensors.items()}
        refused(self.function, error, words, *{**self.args, **changed}.values())
        assert all((t.raw == before[n]).all() for n, t in self.tensors.items())


GRIDS = ("spatialTfGridGeneratorForward", "spatialTfGridGeneratorBackward")
SAMPLERS = ("spatialTfSamplerForward", "spatialTfSamplerBackward")
POINTERS = ("theta", "grid", "dgrid", "dtheta", "x", "y", "dx", "dy")


@pytest.mark.parametrize("name", GRIDS + SAMPLERS)
def test_what_all_four_refuse(refused, name):
    with_numpy = c.create("numpy")
    call = Call(with_numpy, name)
    for argument in ("handle", "stDesc", *(a for a in POINTERS if a in call.args)):
        call.refused(refused, BadParam, f"{argument} must not be NULL", **{argument: 0})
    call.refused(refused, BadParam, "stDesc must be set", stDesc=c.createSpatialTransformerDescriptor())
    call.refused(refused, BadParam, "stDesc must be a spatial transformer descriptor",
                 stDesc=tensor_desc(1, 1, 1))
    call.refused(refused, NotSupported, "stDesc must have 4 dims; got 5", stDesc=st_desc((2, 3, 5, 4, 3)))
    gone = st_desc()
    c.destroySpatialTransformerDescriptor(gone)
    call.refused(refused, BadParam, "created and not destroyed", stDesc=gone)
    for factor in ("alpha", "beta", "alphaDgrid", "betaDgrid"):
        if factor in call.args:
            call.refused(refused, BadParam, f"{factor} must not be NULL", **{factor: None})
            call.refused(refused, TypeError, f"{factor} must be a number, not the address",
                         **{factor: 2 ** 40})


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_samplers_refuse(refused, name):
    call, out = Call(c.create("numpy"), name), "yDesc" if name.endswith("Forward") else "dyDesc"
    for argument, desc, words in [
            (out, tensor_desc(2, 3, 5, 5),
             rf"{out} must have dims \(2, 3, 5, 4\) like stDesc; got \(2, 3, 5, 5\)"),
            (out, tensor_desc(*DIMS, dtype=HALF), f"{out} must have data type f32 like stDesc; got f16"),
            ("xDesc", tensor_desc(1, 3, 6, 7), r"xDesc must have rank 4, n and c \(2, 3\) like stDesc"),
            ("xDesc", tensor_desc(2, 4, 6, 7), r"xDesc must have rank 4, n and c \(2, 3\) like stDesc"),
            ("xDesc", tensor_desc(2, 3, 6), r"xDesc must have rank 4, n and c \(2, 3\) like stDesc"),
            ("xDesc", tensor_desc(*IMAGE, dtype=DOUBLE), "xDesc must have data type f32 like stDesc"),
            ("xDesc", c.createTensorDescriptor(), "xDesc must be set"),
            ("xDesc", 0, "xDesc must not be NULL")]:
        call.refused(refused, BadParam, words, **{argument: desc})
    call.refused(refused, NotSupported, "must not overlap itself", **(
        dict(dxDesc=tensor_desc(*IMAGE, strides=(0, 42, 7, 1))) if out == "dyDesc" else
        dict(yDesc=tensor_desc(*DIMS, strides=(0, 20, 4, 1)))))
    if out == "dyDesc":
        for desc, words in [(tensor_desc(2, 3, 6, 6), r"dxDesc must have dims \(2, 3, 6, 7\) like xDesc"),
                            (tensor_desc(*IMAGE, dtype=HALF), "dxDesc must have data type f32 like stDesc"),
                            (0, "dxDesc must not be NULL")]:
            call.refused(refused, BadParam, words, dxDesc=desc)


# -- Grids ---------------------------------------------------------------------------------------------------

def plain_grid(theta, n, h, w):
    grid = np.zeros((n, h, w, 2))
    for b, i, j in np.ndindex(n, h, w):
        x, y = (-1 if size == 1 else -1 + 2 * k / (size - 1) for k, size in ((j, w), (i, h)))
        for a in range(2):
            grid[b, i, j, a] = theta[b, a, 0] * x + theta[b, a, 1] * y + theta[b, a, 2]
    return grid


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n, h, w", [(2, 5, 4), (1, 1, 3), (3, 4, 1), (2, 1, 1), (1, 60, 70)])
def test_grids(handle, dtype, n, h, w):
    desc = st_desc((n, 3, h, w), dtype)
    theta, grid = Tensor((n, 2, 3), draw(n, 2, 3), dtype), Tensor((n, h, w, 2), dtype=dtype)
    c.spatialTfGridGeneratorForward(*on(handle, desc, theta, grid))
    np.testing.assert_allclose(grid.values, plain_grid(theta.values, n, h, w), atol=tolerance(dtype, 4))
    dgrid, dtheta = Tensor((n, h, w, 2), draw(n, h, w, 2), dtype), Tensor((n, 2, 3), dtype=dtype)
    c.spatialTfGridGeneratorBackward(*on(handle, desc, dgrid, dtheta))
    maps = np.eye(6).reshape(6, 1, 2, 3)
    want = [[(dgrid.values[b] * plain_grid(m, 1, h, w)[0]).sum() for m in maps] for b in range(n)]
    np.testing.assert_allclose(dtheta.values.reshape(n, 6), want, atol=tolerance(dtype, h * w + 4),
                               rtol=tolerance(dtype))
    assert grid.stray_bytes() == dtheta.stray_bytes() == 0


def on(handle, desc, *tensors):
    return handle, desc, *(t.ptr for t in tensors)


def test_the_identity(handle):
    theta, grid = Tensor((1, 2, 3), np.array([[1, 0, 0], [0, 1, 0]])), Tensor((1, 6, 7, 2))
    c.spatialTfGridGeneratorForward(*on(handle, st_desc((1, 2, 6, 7)), theta, grid))
    x, y = Tensor((1, 2, 6, 7), draw(1, 2, 6, 7)), Tensor((1, 2, 6, 7))
    sample(handle, st_desc((1, 2, 6, 7)), x, grid, y)
    np.testing.assert_allclose(y.values, x.values, atol=1e-5)


# -- Sampling ------------------------------------------------------------------------------------------------

def pixel(px, py, width=4, height=4):
    """The coordinates of a place given in pixels."""
    return 2 * px / (width - 1) - 1, 2 * py / (height - 1) - 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_recorded_values(handle, dtype):
    """4x4 image: legacy API, 4.16."""
    x = Tensor((1, 1, 4, 4), ramp(1, 1, 4, 4, offset=4), dtype)
    places = [pixel(-0.5, -0.5), pixel(3.5, 3.5), pixel(2, 3.5), pixel(-0.5, 2)]
    grid = Tensor((1, 1, 4, 2), np.array(places), dtype)
    y, image = Tensor((1, 1, 1, 4), dtype=dtype), x.values[0, 0]
    sample(handle, st_desc((1, 1, 1, 4), dtype), x, grid, y)
    want = [image[0, 0] / 4, image[3, 3] / 4, image[3, 2] / 2, image[2, 0] / 2]
    np.testing.assert_allclose(y.values.reshape(4), want, rtol=tolerance(dtype, 8))


def plain_sample(x, grid):
    """By loops; also {output: [(pixel, weight)]}."""
    n, ch, height, width = x.shape
    y, shares = np.zeros((n, ch, *grid.shape[1:3])), {}
    for b, i, j in np.ndindex(*grid.shape[:3]):
        px, py = (grid[b, i, j, 0] + 1) * (width - 1) / 2, (grid[b, i, j, 1] + 1) * (height - 1) / 2
        shares[b, i, j] = []
        if not (abs(px) < 1e6 and abs(py) < 1e6):
            continue
        left, top = int(np.floor(px)), int(np.floor(py))
        for r, s in itertools.product((top, top + 1), (left, left + 1)):
            if 0 <= r < height and 0 <= s < width:
                weight = (1 - abs(py - r)) * (1 - abs(px - s))
                y[b, :, i, j] += weight * x[b, :, r, s]
                shares[b, i, j].append((r, s, weight))
    return y, shares


FORMS = {"nchw": {}, "nhwc": dict(layout="nhwc"), "gaps": None}


def made(dims, values, dtype, form):
    if form == "gaps":
        strides = (dims[3] * dims[2] * dims[1] * 3, 2 * dims[3] * dims[2] + 1, 2 * dims[3], 2)
        return Tensor(dims, values, dtype, strides=strides)
    return Tensor(dims, values, dtype, **FORMS[form])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("alpha, beta", [(1.0, 0.0), (1.5, 0.0), (-0.5, 2.0)])
def test_forward(handle, dtype, form, alpha, beta):
    old = draw(*DIMS, seed=3) if beta else None
    x, y = made(IMAGE, draw(*IMAGE), dtype, form), made(DIMS, old, dtype, form)
    grid = Tensor(SHAPES["grid"], points(), dtype)
    grid.values = np.where(np.arange(80).reshape(SHAPES["grid"]) == 11, np.nan, grid.values)
    sample(handle, st_desc(dtype=dtype), x, grid, y, alpha, beta)
    want = alpha * plain_sample(x.values, grid.values)[0] + (beta * old if beta else 0)
    np.testing.assert_allclose(y.values, want, atol=tolerance(dtype, 4))
    assert y.stray_bytes() == 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("factors", [(1.0, 0.0, 1.0, 0.0), (1.5, 0.5, -2.0, 0.25), (2.0, 0.0, 0.5, 1.0)])
def test_backward(handle, dtype, form, factors):
    alpha, beta, alpha_dgrid, beta_dgrid = factors
    x, dy = made(IMAGE, draw(*IMAGE), dtype, form), made(DIMS, draw(*DIMS, seed=1), dtype, form)
    dx = made(IMAGE, draw(*IMAGE, seed=2) if beta else None, dtype, form)
    grid, dgrid = (Tensor(SHAPES["grid"], v, dtype) for v in
                   (points(), draw(*SHAPES["grid"], seed=4) if beta_dgrid else None))
    old_dx, old_dgrid = (dx.values if beta else 0), (dgrid.values if beta_dgrid else 0)
    gradients(handle, st_desc(dtype=dtype), x, dx, dy, grid, dgrid, factors)
    want, slopes = np.zeros(IMAGE), np.zeros(SHAPES["grid"])
    for (b, i, j), cells in plain_sample(x.values, grid.values)[1].items():
        for r, s, weight in cells:
            want[b, :, r, s] += weight * dy.values[b, :, i, j]
    loss = lambda g: (plain_sample(x.values, g)[0] * dy.values).sum((1,))
    for a in range(2):                           # central differences: the function is linear between pixels
        step = np.zeros(2)
        step[a] = 1e-6
        slopes[..., a] = (loss(grid.values + step) - loss(grid.values - step)) / 2e-6
    np.testing.assert_allclose(dx.values, alpha * want + beta * old_dx, atol=tolerance(dtype, 40))
    np.testing.assert_allclose(dgrid.values, alpha_dgrid * slopes + beta_dgrid * old_dgrid,
                               atol=tolerance(dtype, 100) + 1e-6)
    assert dx.stray_bytes() == dgrid.stray_bytes() == 0


def test_at_the_centres_of_pixels_the_cell_to_the_right_and_below_counts(handle):
    """Also where the coordinate is an f32 just below the centre."""
    x, dy, dx = (Tensor((1, 1, 1, 5), np.array([0, 1, 4, 9, 16.0])), Tensor((1, 1, 1, 7), np.ones(7)),
                 Tensor((1, 1, 1, 5)))
    before = np.nextafter(np.float32(0.5), np.float32(0))
    at = np.array([-1, -0.5, 0, 0.5, 1, before, -1.5], np.float32)       # pixels 0 1 2 3 4, 3 - tiny, -1
    grid, dgrid = Tensor((1, 1, 7, 2), np.stack([at, -np.ones(7)], -1)), Tensor((1, 1, 7, 2))
    gradients(handle, st_desc((1, 1, 1, 7)), x, dx, dy, grid, dgrid)
    np.testing.assert_allclose(dgrid.values[0, 0, :, 0], 2 * np.array([1, 3, 5, 7, -16, 5, 0]), rtol=1e-6)


def test_far_points_add_nothing(handle):
    x, dy = Tensor(IMAGE, draw(*IMAGE)), Tensor(DIMS, np.full(DIMS, np.nan))
    for far in (np.nan, np.inf, -np.inf, 1e30, -3.0, 2.0):
        grid = Tensor(SHAPES["grid"], np.full(SHAPES["grid"], far))
        y, dx, dgrid = Tensor(DIMS), Tensor(IMAGE), Tensor(SHAPES["grid"])
        sample(handle, st_desc(), x, grid, y)
        gradients(handle, st_desc(), x, dx, dy, grid, dgrid)
        assert not y.values.any() and not dx.values.any() and not dgrid.values.any()


def test_many_points_in_one_cell(handle):
    """All of an image's points read the same four pixels: their sums have one order."""
    n, h, w = 1, 37, 29
    dy, grid = Tensor((n, 2, h, w), draw(n, 2, h, w)), Tensor((n, h, w, 2), np.full((n, h, w, 2), 0.1))
    x, dgrid = Tensor((n, 2, 6, 7), draw(n, 2, 6, 7)), Tensor((n, h, w, 2))
    found = []
    for _ in range(2):
        dx = Tensor((n, 2, 6, 7))
        gradients(handle, st_desc((n, 2, h, w)), x, dx, dy, grid, dgrid)
        found.append(dx.values)
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0].sum((2, 3)), dy.values.sum((2, 3)), atol=1e-3)
    assert (found[0] != 0).sum() == 8


@pytest.mark.parametrize("seed", range(3))
def test_backward_is_the_adjoint(handle, seed):
    """<dy, sample(x)> = <dx, x>."""
    x, dy = Tensor(IMAGE, draw(*IMAGE)), Tensor(DIMS, draw(*DIMS, seed=1))
    grid = Tensor(SHAPES["grid"], points(seed))
    y, dx, dgrid = Tensor(DIMS), Tensor(IMAGE), Tensor(SHAPES["grid"])
    sample(handle, st_desc(), x, grid, y)
    gradients(handle, st_desc(), x, dx, dy, grid, dgrid)
    np.testing.assert_allclose((dy.values * y.values).sum(), (dx.values * x.values).sum(), rtol=1e-4,
                               atol=1e-3)

"""Every compute function on a device gives what the NumPy device gives, writes nothing else,
and takes any element as a start."""
import numpy as np
import pytest

from cydnn import cudnn as c

from .arrays import BFLOAT16, DOUBLE, FLOAT, FLOATS, GUARD, HALF, NHWC, Filter, Tensor, conv_desc, draw
from .test_activation import act_desc
from .test_pooling import pool_desc
from .test_spatial import st_desc
from .test_tensor_ops import op_desc

pytestmark = pytest.mark.usefixtures("between_zones")

X, W, Y, IMAGE = (2, 8, 9, 7), (16, 8, 3, 3), (2, 16, 9, 7), (2, 16, 4, 3)
GRID = (2, 4, 3, 2)
STAT, VECTOR = (1, 8, 1, 1), (1, 16, 1, 1)


def conv(dtype):
    return conv_desc((1, 1), compute=DOUBLE if dtype == DOUBLE else FLOAT)


# name: (dims of the operands by name; "w" and "dw" are filters, call(handle, t, p, dtype));
# t are tensors, p their addresses
def data_algo(filters) -> int:
    """An algorithm of data gradients that needs no workspace: 0 takes no NHWC filters, which are 1."""
    return int(c.getFilter4dDescriptor(filters)[1])


CALLS = {
    "convolutionForward": (dict(x=X, w=W, y=Y), lambda h, t, p, d: c.convolutionForward(
        h, 2, t.x.desc, p.x, t.w.desc, p.w, conv(d), 0, 0, 0, 0.5, t.y.desc, p.y)),
    "convolutionBackwardBias": (dict(x=Y, y=VECTOR), lambda h, t, p, d: c.convolutionBackwardBias(
        h, 2, t.x.desc, p.x, 0.5, t.y.desc, p.y)),
    "convolutionBackwardFilter": (dict(x=X, y=Y, w=W), lambda h, t, p, d: c.convolutionBackwardFilter(
        h, 2, t.x.desc, p.x, t.y.desc, p.y, conv(d), 0, 0, 0, 0.5, t.w.desc, p.w)),
    "convolutionBackwardData": (dict(w=W, y=Y, x=X), lambda h, t, p, d: c.convolutionBackwardData(
        h, 2, t.w.desc, p.w, t.y.desc, p.y, conv(d), data_algo(t.w.desc), 0, 0, 0.5, t.x.desc, p.x)),
    "softmaxForward": (dict(x=X, y=X), lambda h, t, p, d: c.softmaxForward(
        h, 1, 1, 2, t.x.desc, p.x, 0.5, t.y.desc, p.y)),
    "softmaxBackward": (dict(y=X, dy=X, dx=X), lambda h, t, p, d: c.softmaxBackward(
        h, 1, 0, 2, t.y.desc, p.y, t.dy.desc, p.dy, 0.5, t.dx.desc, p.dx)),
    "poolingForward": (dict(x=Y, y=IMAGE), lambda h, t, p, d: c.poolingForward(
        h, pool_desc((3, 3), (0, 0), (2, 2)), 2, t.x.desc, p.x, 0.5, t.y.desc, p.y)),
    "poolingBackward": (dict(y=IMAGE, dy=IMAGE, x=Y, dx=Y), lambda h, t, p, d: c.poolingBackward(
        h, pool_desc((3, 3), (0, 0), (2, 2)), 2, t.y.desc, p.y, t.dy.desc, p.dy, t.x.desc, p.x, 0.5,
        t.dx.desc, p.dx)),
    **{f"activationForward {mode}": (dict(x=X, y=X), lambda h, t, p, d, mode=mode: c.activationForward(
        h, act_desc(mode), 2, t.x.desc, p.x, 0.5, t.y.desc, p.y)) for mode in range(4)},
    **{f"activationBackward {mode}": (dict(y=X, dy=X, x=X, dx=X), lambda h, t, p, d, mode=mode: (
        c.activationBackward(h, act_desc(mode), 2, t.y.desc, p.y, t.dy.desc, p.dy, t.x.desc, p.x, 0.5,
                             t.dx.desc, p.dx))) for mode in range(4)},
    "batchNormalizationForwardInference": (dict(x=X, s=STAT, b=STAT, y=X), lambda h, t, p, d: (
        c.batchNormalizationForwardInference(h, 1, 2, 0.5, t.x.desc, p.x, t.y.desc, p.y, t.s.desc, p.s, p.b,
                                             p.b, p.s, 3.0))),
    "batchNormalizationForwardTraining": (
        dict(x=X, s=STAT, b=STAT, rm=STAT, rv=STAT, sm=STAT, si=STAT, y=X), lambda h, t, p, d: (
            c.batchNormalizationForwardTraining(h, 1, 2, 0.5, t.x.desc, p.x, t.y.desc, p.y, t.s.desc, p.s,
                                                p.b, 0.25, p.rm, p.rv, 0.5, p.sm, p.si))),
    "batchNormalizationBackward": (dict(x=X, dy=X, s=STAT, ds=STAT, db=STAT, dx=X), lambda h, t, p, d: (
        c.batchNormalizationBackward(h, 1, 2, 0.5, 3, 0.25, t.x.desc, p.x, t.dy.desc, p.dy, t.dx.desc, p.dx,
                                     t.s.desc, p.s, p.ds, p.db, 0.5, 0, 0))),
    "spatialTfGridGeneratorForward": (dict(theta=(2, 2, 3), grid=GRID), lambda h, t, p, d: (
        c.spatialTfGridGeneratorForward(h, st_desc(IMAGE, d), p.theta, p.grid))),
    "spatialTfGridGeneratorBackward": (dict(dgrid=GRID, dtheta=(2, 2, 3)), lambda h, t, p, d: (
        c.spatialTfGridGeneratorBackward(h, st_desc(IMAGE, d), p.dgrid, p.dtheta))),
    "spatialTfSamplerForward": (dict(x=Y, grid=GRID, y=IMAGE), lambda h, t, p, d: c.spatialTfSamplerForward(
        h, st_desc(IMAGE, d), 2, t.x.desc, p.x, p.grid, 0.5, t.y.desc, p.y)),
    "spatialTfSamplerBackward": (dict(x=Y, dy=IMAGE, grid=GRID, dx=Y, dgrid=GRID), lambda h, t, p, d: (
        c.spatialTfSamplerBackward(h, st_desc(IMAGE, d), 2, t.x.desc, p.x, 0.5, t.dx.desc, p.dx, 3,
                                   t.dy.desc, p.dy, p.grid, 0.25, p.dgrid))),
    "im2Col": (dict(x=X, w=W, y=(72, 126, 1)), lambda h, t, p, d: c.im2Col(
        h, t.x.desc, p.x, t.w.desc, conv(d), p.y)),
    "transformTensor": (dict(x=X, y=X), lambda h, t, p, d: c.transformTensor(
        h, 2, t.x.desc, p.x, 0.5, t.y.desc, p.y)),
    "addTensor": (dict(a=(1, 8, 1, 7), y=X), lambda h, t, p, d: c.addTensor(
        h, 2, t.a.desc, p.a, 0.5, t.y.desc, p.y)),
    "addTensor in place": (dict(y=X), lambda h, t, p, d: c.addTensor(
        h, 2, t.y.desc, p.y, 0.5, t.y.desc, p.y)),
    "opTensor": (dict(x=X, y=X), lambda h, t, p, d: c.opTensor(
        h, op_desc(2, DOUBLE if d == DOUBLE else FLOAT), 2, t.x.desc, p.x, 3, t.x.desc, p.x, 0.5,
        t.y.desc, p.y)),
    "setTensor": (dict(y=X), lambda h, t, p, d: c.setTensor(h, t.y.desc, p.y, 0.1)),
    "scaleTensor": (dict(y=X), lambda h, t, p, d: c.scaleTensor(h, t.y.desc, p.y, 0.1)),
}


class Names(dict):
    __getattr__ = dict.__getitem__


def operands(dims, dtype, layout):
    """Tensors by name; parameters of normalisation have the math type."""
    small = DOUBLE if dtype == DOUBLE else FLOAT
    made = Names()
    for seed, (name, shape) in enumerate(dims.items()):
        values = np.abs(draw(*shape, seed=seed)) + 0.25
        if name == "w":
            made[name] = Filter(shape, values, dtype, NHWC if layout == "nhwc" else 0)
        else:
            made[name] = Tensor(shape, values, small if shape == STAT else dtype, layout)
    return made


def run(device, call, tensors, dtype, shift):
    """The tensors' raw bytes after the call on ``device``, with every operand ``shift`` elements off."""
    handle, buffers, addresses = c.create(device), {}, Names()
    for name, t in tensors.items():
        buffers[name] = handle.device.alloc(t.raw.nbytes + 64)
        start = buffers[name].ptr + shift * t.dtype.bytes
        handle.device.copy_in(start, t.raw)
        addresses[name] = start + GUARD * t.dtype.bytes
    call(handle, tensors, addresses, dtype)
    handle.device.synchronize()
    after = {name: handle.device.copy_out(addresses[name] - GUARD * t.dtype.bytes, np.empty_like(t.raw))
             for name, t in tensors.items()}
    c.destroy(handle)
    return after


@pytest.mark.parametrize("device", ["ptx:sm_80", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("shift", (0, 1))
@pytest.mark.parametrize("layout", ("nchw", "nhwc"))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CALLS)
def test_a_device_agrees_with_numpy(name, dtype, layout, shift, device):
    dims, call = CALLS[name]
    if layout == "nhwc" and dtype == DOUBLE and name.startswith("convolution") and "w" in dims:
        return                                   # no NHWC filter with DOUBLE in v5
    tensors = operands(dims, dtype, layout)
    want, got = run("numpy", call, tensors, dtype, 0), run(device, call, tensors, dtype, shift)
    for operand, t in tensors.items():
        t.raw = want[operand]
        expected, scale = t.values, np.abs(t.values).max() + 1
        t.raw = got[operand]
        eps = {HALF: 2 ** -10, BFLOAT16: 2 ** -7}.get(dtype, 2 ** -20 if dtype == FLOAT else 2 ** -40)
        np.testing.assert_allclose(t.values, expected, rtol=4 * eps, atol=4 * eps * scale, err_msg=operand)
        assert t.stray_bytes() == 0, operand


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_themselves(name):
    """What runs above where there is a GPU runs here on NumPy: two addresses, one answer, no stray bytes."""
    dims, call = CALLS[name]
    tensors = operands(dims, FLOAT, "nchw")
    first, second = (run("numpy", call, tensors, FLOAT, shift) for shift in (0, 1))
    changed = [n for n in tensors if (first[n] != tensors[n].raw).any()]
    assert changed
    for operand, t in tensors.items():
        np.testing.assert_array_equal(first[operand], second[operand])
        t.raw = first[operand]
        assert t.stray_bytes() == 0


@pytest.mark.gpu
def test_search_and_odd_workspaces_on_a_gpu(gpu):
    handle = c.create("cuda:0")
    x, w, y = Tensor(X, dtype=HALF).desc, Filter(W, dtype=HALF).desc, Tensor(Y, dtype=HALF).desc
    found = c.findConvolutionForwardAlgorithm(handle, x, w, conv_desc((1, 1)), y, 9)
    assert found[0].status == 0 and found[0].time > 0
    algo = c.getConvolutionForwardAlgorithm(handle, x, w, conv_desc((1, 1)), y,
                                            c.CUDNN_CONVOLUTION_FWD_NO_WORKSPACE, 0)
    assert c.getConvolutionForwardWorkspaceSize(handle, x, w, conv_desc((1, 1)), y, algo) == 0
    c.destroy(handle)

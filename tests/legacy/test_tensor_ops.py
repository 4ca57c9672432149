"""g14 to g18 and the op-tensor descriptor: transform, add, op, set, scale."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam

from .arrays import DOUBLE, FLOAT, FLOATS, HALF, Tensor, draw, ramp, tensor_desc, tolerance

DIMS = (2, 3, 4, 5)
OPS = {c.CUDNN_OP_TENSOR_ADD: np.add, c.CUDNN_OP_TENSOR_MUL: np.multiply, c.CUDNN_OP_TENSOR_MIN: np.minimum,
       c.CUDNN_OP_TENSOR_MAX: np.maximum}


def op_desc(op, compute=FLOAT, nan=c.CUDNN_NOT_PROPAGATE_NAN):
    desc = c.createOpTensorDescriptor()
    c.setOpTensorDescriptor(desc, op, compute, nan)
    return desc


# -- Transform -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [DIMS, (2, 3, 4), (2, 2, 2, 2, 2, 2, 2, 2)])
def test_transform(handle, dims, dtype):
    x, y = Tensor(dims, draw(*dims), dtype), Tensor(dims, draw(*dims, seed=1), dtype, "nhwc")
    c.transformTensor(handle, 2, x.desc, x.ptr, 0.5, y.desc, y.ptr)
    np.testing.assert_allclose(y.values, 2 * draw(*dims) + 0.5 * draw(*dims, seed=1), rtol=tolerance(dtype))
    c.transformTensor(handle, 1, y.desc, y.ptr, 0, x.desc, x.ptr)
    np.testing.assert_array_equal(x.values, y.values)


def test_transform_keeps_the_gaps(handle):
    x, y = Tensor(DIMS, draw(*DIMS)), Tensor(DIMS, None, strides=(200, 60, 12, 2))
    c.transformTensor(handle, 1, x.desc, x.ptr, 0, y.desc, y.ptr)
    np.testing.assert_array_equal(y.values, x.values)
    assert y.stray_bytes() == 0


def test_transform_is_never_in_place(handle, refused):
    x = Tensor(DIMS, 1)
    for _ in range(2):
        refused(c.transformTensor, BadParam, "must not overlap", handle, 1, x.desc, x.ptr, 0, x.desc, x.ptr)


# -- Add -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("function", (c.addTensor, c.addTensor_v3))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("a_dims", [DIMS, (1, 3, 1, 1), (1, 1, 1, 1), (2, 1, 4, 1)])
def test_add(handle, function, dtype, a_dims):
    a, out = Tensor(a_dims, draw(*a_dims), dtype), Tensor(DIMS, draw(*DIMS, seed=1), dtype, "nhwc")
    function(handle, alpha=2, aDesc=a.desc, A=a.ptr, beta=0.5, cDesc=out.desc, C=out.ptr)
    np.testing.assert_allclose(out.values, 2 * draw(*a_dims) + 0.5 * draw(*DIMS, seed=1),
                               rtol=tolerance(dtype))


def test_add_in_place(handle):
    a = Tensor(DIMS, draw(*DIMS))
    c.addTensor(handle, 2, a.desc, a.ptr, 3, a.desc, a.ptr)
    np.testing.assert_array_equal(a.values, 5 * draw(*DIMS))


# -- Op ------------------------------------------------------------------------------------------------------

def test_op_descriptor(refused):
    desc = op_desc(c.CUDNN_OP_TENSOR_MAX, DOUBLE, c.CUDNN_PROPAGATE_NAN)
    assert c.getOpTensorDescriptor(desc) == (3, DOUBLE, 1)
    refused(c.setOpTensorDescriptor, BadParam, "opTensorOp must be one of CUDNN_OP_TENSOR_ADD", desc, 4, 0, 0)
    refused(c.setOpTensorDescriptor, BadParam, "opTensorCompType must be one of", desc, 0, 3, 0)
    refused(c.setOpTensorDescriptor, BadParam,
            "opTensorNanOpt must be one of CUDNN_NOT_PROPAGATE_NAN", desc, 0, 0, 2)
    refused(c.setOpTensorDescriptor, BadParam, "opTensorDesc must not be NULL", 0, 0, 0, 0)
    assert c.getOpTensorDescriptor(desc) == (3, DOUBLE, 1)
    refused(c.getOpTensorDescriptor, BadParam, "must be set", c.createOpTensorDescriptor())
    c.destroyOpTensorDescriptor(0), c.destroyOpTensorDescriptor(desc)
    refused(c.destroyOpTensorDescriptor, BadParam, "created and not destroyed", desc)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("b_dims", [DIMS, (1, 3, 1, 1)])
def test_op(handle, op, dtype, b_dims):
    a, b, out = (Tensor(DIMS, draw(*DIMS), dtype), Tensor(b_dims, draw(*b_dims, seed=1), dtype),
                 Tensor(DIMS, draw(*DIMS, seed=2), dtype, "nhwc"))
    desc = op_desc(op, DOUBLE if dtype == DOUBLE else FLOAT)
    c.opTensor(handle, desc, 2, a.desc, a.ptr, 3, b.desc, b.ptr, 0.5, out.desc, out.ptr)
    want = (OPS[op](2 * draw(*DIMS), 3 * np.broadcast_to(draw(*b_dims, seed=1), DIMS))
            + 0.5 * draw(*DIMS, seed=2))
    np.testing.assert_allclose(out.values, want, rtol=tolerance(dtype), atol=tolerance(dtype))


def test_op_recorded_values(handle):
    out, b = (Tensor((1, 4, 5, 5), ramp(1, 4, 5, 5)),
              Tensor((1, 4, 5, 5), ramp(1, 4, 5, 5, scale=0.5, offset=5)))
    c.opTensor(handle, op_desc(c.CUDNN_OP_TENSOR_MIN), 1.5, out.desc, out.ptr, 2.5,
               b.desc, b.ptr, 2, out.desc, out.ptr)
    np.testing.assert_allclose(out.values.ravel()[[10, 50, 99]], [35, 175, 334.25], rtol=1e-6)


@pytest.mark.parametrize("op, plain", [(c.CUDNN_OP_TENSOR_MIN, np.fmin), (c.CUDNN_OP_TENSOR_MAX, np.fmax)])
def test_op_and_nan(handle, op, plain):
    values = np.array([[1.0, np.nan, 2.0, np.nan], [np.nan, 3.0, -1.0, np.nan]])
    a, b, out = Tensor((1, 1, 1, 4), values[0]), Tensor((1, 1, 1, 4), values[1]), Tensor((1, 1, 1, 4))
    for nan, want in ((c.CUDNN_NOT_PROPAGATE_NAN, plain(*values)), (c.CUDNN_PROPAGATE_NAN, OPS[op](*values))):
        c.opTensor(handle, op_desc(op, nan=nan), 1, a.desc, a.ptr, 1, b.desc, b.ptr, 0, out.desc, out.ptr)
        np.testing.assert_array_equal(out.values.ravel(), want)


def test_op_types_may_differ_between_inputs_and_output(handle):
    a, out = Tensor(DIMS, draw(*DIMS), HALF), Tensor(DIMS, 0, FLOAT)
    c.opTensor(handle, op_desc(0), 1, a.desc, a.ptr, 1, a.desc, a.ptr, 0, out.desc, out.ptr)
    np.testing.assert_array_equal(out.values, 2 * draw(*DIMS))


def test_op_in_place_rules(handle, refused):
    a, b, desc = Tensor(DIMS, draw(*DIMS)), Tensor(DIMS, draw(*DIMS, seed=1)), op_desc(c.CUDNN_OP_TENSOR_ADD)
    c.opTensor(handle, desc, 1, a.desc, a.ptr, 1, b.desc, b.ptr, 0, a.desc, a.ptr)
    np.testing.assert_array_equal(a.values, draw(*DIMS) + b.values)
    for _ in range(2):
        refused(c.opTensor, BadParam, "cudnnOpTensor: B must not be C, unless A is C too", handle, desc, 1,
                a.desc, a.ptr, 1, b.desc, b.ptr, 0, b.desc, b.ptr)
    before = a.values
    c.opTensor(handle, desc, 1, a.desc, a.ptr, 1, a.desc, a.ptr, 0, a.desc, a.ptr)
    np.testing.assert_array_equal(a.values, 2 * before)
    other = tensor_desc(*DIMS, layout="nhwc")
    refused(c.opTensor, BadParam, "must not overlap", handle, desc, 1,
            a.desc, a.ptr, 1, b.desc, b.ptr, 0, other, a.ptr)


# -- Set and scale -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", FLOATS)
def test_set_and_scale(handle, dtype):
    y = Tensor(DIMS, None, dtype, strides=(200, 60, 12, 2))
    c.setTensor(handle, y.desc, y.ptr, 0.1)
    np.testing.assert_array_equal(y.values, y.dtype.round(np.full(DIMS, 0.1)))
    assert y.stray_bytes() == 0
    c.setTensor(handle, yDesc=y.desc, y=y.ptr, value=3)
    c.scaleTensor(handle, yDesc=y.desc, y=y.ptr, alpha=-0.5)
    np.testing.assert_array_equal(y.values, np.full(DIMS, -1.5))
    assert y.stray_bytes() == 0


def test_scale_by_0_reads(handle):
    y = Tensor((1, 1, 1, 3), [1.0, np.inf, np.nan])
    with np.errstate(invalid="ignore"):
        c.scaleTensor(handle, y.desc, y.ptr, 0)
    np.testing.assert_array_equal(y.values.ravel(), [0, np.nan, np.nan])

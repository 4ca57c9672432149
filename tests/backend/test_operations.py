"""Operations that move, resample, draw and mask, from their descriptors to numbers on the NumPy device."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn.backend import constant, cudnnBackendExecute
from cydnn.ops import philox
from descriptors import make, packed, planned, tensor

C = lambda name: constant(f"CUDNN_{name}")
FLOATS = np.random.default_rng(7).uniform(-1, 1, 512).astype(np.float32)


def drawn(*dims, skip=0):
    return FLOATS[skip:skip + int(np.prod(dims))].reshape(dims).copy()


def run(op, **arrays):
    """Execute the graph of one operation; ``arrays`` by uid."""
    _, plan = planned([op], "numpy")
    pack = packed({int(name[1:]): array for name, array in arrays.items()}, plan)
    cudnnBackendExecute("numpy", plan, pack)


def test_concat_and_reshape():
    a, b, y = drawn(2, 3), drawn(2, 5, skip=9), np.zeros((2, 8), np.float32)
    op = make("OPERATION_CONCAT", AXIS=1, INPUT_DESCS=[tensor(1, (2, 3)), tensor(2, (2, 5))],
              OUTPUT_DESC=tensor(3, (2, 8))).finalize()
    run(op, u1=a, u2=b, u3=y)
    np.testing.assert_array_equal(y, np.concatenate([a, b], 1))
    z = np.zeros((4, 4), np.float32)
    run(make("OPERATION_RESHAPE", XDESC=tensor(3, (2, 8)), YDESC=tensor(4, (4, 4))).finalize(), u3=y, u4=z)
    np.testing.assert_array_equal(z, y.reshape(4, 4))


@pytest.mark.parametrize("half", [(1, 2), 0.5])
def test_bilinear_with_fractions(half):
    """The guide's upsampling: paddings and strides are fractions."""
    x, y = drawn(1, 2, 3, 4), np.zeros((1, 2, 6, 8), np.float32)
    resample = make("RESAMPLE", RESAMPLE_MODE=C("RESAMPLE_BILINEAR"), COMP_TYPE=C("DATA_FLOAT"),
                    SPATIAL_DIMS=2,
                    PRE_PADDINGS=[half, half], POST_PADDINGS=[1, 1], STRIDES=[half, half], WINDOW_DIMS=[2, 2],
                    PADDING_MODE=C("EDGE_VAL_PAD")).finalize()
    op = make("OPERATION_RESAMPLE_FWD", XDESC=tensor(1, x.shape), YDESC=tensor(2, y.shape),
              OPERATION_RESAMPLE_FWD_DESC=resample).finalize()
    run(op, u1=x, u2=y)
    np.testing.assert_array_equal(y[..., ::2, ::2], x)
    np.testing.assert_allclose(y[..., 1, 1], x[..., :2, :2].mean((-1, -2)), rtol=1e-6)


def test_random_numbers():
    y = np.zeros((4, 16), np.float32)
    rng = make("RNG", RNG_DISTRIBUTION=C("RNG_DISTRIBUTION_BERNOULLI"),
               BERNOULLI_DIST_PROBABILITY=0.75).finalize()
    op = make("OPERATION_RNG", YDESC=tensor(1, y.shape), OPERATION_RNG_SEED=9,
              OPERATION_RNG_DESC=rng).finalize()
    run(op, u1=y)
    np.testing.assert_array_equal(y, philox.numbers(9, 0, 4, 16) >= philox.threshold(0.25))


def test_sizes_of_a_product():
    a, b, c = drawn(2, 3, 4), drawn(2, 4, 5, skip=30), np.zeros((2, 3, 5), np.float32)
    sizes = np.array([1, 3], np.int32).reshape(2, 1, 1)
    matmul = make("MATMUL", COMP_TYPE=C("DATA_FLOAT"), PADDING_VALUE=-1.0).finalize()
    op = make("OPERATION_MATMUL", ADESC=tensor(1, a.shape), BDESC=tensor(2, b.shape),
              CDESC=tensor(3, c.shape),
              OPERATION_MATMUL_DESC=matmul, GEMM_M_OVERRIDE_DESC=tensor(4, (2, 1, 1), "INT32")).finalize()
    run(op, u1=a, u2=b, u3=c, u4=sizes)
    want = a @ b
    want[0, 1:] = -1
    np.testing.assert_allclose(c, want, rtol=1e-5)

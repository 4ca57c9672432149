"""Every convolution algorithm, by its number: random problems that its row takes, against the NumPy device.
alpha, beta, strides with gaps, a workspace of exactly the size asked for, everything that is not read NaN.

``CYDNN_CASES`` problems an algorithm on a GPU (default 200).
"""
from __future__ import annotations

import os
import random

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import NotSupported

from .arrays import BFLOAT16, DOUBLE, FLOAT, GUARD, HALF, NHWC, Filter, Tensor, conv_desc

pytestmark = pytest.mark.usefixtures("between_zones")

ALGORITHMS = [(direction, word, getattr(c, f"CUDNN_CONVOLUTION_{prefix}{word}"))
              for direction, prefix, words in (
                  ("Forward", "FWD_ALGO_",
                   "IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM GEMM FFT FFT_TILING WINOGRAD"),
                  ("BackwardFilter", "BWD_FILTER_", "ALGO_0 ALGO_1 ALGO_FFT ALGO_3"),
                  ("BackwardData", "BWD_DATA_", "ALGO_0 ALGO_1 ALGO_FFT ALGO_FFT_TILING ALGO_WINOGRAD"))
              for word in words.split()]
TYPES = ((FLOAT, FLOAT), (HALF, FLOAT), (BFLOAT16, FLOAT), (DOUBLE, DOUBLE), (HALF, HALF))
EPS = {HALF: 2.0 ** -10, BFLOAT16: 2.0 ** -7, FLOAT: 2.0 ** -20, DOUBLE: 2.0 ** -40}
ON_GPU = int(os.environ.get("CYDNN_CASES", "200"))


def strides_of(dims, rng) -> tuple:
    """Packed, with a gap somewhere, or the dims in another order."""
    order = list(range(len(dims)))[::-1]
    kind = rng.choice(["packed", "packed", "gap", "nhwc", "any"])
    if kind == "nhwc":
        order = [1, *order[:-2], 0]
    elif kind == "any":
        rng.shuffle(order)
    strides, step = [0] * len(dims), 1
    for axis in order:
        step += rng.randint(1, 3) if kind == "gap" and rng.random() < 0.4 else 0
        strides[axis], step = step, step * dims[axis]
    return tuple(strides)


def drawn(rng) -> dict:
    """A random convolution: tensors with their values, and the descriptor."""
    data, math = rng.choice(TYPES)
    plain, spatial = rng.random() < 0.5, 3 if rng.random() < 0.2 else 2
    window = [3] * spatial if plain else [rng.randint(1, 5 if spatial == 2 else 3) for _ in range(spatial)]
    size = [rng.randint(max(window), 13 if spatial == 2 else 6) for _ in range(spatial)]
    pad = [rng.randint(0, 2 if not plain else 3) for _ in range(spatial)]
    step = [1] * spatial if plain or rng.random() < 0.5 else [rng.randint(1, 2) for _ in range(spatial)]
    channels, filters = (rng.choice([1, 2, 3, 8, 9, 16]) for _ in "ck")
    x, w = (rng.randint(1, 3), channels, *size), (filters, channels, *window)
    y = (x[0], filters, *((i + 2 * p - r) // s + 1 for i, p, r, s in zip(size, pad, window, step)))
    gen = np.random.default_rng(rng.randrange(2 ** 30))
    values = {name: gen.integers(-8, 9, dims) / 8.0 for name, dims in dict(x=x, w=w, y=y).items()}
    mode = rng.choice([c.CUDNN_CROSS_CORRELATION, c.CUDNN_CONVOLUTION])
    nhwc = rng.random() < 0.1
    layout = lambda dims: dict(layout="nhwc") if nhwc else dict(strides=strides_of(dims, rng))
    tensors = {name: Tensor(dims, values[name], data, **layout(dims)) for name, dims in (("x", x), ("y", y))}
    tensors["w"] = Filter(w, values["w"], data, NHWC if nhwc else 0)
    return dict(tensors, conv=conv_desc(pad, step, mode, math), alpha=rng.choice([1.0, -1.5]),
                beta=rng.choice([0.0, 0.0, 0.5]), data=data)


READS = {"Forward": "x w y", "BackwardFilter": "x y w", "BackwardData": "w y x"}


def descs(direction, case) -> tuple:
    """The descriptors in the order of the query, without the algorithm."""
    first, second, last = (case[n].desc for n in READS[direction].split())
    return first, second, case["conv"], last


def run(device, direction, number, case) -> dict:
    """The raw bytes of all tensors after a call on a device."""
    handle, names = c.create(device), READS[direction].split()
    query = getattr(c, f"getConvolution{direction}WorkspaceSize")
    need = query(handle, *descs(direction, case), number)
    buffers = {n: handle.device.alloc(case[n].raw.nbytes) for n in names}
    work = handle.device.alloc(need + 256)
    handle.device.memset(work.ptr, 0xFF, need + 256)
    for n in names:
        raw = case[n].raw
        if n == names[-1] and case["beta"] == 0:
            raw = np.full_like(raw, 0xFF)                            # NaN in every type
        handle.device.copy_in(buffers[n].ptr, raw)
    first, second, last = ((case[n].desc, buffers[n].ptr + GUARD * case[n].dtype.bytes) for n in names)
    getattr(c, f"convolution{direction}")(handle, case["alpha"], *first, *second, case["conv"], number,
                                          work.ptr if need else 0, need, case["beta"], *last)
    handle.device.synchronize()
    after = {n: handle.device.copy_out(buffers[n].ptr, np.empty_like(case[n].raw)) for n in names}
    tail = handle.device.copy_out(work.ptr + need, np.empty(256, np.uint8))
    assert (tail == 0xFF).all(), "bytes behind the workspace were written"
    c.destroy(handle)
    return after


def check(device, direction, number, case):
    """Inputs as they were, the output near, nothing beside it."""
    names = READS[direction].split()
    out, before = case[names[-1]], {n: case[n].raw.copy() for n in names}
    want, got = run("numpy", direction, number, case), run(device, direction, number, case)
    for n in names[:-1]:
        assert (got[n] == before[n]).all(), n
    out.raw = want[names[-1]]
    expected = out.values
    out.raw = got[names[-1]]
    scale = np.abs(expected).max() + 1
    np.testing.assert_allclose(out.values, expected, rtol=4 * EPS[case["data"]],
                               atol=16 * EPS[case["data"]] * scale)
    assert out.stray_bytes() == 0


def taken(direction, number, rng, count):
    """Problems that the algorithm's row takes."""
    handle, query = c.create("numpy"), getattr(c, f"getConvolution{direction}WorkspaceSize")
    while count:
        case = drawn(rng)
        try:
            query(handle, *descs(direction, case), number)
        except NotSupported as error:
            if "has no engine" in str(error):
                return
            continue
        count -= 1
        yield case


@pytest.mark.parametrize("direction, word, number", ALGORITHMS)
@pytest.mark.parametrize("device", ["ptx:sm_80", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_against_numpy(direction, word, number, device, request):
    if device == "cuda:0":
        request.getfixturevalue("gpu")
    count = ON_GPU if device == "cuda:0" else 6
    rng = random.Random(f"{direction} {word}")
    for k, case in enumerate(taken(direction, number, rng, count)):
        try:
            check(device, direction, number, case)
        except AssertionError as error:
            dims = {n: (case[n].dims, case[n].strides) for n in "xwy"}
            raise AssertionError(f"case {k}: {dims} alpha {case['alpha']} beta {case['beta']} "
                                 f"type {case['data']}: {error}") from None

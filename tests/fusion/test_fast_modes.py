"""The functions for results of 16 bits (kernels_src/pointwise/math_fast.cuh), at every value that f16 or bf16
has: in f32, before they are rounded."""
from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fusion_rules import KERNEL, TEXT
from cydnn.device.ptx import PtxDevice, parse
from cydnn.device.ptx.code import Code
from cydnn.dtypes import BY_NAME
from cydnn.fusion import Program, Step, splice
from cydnn.ops import Pointwise

ROWS, COLS = 512, 128                            # all values of 16 bits
ATTRIBUTES = dict(swish_fwd=(1.0,), elu_fwd=(1.0,), softplus_fwd=(1.0,))
# (mode, where the bound ends, an absolute error beside it). Beyond 6.5 the tail of GELU falls too fast.
MODES = (("gelu_fwd", 2.0 ** -17, 1e-10), ("gelu_approx_tanh_fwd", 2.0 ** -17, 1e-9),
         ("sigmoid_fwd", 2.0 ** -17, 1e-9), ("swish_fwd", 2.0 ** -17, 1e-9), ("tanh_fwd", 2.0 ** -17, 0),
         ("softplus_fwd", 2.0 ** -17, 1e-9), ("elu_fwd", 2.0 ** -16, 0), ("exp", 2.0 ** -13, 1e-37))


def values(dtype: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        codes = np.arange(1 << 16, dtype=np.uint16)
        return BY_NAME[dtype].decode(codes.view(BY_NAME[dtype].numpy)).astype(float)


def fast(mode: str, x: np.ndarray) -> np.ndarray:
    """What the spliced function makes of x, in f32, on the interpreter."""
    device = PtxDevice("sm_80")
    step = Step(mode, ("v",), attributes=ATTRIBUTES.get(mode, ()))
    program = Program("f32", (step,), result="n0", fast=True)
    module = parse.module(splice(TEXT, KERNEL, {"epilogue": program}).decode(), f"{mode}.ptx")
    code = Code(module, parse.Program(module, "marked"),
                {n: device._variable(*v) for n, v in module.variables.items()})
    place = device.alloc(x.size * 4)
    device.copy_in(place.ptr, x.astype(np.float32))
    device.launch(code, (ROWS, 1, 1), (COLS // 4, 1, 1), 0, struct.pack("<Qq", place.ptr, 0))
    return device.copy_out(place.ptr, np.empty(x.shape, np.float32)).astype(float)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("mode, relative, absolute", MODES, ids=lambda v: v if isinstance(v, str) else "")
def test_errors(mode, relative, absolute, dtype):
    x = values(dtype)
    with np.errstate(all="ignore"):
        want, got = Pointwise(mode=mode).reference(x, None, None, 1.0, 1.0)["y"], fast(mode, x)
        want32 = want.astype(np.float32).astype(float)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite, infinite = np.isfinite(want32), np.isinf(want32)
    np.testing.assert_array_equal(got[infinite], want32[infinite])
    off = np.abs(got[finite] - want[finite]) - relative * np.abs(want[finite]) - absolute
    worst = x[finite][off.argmax()]
    assert off.max() <= 2.0 ** -125, (worst, got[x == worst], want[x == worst])     # less is 0 (.ftz)

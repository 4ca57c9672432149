"""Data gradients as a product and col2im, on the interpreter: random problems, parts of images, and what is
refused."""
from __future__ import annotations

import pytest

from cydnn.engines import BY_INDEX
from cydnn.engines.conv import dgrad_gemm
from cydnn.ops import ConvDgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw.alone import match, steps

ENGINE = BY_INDEX[165]


def drawn(rng) -> Problem:
    kind, rank = rng.choice(["f32", "f32", "f64", "f16", "bf16"]), rng.choice([1, 2, 2, 3])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    op = ConvDgrad(pre_pad=each([0, 1, 2]), post_pad=each([0, 1]), stride=each([1, 2, 3]),
                   dilation=each([1, 1, 2, 3]), mode=rng.choice(["cross_correlation", "convolution"]),
                   compute="f64" if kind == "f64" else "f32")
    x = (rng.randint(1, 3), rng.randint(1, 5), *each([3, 6, 9]))
    w = (rng.randint(1, 24), x[1], *each([1, 2, 3]))
    y = op.out_dims(x, w)
    if min(y) < 1:
        return drawn(rng)
    lies = lambda dims: TensorDesc.packed(kind, dims, rng.choice(["nchw", "nhwc"]))
    return Problem(op, {"dy": lies(y), "w": lies(w), "dx": lies(x)})


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(24))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


def test_parts_of_the_images(monkeypatch):
    """Three images whose windows go two at a time, then one."""
    problem = Problem.parse("conv_dgrad n3c3h6w7 k8r3s3 pad1 stride2 f32 acc=f32 nhwc")
    monkeypatch.setattr(dgrad_gemm, "PART_BYTES", 2 * 27 * 12 * 4)
    assert [s.args["pixels"] for s in steps(ENGINE, match(problem), H200) if "col2im" in s.kernel] == [84, 42]
    hopper.check(ENGINE, problem, None, blended)


@pytest.mark.parametrize("form, sentence", [
    ("n1c4h5w5 k4r3s3 groups=2 f32 acc=f32", "groups must be 1; got 2"),
    ("n1c2h4000w4000 k4r9s9 f32 acc=f32", "windows of an image must take at most 1073741824 bytes; got"),
    ("n1c2h5w5 k4r3s3 i8 acc=i32", "must be one of"),
    ("n1c2h5w5 k4r3s3 f16 acc=f64", "no matmul engine takes the product: compute must be f32"),
    ("dy=1x4x3x3:f32@81,9,27,2 w=4x2x3x3:f32 dx=1x2x5x5:f32 acc=f32", "have its pixels at one distance"),
    ("dy=1x4x3x3:f32 w=4x2x3x3:f32@40,18,3,1 dx=1x2x5x5:f32 acc=f32", "w must be packed; got strides")])
def test_refusals(form, sentence):
    p = match(Problem.parse(f"conv_dgrad {form}"))
    assert any(sentence in reason for reason in ENGINE.refuse(p, H200))

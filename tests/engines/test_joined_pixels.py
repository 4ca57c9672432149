"""Convolutions with one tap whose neighbouring pixels are joined to whole lines, on the interpreter: random
problems, where a NaN goes, and what is refused."""
from __future__ import annotations

import pytest

from cydnn.engines import BY_INDEX
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[163], ConvDgrad: BY_INDEX[126], ConvWgrad: BY_INDEX[147]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 3])
    read, written = rng.choice([8, 16, 24, 32, 40, 96]), rng.choice([8, 16, 40, 72])
    c, k = (read, written) if op_class is ConvFprop else (written, read)
    spatial = (*(rng.randint(1, 4) for _ in range(rank - 1)), 8 * rng.randint(1, 4))
    op, n = op_class(mode=rng.choice(["cross_correlation", "convolution"])), rng.randint(1, 3)
    tensors = dict(zip(op.parts, (
        TensorDesc.packed(kind, (n, c, *spatial), "nhwc"),
        TensorDesc.packed(kind, (k, c, *(1,) * rank), rng.choice(["nchw", "nhwc"])),
        TensorDesc.packed(kind, (n, k, *spatial), "nhwc"))))
    return Problem(op, {name: tensors[name] for name in (*op.reads, *op.writes)})


@pytest.mark.share(3)
@EACH
@pytest.mark.parametrize("seed", range(8))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


@pytest.mark.parametrize("line, name", [("conv_fprop n2c16h6w8 k96r1s1 f16 nhwc", "x"),
                                        ("conv_dgrad n1c40h7w8 k24r1s1 bf16 nhwc", "dy"),
                                        ("conv_wgrad n1c16h6w8 k32r1s1 f16 nhwc", "x")])
def test_nan_stays_with_its_pixels(line, name):
    problem = Problem.parse(line)
    outcome = hopper.watched.run(problem, hopper.device(3), 1, [ENGINES[type(problem.op)]], nans=(name,))
    assert outcome.ran and not outcome.findings, outcome


@EACH
def test_blended(op):
    problem = Problem.parse(f"{op.name} n1c16h6w8 k32r1s1 f16 nhwc")
    hopper.check(ENGINES[op], problem, ENGINES[op].best(match(problem), H200), blended)


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n1c16h8w8 k16r3s3 pad1 f16 nhwc", " must have one tap, without padding, with unit strides"),
    ("n1c16h8w8 k16r1s1 groups=2 f16 nhwc", "strides (1, 1), 2 groups"),
    ("n1c16h8w8 k16r1s1 f16", "must be packed NHWC; got strides"),
    ("n1c64h8w8 k64r1s1 f16 nhwc", "with those of 2 to 8 pixels; got [64"),
    ("n1c16h3w3 k16r1s1 f16 nhwc", "pixels must be a multiple of the 4 that are joined; got 9"),
    ("n1c16h8w8 k16r1s1 f16 nhwc acc=f64", "takes the convolution of joined pixels: compute must be")])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form}"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))

"""Data gradients whose neighbouring pixels of a row are joined, on the interpreter: random problems, where a
NaN goes, who is chosen, and what is refused."""
from __future__ import annotations

import pytest

from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX
from cydnn.heuristics import best
from cydnn.ops import ConvDgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw.alone import match

ENGINE = BY_INDEX[171]


def drawn(rng) -> Problem:
    """Strides, gaps and padding in all dims; whole groups of pixels in a row."""
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 3])
    each = lambda *values: tuple(rng.choice(values) for _ in range(rank))
    stride, taps = (*each(1, 2, 3)[1:], rng.choice([2, 2, 3, 4])), each(1, 2, 3, 3, 5)
    op = ConvDgrad(pre_pad=each(0, 1, 2, 3), post_pad=each(0, 1, 2), stride=stride, dilation=each(1, 1, 1, 2),
                   mode=rng.choice(["cross_correlation", "convolution"]))
    c, k = rng.choice([3, 8, 16, 24, 40, 64]), rng.choice([8, 16, 40, 72])
    reach = [(n - 1) * gap for n, gap in zip(taps, op.dilation)]
    image = [rng.randint(1, 5) * by + most for by, most in zip(stride, reach)]
    image[-1] = -(-image[-1] // stride[-1]) * stride[-1]
    x, w = (rng.randint(1, 3), c, *image), (k, c, *taps)
    dims = dict(zip(op.parts, (x, w, op.out_dims(x, w))))
    layout = lambda name: rng.choice(["nchw", "nhwc"]) if name == "w" else "nhwc"
    desc = lambda name: TensorDesc.packed(kind, dims[name], layout(name))
    return Problem(op, {name: desc(name) for name in ("dy", "w", "dx")})


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


def test_nan_stays_with_what_meets_it():
    problem = Problem.parse("conv_dgrad n2c32h6w8 k24r3s3 stride=2 pad=1 bf16 nhwc")
    outcome = hopper.watched.run(problem, hopper.device(3), 1, [ENGINE], nans=("dy",))
    assert outcome.ran and not outcome.findings, outcome


def test_blended():
    problem = Problem.parse("conv_dgrad n1c32h6w8 k24r3s3 stride=1,2 pad=1 f16 nhwc")
    hopper.check(ENGINE, problem, ENGINE.best(match(problem), H200), blended)


@pytest.mark.parametrize("line", ["n64c32h112w112 k64r3s3", "n8c96h160w160 k192r3s3"])
def test_few_channels_of_a_layer_that_halves_the_image(line):
    graph = graph_of(Problem.parse(f"conv_dgrad {line} stride=2 pad=1 bf16 nhwc"))
    assert [part.engine for part in best(graph, H200).parts] == [ENGINE]


@pytest.mark.parametrize("form, sentence", [
    ("n1c32h8w8 k16r3s3 pad1 stride=2,1 f16 nhwc", "stride along the last dim must be more than 1; got 1"),
    ("n1c32h8w8 k16r3s3 pad1 stride2 groups=2 f16 nhwc", "groups must be 1; got 2"),
    ("n1c264h8w8 k16r3s3 pad1 stride2 f16 nhwc", "must be at most 512; got 528"),
    ("n1c32h8w9 k16r3s3 pad1 stride2 f16 nhwc", "whole groups of 2 pixels in a row"),
    ("n1c32h8w8 k16r3s3 pad1 stride2 f16", "their channels beside each other; got dims"),
    ("n1c32h8w8 k16r3s3 pad1 stride=2 f16 nhwc acc=f64", "compute must be f32"),
    ("n1c32h8w8 k16r3s1 pad1 stride=2 dilation=2,1 f16 nhwc",
     "no engine takes the gradient of joined pixels: stride and dilation")])
def test_refusals(form, sentence):
    p = match(Problem.parse(f"conv_dgrad {form}"))
    assert any(sentence in reason for reason in ENGINE.refuse(p, H200))

"""Reduction and bias-gradient engines without a GPU: forms, refusals, stages, and the kernels'
index arithmetic in NumPy."""
from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.engines import engines_for
from cydnn.engines.reduction import reduction as forms
from cydnn.graph import Match
from cydnn.graph.lower import lowered
from cydnn.heuristics import best
from cydnn.ops import ConvBgrad, Reduction
from cydnn.tensor import TensorDesc
from support.draw import alone
from support.draw.alone import cost, steps
from support.draw import draw

H200 = KNOWN["h200"]
BY_NAME = {e.name: e for op in (Reduction,) for e in engines_for(op)}
FOLDS_CUH = Path(__file__).resolve().parents[2] / "kernels_src/reduction/folds.cuh"


match = alone.of


def reduction(dims, out, dtype="bf16", layout="nchw", mode="add", y="f32", **facts):
    return match(Reduction(mode=mode, **facts), x=TensorDesc.packed(dtype, dims, layout),
                 y=TensorDesc.packed(y, out))


def bgrad(dims, layout, dtype="bf16"):
    return match(ConvBgrad(), dy=TensorDesc.packed(dtype, dims, layout),
                 db=TensorDesc.packed(dtype, (1, dims[1], *(1,) * (len(dims) - 2))))


def first(p):
    return best(p.graph, H200).engine


def test_flags_are_those_of_the_kernels():
    text = FOLDS_CUH.read_text()
    numbers = {name: int(n)
               for name, n in re.findall(r"([A-Z_]+) = (\d+)", re.search(r"enum How.*?\{(.*?)\}", text)[1])}
    assert len(numbers) == 7 and all(getattr(forms, name) == n for name, n in numbers.items())
    types = re.findall(r"put_as<(\w+)>\(y", text)
    assert tuple(types) == forms.Y_TYPES


@pytest.mark.parametrize("dims, out, engine, launches", [
    ((8192, 8192), (8192, 1), "reduction_rows", 1), ((8192, 8192), (1, 8192), "reduction_columns", 2),
    ((8192, 8192), (1, 1), "reduction_rows", 2), ((4, 6, 7), (4, 1, 1), "reduction_generic", 1),
    ((5, 7, 3), (5, 1, 3), "reduction_columns", 1)])
def test_the_engine_of_a_shape(dims, out, engine, launches):
    p = reduction(dims, out)
    assert first(p).name == engine
    assert len(steps(first(p), p, H200)) == launches


@pytest.mark.parametrize("layout, kernel", [("nchw", "reduction_rows_sum_bf16_f32_1"),
                                            ("nhwc", "reduction_columns_sum_bf16_1")])
def test_bias_gradient_uses_the_reduction_kernels(layout, kernel):
    p = bgrad((256, 256, 56, 56), layout)
    made = best(p.graph, H200)
    assert made.changes == ("lower 0",)
    assert [s.kernel for _, s in made.steps][0] == kernel and len(made.steps) == 2


def test_empty_reductions_fill_and_empty_results_launch_nothing():
    p = reduction((3, 0, 4), (3, 1, 4), mode="max")
    step, = steps(BY_NAME["reduction_generic"], p, H200)
    assert step.args["units"] == 0 and kernels.get(step.kernel).pack(step.args).grid == (1, 1, 1)
    assert steps(BY_NAME["reduction_generic"], reduction((0, 5), (0, 1)), H200) == []
    for engine in engines_for(Reduction)[:-1]:
        for empty in (p, reduction((0, 5), (0, 1)), reduction((0, 8), (1, 8))):
            if engine.accepts(empty, H200):
                assert cost(engine, empty, H200) > 0
                for step in steps(engine, empty, H200):
                    kernels.get(step.kernel).pack(step.args)


@pytest.mark.parametrize("engine, p, sentence", [
    ("reduction_rows", reduction((4, 7), (4, 1)),
     "needs contiguous reduced elements in whole 16-byte units; got reduced dims (7,)"),
    ("reduction_rows", reduction((4, 8), (4, 1), compute="f64"),
     "compute must be f32 for bf16 data; got f64"),
    ("reduction_columns", reduction((4, 8), (4, 1)),
     "needs contiguous kept elements; got kept dims (4,) with strides (8,)"),
    ("reduction_generic", reduction((4, 8), (4, 1), dtype="i32"),
     "x must be one of f64 f32 f16 bf16; got i32"),
    ("reduction_columns", reduction((2 ** 30, 8), (1, 8)),
     f"needs fewer than 2^30 outputs and loads behind each; got 8 and {2 ** 30}"),
])
def test_refusals(engine, p, sentence):
    reasons = list(BY_NAME[engine].reasons(p, H200))
    assert any(r.startswith(sentence) for r in reasons), reasons


def test_the_generic_engines_take_everything():
    """That of the float types all of these, whatever is computed in; that of any type all but packed
    results."""
    rng, floats = random.Random(3), {"f64", "f32", "f16", "bf16"}
    for op in (Reduction, ConvBgrad):
        for _ in range(80):
            problem = draw(op, rng)
            p = as_reduction(alone.match(problem))
            assert BY_NAME["reduction_any"].accepts(p, KNOWN["t4"]), str(problem)
            if p.dtypes <= floats:
                assert BY_NAME["reduction_generic"].accepts(p, KNOWN["t4"]), str(problem)
    assert BY_NAME["reduction_generic"].accepts(reduction((4, 8), (4, 1), compute="i32"), H200)
    packed = reduction((4, 8), (4, 1), dtype="f32", y="bool")
    assert "packed booleans are written eight at once" in next(
        iter(BY_NAME["reduction_any"].reasons(packed, H200)))
    assert best(packed.graph, H200).changes == ("cast 0",)


def as_reduction(p):
    """The match of a bias gradient as what it is lowered to; others as they are."""
    return p if isinstance(p.op, Reduction) else Match.single(lowered(p.graph, 0))


# ---- The kernels' index arithmetic, in NumPy ----

def offsets(index, dims, strides):
    """offset_of of space.cuh, for an array of indexes."""
    off = np.zeros_like(index)
    for d, s in zip(dims, strides):
        off += index % d * s
        index = index // d
    assert not index.any()
    return off


def parts_of(args, vec):
    """(output, split, offsets of the elements it reads) for every part of a launch."""
    columns = "lanes" in args
    each = -(-args["units"] // args["splits"])
    for output in range(args["outputs"]):
        unit = output // vec * vec if columns else output
        base = offsets(np.array([unit]), args["out_dims"], args["x_strides"])[0] + (output - unit)
        for split in range(args["splits"]):
            u = np.arange(min(args["units"], split * each), min(args["units"], (split + 1) * each))
            off = base + offsets(u, args["in_dims"], args["in_strides"])
            yield output, split, off if columns else (off[:, None] + np.arange(vec)).ravel()


def run(p, engine, x):
    """Every launch of a plan of mode add on host numbers: {address of y in elements: sum}."""
    memory, result = x, {}
    for step in steps(engine, p, H200):
        args = step.args
        kernels.get(step.kernel).pack(args)
        name = step.kernel.split("_")
        vec = 16 // {"f64": 8, "f32": 4}.get(name[3], 2) if name[-1] == "1" else 1
        sums = {(o, s): memory[off].sum() for o, s, off in parts_of(args, vec)}
        if args["part"] is None:
            at = offsets(np.arange(args["outputs"]), args["out_dims"], args["y_strides"])
            result = {int(at[o]): v for (o, _), v in sums.items()}
        else:
            split_stride, output_stride = (args["outputs"], 1) if "lanes" in args else (1, args["splits"])
            memory = np.full(args["outputs"] * args["splits"], np.nan)
            for (o, s), v in sums.items():
                memory[o * output_stride + s * split_stride] = v
            assert not np.isnan(memory).any()
    return result


@pytest.mark.parametrize("op", [Reduction, ConvBgrad], ids=lambda o: o.name)
def test_every_element_is_added_once(op, monkeypatch):
    monkeypatch.setattr(forms, "BLOCKS_PER_SM", 1)
    rng, ran = random.Random(11), set()
    for _ in range(150):
        problem = draw(op, rng)
        names = op.reads[0], op.writes[0]
        x, y = (problem.operands[n] for n in names)
        if x.count > 40000 or getattr(problem.op, "mode", "add") not in ("add", "max", "mul"):
            continue
        p = as_reduction(alone.match(problem))
        values = np.random.default_rng(1).integers(-8, 9, x.extent).astype(np.float64)
        logical = np.lib.stride_tricks.as_strided(values, x.dims, [8 * s for s in x.strides])
        axes = tuple(i for i in range(x.rank) if x.dims[i] != y.dims[i])
        want = logical.sum(axis=axes, keepdims=True)
        at = np.lib.stride_tricks.as_strided(np.arange(y.extent), y.dims, [8 * s for s in y.strides])
        for engine in engines_for(Reduction):
            if isinstance(engine, forms.ReductionEngine) and engine.accepts(p, H200):
                ran.add(engine.name)
                assert (run(p, engine, values)
                        == dict(zip(at.ravel().tolist(), want.ravel().tolist()))), (str(problem), engine)
    assert ran == {"reduction_rows", "reduction_columns", "reduction_generic"}

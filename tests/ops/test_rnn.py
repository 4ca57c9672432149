"""Recurrent networks: the reference against plain loops over sequences, the layouts,
every rule."""
from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from cydnn import ops
from cydnn.ops.rnn_layout import CELLS
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc
from support.draw import draw
from support.loops.rnn import loops

VARIANTS = list(itertools.product(CELLS, (False, True), ("linear", "skip"), ((3, 3, 3), (4, 2, 2, 1))))
NAMES = [f"{c}-{'bi' if b else 'uni'}-{i}-{'x'.join(map(str, n))}" for c, b, i, n in VARIANTS]


def network(cell, bidirectional, input, batches, layers=2, hidden=4, dropout=0.0):
    """(attributes, float64 operands of all three passes)."""
    facts = dict(cell=cell, hidden=hidden, layers=layers, bidirectional=bidirectional, input=input,
                 batches=batches, compute="f64", dropout=dropout)
    op, gen = ops.RnnFwd(**facts), np.random.default_rng(len(cell) + layers)
    inputs = hidden if input == "skip" else 3
    names = ("x", "w", "hx", "cx", "dy", "dhy", "dcy", "reserve")
    dims = {n: d.dims for n, d in ops.RnnFwd(**{**facts, "cell": "lstm"}).described("f64", inputs,
                                                                                *names).items()}
    dims.update(w=(op.blob(inputs).count,), reserve=(op.reserve.count,))
    return facts, {n: gen.normal(size=d) * 0.6 for n, d in dims.items()}


def forward(facts, a, **other):
    a = {**a, **other}
    return ops.RnnFwd(**facts).evaluate({n: a.get(n) for n in ("x", "w", "hx", "cx", "reserve", "states")},
                                        {})


def gradients(facts, a, found):
    """{input: its gradient} of sum(dy * y) + sum(dhy * hy) + sum(dcy * cy)."""
    more = dict(y=found["y"], reserve=found["reserve"])
    back = ops.RnnBwdData(**facts).evaluate({**a, **more}, {})
    weights = ops.RnnBwdWeights(**facts).evaluate(
        {**a, **more, "reserve": back["reserve"], "dw": np.zeros_like(a["w"])}, {})
    return dict(x=back["dx"], hx=back["dhx"], cx=back["dcx"], w=weights["dw"])


@pytest.mark.parametrize("variant", VARIANTS, ids=NAMES)
def test_forward_is_the_loops(variant):
    facts, a = network(*variant)
    found = forward(facts, a)
    wants = loops(ops.RnnFwd(**facts), a["x"], a["w"], a["hx"], a["cx"])
    for name, want in zip(("y", "hy", "cy"), wants):
        if name != "cy" or facts["cell"] == "lstm":
            np.testing.assert_allclose(found[name], want, atol=1e-12, err_msg=name)


def test_weight_gradients_are_added():
    facts, a = network("gru", True, "linear", (3, 2))
    found = forward(facts, a)
    back = ops.RnnBwdData(**facts).evaluate({**a, "y": found["y"], "reserve": found["reserve"]}, {})
    add = lambda dw: ops.RnnBwdWeights(**facts).evaluate(
        {**a, "y": found["y"], "reserve": back["reserve"], "dw": dw}, {})["dw"]
    np.testing.assert_allclose(add(a["w"]) - a["w"], add(np.zeros_like(a["w"])), atol=1e-12)


def test_states_that_are_absent_are_0():
    facts, a = network("lstm", True, "linear", (3, 2))
    zero = dict(hx=np.zeros_like(a["hx"]), cx=np.zeros_like(a["cx"]))
    without, given = (forward(facts, a, **states) for states in (dict(hx=None, cx=None), zero))
    np.testing.assert_array_equal(without["y"], given["y"])
    mine, theirs = (gradients(facts, {**a, **states}, given)
                    for states in (dict(hx=None, cx=None, dhy=None, dcy=None),
                                   dict(zero, dhy=zero["hx"], dcy=zero["cx"])))
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name])


def test_the_blob_has_no_gaps_and_no_overlaps():
    op = ops.RnnFwd(cell="lstm", hidden=3, layers=2, bidirectional=True)
    blob, seen = op.blob(5), []
    for p, gate, side in itertools.product(range(4), range(4), (False, True)):
        width = 3 if side else 5 if p < 2 else 6
        seen += range(blob.matrix(p, gate, side), blob.matrix(p, gate, side) + 3 * width)
        seen += range(blob.bias(p, gate, side), blob.bias(p, gate, side) + 3)
    assert sorted(seen) == list(range(blob.count))
    assert blob.count == sum(4 * 3 * (n + 3) for n in (5, 5, 6, 6)) + 2 * 2 * 2 * 4 * 3
    assert blob.matrix(0, 1, False) == 15 and blob.matrix(0, 0, True) == 60
    first = blob.bias(0, 0, False)
    assert first == blob.count - 4 * 24 and blob.bias(0, 0, True) == first + 12


def test_areas_of_the_reserve():
    op = ops.RnnFwd(cell="lstm", hidden=5, layers=3, bidirectional=True, batches=(3, 2), dropout=0.5)
    areas, marks = op.reserve, np.zeros(op.reserve.count)
    for area, number in areas:
        assert getattr(areas, area)[number] % 64 == 0
        areas.view(marks, area, number)[...] += 1
    many = [len(getattr(areas, name)) for name in ("gates", "cells", "outs", "keep", "kept")]
    assert marks.max() == 1 and many == [6, 6, 2, 2, 2]
    assert marks.sum() == 5 * (6 * (5 * 4 + 5) + 3 * 2 * 10)


def test_skip_adds_x_to_every_gate():
    """A recorded case: all weights 0, x = 1, h = 0."""
    op = ops.RnnFwd(cell="gru", hidden=2, input="skip")
    found = op.evaluate(dict(x=np.ones((1, 2)), w=np.zeros(op.blob(2).count)), {})
    np.testing.assert_allclose(found["y"], 0.2048242, atol=1e-7)


@pytest.mark.parametrize("op", (ops.RnnFwd, ops.RnnBwdData, ops.RnnBwdWeights), ids=lambda o: o.name)
def test_the_error_that_is_allowed_is_small_and_holds(op):
    """What a thousandth of a unit in the weights changes is inside of it."""
    rng = random.Random(11)
    for _ in range(30):
        problem, gen = draw(op, rng), np.random.default_rng(1)
        arrays = {n: d.dtype.round(problem.op.admit(n, gen.uniform(-1, 1, d.dims)))
                  for n, d in problem.operands.items() if d is not None}
        exact = problem.op.evaluate(arrays, {})
        allowed = problem.op.inner_error(arrays, {}, problem.operands)
        eps = problem.operands["y"].dtype.eps
        near = problem.op.evaluate({n: v * (1 + 1e-3 * eps * (n == "w")) for n, v in arrays.items()}, {})
        for name, room in allowed.items():
            assert np.isfinite(room).all() and (np.abs(near[name] - exact[name]) <= room + 1e-300).all(), name
            assert np.median(room) < 200 * eps * (1 + np.abs(exact[name]).max()), name


TEXT = "rnn_fwd t3n4i5 hidden=6 layers=2 cell=lstm"


@pytest.mark.parametrize("text, sentence", [
    ("rnn_fwd t3n4i5 hidden=6 batches=4,2,3", r"batches must never grow over the steps; got \(4, 2, 3\)"),
    ("rnn_fwd t3n4i5 hidden=6 batches=4,2", "batches must have 3 steps, the first of 4"),
    ("rnn_fwd 4x5 hidden=6", r"dims must be t \(steps\) n \(sequences\) i \(inputs\)"),
    ("rnn_fwd t3n4i5 hidden=0", "hidden must be >= 1; got 0"),
    ("rnn_fwd t3n4i5 hidden=6 layers=0", "layers must be >= 1; got 0"),
    ("rnn_fwd t3n4i5 hidden=6 cell=elman", "cell must be one of relu tanh lstm gru; got 'elman'"),
    ("rnn_fwd t3n4i5 hidden=6 dropout=1.5", "dropout must be between 0 and 1; got 1.5"),
    ("rnn_fwd t3n4i5 hidden=6 input=skip", "x must have 6 columns like hidden, as input is skip; got 5"),
    (TEXT + " w=7", r"w must have dims \(\d+,\); got \(7,\)"),
    (TEXT + " hx=4x1x2x6", r"hx must have dims \(2, 1, 4, 6\); got \(4, 1, 2, 6\)"),
    (TEXT + " hx=2x1x4x6@30,24,6,1", "hx must have no gaps in one of two orders; got strides"),
    (TEXT + " y=12x6@7,1", "y must have no gaps; got strides"),
    (TEXT + " w=648:f16", "w must have type f32; got f16"),
    (TEXT + " acc=f64", "compute must be f32 for operands of f32; got f64"),
    ("rnn_fwd t3n4i5 hidden=6 cx=1x1x4x6", "cx must be absent, as cell is not lstm"),
    (TEXT.replace("fwd", "bwd_data") + " w=680", r"w must have .* \* inputs elements; got 680"),
])
def test_what_is_refused(text, sentence):
    with pytest.raises(BadParam, match=sentence):
        ops.Problem.parse(text)


def test_lines_of_problems():
    p = ops.Problem.parse("rnn_fwd t100n64i1024 cell=lstm hidden=1024 layers=2 f16")
    assert p.op.batches == (64,) * 100 and str(p).endswith("batches=64*100")
    assert p.operands["hy"] == TensorDesc.packed("f16", (2, 1, 64, 1024))
    assert p.flops == 2 * 6400 * 2 * 8 * 1024 * 1024
    assert p == ops.Problem.parse(str(p))
    shrinking = ops.Problem.parse("rnn_bwd_weights t3n5i3 batches=5,3,2 cell=gru hidden=16 f16")
    assert shrinking.operands["x"].dims == (10, 3)
    inference = ops.Problem.parse("rnn_fwd t2n5i3 hidden=16 reserve=none hy=none")
    assert inference.operands["reserve"] is None is inference.operands["hy"]

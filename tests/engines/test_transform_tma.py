"""TransformTma on the PTX device against NumPy: every type, tails, blends, gaps that stay as they are; its
refusals, its boxes; and faults planted in its kernel."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from cydnn import kernels
from cydnn.device.facts import KNOWN, of_target
from cydnn.device.ptx import Finding, PtxDevice
from cydnn.dtypes import BY_NAME
from cydnn.engines.layout import transform_tma
from cydnn.engines.layout.transform_tma import TransformTma
from cydnn.graph import Graph, Match
from cydnn.ops import Transform
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc, common_period
from support.draw import handmade

H200, ENGINE = KNOWN["h200"], TransformTma()
TYPES = kernels.axis(transform_tma.SOURCE, "T")
BYTES = {name: BY_NAME[name].bytes for name in TYPES}


def graph(x, y, alignment=16, **op):
    return Graph.single(Transform(**op), dict(x=x, y=y), alignment=alignment)


def spaced(type_, dims, padding, order=None):
    """A tensor whose rows (the last dim of ``order``) and all outer dims are followed by gaps."""
    order, strides, step = order or range(len(dims)), [0] * len(dims), 1
    for i, axis in enumerate(reversed(list(order))):
        strides[axis] = step
        step = step * dims[axis] + (padding if i else padding + -dims[axis] % (16 // BYTES[type_]))
        step += -step % (16 // BYTES[type_])
    return TensorDesc(type_, dims, tuple(strides))


def view(raw, desc):
    flat = raw[:desc.bytes].view(desc.dtype.numpy)
    return np.lib.stride_tricks.as_strided(flat, desc.dims, [s * desc.dtype.bytes for s in desc.strides])


def run(x, y, alpha=1.0, beta=0.0, seed=0, device=None, replace=None):
    """(what y becomes, what it must be, were all bytes between its elements left alone)."""
    device, rng = device or PtxDevice("sm_90"), np.random.default_rng(seed)
    if replace:
        name = f"transform_tma_{x.dtype}"
        device.replaced[name] = replace(kernels.get(name).image_for(90).text().decode())
    raws = [np.full(d.bytes, 0xA5, np.uint8) for d in (x, y)]
    for raw, desc in zip(raws, (x, y)):
        view(raw, desc)[...] = desc.dtype.encode(rng.integers(-30, 31, desc.dims).astype(np.float64) / 4)
    old = [desc.dtype.decode(view(raw, desc)).astype(np.float64) for raw, desc in zip(raws, (x, y))]
    places = [device.alloc(raw.size) for raw in raws]
    for place, raw in zip(places, raws):
        device.copy_in(place.ptr, raw)
    plan = handmade.engine_plan(ENGINE, graph(x, y), device.facts)
    device.compile(plan).execute(places, (alpha, beta))
    got = device.copy_out(places[1].ptr, np.empty_like(raws[1]))
    want = y.dtype.encode(alpha * old[0] + (beta * old[1] if beta else 0.0))
    gaps = np.ones(y.bytes, bool)
    cells = np.lib.stride_tricks.as_strided(gaps, (*y.dims, y.dtype.bytes),
                                            [*(s * y.dtype.bytes for s in y.strides), 1])
    cells[...] = False
    return view(got, y), want, bool((got[gaps] == 0xA5).all())


@pytest.mark.parametrize("alpha, beta", [(1.0, 0.0), (2.0, 0.0), (-0.5, 0.25), (1.0, 1.0)])
@pytest.mark.parametrize("type_", TYPES)
def test_every_type(type_, alpha, beta):
    """Boxes of one row and of several."""
    for dims in ((5, 7, 16), (3, 2, 3, 48)):
        got, want, untouched = run(spaced(type_, dims, 16), spaced(type_, dims, 32), alpha, beta)
        assert (got == want).all() and untouched


@pytest.mark.parametrize("dims, order", [
    ((3, 300), None), ((2, 1028), None), ((12, 2, 3, 130), (1, 2, 3, 0)), ((2, 3, 4, 3, 12), None),
    ((300, 4), None), ((2, 68, 5, 6), (0, 2, 3, 1)), ((20, 1, 1), (1, 2, 0)), ((40, 40, 36), None)], ids=str)
def test_every_shape(dims, order):
    """Several boxes along one dim and along several, one row, five dims, the contiguous dim anywhere."""
    x, y = spaced("f32", dims, 4, order), spaced("f32", dims, 12, order)
    if len([d for d in dims if d > 1]) == 1:
        assert any("must have gaps" in reason for reason in ENGINE.reasons(match(x, y), H200))
        return
    got, want, untouched = run(x, y, 0.5, 2.0)
    assert (got == want).all() and untouched


@settings(max_examples=25, deadline=None)
@given(strategies.sampled_from(TYPES), strategies.lists(strategies.integers(1, 40), min_size=1, max_size=4),
       strategies.integers(1, 5), strategies.tuples(*[strategies.integers(1, 3)] * 2),
       strategies.sampled_from([(1.0, 0.0), (2.0, 0.5)]))
def test_any_tensors_that_it_takes(type_, outer, row, gaps, blend):
    unit, (x_gap, y_gap) = 16 // BYTES[type_], gaps
    while np.prod(outer) > 500:
        outer[int(np.argmax(outer))] //= 2
    dims = [*outer, row * unit]
    x, y = spaced(type_, tuple(dims), x_gap * unit), spaced(type_, tuple(dims), y_gap * unit)
    if ENGINE.reasons(match(x, y), H200):
        assert sum(d > 1 for d in dims) < 2      # merged into one dim: the vector engine's
        return
    got, want, untouched = run(x, y, *blend)
    assert (got == want).all() and untouched


@pytest.mark.parametrize("type_", TYPES)
def test_the_contract_s_problems_launch_it(type_):
    for line in kernels.get(f"transform_tma_{type_}").problems:
        operands = Problem.parse(line).operands
        got, want, untouched = run(operands["x"], operands["y"], 1.0, 0.5)
        assert (got == want).all() and untouched


def test_one_buffer_holds_both():
    """Channel slices of one NHWC buffer: each lies in the gaps of the other."""
    device, n = PtxDevice("sm_90"), (3, 5, 4)
    x = TensorDesc("f32", n, (160, 32, 1))
    raw = np.arange(3 * 160, dtype=np.float32)
    place = device.alloc(raw.nbytes)
    device.copy_in(place.ptr, raw)
    plan = handmade.engine_plan(ENGINE, graph(x, x), device.facts)
    plan.periods = {(1, 0): common_period(x, x)}
    device.compile(plan).execute([place.ptr, place.ptr + 64], (2.0, 0.0))
    got = device.copy_out(place.ptr, np.empty_like(raw)).reshape(3, 5, 32)
    want = raw.reshape(3, 5, 32).copy()
    want[:, :, 16:20] = 2 * want[:, :, :4]
    assert (got == want).all()


# ---- What it says of itself ----

def match(x, y, alignment=16, **op):
    made = graph(x, y, alignment, **op)
    return Match(made, made.nodes[0], 1)


X = spaced("f16", (5, 7, 24), 8)
BITS, PACKED = X.replace(dtype="bool"), TensorDesc.packed("f16", (5, 7, 24))


@pytest.mark.parametrize("x, y, more, sentence", [
    (X, spaced("f32", (5, 7, 24), 4), {}, "operands must have one type; got f16 f32"),
    (BITS, BITS, {}, "x must be one of f64 f32 f16 bf16 i8 u8 i32 i64; got bool"),
    (spaced("f16", (5, 7, 20), 8), spaced("f16", (5, 7, 20), 12), {},
     "rows of y must be multiples of 16 bytes; got 40"),
    (X, spaced("f16", (5, 7, 24), 8, (0, 2, 1)), {}, "x and y must be contiguous along the same dim; got"),
    (TensorDesc("f16", (5, 7, 20), (600, 60, 2)), TensorDesc("f16", (5, 7, 20), (600, 60, 2)), {},
     "x and y must be contiguous along the same dim"),
    (PACKED, PACKED, {}, "x and y must have gaps; got merged dims (840,)"),
    (spaced("f16", (3, 3, 3, 3, 3, 16), 8), spaced("f16", (3, 3, 3, 3, 3, 16), 16), {},
     "x and y must have at most 5 dims after merging; got (16, 3, 3, 3, 3, 3)"),
    (TensorDesc("f16", (5, 7, 24), (160, 0, 1)), X, {}, "x must not repeat; got strides (160, 0, 1)"),
    (X, X, dict(alignment=8), "x must be aligned to 16 bytes; got 8"),
    (TensorDesc("f16", (5, 7, 24), (300, 28, 1)), X, {}, "x: strides must be multiples of 16 bytes; got (56"),
    (TensorDesc("f16", (2, 7, 20), (1 << 40, 32, 1)), TensorDesc("f16", (2, 7, 20), (256, 32, 1)), {},
     "x: strides must be in 0 … 2^40 - 16 bytes; got"),
    (X, X, dict(compute="f64"), "compute must be f32 for f16; got f64"),
])
def test_refusals(x, y, more, sentence):
    reasons = ENGINE.reasons(match(x, y, **more), H200)
    assert any(reason.startswith(sentence) for reason in reasons), reasons


def test_it_needs_sm_90():
    assert ENGINE.reasons(match(X, X), KNOWN["a100"])[0] == "needs sm_90 or newer; device is sm_80"
    assert ENGINE.reasons(match(X, X), H200) == () == ENGINE.reasons(match(X, X), of_target(100, "newer"))


@given(strategies.sampled_from((1, 2, 4, 8)),
       strategies.lists(strategies.integers(1, 5000), min_size=2, max_size=5))
def test_boxes_cover_their_tensors_and_fit(size, dims):
    box, tiles = transform_tma._box(dims, size), transform_tma._tiles(dims, size)
    assert len(box) == len(tiles) == 5 and all(1 <= b <= 256 for b in box) and box[0] * size % 16 == 0
    assert np.prod(box) * size <= transform_tma.BYTES
    for d, b, t in zip((*dims, 1, 1, 1), box, tiles):
        assert (t - 1) * b < d <= t * b


def test_cost_prefers_it_to_one_element_at_a_time():
    from cydnn.engines.layout.tensor_ops import TransformAny
    y = spaced("f16", (64, 56, 56, 64), 64)
    made = match(y, y)
    assert 0 < ENGINE.cost(made, H200, None) < TransformAny().cost(made, H200, None)
    thin = spaced("f32", (3000, 1000, 4), 12)
    assert ENGINE.cost(match(thin, thin), H200, None) > ENGINE.cost(made, H200, None) / made.y.count


# ---- Faults ----

FAULTS = [                                       # what is dropped from the kernel, which of them, the finding
    ("fence.proxy.async.shared::cta;", 1, "proxy"),
    ("cp.async.bulk.wait_group.read 0;", 0, "in flight"),
    ("cp.async.bulk.commit_group;", 0, "in flight"),
    ("bar.sync \t0;", 0, "race|mbarrier"),
    ("bar.sync \t0;", 1, "race|proxy"),
    ("mbarrier.arrive.expect_tx.shared::cta.b64 _,", 0, "deadlock"),
    ("mbarrier.try_wait.parity.shared::cta.b64 p,", 0, "in flight"),
]


@pytest.mark.parametrize("dropped, nth, kinds", FAULTS)
def test_planted_fault(dropped, nth, kinds):
    def without(text):
        place = -1
        for _ in range(nth + 1):
            place = text.index(dropped, place + 1)
        end = text.index(";", place) + 1
        return text[:place] + ("setp.eq.u32 p, 0, 0;" if "try_wait" in dropped else "") + text[end:]
    x, y = spaced("f32", (3, 5, 20), 4), spaced("f32", (3, 5, 20), 12)
    with pytest.raises(Finding) as found:
        run(x, y, 2.0, 0.5, replace=without)
    assert found.value.kind in kinds.split("|"), found.value

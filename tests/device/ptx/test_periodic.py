"""check/periodic.py on the interpreter, with a few periods: right kernels pass, and what it would find
on a GPU is found."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import device as devices, kernels
from cydnn.bench import graph_of
from cydnn.device.cuda import pack
from cydnn.device.facts import KNOWN
from cydnn.heuristics import Wish
from cydnn.layout import Layout
from cydnn.steps import Launch, Pointer, Scalar
from support.draw import alone, handmade
from support.check import periodic
from support.draw.cases import SERVING, cases
from support.draw.large_lines import LINES, SIZES

WITH_ENGINES = [line for line in LINES if not line.startswith(("conv_bgrad", "gen_stats"))]    # of others


def few(line) -> periodic.Large:
    one, two = (periodic.Problem.parse(line.format(n=n)) for n in (1, 2))
    return periodic.Large(line, 12 * max(b.count - a.count for a, b in zip(one.descs, two.descs)) + 1)


def taker(large, facts):
    """The engine that is the quickest on so little."""
    return min(alone.takers(alone.match(large.problem), facts), key=lambda e: alone.cost(
        e, alone.match(large.problem), facts))


@pytest.mark.share(12)
@pytest.mark.parametrize("line", WITH_ENGINES)
def test_right_kernels_pass(line):
    device, large = devices.get("ptx:sm_90"), few(line)
    assert not periodic.run(large, taker(large, device.facts), device)


def test_what_is_made_of_others():
    assert not periodic.run(few("conv_bgrad n{n}c8h8w8 bf16"), None, devices.get("ptx:sm_90"))


@pytest.mark.parametrize("slice_, words", [(9, "in slice 9 of"), (1, "wrong; worst at (1,")])
def test_a_slice_of_another_is_found(slice_, words):
    """Behind the first period by the period, in it by the reference."""
    device, large = devices.get("ptx:sm_90"), periodic.Large("softmax_fwd {n}x64 f32", 12 * 64)

    def meddle(operands):
        y, step = operands["y"], large.step("y")
        row = device.copy_out(y.ptr + (slice_ - 1) * step, np.empty(step, np.uint8))
        device.copy_in(y.ptr + slice_ * step, row)
    found = periodic.run(large, taker(large, device.facts), device, meddle=meddle)
    assert large.period == 5 and any(words in text for text in found), found


def test_a_sum_that_lacks_a_period_is_found():
    device, large = devices.get("ptx:sm_90"), few("conv_wgrad n{n}c8h8w8 k8r3s3 pad1 f32")
    engine = taker(large, device.facts)
    assert large.times > 1 and not periodic.run(large, engine, device)
    large.times += 1
    assert any(text.startswith("dw: ") for text in periodic.run(large, engine, device))


def test_bytes_beside_are_found():
    device, large = devices.get("ptx:sm_90"), few("softmax_fwd {n}x64 f32")

    def meddle(operands):
        y = operands["y"]
        device.copy_in(y.ptr + y.desc.bytes + 8, np.zeros(1, np.uint8))
    assert "y: 1 bytes written beside it" in periodic.run(large, taker(large, device.facts), device,
                                                         meddle=meddle)


def test_the_comparing_kernel(tmp_path):
    """It counts what differs from what is so many bytes behind, and tells the first."""
    device, values = devices.get("ptx:sm_90"), np.tile(np.arange(7, dtype=np.uint16), 40)
    values[[100, 200]] += 50
    parameters = ["int64_t a", "int64_t b", "int64_t n", "u8* told"]
    with handmade.installed(tmp_path, apart=(parameters, periodic.APART,
                                             dict(grid=[3, 1, 1], block=[32, 1, 1]))):
        memory = device.alloc(values.nbytes)
        device.copy_in(memory.ptr, values)
        numbers = [int(memory.ptr), int(memory.ptr) + 14, values.size - 7]
        plan = handmade.plan([handmade.tensor(1, "u8", (16,))],
                             [Launch("apart", dict(told=Pointer(0), **{
                                 name: Scalar(i, 0) for i, name in enumerate("abn")}))],
                             [(("x", name), 0) for name in "abn"])
        told = device.alloc(16)
        device.copy_in(told.ptr, np.array([0, 2 ** 64 - 1], np.uint64))
        device.compile(plan).execute([told], numbers)
        found = device.copy_out(told.ptr, np.empty(2, np.uint64)).tolist()
    other = np.flatnonzero(values[7:] != values[:-7])
    assert found == [len(other), other[0]] == [4, 93]


@pytest.mark.share(12)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("line", LINES)
def test_each_is_taken_or_refused_with_the_number(line, size):
    """And has a plan, whose parameters can be packed."""
    problem = periodic.of_size(line, size).problem
    for engine in periodic.takers(problem, KNOWN["h200"]):
        wish = Wish(engines=(engine.index,)) if engine else Wish()
        for step in Layout.of(graph_of(problem), KNOWN["h200"], wish).steps:
            assert not isinstance(step, Launch) or pack(step).data


def of_images(engine, problem, config=None) -> set:
    """Sources of the launches that are given pixels of images by a tensor map."""
    match, facts = alone.match(problem), KNOWN["h200"]
    steps = engine.plan(match, facts, config or next(iter(engine.configs(match, facts))))
    return {kernels.get(s.kernel).source for s in steps if isinstance(s, Launch)
            and any(getattr(arg, "corners", ()) for arg in s.args.values())}


def configs_of(engine, problem) -> list:
    """The first configuration, one where filters stay, and two of tiles, of two and of three warpgroups."""
    found = list(engine.configs(alone.match(problem), KNOWN["h200"]))
    first = lambda knob, value: [config for config in found if config.get(knob) == value][:1]
    return [found[0], *first("resident", 64), *first("tile", "128x64"), *first("tile", "192x128")]


def test_all_that_is_given_pixels_by_maps_has_a_line():
    """The copy engine counts them: of more than 2^32 elements too."""
    every, found = set(), set()
    for name in SERVING:
        if any(param["type"] == "CUtensorMap" for param in kernels.get(name).row["params"]):
            case = next(iter(cases(name, KNOWN["h200"])))
            every |= of_images(case.engine, case.problem, case.config)
    for line in (line for line in LINES if line.startswith("conv_") and "nhwc" in line):
        problem = periodic.of_size(line, "2^32+3").problem
        for engine in periodic.takers(problem, KNOWN["h200"]):
            for config in configs_of(engine, problem) if engine and "wgmma" in engine.name else ():
                found |= of_images(engine, problem, config)
    assert found == every and len(every) == 6, found ^ every


def test_sizes_are_those_asked_for():
    exact = "pointwise x={n}x1:f16 b={n}x1:f16 y={n}x1:f16 mode=add"
    for least in SIZES.values():
        assert periodic.Large(exact, least).count == least
    for line in LINES:
        above, below = periodic.Large(line, 2**31 + 1), periodic.Large(line, 2**31 - 1, is_below=True)
        assert max(d.count for d in below.problem.descs) < 2**31 < max(d.count for d in above.problem.descs)
        assert periodic.fits(above, 140 << 30) and above.count % above.period or above.times > 1

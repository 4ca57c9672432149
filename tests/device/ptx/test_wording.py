"""What a finding says: the operand and the element, not only bytes of an allocation."""
from __future__ import annotations

import re

import pytest

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.bench import trial as debug
from cydnn.device.ptx import Finding, PtxDevice
from cydnn.ops import Problem

LINE = "softmax_fwd 6x100 f32"


@pytest.fixture
def device():
    yield PtxDevice("sm_80")
    plan.forget()


def prepared(device):
    """A plan, with x and y 1,024 bytes into allocations of their own."""
    built = plan.build(graph_of(Problem.parse(LINE)), device)
    places = [device.alloc(d.bytes + 2048) for d in built.slots]
    for place in places:
        device.memset(place.ptr, 0, place.bytes)
    return built, places


def test_what_lies_behind_the_end(device):
    """Every store of a kernel goes behind the allocation of y."""
    name = next(step.kernel for step in prepared(device)[0].steps)
    text = kernels.get(name).image_for(80).text().decode()
    device.replaced[name] = re.sub(r"(st\.global\S*\s+\[%rd\d+)(\+\d+)?\]", r"\1+3424]", text)
    plan.forget()
    built, (x, y) = prepared(device)
    with pytest.raises(Finding) as found:
        built.execute([x.ptr + 1024, y.ptr + 1024])
    facts = found.value.facts
    assert found.value.kind == "address" and facts["operand"] == "y" and facts["index"] is None
    assert facts["distance"] > 1024 and f"{facts['distance']} bytes behind the end of y" in str(found.value)


def test_an_unwritten_element_has_an_index(device):
    built, (x, y) = prepared(device)
    device.forget_contents(x.ptr + 1024 + 4 * (3 * 100 + 17), 4)
    with pytest.raises(Finding) as found:
        built.execute([x.ptr + 1024, y.ptr + 1024])
    assert found.value.kind == "unwritten"
    assert "element (3, 17) of x, byte 2292 of the allocation" in str(found.value), found.value
    assert (found.value.facts["operand"], found.value.facts["index"]) == ("x", (3, 17))


def test_a_race_says_where(device):
    name, line = "transform_transpose_f32_f32", "transform x=1x70x6x11:f32 y=1x70x6x11:f32@nhwc"
    text = kernels.get(name).image_for(80).text().decode().replace("bar.sync", "// bar.sync")
    verdict = debug.run(name, "sm_80", lines=[line], text=text).trials[0].verdict
    assert "memory read here at byte" in verdict and "of shared memory was written by thread" in verdict


def test_a_race_in_an_output_names_the_element(device):
    """Every block of a kernel that copies stores to the place of the first."""
    problem = Problem.parse("transform x=256x1000:f32 y=256x1000:f32")
    built = plan.build(graph_of(problem), device)
    name = next(s.kernel for s in built.steps)
    text = kernels.get(name).image_for(80).text().decode()
    device.replaced[name] = text.replace("%ctaid.x", "0")
    plan.forget()
    x, y = (device.alloc(1024000) for _ in range(2))
    device.memset(x.ptr, 0, 1024000)
    with pytest.raises(Finding) as found:
        plan.build(graph_of(problem), device).execute([x.ptr, y.ptr])
    assert found.value.kind == "race", found.value
    assert (found.value.facts["operand"], found.value.facts["index"]) == ("y", (0, 0)), found.value
    assert "element (0, 0) of y" in str(found.value)

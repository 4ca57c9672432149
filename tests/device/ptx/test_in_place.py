"""Outputs that may lie in an input do: one variant of every source whose plans allow it, each pair aliased.
Where the contract's problems have other layouts there, the output is given that of the input.

What a kernel reads by ``ld.global.nc``, or after another thread has written it, is a finding then; the values
are those of separate buffers."""
from __future__ import annotations

import itertools
import re

import pytest

from cydnn import kernels, plan
from cydnn.bench import trial as debug
from cydnn.ops import Problem
from support.draw import variants
from support.check import matrix
from support.check.compare import compare

import watched


def pairs(built) -> list:
    """(written, read) by name: what a plan lets lie in one place, of equal type and layout."""
    found = [(built.slots[i], built.slots[j]) for i, j in built.layout.inplace]
    return [(y.name, x.name) for y, x in found if y.desc.dtype == x.desc.dtype and y.desc.same_layout(x.desc)]


def laid_alike(problem):
    """The problem with each output that may lie in an input laid out as that, where they are of one type."""
    for output, lies_in in problem.op.inplace:
        y, x = problem.operands.get(output), problem.operands.get(lies_in)
        if x and y and (y.dtype, y.count) == (x.dtype, x.count) and not y.same_layout(x):
            yield Problem(problem.op, {**problem.operands, output: x})


def allowed(name) -> list:
    """Cases of a kernel whose plans allow something: of the contract, and with layouts that are alike."""
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    found = [case for case in debug.cases(name, device.facts) if case.problem.op.inplace]
    alike = [new for case in found for new in laid_alike(case.problem)]
    return found + [case for problem in dict.fromkeys(alike)
                    for case, _ in itertools.islice(debug.of_problem(name, problem, device.facts), 1)]


def aliased(device, case, seed=1) -> tuple[int, list[str]]:
    """(how many pairs were aliased, what is wrong) where the outputs of a case lie in its inputs, one pair
    after another."""
    made, wrong = matrix.Prepared(case.problem, seed, matrix.plain(case.problem.op)), []
    plan.forget()
    built = plan.build(made.graph, device, case.wish)
    found = pairs(built)
    for pair in found:
        buffers, _ = matrix.execute(built, case.problem, made.values,
                                    {*case.problem.op.reads, *made.reads_old}, device, [pair])
        for name in case.problem.op.writes:
            if name in buffers:
                report = compare(buffers[name].read()[0], made.want[name],
                                 made.allowed(name, buffers[name].desc, built.choice.engine),
                                 buffers[name].desc)
                wrong += [] if report.ok else [f"{pair}: {name}: {report.text}"]
    plan.forget()
    return len(found), wrong


FEWEST, MOST = 2, 3                              # cases of a kernel; pairs, behind those
NAMES = [n for n in variants.smallest()
         if any(Problem.parse(line).op.inplace for line in kernels.get(n).problems)]


@pytest.mark.share(22)
@pytest.mark.parametrize("name", NAMES)
def test_outputs_in_inputs(name):
    device, count = watched.PtxDevice(debug.target_of(kernels.get(name))), 0
    with watched.watching():
        for number, case in enumerate(allowed(name)):
            if number >= FEWEST and count >= MOST:
                break
            found, wrong = aliased(device, case)
            assert not wrong, f"{case}: {wrong}"
            count += found
    assert count, "no output lay in an input"


@pytest.mark.parametrize("name", ["softmax_fwd_warp_f32_128", "dropout_fwd_vector_f32"])
def test_a_read_only_load_of_what_is_written_shows(name):
    """It does not where the buffers are separate."""
    device = watched.PtxDevice("sm_80")
    text = kernels.get(name).image_for(80).text().decode()
    device.replaced[name] = re.sub(r"ld\.global\.(?!nc)", "ld.global.nc.", text)
    found = []
    with watched.watching():
        for case in allowed(name):
            assert watched.run(case.problem, device, 1, [case.engine], config=case.config,
                               scalars=matrix.plain(case.problem.op)).findings == []
            try:
                found += aliased(device, case)[1]
            except watched.Finding as finding:
                found.append(str(finding))
    assert any(re.search("(reads|writes) .*with .nc", text) for text in found), found

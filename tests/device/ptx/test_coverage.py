"""The problems in a kernel's contract run at least 95 % of the instructions of each of its images, without a finding and with right values.

Each problem once as it is. While less has run: scaled and blended, with NaN, in every other configuration, and planned for a card of one
SM and little cache, where loops are long. An image whose text is that of another but for its target runs once.

Every kernel runs in every test run. The second step is taken for one variant of each source, and with CYDNN_COVERAGE=all for each of them
(13 minutes of CPU together).
"""
from __future__ import annotations

import itertools
import os
import re
import zlib
from dataclasses import replace

import pytest

from cydnn import kernels
from cydnn.device.ptx import run
from support.cases import cases, every_case
from support.matrix import blended, plain

import watched

TARGETS = ("sm_75", "sm_80", "sm_90")
BAR = 0.95
REMAINDER = "nvcc unrolls a loop whose count is whole and keeps a remainder that cannot run"
SEEN = "what is left was looked at and is reached by no problem yet"
LESS = {                                         # kernel (a pattern) -> (its bar, why)
    r"conv_(fprop|dgrad)_simt_\w+_t(128x128|32x32)": (0.89, REMAINDER),
    r"conv_fprop_mma_.*": (0.94, REMAINDER),
    r"conv_mma_(un)?pack_.*": (0.88, REMAINDER),
    r"matmul_mma_.*": (0.89, REMAINDER),
    r"matmul_simt_\w+_t128x128": (0.91, REMAINDER),
    r"transform_transpose_\w+_b?f16": (0.70, REMAINDER),
    r"pooling_bwd_max_(nhwc|plane)_.*": (0.80, "at most 3 windows of 3 touch a cell in a row; nvcc unrolls that loop by 4"),
    r"pointwise_strided_.*": (0.70, "offsets are divided in 64 bits from 2^31 elements on, which are too many to run"),
    r"pooling_fwd_nchw_wide_.*_3": (0.90, SEEN),
    r"pooling_fwd_nhwc_strip_.*_max_nan_.": (0.86, SEEN),
}
NAN_READERS = ("softmax_fwd", "softmax_bwd", "pooling_fwd", "pooling_bwd", "reduction", "batch_norm_inference")
CHOSEN = {kernels.get(n).source: n for n in sorted(kernels.names(), key=lambda n: zlib.crc32(n.encode()), reverse=True)}    # one of each source
SOURCES = sorted(CHOSEN)


def bar_of(name) -> float:
    return next((bar for pattern, (bar, _) in LESS.items() if re.fullmatch(pattern, name)), BAR)


def device_for(name: str, target: str):
    """A device that runs this image of the kernel: of its target, or of the next that takes it."""
    for each in TARGETS[TARGETS.index(target):]:
        device = watched.WatchedDevice(each)
        if kernels.get(name).image_for(device.facts.sm).target == target and cases(name, device.facts):
            return device
    raise AssertionError(f"{name}: no problem launches its image for {target}")


def covered(device, name) -> float:
    """The share of the kernel's instructions that have run; of the text that ran most, where several were spliced."""
    return max((row.fraction for row in run.coverage(device) if row.kernel == name), default=0.0)


def with_nans(case) -> dict:
    """Half of what is blended is NaN, and of the inputs where NaN takes its own way."""
    op = case.problem.op
    return dict(scalars=blended(op), nans=(*op.blends, *(("x", "dy") if op.name in NAN_READERS else ())))


def only_nans(case) -> dict:
    return dict(scalars=plain(case.problem.op), nans=("x",) if case.problem.op.name in NAN_READERS else ())


def far_apart(case) -> dict:
    """Inputs of a wide range: exp and log of f64 have code for numbers that under- and overflow."""
    return dict(scalars=plain(case.problem.op), scale=1000.0 if case.problem.op.compute == "f64" else 1.0)


def ways(name, facts):
    """(facts, case, keywords) in the order to try them."""
    small = replace(facts, sms=1, l2_bytes=4096)
    modes = (lambda case: dict(scalars=blended(case.problem.op))), with_nans, only_nans, far_apart
    for mode in modes:
        yield from ((facts, case, mode(case)) for case in cases(name, facts))
    for mode in (lambda case: dict(scalars=plain(case.problem.op))), *modes[:2]:
        yield from ((small, case, mode(case)) for case in cases(name, small))
    yield from ((facts, case, modes[0](case)) for case, _ in every_case(name, facts) if case.config)


def is_thorough(name) -> bool:
    """Of this kernel the share that ran is looked at: one of each source, or all of them on request."""
    return os.environ.get("CYDNN_COVERAGE") == "all" or name == CHOSEN[kernels.get(name).source]


def cover(device, name) -> list[str]:
    """Run until enough has run; the findings."""
    facts, wrong = device.facts, []
    first = [(facts, case, dict(scalars=plain(case.problem.op))) for case in cases(name, facts)]
    for number, (card, case, more) in enumerate(itertools.chain(first, ways(name, facts))):
        if number >= len(first) and (covered(device, name) >= bar_of(name) or not is_thorough(name)):
            break
        device.facts = card
        outcome = watched.run(case.problem, device, number, [case.engine], config=case.config, **more)
        wrong += [f"{case} {more}: {text}" for text in outcome.findings]
    device.facts = facts
    return wrong


@pytest.mark.parametrize("source", SOURCES)
def test_instructions_have_run(source):
    wrong, seen = [], set()
    for name in (n for n in kernels.names() if kernels.get(n).source == source):
        for target, image in kernels.get(name).images.items():
            text = re.sub(rb"(?m)^\.(target|version) .*$", b"", image.text())
            if target not in TARGETS or text in seen:
                continue
            seen.add(text)
            device = device_for(name, target)
            wrong += cover(device, name)
            if is_thorough(name) and covered(device, name) < bar_of(name):
                code = max((c for c in device.codes.values() if c.program.name == name), key=lambda c: c.executed.mean())
                left = list(itertools.islice(run.uncovered(code), 6))
                wrong.append(f"{name} for {target}: {covered(device, name):.1%} of its instructions have run, at least {bar_of(name):.0%} must; not: {left}")
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])


def test_exceptions_are_of_kernels():
    for pattern, (bar, why) in LESS.items():
        assert any(re.fullmatch(pattern, n) for n in kernels.names()) and 0.5 < bar < BAR and why, pattern

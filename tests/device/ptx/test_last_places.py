"""Results on the whole (support/check/last_places.py): sums in too short a type, a second rounding, which the
tolerance of one element of a long sum hides.

A plain run takes some sources, which are drawn; ``CYDNN_ALL=1`` takes one kernel of each, and all of its
small problems.
"""
from __future__ import annotations

import re

import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from support.draw import variants
from support.check import last_places
from lab import sampling
from support.draw.cases import cases

import watched

KERNELS, EACH, MOST_FLOPS = 12, 12 if sampling.ALL else 2, 2e7 if sampling.ALL else 4e6
T12 = "mul.f32 %p0, {d}, 0f45800800; sub.f32 %p1, %p0, {d}; sub.f32 {d}, %p0, %p1;"  # Dekker: 12 bits of {d}


def some(name, facts, each):
    """Cases of a kernel, the smallest first."""
    found = [c for c in cases(name, facts) if c.problem.flops <= MOST_FLOPS]
    return sorted(found, key=lambda c: c.problem.flops + c.problem.bytes)[:each]


def wrong(name, device, each) -> list[str]:
    with watched.watching():
        return [f"{case}: {text}" for n, case in enumerate(some(name, device.facts, each))
                for text in last_places.texts(case, device, n)]


@pytest.mark.parametrize("name", sampling.of(variants.smallest(), KERNELS, "last places"))
def test_right(name):
    assert not wrong(name, watched.PtxDevice(debug.target_of(kernels.get(name))), EACH)


def shorter(text: str, name: str, opcode: str) -> str:
    """A text in which every result of an opcode has 12 bits, and no more."""
    registers = "\n.reg .f32 %p0, %p1;"
    start = text.index("{", text.index(f".entry {name}")) + 1
    text = text[:start] + registers.replace("%p", "%place") + text[start:]
    short = T12.replace("%p", "%place")
    return re.sub(rf"(?m)^\s*({re.escape(opcode)}\s+(%f\d+),[^;]*;)",
                  lambda m: f"{m[1]} {short.format(d=m[2])}", text)


def twice(text: str, name: str) -> str:
    """A text in which what becomes f16 has 12 bits before."""
    start = text.index("{", text.index(f".entry {name}")) + 1
    text = text[:start] + "\n.reg .f32 %place0, %place1, %place2;" + text[start:]
    short = T12.replace("%p", "%place").format(d="%place2")
    return re.sub(r"cvt\.rn\.f16\.f32\s+([^,;]+), ([^;]+);",
                  lambda m: f"mov.f32 %place2, {m[2]}; {short} cvt.rn.f16.f32 {m[1]}, %place2;", text)


PLANTED = [("conv_dgrad_few_f16_r8", lambda text: twice(text, "conv_dgrad_few_f16_r8")),
           ("rnn_step_f16_vanilla_narrow", lambda text: shorter(text, "rnn_step_f16_vanilla_narrow",
                                                                "fma.rn.f32")),
           ("rnn_step_f32_gru_wide", lambda text: shorter(text, "rnn_step_f32_gru_wide", "fma.rn.f32")),
           ("matmul_simt_f32_t32x32", lambda text: shorter(text, "matmul_simt_f32_t32x32", "fma.rn.f32"))]


@pytest.mark.parametrize("name, change", PLANTED, ids=[name for name, _ in PLANTED])
def test_planted(name, change):
    device, text = watched.PtxDevice(debug.target_of(kernels.get(name))), variants.text_of(name)
    device.replaced[name] = change(text)
    assert device.replaced[name] != text
    assert wrong(name, device, 6)

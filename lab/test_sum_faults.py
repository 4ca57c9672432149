"""Faults of the sums of columns (kernels_src/tile/wgmma_sums.cuh) in shipped kernels: who waits for whom,
what is kept for others, and who adds what. Of the barriers and waits, and of the other mutants of what makes
sums, none may pass: a drawn share, by ``CYDNN_ALL=1`` all."""
from __future__ import annotations

import re
from functools import lru_cache

import pytest

from cydnn.device.ptx import Finding
from cydnn.ops import Problem
from cydnn.status import CydnnError
from support.draw import variants
from support.check import hopper, sums
from lab import mutants, sampling
from support.check.trial import Slow, cpu_limit

import watched

NAMES = ("conv_wgmma_sums_bf16_128x128_bk", "matmul_wgmma_sums_f16_128x128_am_bn")
FEW, SECONDS = 2, 20                             # of the other mutants of a kernel; for one of them
KINDS = ("dropped store", "address + 1", "add for sub", "swapped selection")
MAKES = r"shfl\.sync\.bfly|(ld|st)\.shared\.(v2\.)?f32|(ld|st)\.global\.f32"       # sums, and their ways


@lru_cache
def ways(name) -> tuple:
    """(graph, how it leaves, SMs, seed of the order of warps): in boxes, of two tiles one after the other, or
    of the last; by rows, deeper than the ring; by elements."""
    made = lambda *how: sums.graph_of(Problem.parse(sums.line_of(name, *how)), "relu")
    return ((made(280), "tma", 1, 1), (made(280), "tma", 2, None), (made(60, -56, 600), "rows", 1, None),
            (made(60, -3), "rows", 1, None))


def finding(name, text) -> str:
    """What is found in a text, by what it gives or by the checks; nothing where it is right."""
    for graph, out, sms, seed in ways(name):
        device = hopper.device(sms)
        device.seed, device.replaced[name] = seed, text
        try:
            with watched.watching(), cpu_limit(SECONDS):
                found = sums.differences(device, graph, sums.is_tile(name, out))
        except (Finding, CydnnError, Slow) as error:
            found = [f"{type(error).__name__}: {error}"]
        if found:
            return "; ".join(found)
    return ""


def needless(text) -> list[int]:
    """Lines of what stands twice: the barrier behind the wait for boxes of the tile before, as the way out by
    rows begins with one; the wait in front of the matrices of a box, which the sums in it waited for."""
    first = text.index("bar.sync", text.index("cp.async.bulk.wait_group.read 0"))
    second = text.rindex("cp.async.bulk.wait_group.read", 0, text.index("stmatrix"))
    return [text.count("\n", 0, at) + 1 for at in (first, second)]


@lru_cache
def every(name) -> tuple:
    """(mutants of synchronisation, the others) of what makes sums: from a mark on, and what stands near."""
    text = variants.text_of(name)
    assert not finding(name, text)
    found = list(mutants.mutants(text, name))
    lines = {text.count("\n", 0, m.start()) + 1 for m in re.finditer(MAKES, text)}
    return ([m for m in found if m.kind in mutants.SYNC and m.line not in needless(text)],
            [m for m in found if m.kind in KINDS and m.line in lines])


@pytest.mark.share(1)
@pytest.mark.parametrize("name", NAMES)
def test_mutants(name):
    sync, others = every(name)
    tried = sampling.of(sync, FEW, f"sync {name}") + sampling.of(others, FEW, f"sums {name}")
    alive = [m for m in tried if not finding(name, m.text)]
    assert not alive, "\n".join(f"{m.line}: {m.kind}: {m.old} {m.new}" for m in alive)

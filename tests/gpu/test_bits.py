"""Every shipped kernel in the cases of its contract, on the GPU and on the interpreter: plain kernels give
equal bits, the others what they owe."""
from __future__ import annotations

import zlib

import pytest

from cydnn.device.ptx import PtxDevice
from support.check import bits
from support.draw.cases import SERVING, cases


@pytest.fixture(scope="session")
def twin(gpu):
    """The interpreter of the GPU's own images, with the GPU's facts, so that both make one plan."""
    return PtxDevice(f"sm_{gpu.facts.sm}", gpu.facts)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", SERVING)
def test_bits(kernel, gpu, twin, family_counts):
    found = cases(kernel, gpu.facts)
    assert found, f"no problem of the contract launches {kernel} on {gpu.facts.name}"
    count, wrong = dict.fromkeys(("cases", "equal", "plain", *bits.FAR, "exact", "wrong"), 0), []
    for case in found:
        seed = zlib.crc32(str(case).encode())
        kind, equal, texts = bits.differences(case, gpu, twin, seed)
        wrong += texts
        if bits.has_exact(kind, case.problem):
            wrong += bits.differences(case, gpu, twin, seed, exact=True)[2]
            count["exact"] += 1
        count["cases"] += 1
        count[kind] += 1
        count["equal"] += equal
    count["wrong"] = len(wrong)
    family_counts[f"bits/{kernel}"] = count
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])

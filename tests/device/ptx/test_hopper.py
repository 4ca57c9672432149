"""TMA, mbarrier and wgmma on nvcc's own output (data/wgmma_tma.cu, nvcc 13.0
for sm_90a), and its planted faults."""
from __future__ import annotations

import re
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cydnn.device.ptx import Finding, PtxDevice, DecodedMap, parse
from cydnn.device.ptx.code import Code

TEXT = (Path(__file__).parent / "data" / "wgmma_tma.ptx").read_text()


@pytest.fixture(scope="module")
def device():
    return PtxDevice("sm_90a")


def gemm(device, m, n, k, seed=None, text=TEXT):
    """c = a @ b.T of random bf16; returns the largest error."""
    module = parse.module(text, "wgmma_tma.ptx")
    code = Code(module, parse.PtxProgram(module, "wg_gemm"), {})
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    places = [device.alloc(x.nbytes) for x in (a, b)]
    for place, x in zip(places, (a, b)):
        device.copy_in(place.ptr, x.view(np.uint16))
    out = device.alloc(m * n * 4)
    offsets = [at for space, at in code.program.variables.values() if space == "param"]
    data = bytearray(code.program.bytes["param"])
    struct.pack_into("<Qiii", data, offsets[2], out.ptr, m, n, k)
    maps = {offsets[i]: DecodedMap(places[i].ptr, 2, (k, rows), (2 * k,), (64, 64), 128)
            for i, rows in enumerate((m, n))}
    device.seed = seed
    device.launch(code, (-(-n // 64), -(-m // 64), 1), (160, 1, 1), 0, bytes(data), {out.ptr}, 0, maps)
    device.seed = None
    got = device.copy_out(out.ptr, np.empty((m, n), np.float32))
    return np.abs(got - a.astype(float) @ b.astype(float).T).max(), code.executed.mean()


@pytest.mark.parametrize("shape", [(64, 64, 64), (100, 72, 200), (1, 8, 8)])
def test_values(device, shape):
    error, _ = gemm(device, *shape)
    assert error < 2e-5


def test_nothing_is_reported_under_20_schedules(device):
    for seed in range(20):
        error, covered = gemm(device, 70, 72, 136, seed)
        assert error < 2e-5 and covered == 1.0


def without(pattern, nth=0):
    place = list(re.finditer(rf"[^\n]*{pattern}[^\n]*\n", TEXT))[nth]
    return TEXT[:place.start()] + TEXT[place.end():]


def doubled(pattern):
    return re.sub(rf"([^\n]*{pattern}[^\n]*\n)", r"\1\1", TEXT)


def other_phase(nth):
    place = list(re.finditer(
        r"mbarrier\.try_wait\.parity\.shared::cta\.b64 P1, \[%r\d+\], (%r\d+);", TEXT))[nth]
    return (TEXT[:place.start()] + ".reg .u32 ph; xor.b32 ph, " + place[1] + ", 1; "
            + place[0].replace(place[1] + ";", "ph;") + TEXT[place.end():])


FAULTS = {
    "wgmma read before wait": (without(r"wgmma\.wait_group"), "race|in flight"),
    "waits for too few groups": (TEXT.replace("wait_group.sync.aligned 0", "wait_group.sync.aligned 1"),
                                 "race|in flight"),
    "mbarrier phase error": (other_phase(1), "in flight|mbarrier|race|unwritten"),
    "empty barrier, wrong phase": (other_phase(0), "in flight|mbarrier|race|deadlock"),
    "double arrival": (doubled(r"mbarrier\.arrive\.shared"), "mbarrier|deadlock|missed wait"),
    "no arrival": (without(r"mbarrier\.arrive\.shared"), "deadlock"),
    "no bytes announced": (without(r"mbarrier\.arrive\.expect_tx"), "deadlock"),
    "no transfer": (without(r"cp\.async\.bulk\.tensor"), "deadlock"),
    "barrier not initialised": (without(r"mbarrier\.init", 2), "mbarrier"),
    "no barrier after the initialisation": (without(r"bar\.sync"), "race|mbarrier"),
    "b is scaled by 0": (TEXT.replace(", p, 1, 1, 0, 0;", ", p, 1, 0, 0, 0;"), "wgmma"),
    "a is transposed twice": (TEXT.replace(", p, 1, 1, 0, 0;", ", p, 1, 1, 2, 0;"), "wgmma"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_planted_fault(device, name, seed):
    text, kinds = FAULTS[name]
    with pytest.raises(Finding) as found:
        gemm(device, 100, 72, 200, seed, text)
    assert re.fullmatch(kinds, found.value.kind), found.value


@pytest.mark.parametrize("other", ["", "fence.proxy.async.shared::cta;", "fence.acq_rel.cluster;"])
def test_who_initialises_an_mbarrier_fences_it(other):
    """Before a bulk copy counts at it: PTX ISA, fence.mbarrier_init and fence.proxy.async."""
    old = "fence.mbarrier_init.release.cluster;"
    assert TEXT.count(old) == 1
    run = lambda: gemm(PtxDevice("sm_90a"), 100, 72, 200, text=TEXT.replace(old, other))
    if "proxy" in other:
        assert run()[0] < 1e-3
    else:
        with pytest.raises(Finding, match="proxy: .* signals by the async proxy what thread"):
            run()

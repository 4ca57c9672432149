"""Kernels of Hopper's tile program whose warpgroups take turns, in a block that has four whole tiles: each
warpgroup stores two, the second where the first still leaves."""
from __future__ import annotations

import re

import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from support import mutation, share, streamed
from support.trial import Trial

import watched

NAMES = [name for name in kernels.names() if kernels.get(name).axes.get("TURNS")]
PLANTED = "matmul_wgmma_f16_128x256_ak_bk_turns"


def wrong(name, device):
    """What is wrong in each way out."""
    with watched.watching():
        for case, card in streamed.in_turns(name, device.facts):
            yield from (f"{case}: {text}" for text in Trial(case, device, 0, card)())


@pytest.mark.parametrize("name", share.of(NAMES, 4, "turns"))
def test_right(name):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    assert not [*wrong(name, device)]
    assert any(code.program.name == name for code in device.codes.values())


@pytest.mark.parametrize("number", range(4))
def test_a_wait_for_a_group_less_shows(number):
    """Each of the waits before a box, where nothing is changed on the way."""
    text, device = mutation.text_of(PLANTED), watched.PtxDevice("sm_90a")
    m = list(re.finditer(r"cp\.async\.bulk\.wait_group\.read 1;", text))[number]
    device.replaced[PLANTED] = f"{text[:m.start()]}cp.async.bulk.wait_group.read 2;{text[m.end():]}"
    with pytest.raises(watched.Finding, match="still reads"):
        assert not [*wrong(PLANTED, device)]

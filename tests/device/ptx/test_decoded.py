"""A kernel is read once in a process; what devices share of it says nothing of what any of them has run."""
from __future__ import annotations

import threading

import numpy as np
import pytest

from cydnn import kernels
from cydnn.device.ptx import PtxDevice, decoded

import snippet

NAME = "softmax_fwd_warp_f32_128"
TABLE = ".visible .global .align 4 .b32 table[2] = {7, 9};\n"
LOADS = """.reg .b64 %b; .reg .b32 %v; .reg .pred %q; {skip} mov.u64 %b, table; ld.global.b32 %v, [%b+4];
mad.wide.u32 %a0, %t, 4, %p0; st.global.b32 [%a0], %v; OUT: """


@pytest.fixture
def nothing_kept():
    kept, decoded._kept = decoded._kept, type(decoded._kept)()
    yield decoded._kept
    decoded._kept = kept


def text_with_a_table(skip="") -> str:
    return snippet.HEAD + snippet.source(LOADS.format(skip=skip), 1, extra=TABLE)


def loaded(device, text) -> np.ndarray:
    """What a kernel with a variable of its own writes on a device."""
    code = decoded.code(text, "k")
    place = device.alloc(512)
    variables = {n: device._variable(*v) for n, v in code.module.variables.items()}
    snippet.launch(device, code.on(variables), [place])
    return device.arena.read_host(place.ptr, 512).view("u4").copy()


def test_the_second_device_reads_nothing(nothing_kept, monkeypatch):
    first = PtxDevice("sm_80").code(NAME)
    monkeypatch.setattr(decoded, "fresh", None)
    second = PtxDevice("sm_80").code(NAME)
    assert second.steps is first.steps and second.executed is not first.executed
    first.executed[:] = True
    assert second.fraction == 0 and PtxDevice("sm_80").code(NAME).fraction == 0


def test_variables_lie_where_each_device_has_them(nothing_kept):
    one, other = PtxDevice("sm_90"), PtxDevice("sm_90")
    in_the_way = other.alloc(1 << 16)
    for device in (one, other, one):
        assert (loaded(device, text_with_a_table()) == 9).all()
    assert len(nothing_kept) == 1 and in_the_way.ptr


def test_a_text_in_place_of_a_shipped_one_is_not_kept(nothing_kept):
    device = PtxDevice("sm_80")
    device.replaced[NAME] = kernels.get(NAME).image_for(80).text().decode() + "\n"
    assert len(device.code(NAME).instructions) > 50 and not nothing_kept


def test_few_are_kept(nothing_kept, monkeypatch):
    texts = [text_with_a_table(f"mov.u32 %t, {n};") for n in range(6)]
    size = len(decoded.code(texts[0], "k").instructions)
    monkeypatch.setattr(decoded, "MOST", 3 * size)
    for text in (*texts, texts[3]):
        decoded.code(text, "k")
    assert [text for text, _ in nothing_kept] == [texts[4], texts[5], texts[3]]


def test_many_devices_at_once(nothing_kept):
    """Each finds steps that others decode at the same time."""
    text, found = text_with_a_table(), []
    go = threading.Barrier(8)

    def work():
        device = PtxDevice("sm_90")
        go.wait()
        found.extend(loaded(device, text).tolist())
    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [9] * 8 * 128

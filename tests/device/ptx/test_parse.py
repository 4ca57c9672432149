"""Bad PTX: file, line, token, and what was expected. Launches that the hardware would refuse."""
from __future__ import annotations

import pytest

from cydnn.device.ptx import PtxDevice, PtxError
from cydnn.status import BadParam, NotSupported

import snippet


@pytest.mark.parametrize("body,words", [
    ("add.s33 %t, %t, 1;", "unknown opcode or modifier add.s33"),
    ("frobnicate.u32 %t, %t;", "unknown opcode or modifier frobnicate.u32"),
    ("add.s32.wrong %t, %t, 1;", "snippet.ptx:6: unknown opcode"),
    ("add.s32 %t, %undeclared, 1;", "expected a declared register; got '%undeclared'"),
    ("add.s32 %t, %t 1;", "snippet.ptx:6: expected ';'; got '1'"),
    ("add.s32 %t, %t;", "it must have 3 operands"),
    ("bra nowhere;", "expected a declared name or label; got 'nowhere'"),
    ("ld.global.u32 %t, [%p0", "expected ']'; got"),
    ("mov.u64 %t, %p0;", "is narrower than u64"),
    (".reg .u99 %z;", "expected a type; got '.u99'"),
    ("add.s32 %t, %t, $$$`;", "expected a PTX token; got '`;"),
])
def test_what_is_wrong_is_named(body, words):
    with pytest.raises(PtxError) as error:
        snippet.kernel(
            f".visible .entry k(.param .u64 k_param_0)\n{{ .reg .u32 %t; .reg .u64 %p0;\n{body}\nret; }}")
    assert words in str(error.value), str(error.value)


def test_refused_launches(ptx75):
    code = snippet.entry("", 1, threads=128)
    with pytest.raises(NotSupported, match="threads of a block must be at most 128 on sm_75; got 256"):
        snippet.launch(ptx75, code, [], threads=256)
    with pytest.raises(NotSupported,
                       match="bytes of shared memory must be at most 65536 on sm_75; got 65600"):
        snippet.launch(ptx75, code, [], smem=65600)
    with pytest.raises(NotSupported, match="registers of a block must be at most 65536"):
        ptx75.launch(snippet.entry("", 1, threads=1024), (1, 1, 1), (1024, 1, 1), 0, bytes(8), registers=96)


@pytest.mark.parametrize("name", ["sm_70", "gfx90a", "", "sm_"])
def test_unknown_targets(name):
    with pytest.raises(BadParam):
        PtxDevice(name)


def test_labels_and_registers_are_scoped(ptx80):
    """Two scopes may use the same names, as spliced code does."""
    block = ("{ .reg .u32 %x; .reg .pred %p; mov.u32 %x, 1; setp.eq.u32 %p, %t, 0; @%p bra L; "
             "mov.u32 %x, 2; L: add.u32 %g, %g, %x; }\n")
    body = "mov.u32 %g, 0;\n" + block * 2 + "mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0], %g;"
    place = ptx80.alloc(512)
    snippet.launch(ptx80, snippet.entry(body, 1), [place])
    assert ptx80.arena.read_host(place.ptr, 8).view("u4").tolist() == [2, 4]


def test_calls_are_inlined(ptx80):
    function = """.func (.param .b32 r) twice(.param .b32 a) { .reg .u32 %x; ld.param.u32 %x, [a];
    setp.gt.u32 %q, %x, 3; @%q bra BIG;
    add.u32 %x, %x, %x; st.param.b32 [r+0], %x; ret; BIG: st.param.b32 [r+0], %x; ret; }\n""".replace(
        "{ .reg", "{ .reg .pred %q; .reg")
    body = """{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0+0], %t;
    call.uni (r0), twice, (p0); ld.param.b32 %g, [r0+0]; }
    mad.wide.u32 %a0, %t, 4, %p0; st.global.u32 [%a0], %g;"""
    place = ptx80.alloc(512)
    snippet.launch(ptx80, snippet.entry(body, 1, extra=function), [place])
    assert ptx80.arena.read_host(place.ptr, 24).view("u4").tolist() == [0, 2, 4, 6, 4, 5]

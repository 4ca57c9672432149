"""Bad PTX: file, line, token, and what was expected. Launches that the hardware would refuse."""
from __future__ import annotations

import pytest

from cydnn.device.ptx import PtxDevice, PtxError
from cydnn.kernels import Attributes
from cydnn.status import BadParam, NotSupported

import snippet

CALLED = (".func (.param .b32 r) f(.param .b32 a) { ret; }\n"
          ".entry k() { .param .b32 r; .reg .u32 %t; .reg .pred %q;\n")


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
    (".reg;", "expected a type; got"),
    (".reg .b32 %r<99999999999>;", "expected at most 65536 registers; got '99999999999'"),
    ("ld.param.u32 %t, [{%t}];", "expected an address; got '[{%t}]'"),
    ("ld.param.u32 %t, [];", "expected an address; got '[]'"),
    ("L: bra L+4;", "expected a label without an offset; got '+4'"),
    ("add.s32 %t, %t, 09;", "expected a whole number; got"),
    ("add.s32 %t, %t, " + "1" * 5000 + ";", "expected a whole number; got"),
    ("add.s32 %t, %t, $$$`;", "expected a PTX token; got '`;"),
    ("add.u64 %p0, %p0, %t;", "%t must have 8 bytes; got `add.u64 %p0, %p0, %t`"),
    ("mov.u32 5, %t;", "the destination must be a register; got `mov.u32 5, %t`"),
    ("ld.global.u32 %t, %p0;", "a memory operand [register+offset] expected; got `ld.global"),
    ("cp.async.bulk.wait_group %t;", "an integer expected; got `cp.async"),
    ("ld.global.v2.u32 {%t}, [%p0];", "a vector of 2 expected; got `ld.global"),
    ("add.s32 %t, %t, [%t];", "a s32 operand expected, not a mem; got `add.s32 %t, %t, [%t]`"),
    (".blue 4;", "expected a directive such as .reg or .shared; got '.blue'"),
    ("L: :", "expected an instruction; got ':'"),
    ("{", "expected '}'; got 'end of file'"),
    ("call.uni (a, b;", "expected (results), function, (arguments); got 'call.uni'"),
    ("call.uni nowhere;", "expected a function of this file (none); got 'nowhere'"),
])
def test_what_is_wrong_is_named(body, words):
    with pytest.raises(PtxError) as error:
        snippet.kernel(
            f".visible .entry k(.param .u64 k_param_0)\n{{ .reg .u32 %t; .reg .u64 %p0;\n{body}\nret; }}")
    assert words in str(error.value), str(error.value)


@pytest.mark.parametrize("top, words", [
    ("add.s32 1;", "expected a directive such as .entry, .func or .global; got 'add.s32'"),
    (".visible .entry k(.param) { ret; }", "expected a declaration such as .align 4 .b32 name[2]; got"),
    (CALLED + "call.uni (r), f, (%t); ret; }", "expected arguments in .param space; got 'f'"),
    (CALLED + "@%q call.uni (r), f, (r); ret; }", "expected a call without guard that is not recursive; got"),
])
def test_what_is_wrong_outside_of_a_kernel(top, words):
    with pytest.raises(PtxError) as error:
        snippet.kernel(top)
    assert words in str(error.value), str(error.value)


def test_octal_numbers():
    """A 0 in front makes a number octal, as in C."""
    text = ".visible .entry k(.param .u64 a)\n{ .reg .u32 %t;\nadd.s32 %t, 017, 0x1F;\nret; }"
    program = snippet.kernel(text).program
    assert [operand.value for operand in program.code[0].operands[1:]] == [15, 31]


def test_refused_launches(ptx75):
    code = snippet.entry("", 1, threads=128)
    with pytest.raises(NotSupported, match="threads of a block must be at most 128 on sm_75; got 256"):
        snippet.launch(ptx75, code, [], threads=256)
    with pytest.raises(NotSupported,
                       match="bytes of shared memory must be at most 65536 on sm_75; got 65600"):
        snippet.launch(ptx75, code, [], smem=65600)
    with pytest.raises(NotSupported, match="registers of a block must be at most 65536"):
        ptx75.launch(snippet.entry("", 1, threads=1024), (1, 1, 1), (1024, 1, 1), 0, bytes(8), registers=96)


def test_a_grid_must_be_whole_clusters(ptx90):
    with pytest.raises(NotSupported, match=r"k: the grid must be a multiple of the cluster \(2, 1, 1\); got"):
        ptx90.launch(snippet.entry("", 1), (3, 1, 1), (128, 1, 1), 0, bytes(8),
                     attributes=Attributes((2, 1, 1)))


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

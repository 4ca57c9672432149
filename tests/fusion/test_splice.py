"""What is pasted: golden texts, what they compute, and every rule through ptxas.

After a change that is meant: ``CYDNN_GOLDEN=write pytest tests/fusion`` writes the golden
texts anew; read their diff.
"""
from __future__ import annotations

import json
import os
import re
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fusion_rules import (COL, COLS, DIVISORS, GOLDEN, KERNEL, OFF, PROGRAMS, PTXAS, ROWS, SCALARS, TEXT,
                          all_modes, assemble,
                          functions, launch, meaning, moved, run)
from cydnn import kernels
from cydnn.device.ptx import PtxDevice
from cydnn.dtypes import BY_NAME
from cydnn.fusion import At, Extra, Fused, Program, Step, bases, functions as bodies, splice
from cydnn.fusion.emit import chunks
from cydnn.fusion.functions import find
from cydnn.fusion.registers import Mark, literal
from cydnn.fusion.rules import STORAGE
from cydnn.fusion.splice import without_stores
from cydnn.kernels import fastdiv
from cydnn.status import InternalError
from cydnn.steps import Pointer, Scalar

needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
TARGETS = pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90"])


def text_for(target: str, text: bytes = TEXT) -> bytes:
    """The kernel as it would be loaded for a target: the text says it."""
    if target == "sm_75":
        return text
    return text.replace(b".target sm_75",
                        f".target {target}".encode()).replace(b".version 6.5", b".version 7.8")


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden(name):
    got, path = splice(TEXT, KERNEL, {"epilogue": PROGRAMS[name]}).decode(), GOLDEN / f"{name}.ptx"
    if os.environ.get("CYDNN_GOLDEN") == "write":
        path.write_text(got)
    assert got == path.read_text()


def test_counted_instructions():
    """What is read in place of the bodies says what they have."""
    if os.environ.get("CYDNN_GOLDEN") == "write":
        bodies.COUNTED.write_text(json.dumps(bodies.counts(), indent=1) + "\n")
        bodies._counted.cache_clear()
    assert bodies.counts() == bodies._counted(), "write it anew: CYDNN_GOLDEN=write pytest tests/fusion"
    assert bodies.instructions("relu_fwd", "f32", True) == bodies._counted()["pointwise_f32"]["relu_fwd"]


@pytest.mark.parametrize("text", [TEXT, moved(TEXT, 24)], ids=["golden", "moved"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_computes_what_it_says(name, text):
    """On the interpreter, against NumPy."""
    rng, values = np.random.default_rng(3), []
    v = rng.integers(-64, 65, (ROWS, COLS)) / 8
    for extra in PROGRAMS[name].tensors:
        bits = extra.dtype == "bool"
        count = 512 if bits or "d1" in str(extra.at) else ROWS * COLS
        raw = rng.integers(0, 2, count) if bits else rng.integers(-32, 33, count) / 4
        values.append(BY_NAME[extra.dtype].round(raw))
    out, stored = run(PtxDevice("sm_75"), name, v, values, text)
    want, want_stored = meaning(name, v, values)
    rtol, atol = 2e-6 if name == "bias_gelu_fast" else 0, 1e-6 if "gelu" in name else 0
    np.testing.assert_allclose(out, want, rtol=rtol, atol=atol)
    assert stored.keys() == want_stored.keys()
    for i, want in want_stored.items():
        kind = BY_NAME[PROGRAMS[name].tensors[i].dtype]
        np.testing.assert_array_equal(stored[i].reshape(v.shape), kind.round(np.asarray(want, float)))


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_value_passes_through_a_type(dtype, target, monkeypatch):
    """Ties and their neighbours, denormals, what is too large, infinities, NaN."""
    monkeypatch.setitem(PROGRAMS, "rounded", Program("f32", (), result="v", entry=dtype))
    rng, most = np.random.default_rng(5), [0x7F7F, 0x7F80, 0x7FC0, 0x0000, 0x0001, 0x3F80, 0x477F, 0x3380]
    upper = np.concatenate([most, rng.integers(0, 1 << 16, ROWS * COLS - len(most))]).astype(np.uint32)
    lower = np.resize([0x0000, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x0FFF, 0x1000, 0x1001], upper.size)
    with np.errstate(invalid="ignore"):
        v = (upper << 16 | lower.astype(np.uint32)).view(np.float32).astype(float).reshape(ROWS, COLS)
    got, _ = run(PtxDevice(target), "rounded", v, (), text_for(target))
    want = BY_NAME[dtype].round(v)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def test_moved_marks_share_an_address():
    """What lies beyond is in the access: two marks compute the same address."""
    pairs = b"".join(b"\t// @fuse.pairs v=%%f1,%%f2 off=%%rd3 col=%%r2 plus=%d;\n" % plus for plus in (8, 16))
    text = TEXT.replace(b"\t// @fuse.epilogue", pairs + b"\t// @fuse.epilogue")
    got = splice(text, KERNEL, {"epilogue": PROGRAMS["bias_relu"]}).decode()
    address, *others = re.findall(r"mad\.wide.*", got)
    assert len(others) == 2 and address == others[0]
    assert re.findall(r"ld\.global\.v2\.f32 .*\+(\d+)\];", got) == ["32", "64"]


@needs_ptxas
@TARGETS
@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_assembles(name, target, tmp_path):
    text = splice(text_for(target), KERNEL, {"epilogue": PROGRAMS[name]})
    assert assemble(text, target, tmp_path) == ""


@needs_ptxas
@TARGETS
@pytest.mark.parametrize("math, fast", [("f32", False), ("f32", True), ("f64", False)])
def test_every_mode_assembles(math, fast, target, tmp_path):
    text = text_for(target).replace(b"v=%f1,%f2,%f3,%f4", b"v=%f1")
    assert assemble(splice(text, KERNEL, {"epilogue": all_modes(math, fast)}), target, tmp_path) == ""


def test_every_type_can_be_stored():
    assert set(STORAGE) == set(BY_NAME)


@needs_ptxas
@TARGETS
@pytest.mark.parametrize("math", ["f32", "f64"])
@pytest.mark.parametrize("vector", [1, 2, 4])
def test_every_type_assembles(math, vector, target, tmp_path):
    """Load, round and store every type, with every width of access."""
    steps, tensors, stores, before = [], [], [], "v"
    whole = [dtype for dtype, row in STORAGE.items() if row.bits >= 8]
    for i, dtype in enumerate(whole):
        at = At(((("off", "col")[i % 2], 1),), 1, vector)
        tensors += [Extra(dtype, at), Extra(dtype, At((("off", 1),), 1, vector))]
        steps.append(Step("add", (before, f"t{2 * i}"), dtype=dtype))
        stores.append((f"n{i}", f"t{2 * i + 1}"))
        before = f"n{i}"
    program = Program(math, tuple(steps), tuple(tensors), tuple(stores), before, entry="bf16")
    bits = Program(math, (Step("add", ("v", "t0"),
                               dtype="bool"),), (Extra("bool", At((("col", 1),), 1)),), (), "n0")
    for p in (program, bits):
        assert assemble(splice(text_for(target), KERNEL, {"epilogue": p}), target, tmp_path) == ""


@pytest.mark.parametrize("math, fast", [("f32", False), ("f32", True), ("f64", False)])
def test_every_mode_has_a_function(math, fast):
    """With as many parameters as the mode's row has inputs and numbers."""
    for name, inputs, attributes in functions(math, fast):
        assert find(name, math, fast)[1].parameters == inputs + attributes, name


def test_text_says_the_program():
    text = splice(TEXT, KERNEL, {"epilogue": PROGRAMS["bias_relu"]}).decode()
    assert ("// n0 = add(v, t0)\n// n1 = relu_fwd(n0; 0, inf, 0)\n"
            "// t0: f32 at col, 4 at once\n// v = n1, in f32\n{" in text)
    assert "@fuse.epilogue" not in text
    assert str(PROGRAMS["blended"]).splitlines() == [
        "v = s0 * v", "v += s1 * t0, unless it is 0", "store t0 = v", "n0 = mul(v, v)", "store t1 = n0",
        "t0: i32 at off, 4 at once", "t1: f8_e5m2 at off, 4 at once", "in f64"]
    assert str(PROGRAMS["coordinates"]).splitlines()[:2] == ["d0 = col % f0", "d1 = col / f1"]


@needs_ptxas
def test_what_is_read_comes_ahead(tmp_path):
    """Tensors that lie as the mark's own; no others, and where there are none nothing."""
    mark = b"\t// @fuse.epilogue"
    text = TEXT.replace(mark, b"\t// @fuse.ahead off=%rd3;\n" + mark)
    bias, wide, narrow = Extra("f32", COL), Extra("f32", OFF), Extra("f16", OFF)
    sums = [Step("add", ("v", f"t{i}")) for i in range(3)]
    program = lambda *some: Program("f32", tuple(sums[:len(some)]), some, result=f"n{len(some) - 1}")
    got = splice(text, KERNEL, {"epilogue": program(bias, wide, narrow)})
    assert re.findall(r"prefetch.*", got.decode()) == [
        "prefetch.global.L2 [%t1x_0_0+0];", "prefetch.global.L2 [%t1x_0_0+128];",
        "prefetch.global.L2 [%t2x_0_0+0];"]
    assert b"@fuse" not in got and assemble(got, "sm_75", tmp_path) == ""
    nothing, want = (splice(t, KERNEL, {"epilogue": program(bias)}).split() for t in (text, TEXT))
    assert nothing == want


def test_pairs_serve_programs_that_store_nothing():
    """The mark gets the program's block, or stays as it is: then the host takes another way."""
    mark = b"\t// @fuse.epilogue"
    text = TEXT.replace(mark, b"\t// @fuse.pairs v=%f1,%f2 off=%rd3 col=%r2;\n" + mark)
    got = splice(text, KERNEL, {"epilogue": PROGRAMS["bias_relu"]}).decode()
    assert "@fuse" not in got and got.count("add.rn.f32") + got.count("add.f32") == 6
    got = splice(text, KERNEL, {"epilogue": PROGRAMS["whole"]}).decode()
    assert got.count("neg.f32") == 4


def test_a_whole_program_stands_for_the_kernel_s_store():
    """Up to the next branch, under a predicate or not; what goes to shared memory stays."""
    assert b"st.global.v4.f32" in splice(
        TEXT, KERNEL, {"epilogue": replace(PROGRAMS["whole"], is_whole=False)})
    assert b"st.global.v4.f32" not in splice(TEXT, KERNEL, {"epilogue": PROGRAMS["whole"]})
    line = lambda text: f"\t{text};\n"
    kept = line("st.shared.f32 [%r1], %f1") + line("add.s32 %r2, %r2, 1") + line("@%p1 bra $L__BB0_2")
    lost = line("st.global.f32 \t[%rd1+4], %f1") + line("@!%p2 st.global.v2.u32 [%rd2], {%r1, %r2}")
    assert without_stores(lost + kept + lost) == kept + lost
    assert without_stores(lost + "$L__BB0_2:\n" + lost) == "$L__BB0_2:\n" + lost


# parts of sums, whose code stands between
PARTS = dict.fromkeys(("matmul/matmul_wgmma.cu", "matmul/matmul_wgmma_unaligned.cu",
                       "matmul/matmul_thin.cu", "conv/conv_wgmma.cu", "conv/conv_wgrad_wgmma.cu",
                       "conv/conv_wgmma_sums.cu", "conv/conv_wgmma_prologue.cu", "conv/conv_wgmma_pieces.cu",
                       "matmul/matmul_wgmma_sums.cu"), r"st\.global(\.v4)?\.f32")


def test_kernels_store_right_behind_their_epilogues():
    """So that a whole program may stand for it: nothing else is written up to the next mark."""
    seen, never = 0, "(?!)"
    for kernel in map(kernels.get, kernels.names()):
        for image in kernel.images.values() if "epilogue" in kernel.row.get("marks", ()) else ():
            _, *parts = re.split(r"// @fuse\.epilogue.*\n", image.text().decode())
            assert parts and all("st.global" in part for part in parts), (kernel.name, image.target)
            left = [re.sub(PARTS.get(kernel.source, never), "", without_stores(part)) for part in parts]
            assert not any("st.global" in part for part in left), (kernel.name, image.target)
            seen += 1
    assert seen > 100


def test_remembered_by_structure(monkeypatch):
    """A device splices once; pointers and numbers of a program do not matter."""
    program, device, calls = PROGRAMS["bias_relu"], PtxDevice("sm_75"), []
    monkeypatch.setattr("cydnn.fusion.splice",
                        lambda text, *rest: calls.append(rest) or splice(text, *rest))
    monkeypatch.setattr(kernels, "get", lambda name: KERNEL)
    device.replaced["marked"] = TEXT.decode()
    first = device.code("marked", {"epilogue": Fused(program, ("p",), ())})
    assert device.code("marked", {"epilogue": Fused(replace(program), ("q",), ())}) is first
    assert len(calls) == 1
    device.code("marked", {"epilogue": Fused(PROGRAMS["whole"], ("q",), ())})
    assert len(calls) == 2


# ---- The parameter block ----

def test_parameters_are_read_from_the_fuse_block():
    program = PROGRAMS["scaled_residual"]
    fused = Fused(program, (Pointer(7),), (Scalar("a", 1.0), 2.5, Scalar("c", 3.0)))
    block, pointers, scalars = bytearray(100), [], []
    fused.put(block, 40, pointers, scalars)
    assert pointers == [(40, Pointer(7))]
    assert scalars == [(48, "f32", Scalar("a", 1.0)), (56, "f32", Scalar("c", 3.0))]
    assert struct.unpack_from("<f", block, 52) == (2.5,) and program.bytes == 24
    text = splice(TEXT, KERNEL, {"epilogue": program}).decode()
    assert all(f"[marked_param_1+{offset}]" in text for offset in (0, 8, 12, 16))
    assert "marked_param_1[24]" in text


def test_strides_and_divisors_have_their_places():
    program, block = PROGRAMS["coordinates"], bytearray(200)
    Fused(program, (Pointer(1), Pointer(2)), SCALARS["coordinates"], (40, -8, 1 << 40),
          DIVISORS["coordinates"]).put(
        block, 8, [], [])
    assert struct.unpack_from("<3q", block, 8 + 16) == (40, -8, 1 << 40)
    assert struct.unpack_from("<f", block, 8 + 40) == (2.0,)
    assert struct.unpack_from("<6I", block, 8 + 44) == (*fastdiv(32), *fastdiv(64)) and program.bytes == 72


def test_programs_of_several_marks_lie_behind_each_other():
    two = {"store": PROGRAMS["scaled_residual"], "load_x": Fused(PROGRAMS["bias_relu"], ("p",))}
    assert bases(two) == {"load_x": 0, "store": 8, "": 32}
    text = TEXT.replace(b"\tst.global.v4",
                        b"\t// begin inline asm\n\t// @fuse.store v=%f1,%f2,%f3,%f4 off=%rd3 row=%r3 "
                        b"col=%r2;\n\t// end inline asm\n\tst.global.v4").replace(
                            b"@fuse.epilogue", b"@fuse.load_x")
    spliced = splice(text, KERNEL, two).decode()
    assert "marked_param_1[32]" in spliced and "[marked_param_1+0]" in spliced
    assert "[marked_param_1+8]" in spliced
    only = splice(text, KERNEL, {"store": PROGRAMS["scaled_residual"]}).decode()
    assert "@fuse.load_x" in only and "marked_param_1[24]" in only


def test_pointers_and_numbers_are_replaced():
    fused = Fused(PROGRAMS["scaled_residual"], (Pointer(7, 4),), (Scalar("a", 1.0), 2.5, Scalar("c", 3.0)))
    moved = fused.mapped(lambda v: v + 16 if isinstance(v, Pointer) else Scalar((v.key, 1), v.default))
    assert moved.pointers == (Pointer(7, 20),) and moved.program is fused.program
    assert moved.scalars == (Scalar(("a", 1), 1.0), 2.5, Scalar(("c", 1), 3.0))


# ---- What an earlier mark keeps ----

ROW = Program("f32", (Step("neg", ("t0",)), Step("add", ("n0", "@row"))),
              (Extra("f16", At((("row", 1),))),), kept=(("n1", "h0"), ("n0", "h1")))
LATER = Program("f32", (Step("mul", ("v", "h0")), Step("sub", ("n0", "h1"))), result="n1")


def rows_first(slots=(0, 0)) -> bytes:
    """The kernel with marks of its row in front, each for the slot of half of the lanes."""
    lines = "".join(f"\t// @fuse.row row=%r3 slot={slot};\n" for slot in dict.fromkeys(slots))
    text = re.sub(r"\t// @fuse.epilogue v=(\S+),(\S+),(\S+),(\S+) (.*);\n", lambda m: "".join(
        f"\t// @fuse.epilogue v={m[1 + 2 * i]},{m[2 + 2 * i]} {m[5]} slot={slot};\n"
        for i, slot in enumerate(slots)), TEXT.decode())
    return text.replace("\tld.global.v4", lines + "\tld.global.v4").encode()


@pytest.mark.parametrize("slots", [(0, 0), (0, 1)])
def test_a_later_mark_reads_what_an_earlier_one_kept(slots):
    device, slope = PtxDevice("sm_75"), np.array([0.5, -2.0, 3.0])
    place = device.alloc(16)
    device.copy_in(place.ptr, slope.astype(np.float16))
    v = np.random.default_rng(1).integers(-64, 65, (ROWS, COLS)) / 8
    got = launch(device, rows_first(slots), {"row": Fused(ROW, (Pointer(0),)), "epilogue": Fused(LATER)}, v,
                 [place])
    neg = -slope[:, None]
    np.testing.assert_array_equal(got, v * (neg + np.arange(ROWS)[:, None]) - neg)


@needs_ptxas
@TARGETS
@pytest.mark.parametrize("math", ["f32", "f64"])
def test_kept_registers_assemble(math, target, tmp_path):
    text = splice(text_for(target, rows_first((0, 1))), KERNEL,
                  {"row": replace(ROW, math=math), "epilogue": replace(LATER, math=math)})
    assert text.count(f".reg .{math} %h".encode()) == 4 and assemble(text, target, tmp_path) == ""


@pytest.mark.parametrize("slots, row, got", [
    ((0, 0), replace(ROW, kept=(("n1", "h0"),)), "%h1_0"), ((0, 0), replace(ROW, math="f64"), "%h0_0")])
def test_what_no_earlier_mark_keeps_is_refused(slots, row, got):
    with pytest.raises(InternalError, match=f"marked: mark epilogue must read what an earlier mark keeps in "
                                            f"f32; got {got}"):
        splice(rows_first(slots), KERNEL, {"row": row, "epilogue": LATER})


# ---- What a module needs, what it refuses ----

def test_support_is_in_the_module_once():
    made = lambda *steps: splice(
        TEXT, KERNEL, {"epilogue": Program("f64", steps, result=f"n{len(steps) - 1}")}).decode()
    text = made(Step("sin", ("v",)), Step("pow", ("n0", "v")))
    assert (text.count("__cudart_sin_cos_coeffs[") == 1
            and text.count(".func  (.param .b64 func_retval0) __internal_accurate_pow") == 1)
    assert "__internal" not in made(Step("add", ("v", "v")))


def test_refuses_a_kernel_without_marks():
    with pytest.raises(InternalError, match="marked: must have the mark epilogue to splice at; got none"):
        splice(TEXT.replace(b"@fuse", b"@none"), KERNEL, {"epilogue": PROGRAMS["bias_relu"]})


def test_refuses_more_parameters_than_there_is_room_for():
    large = Program("f32", (), tuple([Extra("f32", At())] * 300))
    with pytest.raises(InternalError, match="programs must need at most 2048 bytes of parameters; got 2400"):
        splice(TEXT, KERNEL, {"epilogue": large})


@pytest.mark.parametrize("lanes, vector, size, want", [
    (8, 8, 2, [(0, 8)]), (8, 8, 4, [(0, 4), (4, 4)]), (4, 8, 4, [(0, 4)]), (2, 1, 2, [(0, 1), (1, 1)]),
    (8, 2, 8, [(i, 2) for i in (0, 2, 4, 6)]), (4, 4, 1, [(0, 4)]), (1, 8, 2, [(0, 1)]), (8, 8, 1, [(0, 8)]),
    (8, 8, 8, [(i, 2) for i in (0, 2, 4, 6)])])
def test_accesses(lanes, vector, size, want):
    assert chunks(lanes, vector, size) == want


def test_mark_and_literals():
    mark = Mark.read("v=%f1,%f2 off=%rd3 col=%r4", {"%f": "f32"})
    assert mark.values == ("%f1", "%f2") and mark.offsets == {"off": "%rd3", "col": "%r4"}
    assert mark.type == "f32"
    assert Mark.read("int v=%r1 off=%rd3", {}).type == "i32"
    with pytest.raises(InternalError, match="mark: v must be a float or double register; got %x1"):
        Mark.read("v=%x1 off=%rd3", {"%f": "f32"})
    assert literal(1.0, "f32") == "0f3F800000" and literal(-2.0, "f64") == "0dC000000000000000"
    assert literal(float("inf"), "f32") == "0f7F800000" and literal(1e300, "f32") == "0f7F800000"

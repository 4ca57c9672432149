"""What is pasted: golden texts, and every rule through ptxas.

After a change that is meant: ``CYDNN_GOLDEN=write pytest tests/fusion`` writes the golden
texts anew; read their diff.
"""
from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fusion_rules import GOLDEN, KERNEL, PROGRAMS, PTXAS, TEXT, all_modes, assemble
from cydnn.fusion import At, Epilogue, Extra, Program, Step, splice
from cydnn.fusion.emit import chunks
from cydnn.fusion.registers import Mark, literal
from cydnn.fusion.rules import STORAGE
from cydnn.status import InternalError

needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="needs ptxas")


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden(name):
    got, path = splice(TEXT, KERNEL, PROGRAMS[name]).decode(), GOLDEN / f"{name}.ptx"
    if os.environ.get("CYDNN_GOLDEN") == "write":
        path.write_text(got)
    assert got == path.read_text()


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_assembles(name, target, tmp_path):
    assert assemble((GOLDEN / f"{name}.ptx").read_bytes(), target, tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("math, fast", [("f32", False), ("f32", True), ("f64", False)])
def test_every_mode_assembles(math, fast, target, tmp_path):
    text = TEXT.replace(b"v=%f1,%f2,%f3,%f4", b"v=%f1")
    assert assemble(splice(text, KERNEL, all_modes(math, fast)), target, tmp_path) == ""


@needs_ptxas
@pytest.mark.parametrize("math", ["f32", "f64"])
@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_every_type_assembles(math, vector, target, tmp_path):
    """Load, round and store every type, with every width of access; the text says
    the target, as it does on a device."""
    steps, tensors, before = [], [], "v"
    for i, dtype in enumerate(STORAGE):
        at = At(("off", "col")[i % 2], 1, vector)
        tensors += [Extra(dtype, at), Extra(dtype, At("off", 1, vector))]
        steps.append(Step("add", (before, f"t{2 * i}"), dtype=dtype, store=f"t{2 * i + 1}" if i < 7 else ""))
        before = f"n{i}"
    program = Program(math, tuple(steps[:7]), tuple(tensors[:14]), dtype="bf16")
    last = Program(math, (Step("add", ("v", "t0"), dtype="bool", store="t1"),),
                   (Extra("bool", At("", 0)), Extra("bool", At("off", 1))))
    for p in (program, last):
        text = TEXT if target == "sm_75" else TEXT.replace(b".target sm_75", b".target sm_80").replace(
            b".version 6.5", b".version 7.0")
        assert assemble(splice(text, KERNEL, p), target, tmp_path) == ""


def test_text_says_the_program():
    text = splice(TEXT, KERNEL, PROGRAMS["bias_relu"]).decode()
    assert ("// n0 = add(v, t0)\n// n1 = relu_fwd(n0; 0, inf, 0)\n"
            "// t0: f32 at col, 4 at once\n// v = n1, in f32\n{" in text)
    assert "@fuse.epilogue" not in text


def test_remembered_by_structure():
    """Pointers, numbers and the epilogue around a program do not matter."""
    program = PROGRAMS["bias_relu"]
    first = splice(TEXT, KERNEL, Epilogue(program, ("p",), ()))
    assert splice(bytes(bytearray(TEXT)), KERNEL, Epilogue(replace(program), ("q",), ())) is first


def test_parameters_are_read_from_the_fuse_block():
    program = PROGRAMS["scaled_residual"]
    epilogue = Epilogue(program, ("p",), ("a", "b", "c"))
    assert epilogue.parameters() == ([(0, "p")], [(8, "f32", "a"), (12, "f32", "b"), (16, "f32", "c")])
    text = splice(TEXT, KERNEL, program).decode()
    assert all(f"[marked_param_1+{offset}]" in text for offset in (0, 8, 12, 16))


def test_support_is_in_the_module_once():
    text = splice(TEXT, KERNEL, Program("f64", (Step("sin", ("v",)), Step("pow", ("n0", "v"))))).decode()
    assert (text.count("__cudart_sin_cos_coeffs[") == 1
            and text.count(".func  (.param .b64 func_retval0) __internal_accurate_pow") == 1)
    assert "__internal" not in splice(TEXT, KERNEL, Program("f64", (Step("add", ("v", "v")),))).decode()


def test_refuses_a_kernel_without_marks():
    with pytest.raises(InternalError, match="must have a mark"):
        splice(TEXT.replace(b"@fuse", b"@none"), KERNEL, PROGRAMS["bias_relu"])


@pytest.mark.parametrize("lanes, vector, size, want", [
    (8, 8, 2, [(0, 8)]), (8, 8, 4, [(0, 4), (4, 4)]), (4, 8, 4, [(0, 4)]), (2, 1, 2, [(0, 1), (1, 1)]),
    (8, 2, 8, [(i, 2) for i in (0, 2, 4, 6)]), (4, 4, 1, [(i, 1) for i in range(4)]), (1, 8, 2, [(0, 1)])])
def test_accesses(lanes, vector, size, want):
    assert chunks(lanes, vector, size) == want


def test_mark_and_literals():
    mark = Mark.read("v=%f1,%f2 off=%rd3 col=%r4")
    assert mark.values == ("%f1", "%f2") and mark.offsets == {"off": "%rd3", "col": "%r4"}
    assert literal(1.0, "f32") == "0f3F800000" and literal(-2.0, "f64") == "0dC000000000000000"
    assert literal(float("inf"), "f32") == "0f7F800000" and literal(1e300, "f32") == "0f7F800000"

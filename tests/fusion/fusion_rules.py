"""What the fusion tests share: the kernel they splice into, and programs to splice."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

from cydnn.fusion import At, Extra, Program, Step
from cydnn.ops.pointwise import MODES

GOLDEN = Path(__file__).parent / "golden"
KERNEL = SimpleNamespace(name="marked", row={"params": [None, None]})
TEXT = (GOLDEN / "kernel.ptx").read_bytes()
PTXAS = shutil.which("ptxas")

BIAS, RESIDUAL = Extra("f32", At("col", 1, 4)), Extra("bf16", At("off", 1, 4))
PROGRAMS = {
    "bias_relu": Program("f32", (Step("add", ("v", "t0")),
                                 Step("relu_fwd", ("n0",), attributes=(0.0, float("inf"), 0.0))), (BIAS,)),
    "bias_gelu_fast": Program("f32", (Step("add", ("v", "t0")), Step("gelu_fwd", ("n0",))), (BIAS,),
                              fast=True),
    "scaled_residual": Program("f32", (Step("add", ("v", "t0"), ("s0", "s1"), "s2"),), (RESIDUAL,), 3,
                               dtype="f16"),
    "mask_kept": Program("f32", (Step("cmp_gt", ("v", "t0"), dtype="bool", store="t1"),
                                 Step("binary_select", ("v", "t2", "n0"))),
                         (Extra("f32", At("", 0)), Extra("bool", At("off", 1)),
                          Extra("f16", At("off", 1, 2)))),
}


def functions(math, fast) -> list[tuple[str, int, int]]:
    """(function, inputs, attributes) of every mode, in both forms where a mode knows NaN."""
    rows = []
    for mode, row in MODES.items():
        if mode != "gen_index":
            names = [mode] + [mode + "_ignore"] * ("nan" in row.uses)
            rows += [(name, row.inputs, len([u for u in row.uses if u not in ("nan", "axis")]))
                     for name in names]
    return rows


def all_modes(math, fast) -> Program:
    """One program with a step for every function, each reading the one before it."""
    steps = []
    for i, (name, inputs, attributes) in enumerate(functions(math, fast)):
        before = f"n{i - 1}" if i else "v"
        steps.append(Step(name, (before, "v", before)[:inputs], attributes=(0.5, 6.0, 0.25)[:attributes]))
    return Program(math, tuple(steps), fast=fast)


def assemble(text: bytes, target: str, folder) -> str:
    """What ptxas says against a text; "" when it takes it."""
    path = Path(folder) / "spliced.ptx"
    path.write_bytes(text)
    run = subprocess.run([PTXAS, f"-arch={target}", str(path), "-o", str(path.with_suffix(".cubin"))],
                         capture_output=True, text=True)
    return run.stderr + run.stdout if run.returncode else ""

"""What the fusion tests share: the kernel they splice into, programs to splice, and what these mean."""
from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from cydnn.device.ptx import parse
from cydnn.device.ptx.code import Code
from cydnn.dtypes import BY_NAME
from cydnn.fusion import At, Digit, Extra, Fused, Program, Step, bases, splice
from cydnn.ops.pointwise import MODES
from cydnn.steps import Pointer

GOLDEN = Path(__file__).parent / "golden"
KERNEL = SimpleNamespace(name="marked", row={"params": [None, None]})
TEXT = (GOLDEN / "kernel.ptx").read_bytes()
PTXAS = shutil.which("ptxas")
# of the kernel's x: blocks, and 32 threads of four neighbours
ROWS, COLS = 3, 128

INF = float("inf")
COL, OFF = At((("col", 1),), 1, 4), At((("off", 1),), 1, 4)
PROGRAMS = {
    "bias_relu": Program("f32", (Step("add", ("v", "t0")),
                                 Step("relu_fwd", ("n0",), attributes=(0.0, INF, 0.0))),
                         (Extra("f32", COL),), result="n1"),
    "bias_gelu_fast": Program("f32", (Step("add", ("v", "t0")),
                                      Step("gelu_fwd", ("n0",))), (Extra("f32", COL),),
                              result="n1", fast=True),
    "scaled_residual": Program("f32", (Step("add", ("v", "t0"), ("s0", "s1"), "s2"),), (Extra("bf16", OFF),),
                               result="n0", scalars=3, entry="f16"),
    "mask_kept": Program("f32", (Step("cmp_gt", ("v", "t0"), dtype="bool"),
                                 Step("binary_select", ("v", "t2", "n0"))),
                         (Extra("f32", At()), Extra("i8", OFF), Extra("f16", At((("off", 1),), 1, 2))),
                         (("n0", "t1"),), "n1"),
    "blended": Program("f64", (Step("mul", ("v", "v")),), (Extra("i32", OFF), Extra("f8_e5m2", OFF)),
                       (("n0", "t1"), ("v", "t0")), scalars=2, alpha="s0", blend=("t0", "s1")),
    "coordinates": Program("f32", (Step("add", ("v", "t0")), Step("mul", ("n0", "@col+1"), ("", "s0")),
                                   Step("add", ("n1", "t1"))),
                           (Extra("bool", At((("d0", 1), ("row", "k0")), 1)),
                            Extra("f16", At((("d1", "k1"),), "k2"))),
                           result="n2", digits=(Digit("col", "", "f0"), Digit("col", "f1", "")),
                           numbers=3, scalars=1,
                           divisors=2),
    "whole": Program(
        "f32", (Step("neg", ("v",)),), (Extra("f16", At((("col", 1), ("d0", "k0")), 1, 4)),), (("n0", "t0"),),
                     digits=(Digit("at", "f0"),), numbers=1, divisors=1, is_whole=True),
}
SCALARS = dict(scaled_residual=(0.5, -2.0, 4.0), blended=(0.5, -1.0), coordinates=(2.0,))
NUMBERS = dict(coordinates=(40, 8, 2 * 100), whole=(2 * COLS,))
DIVISORS = dict(coordinates=(32, 64), whole=(COLS,))


def meaning(name, v, t):
    """What a program does: (v, {number of a tensor: what is stored}) of float64 arrays, in NumPy."""
    col = np.arange(COLS)
    if name == "bias_relu":
        return np.maximum(v + t[0][:COLS], 0), {}
    if name == "bias_gelu_fast":
        from cydnn.ops.pointwise import erf64
        z = v + t[0][:COLS]
        return 0.5 * z * (1 + erf64(z * 0.5 ** 0.5)), {}
    if name == "scaled_residual":
        return 4.0 * (0.5 * BY_NAME["f16"].round(v) - 2.0 * t[0].reshape(v.shape)), {}
    if name == "mask_kept":
        mask = v > t[0][0]
        return np.where(mask, v, t[2].reshape(v.shape)), {1: mask}
    if name == "blended":
        blended = 0.5 * v - t[0].reshape(v.shape)
        return v, {0: blended, 1: blended ** 2}
    if name == "whole":
        return v, {0: -v}
    bits = np.stack([t[0][col % 32 + 40 * row] for row in range(ROWS)])
    apart = t[1][col // 4 * 4 // 64 * 4 + col % 4 * 100]
    return (v + bits) * (2.0 * col) + apart, {}


def moved(text: bytes, plus: int) -> bytes:
    """The kernel with a second mark, for columns from ``plus`` on: off and col are so much less, and it says
    so."""
    mark = re.search(rb"\t// @fuse\.epilogue (.*) off=(%\w+) (.*)col=(%\w+);\n", text)
    values, off, rest, col = mark.groups()
    other = (b"{\n.reg .pred %%first_0;\n.reg .b64 %%less_0;\n.reg .b32 %%less_1;\n"
             b"setp.lt.u32 %%first_0, %s, %d;\n@%%first_0 bra $L__first;\nsub.s64 %%less_0, %s, %d;\n"
             b"sub.s32 %%less_1, %s, %d;\n\t// @fuse.epilogue %s off=%%less_0 %scol=%%less_1 plus=%d;\n"
             b"bra $L__both;\n}\n$L__first:\n%s$L__both:\n")
    other %= (col, plus, off, plus, col, plus, values, rest, plus, mark[0])
    return text[:mark.start()] + other + text[mark.end():]


def run(device, name, v, values, text=TEXT):
    """(v behind the program, {number of a tensor: what lies there}) on the interpreter."""
    program, places = PROGRAMS[name], []
    for extra, array in zip(program.tensors, values):
        raw = BY_NAME[extra.dtype].encode(array)
        raw = np.packbits(raw, bitorder="little") if extra.dtype == "bool" else raw
        places.append(device.alloc(max(raw.nbytes, 16)))
        device.copy_in(places[-1].ptr, raw)
    fused = Fused(program, tuple(map(Pointer, range(len(places)))), SCALARS.get(name, ()),
                  NUMBERS.get(name, ()),
                  DIVISORS.get(name, ()))
    out, stored = launch(device, text, {"epilogue": fused}, v, places), {}
    for _, tensor in program.stores:
        i = int(tensor[1:])
        kind = BY_NAME[program.tensors[i].dtype]
        stored[i] = kind.decode(device.copy_out(places[i].ptr, np.empty(values[i].shape, kind.numpy)))
    return out, stored


def launch(device, text: bytes, fuse: dict, v, places=()):
    """v behind the programs of a kernel's marks; ``places``: buffers of their pointers."""
    module = parse.module(splice(text, KERNEL, fuse).decode(), "marked.ptx")
    variables = {n: device._variable(*x) for n, x in module.variables.items()}
    x, pointers, scalars, at = device.alloc(v.size * 4), [], [], bases(fuse)
    device.copy_in(x.ptr, v.astype(np.float32))
    block = bytearray(struct.pack("<Q", x.ptr) + bytes(max(at[""], 8)))
    for mark, fused in fuse.items():
        fused.put(block, 8 + at[mark], pointers, scalars)
    assert not scalars
    for offset, pointer in pointers:
        struct.pack_into("<Q", block, offset, places[pointer.uid].ptr)
    code = Code(module, parse.PtxProgram(module, "marked"), variables)
    device.launch(code, (ROWS, 1, 1), (COLS // 4, 1, 1), 0, bytes(block))
    return device.copy_out(x.ptr, np.empty(v.shape, np.float32)).astype(np.float64)


def functions(math, fast) -> list[tuple[str, int, int]]:
    """(function, inputs, attributes) of every mode, in both forms where a mode knows NaN, and what is no
    mode."""
    rows = [("trunc", 1, 0)]
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
    return Program(math, tuple(steps), result=f"n{len(steps) - 1}", fast=fast)


def assemble(text: bytes, target: str, folder) -> str:
    """What ptxas says against a text; "" when it takes it."""
    path = Path(folder) / "spliced.ptx"
    path.write_bytes(text)
    done = subprocess.run([PTXAS, f"-arch={target}", str(path), "-o", str(path.with_suffix(".cubin"))],
                          capture_output=True, text=True)
    return done.stderr + done.stdout if done.returncode else ""

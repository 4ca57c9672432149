"""Arithmetic of floating-point numbers that does not round to nearest, that takes denormal numbers for
zeros, or that approximates: which forms, and in which rooms of kernels_src/. All other arithmetic there
is IEEE 754's; a form that comes in by a flag of the compiler, or by a slip of the hand, is a stray."""
from __future__ import annotations

import re

SPECIAL = re.compile(
    r"(?m)(?:^|[;{}])\s*(?:@!?%\w+\s+)?((?:add|sub|mul|fma|div|rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh|cvt|neg"
    r"|abs|min|max|setp?)\.(?=[\w.]*b?f(?:16|32|64))(?=[\w.]*\b(?:rz|rm|rp|rna|rzi|rmi|rpi|rni|ftz|approx"
    r"|full|sat)\b)[\w.]+)")
LOCAL = ("divisive_norm", "lrn")                 # powers by their logarithm
ALLOWED = {
    # the pixel of a coordinate, an index
    "cvt.rmi.f64.f64": ("spatial",), "cvt.rzi.s32.f64": ("spatial", "resample"),
    # scales on their grid; a byte that is two numbers
    **dict.fromkeys(("cvt.rpi.f32.f32", "cvt.rp.f32.f64", "cvt.rzi.u32.f32", "cvt.rzi.u32.f64"),
                    ("block_scale",)),
    # to whole numbers
    **dict.fromkeys(("cvt.rni.s32.f32", "cvt.rni.s32.f64", "cvt.rni.s64.f64"), ("layout",)),
    "cvt.rzi.s32.f32": ("conv", "resample"),
    **dict.fromkeys(("cvt.rzi.f32.f32", "cvt.rni.f64.f64", "cvt.rzi.f64.f64",
                     "cvt.rzi.s64.f64"), ("conv",)),                        # the angle of a twiddle factor
    "cvt.rni.f32.f32": ("conv", "rnn"),                                     # and within exp of f64
    **dict.fromkeys(("cvt.sat.f32.f32", "fma.rm.f32"), ("attention", "rnn", "softmax")),    # within expf
    "div.approx.f32": ("attention", "norm"), "lg2.approx.f32": ("attention",),
    "rcp.approx.f32": ("softmax",), "rcp.approx.ftz.f32": ("rnn",),
    # where Newton's method begins
    "rcp.approx.ftz.f64": (*LOCAL, "attention", "rnn", "softmax"), "rsqrt.approx.f64": LOCAL,
    "ex2.approx.ftz.f32": (*LOCAL, "attention", "rnn", "softmax"),
    **dict.fromkeys(("ex2.approx.f32", "rsqrt.approx.f32", "lg2.approx.ftz.f32", "rsqrt.approx.ftz.f32",
                     "sqrt.approx.ftz.f32"), LOCAL),
}


WGMMA = re.compile(r"(?m)^\s*(?:@!?%?\w+\s+)?wgmma\.(\w+)|^\s*(\$?\w+):")


def strays(text: str, source: str) -> list[str]:
    """Forms of a text that the room of its source does not have, and products that no fence precedes."""
    return sorted({form for form in SPECIAL.findall(text) if not is_allowed(form, source)} | unfenced(text))


def is_allowed(form: str, source: str) -> bool:
    """Does the room of a source have the form?"""
    return source.partition("/")[0] in ALLOWED.get(form, ())


def unfenced(text: str) -> set:
    """The first products of a row behind a label, a wait or a commit, with no wgmma.fence in between: their
    registers may be those that other instructions have written (PTX ISA §wgmma.fence)."""
    found, is_fenced = set(), False
    for verb, label in WGMMA.findall(text) if "wgmma" in text else ():
        if verb == "mma_async" and not is_fenced:
            found.add("wgmma.mma_async without a wgmma.fence")
        is_fenced = verb in ("fence", "mma_async")
    return found

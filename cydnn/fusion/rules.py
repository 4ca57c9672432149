"""Data types in PTX, one row each: how an element is loaded, stored, and converted from and to the math types.

Templates: ``{d}`` destination, ``{s}`` source. In ``widen`` the source is an element as loaded, in ``narrow`` the destination is an
element to store. A template may declare registers: it is pasted in a scope of its own.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Storage:
    """``register``: the type of a register that holds one element; ``move``: the suffix of a load or store of one element."""
    bytes: int
    register: str
    move: str
    widen: dict                                  # math type -> lines
    narrow: dict                                 # math type -> lines
    narrow_75: dict | None = None                # the same before sm_80

    def narrowing(self, math: str, sm: int) -> str:
        return (self.narrow_75 or self.narrow)[math] if sm < 80 else self.narrow[math]


def _integer(low, high):
    """Saturates; NaN becomes 0 (PTX ISA §cvt: from f32 so by itself)."""
    clamp = f" max.s32 {{d}}, {{d}}, {low}; min.s32 {{d}}, {{d}}, {high};" if low is not None else ""
    return dict(
        widen={"f32": "cvt.rn.f32.s32 {d}, {s};", "f64": "cvt.rn.f64.s32 {d}, {s};"},
        narrow={"f32": "cvt.rni.s32.f32 {d}, {s};" + clamp,
                "f64": ".reg .pred p; setp.nan.f64 p, {s}, {s}; cvt.rni.s32.f64 {d}, {s}; selp.b32 {d}, 0, {d}, p;" + clamp})


# bf16 is the upper half of f32. Before sm_80 rounding is integer arithmetic: add half of the last place, ties to even; NaN apart.
_BF16_UP = "cvt.u32.u16 w, {s}; shl.b32 %s, w, 16;"
_BF16_75 = (".reg .b32 w, u; .reg .pred p; mov.b32 w, %s; shr.u32 u, w, 16; and.b32 u, u, 1; add.u32 u, u, 0x7fff; add.u32 u, u, w; "
            "setp.nan.f32 p, %s, %s; selp.b32 u, 0x7fff0000, u, p; shr.u32 u, u, 16; cvt.u16.u32 {d}, u;")

STORAGE = {
    "f64": Storage(8, ".f64", "f64", {"f32": "cvt.rn.f32.f64 {d}, {s};", "f64": "mov.f64 {d}, {s};"},
                   {"f32": "cvt.f64.f32 {d}, {s};", "f64": "mov.f64 {d}, {s};"}),
    "f32": Storage(4, ".f32", "f32", {"f32": "mov.f32 {d}, {s};", "f64": "cvt.f64.f32 {d}, {s};"},
                   {"f32": "mov.f32 {d}, {s};", "f64": "cvt.rn.f32.f64 {d}, {s};"}),
    "f16": Storage(2, ".b16", "b16", {"f32": "cvt.f32.f16 {d}, {s};", "f64": "cvt.f64.f16 {d}, {s};"},
                   {"f32": "cvt.rn.f16.f32 {d}, {s};", "f64": "cvt.rn.f16.f64 {d}, {s};"}),
    "bf16": Storage(2, ".b16", "b16",
                    {"f32": ".reg .b32 w; " + _BF16_UP % "{d}", "f64": ".reg .b32 w; .reg .f32 f; " + _BF16_UP % "f" + " cvt.f64.f32 {d}, f;"},
                    {"f32": "cvt.rn.bf16.f32 {d}, {s};", "f64": ".reg .f32 f; cvt.rn.f32.f64 f, {s}; cvt.rn.bf16.f32 {d}, f;"},
                    {"f32": _BF16_75 % (("{s}",) * 3), "f64": ".reg .f32 f; cvt.rn.f32.f64 f, {s}; " + _BF16_75 % (("f",) * 3)}),
    "i8": Storage(1, ".b32", "s8", **_integer(-128, 127)),
    "u8": Storage(1, ".b32", "u8", **_integer(0, 255)),
    "i32": Storage(4, ".b32", "b32", **_integer(None, None)),
    "bool": Storage(1, ".b32", "u8", _integer(None, None)["widen"],
                    {m: f".reg .pred p; setp.neu.{m} p, {{s}}, {z}; selp.b32 {{d}}, 1, 0, p;"
                     for m, z in (("f32", "0f00000000"), ("f64", "0d0000000000000000"))}),
}

COORDINATE = {"f32": "cvt.rn.f32.s64 {d}, {s};", "f64": "cvt.rn.f64.s64 {d}, {s};"}
CONVERT = {("f32", "f64"): "cvt.f64.f32 {d}, {s};", ("f64", "f32"): "cvt.rn.f32.f64 {d}, {s};",
           ("f32", "f32"): "mov.f32 {d}, {s};", ("f64", "f64"): "mov.f64 {d}, {s};"}
EXACT_IN = {"f32": ("f32", "f16", "bf16", "i8", "u8", "bool"), "f64": tuple(STORAGE)}      # types that a math type holds without rounding


def needs_rounding(dtype: str, math: str) -> bool:
    """A value of the math type may change when it is stored as ``dtype``."""
    return dtype != math and not (dtype == "f64" and math == "f32")

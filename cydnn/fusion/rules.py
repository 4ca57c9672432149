"""Data types in PTX, one row each: how an element is loaded, stored,
and converted from and to the math types.

Templates: ``{d}`` destination, ``{s}`` source. In ``widen`` the source is an element as loaded, in ``narrow``
the destination is an element to store. A template may declare registers: it is pasted in a scope of its own.
The math type "i32" is for values that are only moved on their way into sums of integers.
"""
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Storage:
    """``register``: the type of a register that holds one element; ``move``: the suffix of a load or store of
    one element (a packed boolean is loaded as its byte, and its bit taken)."""
    bits: int
    register: str
    move: str
    widen: dict                                  # math type -> lines
    narrow: dict                                 # math type -> lines
    narrow_75: dict | None = None                # the same before sm_80
    halves: dict = field(default_factory=dict)   # math type -> both elements of a loaded word, widened
    round_80: dict = field(default_factory=dict) # math type -> narrowed and widened, from sm_80 on

    @property
    def bytes(self) -> int:
        return self.bits // 8

    def narrowing(self, math: str, sm: int) -> str:
        return (self.narrow_75 or self.narrow)[math] if sm < 80 else self.narrow[math]


def _integer(low, high):
    """Saturates; NaN becomes 0 (PTX ISA §cvt: from f32 so by itself)."""
    clamp = f" max.s32 {{d}}, {{d}}, {low}; min.s32 {{d}}, {{d}}, {high};" if low is not None else ""
    return dict(
        widen={"f32": "cvt.rn.f32.s32 {d}, {s};", "f64": "cvt.rn.f64.s32 {d}, {s};",
               "i32": "mov.b32 {d}, {s};"},
        narrow={"f32": "cvt.rni.s32.f32 {d}, {s};" + clamp, "i32": "mov.b32 {d}, {s};" + clamp,
                "f64": ".reg .pred p; setp.nan.f64 p, {s}, {s}; cvt.rni.s32.f64 {d}, {s}; "
                       "selp.b32 {d}, 0, {d}, p;" + clamp})


# f64 to f32 rounded to odd: cut off, and the last bit set where that lost something.
# A second rounding is then exact.
_ODD = (".reg .f32 f; .reg .f64 back; .reg .b32 o, h; .reg .pred lost, n; "
        "cvt.rz.f32.f64 f, {s}; cvt.f64.f32 back, f; setp.neu.f64 lost, back, {s}; setp.nan.f64 n, {s}, {s}; "
        "mov.b32 o, f; or.b32 h, o, 1; selp.b32 o, h, o, lost; mov.b32 f, o; @n mov.f32 f, 0f7FFFFFFF; ")

_ODD_32 = ".reg .f64 v; cvt.rn.f64.s32 v, {s}; " + _ODD.replace("{s}", "v")

# bf16 is the upper half of f32. Before sm_80 rounding is integer arithmetic:
# add half of the last place, ties to even.
_BF16_UP = "cvt.u32.u16 w, {s}; shl.b32 %s, w, 16;"
# From then on one instruction rounds: a pair whose lower half is 0 is the f32.
_BF16_80 = ".reg .b32 w; cvt.rn.bf16x2.f32 w, {s}, 0f00000000; mov.b32 {d}, w;"
_BF16_75 = (".reg .b32 w, u; .reg .pred p; mov.b32 w, %s; "
            "shr.u32 u, w, 16; and.b32 u, u, 1; add.u32 u, u, 0x7fff; add.u32 u, u, w; "
            "setp.nan.f32 p, %s, %s; selp.b32 u, 0x7fff0000, u, p; shr.u32 u, u, 16; cvt.u16.u32 {d}, u;")


def _f8(mantissa: int, bias: int, top: int, nan: int):
    """An 8-bit float in a 32-bit register (its code),
    by integer and f32 arithmetic that every architecture has.

    Widening: the code shifted up is an f32 whose exponent lacks the difference of the biases; a product with
    a power of two puts that right, for denormal codes too. Narrowing: |x| is saturated; adding a constant
    rounds it to the nearest denormal code, or half of the last place and the parity bit to the nearest normal
    one; then the exponent is put right.
    """
    shift = 23 - mantissa
    least = f"0f{(127 - bias + 1) << 23:08X}"            # the least normal value
    magic = (127 - bias + 1 - mantissa + 23) << 23       # its last place is that of denormal codes
    up = f"0f{(254 - bias) << 23:08X}"                   # 2^(127 - bias)
    largest = f"0f{((top >> mantissa) - bias + 127 << 23) | (top & (1 << mantissa) - 1) << shift:08X}"
    widen = (f".reg .b32 c, w; .reg .f32 f; .reg .pred p; and.b32 c, {{s}}, 127; shl.b32 w, c, {shift}; "
             f"mov.b32 f, w; mul.rn.f32 f, f, {up}; setp.gt.u32 p, c, {top}; {{nan}}and.b32 c, {{s}}, 128; "
             "shl.b32 c, c, 24; mov.b32 w, f; or.b32 w, w, c; mov.b32 {out}, w;")
    infinite = (f"@p mov.f32 f, 0f7F800000; setp.gt.u32 p, c, {top + 1}; " if nan > top + 1 else "")
    widen = widen.replace("{nan}", infinite + "@p mov.f32 f, 0f7FFFFFFF; ")
    narrow = (".reg .b32 w, u, y, g; .reg .f32 a, z; .reg .pred p, r; "
              f"abs.f32 a, {{x}}; setp.nan.f32 p, {{x}}, {{x}}; min.f32 a, a, {largest}; "
              f"setp.lt.f32 r, a, {least}; add.rn.f32 z, a, 0f{magic:08X}; mov.b32 u, z; "
              f"sub.u32 u, u, {magic:#x}; mov.b32 w, a; shr.u32 y, w, {shift}; and.b32 y, y, 1; "
              "add.u32 w, w, y; "
              f"add.u32 w, w, {(1 << shift - 1) - 1:#x}; shr.u32 w, w, {shift}; "
              f"sub.u32 w, w, {127 - bias << mantissa}; selp.b32 u, u, w, r; selp.b32 u, {nan}, u, p; "
              "mov.b32 g, {x}; shr.u32 g, g, 24; and.b32 g, g, 128; or.b32 {d}, u, g;")
    return _through_f32(widen, narrow)


def _through_f32(widen: str, narrow: str) -> dict:
    """The conversions of a type of 8 bits, from those to f32, ``{out}``, and from f32, ``{x}``."""
    return dict(
        widen={"f32": widen.replace("{out}", "{d}"),
               "f64": ".reg .f32 v; " + widen.replace("{out}", "v") + " cvt.f64.f32 {d}, v;",
               "i32": ".reg .f32 v; " + widen.replace("{out}", "v") + " cvt.rni.s32.f32 {d}, v;"},
        narrow={"f32": narrow.replace("{x}", "{s}"), "f64": _ODD + narrow.replace("{x}", "f"),
                "i32": ".reg .f32 v; cvt.rn.f32.s32 v, {s}; " + narrow.replace("{x}", "v")})


def _e8m0():
    """A power of two in a 32-bit register (its code), which is the exponent of an f32: that of a denormal one
    for the first. Half of the last place, added, rounds; a negative number, like NaN, is the last code."""
    widen = (".reg .b32 w; .reg .pred p; shl.b32 w, {s}, 23; max.u32 w, w, 0x400000; "
             "setp.eq.u32 p, w, 0x7f800000; selp.b32 w, 0x7fffffff, w, p; mov.b32 {out}, w;")
    narrow = (".reg .b32 w; .reg .pred p, q; mov.b32 w, {x}; setp.lt.u32 p, w, 0x600000; "
              "setp.ltu.f32 q, {x}, 0f00000000; add.u32 w, w, 0x400000; shr.u32 w, w, 23; "
              "min.u32 w, w, 254; selp.b32 w, 0, w, p; setp.eq.f32 p, {x}, 0f00000000; "
              "selp.b32 w, 0, w, p; selp.b32 {d}, 255, w, q;")
    return _through_f32(widen, narrow)


STORAGE = {
    "f64": Storage(64, ".f64", "f64", {"f32": "cvt.rn.f32.f64 {d}, {s};", "f64": "mov.f64 {d}, {s};"},
                   {"f32": "cvt.f64.f32 {d}, {s};", "f64": "mov.f64 {d}, {s};",
                    "i32": "cvt.rn.f64.s32 {d}, {s};"}),
    "f32": Storage(32, ".f32", "f32",
                   {"f32": "mov.f32 {d}, {s};", "f64": "cvt.f64.f32 {d}, {s};",
                    "i32": "cvt.rni.s32.f32 {d}, {s};"},
                   {"f32": "mov.f32 {d}, {s};", "f64": "cvt.rn.f32.f64 {d}, {s};",
                    "i32": "cvt.rn.f32.s32 {d}, {s};"}),
    "f16": Storage(16, ".b16", "b16",
                   {"f32": "cvt.f32.f16 {d}, {s};", "f64": "cvt.f64.f16 {d}, {s};",
                    "i32": "cvt.rni.s32.f16 {d}, {s};"},
                   {"f32": "cvt.rn.f16.f32 {d}, {s};", "f64": "cvt.rn.f16.f64 {d}, {s};",
                    "i32": "cvt.rn.f16.s32 {d}, {s};"}),
    "bf16": Storage(16, ".b16", "b16",
                    {"f32": ".reg .b32 w; " + _BF16_UP % "{d}",
                     "f64": ".reg .b32 w; .reg .f32 f; " + _BF16_UP % "f" + " cvt.f64.f32 {d}, f;",
                     "i32": ".reg .b32 w; .reg .f32 f; " + _BF16_UP % "f" + " cvt.rni.s32.f32 {d}, f;"},
                    {"f32": "cvt.rn.bf16.f32 {d}, {s};", "f64": _ODD + "cvt.rn.bf16.f32 {d}, f;",
                     "i32": _ODD_32 + "cvt.rn.bf16.f32 {d}, f;"},
                    {"f32": _BF16_75 % (("{s}",) * 3), "f64": _ODD + _BF16_75 % (("f",) * 3),
                     "i32": _ODD_32 + _BF16_75 % (("f",) * 3)},
                    {"f32": ("shl.b32 {d}, {s}, 16;", "and.b32 {d}, {s}, 0xffff0000;")}, {"f32": _BF16_80}),
    "f8_e4m3": Storage(8, ".b32", "u8", **_f8(3, 7, 0x7E, 0x7F)),
    "f8_e5m2": Storage(8, ".b32", "u8", **_f8(2, 15, 0x7B, 0x7F)),
    "f8_e8m0": Storage(8, ".b32", "u8", **_e8m0()),
    "i8": Storage(8, ".b32", "s8", **_integer(-128, 127)),
    "u8": Storage(8, ".b32", "u8", **_integer(0, 255)),
    "i32": Storage(32, ".b32", "b32", **_integer(None, None)),
    "i64": Storage(64, ".b64", "b64",
                   {"f32": "cvt.rn.f32.s64 {d}, {s};", "f64": "cvt.rn.f64.s64 {d}, {s};",
                    "i32": "cvt.sat.s32.s64 {d}, {s};"},
                   {"f32": ".reg .pred p; setp.nan.f32 p, {s}, {s}; "
                           "cvt.rni.s64.f32 {d}, {s}; selp.b64 {d}, 0, {d}, p;",
                    "f64": ".reg .pred p; setp.nan.f64 p, {s}, {s}; "
                           "cvt.rni.s64.f64 {d}, {s}; selp.b64 {d}, 0, {d}, p;",
                    "i32": "cvt.s64.s32 {d}, {s};"}),
    "bool": Storage(1, ".b32", "u8", _integer(None, None)["widen"],
                    {**{m: f".reg .pred p; setp.neu.{m} p, {{s}}, {z}; selp.b32 {{d}}, 1, 0, p;"
                        for m, z in (("f32", "0f00000000"), ("f64", "0d0000000000000000"))},
                     "i32": ".reg .pred p; setp.ne.s32 p, {s}, 0; selp.b32 {d}, 1, 0, p;"}),
}

COORDINATE = {"f32": "cvt.rn.f32.u32 {d}, {s};", "f64": "cvt.rn.f64.u32 {d}, {s};"}
CONVERT = {("f32", "f64"): "cvt.f64.f32 {d}, {s};", ("f64", "f32"): "cvt.rn.f32.f64 {d}, {s};",
           ("f32", "f32"): "mov.f32 {d}, {s};", ("f64", "f64"): "mov.f64 {d}, {s};",
           ("i32", "i32"): "mov.b32 {d}, {s};", ("i32", "f64"): "cvt.rn.f64.s32 {d}, {s};",
           ("f64", "i32"): "cvt.rni.s32.f64 {d}, {s};"}


def needs_rounding(dtype: str, math: str) -> bool:
    """A value of the math type may change when it is stored as ``dtype``."""
    return dtype != math and not (dtype == "f64" and math == "f32")

"""The probes of cvt. Sources of 8 bits are read from 32 with noise above, results of 8 bits go
to 32: the extension is seen."""
from __future__ import annotations

from .table import row

INTS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
REGISTER = {"u8": "b32", "s8": "b32"}
NAN64 = dict(rule=("nan",), note="the ISA does not say which payload a NaN of f64 has")


def register(type_: str) -> str:
    return REGISTER.get(type_, type_)


def holds(d: str, s: str) -> bool:
    """Every value of ``s`` is one of ``d``, so that .sat is refused."""
    bits = lambda t: int(t[1:]) - (t[0] == "s")
    return bits(d) >= bits(s) and (d[0] == "s" or s[0] == "u")


for d in INTS:
    for s in INTS:
        row(f"cvt {'' if holds(d, s) else 'sat? '}{d} {s}", f"{register(d)}={register(s)}")
    row(f"cvt rni|rzi|rmi|rpi sat? {d} s:f16|f64", f"{register(d)}=s")
    row(f"cvt rni|rzi|rmi|rpi ftz? sat? {d} f32", f"{register(d)}=f32")
    row(f"cvt rn|rz|rm|rp d:f16|f32|f64 {d}", f"d={register(d)}")
    row(f"cvt rn|rz sat d:f16|f32|f64 {d}", f"d={register(d)}")
    if d[1:] != "8":
        row(f"cvt rni|rzi|rmi|rpi {d} bf16", f"{d}=bf16")
        row(f"cvt rn|rz|rm|rp bf16 {d}", f"bf16={d}")
ROUND, WHOLE = "rn|rz|rm|rp", "rni|rzi|rmi|rpi"
for form, d, s in (
        (f"{WHOLE}?", "bf16", "bf16"), (f"{ROUND}?", "bf16", "f16"), (f"{ROUND} ftz?", "bf16", "f32"),
        ("rn|rz relu", "bf16", "f32"), (ROUND, "bf16", "f64"),
        (f"{ROUND}?", "f16", "bf16"), (f"{WHOLE}? sat?", "f16", "f16"), (f"{ROUND} ftz? sat?", "f16", "f32"),
        ("rn|rz relu", "f16", "f32"), (f"{ROUND} sat?", "f16", "f64"),
        (f"{ROUND}? ftz?", "f32", "bf16"), ("ftz? sat?", "f32", "f16"),
        (f"{WHOLE}? ftz? sat?", "f32", "f32"), (f"{ROUND} ftz? sat?", "f32", "f64"),
        (f"{ROUND}?", "f64", "bf16"), ("sat?", "f64", "f16"), ("ftz? sat?", "f64", "f32"),
        (f"{WHOLE}? sat?", "f64", "f64")):
    row(f"cvt {form} {d} {s}", f"{d}={s}", **(NAN64 if d == "f64" else {}))
row("cvt rna satfinite? tf32 f32", "b32=f32", rule=("nan", "f32"),
    note="the bits of a NaN in tf32 depend on the modifiers; the ISA says nothing")
row("cvt rn relu? tf32 f32", "b32=f32", rule=("nan", "f32"), note="as above")
row("cvt rn|rz relu? satfinite? d:f16x2|bf16x2 f32", "d=f32,f32")
row("cvt rn satfinite relu? d:e4m3x2|e5m2x2 f32", "d=f32,f32")
row("cvt rn satfinite relu? d:e4m3x2|e5m2x2 f16x2", "d=f16x2")
row("cvt rn relu? f16x2 s:e4m3x2|e5m2x2", "f16x2=s")
row("cvt pack sat s16|u16 s32", "b32=s32,s32")
row("cvt pack sat s8|u8 s32 b32", "b32=s32,s32,b32")

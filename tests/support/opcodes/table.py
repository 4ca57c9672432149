"""The probes of instructions that compute: one row a form, written as in the tables of the interpreter
and expanded to every opcode it stands for.

``row("add sat? t:s32|u32", "t=t,t")``: words in order, ``a|b`` alternatives, ``?`` optional, ``name:``
a label for the signature (results=operands).
"""
from __future__ import annotations

import itertools
import re

import numpy as np

from .probe import Probe
from .values import operands, seed_of

PROBES: list[Probe] = []
LANES = {0: 128, 1: 256, 2: 512, 3: 384, 4: 384}


def expand(pattern: str):
    """(opcode, {label: word}) of every way to write a pattern."""
    parts = []
    for word in pattern.split():
        label, body = re.fullmatch(r"(?:(\w+):(?!:))?(.*)", word).groups()
        choices = body.removesuffix("?").split("|")
        parts.append([(label, c) for c in ([""] if body.endswith("?") else []) + choices])
    for combination in itertools.product(*parts):
        yield ".".join(w for _, w in combination if w), {label: w for label, w in combination if label}


def typed(word: str, found: dict) -> str:
    """``2t``: twice as wide as ``t``; a label; or a type."""
    if word[0] == "2":
        base = found[word[1:]]
        return base[0] + str(2 * int(base[1:]))
    return found.get(word, word)


def enter(name: str, text: str, ins, outs, values, rule=("bits",), undefined=None, note="", block=128):
    """Enter one probe; what it probes is read from its text."""
    opcodes = re.findall(r"(?<![%\w])([a-z]\w*\.[\w.:]*\w)", text)
    PROBES.append(Probe(name, text, tuple(ins), tuple(outs), tuple(values),
                        tuple(opcodes), rule, undefined, note, block))


def row(pattern: str, signature: str, text: str | None = None,
        rule=("bits",), undefined=None, note="", lanes=0):
    """Enter the probes of a form. ``text`` has {op}; without it the operands stand in order."""
    for opcode, found in expand(pattern):
        outs, _, ins = signature.partition("=")
        outs, ins = ([typed(w, found) for w in side.split(",") if w] for side in (outs, ins))
        places = [f"%d{i}" for i in range(len(outs))] + [f"%s{i}" for i in range(len(ins))]
        body = (text or "{op} " + ", ".join(places) + ";").replace("{op}", opcode)
        values = operands(ins, seed_of(opcode + signature), lanes or LANES[len(ins)])
        name = opcode if text is None else body
        chosen = rule(found) if callable(rule) else rule
        enter(name, body, ins, outs, values, chosen, undefined, note)


INT = "s16|u16|s32|u32|s64|u64"
BITS = "b16|b32|b64"
ZERO = dict(undefined=lambda a, b: b == 0, note="integer division by zero: the ISA leaves the result open")

# ---- Integers ----

row(f"mul part:lo|hi t:{INT}", "t=t,t")
row(f"mad part:lo|hi t:{INT}", "t=t,t,t")
row("mul wide t:s16|u16|s32|u32", "2t=t,t")
row("mad wide t:s16|u16|s32|u32", "2t=t,t,2t")
row("mul24 part:lo|hi t:s32|u32", "t=t,t")
row("mad24 part:lo|hi t:s32|u32", "t=t,t,t")
row(f"add t:{INT}|u16x2|s16x2", "t=t,t")
row(f"sub t:{INT}", "t=t,t")
row("add sat t:s32", "t=t,t")
row("sub sat t:s32", "t=t,t")
row(f"div t:{INT}", "t=t,t", **ZERO)
row(f"rem t:{INT}", "t=t,t", **ZERO)
row(f"min t:{INT}", "t=t,t")
row(f"max t:{INT}", "t=t,t")
row("neg t:s16|s32|s64", "t=t")
row("abs t:s16|s32|s64", "t=t")
row(f"sad t:{INT}", "t=t,t,t")
for name in ("and", "or", "xor"):
    row(f"{name} t:{BITS}|pred", "t=t,t")
row(f"not t:{BITS}|pred", "t=t")
row(f"cnot t:{BITS}", "t=t")
row(f"shl t:{BITS}", "t=t,shift")
row(f"shr t:{BITS}|{INT}", "t=t,shift")
row("shf way:l|r mode:wrap|clamp t:b32", "t=t,t,shift")
row("popc t:b32|b64", "u32=t")
row("clz t:b32|b64", "u32=t")
row("brev t:b32|b64", "t=t")
row("bfind shiftamt? t:u32|s32|u64|s64", "u32=t")
row("bfe t:u32|s32|u64|s64", "t=t,shift,shift")
row("bfi t:b32|b64", "t=t,t,shift,shift")
row("bmsk clamp b32", "b32=shift,shift")
row("szext clamp t:u32|s32", "t=t,shift")
row("prmt b32 mode:f4e|b4e|rc8|ecl|ecr|rc16?", "b32=b32,b32,b32")
for table in range(16):
    names = ", ".join(f"%d{i}" for i in range(16))
    row("lop3 b32", ",".join(["b32"] * 16) + "=b32,b32,b32",
        " ".join(f"{{op}} %d{i}, %s0, %s1, %s2, {16 * table + i};" for i in range(16)), lanes=128)
row("dp4a a:u32|s32 b:u32|s32", "b32=b32,b32,b32")
row("dp2a half:lo|hi a:u32|s32 b:u32|s32", "b32=b32,b32,b32")

# ---- Carry chains: the low and the high half of a long number ----

for name in ("add", "sub"):
    for t in ("u32", "s32", "b32", "u64", "s64", "b64"):
        if t[0] != "b":
            row(f"{name} cc t:{t}", f"{t},{t}={t},{t},{t},{t}",
                f"{{op}} %d0, %s0, %s2; {name}c.{t} %d1, %s1, %s3;")
            row(f"{name}c cc t:{t}", f"{t},{t},{t}={t},{t},{t},{t}",
                f"{name}.cc.{t} %d0, %s0, %s2; {{op}} %d1, %s1, %s3; {name}c.{t} %d2, 0, 0;")
for t in ("u32", "s32", "u64", "s64"):
    row(f"mad part:lo|hi cc t:{t}", f"{t},{t}={t},{t},{t}", f"{{op}} %d0, %s0, %s1, %s2; addc.{t} %d1, 0, 0;")
    row(f"madc part:lo|hi cc t:{t}", f"{t},{t}={t},{t},{t},{t}",
        f"add.cc.{t} %d1, %s2, %s3; {{op}} %d0, %s0, %s1, %s2; addc.{t} %d1, 0, 0;")
    row(f"madc part:lo|hi t:{t}", f"{t},{t}={t},{t},{t},{t}",
        f"add.cc.{t} %d1, %s2, %s3; {{op}} %d0, %s0, %s1, %s2;")

# ---- Comparison and selection ----

FLOAT_CMP = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
row(f"setp cmp:eq|ne t:{BITS}", "pred=t,t")
row(f"setp cmp:eq|ne|lt|le|gt|ge t:{INT}", "pred=t,t")
row("setp cmp:lo|ls|hi|hs t:u16|u32|u64", "pred=t,t")
row(f"setp cmp:{FLOAT_CMP} ftz? t:f32|f16", "pred=t,t")
row(f"setp cmp:{FLOAT_CMP} t:f64|bf16", "pred=t,t")
row("setp cmp:lt|ne join:and|or|xor t:s32|f32", "pred,pred=t,t,pred", "{op} %d0|%d1, %s0, %s1, %s2;")
row("setp cmp:ge join:and|or|xor t:u64|f64", "pred,pred=t,t,pred", "{op} %d0|%d1, %s0, %s1, !%s2;")
row("setp cmp:le t:u32|f32", "pred,pred=t,t", "{op} %d0|%d1, %s0, %s1;")
row(f"set cmp:eq|ne d:u32|s32|f32 t:{BITS}", "d=t,t")
row(f"set cmp:lt|ge d:u32|s32|f32 t:{INT}", "d=t,t")
row("set cmp:lo|ls|hi|hs d:u32|f32 t:u32|u64", "d=t,t")
row(f"set cmp:{FLOAT_CMP} ftz? d:u32|s32|f32 t:f32", "d=t,t")
row("set cmp:lt|geu d:u32|s32|f32 t:f64", "d=t,t")
row("set cmp:lt|geu|nan ftz? d:u16|s16|u32|s32|f16 t:f16", "d=t,t")
row("set cmp:lt|geu|nan d:u16|s16|u32|s32|bf16 t:bf16", "d=t,t")
row("set cmp:eq|ltu ftz? f16 f32", "f16=f32,f32")
row("set eq f16 t:s32|u64", "f16=t,t")
row(f"set cmp:{FLOAT_CMP} ftz? d:f16x2 t:f16x2", "d=t,t")
row(f"set cmp:{FLOAT_CMP} d:bf16x2 t:bf16x2", "d=t,t")
row("set cmp:lt|neu d:u32|s32 t:f16x2|bf16x2", "d=t,t")
row("selp t:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64", "t=t,t,pred")
row("slct d:b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64 t:s32", "d=d,d,t")
row("slct ftz? d:b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64 t:f32", "d=d,d,t",
    note="slct.ftz makes c zero, not the selected operand")

# ---- Floating-point arithmetic ----

NAN64 = dict(rule=("nan",), note="the ISA does not say which payload a NaN of f64 has")
for name in ("add", "sub", "mul"):
    row(f"{name} rnd:rn|rz|rm|rp? ftz? sat? t:f32", "t=t,t")
    row(f"{name} rn? t:f64", "t=t,t", **NAN64)
    row(f"{name} rn? ftz? sat? t:f16|f16x2", "t=t,t")
    row(f"{name} rn? t:bf16|bf16x2", "t=t,t")
row("fma rnd:rn|rz|rm|rp ftz? sat? t:f32", "t=t,t,t")
row("mad rn ftz? t:f32", "t=t,t,t")
row("fma rn t:f64", "t=t,t,t", **NAN64)
row("fma rn ftz? sat? t:f16|f16x2", "t=t,t,t")
row("fma rn ftz? relu t:f16|f16x2", "t=t,t,t")
row("fma rn relu? t:bf16|bf16x2", "t=t,t,t")
row("div rn ftz? t:f32", "t=t,t")
row("div rn t:f64", "t=t,t", **NAN64)
row("rcp rn ftz? t:f32", "t=t")
row("sqrt rn ftz? t:f32", "t=t")
row("rcp rn t:f64", "t=t", **NAN64)
row("sqrt rn t:f64", "t=t", **NAN64)
for name in ("min", "max"):
    row(f"{name} ftz? NaN? t:f32|f16|f16x2", "t=t,t")
    row(f"{name} NaN? t:bf16|bf16x2", "t=t,t")
    row(f"{name} t:f64", "t=t,t", **NAN64)
for name in ("neg", "abs"):
    row(f"{name} ftz? t:f32|f16|f16x2", "t=t", rule=("nan",),
        note="the ISA: the sign and payload of a NaN are unspecified")
    row(f"{name} t:f64|bf16|bf16x2", "t=t", rule=("nan",),
        note="the ISA: the sign and payload of a NaN are unspecified")
row("copysign t:f32|f64", "t=t,t")
row("testp kind:finite|infinite|number|notanumber|normal|subnormal t:f32|f64", "pred=t")

# ---- Approximations. The bounds are those of the PTX ISA, chapter "Floating Point Instructions" ----

row("rcp approx ftz? t:f32", "t=t", rule=("ulp", 1))
row("sqrt approx ftz? t:f32", "t=t", rule=("rel", 2.0 ** -23))
row("rsqrt approx ftz? t:f32", "t=t", rule=("rel", 2.0 ** -22.9))
row("ex2 approx ftz? t:f32", "t=t", rule=("rel", 2.0 ** -22))
row("lg2 approx ftz? t:f32", "t=t", rule=("lg2", 2.0 ** -22))
row("sin approx ftz? t:f32", "t=t", rule=("circle", 2.0 ** -20.5))
row("cos approx ftz? t:f32", "t=t", rule=("circle", 2.0 ** -20.5))
row("tanh approx t:f32", "t=t", rule=("rel", 2.0 ** -11))
row("div approx ftz? t:f32", "t=t,t", rule=("ulp", 2),
    note="2 ulp for divisors of 2^-126 to 2^126; "
         "beyond, the quotient may be 0, or NaN for infinity / infinity",
    undefined=lambda a, b: (((b & np.uint32(0x7FFFFFFF)) > np.uint32(126 + 127 << 23))
                            & ((b & np.uint32(0x7FFFFFFF)) < np.uint32(0x7F800000))))
row("div full ftz? t:f32", "t=t,t", rule=("ulp", 2))
row("rcp approx ftz t:f64", "t=t", rule=("rel", 2.0 ** -19), note="the upper half of the bits only; "
      "the ISA calls it a gross approximation and gives no bound")
row("rsqrt approx ftz? t:f64", "t=t", rule=("rel", 2.0 ** -19), note="the ISA gives no bound")
row("ex2 approx t:f16|f16x2", "t=t", rule=("rel", 2.0 ** -9.9))
row("ex2 approx ftz t:bf16|bf16x2", "t=t", rule=("rel", 2.0 ** -7))
row("tanh approx t:f16|f16x2", "t=t", rule=("abs", 2.0 ** -10.987))
row("tanh approx t:bf16|bf16x2", "t=t", rule=("abs", 2.0 ** -8))

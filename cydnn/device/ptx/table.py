"""The opcode table: a row says how an opcode is written, what types its operands have, and what it does.

    row("add t:s32|u32", "t=t,t", np.add)                       a function of arrays over all lanes
    row("dp4a a:u32|s32 b:u32|s32", "b=a,b,b", dot)             whose first parameter ``m`` gets the labelled words of the opcode
    row("setp cmp:eq|ne t:s32|u32", "pred=t,t", comparison)     with ``m`` alone: gives the function, or None where there is none
    row("ld space:global|shared t:u32|u64", "[t]=@", load)      (c, m, …): of the machine, the words, and the active lanes' arrays

Words of the opcode in order: ``a|b`` alternatives, ``?`` optional, ``name:`` a label. The signature has what is written, then what is read: a
label or a type, ``2t`` (twice as wide), ``ut`` ``wt`` (unsigned, bits), ``[t]`` (registers in braces or one), ``{t}`` (in braces, together as wide
as t), ``a|b`` (a pair), ``@`` (an address), ``box`` (a tensor map and coordinates), ``#`` (an integer), ``members`` (the lanes that take part),
``cc`` (the carry), ``*`` (whatever the register is), ``+`` (what is written, read too); ``?`` may be missing. No signature: nothing is done.
"""
from __future__ import annotations

import functools
import inspect
import re
from typing import Any, NamedTuple

import numpy as np

from .parse import BYTES

INT, BITS = "s16|u16|s32|u32|s64|u64", "b16|b32|b64"
ANY = f"{BITS}|{INT}|f32|f64"
PACKED = {"f16x2": "f16x2", "bf16x2": "u16x2", "bf16": "u16", "s16x2": "u16x2", "tf32": "u32", "pred": "bool"}
DTYPE = {f"{letter}{bits}": np.dtype(f"{letter}{bits // 8}") for letter in "uif" for bits in (8, 16, 32, 64) if letter + str(bits) != "f8"}
DTYPE |= {"bool": np.dtype(bool), "f16x2": np.dtype("f2"), "u16x2": np.dtype("u2")}
TABLE: dict[str, list] = {}


def kind_of(type_: str) -> str:
    """The array kind of a PTX type: s32 -> i32, b16 -> u16, bf16x2 -> u16x2."""
    return PACKED.get(type_) or {"b": "u", "s": "i"}.get(type_[0], type_[0]) + type_[1:]


class Row(NamedTuple):
    """One form of an opcode. ``words``: (label, choices, optional); ``how``: act, make, given or plain."""
    words: list
    outs: list
    ins: list
    function: Any
    how: str
    pattern: str


def row(pattern: str, signature: str = "", function=None):
    """Enter one row. See the module's head."""
    name, *words = pattern.split()
    parsed = [(label or body.rstrip("?") * ("|" not in body), body.rstrip("?").split("|"), body.endswith("?"))
              for label, body in (re.fullmatch(r"(?:(\w+):(?!:))?(.*)", word).groups() for word in words)]
    outs, ins = ([word for word in part.split(mark) if word] for part, mark in zip(signature.split("=") if signature else ("", ""), "|,"))
    code = getattr(function, "__code__", None)
    first = code.co_varnames[:code.co_argcount] if code else ()
    how = "act" if first[:1] == ("c",) else "plain" if first[:1] != ("m",) else "given" if first[1:] or code.co_flags & inspect.CO_VARARGS else "make"
    for each in name.split("|"):
        TABLE.setdefault(each, []).append(Row(parsed, outs, ins, function, how, pattern))


def forms(opcode: str):
    """The rows that an opcode may be, each with the words it labels (``name``: the first)."""
    name, *words = opcode.split(".")
    for each in TABLE.get(name, ()):
        found, at = {"name": name, **{label: "v1" for label, _, _ in each.words if label == "vec"}}, 0
        for label, choices, optional in each.words:
            if at < len(words) and words[at] in choices:
                found[label] = words[at]
                at += 1
            elif not optional:
                break
        else:
            if at == len(words):
                for label, type_ in [pair for pair in found.items() if pair[1] in BYTES]:
                    bits = 8 * BYTES[type_]
                    found |= {f"2{label}": f"{type_[0]}{2 * bits}", f"u{label}": f"u{bits}", f"w{label}": f"b{bits}"}
                yield each, found


@functools.cache
def match(opcode: str, shapes: tuple) -> tuple:
    """What an instruction may be: [(row, labelled words, types of what is written and read, which operands are missing)], and why it is nothing else.
    ``shapes`` of its operands: (vec or pair or nothing, how many registers)."""
    fits, why = [], None
    for each, found in forms(opcode):
        outs, ins = ([re.sub(r"\w+", lambda word: found.get(word[0], word[0]), word, count=1) for word in part] for part in (each.outs, each.ins))
        given, written = shapes[bool(outs):], [("", 1)] * shapes[0][1] if outs and shapes and shapes[0][0] == "pair" else list(shapes[:bool(outs)])
        if ins[:1] == ["+"]:
            given, ins = (*shapes[:1], *given), outs + ins[1:]
        most = [sum(word != "cc" for word in words) for words in (outs, ins)]
        least = most[1] - sum(word.endswith("?") for word in ins)
        if each.function and not (least <= len(given) <= most[1] and bool(outs) <= len(written) <= most[0]):
            why = f"it must have {bool(outs) + least} operands"
        elif each.function and any(word[0] not in "[{" if kind == "vec" else word[0] == "{"
                                   for (kind, _), word in zip((*written, *given), outs[:len(written)] + ins)):
            why = "registers in braces stand where they may not, or do not where they must"
        else:
            optional = [n for n, word in enumerate(ins) if word.endswith("?")]           # of those the last are missing
            fits.append((each, found, outs, ins, optional[len(given) - least:]))
    return fits, why

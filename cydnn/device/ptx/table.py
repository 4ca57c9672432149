"""The opcode table: a row says how an opcode is written, what types its operands have, and what it does.

    row("add t:s32|u32", "t=t,t", np.add)                       a function of arrays over all lanes
    row("dp4a a:u32|s32 b:u32|s32", "b=a,b,b", dot)             whose first parameter ``m`` gets
                                                                the labelled words of the opcode
    row("setp cmp:eq|ne t:s32|u32", "pred=t,t", comparison)     with ``m`` alone: gives the function,
                                                                or None where there is none
    row("ld space:global|shared t:u32|u64", "[t]=@", load)      (c, m, …): of the machine, the words,
                                                                and the active lanes' arrays

Words of the opcode in order: ``a|b`` alternatives, ``?`` optional, ``name:`` a label. The signature has what
is written, then what is read: a label or a type, ``2t`` (twice as wide), ``ut`` ``wt`` (unsigned, bits),
``[t]`` (registers in braces or one), ``{t}`` (in braces, together as wide as t), ``a|b`` (a pair),
``@`` (an address), ``box`` (a tensor map and coordinates), ``#`` (an integer), ``members`` (the lanes
that take part), ``cc`` (the carry), ``*`` (whatever the register is), ``+`` (what is written, read too);
``?`` may be missing. No signature: nothing is done.
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
DTYPE = {f"{letter}{bits}": np.dtype(f"{letter}{bits // 8}") for letter in "uif"
         for bits in (8, 16, 32, 64) if letter + str(bits) != "f8"}
DTYPE |= {"bool": np.dtype(bool), "f16x2": np.dtype("f2"), "u16x2": np.dtype("u2")}
TABLE: dict[str, list] = {}


@functools.cache
def kind_of(type_: str) -> str:
    """The array kind of a PTX type: s32 -> i32, b16 -> u16, bf16x2 -> u16x2."""
    return PACKED.get(type_) or {"b": "u", "s": "i"}.get(type_[0], type_[0]) + type_[1:]


class OpcodeRow(NamedTuple):
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
    outs, ins = ([word for word in part.split(mark) if word]
                 for part, mark in zip(signature.split("=") if signature else ("", ""), "|,"))
    code = getattr(function, "__code__", None)
    first = code.co_varnames[:code.co_argcount] if code else ()
    how = ("act" if first[:1] == ("c",) else "plain" if first[:1] != ("m",)
           else "given" if first[1:] or code.co_flags & inspect.CO_VARARGS else "make")
    for each in name.split("|"):
        TABLE.setdefault(each, []).append(OpcodeRow(parsed, outs, ins, function, how, pattern))


@functools.cache
def match(opcode: str, written: int, braces: tuple) -> tuple:
    """What an instruction may be: [(row, labelled words, what is written, what is read)],
    both as (number of an operand, type); -1: a missing one, -2: the carry. And why it is nothing else.
    ``written``: how many operands, where any are; ``braces``: is each of the operands in braces?"""
    (name, *words), fits, why = opcode.split("."), [], None
    for each in TABLE.get(name, ()):
        found, left = {"name": name,
                       **{label: "v1" for label, _, _ in each.words if label == "vec"}}, words[:]
        for label, choices, optional in each.words:
            if left and left[0] in choices:
                found[label] = left.pop(0)
            elif not optional:
                left = [label]
                break
        if left:
            continue
        types = {**found, "cc": "pred"}
        for label, bits in [(label, 8 * BYTES[type_]) for label, type_ in found.items() if type_ in BYTES]:
            types |= {f"2{label}": f"{found[label][0]}{2 * bits}",
                      f"u{label}": f"u{bits}", f"w{label}": f"b{bits}"}
        outs, ins = ([re.sub(r"\w+", lambda word: types.get(word[0], word[0]), word, count=1)
                      for word in part] for part in (each.outs, each.ins))
        count, places = written if outs else 0, list(range(len(braces)))
        to, given = places[:count] + [-2] * ("cc" in each.outs), places[count:] + [-2] * ("cc" in each.ins)
        if ins[:1] == ["+"]:
            given, ins = to + given, outs + ins[1:]
        optional = [n for n, word in enumerate(ins) if word[-1] == "?"]     # of those the last are missing
        least = len(ins) - len(optional)
        if each.function and not (least <= len(given) <= len(ins) and bool(outs) <= len(to) <= len(outs)):
            why = f"it must have {bool(outs) + least - ('cc' in each.ins)} operands"
            continue
        for n in optional[len(given) - least:]:
            given.insert(n, -1)
        out, read = list(zip(to, outs)), list(zip(given, ins))
        if any(word[0] not in "[{" if braces[place] else word[0] == "{"
               for place, word in out + read if place >= 0):
            why = "registers in braces stand where they may not, or do not where they must"
        else:
            fits.append((each, found, out, read))
    return fits, why

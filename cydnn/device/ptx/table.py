"""The opcode table's machinery: a row says how an opcode is written, what types its operands have, and what it does.

    row("add t:s32|u32", "t=t,t", np.add)                   a function of arrays over all lanes
    given("dp4a a:u32|s32 b:u32|s32", "b=a,b,b", dot)       one that gets m, the labelled words of the opcode, before the arrays
    make("setp cmp:eq|ne t:s32|u32", "pred=t,t", compare)   ``compare(m)`` gives the function
    act("ld space:global|shared t:u32|u64", "[t]=@", load)  a function (c, m, …) of the machine and of the active lanes' arrays

Words of the opcode in order: ``a|b`` alternatives, ``?`` optional, ``name:`` a label. The signature has what is written, then what is read: a
label or a type, ``2t`` (twice as wide), ``ut`` ``wt`` (unsigned, bits), ``[t]`` (registers in braces), ``a|b`` (a pair), ``@`` (an address), ``box``
(a tensor map and coordinates), ``#`` (an integer), ``members`` (the lanes that take part), ``cc`` (the carry), ``*`` (whatever the register is),
``+`` (what is written, read too); ``?`` may be missing. A row without signature builds its own step, or gives None.
"""
from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import numpy as np

from .parse import BYTES, PtxError

INT, BITS = "s16|u16|s32|u32|s64|u64", "b16|b32|b64"
ANY = f"{BITS}|{INT}|f32|f64"
PACKED = {"f16x2": "f16x2", "bf16x2": "u16x2", "bf16": "u16", "s16x2": "u16x2", "tf32": "u32", "pred": "bool"}
DTYPE = {f"{letter}{bits}": np.dtype(f"{letter}{bits // 8}") for letter in "uif" for bits in (8, 16, 32, 64) if letter + str(bits) != "f8"}
DTYPE |= {"bool": np.dtype(bool), "f16x2": np.dtype("f2"), "u16x2": np.dtype("u2"), "i16x2": np.dtype("i2")}
TABLE: dict[str, list] = {}


def kind_of(type_: str) -> str:
    """The array kind of a PTX type: s32 -> i32, b16 -> u16, bf16x2 -> u16x2."""
    return PACKED.get(type_) or {"b": "u", "s": "i"}.get(type_[0], type_[0]) + type_[1:]


class Row(NamedTuple):
    """One form of an opcode."""
    words: list
    signature: str | None
    function: Any
    how: str
    pattern: str


def row(pattern: str, signature: str | None, function, how=None):
    """Enter one row. See the module's head."""
    name, *words = pattern.split()
    parsed = []
    for word in words:
        label, body = re.fullmatch(r"(?:(\w+):(?!:))?(.*)", word).groups()
        choices = body.rstrip("?").split("|")
        parsed.append((label or (choices[0] if len(choices) == 1 else ""), choices, body.endswith("?")))
    for each in name.split("|"):
        TABLE.setdefault(each, []).append(Row(parsed, signature, function, how or ("plain" if signature else "build"), pattern))


act, make, given = (functools.partial(row, how=how) for how in ("act", "make", "given"))


@functools.cache
def forms(opcode: str) -> list:
    """The rows that an opcode may be, each with the words it labels (``name``: the first)."""
    name, *words = opcode.split(".")
    fits = []
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
                fits.append((each, found))
    return fits


class Op:
    """What a row sees of the instruction it builds a step for."""

    def __init__(self, code, instruction):
        self.code, self.program, self.i, self.operands = code, code.program, instruction, instruction.operands

    def fail(self, what: str):
        raise PtxError(f"{self.program.file}:{self.code.line(self.i)}: {what}; got `{self.i.text}`")

    def width(self, operand) -> int:
        return self.program.registers[operand.value][1]

    def source(self, operand, type_: str) -> int:
        """The slot of an operand read as ``type_``: a register, a number, an address."""
        kind = kind_of(type_)
        if operand.kind == "reg":
            if self.width(operand) < BYTES[type_]:
                self.fail(f"{self.program.registers[operand.value][0]} must have {BYTES[type_]} bytes")
            return self.code.slot(operand.value, kind)
        return self.code.slot(None, self._number(operand, type_, DTYPE[kind], "x" in kind))

    def _number(self, operand, type_, dtype, packed):
        if operand.kind == "int" and dtype.kind in "fb" and not packed:
            return dtype.type(operand.value)
        if operand.kind == "int":
            bits = np.frombuffer((operand.value & (1 << 8 * BYTES[type_]) - 1).to_bytes(BYTES[type_], "little"), dtype)
            return bits if packed else bits[0]
        if operand.kind == "float":
            value = np.array([operand.value], f"u{operand.more}").view(f"f{operand.more}")
            return (value.astype(dtype) if dtype.kind == "f" and not packed else value.view(dtype))[0]
        if operand.kind in ("symbol", "param"):
            return dtype.type(self.code.address_of(operand))
        self.fail(f"a {type_} operand expected, not a {operand.kind}")

    def target(self, operand, type_: str) -> int:
        """The slot that a result of ``type_`` is written to; wider registers get it extended."""
        if operand.kind == "sink":
            return self.code.slot(self.code.hidden(f"_{type_}", BYTES[type_]), kind_of(type_))
        if operand.kind != "reg":
            self.fail("the destination must be a register")
        size, kind = self.width(operand), kind_of(type_)
        if size < BYTES[type_]:
            self.fail(f"{self.program.registers[operand.value][0]} is narrower than {type_}")
        if size > BYTES[type_] and kind[0] == "f":
            self.fail(f"{self.program.registers[operand.value][0]} is wider than {type_}")
        return self.code.slot(operand.value, kind if size == BYTES[type_] or kind == "bool" else kind[0] + str(8 * size))

    # ---- Operands of an act, fetched by (V, c) ----

    def fetch(self, operand, word: str):
        """A function of (V, c) that gives an operand's value in the active lanes; None for one that is missing."""
        if operand is None:
            return lambda V, c: None
        word = word.rstrip("?")
        if word == "@":
            return self.address(operand)
        if word == "#":
            return (lambda V, c: operand.value) if operand.kind == "int" else self.fail("an integer expected")
        if word == "box":
            coordinates, at = [self.fetch(part, "s32") for part in operand.rest[0].value], self.address(operand)
            return lambda V, c: (at(V, c), [part(V, c) for part in coordinates])
        if word[0] == "[":
            parts = [self.fetch(part, word[1:-1]) for part in operand.parts]
            return lambda V, c: [part(V, c) for part in parts]
        if word == "members":
            self.code.members[self.code.at] = self.source(operand, "u32")
        if word == "*":
            word = f"b{8 * self.width(operand)}" if operand.kind == "reg" else "b32"
        if operand.kind == "not":
            slot = self.code.slot(operand.value, "bool")
            return lambda V, c: ~c.active(V[slot])
        slot = self.source(operand, {"members": "u32", "cc": "pred"}.get(word, word))
        return lambda V, c: c.active(V[slot])

    def address(self, operand):
        """The active lanes' addresses, as int64."""
        if operand.kind != "mem":
            self.fail("a memory operand [register+offset] expected")
        base = operand.value
        if base.kind == "reg":
            slot, offset = self.source(base, "s64" if self.width(base) == 8 else "u32"), base.more

            def compute(V, c):
                at = V[slot] if c.mask is None else V[slot][c.lanes()]
                return at + offset if at.dtype == np.int64 else at.astype(np.int64) + offset
            return compute
        fixed = base.value if base.kind == "int" else self.code.address_of(base)
        return lambda V, c: np.full(c.n, fixed, np.int64)


def elementwise(function, target: int, sources: list[int], packed: bool):
    """A step that writes ``function(*sources)`` to the active lanes of ``target``."""
    if isinstance(function, np.ufunc) and not packed and len(sources) == 2:
        a, b = sources

        def step(V, c):
            function(V[a], V[b], out=V[target], where=c.where)
    elif packed:
        def step(V, c):
            np.copyto(V[target], function(*[V[s] for s in sources]), where=c.where if c.where is True else c.where[:, None], casting="unsafe")
    else:
        def step(V, c):
            np.copyto(V[target], function(*[V[s] for s in sources]), where=c.where, casting="unsafe")
    return step


def acting(op: Op, found: dict, function, outs: list, ins: list):
    """A step that gives ``function`` the operands ``ins`` of the active lanes and writes what it returns; ``outs`` and ``ins``: (operand, type)."""
    gets = [op.fetch(*each) for each in ins]
    for operand, word in (*outs, *ins):
        if "vec" in found and word[0] == "[" and word[-1] == "]" and len(operand.parts) != int(found["vec"][1:]):
            op.fail(f"a vector of {found['vec'][1:]} expected")
    pairs = [(part, word.strip("[]?").replace("cc", "pred")) for o, word in outs for part in o.parts]
    targets = [None if operand.kind == "sink" else op.target(operand, word) for operand, word in pairs]
    op.code.targets[op.code.at] = targets

    def step(V, c):
        results = function(c, found, *[get(V, c) for get in gets])
        if results is not None:
            for target, value in zip(targets, results):
                if target is not None:
                    c.put(target, value)
    return step


MADE = {"plain": lambda function, found: function, "make": lambda function, found: function(found), "given": functools.partial}


def build(op: Op):
    """The step of an instruction. Raises PtxError for an opcode or modifier that no row has."""
    why = None
    for each, found in forms(op.i.opcode):
        if each.how == "build":
            step = each.function(op, found)
            if step:
                return step
            continue
        out, _, given = each.signature.partition("=")
        outs, ins = ([_type(word, found) for word in part.split(mark) if word] for part, mark in ((out, "|"), (given, ",")))
        first, read = op.operands[:bool(outs)], op.operands[bool(outs):] + [op.code.carry] * (ins[-1:] == ["cc"])
        written = (first[0].parts if first and first[0].kind == "pair" else first) + [op.code.carry] * (outs[-1:] == ["cc"])
        if ins[:1] == ["+"]:
            read, ins = first + read, outs + ins[1:]
        least = sum(not word.endswith("?") for word in ins)
        if not least <= len(read) <= len(ins) or not bool(outs) <= len(written) <= len(outs):
            why = f"it must have {bool(outs) + least - (ins[-1:] == ['cc'])} operands"
        elif each.how == "act":
            optional = [n for n, word in enumerate(ins) if word.endswith("?")]
            for n in optional[len(read) - least:]:           # the last of those that may be missing are
                read.insert(n, None)
            return acting(op, found, each.function, list(zip(written, outs)), list(zip(read, ins)))
        else:
            function = MADE[each.how](each.function, found)
            if function is None:
                continue
            sources = [op.source(*pair) for pair in zip(read, ins)]
            return elementwise(function, op.target(written[0], outs[0]), sources, "x" in outs[0])
    known = "; ".join(each.pattern for each in TABLE.get(op.i.words[0], ())) or "no row of that name"
    op.fail(why or f"unknown opcode or modifier {op.i.opcode} (the table has: {known})")


def _type(word: str, found: dict) -> str:
    """A word of a signature with its label filled in."""
    name = word.strip("[]?")
    return word.replace(name, found.get(name, name)) if name else word

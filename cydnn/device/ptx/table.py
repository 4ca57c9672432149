"""The opcode table's machinery: a row says how an opcode is written, what types its operands have, and what it does to arrays.

``row("add sat? t:s32|u32", "t=t,t", np.add)``: words of the opcode in order; ``a|b`` alternatives, ``?`` optional, ``name:`` a label.
The signature names the type of destination and sources: a label, ``2t`` (twice as wide), or a type. The last part is a function on
arrays, or (``make=True``) a function of the matched words that gives one. A row without signature builds its own step.
"""
from __future__ import annotations

import re

import numpy as np

from .parse import BYTES, PtxError
from .program import Instruction, Operand, Program

INT16, INT = "s16|u16", "s16|u16|s32|u32|s64|u64"
BITS = "b16|b32|b64"
ANY = "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"
KIND = {"b": "u", "u": "u", "s": "i", "f": "f"}
PACKED = {"f16x2": "f16x2", "bf16x2": "u16x2", "bf16": "u16", "s16x2": "u16x2", "tf32": "u32", "pred": "bool", "b128": "u64"}
DTYPE = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "u32": np.uint32, "i32": np.int32, "u64": np.uint64,
         "i64": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_, "f16x2": np.float16,
         "u16x2": np.uint16, "u8x4": np.uint8, "i8x4": np.int8, "u16x2i": np.uint16}
TABLE: dict[str, list] = {}


def kind_of(type_: str) -> str:
    """The array kind of a PTX type: s32 -> i32, b16 -> u16, bf16x2 -> u16x2."""
    return PACKED.get(type_) or (KIND[type_[0]] + type_[1:] if type_ in BYTES else type_)


def row(pattern: str, signature: str | None, function, make=False):
    """Enter one row. See the module's head."""
    name, *words = pattern.split()
    parsed = []
    for word in words:
        label, body = re.fullmatch(r"(?:(\w+):(?!:))?(.*)", word).groups()
        optional = body.endswith("?")
        choices = body.rstrip("?").split("|")
        parsed.append((label or (choices[0] if len(choices) == 1 else ""), choices, optional))
    TABLE.setdefault(name, []).append((parsed, signature, function, make, pattern))


def match(words, parsed) -> dict | None:
    """The labelled words of an opcode when it has the form of a row."""
    found, at = {}, 0
    for label, choices, optional in parsed:
        if at < len(words) and words[at] in choices:
            if label:
                found[label] = words[at]
            at += 1
        elif not optional:
            return None
    return found if at == len(words) else None


class Op:
    """What a row sees of the instruction it builds a step for."""

    def __init__(self, program: Program, instruction: Instruction, decoder):
        self.program, self.i, self.decoder, self.operands = program, instruction, decoder, instruction.operands

    def fail(self, what: str):
        raise PtxError(f"{self.program.file}:{self.decoder.line(self.i)}: {what}; got `{self.i.text}`")

    def width(self, operand: Operand) -> int:
        return self.program.registers[operand.value][1]

    def source(self, operand: Operand, type_: str) -> int:
        """The slot of an operand read as ``type_``: a register, a number, an address."""
        kind = kind_of(type_)
        if operand.kind == "reg":
            size = self.width(operand)
            if size < BYTES.get(type_, size):
                self.fail(f"{self.program.registers[operand.value][0]} must have {BYTES[type_]} bytes")
            return self.decoder.slot(operand.value, kind)
        if operand.kind == "not":
            self.fail("a negated predicate has no place here")
        return self.decoder.constant(self._number(operand, type_, kind))

    def _number(self, operand, type_, kind):
        if operand.kind == "int":
            if kind[0] == "f":
                return DTYPE[kind](operand.value)
            if kind == "bool":
                return np.bool_(operand.value)
            size = BYTES[type_]
            bits = np.frombuffer((operand.value & ((1 << 8 * size) - 1)).to_bytes(size, "little"), DTYPE[kind])
            return bits if "x" in kind else bits[0]
        if operand.kind == "float":
            value = np.array([operand.value], "u%d" % operand.more).view("f%d" % operand.more)
            if kind[0] == "f" and "x" not in kind:
                return value.astype(DTYPE[kind])[0]
            return value.view(DTYPE[kind])[0]
        if operand.kind in ("symbol", "param"):
            return DTYPE[kind](self.decoder.address_of(self.program, operand))
        self.fail(f"a {type_} operand expected, not a {operand.kind}")

    def target(self, operand: Operand, type_: str) -> int:
        """The slot that a result of ``type_`` is written to; wider registers get it extended."""
        if operand.kind == "sink":
            return self.decoder.slot(self.decoder.sink(self.program, BYTES[type_]), kind_of(type_))
        if operand.kind != "reg":
            self.fail("the destination must be a register")
        size, kind = self.width(operand), kind_of(type_)
        if size > BYTES.get(type_, size) and type_ != "pred":
            kind = ("i" if kind[0] == "i" else "u") + str(8 * size)
        elif size < BYTES.get(type_, size):
            self.fail(f"{self.program.registers[operand.value][0]} is narrower than {type_}")
        return self.decoder.slot(operand.value, kind)

    def vector(self, operand: Operand) -> list[Operand]:
        return operand.value if operand.kind == "vec" else [operand]

    def need(self, count: int, most: int | None = None):
        if not count <= len(self.operands) <= (most or count):
            self.fail(f"it must have {count} operands")


def apply(function, target: int, sources: list[int], packed: bool):
    """A step that writes ``function(*sources)`` to the active lanes of ``target``."""
    if isinstance(function, np.ufunc) and not packed and len(sources) == 2:
        a, b = sources

        def step(V, c):
            function(V[a], V[b], out=V[target], where=c.where)
    elif isinstance(function, np.ufunc) and not packed:
        a, = sources

        def step(V, c):
            function(V[a], out=V[target], where=c.where)
    elif packed:
        def step(V, c):
            where = c.where if c.where is True else c.where[:, None]
            np.copyto(V[target], function(*[V[s] for s in sources]), where=where, casting="unsafe")
    elif len(sources) == 3:
        x, y, z = sources

        def step(V, c):
            np.copyto(V[target], function(V[x], V[y], V[z]), where=c.where, casting="unsafe")
    else:
        def step(V, c):
            np.copyto(V[target], function(*[V[s] for s in sources]), where=c.where, casting="unsafe")
    return step


def build(op: Op):
    """The step of an instruction. Raises PtxError for an opcode or modifier that no row has."""
    name, *words = op.i.words
    for parsed, signature, function, make, _ in TABLE.get(name, ()):
        found = match(words, parsed)
        if found is None:
            continue
        if signature is None:
            return function(op, found)
        out, _, ins = signature.partition("=")
        types = [_type(s, found) for s in (out, *ins.split(","))]
        op.need(len(types))
        if make:
            function = function(found)
        sources = [op.source(o, t) for o, t in zip(op.operands[1:], types[1:])]
        return apply(function, op.target(op.operands[0], types[0]), sources, "x" in types[0])
    forms = "; ".join(r[4] for r in TABLE.get(name, ())) or "no row of that name"
    op.fail(f"unknown opcode or modifier {op.i.opcode} (the table has: {forms})")


def _type(word: str, found: dict) -> str:
    if word.startswith("2"):
        base = found[word[1:]]
        return base[0] + str(2 * int(base[1:]))
    return found.get(word, word)

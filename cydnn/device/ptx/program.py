"""From a kernel's text to a flat program: names resolved, calls inlined, scopes gone, every instruction with its place in the file."""
from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .parse import BYTES, NAME, Module, PtxError

SPECIAL_BYTES = {"%clock64": 8, "%globaltimer": 8}           # special registers that are not 32 bits wide
CLOCKS = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
SPECIAL = re.compile(r"%(n?tid|n?ctaid|cluster_n?ctaid|n?clusterid)\.[xyz]|%(laneid|n?warpid|n?smid|cluster_n?ctarank|is_explicit_cluster|"
                     r"lanemask_(eq|lt|le|gt|ge)|clock(64|_hi)?|globaltimer(_lo|_hi)?|dynamic_smem_size|total_smem_size|gridid)|WARP_SZ")
NUMBER = r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|-?0[xX][0-9a-fA-F]+U?|-?\d+U?"
STATEMENT = re.compile(rf"""\s*(?:(?P<brace>[{{}}]) | (?P<label>{NAME})\s*:(?!:) | \.loc\s+(?P<loc>\d+\s+\d+)[^\n]* | ;
    | \.(?P<directive>\w+)\s*(?P<rest>[^;]*); | (?P<guard>@\s*!?\s*{NAME})?\s*(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>[^;]*);)""", re.X)
LEAF = re.compile(rf"\s*(?:(?P<number>{NUMBER})|(?P<negate>!)?\s*(?P<name>{NAME})\s*(?:(?P<offset>[+-]\s*(?:{NUMBER})))?)\s*")
CALL = re.compile(rf"(?:\(([^)]*)\)\s*,\s*)?({NAME})\s*(?:,\s*\(([^)]*)\)\s*)?(?:,\s*{NAME}\s*)?")
COMMA = re.compile(r",(?![^\[]*\])(?![^{]*\})")              # outside of brackets and braces
CLOSING = {"[": "]", "{": "}"}


class Operand(NamedTuple):
    """``kind``: reg, int, float (bits), symbol, param (offset), storage (of a call), mem (base), vec and pair (operands), not, sink, label.
    ``more``: offset of a reg, symbol or param that is an address; bytes of a float; scopes of a label. ``rest``: what else a mem names."""
    kind: str
    value: Any = None
    more: Any = 0
    rest: tuple = ()

    @property
    def parts(self) -> list:
        """What stands in braces or on both sides of a bar; else the operand itself."""
        return self.value if self.kind in ("vec", "pair") else [self]


@dataclass(slots=True)
class Instruction:
    """One instruction: opcode words, operands, guard register or None. ``at``: its offset in the file; ``source``: what .loc said last."""
    words: list
    operands: list
    guard: int | None
    negate: bool
    at: int
    text: str
    source: tuple | None = None

    @property
    def opcode(self) -> str:
        return ".".join(self.words)


class Program:
    """One kernel: instructions, register widths, where its variables lie."""

    def __init__(self, module: Module, name: str):
        if name not in module.entries:
            raise PtxError(f"{module.file}: expected an entry {name}; there is {', '.join(module.entries) or 'none'}")
        self.name, self.file, self.m = name, module.file, module
        self.code: list[Instruction] = []
        self.registers: list[tuple[str, int]] = []           # (name, bytes)
        self.specials: dict[str, int] = {}                   # name -> register
        self.labels: dict[tuple, int] = {}                   # (scope, name) -> instruction
        self.variables: dict[str, tuple] = {}                # unique name -> (space, offset)
        self.bytes = {"shared": 0, "local": 0, "param": 0}
        self.hidden: dict[str, int] = {}                     # registers that the text does not have
        self.slots: dict = {}                                # .param space of calls: storage -> {offset: register}
        self.calls, self.scopes, self.loc = [], 0, None
        entry = module.entries[name]
        self.limits, scope = entry.limits, {p: Operand("param", self.place(p, "param", size, align)) for p, align, size in entry.params}
        shared = {v: row for v, row in module.variables.items() if row[0] == "shared"}
        for variable, (space, align, size, _, _) in shared.items():
            self.place(variable, "shared", size, align) if size else None
        self.body(entry.start, [self.scope({**scope, **{v: Operand("symbol", v) for v in shared}})], None)
        for variable, (space, align, size, _, _) in shared.items():      # extern arrays lie behind everything static
            self.place(variable, "shared", 0, max(align, 16)) if not size else None
        for i in self.code:
            i.operands = [self._target(o, i) for o in i.operands]

    def register(self, name: str, size: int) -> int:
        self.registers.append((name, size))
        return len(self.registers) - 1

    def place(self, name: str, space: str, size: int, align: int) -> int:
        at = -(-self.bytes[space] // align) * align
        self.variables[name], self.bytes[space] = (space, at), at + size
        return at

    def scope(self, names: dict) -> dict:
        """A block of the text: what its names mean, ``{``: its number, ``}``: operands already read."""
        self.scopes += 1
        return {**names, "{": self.scopes, "}": {}}

    def _target(self, operand, i) -> Operand:
        """A label with the instruction it stands for."""
        if operand.kind == "vec" and i.words[0] == "brx":
            return operand._replace(value=[self._target(o, i) for o in operand.value])
        if operand.kind != "label":
            return operand
        found = next((at for scope in operand.more if (at := self.labels.get((scope, operand.value))) is not None), None)
        return Operand("label", found) if found is not None else self.m.fail("a declared name or label", i.at, operand.value)

    # ---- Statements ----

    def body(self, at: int, scopes: list, end: int | None):
        """One function body from ``at`` on; ``end``: the scope whose end a ``ret`` goes to, of an inlined call."""
        outside, tables, label = len(scopes), {}, ""
        while len(scopes) >= outside:
            found = STATEMENT.match(self.m.plain, at)
            if not found:
                self.m.fail("an instruction", at)
            at, kind = found.end(), found.lastgroup
            if kind == "operands":
                self._instruction(found, scopes, end, tables)
            elif kind == "label":
                label = found["label"]
                self.labels[scopes[-1]["{"], label] = len(self.code)
            elif kind == "brace":
                scopes.append(self.scope({})) if found["brace"] == "{" else scopes.pop()
            elif kind == "loc":
                self.loc = tuple(map(int, found["loc"].split()))
            elif found["directive"] == "branchtargets":
                tables[label] = [t.strip() for t in found["rest"].split(",")]
            elif found["directive"] in ("reg", "param", "local", "shared"):
                self._declare(found, scopes[-1])
            elif found["directive"] not in (None, "pragma", "callprototype"):
                self.m.fail("a directive such as .reg or .shared", found.start("directive") - 1)

    def _declare(self, found, scope):
        space, text = found["directive"], found["rest"]
        scope["}"].clear()                                   # names may mean something else from here on
        if space != "reg":
            name, align, size, _ = self.m.declaration(text, found.start("rest"))
            unique = f"{name}#{scope['{']}"
            if space == "param":
                scope[name], self.slots[unique] = Operand("storage", unique), {}
            else:
                self.place(unique, space, size, align)
                scope[name] = Operand("symbol", unique)
            return
        type_, names = re.fullmatch(r"\.(\w+)\s+(.*)", text, re.S).groups()
        if type_ not in BYTES:
            self.m.fail("a type", found.start("rest"))
        for name, count in re.findall(rf"({NAME})\s*(?:<\s*(\d+)\s*>)?", names):
            for each in [f"{name}{i}" for i in range(int(count))] if count else [name]:
                scope[each] = (each, BYTES[type_])           # becomes a register when it is first used

    def _instruction(self, found, scopes, end, tables):
        guard, at = found["guard"], found.start("guard") if found["guard"] else found.start("opcode")
        words, given = found["opcode"].split("."), found["operands"]
        register = None if guard is None else self._name(guard.strip("@! \t\n"), scopes, at).value
        if words[0] == "call":
            return self._call(given, scopes, register, at)
        operands = [self._operand(piece, scopes, at) for piece in _pieces(given)]
        if words[0] == "ret" and end:
            words, operands = ["bra"], [Operand("label", "}", (end,))]
        if words[0] == "brx":
            operands[1] = Operand("vec", [Operand("label", t, _chain(scopes)) for t in tables[operands[1].value]])
        said = " ".join(self.m.text[at:found.end() - 1].split())
        i = Instruction(words, operands, register, guard is not None and "!" in guard, at, said, self.loc)
        if any(o.kind == "reg" and self.registers[o.value][0] in CLOCKS for o in operands):
            i.words, i.operands = ["mov", "clock", words[-1]], operands[:1]
        memory = operands[words[0] == "ld"] if words[0] in ("ld", "st") and len(operands) > 1 else None
        if memory and memory.kind == "mem" and memory.value.kind == "storage":
            return self._moves(i, memory, operands[words[0] != "ld"])
        self.code.append(i)

    def _moves(self, i, memory, other):
        """A load or store of a call's parameter: moves between registers."""
        size, slots = BYTES[i.words[-1]], self.slots[memory.value.value]
        for number, part in enumerate(other.parts):
            at = memory.value.more + number * size
            if at not in slots:
                slots[at] = self.register(f"{memory.value.value}+{at}", size)
            pair = [part, Operand("reg", slots[at])]
            self.code.append(replace(i, words=["mov", f"b{8 * size}"], operands=pair if i.words[0] == "ld" else pair[::-1]))

    def _call(self, text, scopes, guard, at):
        """``call.uni (r), f, (a, b);`` becomes the body of f, with its parameters bound to the caller's storage."""
        results, name, given = (CALL.fullmatch(text) or self.m.fail("(results), function, (arguments)", at)).groups()
        function = self.m.functions.get(name)
        if function is None:
            self.m.fail(f"a function of this file ({', '.join(self.m.functions) or 'none'})", at, name)
        if guard is not None or name in self.calls:
            self.m.fail("a call without guard that is not recursive", at, name)
        bound = [self._name(word.strip(), scopes, at) for part in (given, results) if part for word in part.split(",")]
        if any(operand.kind != "storage" for operand in bound):
            self.m.fail("arguments in .param space", at, name)
        inner = self.scope({p[0]: operand for p, operand in zip(function.params + function.returns, bound)})
        self.calls.append(name)
        self.body(function.start, [inner], inner["{"])
        self.calls.pop()
        self.labels[inner["{"], "}"] = len(self.code)

    # ---- Operands ----

    def _name(self, text, scopes, at) -> Operand:
        for scope in reversed(scopes):
            found = scope.get(text)
            if found is not None:
                if type(found) is tuple:
                    found = scope[text] = Operand("reg", self.register(*found))
                return found
        if SPECIAL.fullmatch(text):
            if text not in self.specials:
                self.specials[text] = self.register(text, SPECIAL_BYTES.get(text, 4))
            return Operand("reg", self.specials[text])
        if text == "_" or text in self.m.variables:
            return Operand("sink") if text == "_" else Operand("symbol", text)
        return Operand("label", text, _chain(scopes)) if text[0] != "%" else self.m.fail("a declared register", at, text)

    def _operand(self, text, scopes, at) -> Operand:
        known = scopes[-1]["}"]
        if text not in known:
            known[text] = self._read(text.strip(), scopes, at)
        return known[text]

    def _read(self, text, scopes, at) -> Operand:
        opening = text[:1]
        if opening in CLOSING:
            if text[-1] != CLOSING[opening]:
                self.m.fail(repr(CLOSING[opening]), at, text.split()[-1])
            parts = [self._operand(piece, scopes, at) for piece in _pieces(text[1:-1])]
            return Operand("vec", parts) if opening == "{" else Operand("mem", parts[0], 0, tuple(parts[1:]))
        if "|" in text:
            return Operand("pair", [self._operand(piece, scopes, at) for piece in text.split("|")])
        found = LEAF.match(text)
        if not found or found.end() < len(text):
            rest = text[found.end():].split() if found else [text or ";"]
            self.m.fail("';'" if found else "an operand", at, rest[0])
        if found["number"]:
            number = found["number"]
            return Operand("float", int(number[2:], 16), 4 if len(number) == 10 else 8) if number[1:2] in "fFdD" and len(number) in (10, 18) and \
                number[0] == "0" else Operand("int", int(number.rstrip("U"), 0))
        operand = self._name(found["name"], scopes, at)
        if found["negate"]:
            return operand._replace(kind="not")
        return operand._replace(more=int(found["offset"].replace(" ", "").replace("+-", "-"), 0)) if found["offset"] else operand


def _pieces(text: str) -> list[str]:
    """What stands between the commas."""
    return [] if not text.strip() else COMMA.split(text) if "[" in text or "{" in text else text.split(",")


def _chain(scopes) -> tuple:
    """The scopes around a place, innermost first."""
    return tuple(scope["{"] for scope in reversed(scopes))


def program(module: Module, name: str) -> Program:
    """The flat program of the entry ``name``."""
    return Program(module, name)

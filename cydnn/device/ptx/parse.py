"""From the text of a PTX file to flat programs: names resolved, calls inlined, scopes gone, every instruction with its place in the file."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...status import NotSupported

BYTES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
         "f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8}
CLOCKS = {"%clock": 4, "%clock_hi": 4, "%clock64": 8, "%globaltimer": 8, "%globaltimer_lo": 4, "%globaltimer_hi": 4}           # and their bytes
SPECIAL = re.compile(r"%(n?tid|n?ctaid|cluster_n?ctaid|n?clusterid)\.[xyz]|%(laneid|n?warpid|n?smid|cluster_n?ctarank|is_explicit_cluster|"
                     r"lanemask_(eq|lt|le|gt|ge)|clock(64|_hi)?|globaltimer(_lo|_hi)?|dynamic_smem_size|total_smem_size|gridid)|WARP_SZ")
NAME, NUMBER = r"[%$_A-Za-z][\w$.]*", r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|-?0[xX][0-9a-fA-F]+U?|-?\d+U?"
COMMENT, LEGAL = re.compile(r"//[^\n]*|/\*.*?\*/", re.S), re.compile(r'(?:[\w\s%$.@!|{}()\[\],;:<>=+-]+|"[^"]*")*')
TOKEN, COMMA = re.compile(rf'{NAME}|\.?-?\w+|"[^"]*"|\S'), re.compile(r",(?![^\[]*\])(?![^{]*\})")          # a comma outside of brackets and braces
LINKAGE = r"(?:\.(?:visible|extern|weak|common)\s+)*"
TOP = re.compile(rf"""\s*(?:\.version\s+(?P<version>\S+) | \.target\s+(?P<target>\w+)[^\n]* | \.(?:address_size|pragma|alias|loc)\b[^\n]* | ;
    | \.file\s+(?P<number>\d+)\s+"(?P<path>[^"]*)"[^\n]* | \.section\s+[\w.$]+\s*(?P<section>\{{)
    | {LINKAGE}\.(?P<kind>entry|func)\s*(?:\((?P<returns>[^)]*)\)\s*)?(?P<name>{NAME})\s*(?:\((?P<params>[^)]*)\))?(?P<limits>[^{{;]*)(?P<end>[{{;])
    | {LINKAGE}\.(?P<space>global|const|shared)\b(?P<what>[^;=]*)(?:=(?P<values>[^;]*))?;)""", re.X)
STATEMENT = re.compile(rf"""\s*(?:(?P<brace>[{{}}]) | (?P<label>{NAME})\s*:(?!:) | \.loc\s+(?P<loc>\d+\s+\d+)[^\n]* | ;
    | \.(?P<directive>\w+)\s*(?P<rest>[^;]*); | (?P<guard>@\s*!?\s*{NAME})?\s*(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>[^;]*);)""", re.X)
LEAF = re.compile(rf"\s*(?:(?P<number>{NUMBER})|(?P<negate>!)?\s*(?P<name>{NAME})\s*(?:(?P<offset>[+-]\s*(?:{NUMBER})))?)\s*")
CALL = re.compile(rf"(?:\(([^)]*)\)\s*,\s*)?({NAME})\s*(?:,\s*\(([^)]*)\)\s*)?(?:,\s*{NAME}\s*)?")
CLOSING = {"[": "]", "{": "}"}


class PtxError(NotSupported):
    """The text is not PTX that the interpreter knows: file, line, token, and what was expected or is missing."""


class Function(NamedTuple):
    """A kernel or function: [(name, align, bytes)] in and out, performance directives, where the body starts."""
    params: list
    returns: list
    limits: dict
    start: int


class Operand(NamedTuple):
    """``kind``: reg, int, float (bits), symbol, param (offset), mem (base), vec and pair (operands), not, sink, label. ``more``: offset of a reg,
    symbol or param that is an address; bytes of a float; scopes of a label. ``rest``: what else a mem names."""
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
    source: tuple | None

    @property
    def opcode(self) -> str:
        return ".".join(self.words)


class Module:
    """A PTX file: where the bodies of its kernels and functions start. ``variables``: name -> (space, align, bytes, type, values)."""

    def __init__(self, text: str, file: str):
        self.file, self.version, self.target = file, "", ""
        self.text, self.plain = text, COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text).rstrip()
        self.entries, self.functions, self.variables, self.sources = {}, {}, {}, {}
        end, at = LEGAL.match(self.plain).end(), 0
        if end < len(self.plain):
            self.fail("a PTX token", end, self.plain[end:end + 12].split("\n")[0])
        while at < len(self.plain):
            at = self._top(TOP.match(self.plain, at) or self.fail("a directive such as .entry, .func or .global", at))

    def line(self, at: int) -> int:
        """The line of an offset in the text."""
        return self.text.count("\n", 0, at) + 1

    def fail(self, expected: str, at: int, token: str | None = None):
        found = TOKEN.search(self.plain, at)
        token = (found[0] if found else "end of file") if token is None else token
        raise PtxError(f"{self.file}:{self.line(found.start() if found else at)}: expected {expected}; got {token!r}")

    def _top(self, found) -> int:
        """Enter what one directive says; returns where the next one starts."""
        given = {name: value for name, value in found.groupdict().items() if value is not None}
        self.version, self.target = given.get("version", self.version), given.get("target", self.target)
        if "number" in given:
            self.sources[int(given["number"])] = given["path"]
        if "space" in given:
            name, align, size, type_ = self.declaration(given["what"], found.start("what"))
            values = tuple(int(v.rstrip("U"), 0) for v in re.findall(r"-?\w+", given.get("values", "")))
            self.variables[name] = (given["space"], align, size, type_, values)
        if given.get("end") == "{":
            limits = {key: tuple(map(int, re.findall(r"\d+", values))) for key, values in re.findall(r"\.(\w+)([^.]*)", given["limits"])}
            params, returns = ([self.declaration(p, found.start("name"))[:3] for p in given.get(key, "").split(",") if p.strip()]
                               for key in ("params", "returns"))
            (self.entries if given["kind"] == "entry" else self.functions)[given["name"]] = Function(params, returns, limits, found.end())
        at, depth = found.end(), "section" in given or given.get("end") == "{"
        while depth:                                         # behind the block that was opened
            brace = re.compile("[{}]").search(self.plain, at) or self.fail("'}'", len(self.plain))
            at, depth = brace.end(), depth + (1 if brace[0] == "{" else -1)
        return at

    def declaration(self, text: str, at: int) -> tuple:
        """``.align 8 .v2 .b8 name[16]`` as (name, align, bytes, type)."""
        found = re.fullmatch(r"((?:\s*\.\w+(?:\s+\d+\s)?)*)\s*([%$_A-Za-z][\w$]*)\s*((?:\[\s*\d*\s*\]\s*)*)", text)
        words = re.findall(r"\.(\w+)", found[1]) if found else ()
        type_ = next((w for w in words if w in BYTES), None) or self.fail("a declaration such as .align 4 .b32 name[2]", at)
        size = BYTES[type_] * next((int(w[1:]) for w in words if w in ("v2", "v4")), 1)
        align, count = re.search(r"\.align\s+(\d+)", found[1]), 1
        for extent in re.findall(r"\[\s*(\d*)\s*\]", found[3]):
            count *= int(extent or 0)
        return found[2], int(align[1]) if align else size, size * count, type_


class Program:
    """One kernel: instructions, register widths, where its variables lie. A scope is a dict of names; ``{``: its number, ``}``: operands read."""

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
        self.calls, self.scopes, self.loc = [], 0, None
        entry, shared = module.entries[name], {v: row for v, row in module.variables.items() if row[0] == "shared"}
        self.limits, names = entry.limits, {p: Operand("param", self.place(p, "param", size, align)) for p, align, size in entry.params}
        static, extern = ([v for v, row in shared.items() if bool(row[2]) == sized] for sized in (True, False))
        for v in static:
            self.place(v, "shared", shared[v][2], shared[v][1])
        self.body(entry.start, [self.scope({**names, **{v: Operand("symbol", v) for v in shared}})], None)
        for v in extern:                                     # behind everything static
            self.place(v, "shared", 0, max(shared[v][1], 16))
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
            found = STATEMENT.match(self.m.plain, at) or self.m.fail("an instruction", at)
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
            scope[name] = Operand("symbol", f"{name}#{scope['{']}")
            self.place(scope[name].value, "local" if space == "param" else space, size, align)       # parameters of calls are local memory
            return
        type_, names = re.fullmatch(r"\.(\w+)\s+(.*)", text, re.S).groups()
        if type_ not in BYTES:
            self.m.fail("a type", found.start("rest"))
        for name, count in re.findall(rf"({NAME})\s*(?:<\s*(\d+)\s*>)?", names):
            for each in [f"{name}{i}" for i in range(int(count))] if count else [name]:
                scope[each] = (each, BYTES[type_])           # becomes a register when it is first used

    def _instruction(self, found, scopes, end, tables):
        guard, at = found["guard"], found.start("guard") if found["guard"] else found.start("opcode")
        words, given, chain = found["opcode"].split("."), found["operands"], tuple(scope["{"] for scope in reversed(scopes))
        register = None if guard is None else self._name(guard.strip("@! \t\n"), scopes, at).value
        if words[0] == "call":
            return self._call(given, scopes, register, at)
        operands = [self._operand(piece, scopes, at) for piece in _pieces(given)]
        if words[0] == "ret" and end:
            words, operands = ["bra"], [Operand("label", "}", (end,))]
        elif words[0] == "brx":
            operands[1] = Operand("vec", [Operand("label", t, chain) for t in tables[operands[1].value]])
        elif any(o.kind == "reg" and self.registers[o.value][0] in CLOCKS for o in operands[1:]):
            words, operands = ["mov", "clock", words[-1]], operands[:1]
        elif words[1:2] == ["param"] and any(o.kind == "mem" and o.value.kind == "symbol" for o in operands):
            words[1] = "local"
        said = " ".join(self.m.text[at:found.end() - 1].split())
        self.code.append(Instruction(words, operands, register, guard is not None and "!" in guard, at, said, self.loc))

    def _call(self, text, scopes, guard, at):
        """``call.uni (r), f, (a, b);`` becomes the body of f, with its parameters bound to the caller's."""
        results, name, given = (CALL.fullmatch(text) or self.m.fail("(results), function, (arguments)", at)).groups()
        function = self.m.functions.get(name) or self.m.fail(f"a function of this file ({', '.join(self.m.functions) or 'none'})", at, name)
        if guard is not None or name in self.calls:
            self.m.fail("a call without guard that is not recursive", at, name)
        bound = [self._name(word.strip(), scopes, at) for part in (given, results) if part for word in part.split(",")]
        if any(operand.kind != "symbol" for operand in bound):
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
                self.specials[text] = self.register(text, CLOCKS.get(text, 4))
            return Operand("reg", self.specials[text])
        if text == "_" or text in self.m.variables:
            return Operand("sink") if text == "_" else Operand("symbol", text)
        if text[0] == "%":
            self.m.fail("a declared register", at, text)
        return Operand("label", text, tuple(scope["{"] for scope in reversed(scopes)))

    def _operand(self, text, scopes, at) -> Operand:
        known = scopes[-1]["}"]
        if text not in known:
            known[text] = self._read(text.strip(), scopes, at)
        return known[text]

    def _read(self, text, scopes, at) -> Operand:
        opening, found = text[:1], LEAF.match(text)
        if opening in CLOSING:
            if text[-1] != CLOSING[opening]:
                self.m.fail(repr(CLOSING[opening]), at, text.split()[-1])
            parts = [self._operand(piece, scopes, at) for piece in _pieces(text[1:-1])]
            return Operand("vec", parts) if opening == "{" else Operand("mem", parts[0], 0, tuple(parts[1:]))
        if "|" in text:
            return Operand("pair", [self._operand(piece, scopes, at) for piece in text.split("|")])
        if not found or found.end() < len(text):
            self.m.fail("';'" if found else "an operand", at, (text[found.end():].split() if found else [text or ";"])[0])
        if number := found["number"]:
            bits = number[0] == "0" and number[1:2] in "fFdD" and len(number) in (10, 18)
            return Operand("float", int(number[2:], 16), len(number) // 2 - 1) if bits else Operand("int", int(number.rstrip("U"), 0))
        operand = self._name(found["name"], scopes, at)
        if found["negate"]:
            return operand._replace(kind="not")
        return operand._replace(more=int(found["offset"].replace(" ", "").replace("+-", "-"), 0)) if found["offset"] else operand


def _pieces(text: str) -> list[str]:
    """What stands between the commas."""
    return [] if not text.strip() else COMMA.split(text) if "[" in text or "{" in text else text.split(",")


def module(text: bytes | str, file: str = "<ptx>") -> Module:
    """Read a PTX file. Raises PtxError with file, line, token and what was expected."""
    return Module(text.decode() if isinstance(text, bytes) else text, file)

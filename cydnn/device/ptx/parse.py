"""From the text of a PTX file to flat programs: names resolved, calls inlined, scopes gone, every
instruction with its place in the file."""
from __future__ import annotations

import math
import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...locks import once
from ...status import NotSupported

BYTES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4,
         "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4, "tf32": 4,
         "b64": 8, "u64": 8, "s64": 8, "f64": 8}
CLOCKS = dict(zip(("%clock", "%clock_hi", "%globaltimer_lo", "%globaltimer_hi", "%clock64", "%globaltimer"),
                  ["b32"] * 4 + ["b64"] * 2))
CLOCK = re.compile("%(clock|globaltimer)")
SPECIAL = re.compile(r"%(n?tid|n?ctaid|cluster_n?ctaid|n?clusterid)\.[xyz]|%(laneid|n?warpid|n?smid|"
                     "cluster_n?ctarank|is_explicit_cluster|lanemask_(eq|lt|le|gt|ge)|clock(64|_hi)?|"
                     "globaltimer(_lo|_hi)?|dynamic_smem_size|total_smem_size|gridid|envreg[12])|WARP_SZ")
MOST_REGISTERS = 1 << 16                         # of one declaration
NAME, INTEGER = r"[%$_A-Za-z][\w$.]*", r"-?(?:0[xX][\da-fA-F]+|\d+)U?"
COMMENT, LEGAL = (re.compile(r"//[^\n]*|/\*.*?\*/", re.S),
                  re.compile(r'(?:[\w\s%$.@!|{}()\[\],;:<>=+-]+|"[^"]*")*'))
TOKEN, BRACE = re.compile(rf'{NAME}|\.?-?\w+|"[^"]*"|\S'), re.compile("[{}]")
# between commas outside of brackets and braces
PIECE = re.compile(r"(?:^(?!$)|,)((?:\[[^\]]*\]?|\{[^}]*\}?|[^,\[{])*)")
LINKAGE = r"(?:\.(?:visible|extern|weak|common)\s+)*"
TOP = re.compile(rf"""\s*(?:\.(?:version|address_size|pragma|alias|loc)\b[^\n]* | ;
    | \.target\s+(?P<target>\w+)[^\n]*
    | \.file\s+(?P<number>\d+)\s+"(?P<path>[^"]*)"[^\n]* | \.section\s+[\w.$]+\s*(?P<section>\{{)
    | {LINKAGE}\.(?P<kind>entry|func)\s*(?:\((?P<returns>[^)]*)\)\s*)?(?P<name>{NAME})\s*
      (?:\((?P<params>[^)]*)\))?(?P<limits>[^{{;]*)(?P<end>[{{;])
    | {LINKAGE}\.(?P<space>global|const|shared)\b(?P<what>[^;=]*)(?:=(?P<values>[^;]*))?;)""", re.X)
STATEMENT = re.compile(rf"""\s*(?:(?P<brace>[{{}}]) | (?P<label>{NAME})\s*:(?!:)
    | \.loc\s+(?P<loc>\d+\s+\d+)[^\n]* | ; | \.(?P<directive>\w+)\s*(?P<rest>[^;]*);
    | (?P<text>(?:@\s*(?P<negate>!)?\s*(?P<guard>{NAME}))?\s*
      (?P<opcode>[a-z][\w.:]*)\s*(?P<operands>[^;]*));)""", re.X)
LEAF = re.compile(rf"\s*(?:0[fFdD](?P<float>[\da-fA-F]{{16}}|[\da-fA-F]{{8}})|(?P<int>{INTEGER})|"
                  rf"(?P<negate>!)?\s*(?P<name>{NAME})\s*(?:(?P<offset>[+-]\s*{INTEGER}))?)\s*")
DECLARED = re.compile(rf"({NAME})\s*(?:<\s*(\d+)\s*>)?")
CALL = re.compile(rf"(?:\(([^)]*)\)\s*,\s*)?({NAME})\s*(?:,\s*\(([^)]*)\)\s*)?(?:,\s*{NAME}\s*)?")


class PtxError(NotSupported):
    """The text is not PTX that the interpreter knows: file, line, token, and what
    was expected or is missing."""


class PtxOperand(NamedTuple):
    """``kind``: reg, int, float (bits), symbol, mem (base), vec and pair (operands), not, sink, label.
    ``more``: offset of a reg or symbol that is an address; bytes of a float; scopes of a label.
    ``rest``: what else a mem names."""
    kind: str
    value: Any = None
    more: Any = 0
    rest: tuple = ()

    @property
    def parts(self) -> list:
        """What stands in braces; else the operand itself."""
        return self.value if self.kind == "vec" else [self]


@dataclass(slots=True)
class Instruction:
    """One instruction: opcode words, operands, guard register or None. ``at``: its offset in the file;
    ``written``: how it stands there; ``source``: what .loc said last."""
    words: list
    operands: list
    guard: int | None
    negate: bool
    at: int
    written: str
    source: tuple | None

    @property
    def text(self) -> str:
        return " ".join(self.written.split())

    @property
    def opcode(self) -> str:
        return ".".join(self.words)


class Module:
    """A PTX file for ``target``, "" where it says none. ``entries``, ``functions``: name -> (parameters and
    results, performance directives, where the body starts); ``variables``: name -> (space, align, bytes,
    type, values)."""

    def __init__(self, text: str, file: str):
        self.file, self.text, self.plain = (
            file, text, COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text).rstrip())
        self.entries, self.functions, self.variables, self.sources, self.target = {}, {}, {}, {}, ""
        end, at = LEGAL.match(self.plain).end(), 0
        if end < len(self.plain):
            self.wanted("a PTX token", end, self.plain[end:end + 12].split("\n")[0])
        while at < len(self.plain):
            at = self._top(
                TOP.match(self.plain, at) or self.wanted("a directive such as .entry, .func or .global", at))

    @once
    def _ends(self) -> list:
        return [found.start() for found in re.finditer("\n", self.text)]

    def line(self, at: int) -> int:
        """The line of an offset in the text."""
        return bisect_left(self._ends, at) + 1

    def wanted(self, expected: str, at: int, token: str | None = None):
        found = TOKEN.search(self.plain, at)
        token = (found[0] if found else "end of file") if token is None else token
        raise PtxError(
            f"{self.file}:{self.line(found.start() if found else at)}: expected {expected}; got {token!r}")

    def _top(self, found) -> int:
        """Enter what one directive says; returns where the next one starts."""
        at, depth = found.end(), int("{" in (found["section"], found["end"]))
        self.target = found["target"] or self.target
        if found["number"]:
            self.sources[self.number(found["number"], at)] = found["path"]
        if found["space"]:
            name, *declared = self.declaration(found["what"], found.start("what"))
            values = tuple(self.number(v, found.start("values"))
                           for v in re.findall(r"-?\w+", found["values"] or ""))
            self.variables[name] = (found["space"], *declared, values)
        if found["end"] == "{":
            limits = {key: tuple([self.number(v, at) for v in re.findall(r"\d+", values)])
                      for key, values in re.findall(r"\.(\w+)([^.]*)", found["limits"])}
            given = [p for part in found.group("params", "returns")
                     for p in (part or "").split(",") if p.strip()]
            declared = [self.declaration(p, found.start("name")) for p in given]
            (self.entries if found["kind"] == "entry"
             else self.functions)[found["name"]] = declared, limits, at
        while depth:                                         # behind the block that was opened
            brace = BRACE.search(self.plain, at) or self.wanted("'}'", len(self.plain))
            at, depth = brace.end(), depth + (1 if brace[0] == "{" else -1)
        return at

    def number(self, text: str, at: int) -> int:
        """A whole number as PTX writes it: 12, 0x1f, 017 for 15, each with a U or without."""
        digits = text.removesuffix("U")
        try:
            return int(digits, 8 if re.fullmatch("-?0[0-7]+", digits) else 0)
        except ValueError:                       # 09, or more digits than Python reads
            self.wanted("a whole number", at, text[:40])

    def declaration(self, text: str, at: int) -> tuple:
        """``.align 8 .v2 .b8 name[16]`` as (name, align, bytes, type)."""
        found = re.fullmatch(
            r"((?:\s*\.\w+(?:\s+\d+\s)?)*)\s*([%$_A-Za-z][\w$]*)\s*((?:\[\s*\d*\s*\]\s*)*)", text)
        words = dict(re.findall(r"\.(\w+)\s*(\d*)", found[1])) if found else {}
        type_ = (next((w for w in words if w in BYTES), None)
                 or self.wanted("a declaration such as .align 4 .b32 name[2]", at))
        size = BYTES[type_] * (2 if "v2" in words else 4 if "v4" in words else 1)
        return (found[2], int(words.get("align", size)),
                size * math.prod(int(n or 0) for n in re.findall(r"\[\s*(\d*)", found[3])), type_)


class PtxProgram:
    """One kernel: instructions, register widths, where its variables lie. A scope is a dict of names,
    of labels with a colon before them, and under "" of the operands that were read in it;
    ``scopes`` has the innermost first."""

    def __init__(self, module: Module, name: str):
        if name not in module.entries:
            raise PtxError(
                f"{module.file}: expected an entry {name}; there is {', '.join(module.entries) or 'none'}")
        self.name, self.file, self.m = name, module.file, module
        self.code: list[Instruction] = []
        self.registers: list[tuple[str, str]] = []           # (name, type)
        self.specials: dict[str, int] = {}                  # name -> register, of those that nothing declares
        self.variables: dict[str, tuple] = {}                # unique name -> (space, offset)
        self.bytes = {"shared": 0, "local": 0, "param": 0}
        self.calls, self.loc = [], None
        params, self.limits, start = module.entries[name]
        shared = [(v, *row[1:]) for v, row in module.variables.items() if row[0] == "shared"]
        for space, declared in (("param", params), ("shared", [v for v in shared if v[2]])):
            for v, align, size, *_ in declared:
                self.place(v, space, size, align)
        self.body(start, {})
        for v, align, *_ in [v for v in shared if not v[2]]:             # behind everything static
            self.place(v, "shared", 0, max(align, 16))
        for i in self.code:
            i.operands = [self._arrived(o, i) for o in i.operands]

    def register(self, name: str, type_: str) -> PtxOperand:
        self.registers.append((name, type_))
        return PtxOperand("reg", len(self.registers) - 1)

    def special(self, name: str, type_: str) -> PtxOperand:
        """A register that nothing declares."""
        if name not in self.specials:
            self.specials[name] = self.register(name, type_).value
        return PtxOperand("reg", self.specials[name])

    def place(self, name: str, space: str, size: int, align: int) -> PtxOperand:
        at = -(-self.bytes[space] // align) * align
        self.variables[name], self.bytes[space] = (space, at), at + size
        return PtxOperand("symbol", name)

    def _arrived(self, operand, i) -> PtxOperand:
        """A label with the instruction it stands for, or with its table of labels."""
        if operand.kind == "label":
            operand = (_named(operand.more, ":" + operand.value)
                       or self.m.wanted("a declared name or label", i.at, operand.value))
        if operand.kind == "vec" and i.words[0] == "brx":
            return operand._replace(value=[self._arrived(o, i) for o in operand.value])
        return operand

    # ---- Statements ----

    def body(self, at: int, names: dict):
        """One function body from ``at`` on."""
        names[""], scopes, label = {}, (names,), ""
        while scopes:
            found = STATEMENT.match(self.m.plain, at) or self.m.wanted("an instruction", at)
            at, kind, directive = found.end(), found.lastgroup, found["directive"]
            if kind == "text":
                self._instruction(found, scopes)
            elif kind == "label":
                label = found["label"]
                scopes[0][":" + label] = PtxOperand("label", len(self.code))
            elif kind == "brace":
                scopes = ({"": {}}, *scopes) if found["brace"] == "{" else scopes[1:]
            elif kind == "loc":
                self.loc = tuple(map(int, found["loc"].split()))
            elif directive == "branchtargets":
                targets = [target.strip() for target in found["rest"].split(",")]
                scopes[0][":" + label] = PtxOperand("vec", [PtxOperand("label", t, scopes) for t in targets])
            elif directive in ("reg", "param", "local", "shared"):
                self._declare(directive, found["rest"], found.start("rest"), scopes[0])
            elif directive not in (None, "pragma", "callprototype"):
                self.m.wanted("a directive such as .reg or .shared", found.start("directive") - 1)
        names[":}"] = PtxOperand("label", len(self.code))   # where the ``ret`` of an inlined call goes

    def _declare(self, space, text, at, scope):
        scope[""].clear()                                    # names may mean something else from here on
        if space != "reg":
            name, align, size, _ = self.m.declaration(text, at)
            unique = f"{name}#{len(self.variables)}"
            # parameters of calls are local memory
            scope[name] = self.place(unique, "local" if space == "param" else space, size, align)
            return
        found = re.fullmatch(r"\.(\w+)\s+(.*)", text, re.S)
        type_, names = found.groups() if found else ("", "")
        if type_ not in BYTES:
            self.m.wanted("a type", at)
        for name, count in DECLARED.findall(names):
            if count and (len(count) > 9 or int(count) > MOST_REGISTERS):
                self.m.wanted(f"at most {MOST_REGISTERS} registers", at, count[:40])
            for each in [f"{name}{i}" for i in range(int(count))] if count else [name]:
                scope[each] = self.register(each, type_)

    def _instruction(self, found, scopes):
        guard, words, given, at = (found["guard"], found["opcode"].split("."),
                                   found["operands"], found.start("text"))
        register = guard and self._name(guard, scopes, at).value
        if words[0] == "call":
            return self._call(given, scopes, guard, at)
        known = scopes[0][""]
        pieces = PIECE.findall(given) if "[" in given or "{" in given else given.split(",") if given else ()
        operands = [known.get(piece) or self._operand(piece, scopes, at) for piece in pieces]
        if words[0] == "ret" and self.calls:
            words, operands = ["bra"], [PtxOperand("label", "}", scopes)]
        elif CLOCK.search(given) and any(
                o.kind == "reg" and self.registers[o.value][0] in CLOCKS for o in operands[1:]):
            words, operands = ["mov", "clock", words[-1]], operands[:1]
        elif words[1:2] == ["param"] and any(
                o.kind == "mem" and self.variables.get(o.value.value, "?")[0] == "local" for o in operands):
            words[1] = "local"
        self.code.append(Instruction(words, operands, register, bool(found["negate"]), at,
                                     found["text"], self.loc))

    def _call(self, text, scopes, guard, at):
        """``call.uni (r), f, (a, b);`` becomes the body of f, with its parameters bound to the caller's."""
        results, name, given = (CALL.fullmatch(text)
                                or self.m.wanted("(results), function, (arguments)", at)).groups()
        params, _, start = self.m.functions.get(name) or self.m.wanted(
            f"a function of this file ({', '.join(self.m.functions) or 'none'})", at, name)
        if guard is not None or name in self.calls:
            self.m.wanted("a call without guard that is not recursive", at, name)
        bound = [self._name(word.strip(), scopes, at) for part in (given, results)
                 if part for word in part.split(",")]
        if any(operand.kind != "symbol" for operand in bound):
            self.m.wanted("arguments in .param space", at, name)
        self.calls.append(name)
        self.body(start, {p[0]: operand for p, operand in zip(params, bound)})
        self.calls.pop()

    # ---- Operands ----

    def _name(self, text, scopes, at) -> PtxOperand:
        if found := _named(scopes, text):
            return found
        if SPECIAL.fullmatch(text):
            return self.special(text, CLOCKS.get(text, "b32"))
        if text == "_" or text in self.variables or text in self.m.variables:
            return PtxOperand("sink") if text == "_" else PtxOperand("symbol", text)
        return (PtxOperand("label", text, scopes) if text[0] != "%"
                else self.m.wanted("a declared register", at, text))

    def _operand(self, text, scopes, at) -> PtxOperand:
        known = scopes[0][""]
        if text not in known:
            bare = text.strip()
            register = _named(scopes, bare) if bare[:1] == "%" else None
            known[text] = register or self._read(bare, scopes, at)
        return known[text]

    def _read(self, text, scopes, at) -> PtxOperand:
        closing = {"[": "]", "{": "}"}.get(text[:1])
        if closing and text[-1] != closing:
            self.m.wanted(repr(closing), at, text.split()[-1])
        if closing or "|" in text:
            parts = [self._operand(piece, scopes, at)
                     for piece in (PIECE.findall(text[1:-1]) if closing else text.split("|"))]
            if closing == "]" and (not parts or parts[0].kind in ("mem", "vec", "pair")):
                self.m.wanted("an address", at, text[:40])
            return (PtxOperand("mem", parts[0], 0, tuple(parts[1:])) if closing == "]"
                    else PtxOperand("vec" if closing else "pair", parts))
        found = LEAF.match(text)
        if not found or found.end() < len(text):
            self.m.wanted("';'" if found else "an operand", at,
                        (text[found.end():].split() if found else [text or ";"])[0])
        if bits := found["float"]:
            return PtxOperand("float", int(bits, 16), len(bits) // 2)
        if found["int"]:
            return PtxOperand("int", self.m.number(found["int"], at))
        operand, offset = self._name(found["name"], scopes, at), found["offset"]
        if found["negate"]:
            return operand._replace(kind="not")
        if offset and operand.kind == "label":
            self.m.wanted("a label without an offset", at, offset)
        plain = offset.replace(" ", "").replace("+-", "-").lstrip("+") if offset else ""
        return operand._replace(more=self.m.number(plain, at)) if offset else operand


def _named(scopes: tuple, name: str) -> PtxOperand | None:
    """What the innermost scope that has a name says."""
    for scope in scopes:
        if name in scope:
            return scope[name]
    return None


def module(text: bytes | str, file: str = "<ptx>") -> Module:
    """Read a PTX file. Raises PtxError with file, line, token and what was expected."""
    return Module(text.decode() if isinstance(text, bytes) else text, file)

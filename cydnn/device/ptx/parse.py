"""PTX text to programs: names resolved, calls inlined, blocks and scopes gone, and every instruction with its line.

``module(text)`` reads a file's directives; ``Module.program(entry)`` gives the flat list of instructions of one kernel. What an
instruction means is not known here.
"""
from __future__ import annotations

import re
from typing import Any, NamedTuple

from ...status import NotSupported

BYTES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
         "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}
SPECIAL_BYTES = {"%clock64": 8, "%globaltimer": 8}           # special registers that are not 32 bits wide
SPECIAL = re.compile(r"%(n?tid|n?ctaid|cluster_n?ctaid|n?clusterid)\.[xyz]|%(laneid|n?warpid|n?smid|cluster_n?ctarank|is_explicit_cluster|"
                     r"lanemask_(eq|lt|le|gt|ge)|clock(64|_hi)?|globaltimer(_lo|_hi)?|dynamic_smem_size|total_smem_size|gridid)|WARP_SZ")
TOKEN = re.compile(r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|-?0[xX][0-9a-fA-F]+U?|-?\d+(?:\.\d+|U)?)
                   |(?P<name>[%$._A-Za-z][\w$.]*(?:::[\w.]+)*)|(?P<text>"[^"]*")|(?P<mark>[{}()\[\],;:|@!<>=+])""", re.X | re.S)


class PtxError(NotSupported):
    """The text is not PTX that the interpreter knows: file, line, token, and what was expected or is missing."""


class Token(NamedTuple):
    text: str
    kind: str
    at: int                                      # offset in the file


class Operand(NamedTuple):
    """``kind``: reg (index), int, float (bits; ``more`` = bytes), symbol (name), param (offset in the block), mem (base; ``more`` = offset,
    rest), vec, pair, not, sink, label."""
    kind: str
    value: Any = None
    more: Any = None


class Instruction:
    """One instruction: opcode words, operands, guard register or None."""
    __slots__ = ("words", "operands", "guard", "negate", "line", "text", "index")

    def __init__(self, words, operands, guard=None, negate=False, line=0, text=""):
        self.words, self.operands, self.guard, self.negate, self.line, self.text, self.index = words, operands, guard, negate, line, text, -1

    @property
    def opcode(self) -> str:
        return ".".join(self.words)


class Program:
    """One kernel: instructions, register widths, where its variables lie."""

    def __init__(self, name, file, target):
        self.name, self.file, self.target = name, file, target
        self.code: list[Instruction] = []
        self.registers: list[tuple[str, int]] = []           # (name, bytes)
        self.specials: dict[str, int] = {}                   # name -> register
        self.labels: dict[str, int] = {}
        self.variables: dict[str, tuple] = {}                # unique name -> (space, offset)
        self.bytes = {"shared": 0, "local": 0, "param": 0}
        self.limits: dict[str, tuple] = {}                   # maxntid, reqntid, reqnctapercluster …

    def register(self, name: str, size: int) -> int:
        self.registers.append((name, size))
        return len(self.registers) - 1

    def place(self, name: str, space: str, size: int, align: int) -> int:
        at = -(-self.bytes[space] // align) * align
        self.variables[name], self.bytes[space] = (space, at), at + size
        return at


class Module:
    """A PTX file: its tokens, its kernels and functions (where their bodies are), its module variables."""

    def __init__(self, text: str, file: str):
        self.text, self.file, self.version, self.target = text, file, "", ""
        self.tokens, self.at = [], 0
        self.entries, self.functions, self.variables = {}, {}, {}     # variables: name -> (space, type, align, count, values)
        self._scan()
        self.tokens.append(Token("end of file", "end", len(text)))
        while self.look().kind != "end":
            self._top()

    # ---- Tokens ----

    def _scan(self):
        at = 0
        for found in TOKEN.finditer(self.text):
            if found.start() != at:
                break
            at = found.end()
            if found.lastgroup != "skip":
                self.tokens.append(Token(found[0], found.lastgroup, found.start()))
        if at != len(self.text):
            self.fail("a PTX token", Token(self.text[at:at + 12].split("\n")[0], "", at))

    def line(self, token: Token) -> int:
        return self.text.count("\n", 0, token.at) + 1

    def fail(self, expected: str, token: Token | None = None):
        token = token or self.look()
        raise PtxError(f"{self.file}:{self.line(token)}: expected {expected}; got {token.text!r}")

    def look(self, ahead=0) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self, text: str | None = None, kind: str | None = None) -> Token:
        token = self.look()
        if (text is not None and token.text != text) or (kind is not None and token.kind != kind):
            self.fail(repr(text) if text else f"a {kind}")
        self.at += 1
        return token

    def maybe(self, text: str) -> bool:
        if self.look().text == text:
            self.at += 1
            return True
        return False

    def number(self) -> int:
        return int(self.take(kind="number").text.rstrip("U"), 0)

    def numbers(self) -> tuple:
        values = [self.number()]
        while self.maybe(","):
            values.append(self.number())
        return tuple(values)

    # ---- Directives ----

    def _top(self):
        word = self.take(kind="name").text
        if word in (".version", ".address_size"):
            value = self.take(kind="number").text
            self.version = value if word == ".version" else self.version
        elif word == ".target":
            self.target = self.take(kind="name").text
            while self.maybe(","):
                self.take()
        elif word in (".visible", ".extern", ".weak", ".common"):
            pass
        elif word in (".entry", ".func"):
            self._function(word)
        elif word in (".global", ".const", ".shared"):
            self._variable(word[1:])
        elif word in (".file", ".section", ".loc", ".pragma", ".alias"):
            self._skip_directive(word)
        else:
            self.at -= 1
            self.fail("a directive such as .entry, .func or .global")

    def _skip_directive(self, word):
        if word == ".section":
            while not self.maybe("{"):
                self.at += 1
            self._skip_body()
        else:
            line = self.line(self.look(-1))
            while self.look().kind != "end" and self.line(self.look()) == line:
                self.at += 1

    def _function(self, word):
        returns = self.parameters() if self.look().text == "(" else []
        name = self.take(kind="name").text
        params = self.parameters() if self.look().text == "(" else []
        limits = {}
        while self.look().text.startswith("."):
            key = self.take().text[1:]
            limits[key] = self.numbers() if self.look().kind == "number" else ()
        if self.maybe(";"):
            return
        self.take("{")
        (self.entries if word == ".entry" else self.functions)[name] = (params, returns, limits, self.at)
        self._skip_body()

    def _skip_body(self):
        depth = 1
        while depth:
            text = self.look().text
            if self.look().kind == "end":
                self.fail("'}'")
            depth += (text == "{") - (text == "}")
            self.at += 1

    def parameters(self) -> list:
        """``(.param .u64 a, .param .align 8 .b8 b[16])`` as [(name, align, bytes)]."""
        self.take("(")
        found = []
        while not self.maybe(")"):
            self.take(".param")
            found.append(self.declaration()[:3])
            self.maybe(",")
        return found

    def declaration(self):
        """``.align 8 .v2 .b8 name[16]`` as (name, align, bytes, type)."""
        align, lanes = 0, 1
        while True:
            word = self.take(kind="name").text
            if word == ".align":
                align = self.number()
            elif word in (".v2", ".v4"):
                lanes = int(word[2:])
            elif word in (".ptr", ".global", ".const", ".shared", ".local", ".attribute"):
                pass
            elif word[0] == "." and word[1:] in BYTES:
                type_ = word[1:]
            else:
                break
        size = BYTES[type_] * lanes
        count = 1
        while self.maybe("["):
            count *= self.number() if self.look().kind == "number" else 0
            self.take("]")
        return word, align or size, size * count, type_

    def _variable(self, space):
        name, align, size, type_ = self.declaration()
        values = ()
        if self.maybe("="):
            if self.maybe("{"):
                values = self.numbers()
                self.take("}")
            else:
                values = self.numbers()
        self.take(";")
        self.variables[name] = (space, align, size, type_, values)

    # ---- Programs ----

    def program(self, name: str) -> Program:
        if name not in self.entries:
            raise PtxError(f"{self.file}: expected an entry {name}; there is {', '.join(self.entries) or 'none'}")
        return _Flattener(self, name).program


class _Flattener:
    """Walks a kernel's body, and the bodies of what it calls, and writes flat instructions with resolved operands."""

    def __init__(self, module: Module, name: str):
        self.m, self.calls = module, []
        self.program = Program(name, module.file, module.target)
        params, _, self.program.limits, start = module.entries[name]
        scope = {}
        for param, align, size in params:
            at = self.program.place(param, "param", size, align)
            scope[param] = Operand("param", at)
        self.slots: dict = {}                                # (storage, offset) -> register: .param space of calls
        dynamic = []
        for variable, (space, align, size, _, _) in module.variables.items():
            if space == "shared":
                dynamic.append((variable, align)) if not size else self.program.place(variable, "shared", size, align)
                scope[variable] = Operand("symbol", variable)
        self.body(start, [scope], "")
        for variable, align in dynamic:                      # extern arrays lie behind everything static
            self.program.place(variable, "shared", 0, max(align, 16))
        for index, instruction in enumerate(self.program.code):
            instruction.index = index

    def body(self, start, scopes, end_label):
        """One function body from the token after its ``{``."""
        m = self.m
        back, m.at = m.at, start
        depth, labels = 1, {}
        unique = f"@{len(self.calls)}" if end_label else ""
        self.calls.append(None)
        while depth:
            token = m.look()
            if token.text == "{":
                m.at += 1
                scopes.append({})
                depth += 1
            elif token.text == "}":
                m.at += 1
                scopes.pop() if depth > 1 else None
                depth -= 1
            elif token.text == ";":
                m.at += 1
            elif token.text in (".reg", ".param", ".local", ".shared"):
                self._declare(scopes, unique)
            elif token.text in (".loc", ".pragma", ".branchtargets", ".callprototype"):
                m.at += 1
                m._skip_directive(token.text)
            elif m.look(1).text == ":":
                self.program.labels[token.text + unique] = len(self.program.code)
                m.at += 2
                if m.look().text == ".branchtargets":
                    m.at += 1
                    labels[token.text] = self._names()
            else:
                self._instruction(scopes, unique, end_label, labels)
        m.at = back

    def _names(self):
        names = [self.m.take().text]
        while self.m.maybe(","):
            names.append(self.m.take().text)
        self.m.take(";")
        return names

    def _declare(self, scopes, unique):
        m = self.m
        space = m.take().text[1:]
        if space != "reg":
            name, align, size, _ = m.declaration()
            m.take(";")
            if space == "param":
                scopes[-1][name] = Operand("storage", f"{name}{unique}#{len(self.slots)}")
                self.slots[f"{name}{unique}#{len(self.slots)}"] = {}
            else:
                self.program.place(name + unique, space, size, align)
                scopes[-1][name] = Operand("symbol", name + unique)
            return
        size = BYTES.get(m.take(kind="name").text[1:])
        if size is None:
            m.at -= 1
            m.fail("a type")
        while True:
            name = m.take(kind="name").text
            names = [name]
            if m.maybe("<"):
                names = [f"{name}{i}" for i in range(m.number())]
                m.take(">")
            for each in names:
                scopes[-1][each] = (each, size)              # becomes a register when it is first used
            if not m.maybe(","):
                break
        m.take(";")

    def _instruction(self, scopes, unique, end_label, tables):
        m, first = self.m, self.m.look()
        guard, negate = None, False
        if m.maybe("@"):
            negate = m.maybe("!")
            guard = self._name(m.take(kind="name"), scopes, unique).value
        opcode = m.take(kind="name")
        words = opcode.text.split(".")
        if not opcode.text[0].isalpha():
            m.at -= 1
            m.fail("an instruction")
        if words[0] == "call":
            return self._call(scopes, unique, guard)
        operands = []
        if m.look().text != ";":
            operands.append(self._operand(scopes, unique, words))
            while m.maybe(","):
                operands.append(self._operand(scopes, unique, words))
        last = m.take(";")
        text = " ".join(m.text[first.at:last.at].split())
        line = m.line(first) if False else first.at          # an offset; turned into a line when somebody asks
        if words[0] == "ret" and end_label:
            words, operands = ["bra"], [Operand("label", end_label)]
        if words[0] == "brx":
            operands[1] = Operand("vec", [Operand("label", t + unique) for t in tables[operands[1].value]])
        emit = Instruction(words, operands, guard, negate, line, text)
        if words[0] in ("ld", "st") and "param" in "".join(words[1:2]):
            if self._moves(emit):
                return
        self.program.code.append(emit)

    def _moves(self, i) -> bool:
        """A load or store of a call's parameter: moves between registers."""
        memory, other = (i.operands[1], i.operands[0]) if i.words[0] == "ld" else (i.operands[0], i.operands[1])
        if memory.value.kind != "storage":
            return False
        parts, size = other.value if other.kind == "vec" else [other], BYTES[i.words[-1]]
        for number, part in enumerate(parts):
            slots, at = self.slots[memory.value.value], memory.more[0] + number * size
            if at not in slots:
                slots[at] = self.program.register(f"{memory.value.value}+{at}", size)
            slot = Operand("reg", slots[at])
            pair = [part, slot] if i.words[0] == "ld" else [slot, part]
            self.program.code.append(Instruction(["mov", f"b{8 * size}"], pair, i.guard, i.negate, i.line, i.text))
        return True

    def _call(self, scopes, unique, guard):
        """``call.uni (r), f, (a, b);`` becomes the body of f, with its parameters bound to the caller's storage."""
        m = self.m
        given = []
        results = self._list() if m.look().text == "(" else []
        if results:
            m.take(",")
        name = m.take(kind="name")
        if m.maybe(","):
            given = self._list()
        m.take(";")
        if name.text not in m.functions:
            m.fail(f"a function of this file ({', '.join(m.functions) or 'none'})", name)
        params, returns, _, start = m.functions[name.text]
        if guard is not None or start in self.calls:
            m.fail("a call without guard that is not recursive", name)
        scope = {p[0]: self._lookup(g, scopes) for p, g in zip(params + returns, given + results)}
        for operand in scope.values():
            if operand is None or operand.kind != "storage":
                m.fail("arguments in .param space", name)
        end = f"{name.text}@end{len(self.calls)}"
        self.calls.append(start)
        self.body(start, [scope], end)
        self.calls[self.calls.index(start)] = None
        self.program.labels[end] = len(self.program.code)

    def _list(self):
        m = self.m
        m.take("(")
        names = []
        while not m.maybe(")"):
            names.append(m.take())
            m.maybe(",")
        return names

    # ---- Operands ----

    def _lookup(self, token, scopes):
        for scope in reversed(scopes):
            found = scope.get(token.text)
            if found is not None:
                if type(found) is tuple:
                    found = scope[token.text] = Operand("reg", self.program.register(*found))
                return found
        return None

    def _name(self, token, scopes, unique) -> Operand:
        text = token.text
        found = self._lookup(token, scopes)
        if found is not None:
            return found
        if SPECIAL.fullmatch(text):
            if text not in self.program.specials:
                self.program.specials[text] = self.program.register(text, SPECIAL_BYTES.get(text, 4))
            return Operand("reg", self.program.specials[text])
        if text == "_":
            return Operand("sink")
        if text in self.m.variables:
            return Operand("symbol", text)
        if text[0] == "%":
            self.m.fail("a declared register", token)
        return Operand("label", text + unique)

    def _operand(self, scopes, unique, words) -> Operand:
        m = self.m
        token = m.look()
        m.at += 1
        if token.kind == "number":
            return _number(token.text)
        if token.text == "{":
            parts = []
            while not m.maybe("}"):
                parts.append(self._operand(scopes, unique, words))
                m.maybe(",")
            return Operand("vec", parts)
        if token.text == "[":
            return self._memory(scopes, unique, words)
        if token.text == "!":
            return Operand("not", self._name(m.take(kind="name"), scopes, unique).value)
        if token.kind != "name":
            m.at -= 1
            m.fail("an operand")
        if words[0] == "brx" and token.text in words:
            m.fail("a label", token)
        operand = Operand("label", token.text) if words[0] == "brx" and token.text[0] == "$" else self._name(token, scopes, unique)
        if m.maybe("|"):
            return Operand("pair", [operand, self._operand(scopes, unique, words)])
        if operand.kind == "symbol" and (m.look().text == "+" or m.look().text[0] == "-"):
            return operand._replace(more=self._offset())
        return operand

    def _memory(self, scopes, unique, words):
        m = self.m
        base = self._operand(scopes, unique, words)
        offset = (base.more or 0) if base.kind == "symbol" else 0
        if m.look().text == "+" or m.look().text[0] == "-":
            offset += self._offset()
        rest = []
        while m.maybe(","):
            rest.append(self._operand(scopes, unique, words))
        m.take("]")
        if base.kind == "symbol":
            base = base._replace(more=None)
        return Operand("mem", base, (offset, rest))

    def _offset(self) -> int:
        self.m.maybe("+")
        return self.m.number()


def _number(text: str) -> Operand:
    if text[:2] in ("0f", "0F"):
        return Operand("float", int(text[2:], 16), 4)
    if text[:2] in ("0d", "0D"):
        return Operand("float", int(text[2:], 16), 8)
    return Operand("int", int(text.rstrip("U"), 0))


def module(text: bytes | str, file: str = "<ptx>") -> Module:
    """Read a PTX file. Raises PtxError with file, line, token and what was expected."""
    return Module(text.decode() if isinstance(text, bytes) else text, file)

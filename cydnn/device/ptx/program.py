"""From a kernel's text to a flat program: names resolved, calls inlined, scopes gone, every instruction with its place in the file."""
from __future__ import annotations

import re
from typing import Any, NamedTuple

from .parse import BYTES, Module, PtxError, Token

SPECIAL_BYTES = {"%clock64": 8, "%globaltimer": 8}           # special registers that are not 32 bits wide
SPECIAL = re.compile(r"%(n?tid|n?ctaid|cluster_n?ctaid|n?clusterid)\.[xyz]|%(laneid|n?warpid|n?smid|cluster_n?ctarank|is_explicit_cluster|"
                     r"lanemask_(eq|lt|le|gt|ge)|clock(64|_hi)?|globaltimer(_lo|_hi)?|dynamic_smem_size|total_smem_size|gridid)|WARP_SZ")


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
        # line: the offset in the file, made a line when somebody asks
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
        self.labels: dict[tuple, int] = {}                   # (scope, name) -> instruction
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


class Flattener:
    """Walks a kernel's body, and the bodies of what it calls, and writes flat instructions with resolved operands."""

    def __init__(self, module: Module, name: str):
        self.m, self.calls, self.scopes = module, [], 0
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
        self.body(start, [self.scope(scope)], "")
        for variable, align in dynamic:                      # extern arrays lie behind everything static
            self.program.place(variable, "shared", 0, max(align, 16))
        for index, instruction in enumerate(self.program.code):
            instruction.index = index
            instruction.operands = [self._target(o, instruction) for o in instruction.operands]

    def scope(self, names: dict) -> dict:
        """A block of the text: what its names mean. ``{`` opens one; labels belong to theirs."""
        self.scopes += 1
        names["{"] = self.scopes
        return names

    def _target(self, operand, instruction) -> Operand:
        """A label with the instruction it stands for."""
        if operand.kind == "vec" and instruction.words[0] == "brx":
            return operand._replace(value=[self._target(o, instruction) for o in operand.value])
        if operand.kind != "label":
            return operand
        found = next((at for scope in operand.more if (at := self.program.labels.get((scope, operand.value))) is not None), None)
        if found is None:
            self.m.fail("a declared name or label", Token(operand.value, "name", instruction.line))
        return Operand("label", found)

    def body(self, start, scopes, end_label):
        """One function body from the token after its ``{``."""
        m = self.m
        back, m.at = m.at, start
        depth, labels = 1, {}
        self.calls.append(None)
        while depth:
            token = m.look()
            if token.text == "{":
                m.at += 1
                scopes.append(self.scope({}))
                depth += 1
            elif token.text == "}":
                m.at += 1
                scopes.pop() if depth > 1 else None
                depth -= 1
            elif token.text == ";":
                m.at += 1
            elif token.text in (".reg", ".param", ".local", ".shared"):
                self._declare(scopes)
            elif token.text in (".loc", ".pragma", ".branchtargets", ".callprototype"):
                m.at += 1
                m._skip_directive(token.text)
            elif m.look(1).text == ":":
                self.program.labels[scopes[-1]["{"], token.text] = len(self.program.code)
                m.at += 2
                if m.look().text == ".branchtargets":
                    m.at += 1
                    labels[token.text] = self._names()
            else:
                self._instruction(scopes, end_label, labels)
        m.at = back

    def _names(self):
        names = [self.m.take().text]
        while self.m.maybe(","):
            names.append(self.m.take().text)
        self.m.take(";")
        return names

    def _declare(self, scopes):
        m = self.m
        space = m.take().text[1:]
        if space != "reg":
            name, align, size, _ = m.declaration()
            m.take(";")
            unique = f"{name}#{scopes[-1]['{']}"
            if space == "param":
                scopes[-1][name], self.slots[unique] = Operand("storage", unique), {}
            else:
                self.program.place(unique, space, size, align)
                scopes[-1][name] = Operand("symbol", unique)
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

    def _instruction(self, scopes, end_label, tables):
        m, first = self.m, self.m.look()
        guard, negate = None, False
        if m.maybe("@"):
            negate = m.maybe("!")
            guard = self._name(m.take(kind="name"), scopes).value
        opcode = m.take(kind="name")
        words = opcode.text.split(".")
        if not opcode.text[0].isalpha():
            m.at -= 1
            m.fail("an instruction")
        if words[0] == "call":
            return self._call(scopes, guard)
        operands = []
        if m.look().text != ";":
            operands.append(self._operand(scopes))
            while m.maybe(","):
                operands.append(self._operand(scopes))
        last = m.take(";")
        text = " ".join(m.text[first.at:last.at].split())
        if words[0] == "ret" and end_label:
            words, operands = ["bra"], [Operand("label", "}", (end_label,))]
        if words[0] == "brx":
            operands[1] = Operand("vec", [Operand("label", t, _chain(scopes)) for t in tables[operands[1].value]])
        emit = Instruction(words, operands, guard, negate, first.at, text)
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

    def _call(self, scopes, guard):
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
        self.calls.append(start)
        self.body(start, [self.scope(scope)], scope["{"])
        self.calls[self.calls.index(start)] = None
        self.program.labels[scope["{"], "}"] = len(self.program.code)

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

    def _name(self, token, scopes) -> Operand:
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
        return Operand("label", text, _chain(scopes))

    def _operand(self, scopes) -> Operand:
        m = self.m
        token = m.look()
        m.at += 1
        if token.kind == "number":
            return _number(token.text)
        if token.text == "{":
            parts = []
            while not m.maybe("}"):
                parts.append(self._operand(scopes))
                m.maybe(",")
            return Operand("vec", parts)
        if token.text == "[":
            return self._memory(scopes)
        if token.text == "!":
            return Operand("not", self._name(m.take(kind="name"), scopes).value)
        if token.kind != "name":
            m.at -= 1
            m.fail("an operand")
        operand = self._name(token, scopes)
        if m.maybe("|"):
            return Operand("pair", [operand, self._operand(scopes)])
        if operand.kind == "symbol" and (m.look().text == "+" or m.look().text[0] == "-"):
            return operand._replace(more=self._offset())
        return operand

    def _memory(self, scopes):
        m = self.m
        base = self._operand(scopes)
        offset = (base.more or 0) if base.kind == "symbol" else 0
        if m.look().text == "+" or m.look().text[0] == "-":
            offset += self._offset()
        rest = []
        while m.maybe(","):
            rest.append(self._operand(scopes))
        m.take("]")
        if base.kind == "symbol":
            base = base._replace(more=None)
        return Operand("mem", base, (offset, rest))

    def _offset(self) -> int:
        self.m.maybe("+")
        return self.m.number()


def _chain(scopes) -> tuple:
    """The scopes around a place, innermost first."""
    return tuple(scope["{"] for scope in reversed(scopes))


def _number(text: str) -> Operand:
    if text[:2] in ("0f", "0F"):
        return Operand("float", int(text[2:], 16), 4)
    if text[:2] in ("0d", "0D"):
        return Operand("float", int(text[2:], 16), 8)
    return Operand("int", int(text.rstrip("U"), 0))


def program(module: Module, name: str) -> Program:
    """The flat program of the entry ``name``."""
    if name not in module.entries:
        raise PtxError(f"{module.file}: expected an entry {name}; there is {', '.join(module.entries) or 'none'}")
    return Flattener(module, name).program

"""A program made ready to run: one step (a closure) an instruction, one slot an array view or a constant."""
from __future__ import annotations

import collections
import functools
import itertools

import numpy as np

from . import copies, floating, integer, matrix, memory, movement, warp  # noqa: F401  (each enters its rows)
from .parse import BYTES, Operand, Program, PtxError
from .table import DTYPE, TABLE, kind_of, match

PLAIN, BRANCH, TABLE_BRANCH, EXIT, WAIT, WARP = range(6)
KINDS = {"bra": BRANCH, "brx": TABLE_BRANCH, "ret": EXIT, "exit": EXIT, "bar": WAIT, "barrier": WAIT, "bar.warp": WARP,
         "mbarrier.test_wait": WAIT, "mbarrier.try_wait": WAIT,
         **dict.fromkeys(("shfl", "vote", "match", "redux", "mma", "ldmatrix", "stmatrix", "movmatrix", "elect", "wgmma"), WARP)}
GRAINED = {"ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "mbarrier", "wgmma"}


class Code:
    """A program ready to run on a device. ``globals_``: addresses of the module's variables."""

    def __init__(self, module, program: Program, globals_: dict):
        self.module, self.program, self.globals, self.instructions = module, program, globals_, program.code
        self.slots, self.recipe, self.at, self.i = {}, [], 0, None           # recipe: (register or None, array kind or constant)
        self.executed = np.zeros(len(program.code), bool)
        self.members: dict[int, int] = {}                    # warp instruction -> slot of its member mask
        self.targets: dict[int, list] = {}                   # instruction -> slots that it writes
        self.names = {i.words[0] for i in program.code}
        self.grains = {space: self._grain(space) for space in ("shared", "global")}
        self.steps, self.kinds, self.guards = [], [], []
        for self.at, self.i in enumerate(program.code):
            self.kinds.append(KINDS.get(".".join(self.i.words[:2]), KINDS.get(self.i.words[0], PLAIN)))
            self.guards.append(None if self.i.guard is None else (self.slot(self.i.guard, "bool"), self.i.negate))
            self.steps.append(self._step(self.i, self.kinds[-1]))
        kinds = ["bool" if size == 1 and name[0] != "_" or name == "_cc" else f"u{size}" for name, size in program.registers]
        self.widths = collections.Counter(kinds)             # registers of each width, and where each lies among them
        counts = {kind: itertools.count() for kind in self.widths}
        self.rows = rows = [(kind, next(counts[kind])) for kind in kinds]
        self.places = [(None, kind) if r is None else ((rows[r][0], kind), rows[r][1]) for r, kind in self.recipe]
        self.seen = {seen for seen, _ in self.places} - {None}
        self.uses = None if "wgmma" not in self.names else [
            {r for o in i.operands for r in _registers(o)} if i.words[0] != "wgmma" else set() for i in program.code]
        self.uniform = not self.names & {"mbarrier", "wgmma"} and not any(
            {"warp", "arrive", "cluster"} & set(i.words) or len(i.operands) > 1 for i in program.code if i.words[0] in ("bar", "barrier", "mapa"))

    def line(self, instruction) -> int:
        return self.module.line(instruction.at)

    def place(self, instruction) -> str:
        """Line and text of an instruction, and its line in the source where the PTX has ``.loc``."""
        file, line = instruction.source or (None, 0)
        source = f" ({self.module.sources.get(file, file)}:{line})" if instruction.source else ""
        return f"line {self.line(instruction)} `{instruction.text}`{source}"

    def fail(self, what: str):
        raise PtxError(f"{self.program.file}:{self.line(self.i)}: {what}; got `{self.i.text}`")

    def _grain(self, space) -> int:
        """The narrowest access to a space: the size of a cell of its shadow."""
        least = 4
        for i in self.program.code:
            if i.words[0] in GRAINED and BYTES.get(i.words[-1], 4) < least:
                named = {word.split("::")[0] for word in i.words[1:]} & {"shared", "global", "param", "local", "const"}
                least = BYTES[i.words[-1]] if space in named or not named else least
        return least

    # ---- Operands ----

    def slot(self, register: int | None, kind) -> int:
        """Where machines keep a view of a register (or a constant, without one)."""
        if register is None or (register, kind) not in self.slots:
            self.recipe.append((register, kind))
        return len(self.recipe) - 1 if register is None else self.slots.setdefault((register, kind), len(self.recipe) - 1)

    def hidden(self, name: str, size: int) -> int:
        """A register that the text does not have."""
        if name not in self.program.hidden:
            self.program.hidden[name] = self.program.register(name, size)
        return self.program.hidden[name]

    def address_of(self, operand) -> int:
        if operand.kind == "param":
            return memory.PARAM + operand.value + operand.more
        place = self.program.variables.get(operand.value)
        return (place[1] if place else self.globals[operand.value]) + operand.more

    def source(self, operand, type_: str) -> int:
        """The slot of an operand read as ``type_``: a register, a number, an address."""
        kind = kind_of(type_)
        if operand.kind != "reg":
            return self.slot(None, self._number(operand, type_, DTYPE[kind], "x" in kind))
        name, size = self.program.registers[operand.value]
        return self.slot(operand.value, kind) if size >= BYTES[type_] else self.fail(f"{name} must have {BYTES[type_]} bytes")

    def _number(self, operand, type_, dtype, packed):
        if operand.kind in ("symbol", "param"):
            return dtype.type(self.address_of(operand))
        if operand.kind == "float":
            value = np.array([operand.value], f"u{operand.more}").view(f"f{operand.more}")
            return (value.astype(dtype) if dtype.kind == "f" and not packed else value.view(dtype))[0]
        if operand.kind != "int":
            self.fail(f"a {type_} operand expected, not a {operand.kind}")
        if dtype.kind in "fb" and not packed:
            return dtype.type(operand.value)
        bits = np.frombuffer((operand.value & (1 << 8 * BYTES[type_]) - 1).to_bytes(BYTES[type_], "little"), dtype)
        return bits if packed else bits[0]

    def target(self, operand, type_: str) -> int:
        """The slot that a result of ``type_`` is written to; wider registers get it extended."""
        if operand.kind == "sink":
            return self.slot(self.hidden(f"_{type_}", BYTES[type_]), kind_of(type_))
        if operand.kind != "reg":
            self.fail("the destination must be a register")
        (name, size), kind = self.program.registers[operand.value], kind_of(type_)
        if size < BYTES[type_] or size > BYTES[type_] and kind[0] == "f":
            self.fail(f"{name} is {'narrower' if size < BYTES[type_] else 'wider'} than {type_}")
        return self.slot(operand.value, kind if size == BYTES[type_] or kind == "bool" else kind[0] + str(8 * size))

    def getter(self, operand, word: str):
        """A function of (V, c) that gives an operand's value in the active lanes; None for one that is missing."""
        word = word.rstrip("?")
        if operand is None:
            return lambda V, c: None
        if word == "@":
            return self._address(operand)
        if word == "#":
            return (lambda V, c: operand.value) if operand.kind == "int" else self.fail("an integer expected")
        if word == "box":
            coordinates, at = [self.getter(part, "s32") for part in operand.rest[0].value], self._address(operand)
            return lambda V, c: (at(V, c), [part(V, c) for part in coordinates])
        if word[0] in "[{":
            parts = [self.getter(part, self._part(operand, word)) for part in operand.parts]
            return lambda V, c: [part(V, c) for part in parts]
        if word == "*":
            word = f"b{8 * self.program.registers[operand.value][1]}" if operand.kind == "reg" else "b32"
        if operand.kind == "not":
            slot = self.slot(operand.value, "bool")
            return lambda V, c: ~c.active(V[slot])
        slot = self.source(operand, {"members": "u32", "cc": "pred"}.get(word, word))
        if word == "members":
            self.members[self.at] = slot
        return lambda V, c: c.active(V[slot])

    @staticmethod
    def _part(operand, word: str) -> str:
        """The type of a register in braces."""
        return word.strip("[]{}") if word[0] != "{" else f"b{8 * BYTES[word[1:-1]] // len(operand.parts)}"

    def _address(self, operand):
        """The active lanes' addresses, as int64."""
        if operand.kind != "mem":
            self.fail("a memory operand [register+offset] expected")
        base = operand.value
        if base.kind != "reg":
            fixed = base.value if base.kind == "int" else self.address_of(base)
            return lambda V, c: np.full(c.n, fixed, np.int64)
        slot, offset = self.source(base, "s64" if self.program.registers[base.value][1] == 8 else "u32"), base.more
        return lambda V, c: c.active(V[slot]).astype(np.int64, copy=False) + offset

    # ---- Steps ----

    def _step(self, i, kind):
        if kind == BRANCH:
            return i.operands[0].value
        if kind == TABLE_BRANCH:
            return self.source(i.operands[0], "u32"), np.array([o.value for o in i.operands[1].value], np.int32)
        return None if kind == EXIT else self._build(i)

    def _build(self, i):
        """The step of an instruction. Raises PtxError for an opcode or modifier that no row has."""
        fits, why = match(i.opcode, tuple((o.kind if o.kind in ("vec", "pair") else "", len(o.parts)) for o in i.operands))
        for row, found, outs, ins, missing in fits:
            if row.function is None:
                return lambda V, c: None
            carry = [Operand("reg", self.hidden("_cc", 1))] if "cc" in (*outs, *ins) else []
            first, read = i.operands[:bool(outs)], i.operands[bool(outs):] + carry * ("cc" in ins)
            written = (first[0].parts if first and first[0].kind == "pair" else first) + carry * ("cc" in outs)
            if row.how == "act":
                read = first * (row.ins[:1] == ["+"]) + read
                for n in missing:
                    read.insert(n, None)
                return self._acting(row.function, found, list(zip(written, outs)), list(zip(read, ins)))
            function = row.function if row.how == "plain" else functools.partial(row.function, found) if row.how == "given" else row.function(found)
            if function is not None:
                return self._elementwise(function, self.target(written[0], outs[0]), [self.source(*pair) for pair in zip(read, ins)], "x" in outs[0])
        known = "; ".join(each.pattern for each in TABLE.get(i.words[0], ())) or "no row of that name"
        self.fail(why or f"unknown opcode or modifier {i.opcode} (the table has: {known})")

    def _elementwise(self, function, target: int, sources: list[int], packed: bool):
        """A step that writes ``function(*sources)`` to the active lanes of ``target``."""
        if isinstance(function, np.ufunc) and not packed and len(sources) == 2:
            a, b = sources
            return lambda V, c: function(V[a], V[b], out=V[target], where=c.where)

        def step(V, c):
            where = c.where if c.where is True or not packed else c.where[:, None]
            np.copyto(V[target], function(*[V[s] for s in sources]), where=where, casting="unsafe")
        return step

    def _acting(self, function, found: dict, outs: list, ins: list):
        """A step that gives ``function`` the operands ``ins`` of the active lanes and writes what it returns; both: (operand, type)."""
        gets = [self.getter(*each) for each in ins]
        for operand, word in (*outs, *ins):
            if "vec" in found and word[0] == "[" and word[-1] == "]" and len(operand.parts) != int(found["vec"][1:]):
                self.fail(f"a vector of {found['vec'][1:]} expected")
        pairs = [(part, self._part(o, word) if word[0] in "[{" else word.replace("cc", "pred")) for o, word in outs for part in o.parts]
        self.targets[self.at] = targets = [None if operand.kind == "sink" else self.target(operand, word) for operand, word in pairs]

        def step(V, c):
            results = function(c, found, *[get(V, c) for get in gets])
            for target, value in zip(targets, results if results is not None else ()):
                if target is not None:
                    c.put(target, value)
        return step


def _registers(operand):
    """The registers an operand names."""
    inner = [operand.value] if operand.kind == "mem" else operand.value if operand.kind in ("vec", "pair") else ()
    return [operand.value] if operand.kind in ("reg", "not") else [r for o in inner for r in _registers(o)]

"""A program made ready to run: one step (a closure) an instruction, one slot an array view or a constant."""
from __future__ import annotations

import collections
import copy
import functools
from typing import Any, NamedTuple

import numpy as np

from . import (bulk, copies, floating, integer, matrix, memory, movement, registers,         # noqa: F401
               targets, warp)                    # all but memory and targets enter their rows
from .parse import BYTES, PtxProgram, PtxError
from .table import DTYPE, TABLE, kind_of, match

PLAIN, BRANCH, TABLE_BRANCH, EXIT, WAIT, WARP, WARP_WAIT = range(7)
KINDS = {"bra": BRANCH, "brx": TABLE_BRANCH, "ret": EXIT, "exit": EXIT, "bar": WAIT, "barrier": WAIT,
         "bar.warp": WARP, "mbarrier.test_wait": WAIT, "mbarrier.try_wait": WAIT, "setmaxnreg": WARP_WAIT,
         **dict.fromkeys(("shfl", "vote", "match", "redux", "mma", "ldmatrix", "stmatrix",
                          "movmatrix", "elect", "wgmma"), WARP)}
WARPGROUPS = {"wgmma", "setmaxnreg"}             # what four warps execute together
WIDTHS = {type_: "bool" if type_ == "pred" else f"u{size}" for type_, size in BYTES.items()}
CARRY = -2, "pred"                               # as an operand
GRAINED = {"ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "mbarrier", "wgmma"}
SPACES = {"shared", "global", "param", "local", "const"}


class InstructionForm(NamedTuple):
    """Semantics of an opcode with as many operands. ``function`` (None: nothing) makes from
    ``ins`` what goes to ``outs``, both as (number of an operand, type; -1: none, -2: the carry); with
    ``found``, its labelled words, where it acts on the machine."""
    function: Any = None
    found: dict | None = None
    outs: list = []
    ins: list = []


class Code:
    """A program ready to run on a device. ``globals_``: addresses of the module's variables."""

    def __init__(self, module, program: PtxProgram, globals_: dict):
        targets.check(module, program)
        self.module, self.program, self.instructions = module, program, program.code
        # (register, array kind) -> slot; what slots are: that, or (None, constant)
        self.slots, self.recipe = {}, []
        self.moved: dict[int, tuple] = {}                    # slot -> (variable, type) of the module
        self.shared = set()                                  # slots of addresses of shared memory
        self.members: dict[int, int] = {}                    # warp instruction -> slot of its member mask
        self.masked = set()                                  # those whose mask is not the constant -1
        self.targets: dict[int, list] = {}                   # instruction -> slots that it writes
        self.written = set(program.specials.values())        # registers that something sets
        self.steps, self.kinds, self.guards = [], [], []
        self.addresses = {v: at + memory.PARAM * (space == "param")
                          for v, (space, at) in program.variables.items()}
        for self.at, self.i in enumerate(program.code):
            words = self.i.words
            self.kinds.append(KINDS.get(".".join(words[:2]), KINDS.get(words[0], PLAIN)))
            self.guards.append(
                None if self.i.guard is None else (self.slot(self.i.guard, "bool"), self.i.negate))
            self.steps.append(self._step(self.i, self.kinds[-1]))
        self._refuse_unset()
        # registers of each width, and where each lies among them
        self.widths, self.rows = collections.Counter(), {}
        for r in dict.fromkeys([r for r, _ in self.slots] + list(program.specials.values())):
            width = WIDTHS[program.registers[r][1]]
            self.rows[r] = width, self.widths[width]
            self.widths[width] += 1
        rows = self.rows
        self.places = [(None, kind) if r is None else ((rows[r][0], kind), rows[r][1])
                       for r, kind in self.recipe]
        self.seen = {seen for seen, _ in self.places} - {None}
        self._survey()
        self._settle(globals_)

    def _settle(self, globals_: dict):
        """Nothing has run, and the module's variables lie here."""
        self.executed, self.jumped = np.zeros((2, len(self.instructions)), bool)
        if globals_:
            self.places = self.places[:]
        for slot, (operand, type_) in self.moved.items() if globals_ else ():
            self.places[slot] = None, _number(globals_[operand.value] + operand.more, BYTES[type_], type_)

    def on(self, globals_: dict) -> "Code":
        """The same on a device, which shares what is decoded with others."""
        other = copy.copy(self)
        other._settle(globals_)
        return other

    def _survey(self):
        """What the program uses, so that machines keep no account of the rest."""
        program = self.program
        names = {i.words[0] for i in program.code}
        self.uses, self.unit = None, 128 if names & WARPGROUPS else 32       # lanes that stay whole
        if "wgmma" in names:
            self.uses = [set() if i.words[0] == "wgmma" else self._named(at)
                         for at, i in enumerate(program.code)]
        self.proxies = "wgmma" in names or any(i.words[:3] == ["cp", "async", "bulk"] for i in program.code)
        self.uniform = not names & {"mbarrier", *WARPGROUPS} and not any(
            {"warp", "arrive", "cluster"} & set(i.words) or len(i.operands) > 1 for i in program.code
            if i.words[0] in ("bar", "barrier", "mapa"))
        narrow = [(BYTES[i.words[-1]], {word.split("::")[0] for word in i.words} & SPACES)
                  for i in program.code if i.words[0] in GRAINED and BYTES.get(i.words[-1], 4) < 4]
        self.grains = {space: min((size for size, named in narrow if space in named or not named), default=4)
                       for space in ("shared", "global")}

    def line(self, instruction) -> int:
        return self.module.line(instruction.at)

    def place(self, instruction) -> str:
        """Line and text of an instruction, and its line in the source where the PTX has ``.loc``."""
        file, line = instruction.source or (None, 0)
        source = f" ({self.module.sources.get(file, file)}:{line})" if instruction.source else ""
        return f"line {self.line(instruction)} `{instruction.text}`{source}"

    @property
    def fraction(self) -> float:
        """The share of its instructions that have run at least once."""
        return float(self.executed.mean()) if len(self.executed) else 0.0

    def uncovered(self) -> list[str]:
        """Line and text of every instruction that has not run."""
        return [f"{self.program.file}:{self.line(i)}: {i.text}"
                for i, ran in zip(self.instructions, self.executed) if not ran]

    def fail(self, what: str):
        raise PtxError(f"{self.program.file}:{self.line(self.i)}: {what}; got `{self.i.text}`")

    # ---- Operands ----

    def slot(self, register: int, kind: str) -> int:
        """Where machines keep a view of a register."""
        found = self.slots.get((register, kind))
        if found is None:
            found = self.slots[register, kind] = len(self.recipe)
            self.recipe.append((register, kind))
        return found

    def source(self, operand, type_: str) -> int:
        """The slot of an operand read as ``type_``: a register, a number, an address."""
        if operand.kind != "reg":
            self.recipe.append((None, self._constant(operand, type_)))
            return len(self.recipe) - 1
        name, own = self.program.registers[operand.value]
        return (self.slot(operand.value, kind_of(type_)) if BYTES[own] >= BYTES[type_]
                else self.fail(f"{name} must have {BYTES[type_]} bytes"))

    def _constant(self, operand, type_):
        """A number or an address; of a packed type as an array of its parts."""
        if operand.kind not in ("symbol", "float", "int"):
            self.fail(f"a {type_} operand expected, not a {operand.kind}")
        if operand.kind != "symbol":
            return _number(operand.value, operand.more or BYTES[type_], type_, operand.kind == "float")
        if operand.value in self.addresses:
            if self.program.variables[operand.value][0] == "shared":
                self.shared.add(len(self.recipe))
            return _number(self.addresses[operand.value] + operand.more, BYTES[type_], type_)
        self.moved[len(self.recipe)] = operand, type_        # each device has it elsewhere

    def target(self, operand, type_: str) -> int:
        """The slot that a result of ``type_`` is written to; wider registers get it extended."""
        operand = self.program.special(f"_{type_}", type_) if operand.kind == "sink" else operand
        if operand.kind != "reg":
            self.fail("the destination must be a register")
        (name, own), kind, need = self.program.registers[operand.value], kind_of(type_), BYTES[type_]
        if BYTES[own] < need or BYTES[own] > need and kind[0] == "f":
            self.fail(f"{name} is {'narrower' if BYTES[own] < need else 'wider'} than {type_}")
        self.written.add(operand.value)
        return self.slot(operand.value,
                         kind if BYTES[own] == need or kind == "bool" else f"{kind[0]}{8 * BYTES[own]}")

    def getter(self, operand, word: str):
        """A function of (V, c) that gives an operand's value in the active lanes;
        None for one that is missing."""
        word, registers = word.rstrip("?"), self.program.registers
        if operand is None:
            return lambda V, c: None
        if word == "#":
            return (lambda V, c: operand.value) if operand.kind == "int" else self.fail("an integer expected")
        if word in ("@", "box") and operand.kind != "mem":
            self.fail("a memory operand [register+offset] expected")
        if word == "box":
            at, coordinates = self.getter(operand, "@"), self.getter(operand.rest[0], "[s32]")
            return lambda V, c: (at(V, c), coordinates(V, c))
        if word == "@":                                      # as int64
            base, wide = (operand.value,
                          operand.value.kind != "reg" or BYTES[registers[operand.value.value][1]] == 8)
            slot, offset = self.source(base, "s64" if wide else "u32"), base.more if base.kind == "reg" else 0
            return lambda V, c: c.active(V[slot]).astype(np.int64, copy=False) + offset
        if word[0] in "[{":
            parts = [self.getter(*part) for part in _parts(operand, word)]
            return lambda V, c: [part(V, c) for part in parts]
        if operand.kind == "not":
            slot = self.slot(operand.value, "bool")
            return lambda V, c: ~c.active(V[slot])
        if word == "*":
            word = f"b{8 * BYTES[registers[operand.value][1]]}" if operand.kind == "reg" else "b32"
        slot = self.source(operand, "u32" if word == "members" else word)
        if word == "members":
            self.members[self.at] = slot
            if self.recipe[slot] != (None, 0xFFFFFFFF):
                self.masked.add(self.at)
        return lambda V, c: c.active(V[slot])

    # ---- Steps ----

    def _refuse_unset(self):
        """An instruction that names a register which no instruction sets is a fault when it runs."""
        unset = {register for register, _ in self.slots} - self.written
        for at, i in enumerate(self.instructions) if unset else ():
            for register in unset.intersection(self._named(at)):
                what = f"reads {self.program.registers[register][0]}, which no instruction sets"
                self.steps[at] = lambda V, c, what=what: c.fault("unset register", what, c.lanes())
                self.kinds[at] = PLAIN
                if register == i.guard:
                    self.guards[at] = None

    def _named(self, at: int) -> set:
        """The registers that an instruction reads or writes."""
        i = self.instructions[at]
        found = {i.guard} - {None}
        if self.kinds[at] == TABLE_BRANCH:
            return found.union(_registers(i.operands[0]))
        form = InstructionForm() if self.kinds[at] in (BRANCH, EXIT) else self._form(i)
        if form.function:
            found.update(r for o in i.operands for r in _registers(o))
            found.update({self.program.specials["_cc"]} if CARRY in form.outs + form.ins else ())
        return found

    def _step(self, i, kind):
        """What the machine does at an instruction. Raises PtxError for an opcode
        or modifier that no row has."""
        if kind == BRANCH:
            return i.operands[0].value
        if kind == TABLE_BRANCH:
            return (self.source(i.operands[0], "u32"),
                    np.array([o.value for o in i.operands[1].parts], np.int32))
        if kind == EXIT:
            return None
        operands = _operands(i)
        function, found, outs, ins = self._form(i)
        if function is None:
            return lambda V, c: None
        carry = self.program.special("_cc", "pred") if CARRY in outs or CARRY in ins else None
        operands += carry, None
        if found is not None:
            return self._acting(function, found, [(operands[place], word) for place, word in outs],
                                [(operands[place], word) for place, word in ins])
        place, word = outs[0]
        return self._elementwise(function, self.target(operands[place], word),
                                 [self.source(operands[place], each) for place, each in ins], "x" in word)

    def _form(self, i) -> InstructionForm:
        braces = tuple([o.kind == "vec" for o in _operands(i)])
        written = len(i.operands[0].value) if i.operands and i.operands[0].kind == "pair" else 1
        form, why = _form_of(".".join(i.words), min(written, len(braces)), braces)
        if form:
            return form
        known = "; ".join(each.pattern for each in TABLE.get(i.words[0], ())) or "no row of that name"
        self.fail(why or f"unknown opcode or modifier {i.opcode} (the table has: {known})")

    def _elementwise(self, function, target: int, sources: list[int], packed: bool):
        """A step that writes ``function(*sources)`` to the active lanes of ``target``."""
        if isinstance(function, np.ufunc) and not packed and len(sources) == 2:
            a, b = sources
            return lambda V, c: function(V[a], V[b], out=V[target], where=c.where)

        constant = [self.recipe[s][0] is None and s not in self.shared for s in sources]

        def step(V, c):
            if 4 * c.n < c.L:                                # of a few lanes only
                lanes = c.lanes()
                V[target][lanes] = function(*[V[s] if one or np.ndim(V[s]) == 0 else V[s][lanes]
                                              for s, one in zip(sources, constant)])
                return
            where = c.where if c.where is True or not packed else c.where[:, None]
            np.copyto(V[target], function(*[V[s] for s in sources]), where=where, casting="unsafe")
        return step

    def _acting(self, function, found: dict, outs: list, ins: list):
        """A step that gives ``function`` the operands ``ins`` of the active lanes and writes what
        it returns; both: (operand, type)."""
        gets = [self.getter(*each) for each in ins]
        if "vec" in found and any(operand and word[0] == "[" and len(operand.parts) != int(found["vec"][1:])
                                  for operand, word in outs + ins):
            self.fail(f"a vector of {found['vec'][1:]} expected")
        self.targets[self.at] = targets = [self.target(*part) for each in outs for part in _parts(*each)]

        def step(V, c):
            results = function(c, found, *[get(V, c) for get in gets])
            for target, value in zip(targets, results if results is not None else ()):
                c.put(target, value)
        return step


@functools.lru_cache(maxsize=4096)
def _form_of(opcode: str, written: int, braces: tuple) -> tuple:
    """The form of an opcode with so many operands, or None, and why not: ``match`` has the arguments."""
    fits, why = match(opcode, written, braces)
    for row, found, outs, ins in fits:
        if row.function is None:
            return InstructionForm(), None
        if row.how == "act":
            return InstructionForm(row.function, found, outs, ins), None
        function = (row.function if row.how == "plain" else functools.partial(row.function, found)
                    if row.how == "given" else row.function(found))
        if function is not None:
            return InstructionForm(function, None, outs, ins), None
    return None, why


@functools.lru_cache(maxsize=1 << 14)
def _number(value: int, size: int, type_: str, is_float=False):
    """A number of ``size`` bytes, or the bits of a float, as operations take it."""
    dtype, packed = DTYPE[kind_of(type_)], "x" in kind_of(type_)
    raw = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    if dtype.kind in "fb" and not packed:
        return dtype.type(np.frombuffer(raw, f"f{size}")[0] if is_float else value)
    return np.frombuffer(raw, dtype) if packed else np.frombuffer(raw, dtype)[0]


def _operands(i) -> list:
    """Those of an instruction, the first two of which may stand as a pair."""
    first = i.operands[0].value if i.operands and i.operands[0].kind == "pair" else i.operands[:1]
    return [*first, *i.operands[1:]]


def _registers(operand):
    """The registers in an operand."""
    kind, value, _, rest = operand
    if kind in ("reg", "not"):
        return (value,)
    parts = value if kind in ("vec", "pair") else (value, *rest) if kind == "mem" else ()
    return [r for o in parts for r in _registers(o)]


def _parts(operand, word: str) -> list:
    """An operand in braces as [(register, type)]."""
    type_ = f"b{8 * BYTES[word[1:-1]] // len(operand.parts)}" if word[0] == "{" else word.strip("[]")
    return [(part, type_) for part in operand.parts]

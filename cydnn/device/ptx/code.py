"""A program made ready to run: one step (a closure) an instruction, one slot an array view or a constant."""
from __future__ import annotations

import collections
import itertools

import numpy as np

from . import copies, floating, integer, matrix, memory, movement, warp  # noqa: F401  (each enters its rows)
from .parse import BYTES
from .program import Operand, Program
from .table import Op, build

PLAIN, BRANCH, TABLE_BRANCH, EXIT, WAIT, WARP = range(6)
KINDS = {"bra": BRANCH, "brx": TABLE_BRANCH, "ret": EXIT, "exit": EXIT, "bar": WAIT, "barrier": WAIT, "bar.warp": WARP,
         "mbarrier.test_wait": WAIT, "mbarrier.try_wait": WAIT,
         **dict.fromkeys(("shfl", "vote", "match", "redux", "mma", "ldmatrix", "stmatrix", "movmatrix", "elect", "wgmma"), WARP)}
GRAINED = {"ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "mbarrier", "wgmma"}


class Code:
    """A program ready to run on a device. ``globals_``: addresses of the module's variables."""

    def __init__(self, module, program: Program, globals_: dict):
        self.module, self.program, self.globals, self.instructions = module, program, globals_, program.code
        self.slots, self.recipe, self.at = {}, [], 0         # recipe: (register or None, array kind or constant)
        self.executed = np.zeros(len(program.code), bool)
        self.members: dict[int, int] = {}                    # warp instruction -> slot of its member mask
        self.targets: dict[int, list] = {}                   # instruction -> slots that it writes
        self.names = {i.words[0] for i in program.code}
        self.grains = {space: self._grain(space) for space in ("shared", "global")}
        self.steps, self.kinds, self.guards = [], [], []
        for self.at, i in enumerate(program.code):
            self.kinds.append(KINDS.get(".".join(i.words[:2]), KINDS.get(i.words[0], PLAIN)))
            self.guards.append(None if i.guard is None else (self.slot(i.guard, "bool"), i.negate))
            self.steps.append(self._step(Op(self, i), self.kinds[-1]))
        kinds = ["bool" if size == 1 and name[0] != "_" or name == "_cc" else f"u{size}" for name, size in program.registers]
        self.widths = collections.Counter(kinds)             # registers of each width, and where each lies among them
        counts = {kind: itertools.count() for kind in self.widths}
        self.rows = rows = [(kind, next(counts[kind])) for kind in kinds]
        self.places = [(None, kind) if r is None else ((rows[r][0], kind), rows[r][1]) for r, kind in self.recipe]
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

    @property
    def carry(self) -> Operand:
        return Operand("reg", self.hidden("_cc", 1))

    def address_of(self, operand) -> int:
        if operand.kind == "param":
            return memory.PARAM + operand.value + operand.more
        place = self.program.variables.get(operand.value)
        return (place[1] if place else self.globals[operand.value]) + operand.more

    def _step(self, op, kind):
        if kind == BRANCH:
            return op.operands[0].value
        if kind == TABLE_BRANCH:
            return op.source(op.operands[0], "u32"), np.array([o.value for o in op.operands[1].value], np.int32)
        return None if kind == EXIT else build(op)

    def _grain(self, space) -> int:
        """The narrowest access to a space: the size of a cell of its shadow."""
        least = 4
        for i in self.program.code:
            if i.words[0] in GRAINED and BYTES.get(i.words[-1], 4) < least:
                named = {word.split("::")[0] for word in i.words[1:]} & {"shared", "global", "param", "local", "const"}
                least = BYTES[i.words[-1]] if space in named or not named else least
        return least


def _registers(operand):
    """The registers an operand names."""
    inner = [operand.value] if operand.kind == "mem" else operand.value if operand.kind in ("vec", "pair") else ()
    return [operand.value] if operand.kind in ("reg", "not") else [r for o in inner for r in _registers(o)]

"""A program made ready to run: one step (a closure) an instruction, one slot an array view or a constant."""
from __future__ import annotations

import numpy as np

from . import asynchronous, convert, floating, integer, movement, tensor, warp, wgmma  # noqa: F401  (each enters its rows)
from . import memory as memories
from .parse import BYTES
from .program import Program
from .table import Op, build

PLAIN, BRANCH, TABLE_BRANCH, EXIT, BARRIER, WARP = range(6)
KINDS = {"bra": BRANCH, "brx": TABLE_BRANCH, "ret": EXIT, "exit": EXIT, "shfl": WARP, "vote": WARP, "match": WARP, "redux": WARP,
         "mma": WARP, "ldmatrix": WARP, "stmatrix": WARP, "movmatrix": WARP, "elect": WARP, "wgmma": WARP}
GRAINED = {"ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "mbarrier", "wgmma"}


class Code:
    """A program ready to run on a device."""

    def __init__(self, module, program: Program, globals_: dict):
        self.module, self.program, self.globals = module, program, globals_
        self.slots, self.recipe, self.sinks = {}, [], {}
        self.instructions = program.code
        self.executed = np.zeros(len(program.code), bool)
        self.steps, self.kinds, self.guards = [], [], []
        self.shared_grain, self.global_grain = self._grains()
        self.members: dict[int, int] = {}        # warp instruction -> slot of its member mask
        self.reductions: dict[int, tuple] = {}   # barrier with a reduction -> how
        for i in program.code:
            self.kinds.append(self._kind(i))
            self.guards.append(None if i.guard is None else (self.slot(i.guard, "bool"), i.negate))
            self.steps.append(self._step(i))
        names = {i.words[0] for i in program.code}
        self.uses = None if "wgmma" not in names else [{r for o in i.operands for r in _registers(o)} if i.words[0] != "wgmma" else set()
                                                       for i in program.code]
        self.uniform = "cluster" not in {w for i in program.code for w in i.words} and not names & {"mbarrier", "wgmma"} and not any(
            i.words[:2] in (["bar", "warp"], ["bar", "arrive"], ["barrier", "arrive"]) or
            i.words[0] in ("bar", "barrier") and len(i.operands) > 1 for i in program.code)

    def line(self, instruction) -> int:
        return self.module.text.count("\n", 0, instruction.line) + 1

    def slot(self, register: int, kind: str) -> int:
        if (register, kind) not in self.slots:
            self.slots[register, kind] = len(self.recipe)
            self.recipe.append((register, kind))
        return self.slots[register, kind]

    def constant(self, value) -> int:
        self.recipe.append((None, value))
        return len(self.recipe) - 1

    def sink(self, program, size: int) -> int:
        return self.sinks.setdefault(size, program.register(f"_{size}", size)) if size not in self.sinks else self.sinks[size]

    def address_of(self, program, operand) -> int:
        if operand.kind == "param":
            return memories.PARAM + operand.value
        if operand.value in program.variables:
            return program.variables[operand.value][1] + (operand.more or 0)
        return self.globals[operand.value] + (operand.more or 0)

    def _kind(self, i):
        if i.words[0] in ("bar", "barrier") and i.words[1:2] != ["arrive"] and "warp" not in i.words and \
                not ("cluster" in i.words and "arrive" in i.words):
            return BARRIER
        if i.words[0] == "mbarrier" and i.words[1] in ("test_wait", "try_wait"):
            return BARRIER
        return WARP if i.words[:2] == ["bar", "warp"] else KINDS.get(i.words[0], PLAIN)

    def _step(self, i):
        kind, op = self.kinds[-1], Op(self.program, i, self)
        if kind == BRANCH:
            return i.operands[0].value
        if kind == TABLE_BRANCH:
            return op.source(i.operands[0], "u32"), np.array([o.value for o in i.operands[1].value], np.int32)
        return None if kind == EXIT else build(op)

    def _grains(self):
        """The narrowest access to shared and to global memory: the size of a cell of their shadows."""
        least = {"shared": 4, "global": 4}
        for i in self.program.code:
            words = i.words
            if words[0] not in GRAINED or words[-1] not in BYTES:
                continue
            spaces = [s for s in least if any(w.split("::")[0] == s for w in words[1:])] or \
                     ([] if any(w in ("param", "local", "const") for w in words) else list(least))
            for space in spaces:
                least[space] = min(least[space], BYTES[words[-1]])
        return least["shared"], least["global"]


def _registers(operand):
    """The registers an operand names."""
    if operand.kind in ("reg", "not"):
        return [operand.value]
    if operand.kind == "mem":
        return _registers(operand.value)
    return [r for o in operand.value for r in _registers(o)] if operand.kind in ("vec", "pair") else []

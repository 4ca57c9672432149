"""The bodies of the pointwise modes: kernels_src/pointwise/ops*.cu, compiled offline,
cut into pieces that can be pasted.

A body becomes text in which ``@r`` stands for the result and ``@0`` … for the arguments. Its registers
are renamed ``%o_…``, so that the registers of the kernel stay visible beside them; its labels are
local to the scope it is pasted in.
"""
from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .. import kernels
from ..status import InternalError

LIBRARIES = {                                    # (math, fast): first come, first served
    ("f32", False): ("pointwise_f32",), ("f32", True): ("pointwise_fast", "pointwise_f32"),
    ("f64", False): ("pointwise_f64",), ("f64", True): ("pointwise_f64",),
}
TARGET_SM = 75                                   # the oldest: what it has, all have
COUNTED = Path(__file__).with_name("instructions.json")

_FUNC = re.compile(r"^(?:\.visible |\.weak )?\.func .*?\b(\w+)\s*\(([^)]*)\)\s*\{\n(.*?)^\}\n", re.M | re.S)
_VARIABLE = re.compile(r"^\.(?:global|const) .*?\b(\w+)\[\d+\] = .*;\n", re.M)
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class DeviceFunction:
    """``pieces`` alternate between text and an argument's number (or "r");
    ``support`` names what must be in the module."""
    name: str
    parameters: int
    pieces: tuple
    support: tuple

    @property
    def instructions(self) -> int:
        """Of arithmetic, for an element: of what only chooses, most is known once literals are pasted."""
        chooses = (".reg", "mov.", "setp.", "selp.")
        return sum(line.endswith(";") and not line.startswith(chooses)
                   for line in "".join(self.pieces[::2]).splitlines())

    def paste(self, result: str, arguments) -> str:
        """The body in a scope, reading ``arguments`` (registers or literals)
        and leaving its value in ``result``."""
        named = lambda piece: result if piece == "r" else arguments[int(piece)]
        return "".join(named(piece) if i % 2 else piece for i, piece in enumerate(self.pieces))


class Library:
    """One image of functions: bodies by mode name, and the definitions they refer to, in their order."""

    def __init__(self, text: str):
        definitions = {m[1]: m[0] for m in _VARIABLE.finditer(text)}
        functions = {m[1]: m for m in _FUNC.finditer(text)}
        definitions.update({name: m[0] for name, m in functions.items() if not name.startswith("pw_")})
        self.definitions = definitions
        self.modes = {name[3:]: m for name, m in functions.items() if name.startswith("pw_")}

    @lru_cache(maxsize=None)
    def function(self, mode: str) -> DeviceFunction:
        match = self.modes[mode]
        name, count, body = match[1], match[2].count(".param"), match[3]
        if ".local" in body:
            raise InternalError(f"{name}: a body must have no local memory; see kernels_src/pointwise/ops.cu")
        lines = [line.strip() for line in body.splitlines()]
        body = "\n".join(line for line in lines if line and not line.startswith("//"))
        body = body.removesuffix("ret;").rstrip()
        if "ret;" in body:                       # the compiler put its last block before others
            body = body.replace("ret;", "bra.uni $L__end;") + "\n$L__end:"
        body = re.sub(r"%(\w)", r"%o_\1", body)
        kind = r"(\.[bf]\d+|\.u\d+)"
        body = re.sub(rf"ld\.param{kind}\s+(\S+), \[{name}_param_(\d+)\]", r"mov\1 \2, @\3@", body)
        body = re.sub(rf"st\.param{kind}\s+\[func_retval0(?:\+0)?\], (\S+);", r"mov\1 @r@, \2;", body)
        pieces = re.split(r"@(\d+|r)@", "{\n" + body + "\n}\n")
        return DeviceFunction(name, count, tuple(pieces), self._closure(body))

    def _closure(self, body: str) -> tuple:
        """Names of the definitions that a body needs, in the order of the library."""
        needed, queue = set(), [body]
        while queue:
            found = set(_WORDS.findall(queue.pop())) & self.definitions.keys() - needed
            needed |= found
            queue += [self.definitions[name] for name in found]
        return tuple(name for name in self.definitions if name in needed)


@lru_cache(maxsize=None)
def library(name: str) -> Library:
    """A library of the manifest, read once."""
    return Library(kernels.function(name).image_for(TARGET_SM).text().decode())


def find(mode: str, math: str, fast: bool) -> tuple[Library, DeviceFunction]:
    """The library that has a mode for this math type, and its function."""
    names = LIBRARIES[math, fast]
    for name in names:
        if mode in library(name).modes:
            return library(name), library(name).function(mode)
    raise InternalError(f"fusion: mode {mode} must be a function of {' or '.join(names)}; got none")


# ---- What an element costs, known without the bodies ----

@lru_cache(maxsize=None)
def _counted() -> dict:
    return json.loads(COUNTED.read_text())


def instructions(mode: str, math: str, fast: bool) -> int:
    """Instructions of a mode's body for an element, as ``counts`` found them: no body is read for a choice
    whose code is in a cache."""
    known = next(filter(None, (_counted()[name].get(mode) for name in LIBRARIES[math, fast])), None)
    return find(mode, math, fast)[1].instructions if known is None else known


def counts() -> dict:
    """{library: {mode: instructions of its body}}, for ``instructions.json``."""
    names = dict.fromkeys(name for found in LIBRARIES.values() for name in found)
    return {name: {mode: library(name).function(mode).instructions for mode in sorted(library(name).modes)}
            for name in names}

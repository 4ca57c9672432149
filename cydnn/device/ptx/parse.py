"""The text of a PTX file: its kernels and functions (where their bodies are) and its variables. Bodies are read by program.py."""
from __future__ import annotations

import re
from typing import NamedTuple

from ...status import NotSupported

BYTES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
         "f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8}
NAME = r"[%$_A-Za-z][\w$.]*"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
LEGAL = re.compile(r'(?:[\w\s%$.@!|{}()\[\],;:<>=+-]+|"[^"]*")*')
TOKEN = re.compile(rf'{NAME}|\.?-?\w+|"[^"]*"|\S')
LINKAGE = r"(?:\.(?:visible|extern|weak|common)\s+)*"
TOP = re.compile(rf"""\s*(?:\.version\s+(?P<version>\S+) | \.target\s+(?P<target>\w+)[^\n]* | \.(?:address_size|pragma|alias|loc)\b[^\n]* | ;
    | \.file\s+(?P<number>\d+)\s+"(?P<path>[^"]*)"[^\n]* | \.section\s+[\w.$]+\s*(?P<section>\{{)
    | {LINKAGE}\.(?P<kind>entry|func)\s*(?:\((?P<returns>[^)]*)\)\s*)?(?P<name>{NAME})\s*(?:\((?P<params>[^)]*)\))?(?P<limits>[^{{;]*)(?P<end>[{{;])
    | {LINKAGE}\.(?P<space>global|const|shared)\b(?P<what>[^;=]*)(?:=(?P<values>[^;]*))?;)""", re.X)


class PtxError(NotSupported):
    """The text is not PTX that the interpreter knows: file, line, token, and what was expected or is missing."""


class Function(NamedTuple):
    """A kernel or function: [(name, align, bytes)] in and out, performance directives, where the body starts."""
    params: list
    returns: list
    limits: dict
    start: int


class Module:
    """A PTX file. ``variables``: name -> (space, align, bytes, type, values)."""

    def __init__(self, text: str, file: str):
        self.file, self.version, self.target = file, "", ""
        self.text, self.plain = text, COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text).rstrip()
        self.entries, self.functions, self.variables, self.sources = {}, {}, {}, {}
        end = LEGAL.match(self.plain).end()
        if end < len(self.plain):
            self.fail("a PTX token", end, self.plain[end:end + 12].split("\n")[0])
        at = 0
        while at < len(self.plain):
            found = TOP.match(self.plain, at)
            if not found:
                self.fail("a directive such as .entry, .func or .global", at)
            at = self._top(found)

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
        elif "space" in given:
            name, align, size, type_ = self.declaration(given["what"], found.start("what"))
            values = re.findall(r"-?\w+", given.get("values", ""))
            self.variables[name] = (given["space"], align, size, type_, tuple(int(v.rstrip("U"), 0) for v in values))
        elif given.get("end") == "{":
            limits = {key: tuple(map(int, re.findall(r"\d+", values))) for key, values in re.findall(r"\.(\w+)([^.]*)", given["limits"])}
            params, returns = ([self.declaration(p, found.start("name"))[:3] for p in given.get(key, "").split(",") if p.strip()]
                               for key in ("params", "returns"))
            (self.entries if given["kind"] == "entry" else self.functions)[given["name"]] = Function(params, returns, limits, found.end())
        return self._behind(found.end()) if "section" in given or given.get("end") == "{" else found.end()

    def _behind(self, at: int) -> int:
        """Where the block that was opened before ``at`` ends."""
        depth = 1
        for brace in re.compile("[{}]").finditer(self.plain, at):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                return brace.end()
        self.fail("'}'", len(self.plain))

    def declaration(self, text: str, at: int) -> tuple:
        """``.align 8 .v2 .b8 name[16]`` as (name, align, bytes, type)."""
        found = re.fullmatch(r"((?:\s*\.\w+(?:\s+\d+\s)?)*)\s*([%$_A-Za-z][\w$]*)\s*((?:\[\s*\d*\s*\]\s*)*)", text)
        words = re.findall(r"\.(\w+)", found[1]) if found else ()
        type_ = next((w for w in words if w in BYTES), None)
        if type_ is None:
            self.fail("a declaration such as .align 4 .b32 name[2]", at)
        size = BYTES[type_] * next((int(w[1:]) for w in words if w in ("v2", "v4")), 1)
        align, count = re.search(r"\.align\s+(\d+)", found[1]), 1
        for extent in re.findall(r"\[\s*(\d*)\s*\]", found[3]):
            count *= int(extent or 0)
        return found[2], int(align[1]) if align else size, size * count, type_


def module(text: bytes | str, file: str = "<ptx>") -> Module:
    """Read a PTX file. Raises PtxError with file, line, token and what was expected."""
    return Module(text.decode() if isinstance(text, bytes) else text, file)

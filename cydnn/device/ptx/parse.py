"""PTX text: tokens, and the directives of a file. What stands inside a kernel is read by program.py."""
from __future__ import annotations

import re
from typing import NamedTuple

from ...status import NotSupported

BYTES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
         "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}
TOKEN = re.compile(r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|-?0[xX][0-9a-fA-F]+U?|-?\d+(?:\.\d+|U)?)
                   |(?P<name>[%$._A-Za-z][\w$.]*(?:::[\w.]+)*)|(?P<text>"[^"]*")|(?P<mark>[{}()\[\],;:|@!<>=+])""", re.X | re.S)


class PtxError(NotSupported):
    """The text is not PTX that the interpreter knows: file, line, token, and what was expected or is missing."""


class Token(NamedTuple):
    text: str
    kind: str
    at: int                                      # offset in the file


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


def module(text: bytes | str, file: str = "<ptx>") -> Module:
    """Read a PTX file. Raises PtxError with file, line, token and what was expected."""
    return Module(text.decode() if isinstance(text, bytes) else text, file)

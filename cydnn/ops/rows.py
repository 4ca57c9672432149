"""A DAG of pointwise operations as an attribute of another operation: rows over names and numbers.

A row is (Pointwise, what it reads): numbers, names that the operation gives (``s``, ``row``, ``e0`` …) and
``n0``, ``n1`` … for the rows before it. The last row is the result; without rows that is the first name.
Text: ``mul(s,#0.5);add(n0,e0)``, a mode's own attributes in brackets: ``relu_fwd[relu_upper_clip=6.0](s)``.
"""
from __future__ import annotations

import re
from dataclasses import replace
from math import isnan

from ..given import real, shown
from ..status import BadParam
from .pointwise import MODES, Pointwise

MOST = 1000                                      # rows
TENSOR = re.compile(r"e(\d{1,4})\Z")             # a tensor that is no operand of its own
ROW = re.compile(r"(\w+)(?:\[([^\]]*)\])?\(([^()]*)\)\Z")
PLAIN = Pointwise()


def accepted(where: str, value, names: tuple) -> tuple:
    """The rows as they are kept: computed in f32, numbers as floats. ``names``: those that the operation
    gives. Raises BadParam."""
    if isinstance(value, str):
        value = parse(where, value)
    if not isinstance(value, (tuple, list)) or len(value) > MOST:
        raise BadParam(f"{where} must be a list of at most {MOST} rows (Pointwise, what it reads), or their "
                       f"text; got {shown(value)}")
    return tuple([_row(where, i, row, names) for i, row in enumerate(value)])


def _row(where, number, row, names) -> tuple:
    if not isinstance(row, (tuple, list)) or len(row) != 2 or not isinstance(row[0], Pointwise) \
            or not isinstance(row[1], (tuple, list)):
        raise BadParam(f"{where} must have rows (Pointwise, what it reads); got {shown(row)}")
    op, reads = row
    if op.mode == "gen_index":
        raise BadParam(f"{where} must use the names {' '.join(names[1:])} in place of gen_index; got row "
                       f"{number}")
    if len(reads) != len(op.inputs()):
        raise BadParam(f"{where} must give {op.mode} {len(op.inputs())} values; got {shown(tuple(reads))}")
    return replace(op, compute="f32"), tuple([_read(where, number, read, names) for read in reads])


def _read(where, number, read, names):
    if not isinstance(read, str):
        if isnan(value := real(where, read)):
            raise BadParam(f"{where} must read numbers other than NaN, which equals nothing; got NaN in row "
                           f"{number}")
        return value
    before = read[:1] == "n" and read[1:].isdecimal() and int(read[1:]) < number
    if not before and read not in names and not TENSOR.match(read):
        raise BadParam(f"{where} must read numbers, {' '.join(names)}, e0 … and rows before (n0 …); got "
                       f"{shown(read)} in row {number}")
    return read


def tensors_of(rows: tuple) -> int:
    """How many tensors e0, e1 … the rows need."""
    numbers = [int(found[1]) for _, reads in rows for read in reads
               if isinstance(read, str) and (found := TENSOR.match(read))]
    return max(numbers, default=-1) + 1


def text(rows: tuple) -> str:
    """The rows in one word."""
    said = lambda reads: ",".join(read if isinstance(read, str) else f"#{read!r}" for read in reads)
    return ";".join(f"{op.mode}{_own(op)}({said(reads)})" for op, reads in rows)


def _own(op: Pointwise) -> str:
    found = [f"{name}={getattr(op, name)}" for name in MODES[op.mode].uses
             if getattr(op, name) != getattr(PLAIN, name)]
    return f"[{','.join(found)}]" if found else ""


def parse(where: str, words: str) -> tuple:
    """The rows of their text. Raises BadParam."""
    return tuple([_parsed(where, word) for word in words.split(";") if word])


def _parsed(where, word) -> tuple:
    found = ROW.match(word)
    if not found or found[1] not in MODES:
        raise BadParam(f"{where} must be rows such as mul(s,#0.5);add(n0,e0), with modes of pointwise; got "
                       f"{shown(word)}")
    attributes = dict(pair.partition("=")[::2] for pair in found[2].split(",")) if found[2] else {}
    try:
        own = {name: value if name == "nan" else float(value) for name, value in attributes.items()}
        reads = [float(r[1:]) if r.startswith("#") else r for r in found[3].split(",")] if found[3] else []
        return Pointwise(mode=found[1], **own), tuple(reads)
    except (TypeError, ValueError):
        raise BadParam(f"{where} must have the attributes of {found[1]} in brackets, numbers behind #; got "
                       f"{shown(word)}") from None


def evaluate(rows: tuple, values: dict):
    """The result in NumPy, of {name: array}."""
    values, last = dict(values), next(iter(values.values()))
    for i, (op, reads) in enumerate(rows):
        given = [values[r] if isinstance(r, str) else r for r in reads]
        last = values[f"n{i}"] = MODES[op.mode].meaning(*given, op)
    return last


def lowered(rows: tuple, names: dict, compute: str, result: str) -> list:
    """The rows of a lowering: [(op, operands, numbers)]. ``names``: {name here: name there}; ``result``: what
    the last row is called there, and n0 … in front of it."""
    known, made = dict(names), []
    for i, (op, reads) in enumerate(rows):
        known[f"n{i}"] = result if i == len(rows) - 1 else f"{result}_{i}"
        read = [known[r] if isinstance(r, str) else r for r in reads]
        made.append((replace(op, compute=compute), dict(zip(op.inputs(), read), y=known[f"n{i}"]), {}))
    return made

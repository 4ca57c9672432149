"""The catalogue of error conditions of the v5 functions: a file for each file of ``cydnn/legacy``.

    GOOD   {function: makes the arguments of a call that works, by their C names}
    ROWS   [(function, condition, the arguments that are changed, error, words of the message)]
    MAY_BE_UNSET   [(function, argument)] of descriptors that need not be set, where there are some

What holds for every function is in no file: ``standard`` makes it from GOOD. An array is a pointer that must
not be NULL, an ``E`` a member of an enum, a float named alpha, beta or value a scaling factor; 0 and None are
left alone. docs/legacy/ is printed from these rows.
"""
from __future__ import annotations

import copy
import importlib
import pkgutil
import re
from typing import NamedTuple

import numpy as np

from cydnn import cudnn as c
from cydnn._core import Descriptor
from cydnn.legacy import FUNCTIONS
from cydnn.status import BadParam, NotInitialized

NUMPY = c.create("numpy")
SCALE = re.compile(r"alpha\w*|beta\w*|value")
NULL, DESTROYED, OTHER, UNSET = "is NULL", "was destroyed", "is of another kind", "is not set"
UNKNOWN = "is the address of nothing"
FACTOR, ADDRESS, ENUM = "is NULL (None)", "is an address", "is no member of its enum"


class E(int):
    """A number of an enum in a call that works."""


class Row(NamedTuple):
    function: str
    condition: str
    change: dict
    error: type
    words: str
    is_standard: bool = False


def family(function: str) -> str:
    """The file of ``cydnn/legacy`` that a public function is in."""
    return FUNCTIONS[function][0].__module__.rpartition(".")[2]


def c_name(function: str) -> str:
    """What errors call it: versions of a function are one function."""
    return "cudnn" + re.sub(r"_v\d$", "", function[0].upper() + function[1:])


def modules() -> dict:
    """{file of cydnn/legacy: its GOOD and ROWS}."""
    return {m.name: importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)}


def catalogue() -> list[Row]:
    found = []
    for module in modules().values():
        for function, make in module.GOOD.items():
            fine = [(f"`{name}` {UNSET}") for f, name in getattr(module, "MAY_BE_UNSET", ()) if f == function]
            found += [row for row in standard(function, make()) if row.condition not in fine]
            found += [Row(*row) for row in module.ROWS if row[0] == function]
    return found


def standard(function: str, good: dict):
    """The conditions that every function has."""
    for place, (argument, value) in enumerate(good.items()):
        row = lambda condition, change, error, words: Row(
            function, f"`{argument}` {condition}", {argument: change}, error, words, is_standard=True)
        if isinstance(value, Descriptor):
            yield from _of_descriptor(function, row, place, argument, value)
        elif isinstance(value, np.ndarray):
            yield row(NULL, 0, BadParam, rf"\b{argument}\b.* must (not be NULL|be both given)")
        elif isinstance(value, float) and SCALE.fullmatch(argument):
            yield row(FACTOR, None, BadParam, f": {argument} must not be NULL")
            yield row(ADDRESS, 0x7F0012345678, TypeError, f"{argument} must be a number, not the address")
        elif isinstance(value, E):
            yield row(ENUM, 99, BadParam, f": {argument} must be one of CUDNN_.*; got 99")


def _of_descriptor(function, row, place, argument, value):
    is_handle, is_destroy = isinstance(value, c.Handle), function.startswith("destroy")
    error = NotInitialized if function == "destroy" else BadParam
    gone = c.create("numpy") if is_handle else copy.copy(value)
    gone.destroy()
    if is_handle or not is_destroy:
        yield row(NULL, 0, error, f": {argument} must not be NULL")
    yield row(UNKNOWN, 4711, error, f": {argument} must be .* created and not destroyed; got 4711")
    yield row(DESTROYED, gone, error, f": {argument} must be .* created and not destroyed; got")
    is_filter = type(value) is type(c.createFilterDescriptor())
    other = c.createTensorDescriptor() if is_filter else c.createFilterDescriptor()
    yield row(OTHER, other, error, f": {argument} must be .* created and not destroyed; got")
    is_target = place == 0 and function.startswith(("set", "destroy", "derive"))
    if not is_handle and not is_target and type(value)().kind is None:
        yield row(UNSET, type(value)(), error, rf": {argument} must (be set|have states); got")

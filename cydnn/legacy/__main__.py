"""``python -m cydnn.legacy > docs/legacy_api.md``: the tables of all functions and convolution algorithms.
``tools/print_legacy.py`` prints docs/legacy/, a page for each file."""
from __future__ import annotations

import re
import sys
from contextlib import redirect_stdout
from doctest import DocTestParser
from io import StringIO
from unittest.mock import patch

from ..device.facts import KNOWN, of_target
from ..engines import REFERENCE
from ..status import NotSupported
from . import FUNCTIONS
from .call import Compute
from .conv_algorithms import BACKWARD_DATA_TABLE, BACKWARD_FILTER_TABLE, FORWARD_TABLE

HEAD = """# The v5 functions

`from cydnn import cudnn`: the C names without `cudnn`, the first letter in lower case \
(`RNN…` and `LRN…` keep theirs); arguments in C order
without the output parameters, which are returned. Handles and descriptors are objects; \
their `int()` works in their place. Data pointers
are addresses, arrays, or anything with DLPack. A status other than SUCCESS is an exception of `cydnn.status`.

Beyond v5: BFLOAT16 (9) as a storage type with FLOAT math wherever HALF is taken; NHWC filters with
`CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM`; `create("numpy")`, \
which computes everything by its definition on the host.

Descriptors compare, hash, copy and print as what they say (`TensorDescriptor(f16 n2c8h6w6 nhwc)`). As a key \
of a dict one that is set
anew is another key; `copy.copy` gives one that stays. Those that hold no address of memory have a pickle. \
`destroy` is optional: what
nobody holds dies, unless its `int()` was taken. A handle equals itself only. It may run calls of several \
threads at once; to change its
stream, or a descriptor, while another thread uses it is the caller's to avoid. What each function takes, \
refuses and says: [legacy/](legacy/convolution.md).
From CuPy: [migrate_from_cupy.md](migrate_from_cupy.md), whose `available` and `get_build_version()` are here.

Printed by `python -m cydnn.legacy`; g*n* is section 4.*n* of the v5 guide, of whose {all} functions \
**{here} are here**. *host*: nothing is computed.
CUDA, PTX: whether kernels serve the function's snippet on an H200, and those for sm_80 in the interpreter.

| Function | Section | NumPy | CUDA | PTX |
|---|---|---|---|---|
"""
GUIDE = 124                                      # functions of chapter 4
GPUS = KNOWN["h200"], of_target(80, "ptx:sm_80")

ALGORITHMS = """
## Convolution algorithms

An algorithm is a contract (layouts, limits, workspace) and the engines that declare it, by index \
(see [engines.md](engines.md)). The cheapest
of them computes a call; those in parentheses serve what none of the others takes: offsets beyond 31 bits.
DIRECT is refused always, as in the guide.

| Function | Algorithm | Rank | Engines | Deterministic |
|---|---|--:|---|---|
"""
TABLES = {"convolutionForward": FORWARD_TABLE, "convolutionBackwardFilter": BACKWARD_FILTER_TABLE,
          "convolutionBackwardData": BACKWARD_DATA_TABLE}


def order(row) -> tuple:
    name, (function, chapter) = row
    number = re.fullmatch(r"g(\d+)", chapter)
    return (int(number[1]) if number else 1000, function.__name__, name != function.__name__, name)


def table() -> str:
    """The page: every public name, its chapter, and whether it works; then the convolution algorithms."""
    lines, found = [], set()
    for name, (function, chapter) in sorted(FUNCTIONS.items(), key=order):
        if name != function.__name__:
            cells = f"[`{function.__name__}`]({page_of(function)}) | | "
        else:
            cells, name = " | ".join(served(function)), f"[`{name}`]({page_of(function)})"
        found |= {chapter} if re.fullmatch(r"g\d+", chapter) else set()
        lines.append(f"| {name if name[0] == '[' else f'`{name}`'} | {chapter} | {cells} |\n")
    head = HEAD.format(all=GUIDE, here=len(found))
    return head + "".join(lines) + ALGORITHMS + "".join(algorithms())


def page_of(function) -> str:
    """The section of docs/legacy/ about a function, from docs/."""
    return f"legacy/{function.__module__.rpartition('.')[2]}.md#{function.__name__.lower()}"


def snippet(thing) -> list:
    """The lines of Python in a docstring."""
    return [example.source for example in DocTestParser().get_examples(thing.__doc__ or "")]


def served(function) -> list[str]:
    """What computes the snippet of a function, a cell for NumPy and for each of ``GPUS``."""
    works, choice = [], Compute.choice
    with patch.object(Compute, "choice", lambda self, work, facts, **asked: (
            works.append((self, work)) or choice(self, work, facts, **asked))), redirect_stdout(StringIO()):
        space: dict = {}
        for source in [*snippet(sys.modules[function.__module__]), *snippet(function)]:
            exec(source, space)
    own = [(call, work) for call, work in works if call.function.lower().startswith(
        f"cudnn{function.__name__}".lower())]
    if not own:
        return ["host"] * (1 + len(GPUS))
    return ["yes", *("yes" if any(_has_kernels(*one, facts) for one in own) else "no" for facts in GPUS)]


def _has_kernels(call, work, facts) -> bool:
    try:
        return REFERENCE not in call.choice(work, facts).engines
    except NotSupported:
        return False


def algorithms():
    """A line for every row of the support tables."""
    for name, table in TABLES.items():
        for row in table.rows:
            serving, otherwise = table.serving(row)
            engines = " ".join([*map(str, serving), *(f"({i})" for i in otherwise)])
            sure = "yes" if row.deterministic else "no"
            yield f"| `{name}` | {row.algo} | {row.rank} | {engines} | {sure} |\n"


if __name__ == "__main__":
    print(table(), end="")

"""``python -m cydnn.legacy > docs/legacy_api.md``: the tables of all functions and convolution algorithms."""
from __future__ import annotations

import re

from . import FUNCTIONS
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

Printed by `python -m cydnn.legacy`; g*n* is section 4.*n* of the v5 guide.

| Function | Section | Status |
|---|---|---|
"""

ALGORITHMS = """
## Convolution algorithms

An algorithm is a contract (layouts, limits, workspace) and the engines that serve it, by index \
(see [engines.md](engines.md)). The cheapest
of them computes a call. An algorithm without an engine raises NOT_SUPPORTED and says what serves instead.

| Function | Algorithm | Rank | Engines |
|---|---|--:|---|
"""
TABLES = {"convolutionForward": FORWARD_TABLE, "convolutionBackwardFilter": BACKWARD_FILTER_TABLE,
          "convolutionBackwardData": BACKWARD_DATA_TABLE}


def order(row) -> tuple:
    name, (function, chapter) = row
    number = re.fullmatch(r"g(\d+)", chapter)
    return (int(number[1]) if number else 1000, function.__name__, name != function.__name__, name)


def table() -> str:
    """The page: every public name, its chapter, and whether it works; then the convolution algorithms."""
    lines = []
    for name, (function, chapter) in sorted(FUNCTIONS.items(), key=order):
        works = ("later" if getattr(function, "is_later", False) else "works" if name == function.__name__
                 else f"works: `{function.__name__}`")
        lines.append(f"| `{name}` | {chapter} | {works} |\n")
    return HEAD + "".join(lines) + ALGORITHMS + "".join(algorithms())


def algorithms():
    """A line for every row of the support tables."""
    for name, table in TABLES.items():
        for row in table.rows:
            engines = " ".join(map(str, row.served_by)) or "none yet"
            yield f"| `{name}` | {row.algo} | {row.rank} | {engines} |\n"


if __name__ == "__main__":
    print(table(), end="")

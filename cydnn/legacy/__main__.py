"""``python -m cydnn.legacy > docs/legacy_api.md``: the table of all functions."""
from __future__ import annotations

import re

from . import FUNCTIONS

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


def order(row) -> tuple:
    name, (function, chapter) = row
    number = re.fullmatch(r"g(\d+)", chapter)
    return (int(number[1]) if number else 1000, function.__name__, name != function.__name__, name)


def table() -> str:
    """The page: every public name, its chapter, and whether it works."""
    lines = []
    for name, (function, chapter) in sorted(FUNCTIONS.items(), key=order):
        works = ("later" if getattr(function, "is_later", False) else "works" if name == function.__name__
                 else f"works: `{function.__name__}`")
        lines.append(f"| `{name}` | {chapter} | {works} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    print(table(), end="")

"""Parameters that say which of a few ways a kernel goes are numbers in a text that is spliced: the compiler
leaves the other ways out, and with them their copies of what is spliced in. A plain kernel is one text for
all of them."""
from __future__ import annotations

import re
from functools import lru_cache

from .. import kernels

WAYS = {"team", "c_form", "y_form", "dx_form", "dw_form"}    # of kernels_src/tile/wgmma_blocks.cuh


def ways_of(step) -> tuple:
    """((index, value), …) of the parameters of a Launch that are numbers in its text."""
    return tuple([(i, int(step.args[name])) for i, name in _named(step.kernel)]) if step.fuse else ()


@lru_cache(maxsize=None)
def _named(kernel: str) -> tuple:
    params = kernels.get(kernel).row["params"]
    return tuple([(i, param["name"]) for i, param in enumerate(params) if param["name"] in WAYS])


def with_ways(ptx: str, entry: str, ways) -> str:
    """A text whose loads of these parameters are moves of numbers."""
    for index, value in ways:
        ptx = re.sub(rf"\bld\.param\.[us]32(\s+%\w+), \[{entry}_param_{index}\];",
                     rf"mov.u32\g<1>, {value};", ptx)
    return ptx

"""Ways out of Hopper's tile program (kernels_src/tile/wgmma_store.cuh): how sums get to the output."""
from __future__ import annotations

from .line import LINE_BYTES, Line
from .matrices import Matrices

ELEMENTS, ROWS, BOXES, FUSED = range(4)          # WgmmaForm
WARP_ROWS = 16                                   # of a box of the output, where each warp has its own


def is_whole(g: Matrices, tensor) -> bool:
    """Rows of c are whole 16-byte chunks of 16-bit elements: a kernel may write vectors of 8."""
    sizes = (g.n, g.c[0], *g.c_batch)
    return not any(n % 8 for n in sizes) and (g.c[1] == 1 or g.n == 1) and tensor.alignment >= 16


def along_m(g: Matrices) -> int:
    """1 where neighbours in the memory of c are rows, 0 where they are columns."""
    return int(g.n == 1 or g.m > 1 and g.c[0] < g.c[1])


def form(boxes, *, is_fused: bool, is_whole: bool) -> int:
    """The WgmmaForm in which sums leave: in boxes where the output has a map of them, else in vectors where
    its rows are whole."""
    if boxes:
        return FUSED if is_fused else BOXES
    return ROWS if is_whole else ELEMENTS


def raggedness(columns: int, step: int, line: Line) -> int:
    """Of rows of the output, ``step`` elements from each other, that leave in several boxes of a line each: 0
    where they are whole lines of memory, 1 where they end within one, 2 where the last box has less than half
    a line."""
    if line.bytes * step % LINE_BYTES == 0:
        return 0
    return 2 if 0 < line.bytes * columns % LINE_BYTES < LINE_BYTES // 2 else 1


def has_boxes(lead, tail, *, is_whole: bool) -> bool:
    """TMA may store the output: it is whole, the kernel stores it itself, and spliced code nothing else."""
    return lead.is_native and is_whole and (tail is None or not tail.program.stores)

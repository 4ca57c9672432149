"""Batch norm in one launch for few samples a channel: a block keeps its channels in registers."""
from __future__ import annotations

from typing import ClassVar

from ...kernels.expressions import ceil_div
from ..engine import Engine
from .view import View, bytes_of_x, log2_ceil, no_column_vectors, vectors_of, wrong_operands

THREADS, ROWS_PER_THREAD = 512, 8


def lanes_log2(p, dev) -> int:
    """Lanes side by side: as many as the rows allow (8 at most, 128 bytes of a row), fewer (but 32 bytes of a
    row) while blocks are missing."""
    rows, vectors = View.of(p).rows, vectors_of(p)
    most = min(3, log2_ceil(vectors))
    while most and rows > ROWS_PER_THREAD * (THREADS >> most):
        most -= 1
    while most > 1 and ceil_div(vectors, 1 << most) < dev.sms:
        most -= 1
    return most


def sizes(p, dev) -> tuple[dict, dict]:
    """(arguments that say how large it is, what the grid needs)."""
    v, lanes = View.of(p), lanes_log2(p, dev)
    return dict(rows=v.rows, cols=v.cols, lanes_log2=lanes), dict(blocks=ceil_div(vectors_of(p), 1 << lanes))


class Resident(Engine):
    """What both share. ``kernel``: its name; ``passes``: how often the bytes of x move."""
    kernel: ClassVar[str] = ""
    passes: ClassVar[int] = 2

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev, f"norm/{self.kernel}.cu")
        yield from no_column_vectors(p)
        most, rows = THREADS * ROWS_PER_THREAD, View.of(p).rows
        if rows > most:
            yield f"samples of a channel must fit in the registers of a block, {most} at most; got {rows}"

    def cost(self, p, dev, config):
        return dev.launch_us + 1.5 + self.passes * bytes_of_x(p) / (dev.bandwidth_gbs * 0.6) * 1e-3

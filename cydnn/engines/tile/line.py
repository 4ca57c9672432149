"""Lines in which the tile programs bring operands to shared memory: a row for each type of operands."""
from __future__ import annotations

from dataclasses import dataclass

from ...dtypes import BY_NAME
from ...locks import once

LINE_BYTES, CHUNK_BYTES, K_BYTES = 128, 16, 32   # of a line; of an access; of an instruction's depth
GROUP_ROWS = 64                                  # of the sums of an instruction of a warpgroup
MACS_BYTES = 4096                                # of operands that an SM multiplies in a clock (wgmma)


@dataclass(frozen=True)
class Line:
    """128 bytes of operands of a type: a row of shared memory and of a tensor map's box, and a step of the
    depth. ``sums``: the type in which products of them are added."""
    dtype: str
    sums: str = "f32"

    @once
    def bytes(self) -> int:
        """Bytes of an element."""
        return BY_NAME[self.dtype].bytes

    @once
    def elements(self) -> int:
        """Elements of a line."""
        return LINE_BYTES // self.bytes

    @once
    def chunk(self) -> int:
        """Elements of 16 bytes, at whole numbers of which TMA and vectors begin."""
        return CHUNK_BYTES // self.bytes

    @once
    def k(self) -> int:
        """The depth of an instruction."""
        return K_BYTES // self.bytes

    @once
    def macs(self) -> int:
        """Multiply-adds of an SM in a clock."""
        return MACS_BYTES // self.bytes

    @once
    def sum_bytes(self) -> int:
        return BY_NAME[self.sums].bytes


LINES = {row.dtype: row for row in (Line("f16"), Line("bf16"))}


def line_of(p) -> Line:
    """That of what a match reads first; the types of the others are the same."""
    return LINES[p.operands[p.op.reads[0]].dtype.name]

"""Matrix product of f16 and bf16 on Hopper's tensor cores, of operands that TMA cannot read in place."""
from __future__ import annotations

from ...graph import once_per_match
from ..cast import in_lines, read_as
from ..engine import moved_us
from ..tile import sums
from ..tile.matrices import Matrices, matrix_steps
from .wgmma import MatmulWgmma

COPY = 0.4                                       # share of the bandwidth that a copy reaches


class MatmulWgmmaRepack(MatmulWgmma):
    """Operands with other strides or alignment are copied into rows of whole 16 bytes; then as 189."""
    index = 187

    def wrong_operands(self, p, g):
        if not any(self._is_copied(p, name) for name in ("a", "b")):
            yield "TMA reads a and b where they lie; matmul_wgmma takes them without a copy"

    def _is_copied(self, p, name) -> bool:
        """TMA cannot read it where it lies."""
        return name in self._copied(p)

    @once_per_match
    def _copied(self, p) -> list:
        lies = Matrices.of(p.a.desc, p.b.desc, p.lead(p.a.dtype.name).tensor)
        return [name for name in ("a", "b") if any(self.wrong_operand(p, lies, name))]

    def _input(self, p, name):
        """An operand as the kernel reads it: where it lies, or a copy in lines of whole 16 bytes, along the
        index along which it is contiguous."""
        tensor = p.operands[name]
        if not self._is_copied(p, name):
            return tensor
        *outer, rows, columns = range(len(tensor.dims))
        inner = (rows, columns) if matrix_steps(tensor.desc)[0] == 1 else (columns, rows)
        return in_lines(tensor.dtype, tensor.dims, (*inner, *reversed(outer)))

    @once_per_match
    def matrices(self, p):
        lead = p.lead(p.a.dtype.name)
        found = Matrices.of(self._input(p, "a"), self._input(p, "b"), lead.tensor)
        return lead, sums.joined(found) if p.last else found

    def cost(self, p, dev, config):
        copies = [p.operands[name] for name in ("a", "b") if self._is_copied(p, name)]
        return sum(moved_us(4 * t.count, dev, COPY) for t in copies) + super().cost(p, dev, config)

    def inputs(self, p, steps):
        inputs = {name: self._input(p, name) for name in ("a", "b")}
        return {name: (read_as(p, name, seen, steps), seen) for name, seen in inputs.items()}

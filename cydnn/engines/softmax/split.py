"""Softmax of few or very long rows: many blocks a row, two launches, partial results in the workspace."""
from __future__ import annotations

from ...ops import SoftmaxBwd, SoftmaxFwd
from .view import RowEngine, form, row_args, stream_us
from ...steps import Launch

MOST_SLICES = 1024                               # each block of the second launch reads all partial results of its row


class _Split(RowEngine):
    family = ""
    part_bytes = 0                               # one slice's partial result
    tile_bytes = 0                               # of one operand: what 256 threads load at once
    scan_drops = ()                              # arguments of the second launch that the first has not

    def refuse_rows(self, p, f, dev):
        if f.row_count * self._slices(p, f)[0] >= 2 ** 31:
            yield f"needs fewer than 2^31 slices; got {f.row_count} rows of {self._slices(p, f)[0]}"

    def _slices(self, p, f, splits=MOST_SLICES):
        """(slices of a row, tiles of a slice), at most so many slices."""
        tile = self.tile_bytes // p.descs[0].dtype.bytes
        tiles = -(-f.col_count // (tile * splits))
        return -(-f.col_count // (tile * tiles)), tiles

    def cost(self, p, dev):
        if not p.descs[0].count:
            return 2.0
        f = form(p)
        return 2.0 + stream_us(p, dev, f.row_count * self._slices(p, f)[0] / 2, extra_reads=1.0)

    def configs(self, p, dev):
        most = self._slices(p, form(p))[0] if p.descs[0].count else 1
        return [dict(splits=n) for n in dict.fromkeys((most, -(-most // 2), -(-most // 4), 1))]

    def plan_rows(self, p, f, dev, splits=MOST_SLICES):
        slices, tiles = self._slices(p, f, splits)
        part = p.scratch(f.row_count * slices * self.part_bytes)
        args = row_args(p, f, part=part, slices=slices, tiles=tiles)
        scan = {name: value for name, value in args.items() if name not in self.scan_drops}
        dtype = p.descs[0].dtype
        return [Launch(f"{self.family}_scan_{dtype}", scan), Launch(f"{self.family}_apply_{dtype}", args)]


class SoftmaxFwdSplit(_Split):
    """Maximum and sum of each slice, then the result; x is read twice, the second time mostly from the L2 cache."""
    index, op, family, part_bytes, tile_bytes = 213, SoftmaxFwd, "softmax_fwd", 8, 32768
    scan_drops = ("y", "y_row", "is_log", "alpha", "beta")


class SoftmaxBwdSplit(_Split):
    """The sum of each slice, then the result; y and dy are read twice, the second time mostly from the L2 cache."""
    index, op, family, part_bytes, tile_bytes = 223, SoftmaxBwd, "softmax_bwd", 4, 16384
    scan_drops = ("dx", "dx_row", "alpha", "beta")

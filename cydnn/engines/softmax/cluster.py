"""Softmax of long rows: the blocks of a cluster hold a row together (sm_90 and newer)."""
from __future__ import annotations

from ...ops import SoftmaxBwd, SoftmaxFwd
from .view import RowEngine, chunk, form, row_args, stream_us, units
from ...steps import Launch

SIZES = (2, 4)                                   # the kernels' axis SIZE: blocks of a cluster
SMEM = 131072
FEW = 4                                          # blocks an SM, one after the other, below which they hardly overlap


class _Cluster(RowEngine):
    least_sm = 90
    kernel = ""
    held = 0                                     # 16-byte chunks of a row that a block holds

    def refuse_rows(self, p, f, dev):
        most = self.held * SIZES[-1]
        if units(p, f) > most:
            yield f"needs rows of at most {most} chunks of 16 bytes; got {units(p, f)}"
        if self._slice(p, f, SIZES[0]) * (SIZES[0] - 1) >= f.col_count:
            yield f"needs rows that fill {SIZES[0]} blocks; got {f.col_count} columns"
        if SMEM > dev.smem_bytes:
            yield f"needs {SMEM} bytes of shared memory; the device has {dev.smem_bytes} a block"

    def _size(self, p, f):
        return next(s for s in SIZES if units(p, f) <= self.held * s)

    @staticmethod
    def _slice(p, f, size):
        """Columns of a block: whole chunks, so that all slices but the last are equal."""
        step = chunk(p)
        return -(-f.col_count // (size * step)) * step

    def cost(self, p, dev):
        if not p.descs[0].count:
            return 2.0
        f = form(p)
        blocks = f.row_count * self._size(p, f)
        return stream_us(p, dev, blocks, efficiency=0.62 if blocks <= FEW * dev.sms else 0.86)

    def configs(self, p, dev):
        if not p.descs[0].count:
            return [{}]
        f = form(p)
        return [dict(size=s) for s in SIZES if units(p, f) <= self.held * s and self._slice(p, f, s) * (s - 1) < f.col_count]

    def plan_rows(self, p, f, dev, size=None):
        size = size or self._size(p, f)
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{size}", row_args(p, f, slice=self._slice(p, f, size)))]


class SoftmaxFwdCluster(_Cluster):
    """2 or 4 blocks a row, x read once."""
    index, op, kernel, held = 212, SoftmaxFwd, "softmax_fwd_cluster", 16384


class SoftmaxBwdCluster(_Cluster):
    """2 or 4 blocks a row, y and dy read once."""
    index, op, kernel, held = 222, SoftmaxBwd, "softmax_bwd_cluster", 8192

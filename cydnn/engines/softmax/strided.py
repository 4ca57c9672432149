"""Softmax over a dim that is not contiguous, beside one that is: channels of NCHW images."""
from __future__ import annotations

from ...ops import SoftmaxBwd, SoftmaxFwd
from ..engine import Engine, wrong_device
from .view import form, is_log, stream_us, too_long, wrong_math
from ...steps import Launch

WARPS = (4, 16)                                  # the kernels' axis: warps of a block along the channels
WIDE_BYTES = 8                                   # a lane's access in the wide variant


class _Strided(Engine):
    kernel = ""
    held = 0                                     # channels a thread holds

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from wrong_math(p, "f64", "f32", "f16", "bf16")
        if not p.descs[0].count:
            return
        f = form(p)
        if not f.is_columns:
            yield f"needs one softmaxed dim and contiguous positions; got columns {f.cols}, rows {f.rows} with strides {f.row_strides}"
        yield from too_long(f)

    def _vector(self, p, f) -> int:
        """Elements of a lane's access: 8 bytes where sizes, strides and pointers allow it, else one."""
        vec = WIDE_BYTES // p.descs[0].dtype.bytes
        strides = [s for d, rows in zip(f.col_strides, f.row_strides) for s in (*d, *rows[1:])]
        whole = all(n % vec == 0 for n in (f.rows[0], *strides))
        return vec if whole and all(d.alignment >= WIDE_BYTES for d in p.descs) else 1

    def _warps(self, f) -> int:
        return WARPS[0] if f.cols[0] <= self.held * WARPS[0] else WARPS[-1]

    def cost(self, p, dev):
        if not p.descs[0].count:
            return 2.0
        f = form(p)
        vec = self._vector(p, f)
        twice = f.cols[0] > self.held * WARPS[-1]
        efficiency = 0.85 if vec * p.descs[0].dtype.bytes >= 8 else 0.55
        return stream_us(p, dev, f.row_count / (32 * vec), extra_reads=0.7 * twice, efficiency=efficiency)

    def configs(self, p, dev):
        return [dict(warps=warps) for warps in WARPS]

    def plan(self, p, dev, warps=None):
        if not p.descs[0].count:
            return []
        f = form(p)
        vec = self._vector(p, f)
        wide = int(vec > 1)
        outer = [s[1] if len(s) > 1 else 0 for s in f.row_strides]
        args = {name: p.ptr(name) for name in p.operands}
        args |= dict(positions=f.row_count // vec, inner=f.rows[0] // vec, channels=f.cols[0], is_log=is_log(p),
                     alpha=p.scalar("alpha"), beta=p.scalar("beta"))
        args |= self._strides(outer, [s[0] for s in f.col_strides])
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{warps or self._warps(f)}_{wide}", args)]


class SoftmaxFwdStrided(_Strided):
    """Lanes along positions, warps along channels; x is read once up to 128 channels."""
    index, op, kernel, held = 214, SoftmaxFwd, "softmax_fwd_strided", 8

    @staticmethod
    def _strides(outer, channel):
        return dict(x_outer=outer[0], y_outer=outer[1], x_channel=channel[0], y_channel=channel[1])


class SoftmaxBwdStrided(_Strided):
    """Lanes along positions, warps along channels; y and dy are read once up to 64 channels."""
    index, op, kernel, held = 224, SoftmaxBwd, "softmax_bwd_strided", 4

    @staticmethod
    def _strides(outer, channel):
        return dict(outer=outer, channel=channel)

"""Softmax and its gradient over a dim beside a contiguous one (channels of NCHW images)."""
from __future__ import annotations

from typing import ClassVar

from ...graph import core
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from ..engine import Config, Knob, first_then
from .view import SoftmaxEngine, form, form_to_check, shared_args, stream_us, too_long

WARPS = (4, 16)                                  # the kernels' axis: warps of a block along the channels
WIDE_BYTES = 8                                   # a lane's access in the wide variant


class StridedForm(SoftmaxEngine):
    """Lanes along contiguous positions. An engine adds ``strides``: how its kernel takes those of images and
    of channels."""

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not (f := form_to_check(p)):
            return
        if not f.is_columns:
            yield (f"needs one softmaxed dim and contiguous positions; got columns {f.cols}, rows {f.rows} "
                   f"with strides {f.row_strides}")
        yield from too_long(f)

    @staticmethod
    def _fits(p, f, bytes) -> bool:
        """Sizes, strides and pointers are multiples of so many bytes."""
        vec = bytes // p.descs[0].dtype.bytes
        strides = [s for d, rows in zip(f.col_strides, f.row_strides) for s in (*d, *rows[1:])]
        whole = all(n % vec == 0 for n in (f.rows[0], *strides))
        return whole and all(d.alignment >= bytes for d in p.descs)

    def args(self, p, f, vec) -> dict:
        """The arguments of a kernel whose lanes take ``vec`` positions."""
        outer = [s[1] if len(s) > 1 else 0 for s in f.row_strides]
        return dict(shared_args(p), positions=f.row_count // vec, inner=f.rows[0] // vec, channels=f.cols[0],
                    **self.strides(outer, [s[0] for s in f.col_strides]))

    @staticmethod
    def strides(outer: list, channel: list) -> dict:
        raise NotImplementedError


class SoftmaxStrided(StridedForm):
    """``held``: channels that a thread holds."""
    knobs = (Knob("warps", WARPS),)
    held: ClassVar[int] = 0

    def configs(self, p, dev):
        best = WARPS[form(p).cols[0] > self.held * WARPS[0]]
        return first_then(Config(warps=best), (Config(warps=w) for w in WARPS))

    def _vector(self, p, f) -> int:
        """Elements of a lane's access: 8 bytes where they fit, else one."""
        vec = WIDE_BYTES // p.descs[0].dtype.bytes
        return vec if self._fits(p, f, WIDE_BYTES) else 1

    def cost(self, p, dev, config):
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        vec = self._vector(p, f)
        is_twice = f.cols[0] > self.held * config.warps
        is_many = config.warps > WARPS[0]        # they wait where few would hold all channels
        busy = min(f.cols[0] / (self.held * WARPS[0]), 1.0) if is_many else 1.0
        share = 0.6 if vec * p.descs[0].dtype.bytes >= WIDE_BYTES else 0.4
        return stream_us(p, dev, f.row_count / (32 * vec), 0.7 * is_twice, share * busy)

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        vec = self._vector(p, f)
        kernel = f"{self.kernel}_{p.descs[0].dtype}_{config.warps}_{int(vec > 1)}"
        return [Launch(kernel, self.args(p, f, vec))]


class SoftmaxFwdStrided(SoftmaxStrided):
    """Lanes along positions, warps along channels; x is read once up to 128 channels."""
    index, takes, kernel = 214, core(SoftmaxFwd), "softmax_fwd_strided"
    held = 8

    @staticmethod
    def strides(outer, channel):
        return dict(x_outer=outer[0], y_outer=outer[1], x_channel=channel[0], y_channel=channel[1])


class SoftmaxBwdStrided(SoftmaxStrided):
    """Lanes along positions, warps along channels; y and dy are read once up to 64 channels."""
    index, takes, kernel = 224, core(SoftmaxBwd), "softmax_bwd_strided"
    held = 4

    @staticmethod
    def strides(outer, channel):
        return dict(outer=outer, channel=channel)

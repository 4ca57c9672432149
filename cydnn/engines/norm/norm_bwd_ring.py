"""Gradients of layer, ada-layer and RMS normalization with rows of x and dy in shared memory ahead of their
use (sm_90 and newer)."""
from __future__ import annotations

from ... import fusion
from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import Config, Knob, memory_us, moved_us, no_variant, numbers, wrong_device
from .norm_rows import CLUSTERS, WIDE, NormRowGradients

MOST = {2: 24, 4: 16}                            # warps of a block, by the eights of a row that a thread has
LEAST = 1024                                     # elements of a block of a cluster
STATIC, MOST_STAGES, ENOUGH = 3 << 10, 4, 3
# of the bandwidth: of rows that lanes of a warp have, by the eights of a thread, by the blocks of a row
NARROW, SHARE, JOINED = 0.4, {2: 0.48, 4: 0.52}, {1: 1.0, 2: 0.93, 4: 0.7, 8: 0.7}


class NormBwdRing(NormRowGradients):
    """One read of x and dy by bulk copies; parts of dscale and dbias in the workspace, added in a fixed
    order; ada_layer alike, image by image."""
    index = 406
    knobs = (Knob("cluster", CLUSTERS), Knob("threads_per_row", lo=8, hi=768),
             Knob("stages", lo=2, hi=MOST_STAGES))
    understands = numbers()

    def reasons_of_rows(self, p, dev):
        yield from wrong_device(dev, 90)
        yield from self.wrong_math(p)
        yield from no_variant(p, "norm/norm_bwd_ring.cu", "x", "dy")
        if p.rstd is None:
            yield "mean and rstd must be given; got none"
        if self.strides(p) is None:
            yield (f"x, dy and dx must have whole eights of a row side by side, 16 bytes aligned; got "
                   f"{p.x.desc}")
        elif next(self.ways(p, dev), None) is None:
            yield f"rows must be such that {CLUSTERS[-1]} blocks hold two; got {p.op.count(p.x)} elements"
        yield from fusion.reasons(*self.fuse(p, WIDE).values())

    # ---- How it is cut ----

    def ways(self, p, dev):
        """The configurations that registers and shared memory have room for."""
        for cluster in CLUSTERS:
            width = self.width(p, cluster)
            if cluster > 1 and width < LEAST:
                continue
            narrow = next((n for n in (8, 16) if width <= 2 * WIDE * n and cluster == 1), None)
            for held in MOST:
                threads = narrow or 32 * ceil_div(width, 32 * WIDE * held)
                if threads <= 32 * MOST[held] and held == self.held(width, threads):
                    warps = ceil_div(threads, 32) * self.teams(p, dev, cluster, threads)
                    if (stages := self.stages(p, dev, held, warps)) >= 2:
                        yield Config(cluster=cluster, threads_per_row=threads, stages=stages)

    @staticmethod
    def held(width, threads) -> int:
        """Eights of a row that a thread has."""
        return 2 if width <= 2 * WIDE * threads else 4

    @staticmethod
    def stages(p, dev, held, warps) -> int:
        return min((dev.smem_bytes - STATIC) // (512 * held * p.x.dtype.bytes * warps), MOST_STAGES)

    def teams(self, p, dev, cluster, threads) -> int:
        """Rows that a block, or a warp of it, has at once: as many as there is work and room for."""
        held, warps = self.held(self.width(p, cluster), threads), ceil_div(threads, 32)
        needed = ceil_div(self.group_rows(p) * self.groups(p) * min(threads, 32), dev.sms * 32)
        most = min(MOST[held] // warps, max(needed, 1)) if cluster == 1 else 1
        return next((n for n in range(most, 1, -1) if self.stages(p, dev, held, warps * n) >= ENOUGH), 1)

    def configs(self, p, dev):
        return iter(sorted(self.ways(p, dev), key=lambda c: self.cost(p, dev, c)))

    def blocks(self, p, dev, config) -> int:
        """Blocks, or clusters, of a group, as many as are resident."""
        threads = config.threads_per_row
        at_once = self.teams(p, dev, config.cluster, threads) * max(32 // threads, 1)
        resident = dev.sms // config.cluster // self.groups(p)
        return max(min(ceil_div(self.group_rows(p), at_once), resident), 1)

    # ---- The launches ----

    def fuse(self, p, lanes) -> dict:
        return dict(load_scale=self.loaded(p, "scale", lanes), load_mean=self.thin(p, "mean", is_read=True),
                    load_rstd=self.thin(p, "rstd", is_read=True), store=self.stored(p, lanes))

    def cost(self, p, dev, config):
        parts = 16 * self.blocks(p, dev, config) * self.groups(p) * p.op.count(p.x)
        held = self.held(self.width(p, config.cluster), config.threads_per_row)
        share = JOINED[config.cluster] * (SHARE[held] if config.threads_per_row >= 32 else NARROW)
        return memory_us(p, dev, efficiency=share) + (moved_us(parts, dev) if self.sums(p) else 0.0)

    def plan(self, p, dev, config):
        threads, blocks = config.threads_per_row, self.blocks(p, dev, config)
        part = self.part(p, blocks)
        args = self.shape(p, WIDE, config.cluster) | dict(
            x=p.ptr("x"), dy=p.ptr("dy"), part=part, dx_row=self.strides(p)["out"], stages=config.stages,
            row_warps=ceil_div(threads, 32), group_rows=self.group_rows(p), group_blocks=blocks)
        held = self.held(args["width"], threads)
        kernel = f"norm_bwd_ring_{p.x.dtype}_{held}_{min(threads, 32)}_{config.cluster}"
        extra = dict(groups=self.groups(p), teams=self.teams(p, dev, config.cluster, threads))
        return [Launch(kernel, args, extra, self.given(self.fuse(p, WIDE))), *self.finish(p, part, blocks)]

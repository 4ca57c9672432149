"""Depthwise convolution of NCHW images with small square filters, in three directions: planes lie in shared
memory."""
from __future__ import annotations

from math import prod
from typing import NamedTuple

from ... import kernels
from ...graph import core, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, ConvWgrad
from ...steps import Launch
from ..engine import Config, Engine, Knob, moved_us, no_elements, no_variant, together, wrong_device
from ..tile.matrices import MOST, too_many
from .view import Geometry, plain_geometry

THREADS, CHUNK, AROUND = 128, 16, 80             # of a block; bytes of a copy, and around the rows
SMEM_SM, THREADS_SM = 227 << 10, 2048            # that blocks of an SM share
REGISTERS_SM = 65536
ISSUE = 1.25                                     # clocks of an instruction, beside what an SM issues at best
WAIT = 2.0                                       # how little memory and products hide each other
WGRAD_BLOCKS = 8                                 # of an SM that share the images


class PlaneCut(NamedTuple):
    """``group`` whole planes of a block, or one of ``bands`` of a plane; ``strips`` of ``rows`` in it, of
    ``pairs`` of columns."""
    group: int
    bands: int
    strips: int
    rows: int
    pairs: int

    def staged(self, rows: int, size: tuple, element_bytes: int) -> int:
        """Bytes of shared memory for planes of this size, or for so many rows of one."""
        lines = self.group * size[0] if self.group > 1 else min(rows, size[0])
        return AROUND + CHUNK + ceil_div(lines * size[1] * element_bytes, CHUNK) * CHUNK


class DepthwisePlanes(Engine):
    """What the three directions share: refusals, the cut into blocks, and time. A thread has two neighbouring
    columns of ``rows`` outputs."""
    knobs = (Knob("rows", lo=1, hi=MOST),)
    source = "conv/conv_depthwise_planes.cu"
    registers = {3: 56, 5: 80, 7: 107}           # of a thread
    step_clocks = 260                            # of a step of a thread alone, beside its instructions

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        wrong = [*no_elements(p.operands), *no_variant(p, self.source)]
        yield from wrong
        if wrong:
            return
        image, filters, out = (p.operands[name] for name in p.op.parts)
        if p.op.math != "f32":
            yield f"compute must be f32 for {image.dtype} tensors; got {p.op.compute}"
        c, k = filters.c, filters.n * filters.c // image.c
        if (c, k) != (1, 1):
            yield f"each group must have one channel and one filter; got {c} and {k}"
        wrong = [*self.wrong_window(plain_geometry(p)), *self.wrong_layout(p)]
        yield from wrong
        if not wrong and not any(self.has_room(p, dev, c) for c in self.every(p)):
            yield f"rows of an image must fit into {dev.smem_bytes} bytes of shared memory; got {image.dims}"

    def wrong_window(self, g: Geometry):
        sizes, strides = kernels.axis(self.source, "K"), (1, 2)
        if g.w.size[0] != 1 or g.w.size[1] != g.w.size[2] or g.w.size[1] not in sizes:
            yield f"the filter must be square, of {' '.join(map(str, sizes))} taps; got {g.w.size}"
        if g.stride[1] != g.stride[2] or g.stride[1] not in strides or g.x.size[0] > 1:
            yield f"strides must be equal, 1 or 2, of two spatial dims; got {g.stride}"
        if g.dilation != (1, 1, 1):
            yield f"dilation must be 1; got {g.dilation}"

    @staticmethod
    def wrong_layout(p):
        for name in (p.op.parts[0], p.op.parts[2]):
            tensor = p.operands[name]
            if not tensor.is_packed("nchw"):
                yield f"{name} must be packed NCHW; got strides {tensor.strides}"
            if tensor.alignment < CHUNK:
                yield f"{name} must be aligned to {CHUNK} bytes; got {tensor.alignment}"
            yield from too_many(f"planes of {name} (n and c)", tensor.n * tensor.c)
            yield from too_many(f"pixels of a plane of {name}", prod(tensor.spatial))

    # ---- Choice ----

    def extent(self, g: Geometry) -> tuple[int, int]:
        """(rows, or pairs of them, that a plane has; columns)."""
        return g.y.size[1:]

    def reads(self, g: Geometry, cut: PlaneCut) -> list[tuple]:
        """(rows of a band, dims of a plane) of what a block brings."""
        return [((cut.strips * cut.rows - 1) * g.stride[1] + g.w.size[1], g.x.size[1:])]

    def planes(self, g: Geometry) -> int:
        """How many follow each other in memory."""
        return g.y.n * g.groups

    def cut(self, p, rows: int) -> PlaneCut:
        g = plain_geometry(p)
        height, width = self.extent(g)
        pairs, strips = ceil_div(width, 2), ceil_div(height, rows)
        group = min(THREADS // (pairs * strips), self.planes(g))
        if group > 1:
            return PlaneCut(group, 1, strips, rows, pairs)
        each = max(min(strips, THREADS // pairs), 1)
        return PlaneCut(1, ceil_div(strips, each), each, rows, pairs)

    def every(self, p) -> list[Config]:
        height = self.extent(plain_geometry(p))[0]
        return [Config(rows=r) for r in sorted({ceil_div(height, down) for down in range(1, height + 1)})]

    def stage_bytes(self, p, config) -> int:
        g, cut = plain_geometry(p), self.cut(p, config.rows)
        return sum(cut.staged(rows, size, p.descs[0].dtype.bytes)
                   for rows, size in self.reads(g, cut))

    def smem(self, p, config) -> int:
        return self.stage_bytes(p, config)

    def has_room(self, p, dev, config) -> bool:
        return self.smem(p, config) <= dev.smem_bytes

    def configs(self, p, dev):
        found = [config for config in self.every(p) if self.has_room(p, dev, config)]
        yield from sorted(found, key=lambda config: self.cost(p, dev, config))

    def blocks(self, p, dev, config) -> tuple[int, int]:
        """(blocks, images that each has one after the other)."""
        g, cut = plain_geometry(p), self.cut(p, config.rows)
        return ceil_div(self.planes(g), cut.group) * cut.bands, 1

    def instructions(self, g: Geometry) -> int:
        """Of a step of a thread: loads and what they are made, products, around them."""
        taps, stride = g.w.size[1], g.stride[1]
        return stride * (3 * (taps + stride) + 4) + 2 * taps * taps + 12

    def steps(self, g: Geometry, rows: int) -> int:
        return rows + (g.w.size[1] - 1) // g.stride[1] + 4

    @once_per_match
    def cost(self, p, dev, config):
        """Memory beside the steps of all threads, or beside those of one where a block waits."""
        g, (blocks, walks) = plain_geometry(p), self.blocks(p, dev, config)
        per_sm = min(SMEM_SM // (self.smem(p, config) + 1024), THREADS_SM // THREADS,
                     REGISTERS_SM // (THREADS * self.registers[g.w.size[1]]))
        steps, warps = walks * self.steps(g, config.rows), THREADS // 32
        issue = ceil_div(blocks, dev.sms) * warps / 4 * self.instructions(g) * ISSUE
        waiting = ceil_div(blocks, dev.sms * max(per_sm, 1)) * (self.step_clocks + self.instructions(g))
        memory = moved_us(p.region.traffic_bytes, dev, 0.88) - dev.launch_us
        return dev.launch_us + together(WAIT, memory, steps * max(issue, waiting) / dev.clock_mhz)

    # ---- Launches ----

    def args(self, p, cut: PlaneCut) -> dict:
        """What all kernels are told of the cut."""
        return dict(group=cut.group, strips=cut.strips, rows=cut.rows, bands=cut.bands, pairs=cut.pairs,
                    of_strips=cut.strips)

    def image_launch(self, p, config, kernel: str, w_start: int, w_steps: tuple, **args) -> list:
        """The launch that writes images."""
        g, cut = plain_geometry(p), self.cut(p, config.rows)
        every = dict(self.args(p, cut), w=p.ptr("w", w_start * p.w.dtype.bytes), alpha=p.scalar("alpha"),
                     beta=p.scalar("beta"), planes=self.planes(g), channels=g.groups, w_c=g.w.n_step,
                     w_s=w_steps[1:], **args)
        return [Launch(f"{kernel}_{p.w.dtype}", every, dict(stage_bytes=self.stage_bytes(p, config)))]


class ConvFpropDepthwisePlanes(DepthwisePlanes):
    """A row of x adds to all rows of y that it meets, whose sums are in registers."""
    index = 107
    takes = core(ConvFprop)

    def plan(self, p, dev, config):
        g = plain_geometry(p)
        kernel = f"conv_depthwise_planes_k{g.w.size[1]}s{g.stride[1]}"
        return self.image_launch(p, config, kernel, g.w_start, g.w.steps, x=p.ptr("x"), y=p.ptr("y"),
                                 out=g.y.size[1:], size=g.x.size[1:], pad=g.pad[1:])


class ConvDgradDepthwisePlanes(DepthwisePlanes):
    """Unit stride: the forward kernel on dy with the filter read backwards. Stride 2: a row of dy adds to all
    rows of dx that it meets."""
    index = 125
    takes = core(ConvDgrad)

    def extent(self, g):
        height, width = g.x.size[1:]
        if g.stride[1] == 2:
            height = (height - 1 + g.pad[1]) // 2 + 1 - g.pad[1] // 2
        return height, width

    def reads(self, g, cut):
        taps = g.w.size[1]
        return [(cut.strips * cut.rows + (taps - 1 if g.stride[1] == 1 else taps // 2), g.y.size[1:])]

    def plan(self, p, dev, config):
        g = plain_geometry(p)
        where = dict(out=g.x.size[1:], size=g.y.size[1:])
        if g.stride[1] == 2:
            return self.image_launch(p, config, f"conv_depthwise_planes_spread_k{g.w.size[1]}", g.w_start,
                                     g.w.steps, dy=p.ptr("dy"), dx=p.ptr("dx"), pad=g.pad[1:], **where)
        last, backwards = g.w.flipped()
        return self.image_launch(p, config, f"conv_depthwise_planes_dgrad_k{g.w.size[1]}", g.w_start + last,
                                 backwards.steps, x=p.ptr("dy"), y=p.ptr("dx"),
                                 pad=tuple(g.w.size[1] - 1 - b for b in g.pad[1:]), **where)


class ConvWgradDepthwisePlanes(DepthwisePlanes):
    """All taps of a channel are sums of a thread; blocks take ranges of images, and their sums are added in
    order: equal in every run."""
    index = 145
    takes = core(ConvWgrad)
    source = "conv/conv_depthwise_planes_wgrad.cu"
    registers = {3: 48, 5: 88, 7: 140}
    step_clocks = 900

    def planes(self, g):
        return g.groups                          # of an image; the next one is another walk

    def reads(self, g, cut):
        return [*super().reads(g, cut), (cut.strips * cut.rows, g.y.size[1:])]

    def smem(self, p, config):
        return max(2 * self.stage_bytes(p, config), 4 * THREADS * plain_geometry(p).taps)

    def instructions(self, g):
        taps, stride = g.w.size[1], g.stride[1]
        return taps * (3 * (taps + stride) + 4) + 2 * taps * taps + 12

    def steps(self, g, rows):
        return rows + 4

    def ranges(self, p, dev, cut: PlaneCut) -> int:
        """Images of a block."""
        g = plain_geometry(p)
        columns = ceil_div(g.groups, cut.group) * cut.bands
        return max(ceil_div(g.x.n, max(WGRAD_BLOCKS * dev.sms // columns, 1)), 1)

    def blocks(self, p, dev, config):
        g, cut = plain_geometry(p), self.cut(p, config.rows)
        each = self.ranges(p, dev, cut)
        return ceil_div(g.groups, cut.group) * cut.bands * ceil_div(g.x.n, each), each

    def cost(self, p, dev, config):
        return dev.launch_us + super().cost(p, dev, config)

    def plan(self, p, dev, config):
        g, cut, dtype = plain_geometry(p), self.cut(p, config.rows), p.x.dtype
        each = self.ranges(p, dev, cut)
        parts = ceil_div(g.x.n, each) * cut.bands
        sums = p.scratch(parts * p.dw.count * 4)
        (rows, size), _ = self.reads(g, cut)
        args = dict(self.args(p, cut), x=p.ptr("x"), dy=p.ptr("dy"), parts=sums, images=g.x.n,
                    part_images=each, channels=g.groups, channel_groups=ceil_div(g.groups, cut.group),
                    out=g.y.size[1:], size=g.x.size[1:], pad=g.pad[1:],
                    x_bytes=cut.staged(rows, size, dtype.bytes),
                    stage_bytes=self.stage_bytes(p, config))
        total = dict(parts=sums, dw=p.ptr("dw", g.w_start * dtype.bytes), beta=p.scalar("beta"),
                     alpha=p.scalar("alpha"), count=p.dw.count, splits=parts, channel_inner=0,
                     rows=prod(g.w.size), digit=g.w.size[::-1], dw_k=g.w.n_step, dw_c=0, dw_s=g.w.steps)
        kernel = f"conv_depthwise_planes_wgrad_k{g.w.size[1]}s{g.stride[1]}_{dtype}"
        return [Launch(kernel, args, {}), Launch(f"conv_wgrad_simt_sum_{dtype}", total, {})]

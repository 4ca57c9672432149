"""Depthwise convolution of channels-last images with small square filters, in three directions: every row is
read once."""
from __future__ import annotations

from math import prod

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, moved_us, no_elements, no_variant, together, wrong_device
from ..tile.matrices import MOST, too_many
from .view import Geometry, behind_filter, behind_image, geometry, parts, pixels_of

PAIR, LANES, UNITS = 2, 16, 8                    # channels of a thread; threads of a unit, units of a block
PER_SM = {3: 5, 5: 4, 7: 3}                      # blocks that an SM holds, by the filter's size
BUSY = 3.0                                       # blocks of an SM that reach the bandwidth
ROW_CLOCKS = 128                                 # of a step of a block that is alone
CLOCKS_PER_PRODUCT = 1.56                        # of a thread's products, where an SM is full
WAIT = 1.08                                      # how little memory and products hide each other
SHARE, AROUND_US = 0.95, 3.6                     # of the bandwidth; before the first row and behind the last
WGRAD_BLOCKS = 4                                 # of an SM that share the strips of 32 channels

class DepthwiseSlide(Engine):
    """What the three directions share: refusals, strips and time. A thread has two channels of a strip: some
    outputs along a row, ``rows`` of them down the image."""
    knobs = (Knob("rows", lo=1, hi=MOST),)
    source = "conv/conv_depthwise_slide.cu"

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        yield from no_elements({name: p.operands[name] for name in p.op.reads})
        wrong = [*no_variant(p, self.source, *p.op.reads)]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.operands[p.op.reads[0]].dtype} tensors; got {p.op.compute}"
        image, filters, out = parts(p, self.lead(p))
        c, k = filters.c, filters.n * filters.c // image.c
        if (c, k) != (1, 1):
            yield f"each group must have one channel and one filter; got {c} and {k}"
        wrong = [*self.wrong_window(self.geometry(p)), *self.wrong_layout(p, image, out)]
        yield from wrong
        if not wrong:
            needed = kernels.get(self.kernel(p)).smem_bytes()
            if needed > dev.smem_bytes:
                yield f"needs {needed} bytes of shared memory; the device has {dev.smem_bytes}"
        yield from fusion.reasons(self.fused(p))

    def wrong_window(self, g: Geometry):
        sizes, strides = kernels.axis(self.source, "K"), (1, 2)
        if g.w.size[0] != 1 or g.w.size[1] != g.w.size[2] or g.w.size[1] not in sizes:
            yield f"the filter must be square, of {' '.join(map(str, sizes))} taps; got {g.w.size}"
        if g.stride[1] != g.stride[2] or g.stride[1] not in strides or g.x.size[0] > 1:
            yield f"strides must be equal, 1 or 2, of two spatial dims; got {g.stride}"
        if g.dilation != (1, 1, 1):
            yield f"dilation must be 1; got {g.dilation}"

    def wrong_layout(self, p, image, out):
        g, vector = self.geometry(p), 128 // max(image.dtype.bits, 8)
        if g.groups % vector:
            yield f"groups must be a multiple of {vector}, a channel each (16-byte copies); got {g.groups}"
        for name, tensor, lifted in zip((p.op.parts[0], p.op.parts[2]), (image, out), (g.x, g.y)):
            if lifted.c_step != 1 or any(s % vector for s in (lifted.n_step, *lifted.steps)):
                yield (f"{name} must have contiguous channels and other strides that are multiples "
                       f"of {vector}; got strides {tensor.strides}")
            if tensor.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {tensor.alignment}"
            yield from too_many(f"pixels of {name} (n and spatial dims)", pixels_of(tensor))

    @staticmethod
    def lead(p):
        return p.lead(p.operands[p.op.reads[0]].dtype.name)

    def geometry(self, p) -> Geometry:
        return geometry(p, self.lead(p))

    def fused(self, p):
        return behind_image(p, p.operands[p.op.reads[0]].dtype.name, PAIR)

    def extent(self, g: Geometry) -> tuple[int, int, int]:
        """(rows that are walked down, columns, columns of a strip)."""
        return *g.y.size[1:], 8 if g.stride[1] == 1 else 4

    def strips(self, g: Geometry, rows: int) -> tuple[int, int, int]:
        """(strips of all images, across a row, down an image)."""
        height, columns, width = self.extent(g)
        across, down = ceil_div(columns, width), ceil_div(height, rows)
        return g.y.n * across * down, across, down

    def configs(self, p, dev):
        height = self.extent(self.geometry(p))[0]
        rows = sorted({ceil_div(height, down) for down in range(1, height + 1)}) if height else [1]
        yield from sorted((Config(rows=r) for r in rows), key=lambda config: self.cost(p, dev, config))

    def effort(self, g: Geometry) -> float:
        """Clocks of a product against those of the forward kernel at unit stride."""
        return 1.0 if g.stride[1] == 1 else 1.38

    def blocks(self, p, dev, rows: int) -> tuple[int, int]:
        """(blocks, strips that each walks down)."""
        g = self.geometry(p)
        return ceil_div(self.strips(g, rows)[0], UNITS) * ceil_div(g.groups, PAIR * LANES), 1

    def steps(self, g: Geometry, rows: int) -> float:
        """Steps of a walk down so many rows of y: those at its ends make some of the sums."""
        taps = g.w.size[1]
        return rows + (0.56 if taps > 3 else 1.0) * (taps // g.stride[1]) + 0.84

    @once_per_match
    def cost(self, p, dev, config):
        """Memory, which few blocks do not keep busy, beside the products of all blocks' steps. Fitted to 312
        configurations of 34 problems on an H200: within 10 %, the choice within 3 % of the best."""
        g = self.geometry(p)
        blocks, walks = self.blocks(p, dev, config.rows)
        taps, slots = g.w.size[1], dev.sms * PER_SM[g.w.size[1]]
        products = taps * taps * self.extent(g)[2] * PAIR * CLOCKS_PER_PRODUCT * self.effort(g)
        full, rest = divmod(blocks, slots)
        clocks = full * max(ROW_CLOCKS, PER_SM[taps] * products)
        if rest:
            clocks += max(ROW_CLOCKS, ceil_div(rest, dev.sms) * products)
        memory = moved_us(p.region.traffic_bytes, dev, SHARE) - dev.launch_us
        memory *= (full * slots + max(rest, BUSY * dev.sms if rest else 0)) / max(blocks, 1)
        steps = walks * self.steps(g, config.rows)
        return dev.launch_us + AROUND_US + together(WAIT, memory, steps * clocks / dev.clock_mhz)

    def kernel(self, p) -> str:
        """The kernel of the type, the filter and the stride."""
        g = self.geometry(p)
        return f"conv_depthwise_slide_k{g.w.size[1]}s{g.stride[1]}_{p.w.dtype}"

    def launch(self, p, config, x, y, source: str, w_start: int, w_steps: tuple, pad: tuple):
        """The launch that reads ``x`` (Lifted), the operand ``source``, and writes ``y``."""
        g, lead = self.geometry(p), self.lead(p)
        count, across, down = self.strips(g, config.rows)
        dtype, store = p.w.dtype, lead.store(p)
        args = {source: p.ptr(source), "w": p.ptr("w", w_start * dtype.bytes), **store,
                "alpha": p.scalar("alpha"), "channels": g.groups, "strips": count, "rows": config.rows,
                "across": across, "down": down, "out": y.size[1:], "size": x.size[1:], "pad": pad,
                "w_c": g.w.n_step, "w_s": w_steps[1:]}
        return Launch(self.kernel(p), args, {}, fusion.at("epilogue", self.fused(p)))


class ConvFpropDepthwiseSlide(DepthwiseSlide):
    """A thread walks down the image; a row of x adds to all rows of y that it meets, whose sums are in
    registers."""
    index = 103
    takes = core(ConvFprop, behind=many(Pointwise))

    def plan(self, p, dev, config):
        g = self.geometry(p)
        if not self.strips(g, config.rows)[0]:
            return []
        launch = self.launch(p, config, g.x, g.y, "x", g.w_start, g.w.steps, g.pad[1:])
        return [strides_of(launch, x=g.x, y=g.y)]


def strides_of(launch: Launch, **tensors) -> Launch:
    """The launch with the strides of its tensors, under their parameters' names."""
    for name, lifted in tensors.items():
        launch.args.update({f"{name}_n": lifted.n_step, f"{name}_s": lifted.steps[1:]})
    return launch


class ConvDgradDepthwiseSlide(DepthwiseSlide):
    """Unit stride: the forward kernel on dy with the filter read backwards. Stride 2: a row of dy adds to all
    rows of dx that it meets."""
    index = 121
    takes = core(ConvDgrad, behind=many(Pointwise))

    def effort(self, g):
        return 1.0 if g.stride[1] == 1 else 2.8

    def kernel(self, p):
        g = self.geometry(p)
        way = "spread" if g.stride[1] == 2 else "slide_dgrad"
        return f"conv_depthwise_{way}_k{g.w.size[1]}_{p.w.dtype}"

    def extent(self, g):
        if g.stride[1] == 1:
            return *g.x.size[1:], 8
        pairs = [(n - 1 + pad) // 2 + 1 - pad // 2 for n, pad in zip(g.x.size[1:], g.pad[1:])]
        return *pairs, 4 if g.w.size[1] == 3 else 2

    def plan(self, p, dev, config):
        g = self.geometry(p)
        if not self.strips(g, config.rows)[0]:
            return []
        if g.stride[1] == 2:
            launch = self.launch(p, config, g.y, g.x, "dy", g.w_start, g.w.steps, g.pad[1:])
            return [strides_of(launch, dy=g.y, dx=g.x)]
        last, backwards = g.w.flipped()
        launch = self.launch(p, config, g.y, g.x, "dy", g.w_start + last, backwards.steps,
                             tuple(g.w.size[1] - 1 - b for b in g.pad[1:]))
        launch.args["x"], launch.args["y"] = launch.args.pop("dy"), launch.args.pop("dx")
        return [strides_of(launch, x=g.y, y=g.x)]


class ConvWgradDepthwiseSlide(DepthwiseSlide):
    """All taps of two channels are sums of a thread; blocks take ranges of strips, and their sums are added
    in order: equal in every run."""
    index = 141
    takes = core(ConvWgrad, behind=many(Pointwise))
    source = "conv/conv_depthwise_slide_wgrad.cu"

    def effort(self, g):
        return 1.43

    def steps(self, g, rows):
        return rows + g.w.size[1] // g.stride[1] + 2

    def kernel(self, p):
        g = self.geometry(p)
        return f"conv_depthwise_slide_wgrad_k{g.w.size[1]}s{g.stride[1]}_{p.x.dtype}"

    def extent(self, g):
        taps, is_strided = g.w.size[1], g.stride[1] == 2
        return *g.y.size[1:], 4 if is_strided or taps > 5 else 8

    def fused(self, p):
        return behind_filter(p, (p.x.dtype.name,), channel_inner=False)

    def ranges(self, p, dev, rows: int) -> tuple[int, int]:
        """(ranges of strips, strips of each)."""
        count, _, _ = self.strips(self.geometry(p), rows)
        columns, elements = ceil_div(self.geometry(p).groups, PAIR * LANES), max(self.lead(p).tensor.count, 1)
        most = max(min(WGRAD_BLOCKS * dev.sms // columns, count // UNITS, MOST // elements), 1)
        each = max(ceil_div(ceil_div(count, most), UNITS), 1) * UNITS
        return max(ceil_div(count, each), 1), each

    def blocks(self, p, dev, rows):
        splits, each = self.ranges(p, dev, rows)
        return splits * ceil_div(self.geometry(p).groups, PAIR * LANES), each // UNITS

    def cost(self, p, dev, config):
        return dev.launch_us + super().cost(p, dev, config)

    def plan(self, p, dev, config):
        lead, g, dtype = self.lead(p), self.geometry(p), p.x.dtype
        count, across, down = self.strips(g, config.rows)
        elements = lead.tensor.count
        splits, each = self.ranges(p, dev, config.rows)
        sums, store = p.scratch(splits * elements * 4), lead.store(p)
        if lead.is_native:
            store["dw"] += g.w_start * dtype.bytes
        args = dict(x=p.ptr("x"), dy=p.ptr("dy"), parts=sums, channels=g.groups, strips=count,
                    split_strips=each, rows=config.rows, across=max(across, 1), down=max(down, 1),
                    out=g.y.size[1:], size=g.x.size[1:], pad=g.pad[1:])
        total = dict(parts=sums, **store, alpha=p.scalar("alpha"), count=elements, splits=splits,
                     channel_inner=0, rows=prod(g.w.size), digit=g.w.size[::-1], dw_k=g.w.n_step, dw_c=0,
                     dw_s=g.w.steps)
        return [strides_of(Launch(self.kernel(p), args, dict(splits=splits)), x=g.x, dy=g.y),
                Launch(f"conv_wgrad_simt_sum_{dtype}", total, {}, fusion.at("epilogue", self.fused(p)))]

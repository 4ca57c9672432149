"""Layer, RMS and instance normalization of any types, rows in registers: forward and backward."""
from __future__ import annotations

from ... import fusion
from ...dtypes import BY_NAME
from ...fusion import Builder, Site
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import NormBwd, NormFwd, Pointwise
from ...steps import Launch
from ..cast import number_as
from ..engine import Config, Engine, Knob, memory_us, moved_us, numbers, wrong_device

# eights of elements that a block may have of a row
FWD_UNITS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
BWD_UNITS = FWD_UNITS[:-1]
CLUSTERS = (1, 2, 4, 8)                          # blocks of a row
LONG, RESIDENT, STATIC = 1024, {64: 4, 2048: 1}, 1 << 10      # of norm_bwd_rows.cu
# of the bandwidth, measured on an H200: by the blocks of a row, which all wait for its sums
FWD_SHARE, BWD_SHARE = {1: 0.85, 2: 0.6, 4: 0.52, 8: 0.42}, {1: 0.5, 2: 0.42, 4: 0.26, 8: 0.19}
WIDE = 8
MOST = 2 ** 30


def spaces(p) -> tuple:
    """(dims that there is a row for, dims of a row), each the slowest in x's memory first, behind those of
    one element. Images that have parameters of their own come first."""
    inside, apart = p.op.axes(p.x.rank), p.op.mode == "ada_layer"
    place = lambda a: (a > 0 or not apart, p.x.dims[a] > 1, -p.x.strides[a])
    by_stride = lambda axes: tuple(sorted(axes, key=place))
    return by_stride(a for a in range(p.x.rank) if a not in inside), by_stride(inside)


def row_stride(t, kept, inside) -> int | None:
    """Elements from row to row where a row's lie side by side and rows have one stride; else None."""
    step = 1
    for axis in reversed(inside):
        if t.dims[axis] > 1 and t.strides[axis] != step:
            return None
        step *= t.dims[axis]
    first, step = None, 1
    for axis in reversed(kept):
        if t.dims[axis] > 1:
            first = t.strides[axis] // step if first is None else first
            if t.strides[axis] != first * step:
                return None
        step *= t.dims[axis]
    return first or 0


class NormRows(Engine):
    """``walked``: operands whose elements the threads load, beside the output that they store; ``units``: of
    the blocks that stand alone, ``joined``: {blocks of a cluster: units that they have}."""
    understands = numbers("f32")
    knobs = (Knob("channels", (WIDE, 1)), Knob("cluster", CLUSTERS))
    walked: tuple
    units: tuple
    joined: dict

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        if p.op.math != "f32" or fusion.math_of((), [d for d in p.descs if d is not None]) != "f32":
            yield f"compute and types must be of f32 or shorter; got compute {p.op.compute}"
        if not self.clusters(p, dev):
            most = WIDE * max([n * max(units) for n, units in self.offered(dev).items()])
            yield f"needs rows of at most {most} elements on sm_{dev.sm}; got {p.op.count(p.x)}"
        if p.x.count >= MOST:
            yield f"x must have fewer than 2^30 elements; got {p.x.count}"
        yield from () if self.fitting(p) else fusion.reasons(*self.fuse(p, 1).values())

    @once_per_match
    def fitting(self, p) -> list:
        """How many neighbours there may be at once, the most first."""
        lanes = (WIDE, 1) if self.strides(p) else (1,)
        return [n for n in lanes if not [*fusion.reasons(*self.fuse(p, n).values())]]

    @once_per_match
    def strides(self, p) -> dict | None:
        """Row strides of what is walked, where eight neighbours are one access in all of it; else None."""
        tensors = {name: p.operands[name] for name in self.walked} | dict(out=p.lead().tensor)
        kept, inside = spaces(p)
        found = {name: row_stride(t, kept, inside) for name, t in tensors.items()}
        is_near = all(s is not None and s % WIDE == 0 for s in (p.x.dims[inside[-1]], *found.values()))
        is_aligned = all(t.alignment >= 16 and t.dtype.bits >= 8 for t in tensors.values())
        return found if is_near and is_aligned else None

    def configs(self, p, dev):
        ways = [Config(channels=n, cluster=c) for n in self.fitting(p) for c in self.clusters(p, dev)]
        return iter(sorted(ways, key=lambda c: self.cost(p, dev, c)))

    # ---- How many blocks have a row ----

    def offered(self, dev) -> dict:
        """{blocks of a row: units of each} on a device."""
        return {1: self.units, **(self.joined if dev.sm >= 90 else {})}

    def clusters(self, p, dev) -> list:
        """Blocks that a row may have, the fewest first."""
        return [n for n, units in self.offered(dev).items()
                if self.width(p, n) <= WIDE * max(units) and self.width(p, n) * (n - 1) < p.op.count(p.x)]

    @staticmethod
    def width(p, cluster) -> int:
        """Elements of a row that a block has."""
        return ceil_div(ceil_div(p.op.count(p.x), cluster), WIDE) * WIDE if cluster > 1 else p.op.count(p.x)

    def size(self, p, cluster) -> int:
        """The units of a block."""
        units = self.units if cluster == 1 else self.joined[cluster]
        return next(n for n in units if self.width(p, cluster) <= WIDE * n)

    def site(self, p, tensor, lanes) -> Site:
        kept, inside = spaces(p)
        keys = (("row", kept), ("col", inside))
        return Site(p.x.dims, tensor if lanes > 1 else None, keys, "col" if lanes > 1 else "", lanes)

    def loaded(self, p, name, lanes, like="x"):
        @fusion.attempt
        def load(p):
            if p.operands[name] is None:
                return None
            builder = Builder("f32", self.site(p, p.operands[like], lanes), p.graph)
            return builder.finish(builder.read(p.uids[name]))
        return load(p)

    def stored(self, p, lanes):
        @fusion.attempt
        def store(p):
            lead = p.lead()
            return fusion.behind(p, self.site(p, lead.tensor, lanes), lead)
        return store(p)

    def thin(self, p, name, *, is_read=False):
        """What there is one of a row."""
        return self._of_index(p, name, (("row", spaces(p)[0]),), is_read)

    def _of_index(self, p, name, keys, is_read=False):
        @fusion.attempt
        def made(p):
            if p.operands[name] is None or not (is_read or p.uids[name] in p.region.outputs):
                return None
            builder = Builder("f32", Site(p.operands[name].dims, None, keys), p.graph)
            if is_read:
                return builder.finish(builder.read(p.uids[name]))
            builder.values[p.uids[name]] = "v"
            builder.store(p.uids[name])
            return builder.finish("")
        return made(p)

    def shape(self, p, lanes, cluster) -> dict:
        found = self.strides(p) if lanes > 1 else {}
        return dict(rows=p.x.count // p.op.count(p.x), cols=p.op.count(p.x), is_rms=p.op.mode == "rms",
                    width=self.width(p, cluster),
                    **{f"{name}_row": found.get(name, 0) for name in self.walked})

    @staticmethod
    def alone(p) -> float:
        """The share of what one element at a time reaches: less where elements of a row lie apart."""
        return 1.0 if p.x.strides[spaces(p)[1][-1]] == 1 else 0.3

    @staticmethod
    def given(fuse: dict) -> dict:
        return {mark: program for mark, program in fuse.items() if program is not None}


class NormFwdRows(NormRows):
    """One read of x; up to 1024 threads a row; pointwise operations behind it."""
    index = 400
    takes = core(NormFwd, behind=many(Pointwise))
    walked, units, joined = ("x",), FWD_UNITS, {2: (2048,), 4: (2048,), 8: (2048, 4096)}

    def fuse(self, p, lanes) -> dict:
        return dict(load_x=self.loaded(p, "x", lanes), load_scale=self.loaded(p, "scale", lanes),
                    load_bias=self.loaded(p, "bias", lanes), store=self.stored(p, lanes),
                    mean=self.thin(p, "mean"), rstd=self.thin(p, "rstd"))

    def cost(self, p, dev, config):
        is_longest = self.size(p, config.cluster) == max(FWD_UNITS) and config.cluster == 1
        share = 0.65 if is_longest else FWD_SHARE[config.cluster]
        share *= 1 if config.channels > 1 else 0.35 * self.alone(p)
        return memory_us(p, dev, efficiency=share)

    def plan(self, p, dev, config):
        lanes, steps = config.channels, []
        args = self.shape(p, lanes, config.cluster) | dict(epsilon=number_as(p, "epsilon", "f32", steps))
        args["y_row"] = self.strides(p)["out"] if lanes > 1 else 0
        kernel = f"norm_fwd_rows_{self.size(p, config.cluster)}_{lanes}_{config.cluster}"
        return [*steps, Launch(kernel, args, {}, self.given(self.fuse(p, lanes)))]


class NormBwdRows(NormRows):
    """One read of x and dy by blocks, or clusters, that stride over the rows of an image, or of all; each has
    its part of dscale and dbias in the workspace, added in a fixed order."""
    index, takes = 405, core(NormBwd, behind=many(Pointwise))
    walked, units, joined = ("x", "dy"), BWD_UNITS, {2: (2048,), 4: (2048,), 8: (2048,)}

    def refuse(self, p, dev):
        if p.op.mode == "instance":
            yield f"mode must be layer, ada_layer or rms; got {p.op.mode}"
        else:
            yield from super().refuse(p, dev)

    @staticmethod
    def groups(p) -> int:
        """Groups of rows that have parameters of their own."""
        return p.x.dims[0] if p.op.mode == "ada_layer" else 1

    def group_rows(self, p) -> int:
        return p.x.count // p.op.count(p.x) // self.groups(p)

    def sums(self, p) -> dict:
        keys = ("group", (0,)), ("col", spaces(p)[1])
        return self.given({name: self._of_index(p, name, keys) for name in ("dscale", "dbias")})

    def part(self, p, blocks):
        """The area of the sums of so many blocks a group."""
        floats = self.groups(p) * blocks * 2 * p.op.count(p.x)
        return p.scratch(floats * BY_NAME["f32"].bytes) if self.sums(p) else None

    def finish(self, p, part, blocks) -> list:
        """The launch that adds them."""
        args = dict(part=part, parts=blocks, cols=p.op.count(p.x))
        return [Launch("norm_bwd_sums", args, dict(groups=self.groups(p)), self.sums(p))] if part else []

    def fuse(self, p, lanes) -> dict:
        return dict(load_x=self.loaded(p, "x", lanes), load_dy=self.loaded(p, "dy", lanes, like="dy"),
                    load_scale=self.loaded(p, "scale", lanes), load_mean=self.thin(p, "mean", is_read=True),
                    load_rstd=self.thin(p, "rstd", is_read=True), store=self.stored(p, lanes))

    def offered(self, dev) -> dict:
        """Long rows have their sums in shared memory."""
        has_room = lambda units: tuple(n for n in units if n < LONG or 64 * n + STATIC <= dev.smem_bytes)
        found = {n: has_room(units) for n, units in super().offered(dev).items()}
        return {n: units for n, units in found.items() if units}

    def blocks(self, p, dev, cluster) -> int:
        """Blocks, or clusters, of a group, as many as are resident."""
        units = self.size(p, cluster)
        teams = 8 if units == 16 else 4 if units <= 64 else 1
        per_sm = RESIDENT.get(units) or 1024 // (128 if units <= 128 else min(units, 512))
        resident = dev.sms * per_sm // cluster // self.groups(p)
        return max(min(ceil_div(self.group_rows(p), teams), resident), 1)

    def cost(self, p, dev, config):
        parts = 16 * self.blocks(p, dev, config.cluster) * self.groups(p) * p.op.count(p.x)
        share = 0.65 if self.size(p, config.cluster) <= 512 else BWD_SHARE[config.cluster]
        share *= 1 if config.channels > 1 else 0.22 * self.alone(p)
        return memory_us(p, dev, efficiency=share) + (moved_us(parts, dev) if self.sums(p) else 0.0)

    def plan(self, p, dev, config):
        lanes, steps, blocks = config.channels, [], self.blocks(p, dev, config.cluster)
        part = self.part(p, blocks)
        ahead = {f"{name}_ahead": p.ptr(name) if lanes > 1 else None for name in self.walked}
        sizes = {f"{name}_bytes": p.operands[name].dtype.bytes if lanes > 1 else 1 for name in self.walked}
        args = self.shape(p, lanes, config.cluster) | ahead | sizes | dict(
            part=part, has_statistics=p.rstd is not None, group_rows=self.group_rows(p), group_blocks=blocks,
            epsilon=number_as(p, "epsilon", "f32", steps))
        args["dx_row"] = self.strides(p)["out"] if lanes > 1 else 0
        kernel = f"norm_bwd_rows_{self.size(p, config.cluster)}_{lanes}_{config.cluster}"
        first = Launch(kernel, args, dict(groups=self.groups(p)), self.given(self.fuse(p, lanes)))
        return [*steps, first, *self.finish(p, part, blocks)]

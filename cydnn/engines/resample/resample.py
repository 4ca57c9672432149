"""Resampling of any types and strides, forward and backward, with pointwise operations behind it."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...fusion import Builder, Site
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import Pointwise, ResampleBwd, ResampleFwd
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, memory_us, wrong_device

MOST = 2 ** 31 - 256
LANES = 8
STRIP = 8                                        # neighbours of a row that a thread makes one after the other
PADDING = ("zero", "neg_inf", "edge")
KINDS = dict(max="max", bilinear="linear", avg_include_padding="avg", avg_exclude_padding="avg",
             nearest="avg")                      # of the kernels


def three(values, fill: int) -> tuple:
    """Values of one to three spatial dims as w h d."""
    return (*reversed(values), *(fill,) * (3 - len(values)))


def strides_of(d) -> tuple:
    """w h d c n"""
    return (*three(d.strides[2:], 0), d.strides[1], d.strides[0]) if d is not None else (0,) * 5


def geometry(op, dims) -> dict:
    """Sizes, windows and where they begin, in whole units of half the op's."""
    window, pre, _, stride = op.geometry(len(dims))
    units = 2 * op.denominator
    middle = op.denominator if op.mode == "bilinear" else 0
    starts = [middle - 2 * n for n in pre]
    lift = [-(n // units) for n in starts]
    begin = [n + k * units for n, k in zip(starts, lift)]
    return dict(sizes=three(dims[2:], 1), window=three(window, 1),
                stride=three([2 * s for s in stride], units), begin=three(begin, 0), lift=three(lift, 0),
                units=units, unit=1.0 / units, padding=PADDING.index(_padding(op)),
                nan_wins=op.nan == "propagate",
                full=0 if op.mode == "avg_exclude_padding" else prod(window))


def _padding(op) -> str:
    """An average without padding reads none of it."""
    return "zero" if op.mode == "avg_exclude_padding" else op.padding


class ResampleEngine(Engine):
    """``walked``: the operand whose elements the threads make, ``read`` what the work is counted in."""
    knobs = (Knob("channels", (LANES, 1)),)
    walked: str
    is_general = True

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        d, last = p.operands[self.walked], self.lead(p).tensor
        if d.count >= MOST:
            yield f"{self.walked} must have fewer than 2^31 - 256 elements; got {d.count}"
        found, outs = geometry(p.op, self.image(p).dims), three(self.windows(p).dims[2:], 1)
        most = max(o * s + b for o, s, b in zip(outs, found["stride"], found["begin"]))
        if max(most, (max(found["sizes"]) + max(found["window"])) * found["units"]) >= 2 ** 30:
            yield f"windows must begin below 2^30 units of 1/{found['units']}; got {most}"
        if last.dims == d.dims:
            yield from fusion.reasons(*self.fuse(p, 1).values())

    def lead(self, p):
        return p.lead()

    def inner(self, p) -> bool:
        """Neighbouring threads are neighbouring channels."""
        d = self.lead(p).tensor
        last = d.strides[-1] if d.dims[-1] > 1 else d.count + 1
        return d.dims[1] > 1 and d.strides[1] < last

    def lanes(self, p) -> tuple:
        """Channels that a thread may have: eight where they are neighbours everywhere."""
        walked = [self.lead(p).tensor, *(p.operands[name] for name in p.op.reads if name != "y")]
        near = all(t is None or t.strides[1] == 1 for t in walked)
        return (LANES, 1) if near and self.inner(p) and walked[0].dims[1] % LANES == 0 else (1,)

    def configs(self, p, dev):
        best, *others = self.lanes(p)
        return first_then(Config(channels=best), (Config(channels=n) for n in others))

    def cost(self, p, dev, config):
        near = 0.45 if config.channels > 1 else 0.15
        return memory_us(p, dev, efficiency=near) * self.work(p)

    def load_site(self, d, lanes) -> Site:
        return Site(d.dims, d, (("col", (1,)),), "col" if lanes > 1 else "", lanes)

    def store_site(self, p, dims, tensor, lanes) -> Site:
        """``out`` counts in the order of the threads; ``off`` in the tensor."""
        spatial = tuple(range(2, len(dims)))
        order = (0, *spatial, 1) if self.inner(p) else (0, 1, *spatial)
        return Site(dims, tensor, (("out", order),), "out" if lanes > 1 else "", lanes)

    def loaded(self, p, name, lanes):
        @fusion.attempt
        def load(p):
            builder = Builder(self.math(p), self.load_site(p.operands[name], lanes), p.graph)
            return builder.finish(builder.read(p.uids[name]))
        return load(p)

    def stored(self, p, lanes):
        @fusion.attempt
        def store(p):
            lead = self.lead(p)
            site = self.store_site(p, lead.tensor.dims, lead.tensor, lanes)
            return fusion.behind(p, site, lead, mark_type=self.math(p), alpha="alpha", beta="beta")
        return store(p)

    @staticmethod
    def math(p) -> str:
        tensors = [t for name, t in p.operands.items() if t is not None and name != "index"]
        return "f64" if p.op.math == "f64" else fusion.math_of((), tensors)

    def digits(self, p, lanes) -> tuple:
        dims = p.operands[self.walked].dims
        sizes = three(dims[2:], 1)
        return (dims[1] // lanes, *sizes) if self.inner(p) else (*sizes, dims[1])


class ResampleFwdAny(ResampleEngine):
    """A thread makes eight channels of an output, or one, and their indices."""
    index = 460
    takes = core(ResampleFwd, behind=many(Pointwise))
    walked = "y"

    def image(self, p):
        return p.x

    def windows(self, p):
        return p.y

    def work(self, p) -> float:
        """Cells that a thread reads, beside those of its neighbours."""
        return max(1.0, p.op.terms(p.x, p.y) * p.y.count / max(p.x.count, 1) / 8)

    def fuse(self, p, lanes) -> dict:
        return dict(load_x=self.loaded(p, "x", lanes), store=self.stored(p, lanes),
                    index=self._index(p, lanes))

    def _index(self, p, lanes):
        @fusion.attempt
        def number(p):
            if p.uids.get("index") not in p.region.outputs:
                return None
            builder = Builder(self.math(p), self.store_site(p, p.y.dims, None, lanes), p.graph)
            builder.values[p.uids["index"]] = "v"
            builder.store(p.uids["index"])
            return builder.finish("")
        return number(p)

    def plan(self, p, dev, config):
        lanes, y = config.channels, self.lead(p).tensor
        if not p.y.count:
            return []
        args = dict(geometry(p.op, p.x.dims), items=p.y.count // lanes, channels_inner=self.inner(p),
                    nothing=p.y.dtype.lowest, digits=self.digits(p, lanes), x_strides=strides_of(p.x),
                    y_strides=strides_of(y))
        fuse = {mark: fused for mark, fused in self.fuse(p, lanes).items() if fused is not None}
        return [Launch(f"resample_fwd_any_{KINDS[p.op.mode]}_{self.math(p)}_{lanes}", args, {}, fuse)]


class ResampleBwdAny(ResampleEngine):
    """A thread gathers eight channels of a cell, or one; maxima by indices, or by walking the windows."""
    index = 465
    takes = core(ResampleBwd, behind=many(Pointwise))
    walked = "dx"

    def image(self, p):
        return p.dx

    def windows(self, p):
        return p.dy

    def kind(self, p) -> str:
        return "index" if p.op.mode == "max" and p.operands["index"] is not None else KINDS[p.op.mode]

    def work(self, p) -> float:
        walks = p.op.geometry(p.dx.rank)[0] if self.kind(p) == "max" else ()
        return max(1.0, p.op.terms(p.dy, p.dx) / 8) * max(1, *walks, 1)

    def fuse(self, p, lanes) -> dict:
        more = dict(max=("load_x", "x"), index=("load_index", "index")).get(self.kind(p))
        found = dict(load_dy=self.loaded(p, "dy", lanes), store=self.stored(p, lanes))
        return found | ({more[0]: self.loaded(p, more[1], lanes)} if more else {})

    def plan(self, p, dev, config):
        lanes, dx = config.channels, self.lead(p).tensor
        if not p.dx.count:
            return []
        args = dict(geometry(p.op, p.dx.dims), items=p.dx.count // lanes, channels_inner=self.inner(p),
                    outs=three(p.dy.dims[2:], 1), digits=self.digits(p, lanes), x_strides=strides_of(p.x),
                    dy_strides=strides_of(p.dy), index_strides=strides_of(p.operands["index"]),
                    dx_strides=strides_of(dx))
        kernel = f"resample_bwd_any_{self.kind(p)}_{self.math(p)}_{lanes}"
        return [Launch(kernel, args, {}, self.fuse(p, lanes))]


class ResampleFwdLinear(ResampleFwdAny):
    """Bilinear: a thread makes eight outputs of a row, of eight channels or of one."""
    index = 461
    knobs, is_general = (), False

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if p.op.mode != "bilinear":
            yield f"mode must be bilinear; got {p.op.mode}"
        elif not self.along(p):
            yield f"channels, or outputs of a row, must be eights side by side; got {p.lead().tensor}"

    def along(self, p) -> str:
        """The dim whose neighbours a thread makes, c or w; or ""."""
        y = self.lead(p).tensor
        if max(self.lanes(p)) == LANES:
            return "c"
        return "w" if not self.inner(p) and y.strides[-1] == 1 and y.dims[-1] % LANES == 0 else ""

    def fuse(self, p, lanes) -> dict:
        along = self.along(p)
        loads = LANES if along == "c" else 1
        return dict(load_x=self.loaded(p, "x", loads), store=self.stored(p, LANES if along else 1))

    def configs(self, p, dev):
        yield Config()

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.75 if self.along(p) == "c" else 0.4)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        y, along, sizes = self.lead(p).tensor, self.along(p), three(p.y.dims[2:], 1)
        c = p.y.dims[1]
        strips = ceil_div(sizes[0], STRIP), *sizes[1:]
        digits = (c // LANES, *strips) if along == "c" else (*strips, c)
        found = geometry(p.op, p.x.dims)
        names = "sizes window stride begin lift units unit padding".split()
        args = dict({n: found[n] for n in names}, items=prod(digits) * p.y.dims[0], channels=c, outs=sizes,
                    digits=digits, x_strides=strides_of(p.x), y_strides=strides_of(y))
        name = f"resample_fwd_linear_{self.math(p)}_{along}{found['window'][2]}"
        return [Launch(name, args, {}, self.fuse(p, LANES))]


class ResampleBwdApart(ResampleBwdAny):
    """Maxima by their indices, windows side by side: a thread stores all cells of a window."""
    index = 466
    is_general = False

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if self.kind(p) != "index":
            yield f"mode must be max, with an index; got {p.op.mode}"
            return
        found, outs = geometry(p.op, p.dx.dims), three(p.dy.dims[2:], 1)
        cover = [(o * w, s, b, n) for o, w, s, b, n in zip(outs, found["window"], found["stride"],
                                                          found["begin"], found["lift"])]
        want = [(size, w * found["units"], 0, 0) for size, w in zip(found["sizes"], found["window"])]
        if cover != want:
            yield f"windows must cover dx side by side, with nothing between; got window {p.op.window}"

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.8 if config.channels > 1 else 0.3)

    def digits(self, p, lanes) -> tuple:
        sizes = three(p.dy.dims[2:], 1)
        return (p.dy.dims[1] // lanes, *sizes) if self.inner(p) else (*sizes, p.dy.dims[1])

    def plan(self, p, dev, config):
        lanes, dx = config.channels, self.lead(p).tensor
        if not p.dx.count:
            return []
        args = dict(items=p.dy.count // lanes, channels_inner=self.inner(p), digits=self.digits(p, lanes),
                    window=geometry(p.op, p.dx.dims)["window"], dy_strides=strides_of(p.dy),
                    index_strides=strides_of(p.operands["index"]), dx_strides=strides_of(dx))
        return [Launch(f"resample_bwd_apart_{self.math(p)}_{lanes}", args, {}, self.fuse(p, lanes))]

"""Keys or values from the pages of a cache of any type and strides."""
from __future__ import annotations

from ... import fusion
from ...fusion import Builder, Site
from ...graph import core
from ...ops import PagedCacheLoad
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, moved_us, wrong_device

LANES = 8


class PagedCacheLoadAny(Engine):
    """A thread copies eight elements of a row, or one."""
    index = 480
    takes = core(PagedCacheLoad)
    knobs = (Knob("channels", (LANES, 1)),)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        if p.y.count >= 2 ** 31:
            yield f"y must have fewer than 2^31 elements; got {p.y.count}"
        if p.container.dims[0] >= 2 ** 31:
            yield f"container must have fewer than 2^31 pages; got {p.container.dims[0]}"
        if p.y.dtype.bits < 8:
            yield f"y must have whole bytes; got {p.y.dtype}"
        yield from fusion.reasons(*self._fuse(p, 1).values())

    def configs(self, p, dev):
        near = p.container.strides[3] == p.y.strides[3] == 1 and p.y.dims[3] % LANES == 0
        best, *others = (LANES, 1) if near else (1,)
        return first_then(Config(channels=best), (Config(channels=n) for n in others))

    def cost(self, p, dev, config):
        moved = p.y.count * (p.y.dtype.bits + p.container.dtype.bits) / 8
        return moved_us(moved, dev, 0.75 if config.channels > 1 else 0.25)

    @staticmethod
    def _math(p) -> str:
        return "f64" if p.op.math == "f64" else fusion.math_of((), (p.container, p.y))

    def _fuse(self, p, lanes) -> dict:
        along = "col" if lanes > 1 else ""

        @fusion.attempt
        def load(p, lanes):
            site = Site(p.container.dims, p.container, (("col", (3,)),), along, lanes)
            builder = Builder(self._math(p), site, p.graph)
            return builder.finish(builder.read(p.uids["container"]))

        @fusion.attempt
        def store(p, lanes):
            site = Site(p.y.dims, None, (("row", (0, 1, 2)), ("col", (3,))), along, lanes)
            return fusion.behind(p, site, p.lead(), mark_type=self._math(p))
        return dict(load=load(p, lanes), store=store(p, lanes))

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        lanes, (b, h, s, d) = config.channels, p.y.dims
        args = dict(table=p.ptr("table"), seq_len=p.ptr("seq_len"), items=p.y.count // lanes,
                    digits=(d // lanes, s, h), page=p.container.dims[2], table_b=p.table.strides[0],
                    table_n=p.table.strides[2], seq_b=p.seq_len.strides[0], strides=p.container.strides,
                    pages=p.container.dims[0])
        return [Launch(f"paged_cache_load_any_{self._math(p)}_{lanes}", args, {}, self._fuse(p, lanes))]

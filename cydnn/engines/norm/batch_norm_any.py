"""Batch norm of any types with pointwise operations around it, training and gradient: spliced code loads and
stores, in two launches as in splits.py."""
from __future__ import annotations

from typing import ClassVar

from ... import fusion
from ...fusion import Builder, Site
from ...graph import core, many, once_per_match
from ...ops import BatchNormBwd, BatchNormTraining, Pointwise
from ...steps import Pointer
from ..cast import number_as
from ..engine import Config, Engine, Knob, first_then, numbers, powers, wrong_device
from .operands import BACKWARD, TRAINING, is_backward, is_known, pointers, scalars
from .splits import IN_MEMORY, MANY, MERGE_US, MOST_SPLITS
from .view import BIG, MOST, RAMP_US
from .walk import PER_SM, WIDE, SplitWalk, walk_of

SHARE = {True: 0.85, False: 0.3}                 # of the bandwidth: eight neighbours at once, or one
WAIT_US = 4.0                                    # until the first and behind the last loads of two launches


class BatchNormAny(Engine):
    """What both share. ``walked``: operands that spliced code reads, beside the output that it stores;
    ``pointed``: the kernels read and write those of the columns; ``part_values`` of a split's sums;
    ``kept``: of the share of the bandwidth, where loads and stores take turns (measured on an H200)."""
    knobs = (Knob("channels", (WIDE, 1)), Knob("splits", lo=1, hi=MOST_SPLITS))
    walked: ClassVar[tuple] = ("x",)
    pointed: ClassVar[bool] = True
    part_values: ClassVar[int] = 3
    launches: ClassVar[int] = 2
    kept: ClassVar[float] = 0.95

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        if p.op.math != "f32" or any(fusion.math_before(p, name, "f32") != "f32" for name in self.walked):
            yield f"compute and types must be of f32 or shorter; got compute {p.op.compute}"
        for name, d in p.operands.items():
            small = d is not None and name not in BIG and name not in p.op.shared
            if small and self.pointed and d.dtype.name != "f32":
                yield f"{name} must be f32; got {d.dtype}"
        for name in p.op.scalars:
            if name not in IN_MEMORY and isinstance(p.scalar(name), Pointer):
                yield f"{name} must be given at execute; got one in memory"
        v = self.walk(p, 1).view
        if max(v.rows, v.cols) >= MOST:
            yield f"x must have fewer than {MOST} samples a mean and means; got {v.rows} and {v.cols}"
        yield from () if self.fitting(p) else self.unfit(p, 1)

    # ---- How it is walked ----

    @once_per_match
    def lead(self, p, name: str):
        """The tensor that offsets of an operand count in: itself, or one of its dims that is read in its
        place."""
        tensor, uid = p.operands[name], p.uids[name]
        if name not in p.before or uid in p.region.outputs:
            return tensor
        nodes = p.before[name]
        found = [p.graph.tensors[u] for n in nodes for u in n.reads if u in p.region.inputs]
        whole = [t for t in found if not t.is_by_value and t.dtype.bits >= 8 and t.dims == tensor.dims]
        return whole[0] if whole else p.lead().tensor

    @once_per_match
    def walk(self, p, lanes: int) -> SplitWalk | None:
        """The walk of so many neighbours at once."""
        out = p.lead().tensor
        col_axes = (1,) if p.op.mode == "spatial" else tuple(range(1, p.x.rank))
        big = {p.op.writes[0]: out, **{n: self.lead(p, n) for n in self.walked}}
        small = {n: d for n, d in p.operands.items()
                 if d is not None and n not in BIG and n not in p.op.shared}
        return walk_of(col_axes, out, big, small, lanes)

    def site(self, p, tensor, lanes) -> Site:
        return self.walk(p, lanes).site(p.x.dims, tensor)

    # ---- What is spliced ----

    @fusion.attempt
    def loaded(self, p, name, lanes):
        """An operand for the last launch, which reads what the first one stored."""
        site, uid = self.site(p, self.lead(p, name), lanes), p.uids[name]
        if uid not in p.region.outputs:
            return fusion.before(p, name, site, "f32")
        builder = Builder("f32", site, p.graph)
        return builder.finish(builder.read(uid))

    @fusion.attempt
    def made(self, p, name, lanes):
        """An operand for the first launch, which stores what is made of it and leaves."""
        site, uid = self.site(p, self.lead(p, name), lanes), p.uids[name]
        if uid not in p.region.outputs:
            return fusion.before(p, name, site, "f32")
        builder = Builder("f32", site, p.graph)
        for node in p.before[name]:
            builder.node(node)
        builder.store(uid)
        return builder.finish(builder.values[uid], is_read=True)

    @fusion.attempt
    def stored(self, p, lanes):
        lead = p.lead()
        beta = "beta" if "beta" in p.op.scalars else ""
        return fusion.behind(p, self.site(p, lead.tensor, lanes), lead, beta=beta)

    def first(self, p, lanes) -> dict:
        """What the first launch has spliced in."""
        return {f"load_{name}": self.made(p, name, lanes) for name in self.walked}

    def last(self, p, lanes) -> dict:
        return {**{f"load_{name}": self.loaded(p, name, lanes) for name in self.walked},
                "store": self.stored(p, lanes)}

    @once_per_match
    def fitting(self, p) -> list:
        """How many neighbours there may be at once, the most first."""
        return [n for n in (WIDE, 1) if self.walk(p, n) and not self.unfit(p, n)]

    def unfit(self, p, lanes) -> list:
        launches = self.first(p, lanes), self.last(p, lanes)
        return [*dict.fromkeys(text for fuse in launches for text in fusion.reasons(*fuse.values()))]

    def parts(self, p, walk, cut):
        """Room for the sums of all splits: of dy alone there are two values, where statistics are given."""
        values = 2 if is_backward(p) and is_known(p) else self.part_values
        return p.scratch(walk.view.cols * cut.splits * 4 * values)

    def between(self, p, cut, parts) -> tuple:
        """(launches between the sums and what applies them, arguments of the latter: the parts that it
        merges, and how many of a column)."""
        return [], dict(parts=parts, stat_splits=cut.splits)

    # ---- Configurations ----

    def configs(self, p, dev):
        found = self.fitting(p)
        best = Config(channels=found[0], splits=self.walk(p, found[0]).best(dev))
        others = powers(min(self.walk(p, 1).view.rows, MOST_SPLITS))
        return first_then(best, (Config(channels=n, splits=s) for n in found for s in others))

    def moved(self, p) -> int:
        """Bytes of both launches: what must move, and again what is walked and not made in the first one."""
        again = 0
        for name in self.walked:
            kept = name not in p.before or p.uids[name] in p.region.outputs
            uids = {p.uids[name]} if kept else {u for n in p.before[name] for u in n.reads}
            tensors = [p.graph.tensors[u] for u in uids if kept or u in p.region.inputs]
            again += sum(t.dtype.bytes_of(t.count) for t in tensors if not t.is_by_value)
        return p.region.traffic_bytes + again

    def cost(self, p, dev, config):
        """Fewer splits than fill the device reach less of its bandwidth; of more, every block merges more."""
        walk = self.walk(p, config.channels)
        rate = dev.bandwidth_gbs * SHARE[config.channels > 1] * self.kept
        cut, best = walk.cut(config.splits), walk.cut(walk.best(dev))
        busy = lambda c: min(c.blocks * c.splits / PER_SM, dev.sms) * dev.sm_gbs
        slower = max(min(rate, busy(best)) / min(rate, busy(cut)), 1.0)
        more = max(cut.splits ** 2 - best.splits ** 2, 0) * walk.view.cols * 4 * self.part_values
        moving = slower * self.moved(p) / rate + more / (dev.sms * dev.sm_gbs)
        waiting = WAIT_US + MERGE_US * min(cut.splits, MANY)
        return self.launches * (dev.launch_us + RAMP_US) + waiting + moving * 1e-3


class BatchNormTrainingAny(BatchNormAny):
    """Any types, pointwise operations in front and behind; x is read twice."""
    index = 266
    takes = core(BatchNormTraining, before=many(Pointwise, at="x", leaves=True), behind=many(Pointwise))
    understands = numbers("f32", "f64", "f16", "bf16")

    def plan(self, p, dev, config):
        lanes, steps = config.channels, []
        walk = self.walk(p, lanes)
        cut = walk.cut(config.splits)
        parts = self.parts(p, walk, cut)
        small = pointers(p, *[n for n in TRAINING if n not in BIG]) | scalars(p, "alpha")
        small |= {name: number_as(p, name, "f32", steps) for name in IN_MEMORY}
        between, merged = self.between(p, cut, parts)
        return [*steps,
                walk.launch("batch_norm_stats", cut, ("x",), ("x",), self.first(p, lanes), parts=parts),
                *between,
                walk.launch("batch_norm_apply", cut, ("x", "y"), TRAINING, self.last(p, lanes),
                            **small, **merged)]


class BatchNormBwdAny(BatchNormAny):
    """Any types, pointwise operations in front of dy and behind dx; x and dy are read twice. What is made of
    dy and leaves is stored by the first launch, and read by the second."""
    index = 267
    takes = core(BatchNormBwd, before=many(Pointwise, at="dy", leaves=True), behind=many(Pointwise))
    walked, part_values, kept = ("x", "dy"), 5, 0.97

    def plan(self, p, dev, config):
        lanes, known = config.channels, f"_{is_known(p)}"
        walk = self.walk(p, lanes)
        cut = walk.cut(config.splits)
        parts = self.parts(p, walk, cut)
        small = pointers(p, *[n for n in BACKWARD if n not in BIG])
        small |= scalars(p, "epsilon", "alpha", "alpha_param", "beta_param")
        between, merged = self.between(p, cut, parts)
        return [walk.launch("batch_norm_bwd_sums", cut, ("x", "dy"), ("x", "dy", "mean"),
                            self.first(p, lanes), known, parts=parts, mean=p.ptr("mean")),
                *between,
                walk.launch("batch_norm_bwd_apply", cut, ("x", "dy", "dx"), BACKWARD, self.last(p, lanes),
                            known, samples=walk.view.rows, **(small | merged))]

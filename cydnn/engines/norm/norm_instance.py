"""Instance normalization as batch norm with a mean for each channel of an image: the kernels of any type, and
one more launch for what the images share."""
from __future__ import annotations

from ... import fusion
from ...fusion import Builder, Site
from ...graph import core, many, once_per_match
from ...ops import NormBwd, NormFwd, Pointwise
from ...steps import Launch
from ...tensor import TensorDesc
from ..cast import number_as
from ..engine import numbers
from .batch_norm_any import BatchNormAny
from .operands import BACKWARD, TRAINING, is_known
from .walk import SplitWalk, walk_of

GIVEN = "scale", "bias"
COLUMNS = 0, 1                                   # dims that there is a mean for


class NormInstance(BatchNormAny):
    """What both share."""
    pointed = False

    def refuse(self, p, dev):
        if p.op.mode != "instance":
            yield f"mode must be instance; got {p.op.mode}"
            return
        for name in (*GIVEN, "mean", "rstd"):
            d = p.operands.get(name)
            if d is not None and d.dtype.name != "f32":
                yield f"{name} must be f32; got {d.dtype}"
            if d is None and name in GIVEN and name in p.op.reads:
                yield f"{name} must be given; got none"
        yield from super().refuse(p, dev)

    def sums(self, p) -> dict:
        """{name: description} of what a column has apart from the others, and the images share."""
        return {}

    @once_per_match
    def walk(self, p, lanes: int) -> SplitWalk | None:
        out, dims = p.lead().tensor, (*p.x.dims[:2], *(1,) * (p.x.rank - 2))
        big = {p.op.writes[0]: out, **{n: self.lead(p, n) for n in self.walked}}
        # parameters have one value for all images
        wide = lambda d: TensorDesc(d.dtype, dims, (d.strides[0] * (d.dims[0] > 1), *d.strides[1:]))
        small = {n: wide(p.operands[n]) for n in (*GIVEN, "mean", "rstd") if p.operands.get(n) is not None}
        return walk_of(COLUMNS, out, big, small | self.sums(p), lanes)


class NormFwdInstance(NormInstance):
    """Two launches, x is read twice; pointwise operations in front and behind."""
    index = 410
    takes = core(NormFwd, before=many(Pointwise, at="x", leaves=True), behind=many(Pointwise))
    understands = numbers("f32", "f64", "f16", "bf16")

    def plan(self, p, dev, config):
        lanes, steps = config.channels, []
        walk = self.walk(p, lanes)
        cut = walk.cut(config.splits)
        parts = self.parts(p, walk, cut)
        small = {name: p.ptr(name) if name in p.operands else None for name in TRAINING if name not in "xy"}
        first, last = self.first(p, lanes), self.last(p, lanes)
        numbers_of = dict(epsilon=number_as(p, "epsilon", "f32", steps), factor=1.0, alpha=1.0)
        return [*steps, walk.launch("batch_norm_stats", cut, ("x",), ("x",), first, parts=parts),
                walk.launch("batch_norm_apply", cut, ("x", "y"), TRAINING, last, parts=parts,
                            stat_splits=cut.splits, **small, **numbers_of)]


class NormBwdInstance(NormInstance):
    """Two launches for dx, x and dy are read twice; a third one adds what images have of dscale and dbias."""
    index = 415
    takes = core(NormBwd, before=many(Pointwise, at="dy", leaves=True), behind=many(Pointwise))
    walked, part_values, kept, launches = ("x", "dy"), 5, 0.97, 3

    def sums(self, p) -> dict:
        n, c = p.x.dims[:2]
        desc = TensorDesc("f32", (n, c, *(1,) * (p.x.rank - 2)), (2 * c, 1, *(1,) * (p.x.rank - 2)))
        return dict(dscale=desc, dbias=desc)

    @fusion.attempt
    def result(self, p, name):
        if p.operands[name] is None or p.uids[name] not in p.region.outputs:
            return None
        builder = Builder("f32", Site(p.operands[name].dims, None, (("col", (1,)),)), p.graph)
        builder.values[p.uids[name]] = "v"
        builder.store(p.uids[name])
        return builder.finish("")

    def plan(self, p, dev, config):
        lanes, known, (n, c) = config.channels, f"_{is_known(p)}", p.x.dims[:2]
        walk = self.walk(p, lanes)
        cut, part = walk.cut(config.splits), p.scratch(2 * n * c * 4)
        parts = self.parts(p, walk, cut)
        small = {name: p.ptr(name) for name in ("scale", "mean", "rstd")}
        small |= dict(dscale=part, dbias=part + 4 * c, epsilon=p.scalar("epsilon"), alpha=1.0,
                      alpha_param=1.0, beta_param=0.0, samples=walk.view.rows)
        results = {name: self.result(p, name) for name in ("dscale", "dbias")}
        results = {mark: program for mark, program in results.items() if program is not None}
        steps = [walk.launch("batch_norm_bwd_sums", cut, ("x", "dy"), ("x", "dy", "mean"),
                             self.first(p, lanes), known, parts=parts, mean=p.ptr("mean")),
                 walk.launch("batch_norm_bwd_apply", cut, ("x", "dy", "dx"), BACKWARD, self.last(p, lanes),
                             known, parts=parts, stat_splits=cut.splits, **small)]
        return steps + ([Launch("norm_bwd_sums", dict(part=part, parts=n, cols=c), dict(groups=1), results)]
                        if results else [])

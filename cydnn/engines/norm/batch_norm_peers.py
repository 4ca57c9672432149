"""Batch norm of a batch whose parts lie on several GPUs: the launches of engines 266 and 267, and between
them one that joins the sums of all GPUs."""
from __future__ import annotations

from ...graph import core, many
from ...ops import BatchNormBwd, BatchNormTraining, Pointwise, peer_reduction
from ...steps import Launch
from ..engine import numbers
from .batch_norm_any import BatchNormAny, BatchNormBwdAny, BatchNormTrainingAny
from .operands import pointers, scalars
from .peer_reduction import EXCHANGE_US, WORD, boxes_of

PEERS = frozenset(BatchNormTraining.special.values())


class BatchNormPeers(BatchNormAny):
    """What both share."""
    launches = 3

    def refuse(self, p, dev):
        if p.op.mode != "spatial":
            yield f"mode must be spatial, so that messages are in the order of channels; got {p.op.mode}"
        if p.operands.get("peer_stats") is None:
            yield "peer_stats must be given; got none"
            return
        for d in p.peer_stats:
            if d.alignment % WORD:
                yield f"peer_stats must be aligned to {WORD} bytes; got {d.alignment}"
        yield from super().refuse(p, dev)

    def cost(self, p, dev, config):
        return super().cost(p, dev, config) + EXCHANGE_US

    def joined(self, p, back: int, cut, parts, **given) -> Launch:
        """The launch between: a part of each channel from those of all splits and all GPUs; ``back``: of
        the gradient."""
        unused = dict(rstd=None, dscale=None, dbias=None, alpha_param=1.0, beta_param=0.0)
        return Launch(f"peer_parts_{back}", dict(
            unused, parts=parts, channels=p.x.dims[1], splits=cut.splits, peers=len(p.peer_stats),
            rank=p.op.rank, share=p.op.sums(p.x), patience=int(peer_reduction.PATIENCE_S * 1e9),
            boxes=boxes_of(p.peer_stats), **given))


class BatchNormTrainingPeers(BatchNormPeers, BatchNormTrainingAny):
    """Pointwise operations in front and behind; x is read twice."""
    index = 408
    takes = core(BatchNormTraining, before=many(Pointwise, at="x", leaves=True), behind=many(Pointwise))
    understands = numbers("f32", "f64", "f16", "bf16") | PEERS

    def between(self, p, cut, parts):
        joined = p.scratch(p.x.dims[1] * 4 * self.part_values)
        return [self.joined(p, 0, cut, parts, joined=joined)], dict(parts=joined, stat_splits=1)


class BatchNormBwdPeers(BatchNormPeers, BatchNormBwdAny):
    """Pointwise operations in front of dy and behind dx; x and dy are read twice."""
    index = 409
    takes = core(BatchNormBwd, before=many(Pointwise, at="dy", leaves=True), behind=many(Pointwise))
    understands = PEERS

    def refuse(self, p, dev):
        if p.mean is None:
            yield "mean and rstd must be given with peer_stats; got none"
            return
        yield from super().refuse(p, dev)
        for name in ("rstd", "dscale", "dbias"):
            if not p.operands[name].is_packed():
                yield f"{name} must be packed, as messages are; got {p.operands[name].desc}"

    def between(self, p, cut, parts):
        """The launch between stores dscale and dbias; what the next one makes of them nobody reads."""
        joined, unused = p.scratch(p.x.dims[1] * 8), p.scratch(p.x.dims[1] * 4)
        given = pointers(p, "rstd", "dscale", "dbias") | scalars(p, "alpha_param", "beta_param")
        others = dict(dscale=unused, dbias=unused, alpha_param=1.0, beta_param=0.0)
        return [self.joined(p, 1, cut, parts, joined=joined, **given)], dict(
            others, parts=joined, stat_splits=1)

"""Grouped convolutions of few channels a group, in three directions: groups are joined to whole lines of 64
channels, or to as many as divide them, and run on tensor cores with filters that are zero where a filter does
not read a channel."""
from __future__ import annotations

from functools import lru_cache
from math import gcd, inf

from ...graph import Graph, Match, Node, Tensor, core, once_per_match
from ...ops import ConvDgrad, ConvFprop, ConvWgrad
from ...steps import Launch
from ...tensor import TensorDesc
from ..engine import no_variant, wrong_device
from ..nested import AFTER_US, NestedOp, NestedOperand
from .dgrad_mma import ConvDgradMma
from .dgrad_wgmma import ConvDgradWgmma
from .fprop_mma import ConvFpropMma
from .halo import ConvDgradHalo, ConvFpropHalo
from .inner import InnerConv
from .neighbours import reached
from .view import Lifted
from .wgmma import ConvFpropWgmma
from .wgmma_pieces import ConvDgradWgmmaPieces, ConvFpropWgmmaPieces
from .wgrad_halo import ConvWgradHalo
from .wgrad_mma import ConvWgradMma
from .wgrad_wgmma import ConvWgradWgmma

LINE = 64                                        # channels that the tile programs take at once
MOST = 512                                       # of joined groups that are no whole lines


@lru_cache(maxsize=4096)
def together(groups: int, channels: int) -> int:
    """How many groups of so many channels become one: whole lines, or the least that have a line's channels
    and divide them, or all; 0 where none do, or one has whole lines."""
    whole = LINE // gcd(LINE, max(channels, 1))
    if groups % whole == 0:
        return whole
    found = next((n for n in range(2, groups + 1) if groups % n == 0 and n * channels >= LINE), groups)
    return found if channels % LINE and found * channels <= MOST else 0


class JoinedGroups(InnerConv):
    """What the three directions share: the convolution of joined groups, which one of ``inner`` computes; or
    one of those that make whole lines and one of the others behind them."""

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        is_read = p.op.parts[1] in p.op.reads    # filters; where they are written, of their type too
        wrong = [*no_variant(p, "conv/conv_groups_join.cu", *(p.op.reads if is_read else p.op.parts))]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.operands[p.op.reads[0]].dtype} tensors; got {p.op.compute}"
        image, filters = (p.operands[name] for name in p.op.parts[:2])
        groups = image.c // max(filters.c, 1)
        if groups < 2 or self.joined(p) < 2 and not self.apart(p):
            yield (f"groups must be several whose channels are no whole {LINE}, and together whole {LINE} "
                   f"or at most {MOST}; got {groups} groups of {filters.c}")
        elif not filters.count or not image.count:
            yield f"{p.op.parts[1]} must have elements; got dims {filters.dims}"
        elif self.cost(p, dev, None) == inf:
            reasons = self.untaken(p, dev) if self.joined(p) > 1 else "; ".join(
                reason for part in self.apart(p) for reason in part.reasons(dev))
            yield f"no engine takes the convolution of joined groups: {reasons}"

    @staticmethod
    def joined(p) -> int:
        """How many groups become one."""
        channels = max(p.operands[p.op.parts[1]].c, 1)
        return together(p.operands[p.op.parts[0]].c // channels, channels)

    @once_per_match
    def nested(self, p) -> Match:
        """The convolution with the filters of joined groups, which are uid 2; f32 where they are written."""
        names, tensors = p.op.parts, []
        for uid, name in enumerate(names, 1):
            given = p.operands[name]
            if uid == 2:
                kind = "f32" if name in p.op.writes else given.dtype
                dims = (given.n, given.c * self.joined(p), *given.spatial)
                tensors.append(Tensor(uid, TensorDesc.packed(kind, dims, "nhwc")))
            else:
                tensors.append(Tensor(uid, TensorDesc(given.dtype, given.dims, given.strides),
                                      alignment=given.alignment))
        scaled = {} if names[1] in p.op.writes else {n: p.scalar(n) for n in ("alpha", "beta")}
        return Match.single(Graph([Node(p.op, dict(zip(names, (1, 2, 3))), scaled)], tensors))

    # ---- Whole lines of groups, and the others ----

    @once_per_match
    def apart(self, p) -> list[NestedOp]:
        """Both convolutions; none where groups make whole lines, or have none."""
        channels = max(p.operands[p.op.parts[1]].c, 1)
        groups, whole = p.operands[p.op.parts[0]].c // channels, LINE // gcd(LINE, channels)
        rest = groups % whole
        if not rest or groups < whole:
            return []
        return [self._part(p, 0, groups - rest), self._part(p, groups - rest, rest)]

    def _part(self, p, first: int, count: int) -> NestedOp:
        """The convolution of so many groups, from one on."""
        groups, operands = p.operands[p.op.parts[0]].c // p.operands[p.op.parts[1]].c, {}
        for name in p.op.parts:
            given, axis = p.operands[name], int(name != p.op.parts[1])
            each = given.dims[axis] // groups
            dims = (*given.dims[:axis], count * each, *given.dims[axis + 1:])
            behind = first * each * given.strides[axis] * given.dtype.bytes
            operands[name] = NestedOperand(TensorDesc(given.dtype, dims, given.strides), p.ptr(name, behind),
                                           gcd(given.alignment, behind))
        return NestedOp(p.op, (self, *self.inner), {n: p.scalar(n) for n in p.op.scalars}, **operands)

    @once_per_match
    def apart_us(self, p, dev) -> float:
        parts = self.apart(p)
        if not parts or any(True for part in parts for _ in part.reasons(dev)):
            return inf
        return AFTER_US + sum(part.choice(dev)[0] for part in parts)

    def joined_us(self, p, dev) -> float:
        found = self.found(p, dev) if self.joined(p) > 1 else ()
        return dev.launch_us + AFTER_US + found[0][0] if found else inf

    def cost(self, p, dev, config):
        return min(self.apart_us(p, dev), self.joined_us(p, dev))

    def plan(self, p, dev, config):
        if self.apart_us(p, dev) < self.joined_us(p, dev):
            return [step for part in self.apart(p) for step in part.steps(dev)]
        return self.joined_plan(p, dev)

    # ---- Joined groups ----

    def geometry(self, p) -> dict:
        """What both kernels are told of groups."""
        given = p.operands[p.op.parts[1]]
        groups = p.operands[p.op.parts[0]].c // given.c
        return dict(group_filters=given.n // groups, groups=self.joined(p), taps=Lifted.of(given).size)

    def joined_plan(self, p, dev) -> list:
        names, given = p.op.parts, p.operands["w"]
        lifted, count = Lifted.of(given), self.nested(p).graph.tensors[2].desc.count
        joined = p.scratch(count * given.dtype.bytes)
        args = dict(w=p.ptr("w"), joined=joined, count=count, filters=given.n, group_channels=given.c,
                    channels=given.c * self.joined(p), w_k=lifted.n_step, w_c=lifted.c_step, w_s=lifted.steps,
                    **self.geometry(p))
        join = Launch(f"conv_groups_join_{given.dtype}", args, {})
        return [join, *self.steps(p, dev, {1: p.ptr(names[0]), 2: joined, 3: p.ptr(names[2])})]

    def magnitude(self, op, arrays, scalars, results):
        """The op's, but where zeros multiply what is no number in another of the joined groups."""
        found = op.magnitude(arrays, scalars, results)
        if op.writes[0] == op.parts[1]:
            return found
        channels = arrays["w"].shape[1]
        groups = arrays[op.parts[0]].shape[1] // channels
        is_apart = groups % (LINE // gcd(LINE, channels))
        parts = 1 if is_apart else groups // together(groups, channels)
        return reached(op, arrays, scalars, found, parts, LINE)


class ConvFpropJoinedGroups(JoinedGroups):
    """Filters of several groups become those of one of 64 channels or more, with zeros between them."""
    index, takes = 104, core(ConvFprop)
    inner = (ConvFpropWgmma(), ConvFpropMma(), ConvFpropHalo(), ConvFpropWgmmaPieces())


class ConvDgradJoinedGroups(JoinedGroups):
    """Filters of several groups become those of one of 64 channels or more, with zeros between them."""
    index, takes = 122, core(ConvDgrad)
    inner = (ConvDgradWgmma(), ConvDgradMma(), ConvDgradHalo(), ConvDgradWgmmaPieces())


class ConvWgradJoinedGroups(JoinedGroups):
    """The gradient of joined groups in f32, of which each filter takes the channels that it reads."""
    index, takes = 142, core(ConvWgrad)
    inner = (ConvWgradWgmma(), ConvWgradMma(), ConvWgradHalo())

    def joined_plan(self, p, dev):
        names, given = p.op.parts, p.dw
        lifted, count = Lifted.of(given), self.nested(p).graph.tensors[2].desc.count
        joined = p.scratch(count * 4)
        args = dict(joined=joined, dw=p.ptr("dw"), alpha=p.scalar("alpha"), beta=p.scalar("beta"),
                    filters=given.n, pixels=1, count=given.count, channels=given.c * self.joined(p),
                    group_channels=given.c,
                    dw_k=lifted.n_step, dw_c=lifted.c_step, dw_s=lifted.steps, **self.geometry(p))
        part = Launch(f"conv_groups_part_{given.dtype}", args, {})
        return [*self.steps(p, dev, {1: p.ptr(names[0]), 2: joined, 3: p.ptr(names[2])}), part]

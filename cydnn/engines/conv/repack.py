"""Convolution of images in layouts that tensor-core kernels do not read, or read slowly, on copies of them:
three directions."""
from __future__ import annotations

from typing import NamedTuple

from ...graph import Graph, Match, Node, Tensor, core, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, ConvWgrad
from ...status import BadParam
from ...steps import placed
from ...tensor import TensorDesc
from ..engine import Config, Engine, no_elements, no_variant, wrong_device
from ..layout.copies import copied
from ..nested import AFTER_US, NestedOperand
from ..tile.line import LINES
from .dgrad_few import ConvDgradFew
from .dgrad_mma import ConvDgradMma
from .dgrad_wgmma import ConvDgradWgmma
from .folded import ConvDgradFolded, ConvFpropFolded, ConvWgradFolded
from .fprop_first import ConvFpropFirst
from .fprop_mma import ConvFpropMma
from .halo import ConvDgradHalo, ConvFpropHalo
from .joined_groups import ConvDgradJoinedGroups, ConvFpropJoinedGroups, ConvWgradJoinedGroups
from .mirrored import ConvDgradMirrored, ConvFpropMirrored, ConvWgradMirrored
from .mma import CHUNK, no_pixel_stride
from .subpixel import ConvDgradSubpixel
from .wgmma import ConvFpropWgmma
from .wgmma_pieces import ConvDgradWgmmaPieces, ConvFpropWgmmaPieces
from .wgrad_first import ConvWgradFirst
from .wgrad_halo import ConvWgradHalo
from .wgrad_mma import ConvWgradMma
from .wgrad_wgmma import ConvWgradWgmma

LINE = LINES["f16"].elements
PART = 1.13                                      # of a convolution whose last line of channels is not whole


class OnCopies(NamedTuple):
    """An engine for the convolution of the copies. ``us``: with the copies; ``unit``: channels of what is
    read are padded to multiples of it."""
    us: float
    number: int
    engine: Engine
    config: Config
    unit: int


class Repack(Engine):
    """What the three directions share. Images that are not NHWC, or whose pixels are no whole 16 bytes, are
    copied to NHWC of whole ones, for one of ``inner``; or what is read is copied to NHWC whose channels are
    padded to whole lines of memory, for one of ``lined``: TMA reads rows that begin anywhere else more
    slowly."""
    notes = ("tensor_core", "deterministic")
    inner: tuple = ()
    lined: tuple = ()

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        image, _, out = p.op.parts
        images = {name: p.operands[name] for name in (image, out)}
        wrong = [*no_variant(p, "conv/conv_wgmma.cu", *images), *no_elements(p.operands)]
        yield from wrong
        if wrong:
            return
        wrong = [s for name in images for s in no_pixel_stride(name, images[name])]
        yield from wrong
        if wrong:
            return
        try:
            forms = [form for form in self.forms(p) if self.nested(p, form)]
        except BadParam as error:
            yield f"its copies must be tensors: {error.args[0]}"
            return
        if not forms:
            yield (f"{image} and {out} are packed NHWC of whole {CHUNK} channels, and engines of {p.op.name} "
                   "read them at full speed")
            return
        written = p.op.writes[0]
        if written in self.copies(p, CHUNK) and p.value("beta"):
            yield (f"beta must be 0, as the copy of {written} is rounded before it is blended; "
                   f"got {p.value('beta')}")
        if not self.found(p, dev):
            yield f"nobody computes it on copies: {'; '.join(self.misfits(p, dev))}"

    def misfits(self, p, dev):
        """Why no form of the copies is taken."""
        for unit in self.forms(p):
            for copy in self.copies(p, unit).values():
                yield from copy.reasons(dev)
            for engine in self.engines(unit):
                yield from engine.reasons(self.nested(p, unit)[0], dev)

    # ---- Copies ----

    def engines(self, unit: int) -> tuple:
        return self.lined if unit == LINE else self.inner

    def forms(self, p) -> list[int]:
        """The units of channels that are worth a look."""
        image, filters, out = (p.operands[name] for name in p.op.parts)
        is_plain, c = image.is_packed("nhwc") and out.is_packed("nhwc"), p.operands[p.op.reads[0]].c
        is_ragged = self.lined and c % CHUNK == 0 and c % LINE and filters.c == image.c
        parts = [name for name in p.op.reads if name != p.op.parts[1] and self.is_padded(p, name, CHUNK)]
        return [CHUNK] * (not is_plain or bool(parts)) + [LINE] * bool(is_ragged)

    @staticmethod
    def is_padded(p, name: str, unit: int) -> bool:
        """What is read gets more channels; of few or of several groups only for whole lines."""
        image, filters, _ = (p.operands[part] for part in p.op.parts)
        c = p.operands[name].c
        return name in p.op.reads and (unit == LINE or c > CHUNK and c % CHUNK > 0 and filters.c == image.c)

    @staticmethod
    def seen(p, name: str, unit: int):
        """An operand as the convolution has it."""
        tensor = p.operands[name]
        if Repack.is_padded(p, name, unit):
            pitch = ceil_div(tensor.c, unit) * unit
            whole = TensorDesc.packed(tensor.dtype, (tensor.n, pitch, *tensor.spatial), "nhwc")
            return TensorDesc(tensor.dtype, tensor.dims, whole.strides)
        if name == p.op.parts[1] or tensor.is_packed("nhwc"):
            return tensor
        return TensorDesc.packed(tensor.dtype, tensor.dims, "nhwc")

    @once_per_match
    def nested(self, p, unit: int) -> tuple:
        """(the convolution of NHWC images, where its operands lie)."""
        tensors, where = [], {}
        for uid, name in enumerate(p.op.parts, 1):
            given, seen = p.operands[name], self.seen(p, name, unit)
            is_copied = seen is not given
            lies = TensorDesc(seen.dtype, seen.dims, seen.strides)
            tensors.append(Tensor(uid, lies, alignment=16 if is_copied else given.alignment))
            where[uid] = p.scratch(lies.bytes) if is_copied else p.ptr(name)
        written = p.op.writes[0]
        is_copied = self.seen(p, written, unit) is not p.operands[written]
        numbers = ("alpha",) if is_copied else ("alpha", "beta")
        node = Node(p.op, dict(zip(p.op.parts, (1, 2, 3))), {n: p.scalar(n) for n in numbers})
        return Match.single(Graph([node], tensors)), where

    @once_per_match
    def copies(self, p, unit: int) -> dict:
        """name -> the transform of an operand that is copied."""
        found, where = {}, self.nested(p, unit)[1]
        for uid, name in enumerate(p.op.parts, 1):
            given, seen = p.operands[name], self.seen(p, name, unit)
            if seen is given:
                continue
            theirs = NestedOperand(given.desc, p.ptr(name), given.alignment)
            ours, is_read = NestedOperand(seen, where[uid]), name in p.op.reads
            x, y = (theirs, ours) if is_read else (ours, theirs)
            numbers = {} if is_read else dict(beta=p.scalar("beta"))
            found[name] = copied(x, y, **numbers)
        return found

    # ---- Choice ----

    @once_per_match
    def found(self, p, dev) -> OnCopies | None:
        """The cheapest engine and form of the copies; None where nobody takes any."""
        rows = []
        for unit in self.forms(p):
            copies = self.copies(p, unit).values()
            if any(True for copy in copies for _ in copy.reasons(dev)):
                continue
            us, match = sum(copy.choice(dev)[0] + AFTER_US for copy in copies), self.nested(p, unit)[0]
            for number, engine in enumerate(self.engines(unit)):
                if engine.accepts(match, dev):
                    config = engine.best(match, dev)
                    every = us + (PART if unit == LINE else 1) * engine.cost(match, dev, config)
                    rows.append(OnCopies(every, number, engine, config, unit))
        return min(rows, key=lambda row: row[:2], default=None)

    def cost(self, p, dev, config):
        return self.found(p, dev).us

    def plan(self, p, dev, config):
        found = self.found(p, dev)
        match, where = self.nested(p, found.unit)
        steps = placed(found.engine.plan(match, dev, found.config), where)
        made = {name: copy.steps(dev) for name, copy in self.copies(p, found.unit).items()}
        read = [step for name in p.op.reads for step in made.get(name, ())]
        return read + steps + [step for name in p.op.writes for step in made.get(name, ())]


class ConvFpropRepack(Repack):
    """x is copied to NHWC, and y from it; or x and w to NHWC of whole chunks or lines."""
    index, takes = 106, core(ConvFprop)
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    inner = (ConvFpropFirst(), ConvFpropHalo(), ConvFpropWgmma(), ConvFpropMma(), ConvFpropJoinedGroups(),
             ConvFpropMirrored(), ConvFpropWgmmaPieces(), ConvFpropFolded())
    lined = (ConvFpropWgmma(),)


class ConvDgradRepack(Repack):
    """dy is copied to NHWC, and dx from it; or dy and w to NHWC of whole chunks or lines."""
    index, takes = 124, core(ConvDgrad)
    v5 = ("ALGO_1",)
    inner = (ConvDgradFew(), ConvDgradHalo(), ConvDgradWgmma(), ConvDgradMma(), ConvDgradJoinedGroups(),
             ConvDgradMirrored(), ConvDgradSubpixel(), ConvDgradWgmmaPieces(), ConvDgradFolded())
    lined = (ConvDgradWgmma(),)


class ConvWgradRepack(Repack):
    """x and dy are copied to NHWC, or to NHWC of whole chunks."""
    index, takes = 144, core(ConvWgrad)
    v5 = ("ALGO_1",)
    inner = (ConvWgradFirst(), ConvWgradHalo(), ConvWgradWgmma(), ConvWgradMma(), ConvWgradJoinedGroups(),
             ConvWgradMirrored(), ConvWgradFolded())

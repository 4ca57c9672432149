"""Batch norm in two launches: sums of every split of the rows, then each block merges the parts of its own
columns and applies. Fixed-order merges."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...graph import Match
from ...kernels.expressions import ceil_div
from ...steps import Launch, Pointer
from ..cast import number_as
from ..engine import Config, Engine, Knob, first_then, numbers, powers
from .operands import (BACKWARD, INFERENCE, TRAINING, backward_operands, inference_operands, is_backward,
                       is_known, part_bytes, pointers, training_operands)
from .view import RAMP_US, View, bytes_of_x, wrong_operands

MERGE_US, MANY = 0.07, 64                        # a split's part, merged by each block; more cost no more
IN_MEMORY = "epsilon", "factor"                  # numbers of the forward pass that may lie there
FORWARD = numbers("f32", "f64", "f16", "bf16")   # what engines of the forward pass understand
MOST_SPLITS = 1024                               # each block of the second launch reads the parts of all


@dataclass(frozen=True)
class Cut:
    """How rows x columns become blocks: ``blocks`` along columns, ``splits`` along rows of ``each`` items."""
    blocks: int
    splits: int
    each: int


@dataclass(frozen=True)
class Way:
    """A way to walk a match: which kernels, and how the grid is cut. ``wide``: their axis for vectors;
    ``word``: in their names; ``threads`` of a block."""
    p: Match
    wide: int
    word: ClassVar[str] = ""
    threads: ClassVar[int] = 0

    # ---- What a way says ----

    @property
    def registers(self) -> int:
        """Of a thread."""
        raise NotImplementedError

    @property
    def blocks(self) -> int:
        """Blocks along columns."""
        raise NotImplementedError

    @property
    def items(self) -> int:
        """What is split: rows, or runs of neighbouring rows."""
        raise NotImplementedError

    @property
    def worth(self) -> int:
        """The most splits that leave each thread something to do."""
        raise NotImplementedError

    def size(self, cut: Cut) -> dict:
        """Kernel arguments of a cut."""
        raise NotImplementedError

    def grid(self, cut: Cut) -> dict:
        """What the grid of a cut needs beside the arguments."""
        raise NotImplementedError

    def strides(self, *names) -> dict:
        """Kernel arguments: digits and strides of the items."""
        raise NotImplementedError

    def samples(self) -> dict:
        """How the gradient is told the number of rows, where ``size`` does not say it."""
        return {}

    # ---- What follows from it ----

    @property
    def source(self) -> str:
        """The contract that says which types it takes."""
        return f"norm/batch_norm_{'bwd_' if is_backward(self.p) else ''}apply_{self.word}.cu"

    def cut(self, splits: int) -> Cut:
        """The cut into at most so many splits."""
        each = max(ceil_div(self.items, splits), 1)
        return Cut(self.blocks, max(ceil_div(self.items, each), 1), each)

    def resident(self, dev) -> int:
        """Blocks that an SM runs at once."""
        return dev.registers // (self.threads * self.registers)

    def best(self, dev) -> int:
        """The number of splits that fills a device in one wave, where each is worth it."""
        filling = self.resident(dev) * dev.sms // max(self.blocks, 1)
        return self.cut(max(min(filling, self.worth), 1)).splits

    def _launch(self, what: str, cut: Cut, variant: str = "", **args) -> Launch:
        kernel = f"batch_norm_{what}_{self.word}_{self.p.x.dtype}_{self.wide}{variant}"
        return Launch(kernel, dict(self.size(cut), **args), self.grid(cut))

    def _numbers(self, steps: list) -> dict:
        """The numbers of a forward pass that may lie in memory, in the type of the sums."""
        names = [name for name in IN_MEMORY if name in self.p.op.scalars]
        return {name: number_as(self.p, name, self.p.x.dtype.compute, steps) for name in names}

    def training(self, splits: int) -> list:
        p, v, cut, steps = self.p, View.of(self.p), self.cut(splits), []
        parts = p.scratch(v.cols * cut.splits * part_bytes(p))
        operands = {**training_operands(p), **self._numbers(steps)}
        return [*steps,
                self._launch("stats", cut, x=p.ptr("x"), parts=parts, **self.strides("x"),
                             **v.cols_args("x")),
                self._launch("apply", cut, **operands, parts=parts, stat_splits=cut.splits,
                             **self.strides("x", "y"), **v.cols_args(*TRAINING))]

    def inference(self, splits: int) -> list:
        p, v, cut, steps = self.p, View.of(self.p), self.cut(splits), []
        if not p.x.count:
            return []
        operands = {**inference_operands(p), **self._numbers(steps)}
        return [*steps, self._launch("apply", cut, **operands, stat_splits=0, **self.strides("x", "y"),
                                     **v.cols_args(*INFERENCE))]

    def backward(self, splits: int) -> list:
        p, v, cut = self.p, View.of(self.p), self.cut(splits)
        parts, known = p.scratch(v.cols * cut.splits * part_bytes(p)), f"_{is_known(p)}"
        return [self._launch("bwd_sums", cut, known, **pointers(p, "x", "dy", "mean"), parts=parts,
                             **self.strides("x", "dy"), **v.cols_args("x", "dy", "mean")),
                self._launch("bwd_apply", cut, known, **backward_operands(p), **self.samples(), parts=parts,
                             stat_splits=cut.splits, **self.strides("x", "dy", "dx"),
                             **v.cols_args(*BACKWARD))]


class SplitEngine(Engine):
    """What all have. ``passes``: how often the bytes of x move; ``share``: of the device's bandwidth that
    they reach; ``launches``: how many. An engine adds ``way`` and ``plan``."""
    knobs = (Knob("splits", lo=1, hi=MOST_SPLITS),)
    passes: ClassVar[int] = 3
    share: ClassVar[float] = 0.5
    launches: ClassVar[int] = 2

    def way(self, p) -> Way:
        raise NotImplementedError

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev, self.way(p).source)
        for name in p.op.scalars:
            if name not in IN_MEMORY and isinstance(p.scalar(name), Pointer):
                yield f"{name} must be given at execute; got one in memory"

    def configs(self, p, dev):
        others = powers(min(View.of(p).rows, MOST_SPLITS))
        return first_then(Config(splits=self.way(p).best(dev)), (Config(splits=n) for n in others))

    def cost(self, p, dev, config):
        """Fewer splits than fill the device reach less of its bandwidth; of more, every block merges more."""
        way, rate = self.way(p), dev.bandwidth_gbs * self.share
        cut, best = way.cut(config.splits), way.cut(way.best(dev))
        busy = lambda c: min(c.blocks * c.splits / way.resident(dev), dev.sms) * dev.sm_gbs
        slower = max(min(rate, busy(best)) / min(rate, busy(cut)), 1.0) if p.x.count else 1.0
        more = max(cut.splits ** 2 - best.splits ** 2, 0) if self.launches > 1 else 0
        moving = slower * self.passes * bytes_of_x(p) / rate
        merging = more * View.of(p).cols * part_bytes(p) / (dev.sms * dev.sm_gbs)
        waiting = MERGE_US * min(cut.splits, MANY) * (self.launches > 1)
        return self.launches * (dev.launch_us + RAMP_US) + waiting + (moving + merging) * 1e-3

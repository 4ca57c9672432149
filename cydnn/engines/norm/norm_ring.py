"""Layer and RMS normalization of long rows, forward and backward: rows come to shared memory ahead of their
use, and the blocks of a row tell each other their sums (sm_90 and newer)."""
from __future__ import annotations

from ... import fusion
from ...dtypes import BY_NAME
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import NormBwd, NormFwd, Pointwise
from ...steps import Launch
from ..cast import number_as
from ..engine import Config, Knob, memory_us, no_variant, wrong_device
from .norm_rows import MOST, WIDE, NormBwdRows, NormFwdRows

HELD = (1, 2)                                    # the kernels' axis: accesses of a thread; of f32 one
THREADS, MAILS, STATIC = 512, 16, 6 << 10        # of row_ring.cuh; bytes of shared memory beside the ring
LEAST_STAGES, MOST_STAGES = 5, 16
MOST_AHEAD, ALONE_AHEAD = 7, 2                   # turns between a row's sums and its end
LEAST_BYTES = 16 << 10                           # of a tensor, that a block goes through
WARPS, LINE = 16, 256                            # at work; columns of a block are so many, but for the last
# Measured on an H200: us at first and last, of a turn, and for each 2 KB that a block has of a tensor's row;
# where blocks wait for others, also for each turn that they cannot be ahead, and for each block
FWD_US, BWD_US, LATE_US, WELL_AHEAD, JOIN_US = (12.0, 0.6, 0.085), (18.0, 0.4, 0.15), 0.1, 6, 0.1


class RowRing:
    """What both share. ``source``: the kernel; ``times``: of its cost."""
    knobs = (Knob("blocks_per_row", lo=1, hi=256),)
    source: str
    times: tuple
    only_90 = False

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        if dev.sm > 90 and self.only_90:
            yield f"needs sm_90; device is sm_{dev.sm}"
        if p.op.mode not in ("layer", "rms"):
            yield f"mode must be layer or rms; got {p.op.mode}"
            return
        yield from no_variant(p, f"norm/{self.source}.cu", *self.walked)
        if p.op.math != "f32":
            yield f"compute must be f32; got {p.op.compute}"
        if p.x.count >= MOST:
            yield f"x must have fewer than 2^30 elements; got {p.x.count}"
        if not self.strides(p):
            names = ", ".join((*self.walked, p.op.writes[0]))
            yield f"rows of {names} must be eights side by side, aligned to 16 bytes; got {p.x.dims}"
        else:
            yield from fusion.reasons(*self.fuse(p, WIDE).values())
        if not self.ways(p, dev):
            yield f"needs rows that all SMs hold; got rows of {p.op.count(p.x)} elements"

    # ---- How many blocks have a row ----

    def width(self, p, blocks) -> int:
        """Elements of a row that a block has."""
        each = ceil_div(p.op.count(p.x), blocks)
        return ceil_div(each, LINE) * LINE if blocks > 1 else each

    @staticmethod
    def most(p) -> int:
        """Elements of a row that a block may have."""
        return WIDE * THREADS * (max(HELD) if p.x.dtype.bytes < 4 else 1)

    def stages(self, p, dev, blocks) -> int:
        place = self.width(p, blocks) * p.x.dtype.bytes * len(self.walked)
        return min((dev.smem_bytes - STATIC) // place, MOST_STAGES)

    def ahead(self, p, dev, blocks) -> int:
        """Turns until the sums of a row must be known: where blocks tell each other, that takes longer."""
        return min(self.stages(p, dev, blocks) - 3, MOST_AHEAD if blocks > 1 else ALONE_AHEAD)

    def ways(self, p, dev) -> list:
        """Blocks that a row may have, the fewest first."""
        count = p.op.count(p.x)
        least = max(ceil_div(count, self.most(p)), 1)
        fits = lambda n: (self.width(p, n) * (n - 1) < count and self.stages(p, dev, n) >= LEAST_STAGES
                          and self.width(p, n) <= self.most(p))
        return [n for n in range(least, min(8 * least, dev.sms) + 1) if fits(n)]

    def teams(self, p, dev, blocks) -> int:
        """Rows that are under way at once."""
        rows = p.x.count // p.op.count(p.x)
        worth = ceil_div(rows * self.width(p, blocks) * p.x.dtype.bytes, LEAST_BYTES)
        return max(min(dev.sms // blocks, rows, worth), 1)

    def configs(self, p, dev):
        ways = [Config(blocks_per_row=n) for n in self.ways(p, dev)]
        return iter(sorted(ways, key=lambda c: self.cost(p, dev, c)))

    def cost(self, p, dev, config):
        """Until the team with the most rows is through."""
        (first, turn, each), blocks = self.times, config.blocks_per_row
        turns = ceil_div(p.x.count // p.op.count(p.x), self.teams(p, dev, blocks))
        turn += each * self.width(p, blocks) * p.x.dtype.bytes / 2048
        turn += LATE_US * max(WELL_AHEAD - self.ahead(p, dev, blocks), 0) * (blocks > 1)
        return max(memory_us(p, dev), turns * turn) + first + JOIN_US * blocks

    def args_of(self, p, dev, blocks) -> tuple:
        """(arguments of both kernels, what the grid needs, the kernel)"""
        found, teams, width = self.strides(p), self.teams(p, dev, blocks), self.width(p, blocks)
        words = p.scratch(16 * teams * MAILS * blocks) if blocks > 1 else None
        args = dict(mail=words, rows=p.x.count // p.op.count(p.x), cols=p.op.count(p.x), width=width,
                    is_rms=p.op.mode == "rms", stages=self.stages(p, dev, blocks), joined=blocks,
                    ahead=self.ahead(p, dev, blocks),
                    **{name: p.ptr(name) for name in self.walked},
                    **{f"{name}_row": found[name] for name in self.walked})
        held = next(n for n in HELD if width <= WIDE * THREADS * n)
        return args, dict(teams=teams), f"{self.source}_{p.x.dtype}_{held}"


class NormFwdRing(RowRing, NormFwdRows):
    """One read of x; blocks tell each other their means and variances through memory; pointwise operations
    behind it."""
    index, source, times = 401, "norm_fwd_ring", FWD_US
    takes = core(NormFwd, behind=many(Pointwise))

    def fuse(self, p, lanes) -> dict:
        return {mark: program for mark, program in super().fuse(p, lanes).items() if mark != "load_x"}

    def plan(self, p, dev, config):
        steps = []
        args, grid, kernel = self.args_of(p, dev, config.blocks_per_row)
        args |= dict(epsilon=number_as(p, "epsilon", "f32", steps), y_row=self.strides(p)["out"])
        return [*steps, Launch(kernel, args, grid, self.given(self.fuse(p, WIDE)))]


class NormBwdRing(RowRing, NormBwdRows):
    """One launch, one read of x and dy; blocks tell each other their sums through memory, and add those of
    columns behind a barrier of the grid, in a fixed order."""
    index, source, times = 407, "norm_bwd_ring", BWD_US
    takes = core(NormBwd, behind=many(Pointwise))
    understands, only_90 = frozenset(), True       # registers move between warps

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if p.rstd is None:
            yield "rstd must be given; got none"

    def fuse(self, p, lanes) -> dict:
        return {mark: program for mark, program in super().fuse(p, lanes).items()
                if mark not in ("load_x", "load_dy")}

    def part_bytes(self, p, dev, blocks) -> int:
        """Sums of columns of all teams."""
        return 2 * self.teams(p, dev, blocks) * p.op.count(p.x) * BY_NAME["f32"].bytes

    def plan(self, p, dev, config):
        blocks = config.blocks_per_row
        args, grid, kernel = self.args_of(p, dev, blocks)
        units, at_work = ceil_div(p.op.count(p.x), 32), grid["teams"] * blocks * WARPS
        spread = max(n for n in (1, 2, 4, 8, 16) if n == 1 or units * n <= at_work)
        part = p.scratch(self.part_bytes(p, dev, blocks)) if self.sums(p) else None
        args |= dict(part=part, spread=spread, dx_row=self.strides(p)["out"])
        return [Launch(kernel, args, grid, self.given(self.fuse(p, WIDE)) | self.sums(p))]

"""First layers (kernels_src/conv/first.cuh): rows of an image of few channels in shared memory, where wgmma
reads overlapping windows."""
from __future__ import annotations

from dataclasses import dataclass

from ...kernels.expressions import ceil_div
from ..engine import no_elements
from ..tile.program import TileProgram

LANES = (1, 2, 4, 8)                             # channels of a pixel there
CHUNK, WIDE = 8, 64                              # elements of 16 bytes; outputs that are multiplied together
STRIP = 4 * WIDE                                 # most outputs of a row that go together
EVENTS = 16                                      # ROW_EVENTS


@dataclass(frozen=True)
class FirstRows:
    """``lanes`` of a pixel; ``step``: chunks from a window to the next; a window has ``chunks`` and ``kept``
    elements of the last; strips of ``strip`` outputs; ``span``: lines that a row of outputs needs, of which
    the next has ``fresh`` others."""
    lanes: int
    step: int
    chunks: int
    kept: int
    columns: int
    strip: int
    strips: int
    span: int
    fresh: int

    @classmethod
    def of(cls, channels: int, taps: tuple, stride: tuple, dilation: int, columns: int, most: int = STRIP):
        """None where no number of lanes gives windows a step that wgmma can read."""
        lanes = next((n for n in LANES if n >= channels and is_step(stride[1] * n)), 0)
        if not lanes:
            return None
        wide = ceil_div(columns, WIDE)
        strips = ceil_div(wide, most // WIDE)
        chunks, span = ceil_div(taps[1] * lanes, CHUNK), (taps[0] - 1) * dilation + 1
        return cls(lanes, stride[1] * lanes // CHUNK, chunks, taps[1] * lanes - CHUNK * (chunks - 1), columns,
                   ceil_div(wide, strips) * WIDE, strips, span, min(stride[0], span))

    @property
    def behind(self) -> int:
        """Places of a part behind that of the last output."""
        return (self.chunks - 1) // self.step

    @property
    def places(self) -> int:
        return (self.columns if self.strips == 1 else self.strip) + self.behind

    @property
    def part_bytes(self) -> int:
        return 16 * (self.strip + self.behind)

    @property
    def least(self) -> int:
        """Lines of the smallest ring with which loads and products overlap."""
        return self.span + self.fresh

    def lines(self, room: int) -> int:
        """Of a ring where there is room for so many; as many as the barriers can use."""
        return min(room, self.span + (EVENTS - 1) * self.fresh)

    def args(self) -> dict:
        return dict(lanes_log=self.lanes.bit_length() - 1, strip=self.strip, strips=self.strips,
                    step=self.step, places=self.places, part_bytes=self.part_bytes,
                    last_part=(self.chunks - 1) % self.step, last_place=self.behind, kept=self.kept)


def is_step(elements: int) -> bool:
    """One chunk, or an even number of chunks."""
    chunks, rest = divmod(elements, CHUNK)
    return not rest and (chunks == 1 or chunks > 0 and chunks % 2 == 0)


def image_args(p, g) -> dict:
    """The parameters that say what x is, and how windows go over it."""
    return dict(x=p.ptr("x"), x_n=g.x.n_step, x_h=g.x.steps[1], x_w=g.x.steps[2], height=g.x.size[1],
                width=g.x.size[2], channels=g.c, stride_h=g.stride[1], stride_w=g.stride[2], top=g.pad[1],
                left=g.pad[2])


def refusals(p, dev, source: str):
    """The reasons that they share; with the first of them nothing else is asked."""
    yield from TileProgram.wrong(p, dev, source)
    yield from no_elements(p.operands)
    if p.op.math != "f32":
        yield f"compute must be f32 for {p.operands[p.op.reads[0]].dtype} tensors; got {p.op.compute}"
    rank = p.operands[p.op.reads[0]].rank
    if rank > 4:
        yield f"images must have 1 or 2 spatial dims; got {rank - 2}"


def window_refusals(p, g):
    """Reasons of x, and of the windows over it."""
    if g.groups > 1:
        yield f"groups must be 1; got {g.groups}"
    if g.c > LANES[-1]:
        yield f"c must be at most {LANES[-1]}; got {g.c}"
    if g.c > 1 and g.x.c_step != 1:
        yield f"x must have contiguous channels; got strides {p.x.strides}"
    if g.dilation[2] > 1 and g.w.size[2] > 1:
        yield f"dilation along the last dim must be 1; got {g.dilation[2]}"
    if g.c <= LANES[-1] and not any(n >= g.c and is_step(g.stride[2] * n) for n in LANES):
        yield (f"the stride along the last dim, times 1, 2, 4 or 8 but at least c, must be 8 or a multiple "
               f"of 16; got stride {g.stride[2]} and c {g.c}")
    if g.x.size[2] * abs(g.x.steps[2]) >= 2 ** 31:
        yield f"a row of x must span less than 2^31 elements; got {g.x.size[2] * abs(g.x.steps[2])}"
    if p.x.alignment < 16:
        yield f"x must be aligned to 16 bytes; got {p.x.alignment}"


def rows_of(g, most: int = STRIP) -> FirstRows | None:
    return FirstRows.of(g.c, g.w.size[1:], g.stride[1:], g.dilation[1], g.y.size[2], most)

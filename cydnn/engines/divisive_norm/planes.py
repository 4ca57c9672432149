"""Divisive normalization of planes with w innermost: what both directions share."""
from __future__ import annotations

from typing import ClassVar

from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..lrn.view import width as word_of
from .view import MOST, DivisiveNormEngine, blend, numbers

LANES, THREADS, STEP = 32, 128, 8                # of a warp; of a block; rows that chunks are multiples of
BLOCKS_PER_SM = 12                               # that are wanted, while chunks stay long
LEAST = 4                                        # steps of a chunk
FEWEST = 8                                       # lanes of a group that make results


class Planes(DivisiveNormEngine):
    """A group of lanes has neighbouring columns of a plane and walks down its rows. ``most``: bytes of a
    thread's access; ``widest``: columns of a thread at most; ``halos``: how often lanes meet, each time the
    outermost ones of a group lack neighbours."""
    most: ClassVar[int] = 16
    widest: ClassVar[int] = 4
    halos: ClassVar[int] = 1

    def limits(self, p, dev):
        given = [name for name in ("means", "dmeans") if p.operands.get(name) is not None]
        if given:
            yield f"takes no {' and no '.join(given)}"
        if p.x.rank > 4:
            yield f"x must have at most 2 spatial dims; got {p.x.rank - 2}"
        for name, d in p.operands.items():
            if d is not None and d.dims[-1] > 1 and d.strides[-1] != 1:
                yield f"w of {name} must be innermost; got stride {d.strides[-1]}"
        vec = self.columns(p)
        group = self.groups(p, vec)
        if group["segments"] > 1 and group["useful"] < FEWEST:
            yield (f"window must leave {FEWEST} of {LANES} lanes that make results; it leaves "
                   f"{group['useful']} with {vec} columns a lane")

    @classmethod
    def columns(cls, p) -> int:
        """Columns of a thread: as many as lie side by side, whole and aligned, everywhere."""
        vec = min(cls.most // p.x.dtype.bytes, cls.widest)
        while vec > 1 and not all(d.dims[-1] % vec == 0 and d.alignment >= vec * d.dtype.bytes
                                  and not any(s % vec for s, n in zip(d.strides[:-1], d.dims) if n > 1)
                                  for d in p.descs):
            vec //= 2
        return vec

    @classmethod
    def groups(cls, p, vec) -> dict:
        """How a row's columns are shared out among lanes."""
        across = ceil_div(p.x.dims[-1], vec)
        if across <= LANES:
            return dict(lanes_log2=max((across - 1).bit_length(), 1), lead=0, useful=across, segments=1)
        lead = ceil_div(cls.halos * (p.op.window // 2), vec)
        useful = LANES - 2 * lead
        return dict(lanes_log2=5, lead=lead, useful=useful, segments=ceil_div(across, max(useful, 1)))

    def share(self, p):
        vec = self.columns(p)
        group = self.groups(p, vec)
        busy = ceil_div(p.x.dims[-1], vec) / (group["segments"] << group["lanes_log2"])
        slow = {5: 1.0, 9: 0.7, 16: 0.4}[word_of(p.op.window)]
        return 0.8 * slow * max(busy, 0.25)

    def launches(self, p, dev):
        vec, height = self.columns(p), p.x.dims[2] if p.x.rank == 4 else 1
        group = self.groups(p, vec)
        planes, steps = p.x.n * p.x.c * group["segments"], ceil_div(height, STEP)
        wanted = ceil_div(BLOCKS_PER_SM * dev.sms * THREADS, planes << group["lanes_log2"])
        each = max(ceil_div(steps, wanted), min(LEAST, steps))
        chunks = ceil_div(steps, each)
        strides = {f"{n}_strides": (d.strides[2] if d.rank == 4 else 0, d.strides[1], d.strides[0])
                   for n, d in p.operands.items() if d is not None}
        near = all(s[0] < MOST // STEP for s in strides.values())
        args = dict({n: p.ptr(n) for n, d in p.operands.items() if d is not None}, **group, **strides,
                    items=planes * chunks, width=p.x.dims[-1], height=height, per=each * STEP,
                    is_near=int(near), chunks=chunks, channels=p.x.c, window=p.op.window, **numbers(p),
                    **self.more(p), **blend(p))
        return [Launch(f"{self.kernel}_{p.x.dtype}_w{word_of(p.op.window)}_v{vec}", args)]

    def more(self, p) -> dict:
        """Numbers that only one direction has."""
        return {}

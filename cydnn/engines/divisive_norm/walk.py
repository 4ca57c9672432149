"""Divisive normalization by threads that walk down rows: what planes and channels share."""
from __future__ import annotations

from typing import ClassVar

from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..lrn.view import width as word_of
from .view import MOST, DivisiveNormEngine, blend, numbers, slope_and_lift

STEP = 8                                         # rows that chunks are multiples of
THREADS_PER_SM = 1536                            # that are wanted, while chunks stay long
LEAST = 4                                        # steps of a chunk
FEWEST = 3                                       # cells of a window in each dim where means are given


def has_means(p) -> bool:
    return any(p.operands.get(name) is not None for name in ("means", "dmeans"))


def vectors_of_gradient(p) -> tuple:
    """What leaves a thread enough registers."""
    is_far, with_means = p.op.window > 9, has_means(p)
    if p.x.dtype.bytes == 2 and p.op.window <= 5 and not with_means:
        return 4, 2, 1
    return (1,) if is_far and with_means else (2, 1)


class Walking(DivisiveNormEngine):
    """``inner``: the dim of a thread's neighbours, ``outer``: the one that is shared out beside n;
    ``vectors``: how many neighbours its kernels take, most first; ``tile``: how a row is shared out."""
    inner: ClassVar[int] = -1
    outer: ClassVar[int] = 1

    def limits(self, p, dev):
        if p.x.rank > 4:
            yield f"x must have at most 2 spatial dims; got {p.x.rank - 2}"
        if has_means(p) and p.op.window < FEWEST:
            yield f"window must be at least {FEWEST} with means; got {p.op.window}"
        word = {-1: "w", 1: "c"}[self.inner]
        for name, d in p.operands.items():
            if d is not None and d.dims[self.inner] > 1 and d.strides[self.inner] != 1:
                yield f"{word} of {name} must be innermost; got stride {d.strides[self.inner]}"

    @classmethod
    def vector(cls, p) -> int:
        """Neighbours of a thread: as many as lie side by side, whole and aligned, everywhere."""
        inner = cls.inner % p.x.rank
        def fits(vec):
            return vec == 1 or all(d.dims[inner] % vec == 0 and d.alignment >= vec * d.dtype.bytes
                                   and not any(s % vec for a, (s, n) in enumerate(zip(d.strides, d.dims))
                                               if a != inner and n > 1) for d in p.descs)
        return next(filter(fits, cls.vectors(p)))

    @classmethod
    def vectors(cls, p) -> tuple:
        raise NotImplementedError

    def tile(self, p, vec) -> dict:
        raise NotImplementedError

    def launches(self, p, dev):
        vec, height = self.vector(p), p.x.dims[2] if p.x.rank == 4 else 1
        tile = self.tile(p, vec)
        threads, parts = tile.pop("threads"), p.x.n * tile["channels"] * tile["segments"]
        steps = ceil_div(height, STEP)
        wanted = ceil_div(THREADS_PER_SM * dev.sms, parts * threads)
        each = max(ceil_div(steps, wanted), min(LEAST, steps))
        chunks = ceil_div(steps, each)
        strides = {f"{n}_strides": (0, 0, 0) if d is None else
                   (d.strides[2] if d.rank == 4 else 0, d.strides[self.outer], d.strides[0])
                   for n, d in p.operands.items()}
        near = all(s[0] < MOST // STEP for s in strides.values())
        args = dict({n: p.ptr(n) for n in p.operands}, **tile, **strides, items=parts * chunks,
                    width=p.x.dims[-1], height=height, per=each * STEP, is_near=int(near), chunks=chunks,
                    window=p.op.window, **numbers(p), **blend(p))
        if "dy" in p.operands:
            args.update(slope_and_lift(p))
        name = f"{self.kernel}_{p.x.dtype}_w{word_of(p.op.window)}_v{vec}_m{int(has_means(p))}"
        return [Launch(name, args)]

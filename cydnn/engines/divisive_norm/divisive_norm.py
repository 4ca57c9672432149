"""Divisive normalization and its gradient: base, and the engines for any strides."""
from __future__ import annotations

from typing import ClassVar

from ...dtypes import BY_NAME
from ...graph import Match, core
from ...kernels.expressions import ceil_div
from ...ops import DivisiveNormBwd, DivisiveNormFwd
from ...ops.window import neighbours
from ...steps import Launch
from ..engine import Engine, in_bytes, no_variant, wrong_device
from ..lrn.lrn import gradient, quarters, width as word_of
from ..pool.view import inner_first, lanes, strides_of

MOST = 2 ** 31                                   # items of one launch: kernels count them in 32 bits


def numbers(p: Match) -> dict:
    """The numbers of s as kernels take them."""
    return dict(scale=p.op.scale / p.op.cells(p.x.rank), power=p.op.power, quarters=quarters(p.op.power),
                offset=p.op.offset)


def slope_and_lift(p: Match) -> dict:
    """What the kernels of the gradient take besides."""
    return gradient(p.op, p.op.scale / p.op.cells(p.x.rank))


def blend(p: Match) -> dict:
    return dict(alpha=p.scalar("alpha"), beta=p.scalar("beta"))


def reach(p: Match) -> dict:
    """Cells of the window on each side of its middle."""
    behind, ahead = neighbours(p.op.window)
    return dict(behind=behind, ahead=ahead)


class DivisiveNormEngine(Engine):
    """The base of all. ``kernel``: one whose contract says which types it takes. An engine adds ``limits``
    (what else it refuses), ``share`` (of the device's bandwidth) and ``launches``."""
    kernel: ClassVar[str] = ""

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, f"divisive_norm/{self.kernel}.cu")
        if p.op.math not in ("f32", p.x.dtype.compute):
            yield f"compute must be {p.x.dtype.compute} for {p.x.dtype} data; got {p.op.compute}"
        if p.x.count >= MOST:
            yield f"elements of x must be fewer than 2^31; got {p.x.count}"
        if in_bytes(p):
            yield from self.limits(p, dev)

    def limits(self, p, dev):
        return iter(())

    def share(self, p) -> float:
        raise NotImplementedError

    def cost(self, p, dev, config):
        return dev.launch_us + p.region.traffic_bytes / (dev.bandwidth_gbs * self.share(p)) * 1e-3

    def plan(self, p, dev, config):
        return self.launches(p, dev) if p.x.count else []

    def launches(self, p, dev) -> list:
        raise NotImplementedError


class DivisiveStrided(DivisiveNormEngine):
    """Every window is walked cell by cell."""

    def share(self, p):
        return 0.5 / max(p.op.cells(p.x.rank), 1)

    @staticmethod
    def strides(p, *names) -> dict:
        """Strides w h d c n of operands; zeros of what is absent."""
        return {f"{n}_strides": strides_of(p.operands[n], channel=True) if p.operands[n] is not None
                else (0,) * 5 for n in names}

    @staticmethod
    def walk(p) -> dict:
        """What every kernel is told of the elements and the window."""
        return dict(items=p.x.count, sizes=inner_first(p.x.spatial, 1), **lanes(p.x), **reach(p))

    @staticmethod
    def scratch_strides(p) -> tuple:
        """Strides w h d c n of an array in the order of the items."""
        found, step = lanes(p.x), 1
        steps = []
        for size in found["digits"]:
            steps.append(step)
            step *= size
        c, spatial = (steps[0], steps[1:]) if found["channels_inner"] else (steps[3], steps[:3])
        return (*spatial, c, step)

    @staticmethod
    def array(p):
        """A fresh array of one number of the compute type for every element."""
        return p.scratch(BY_NAME[p.x.dtype.compute].bytes_of(p.x.count))


class DivisiveNormFwdStrided(DivisiveStrided):
    """Any strides, 1 to 3 spatial dims, with or without means: a thread walks the window of its element."""
    index, takes, kernel = 340, core(DivisiveNormFwd), "divisive_norm_fwd_strided"

    def launches(self, p, dev):
        args = dict(x=p.ptr("x"), means=p.ptr("means"), y=p.ptr("y"), **self.walk(p), **numbers(p),
                    **self.strides(p, "x", "means", "y"), **blend(p))
        return [Launch(f"{self.kernel}_{p.x.dtype}", args)]


class DivisiveNormBwdStrided(DivisiveStrided):
    """Any strides, 1 to 3 spatial dims, with or without means: a launch leaves what windows are summed from,
    and makes dmeans; another sums."""
    index, takes, kernel = 345, core(DivisiveNormBwd), "divisive_norm_bwd_strided"

    def launches(self, p, dev):
        own, g, of = self.array(p), self.array(p), slope_and_lift(p)
        shared = dict(x=p.ptr("x"), means=p.ptr("means"), own=own, g=g, **self.walk(p), **blend(p),
                      **self.strides(p, "x", "means"))
        terms = dict(shared, dy=p.ptr("dy"), dmeans=p.ptr("dmeans"), **of, **numbers(p),
                     **self.strides(p, "dy", "dmeans"))
        sums = dict(shared, dx=p.ptr("dx"), slope=of["slope"], g_strides=self.scratch_strides(p),
                    **self.strides(p, "dx"))
        return [Launch(f"divisive_norm_bwd_terms_{p.x.dtype}", terms),
                Launch(f"{self.kernel}_{p.x.dtype}", sums)]


STEP = 8                                         # rows that chunks are multiples of
THREADS_PER_SM = 1536                            # that are wanted, while chunks stay long
LEAST = 4                                        # steps of a chunk
LEAST_WINDOW = 3                                       # cells of a window in each dim where means are given


def has_means(p) -> bool:
    return any(p.operands.get(name) is not None for name in ("means", "dmeans"))


def vectors_of_gradient(p) -> tuple:
    """What leaves a thread enough registers."""
    is_far, with_means = p.op.window > 9, has_means(p)
    if p.x.dtype.bytes == 2 and p.op.window <= 5 and not with_means:
        return 4, 2, 1
    return (1,) if is_far and with_means else (2, 1)


class DivisiveWalk(DivisiveNormEngine):
    """``inner``: the dim of a thread's neighbours, ``outer``: the one that is shared out beside n;
    ``vectors``: how many neighbours its kernels take, most first; ``tile``: how a row is shared out."""
    inner: ClassVar[int] = -1
    outer: ClassVar[int] = 1

    def limits(self, p, dev):
        if p.x.rank > 4:
            yield f"x must have at most 2 spatial dims; got {p.x.rank - 2}"
        if has_means(p) and p.op.window < LEAST_WINDOW:
            yield f"window must be at least {LEAST_WINDOW} with means; got {p.op.window}"
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


LANES = 32                                       # of a warp
FEWEST = 8                                       # lanes of a group that make results


class DivisivePlanes(DivisiveWalk):
    """A group of lanes has neighbouring columns of a plane and walks down its rows. ``halos``: how often
    lanes meet, each time the outermost ones of a group lack neighbours."""
    halos: ClassVar[int] = 1

    def limits(self, p, dev):
        yield from super().limits(p, dev)
        vec = self.vector(p)
        group = self.groups(p, vec)
        if group["segments"] > 1 and group["useful"] < FEWEST:
            yield (f"window must leave {FEWEST} of {LANES} lanes that make results; it leaves "
                   f"{group['useful']} with {vec} columns a lane")

    @classmethod
    def groups(cls, p, vec) -> dict:
        """How a row's columns are shared out among lanes."""
        across = ceil_div(p.x.dims[-1], vec)
        if across <= LANES:
            return dict(lanes_log2=max((across - 1).bit_length(), 1), lead=0, useful=across, segments=1)
        lead = ceil_div(cls.halos * (p.op.window // 2), vec)
        useful = LANES - 2 * lead
        return dict(lanes_log2=5, lead=lead, useful=useful, segments=ceil_div(across, max(useful, 1)))

    def tile(self, p, vec):
        group = self.groups(p, vec)
        return dict(group, channels=p.x.c, threads=1 << group["lanes_log2"])

    def share(self, p):
        vec = self.vector(p)
        group = self.groups(p, vec)
        busy = ceil_div(p.x.dims[-1], vec) / (group["segments"] << group["lanes_log2"])
        slow = {5: 1.0, 9: 0.7, 16: 0.4}[word_of(p.op.window)] * (0.8 if has_means(p) else 1.0)
        return 0.8 * slow * max(busy, 0.25)


class DivisiveNormFwdPlanes(DivisivePlanes):
    """w innermost, with or without means: a thread walks down some columns, lanes meet for the sums along
    w."""
    index, takes, kernel = 341, core(DivisiveNormFwd), "divisive_norm_fwd_planes"

    @classmethod
    def vectors(cls, p):
        return 4, 2, 1


class DivisiveNormBwdPlanes(DivisivePlanes):
    """w innermost, with or without means and their gradient: a thread walks down some columns, lanes meet for
    the sums along w."""
    index, takes, kernel = 346, core(DivisiveNormBwd), "divisive_norm_bwd_planes"
    halos, vectors = 2, staticmethod(vectors_of_gradient)


THREADS = 256                                    # of a block
LOGS = range(6)                                  # lanes of a column, as powers of two
WORTH = {64: 1.0, 32: 0.8, 1: 0.4}               # of that many bytes side by side


class DivisiveChannels(DivisiveWalk):
    """A block has some channels of neighbouring columns, a thread walks down the rows of one column.
    ``halos``: how often columns meet, each time the outermost ones of a block lack neighbours."""
    inner, outer = 1, -1
    halos: ClassVar[int] = 1

    @classmethod
    def group(cls, p, vec, lanes_log2) -> dict:
        """How channels and columns are shared out when a column has that many lanes."""
        vectors, width = ceil_div(p.x.c, vec), p.x.dims[-1]
        places = THREADS >> lanes_log2
        lead = 0 if width <= places else cls.halos * (p.op.window // 2)
        useful = width if width <= places else places - 2 * lead
        return dict(lanes_log2=lanes_log2, vectors=vectors, lead=lead, useful=useful,
                    segments=ceil_div(width, max(useful, 1)), channels=ceil_div(vectors, 1 << lanes_log2))

    @classmethod
    def busy(cls, p, vec, group) -> float:
        """The share of a block's threads that make results, less what narrow accesses cost."""
        if group["useful"] < 1 or not group["vectors"]:
            return 0.0
        made = p.x.dims[-1] * group["vectors"] / (group["segments"] * group["channels"] * THREADS)
        side_by_side = min(1 << group["lanes_log2"], group["vectors"]) * vec * p.x.dtype.bytes
        return made * next(worth for least, worth in WORTH.items() if side_by_side >= least)

    def groups(self, p, vec) -> dict:
        return max((self.group(p, vec, log2) for log2 in LOGS), key=lambda g: self.busy(p, vec, g))

    def tile(self, p, vec):
        return dict(self.groups(p, vec), threads=THREADS)

    def share(self, p):
        vec = self.vector(p)
        slow = {5: 1.0, 9: 0.7, 16: 0.4}[word_of(p.op.window)] * (0.8 if has_means(p) else 1.0)
        return 0.75 * slow * max(self.busy(p, vec, self.groups(p, vec)), 0.1)


class DivisiveNormFwdChannels(DivisiveChannels):
    """Channels innermost, with or without means: a thread walks down a column of some channels, columns meet
    in shared memory for the sums along w."""
    index, takes, kernel = 342, core(DivisiveNormFwd), "divisive_norm_fwd_channels"

    @classmethod
    def vectors(cls, p):
        return 4, 1


class DivisiveNormBwdChannels(DivisiveChannels):
    """Channels innermost, with or without means and their gradient: a thread walks down a column of some
    channels, columns meet in shared memory for the sums along w."""
    index, takes, kernel = 347, core(DivisiveNormBwd), "divisive_norm_bwd_channels"
    halos, vectors = 2, staticmethod(vectors_of_gradient)

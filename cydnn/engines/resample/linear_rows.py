"""Bilinear resampling of planes: rows of x that outputs lie between come to shared memory."""
from __future__ import annotations

from ...fusion import Site
from ...graph import once_per_match
from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import memory_us
from .resample import LANES, ResampleFwdAny, ResampleFwdLinear, geometry, strides_of, three

STRIP = 16                                       # rows of outputs of a thread
PLACE, WORTH = 32 << 10, 512                     # bytes of a block, and threads that have work, at most
MOST_PLACE = 48 << 10                            # of one strip


class ResampleFwdLinearRows(ResampleFwdLinear):
    """Bilinear images: a block fills rows of planes in, and each thread makes eight outputs of a row."""
    index = 462

    def refuse(self, p, dev):
        yield from ResampleFwdAny.refuse(self, p, dev)
        if p.op.mode != "bilinear":
            yield f"mode must be bilinear; got {p.op.mode}"
        elif p.x.rank != 4:
            yield f"x must have two spatial dims; got {p.x.rank - 2}"
        elif self.along(p) != "w":
            yield f"outputs of a row must be eights side by side; got {self.lead(p).tensor}"
        elif self.math(p) != "f32":
            yield f"compute and types must be of f32 or shorter; got {self.math(p)}"
        elif 4 * self.shape(p)["cells"] * self.shape(p)["rows"] > MOST_PLACE:
            yield f"rows between two outputs must fit in {MOST_PLACE} bytes; got {p.x.dims[-1]} cells"

    def loads(self, p) -> int:
        """Neighbours of a row of x that a thread reads at once."""
        return LANES if p.x.strides[-1] == 1 and p.x.dims[-1] % LANES == 0 else 1

    def load_site(self, d, lanes) -> Site:
        return Site(d.dims, d, (("col", (d.rank - 1,)),), "col" if lanes > 1 else "", lanes)

    def fuse(self, p, lanes) -> dict:
        along = self.along(p)
        return dict(load_x=self.loaded(p, "x", self.loads(p)), store=self.stored(p, LANES if along else 1))

    # ---- How it is cut ----

    def rows_of(self, p, outs) -> int:
        """Rows of x that so many rows of outputs lie between."""
        found = geometry(p.op, p.x.dims)
        return ((outs - 1) * found["stride"][1] + found["units"] - 1) // found["units"] + 2

    @once_per_match
    def shape(self, p) -> dict:
        found, (w, h, _) = geometry(p.op, p.x.dims), three(p.y.dims[2:], 1)
        first = lambda o: (o * found["stride"][0] + found["begin"][0]) // found["units"]
        cells = first(w - 1) - first(0) + 2
        place = lambda strips: 4 * cells * self.rows_of(p, min(strips * STRIP, h))
        strips = all_strips = ceil_div(h, STRIP)
        while strips > 1 and place(strips) > PLACE:
            strips = ceil_div(strips, 2)
        most = min(PLACE // place(strips), WORTH // (strips * ceil_div(w, LANES)))
        return dict(cells=cells, strips=strips, tiles=ceil_div(all_strips, strips),
                    planes=p.y.dims[0] * p.y.dims[1], rows=self.rows_of(p, min(strips * STRIP, h)),
                    per_block=max(most, 1) if strips == all_strips else 1)

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.5 if self.loads(p) > 1 else 0.42)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        y, found, loads = self.lead(p).tensor, geometry(p.op, p.x.dims), self.loads(p)
        names = "sizes window stride begin lift units unit padding".split()
        args = dict({n: found[n] for n in names}, outs=three(p.y.dims[2:], 1), channels=p.y.dims[1],
                    octets=p.y.dims[-1] // LANES, loads=p.x.dims[-1] // loads, x_strides=strides_of(p.x),
                    y_strides=strides_of(y), **self.shape(p))
        return [Launch(f"resample_fwd_linear_rows_{loads}", args, {}, self.fuse(p, LANES))]

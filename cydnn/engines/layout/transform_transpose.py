"""Transposing copies, NCHW to NHWC and back:
tiles through shared memory, 16 bytes an access on both sides."""
from math import prod

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import Transform
from ...steps import Launch
from ...tensor import collapse
from ..engine import Engine, memory_us, no_variant, wrong_device

TILE = 64
LEAST = 0.1                                      # of a tile that is used: a narrow one takes less time


def access(d, *steps) -> int:
    """Bytes of an access to ``d``: 16 or 8 where its pointer and all ``steps``, in elements,
    are multiples of them; else an element."""
    fits = lambda size: d.alignment >= size and not any(s * d.dtype.bytes % size for s in steps)
    return next((size for size in (16, 8) if fits(size)), d.dtype.bytes)


class TransformTranspose(Engine):
    """x contiguous along one dim, y along another, and at most one dim beside them."""
    index = 291
    takes = core(Transform)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "layout/transform_transpose.cu", axis="X", same=False)
        if (p.x.dtype.name == "f64") != (p.y.dtype.name == "f64"):
            yield f"x and y must both be f64 or neither; got {p.x.dtype} and {p.y.dtype}"
        if not p.y.count:
            return
        dims, (x, y) = collapse(p.x, p.y)
        if len(dims) not in (2, 3) or y[0] != 1 or 1 not in x[1:]:
            yield (f"x and y must be contiguous along different dims, with at most one dim (after merging) "
                   f"beside them; got merged dims {dims}, strides of x {x}, of y {y}")
            return
        if max(dims) >= 2 ** 31:
            yield f"merged dims must be below 2^31; got {dims}"
        blocks = self._blocks(*self._split(p)[0])
        if blocks >= 2 ** 31:
            yield f"x must have fewer than 2^31 tiles of {TILE} x {TILE}; got {blocks}"

    @staticmethod
    def _split(p):
        """(rows, cols, batches) and for x and y their strides along (rows, cols, batches):
        x has stride 1 along cols, y along rows."""
        dims, strides = collapse(p.x, p.y)
        k = strides[0].index(1, 1)
        order = (0, k, *({1, 2} - {k} if len(dims) == 3 else ()))
        pick = lambda values, pad: (*(values[i] for i in order), pad)[:3]
        return pick(dims, 1), *(pick(s, 0) for s in strides)

    @staticmethod
    def _blocks(rows, cols, batches):
        return ceil_div(rows, TILE) * ceil_div(cols, TILE) * batches

    def cost(self, p, dev, config):
        if not p.y.count:
            return 0.0
        size = self._split(p)[0]
        used = prod(size) / (self._blocks(*size) * TILE * TILE)
        return memory_us(p, dev, efficiency=0.8 * max(used, LEAST))

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        (rows, cols, batches), x, y = self._split(p)
        args = dict(x=p.ptr("x"), y=p.ptr("y"), rows=rows, cols=cols, x_row=x[0], y_col=y[1], x_batch=x[2],
                    y_batch=y[2], row_tiles=ceil_div(rows, TILE), col_tiles=ceil_div(cols, TILE),
                    x_bytes=access(p.x, cols, x[0], x[2]), y_bytes=access(p.y, rows, y[1], y[2]),
                    alpha=p.scalar("alpha"), beta=p.scalar("beta"))
        return [Launch(f"transform_transpose_{p.x.dtype}_{p.y.dtype}", args, dict(batches=batches))]

"""Windows as columns, on any strides."""
from __future__ import annotations

from ...graph import core
from ...ops import Im2col
from ...steps import Launch
from ..engine import Engine, memory_us, no_variant, wrong_device

MOST_ROWS = 8 * 65535


def three(values, fill: int) -> tuple:
    """Values of one to three spatial dims as those of three."""
    return (*(fill,) * (3 - len(values)), *values)


class Im2colAny(Engine):
    """A column and eight rows a thread; lanes write neighbouring columns."""
    index, takes = 380, core(Im2col)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "im2col/im2col_any.cu")
        rows, columns = p.col.dims
        if rows > MOST_ROWS:
            yield f"col must have at most {MOST_ROWS} rows; got {rows}"
        if columns >= 2 ** 31 - 256:
            yield f"col must have fewer than 2^31 - 256 columns; got {columns}"

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.6 if p.col.strides[1] == 1 else 0.1)

    def plan(self, p, dev, config):
        if not p.col.count:
            return []
        window, pre, _, stride, dilation = p.op.geometry(p.x.rank)
        last = [(r - 1) * d if p.op.mode == "convolution" else 0 for r, d in zip(window, dilation)]
        args = dict(x=p.ptr("x"), col=p.ptr("col"), rows=p.col.dims[0], columns=p.col.dims[1],
                    out=three(p.op.out_dims(p.x.dims), 1), taps=three(window, 1),
                    size=three(p.x.spatial, 1), stride=three(stride, 1),
                    first=three([a - b for a, b in zip(last, pre)], 0),
                    step=three([-d if p.op.mode == "convolution" else d for d in dilation], 1),
                    x_n=p.x.strides[0], x_c=p.x.strides[1], x_s=three(p.x.strides[2:], 0),
                    row_step=p.col.strides[0], column_step=p.col.strides[1])
        return [Launch(f"im2col_any_{p.x.dtype}", args)]

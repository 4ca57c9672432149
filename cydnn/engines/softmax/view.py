"""What the softmax engines share: the forms in which a problem's rows lie in memory, their refusals, arguments and times."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Iterator

from ...ops.softmax import _axes as axes_of
from ...tensor import TensorDesc, collapse
from ..engine import Engine, Match, wrong_device, wrong_types

WIDE_BYTES = 16                                  # one access of a lane
FLOATS_32 = ("f32", "f16", "bf16")               # computed in f32
MOST = 2 ** 30                                   # rows, columns and positions are ints in the kernels


@dataclass(frozen=True)
class Form:
    """The softmaxed dims (``cols``) and the kept dims (``rows``), each merged as far as all operands allow, innermost first.

    ``col_strides`` and ``row_strides`` have one tuple for each operand, in operand order.
    """
    cols: tuple
    col_strides: list
    rows: tuple
    row_strides: list

    @property
    def row_count(self) -> int:
        return _product(self.rows)

    @property
    def col_count(self) -> int:
        return _product(self.cols)

    @property
    def is_rows(self) -> bool:
        """Each row is contiguous and the rows have one stride."""
        return len(self.cols) == 1 and len(self.rows) == 1 and (self.cols[0] == 1 or all(s == (1,) for s in self.col_strides))

    @property
    def is_columns(self) -> bool:
        """One softmaxed dim, and the innermost kept dim is contiguous with at most one more around it."""
        return len(self.cols) == 1 and len(self.rows) <= 2 and all(s[0] == 1 for s in self.row_strides)


def _product(dims) -> int:
    out = 1
    for d in dims:
        out *= d
    return out


def _some(desc: TensorDesc, axes) -> TensorDesc:
    return TensorDesc(desc.dtype, [desc.dims[i] for i in axes], [desc.strides[i] for i in axes])


def form(p: Match) -> Form:
    """The form of a softmax problem that has elements."""
    inside = axes_of(p.op.mode, p.descs[0].rank)
    kept = tuple(i for i in range(p.descs[0].rank) if i not in inside)
    return Form(*collapse(*(_some(d, inside) for d in p.descs)), *collapse(*(_some(d, kept) for d in p.descs)))


def chunk(p: Match) -> int:
    """Elements in 16 bytes."""
    return WIDE_BYTES // p.descs[0].dtype.bytes


def is_log(p: Match) -> int:
    return int(p.op.algorithm == "log")


def padded(values, filler) -> tuple:
    """A space's eight entries."""
    return (*values, *(filler,) * (8 - len(values)))


def wrong_math(p: Match, *accepted: str) -> Iterator[str]:
    """Types, the math type, and sizes of no dims beyond the kernels' ints."""
    yield from wrong_types(p, *accepted)
    if p.op.compute != "f32" and not (p.op.compute == "f64" and p.dtypes == {"f64"}):
        yield f"computes f32 f16 bf16 in f32 and f64 in f64; op asks for {p.op.compute}"


def too_long(f: Form) -> Iterator[str]:
    if max(f.row_count, f.col_count) >= MOST:
        yield f"needs fewer than 2^30 rows and columns; got {f.row_count} and {f.col_count}"


def unaligned(p: Match, bytes: int) -> Iterator[str]:
    for name, d in p.operands.items():
        if d.alignment < bytes:
            yield f"{name} must be aligned to {bytes} bytes; got {d.alignment}"


class RowEngine(Engine):
    """The base of engines whose lanes hold 16-byte chunks of contiguous rows."""
    least_sm: ClassVar[int] = 75

    def refuse(self, p, dev):
        yield from wrong_device(dev, self.least_sm)
        yield from wrong_math(p, *FLOATS_32)
        yield from unaligned(p, WIDE_BYTES)
        if not p.descs[0].count:
            return
        f = form(p)
        if not f.is_rows:
            yield f"needs contiguous rows with one stride; got columns {f.cols} with strides {f.col_strides}, rows {f.rows}"
            return
        yield from too_long(f)
        strides = [s[0] for s in f.row_strides]
        if any((s - strides[0]) % chunk(p) for s in strides):
            yield f"row strides must be alike modulo {chunk(p)} elements; got {tuple(strides)}"
        yield from self.refuse_rows(p, f, dev)

    def refuse_rows(self, p, f: Form, dev) -> Iterator[str]:
        return iter(())

    def plan(self, p, dev, **config):
        return self.plan_rows(p, form(p), dev, **config) if p.descs[0].count else []

    def plan_rows(self, p, f: Form, dev) -> list:
        raise NotImplementedError


def units(p: Match, f: Form) -> int:
    """The most 16-byte chunks of a row."""
    return -(-f.col_count // chunk(p))


def row_args(p: Match, f: Form, **more) -> dict:
    """The arguments of every row kernel: operands, their row strides, rows, cols, algorithm, blend."""
    args = {name: p.ptr(name) for name in p.operands}
    args |= {f"{name}_row": strides[0] for name, strides in zip(p.operands, f.row_strides)}
    return args | dict(rows=f.row_count, cols=f.col_count, is_log=is_log(p), alpha=p.scalar("alpha"), beta=p.scalar("beta")) | more


SM_GBS = 60.0                                    # what one SM moves


def stream_us(p: Match, dev, blocks: float, extra_reads: float = 0.0, efficiency: float = 0.9) -> float:
    """Microseconds to move every operand once and the inputs ``extra_reads`` times more, with ``blocks`` SM-fulls of work.

    What is re-read costs a third where the inputs fit into half the L2 cache.
    """
    inputs = sum(p.operands[n].count * p.operands[n].dtype.bytes for n in p.op.reads)
    outputs = sum(p.operands[n].count * p.operands[n].dtype.bytes for n in p.op.writes)
    again = extra_reads * inputs * (1 / 3 if inputs <= dev.l2_bytes / 2 else 1.0)
    speed = min(dev.bandwidth_gbs * efficiency, min(blocks, dev.sms) * SM_GBS)
    return 2.0 + (inputs + outputs + again) / speed * 1e-3

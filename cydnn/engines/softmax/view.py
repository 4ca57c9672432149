"""Softmax as its engines see it: merged dims, refusals, arguments, times, and the bases."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Iterator

from ...graph import Match, once_per_match
from ...kernels.expressions import ceil_div
from ...ops.softmax import STATISTICS
from ...tensor import TensorDesc, collapse
from ..engine import Engine, in_bytes, no_variant, wrong_device

WIDE_BYTES = 16                                  # one access of a lane
MOST = 2 ** 30                                   # rows, columns and positions are ints in the kernels


@dataclass(frozen=True)
class SoftmaxForm:
    """The softmaxed dims (``cols``) and the kept dims (``rows``), each merged as far as all operands allow,
    innermost first.

    ``col_strides`` and ``row_strides`` have one tuple for each operand, in operand order.
    """
    cols: tuple
    col_strides: list
    rows: tuple
    row_strides: list

    @property
    def row_count(self) -> int:
        return prod(self.rows)

    @property
    def col_count(self) -> int:
        return prod(self.cols)

    @property
    def is_rows(self) -> bool:
        """Each row is contiguous and the rows have one stride."""
        is_run = self.cols[0] == 1 or all(s == (1,) for s in self.col_strides)
        return len(self.cols) == 1 and len(self.rows) == 1 and is_run

    @property
    def is_columns(self) -> bool:
        """One softmaxed dim, and the innermost kept dim is contiguous with at most one more around it."""
        return len(self.cols) == 1 and len(self.rows) <= 2 and all(s[0] == 1 for s in self.row_strides)


def _some(d, axes) -> TensorDesc:
    return TensorDesc(d.dtype, [d.dims[a] for a in axes], [d.strides[a] for a in axes])


def given(p: Match) -> dict:
    """The operands that are there."""
    return {name: d for name, d in p.operands.items() if d is not None}


@once_per_match
def form(p: Match) -> SoftmaxForm:
    """The form of a softmax problem."""
    inside = p.op.axes(p.descs[0].rank)
    kept = tuple(i for i in range(p.descs[0].rank) if i not in inside)
    return SoftmaxForm(*collapse(*(_some(d, inside) for d in p.descs)),
                *collapse(*(_some(d, kept) for d in p.descs)))


def chunk(p: Match) -> int:
    """Elements in 16 bytes."""
    return WIDE_BYTES * 8 // p.descs[0].dtype.bits


def units(p: Match, f: SoftmaxForm) -> int:
    """The most 16-byte chunks of a row."""
    return ceil_div(f.col_count, chunk(p))


# ---- Arguments ----

def padded(values, filler) -> tuple:
    """A space's eight entries."""
    return (*values, *(filler,) * (8 - len(values)))


def shared_args(p: Match) -> dict:
    """The arguments of every kernel: operands, algorithm, blend."""
    return dict({name: p.ptr(name) for name in given(p)}, is_log=int(p.op.algorithm == "log"),
                alpha=p.scalar("alpha"), beta=p.scalar("beta"))


def row_args(p: Match, f: SoftmaxForm, **more) -> dict:
    """The arguments of every row kernel: the shared ones, row strides, rows, cols."""
    strides = {f"{name}_row": s[0] for name, s in zip(given(p), f.row_strides)}
    return dict(shared_args(p), rows=f.row_count, cols=f.col_count, **strides, **more)


# ---- Refusals and times ----

def too_long(f: SoftmaxForm) -> Iterator[str]:
    """The refusal of more rows or columns than kernels count."""
    if max(f.row_count, f.col_count) >= MOST:
        yield f"needs fewer than 2^30 rows and columns; got {f.row_count} and {f.col_count}"


def unaligned(p: Match, bytes: int) -> Iterator[str]:
    """The refusal of pointers that are not aligned to so many bytes."""
    for name, d in given(p).items():
        if d.alignment < bytes:
            yield f"{name} must be aligned to {bytes} bytes; got {d.alignment}"


def stream_us(p: Match, dev, blocks: float, extra_reads: float = 0.0, efficiency: float = 0.9) -> float:
    """Microseconds to move every operand once and the inputs ``extra_reads`` times more, with ``blocks``
    SM-fulls of work.

    What is re-read costs a third where the inputs fit into half the L2 cache.
    """
    inputs = sum(p.operands[n].dtype.bytes_of(p.operands[n].count) for n in p.op.reads)
    again = extra_reads * inputs * (1 / 3 if inputs <= dev.l2_bytes / 2 else 1.0)
    speed = min(dev.bandwidth_gbs * efficiency, min(blocks, dev.sms) * dev.sm_gbs)
    return dev.launch_us + (p.region.traffic_bytes + again) / speed * 1e-3


# ---- The bases of the engines ----

def form_to_check(p: Match) -> SoftmaxForm | None:
    """The form of a problem without statistics that has elements of whole bytes."""
    if p.descs[0].count and in_bytes(p) and not any(name in STATISTICS for name in given(p)):
        return form(p)
    return None


def rows_to_check(p: Match) -> SoftmaxForm | None:
    """The form of contiguous rows, None for any other."""
    f = form_to_check(p)
    return f if f and f.is_rows else None


class SoftmaxEngine(Engine):
    """The base of all. ``kernel``: the one whose contract says which types it takes; ``aligned``: bytes that
    pointers must be multiples of."""
    kernel: ClassVar[str] = ""
    least_sm: ClassVar[int] = 75
    aligned: ClassVar[int] = 1

    def refuse(self, p, dev):
        if kept := [name for name in given(p) if name in STATISTICS]:
            yield (f"{kept[0]} must be absent: no kernel writes statistics; "
                   f"got dims {p.operands[kept[0]].dims}")
            return
        yield from wrong_device(dev, self.least_sm)
        yield from no_variant(p, f"softmax/{self.kernel}.cu")
        if p.op.math == "f64" and p.dtypes != {"f64"}:
            yield f"compute must be f32 for {' '.join(sorted(p.dtypes))} data; got {p.op.compute}"
        yield from unaligned(p, self.aligned)


class RowEngine(SoftmaxEngine):
    """The base of those whose lanes hold 16-byte chunks of contiguous rows."""
    aligned = WIDE_BYTES

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        f = form_to_check(p)
        if f and not f.is_rows:
            yield ("needs contiguous rows with one stride; "
                   f"got columns {f.cols} with strides {f.col_strides}, rows {f.rows}")
        elif f:
            yield from too_long(f)
            strides = [s[0] for s in f.row_strides]
            if any((s - strides[0]) % chunk(p) for s in strides):
                yield f"row strides must be alike modulo {chunk(p)} elements; got {tuple(strides)}"

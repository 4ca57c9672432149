"""Sums of the columns of what leaves Hopper's tile program (kernels_src/tile/wgmma_sums.cuh): the last node
of a match. The kernel makes a row of them for every 64 rows; a launch behind it adds these in their order."""
from __future__ import annotations

from dataclasses import replace

from ... import kernels
from ...kernels.expressions import ceil_div
from ...ops import GenStats, Reduction
from ...steps import Launch, Pointer, Scratch
from ...tensor import TensorDesc
from ..nested import NestedOp, NestedOperand
from ..reduction.reduction import ReductionColumns, ReductionGeneric
from .line import GROUP_ROWS

LAST = (GenStats, Reduction)                     # that a match may end in
ADDERS = (ReductionColumns(), ReductionGeneric())
SUMS_US = 0.6                                    # what a product takes longer that makes them


def kernel(product: str) -> str:
    """The name of a product's kernel that makes sums, too."""
    return product.replace("_wgmma_", "_wgmma_sums_")


def joined(g):
    """Products of a batch with one b as those of one matrix, where the rows of a and c lie so."""
    if g.count != g.batch[0] or g.b_batch[0]:
        return g
    if g.m > 1 and (g.a_batch[0], g.c_batch[0]) != (g.m * g.a[0], g.m * g.c[0]):
        return g
    rows = {name: (batch[0], step[1]) if g.m == 1 else step
            for name, batch, step in (("a", g.a_batch, g.a), ("c", g.c_batch, g.c))}
    none = (0,) * len(g.batch)
    return replace(g, m=g.count * g.m, batch=(1,) * len(g.batch), a_batch=none, c_batch=none, batch_axes=(),
                   **rows)


def _made(p) -> list:
    """Tensors of the sums, then of the sums of squares; None where nobody asks for them."""
    uids = [p.last.operands.get(name) for name in p.last.op.writes]
    return [None if uid is None else p.graph.tensors[uid] for uid in uids]


def refusals(p, g, axis: int):
    """Refusals of a last node that is not made of the sums of columns, which lie along a dim of the
    output."""
    op, lead = p.last.op, p.graph.tensors[p.last.reads[0]]
    if getattr(op, "mode", "") not in ("add", "sum_sqsum"):
        yield f"a reduction behind it must add; got {op.mode}"
    if op.math != "f32":
        yield f"compute of what adds up behind it must be f32; got {op.compute}"
    if any(p.last.scalars.get(name, usual) != usual for name, usual in op.scalars.items()):
        yield f"alpha and beta of a reduction behind it must be 1 and 0; got {p.last.scalars}"
    dims = tuple(n if i == axis else 1 for i, n in enumerate(lead.dims))
    for tensor in filter(None, _made(p)):
        if tensor.dims != dims:
            yield f"sums behind it must be of columns, of dims {dims}; got {tensor.dims}"
            return
    if not lead.count:
        yield f"what is added up behind it must have elements; got dims {lead.dims}"


def reasons(p, g, axis: int, dev):
    """Refusals of the last node, and of rows of sums that nothing adds."""
    wrong = list(refusals(p, g, axis))
    yield from wrong
    for inner in () if wrong else _inner(p, g, Pointer(Scratch(0))):
        yield from inner.reasons(dev)


def _inner(p, g, rows: Pointer) -> list:
    """The nested operations that add the rows, one for each tensor."""
    made, count, columns = _made(p), ceil_div(g.m, GROUP_ROWS), g.n * g.count
    found = []
    for moment, tensor in enumerate(made):
        if tensor is None:
            continue
        step = next((s for d, s in zip(tensor.dims, tensor.strides) if d > 1), 1)
        x = TensorDesc("f32", (count, columns), (len(made) * columns, 1))
        y = TensorDesc(tensor.dtype, (1, columns), (columns * step, step))
        offset = 4 * moment * columns
        parts = NestedOperand(x, rows + offset, 4 if offset % 16 else 16)
        found.append(NestedOp(Reduction(mode="add"), ADDERS, x=parts,
                           y=NestedOperand(y, Pointer(tensor.uid), tensor.alignment)))
    return found


def us(p, g, dev) -> float:
    """Estimated microseconds of the sums behind a product."""
    adding = [inner.choice(dev)[0] for inner in _inner(p, g, Pointer(Scratch(0)))]
    return SUMS_US + sum(adding)


def launches(p, g, dev, name: str, args: dict, extra: dict, fuse) -> list:
    """The product, of whose arguments the kernel takes those that it knows, and what adds its sums."""
    moments = len(p.last.op.writes)
    rows = p.scratch(4 * ceil_div(g.m, GROUP_ROWS) * moments * g.n * g.count)
    known = {param["name"] for param in kernels.get(name).row["params"]}
    args = {key: value for key, value in (args | dict(sums=rows, moments=moments)).items() if key in known}
    return [Launch(name, args, extra, fuse), *(s for inner in _inner(p, g, rows) for s in inner.steps(dev))]

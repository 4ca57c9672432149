"""Tensor descriptors: data type, dims, strides, vector. Nothing of graphs.

Dims are in the logical order n, c, spatial… (k, c/groups, spatial… for filters)
whatever the memory layout; strides are in elements.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from .dtypes import DType, dtype as to_dtype
from .given import instance, shown, whole, wholes
from .status import BadParam

LAYOUTS = ("nchw", "nhwc")
MOST = 2 ** 63 - 1                              # a dim or a stride


@dataclass(frozen=True)
class TensorDesc:
    """Type, dims and strides of a tensor. Spec: graph API, Tensor Descriptor.

    ``vector`` neighbours in dim 1 may be stored as one unit (INT8x4, INT8x32);
    then dims and strides count units.
    """
    dtype: DType
    dims: tuple
    strides: tuple
    vector: int = 1

    def __post_init__(self):
        set_ = object.__setattr__
        dims, strides = wholes("tensor: dims", self.dims), wholes("tensor: strides", self.strides)
        set_(self, "dtype", to_dtype(self.dtype))
        set_(self, "dims", dims)
        set_(self, "strides", strides)
        if len(dims) != len(strides):
            raise BadParam(f"tensor: strides must have as many entries as dims; got dims "
                           f"{shown(dims)}, strides {shown(strides)}")
        if len(dims) > 8:
            raise BadParam(f"tensor: rank must be at most 8; got {len(dims)}")
        if dims and min(dims) < 0:
            raise BadParam(f"tensor: dims must be >= 0; got {shown(dims)}")
        if dims and min(strides) < 0:
            raise BadParam(f"tensor: strides must be >= 0; got {shown(strides)}")
        if dims and max(*dims, *strides) > MOST:
            raise BadParam(f"tensor: dims and strides must be below 2**63; got {shown(dims)}, "
                           f"{shown(strides)}")
        if type(self.vector) is not int:
            set_(self, "vector", whole("tensor: vector", self.vector))
        if not 1 <= self.vector <= MOST:
            raise BadParam(f"tensor: vector must be >= 1; got {shown(self.vector)}")

    @classmethod
    def packed(cls, dtype, dims, layout="nchw") -> "TensorDesc":
        """A gapless tensor; ``layout`` "nchw" is row-major, "nhwc" has dim 1 innermost,
        or dims, outermost first."""
        dims = wholes("tensor: dims", dims)
        return cls(dtype, dims, packed_strides(dims, known_layout(len(dims), layout)))

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def n(self) -> int:
        return self.dims[0]

    @property
    def c(self) -> int:
        return self.dims[1]

    @property
    def spatial(self) -> tuple:
        return self.dims[2:]

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @property
    def extent(self) -> int:
        """Elements from the first to the last address, inclusive; 0 for an empty tensor."""
        return 1 + sum((d - 1) * s for d, s in zip(self.dims, self.strides)) if self.count else 0

    @property
    def bytes(self) -> int:
        """Bytes from the first to the last address, inclusive."""
        return self.dtype.bytes_of(self.extent * self.vector)

    @property
    def is_overlapping(self) -> bool:
        """Two indices may reach one address (a sufficient test on the sorted strides); never of none."""
        if 0 in self.dims:
            return False
        reach = 0
        for stride, dim in sorted([(s, d) for s, d in zip(self.strides, self.dims) if d > 1]):
            if stride <= reach:
                return True
            reach += stride * (dim - 1)
        return False

    def is_packed(self, layout="nchw") -> bool:
        """No gaps and in this layout; strides of dims of size 1 do not matter."""
        packed = packed_strides(self.dims, known_layout(self.rank, layout))
        return all(d == 1 or s == p for d, s, p in zip(self.dims, self.strides, packed))

    @property
    def is_dense(self) -> bool:
        """Packed in some order: extent equals count, without overlap."""
        return self.extent == self.count and not self.is_overlapping

    @property
    def layout(self) -> str | None:
        """ "nhwc", "nchw" or None. A tensor that is both (c or all spatial dims 1) says "nchw"."""
        return next((name for name in LAYOUTS if self.is_packed(name)), None)

    def same_layout(self, other: "TensorDesc") -> bool:
        """Equal dims and equal strides wherever they matter."""
        if self.dims != instance("tensor: other", other, TensorDesc).dims:
            return False
        return all(d == 1 or s == t for d, s, t in zip(self.dims, self.strides, other.strides))

    def like(self, *dims, dtype=None) -> "TensorDesc":
        """A packed descriptor of other dims, same type, strides in the same order as this tensor's."""
        dims = wholes("tensor: dims", dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
        order = stride_order(self) if len(dims) == self.rank else "nchw"
        return TensorDesc.packed(self.dtype if dtype is None else dtype, dims, order)

    def replace(self, **facts) -> "TensorDesc":
        return replace(self, **facts)

    def __str__(self):
        layout = self.layout or "strides=" + ",".join(map(str, self.strides))
        vector = f"x{self.vector}" if self.vector > 1 else ""
        return f"{'x'.join(map(str, self.dims))}:{self.dtype}{vector}:{layout}"


def common_period(a: TensorDesc, b: TensorDesc) -> tuple[int, int, int] | None:
    """(period, run of a, run of b) in bytes: from its address on, each tensor lies in the first ``run`` bytes
    of every ``period`` bytes.

    Two slices of the channels of one NHWC buffer have the pixel as their period: they share a range of
    addresses and no byte. None when there is no period that both have and that has room for both.
    """
    return shared_period(runs_of(a), runs_of(b))


def shared_period(a: dict, b: dict) -> tuple[int, int, int] | None:
    """``common_period`` of tensors of which ``runs_of`` is known."""
    both = ((period, run, b[period]) for period, run in a.items() if period in b)
    return next((found for found in both if found[1] + found[2] <= found[0]), None)


def runs_of(d: TensorDesc) -> dict:
    """{period: run} of a tensor, in bytes: strides that all outer strides are multiples of,
    and the reach of the dims inside."""
    steps, reach, found = sorted([(s, n) for s, n in zip(d.strides, d.dims) if n > 1]), 1, {}
    for i, (stride, size) in enumerate(steps):
        if stride >= reach and not any([outer % stride for outer, _ in steps[i:]]):
            found[d.dtype.bytes_of(stride)] = d.dtype.bytes_of(reach)
        reach += (size - 1) * stride
    return found


def known_layout(rank: int, layout):
    """A layout as ``packed_strides`` takes it. Raises BadParam for one that is none."""
    if isinstance(layout, str) and layout in LAYOUTS:
        return layout
    order = () if isinstance(layout, str) else wholes("tensor: layout", layout)
    if isinstance(layout, str) or sorted(order) != list(range(rank)):
        raise BadParam(f"tensor: layout must be one of {' '.join(LAYOUTS)}, or the numbers of {rank} dims, "
                       f"outermost first; got {shown(layout)}")
    return order


def packed_strides(dims, layout="nchw") -> tuple:
    """Strides of a gapless tensor; a layout is "nchw", "nhwc", or dim numbers from outermost to innermost.
    Raises BadParam for dims that no tensor has."""
    rank = len(dims)
    if layout == "nchw":
        order = range(rank)
    elif layout == "nhwc":
        order = [0, *range(2, rank), 1] if rank > 2 else range(rank)
    else:
        order = layout
    strides, step = [0] * rank, 1
    for axis in reversed(list(order)):
        strides[axis] = step
        step *= max(dims[axis], 1)
    if step > MOST:
        raise BadParam(f"tensor: dims must be those of fewer than 2**63 elements; got {shown(tuple(dims))}")
    return tuple(strides)


def stride_order(desc: TensorDesc) -> tuple:
    """Dim numbers from outermost to innermost;
    dims of size 1 take the place that a channels-last or row-major tensor gives them."""
    if desc.rank > 2 and desc.is_packed("nhwc") and not desc.is_packed("nchw"):
        return (0, *range(2, desc.rank), 1)
    return tuple(sorted(range(desc.rank), key=lambda i: (-desc.strides[i], i)))


def collapse(*descs: TensorDesc) -> tuple[tuple, list[tuple]]:
    """Merge dims for an elementwise kernel:
    ``(dims, [strides of each tensor])``, innermost first, at least one dim.

    Tensors broadcast: a dim of 1 beside a larger one gets stride 0. Dims are sorted by the
    strides of the *last* tensor (the output), dims of size 1 are dropped, neighbours that are
    contiguous in every tensor are merged.
    """
    dims = [max(column) if 0 not in column else 0 for column in zip(*(d.dims for d in descs))]
    strides = [[0 if d.dims[i] == 1 else d.strides[i] for i in range(len(dims))] for d in descs]
    axes = sorted((i for i, d in enumerate(dims) if d != 1), key=lambda i: [s[i] for s in reversed(strides)])
    out_dims, out = [], [[] for _ in descs]
    for axis in axes:
        column = [s[axis] for s in strides]
        if out_dims and all(c == o[-1] * out_dims[-1] for c, o in zip(column, out)):
            out_dims[-1] *= dims[axis]
            continue
        out_dims.append(dims[axis])
        for o, c in zip(out, column):
            o.append(c)
    if not out_dims:
        out_dims, out = [1], [[0] for _ in descs]
    return tuple(out_dims), [tuple(o) for o in out]

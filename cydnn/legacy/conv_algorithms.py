"""Which convolution algorithm takes what: the support tables of the v5 guide, enforced exactly.
Spec: legacy API, 3.6 to 3.9.

An algorithm is a contract (layouts, limits, workspace, determinism) and the engines that declare it
(``Engine.v5``); the cheapest of them computes a call. In each table the first algorithms are preferred at
equal cost. DIRECT has no row, as the guide never lists it: it is refused always. Depthwise engines declare
none, as v5 has no groups; graphs reach them, and wishes name them. Beyond v5: BFLOAT16 beside HALF with FLOAT
math, and NHWC filters also for IMPLICIT_PRECOMP_GEMM.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ..engines import engines_for
from ..ops import ConvDgrad, ConvFprop, ConvWgrad
from ..tensor import TensorDesc
from .enums import BWD_DATA_ALGO, BWD_FILTER_ALGO, FWD_ALGO, Enum

CONFIGS = {("f16", "f16"): "TRUE_HALF", ("f16", "f32"): "PSEUDO_HALF", ("bf16", "f32"): "PSEUDO_BFLOAT16",
           ("f32", "f32"): "FLOAT", ("f64", "f64"): "DOUBLE"}  # (data, math): name
NHWC_FILTER = "PSEUDO_HALF PSEUDO_BFLOAT16 FLOAT"
NO_DOUBLE = NHWC_FILTER
MIXED = NO_DOUBLE + " DOUBLE"
EVERY = "TRUE_HALF " + MIXED


@dataclass(frozen=True)
class ConvShapes:
    """Shapes that the conditions look at: the image, the filter and the output side of the forward
    convolution, and its parameters."""
    image: TensorDesc
    filter: TensorDesc
    output: TensorDesc
    pad: tuple
    stride: tuple
    filter_format: str
    config: str


def _packed_from(d: TensorDesc, axis: int) -> bool:
    """The dims from ``axis`` on are row-major without gaps, the others leave room."""
    want = d.packed(d.dtype, d.dims).strides
    return (all(n == 1 or s == w for n, s, w in list(zip(d.dims, d.strides, want))[axis:])
            and not d.is_overlapping)


def _packed_nhwc(d: TensorDesc) -> bool:
    """h, w, c are packed in this order; the stride of the images is free."""
    one = TensorDesc(d.dtype, (1, *d.dims[1:]), d.strides)
    return one.is_packed("nhwc") and not d.is_overlapping


LAYOUTS = {                                 # name in the tables: (predicate, wording for rank 4, for rank 5)
    "all": (lambda d: True, "", ""),
    "spatial": (lambda d: _packed_from(d, 2), "NCHW HW-packed", "NCDHW DHW-packed"),
    "image": (lambda d: _packed_from(d, 1), "NCHW CHW-packed", "NCDHW CDHW-packed"),
    "full": (lambda d: d.is_packed("nchw"), "NCHW fully packed", "NCDHW fully packed"),
}

CONDITIONS = {                                   # name in the tables: (predicate, sentence)
    "unit_stride": (lambda g: set(g.stride) == {1}, lambda g: f"strides must be 1; got {g.stride}"),
    "filter_3": (lambda g: set(g.filter.spatial) == {3},
                 lambda g: f"the filter must be 3x3; got {g.filter.spatial}"),
    "filter_16": (lambda g: max(g.filter.spatial) <= 16,
                  lambda g: f"the filter must be <= 16 in every dim; got {g.filter.spatial}"),
    "filter_32": (lambda g: max(g.filter.spatial) <= 32,
                  lambda g: f"the filter must be <= 32 in every dim; got {g.filter.spatial}"),
    "filter_above_pad": (lambda g: all(f > p for f, p in zip(g.filter.spatial, g.pad)),
                         lambda g: "the filter must be larger than the padding in every dim; "
                                   f"got {g.filter.spatial}, padding {g.pad}"),
    "padded_256": (lambda g: max(i + 2 * p for i, p in zip(g.image.spatial, g.pad)) <= 256, lambda g:
                   f"the padded image must be <= 256 in every dim; got {g.image.spatial}, padding {g.pad}"),
}


@dataclass(frozen=True)
class AlgorithmRow:
    """One algorithm at one rank: layouts of the two data tensors in the order of the arguments,
    configurations, conditions.

    ``workspace`` "none": the caller gives none; where every engine needs some, the handle lends it.
    ``deterministic``: what v5 says.
    """
    algo: str
    rank: int
    first: str
    second: str
    configs: str = MIXED
    conditions: str = ""
    workspace: str = "any"
    deterministic: bool = True
    takes_nhwc_filter: bool = False

    def refuse(self, g: ConvShapes, names: dict):
        """Yield the reasons not to do it; ``names`` is {argument: tensor} of the two data tensors."""
        if g.config not in self.configs.split():
            yield f"takes the configurations {self.configs}; got {g.config}"
        layouts = dict(zip(names, (self.first, self.second)))
        if g.filter_format == "nhwc":
            yield from self._refuse_nhwc(g, names)
            layouts = {}
        for name, layout in layouts.items():
            predicate, *wording = LAYOUTS[layout]
            if not predicate(names[name]):
                yield (f"takes {name} {wording[self.rank - 4]}; "
                       f"got dims {names[name].dims}, strides {names[name].strides}")
        for condition in self.conditions.split():
            predicate, sentence = CONDITIONS[condition]
            if not predicate(g):
                yield sentence(g)

    def _refuse_nhwc(self, g: ConvShapes, names: dict):
        if not self.takes_nhwc_filter or self.rank != 4:
            yield "takes no NHWC filter"
        if g.config not in NHWC_FILTER.split():
            yield f"takes an NHWC filter with the configurations {NHWC_FILTER}; got {g.config}"
        for name, d in names.items():
            if not _packed_nhwc(d):
                yield (f"takes an NHWC filter with {name} NHWC HWC-packed; "
                       f"got dims {d.dims}, strides {d.strides}")


_FFT = "unit_stride filter_above_pad padded_256"
_TILE = "unit_stride filter_above_pad filter_32"
_TILE_3D = "unit_stride filter_above_pad filter_16"
_WINOGRAD = "unit_stride filter_3"

FORWARD = (                                      # first = x, second = y
    AlgorithmRow("IMPLICIT_PRECOMP_GEMM", 4, "all", "all", EVERY, takes_nhwc_filter=True),
    AlgorithmRow("IMPLICIT_GEMM", 4, "all", "all", workspace="none", takes_nhwc_filter=True),
    AlgorithmRow("GEMM", 4, "all", "all"),
    AlgorithmRow("WINOGRAD", 4, "all", "all", NO_DOUBLE, _WINOGRAD),
    AlgorithmRow("FFT", 4, "spatial", "spatial", NO_DOUBLE, _FFT),
    AlgorithmRow("FFT_TILING", 4, "spatial", "spatial", NO_DOUBLE, _TILE),
    AlgorithmRow("IMPLICIT_PRECOMP_GEMM", 5, "full", "full"),
    AlgorithmRow("IMPLICIT_GEMM", 5, "all", "all", workspace="none"),
    AlgorithmRow("FFT_TILING", 5, "spatial", "spatial", MIXED, _TILE_3D),
)
BACKWARD_FILTER = (                              # first = x, second = dy
    AlgorithmRow("ALGO_1", 4, "all", "image", takes_nhwc_filter=True),
    AlgorithmRow("ALGO_0", 4, "all", "image", workspace="none", deterministic=False, takes_nhwc_filter=True),
    AlgorithmRow("ALGO_3", 4, "all", "image", deterministic=False),
    AlgorithmRow("ALGO_FFT", 4, "image", "image", NO_DOUBLE, _FFT),
    AlgorithmRow("ALGO_3", 5, "full", "full", deterministic=False),
    AlgorithmRow("ALGO_0", 5, "all", "image", workspace="none", deterministic=False),
)
BACKWARD_DATA = (                                # first = dy, second = dx
    AlgorithmRow("ALGO_1", 4, "image", "all", takes_nhwc_filter=True),
    AlgorithmRow("ALGO_0", 4, "image", "all", workspace="none", deterministic=False),
    AlgorithmRow("ALGO_WINOGRAD", 4, "image", "all", NO_DOUBLE, _WINOGRAD),
    AlgorithmRow("ALGO_FFT", 4, "image", "spatial", NO_DOUBLE, _FFT),
    AlgorithmRow("ALGO_FFT_TILING", 4, "image", "spatial", NO_DOUBLE, _TILE),
    AlgorithmRow("ALGO_1", 5, "full", "full"),
    AlgorithmRow("ALGO_0", 5, "image", "all", workspace="none", deterministic=False),
    AlgorithmRow("ALGO_FFT_TILING", 5, "image", "spatial", MIXED, _TILE_3D),
)


@dataclass(frozen=True)
class AlgorithmTable:
    """The algorithms of one direction, which computes ``op``."""
    enum: Enum
    op: type
    rows: tuple
    by_key: dict = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "by_key", {(r.algo, r.rank): r for r in self.rows})

    def preferred(self, rank: int):
        """(number, row) of the algorithms that exist at this rank, the preferred first."""
        numbers = {word: number for number, word in self.enum}
        return [(numbers[r.algo], r) for r in self.rows if r.rank == rank]

    def serving(self, row: AlgorithmRow) -> tuple:
        """(engines, otherwise): indices of the engines that serve an algorithm, and of those that serve what
        none of them takes: the deterministic ones of an algorithm that need not be."""
        found = [e for e in engines_for(self.op) if row.algo in e.v5]
        alike = {e.index: ("deterministic" in e.notes) == row.deterministic for e in found}
        return tuple([i for i in alike if alike[i]]), tuple([i for i in alike if not alike[i]])


FORWARD_TABLE = AlgorithmTable(FWD_ALGO, ConvFprop, FORWARD)
BACKWARD_FILTER_TABLE = AlgorithmTable(BWD_FILTER_ALGO, ConvWgrad, BACKWARD_FILTER)
BACKWARD_DATA_TABLE = AlgorithmTable(BWD_DATA_ALGO, ConvDgrad, BACKWARD_DATA)

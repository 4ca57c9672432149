"""The support tables: every algorithm against every rule, asked through the workspace queries;
written out here from the guide's text. And who serves each algorithm."""
from dataclasses import dataclass, replace

import pytest

from cydnn import cudnn as c
from cydnn import engines
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.heuristics import Wish, best
from cydnn.legacy import conv_compute
from cydnn.legacy import conv_algorithms as tables
from cydnn.ops import Problem
from cydnn.status import NotSupported
from support.guard.mirror import Mirror

from .arrays import BFLOAT16, DOUBLE, FLOAT, HALF, NHWC, NCHW, conv_desc, filter_desc, tensor_desc

MIXED = {(HALF, FLOAT), (BFLOAT16, FLOAT), (FLOAT, FLOAT), (DOUBLE, DOUBLE)}
CONFIGS = MIXED | {(HALF, HALF)}
UNLISTED = {(FLOAT, HALF), (FLOAT, DOUBLE), (DOUBLE, FLOAT), (HALF, DOUBLE),
            (BFLOAT16, BFLOAT16), (FLOAT, BFLOAT16)}


@dataclass(frozen=True)
class Setup:
    """A convolution: sizes, layouts ("packed", "gap in w", h, c or n, "permuted" with n the closest and c the
    farthest, "nhwc") and types; all three directions use it."""
    spatial: tuple = (9, 8)
    filter: tuple = (3, 3)
    pad: tuple = (1, 1)
    stride: tuple = (1, 1)
    data: int = FLOAT
    math: int = FLOAT
    image_layout: str = "packed"
    output_layout: str = "packed"
    filter_format: int = NCHW

    @property
    def rank(self):
        return len(self.spatial) + 2

    def query(self, direction, handle, algo):
        image = self.tensor((2, 3, *self.spatial), self.image_layout)
        out = tuple((i + 2 * p - f) // s + 1
                    for i, f, p, s in zip(self.spatial, self.filter, self.pad, self.stride))
        output = self.tensor((2, 4, *out), self.output_layout)
        w = filter_desc(4, 3, *self.filter, dtype=self.data, format=self.filter_format)
        conv = conv_desc(self.pad, self.stride, compute=self.math)
        order = {"forward": (image, w, conv, output), "filter": (image, output, conv, w),
                 "data": (w, output, conv, image)}[direction]
        return DIRECTIONS[direction][0](handle, *order, algo)

    def tensor(self, dims, layout):
        if layout == "nhwc":
            return tensor_desc(*dims, dtype=self.data, layout="nhwc")
        strides, step = [0] * len(dims), 1
        gap = {"gap in w": len(dims) - 1, "gap in h": len(dims) - 2, "gap in c": 1, "gap in n": 0}.get(layout)
        order = [0, *range(2, len(dims)), 1] if layout == "permuted" else range(len(dims))[::-1]
        for axis in order:
            step *= 2 if axis == gap else 1
            strides[axis] = step
            step *= dims[axis]
        return tensor_desc(*dims, dtype=self.data, strides=strides)


DIRECTIONS = {
    "forward": (c.getConvolutionForwardWorkspaceSize, "CUDNN_CONVOLUTION_FWD_ALGO_",
                "IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM GEMM DIRECT FFT FFT_TILING WINOGRAD"),
    "filter": (c.getConvolutionBackwardFilterWorkspaceSize, "CUDNN_CONVOLUTION_BWD_FILTER_",
               "ALGO_0 ALGO_1 ALGO_FFT ALGO_3"),
    "data": (c.getConvolutionBackwardDataWorkspaceSize, "CUDNN_CONVOLUTION_BWD_DATA_",
             "ALGO_0 ALGO_1 ALGO_FFT ALGO_FFT_TILING ALGO_WINOGRAD"),
}
D2, D3 = Setup(), Setup(spatial=(6, 7, 8), filter=(3, 3, 3), pad=(1, 1, 1), stride=(1, 1, 1))
BASE_2D = {"forward": "IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM GEMM FFT FFT_TILING WINOGRAD",
           "filter": "ALGO_0 ALGO_1 ALGO_FFT ALGO_3",
           "data": "ALGO_0 ALGO_1 ALGO_FFT ALGO_FFT_TILING ALGO_WINOGRAD"}
GEMMS = {"forward": "IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM GEMM", "filter": "ALGO_0 ALGO_1 ALGO_3",
         "data": "ALGO_0 ALGO_1"}
BASE_3D = {"forward": "IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM FFT_TILING", "filter": "ALGO_0 ALGO_3",
           "data": "ALGO_0 ALGO_1 ALGO_FFT_TILING"}
NONE = dict.fromkeys(BASE_2D, "")


def both(**directions):
    return {**NONE, **directions}


ROWS = [                                         # what, setup, the algorithms that take it in each direction
    ("2-d", D2, BASE_2D),
    ("3-d", D3, BASE_3D),
    *((f"2-d {data}/{math}", replace(D2, data=data, math=math), BASE_2D)
      for data, math in ((HALF, FLOAT), (BFLOAT16, FLOAT))),
    ("2-d DOUBLE", replace(D2, data=DOUBLE, math=DOUBLE), GEMMS),
    ("2-d TRUE_HALF", replace(D2, data=HALF, math=HALF), both(forward="IMPLICIT_PRECOMP_GEMM")),
    ("3-d DOUBLE", replace(D3, data=DOUBLE, math=DOUBLE), BASE_3D),
    ("3-d HALF", replace(D3, data=HALF), BASE_3D),
    ("3-d TRUE_HALF", replace(D3, data=HALF, math=HALF), NONE),
    *((f"unlisted {data}/{math}", replace(D2, data=data, math=math), NONE)
      for data, math in sorted(UNLISTED)),
    ("2-d stride 2", replace(D2, stride=(2, 1)), GEMMS),
    ("3-d stride 2", replace(D3, stride=(1, 1, 2)),
     both(forward="IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM", filter="ALGO_0 ALGO_3", data="ALGO_0 ALGO_1")),
    ("2-d filter 5", replace(D2, filter=(5, 5)),
     both(forward=BASE_2D["forward"].replace(" WINOGRAD", ""), filter=BASE_2D["filter"],
          data=BASE_2D["data"].replace(" ALGO_WINOGRAD", ""))),
    ("2-d filter 33", replace(D2, spatial=(40, 9), filter=(33, 3)),
     both(forward=GEMMS["forward"] + " FFT", filter=BASE_2D["filter"], data="ALGO_0 ALGO_1 ALGO_FFT")),
    ("2-d filter 32", replace(D2, spatial=(40, 9), filter=(32, 3)),
     both(forward=GEMMS["forward"] + " FFT FFT_TILING", filter=BASE_2D["filter"],
          data="ALGO_0 ALGO_1 ALGO_FFT ALGO_FFT_TILING")),
    ("3-d filter 17", replace(D3, spatial=(6, 7, 20), filter=(3, 3, 17)),
     both(forward="IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM", filter="ALGO_0 ALGO_3", data="ALGO_0 ALGO_1")),
    ("3-d filter 16", replace(D3, spatial=(6, 7, 20), filter=(3, 3, 16)), BASE_3D),
    ("filter equals padding", replace(D2, pad=(1, 3)),
     both(forward=GEMMS["forward"] + " WINOGRAD", filter=GEMMS["filter"],
          data="ALGO_0 ALGO_1 ALGO_WINOGRAD")),
    ("padded 257", replace(D2, spatial=(255, 9)),
     both(forward=BASE_2D["forward"].replace(" FFT ", " "), filter=GEMMS["filter"],
          data="ALGO_0 ALGO_1 ALGO_FFT_TILING ALGO_WINOGRAD")),
    ("padded 256", replace(D2, spatial=(254, 9)), BASE_2D),
    *((f"image with a {layout}", replace(D2, image_layout=layout),
       both(forward=GEMMS["forward"] + " WINOGRAD", filter=GEMMS["filter"],
            data="ALGO_0 ALGO_1 ALGO_WINOGRAD")) for layout in ("gap in w", "gap in h", "permuted")),
    ("image with a gap in c", replace(D2, image_layout="gap in c"),
     both(forward=BASE_2D["forward"], filter=GEMMS["filter"], data=BASE_2D["data"])),
    ("image with a gap in n", replace(D2, image_layout="gap in n"), BASE_2D),
    ("image nhwc", replace(D2, image_layout="nhwc"),
     both(forward=GEMMS["forward"] + " WINOGRAD", filter=GEMMS["filter"],
          data="ALGO_0 ALGO_1 ALGO_WINOGRAD")),
    *((f"output with a {layout}", replace(D2, output_layout=layout),
       both(forward=GEMMS["forward"] + " WINOGRAD")) for layout in ("gap in w", "gap in h", "permuted")),
    ("output with a gap in c", replace(D2, output_layout="gap in c"), both(forward=BASE_2D["forward"])),
    ("output with a gap in n", replace(D2, output_layout="gap in n"), BASE_2D),
    ("output nhwc", replace(D2, output_layout="nhwc"), both(forward=GEMMS["forward"] + " WINOGRAD")),
    ("3-d image with a gap in n", replace(D3, image_layout="gap in n"),
     both(forward="IMPLICIT_GEMM FFT_TILING", filter="ALGO_0", data="ALGO_0 ALGO_FFT_TILING")),
    *((f"3-d image with a {layout}", replace(D3, image_layout=layout),
       both(forward="IMPLICIT_GEMM", filter="ALGO_0", data="ALGO_0"))
      for layout in ("gap in w", "gap in h", "permuted")),
    *((f"3-d output with a {layout}", replace(D3, output_layout=layout), both(forward="IMPLICIT_GEMM"))
      for layout in ("gap in w", "gap in h", "permuted")),
    ("3-d output with a gap in n", replace(D3, output_layout="gap in n"),
     both(forward="IMPLICIT_GEMM FFT_TILING", filter="ALGO_0", data="ALGO_0 ALGO_FFT_TILING")),
    ("3-d output with a gap in c", replace(D3, output_layout="gap in c"),
     both(forward="IMPLICIT_GEMM FFT_TILING")),
    *((f"nhwc filter {data}", replace(D2, data=data, math=math, image_layout="nhwc", output_layout="nhwc",
                                      filter_format=NHWC), takes)
      for data, math, takes in (
          (FLOAT, FLOAT,
           both(forward="IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM", filter="ALGO_0 ALGO_1", data="ALGO_1")),
          (HALF, FLOAT,
           both(forward="IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM", filter="ALGO_0 ALGO_1", data="ALGO_1")),
          (BFLOAT16, FLOAT,
           both(forward="IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM", filter="ALGO_0 ALGO_1", data="ALGO_1")),
          (HALF, HALF, NONE), (DOUBLE, DOUBLE, NONE))),
    ("nhwc filter, nchw image", replace(D2, output_layout="nhwc", filter_format=NHWC), NONE),
    ("nhwc filter, nchw output", replace(D2, image_layout="nhwc", filter_format=NHWC), NONE),
    ("nhwc filter 3-d", replace(D3, image_layout="nhwc", output_layout="nhwc", filter_format=NHWC), NONE),
]


def of_type(setup, takes, data, math):
    """What is left of the algorithms that take FLOAT: the column "configs"."""
    if data == math == HALF:
        return {d: "IMPLICIT_PRECOMP_GEMM" if setup.rank == 4 and "PRECOMP" in a else ""
                for d, a in takes.items()}
    lost = "FFT FFT_TILING WINOGRAD ALGO_FFT ALGO_FFT_TILING ALGO_WINOGRAD" if data == DOUBLE else ""
    return {d: " ".join(a for a in algos.split() if setup.rank == 5 or a not in lost.split())
            for d, algos in takes.items()}


TYPED = [(f"{what}, {data}/{math}", replace(s, data=data, math=math), of_type(s, takes, data, math))
         for what, s, takes in ROWS if s.data == s.math == FLOAT and s.filter_format == NCHW
         for data, math in sorted(CONFIGS - {(FLOAT, FLOAT)})]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("setup, takes", [pytest.param(s, t, id=what) for what, s, t in ROWS + TYPED])
def test_support(handle, refused, direction, setup, takes):
    query, prefix, names = DIRECTIONS[direction]
    assert set(takes[direction].split()) <= set(names.split())
    for name in names.split():
        number = getattr(c, prefix + name)
        if name not in takes[direction].split():
            refused(setup.query, NotSupported, f"algo {name} (cannot: |does not exist )|data and math type",
                    direction, handle, number)
        else:
            assert setup.query(direction, handle, number) >= 0, name


@pytest.mark.parametrize("table", [tables.FORWARD_TABLE, tables.BACKWARD_FILTER_TABLE,
                                   tables.BACKWARD_DATA_TABLE], ids=lambda t: t.enum.name)
def test_the_tables_are_well_formed(table):
    words = {word for _, word in table.enum}
    for row in table.rows:
        assert row.algo in words and {row.first, row.second} <= set(tables.LAYOUTS)
        assert (set(row.conditions.split()) <= set(tables.CONDITIONS)
                and set(row.configs.split()) <= set(tables.CONFIGS.values()))
    assert len(table.by_key) == len(table.rows)


TABLES = {"forward": tables.FORWARD_TABLE, "filter": tables.BACKWARD_FILTER_TABLE,
          "data": tables.BACKWARD_DATA_TABLE}


@pytest.mark.parametrize("direction", TABLES)
def test_every_algorithm_is_served(direction):
    """Those that serve what the others do not take are deterministic."""
    table = TABLES[direction]
    for row in table.rows:
        serving, otherwise = ([engines.BY_INDEX[i] for i in indices] for indices in table.serving(row))
        assert serving, row.algo
        assert all("deterministic" in engine.notes for engine in otherwise), row.algo


def test_every_convolution_engine_serves_an_algorithm():
    """But those for groups of few channels, or with operations in front, which v5 does not have."""
    algorithms = {table.op: {row.algo for row in table.rows} for table in TABLES.values()}
    declared = {engine.index: set(engine.v5) for engine in engines.TABLE if engine.op in algorithms}
    without = {index for index, words in declared.items() if not words}
    assert without == {103, 104, 107, 108, 121, 122, 125, 128, 141, 142, 145, 148, 153, 156, 160, 161, 162}
    assert all(set(engine.v5) <= algorithms.get(engine.op, set()) for engine in engines.TABLE)


def test_a_refusal_names_the_rule(handle, refused):
    query = c.getConvolutionForwardWorkspaceSize
    one = lambda setup, algo, words: refused(setup.query, NotSupported, words, "forward", handle, algo)
    one(D2, c.CUDNN_CONVOLUTION_FWD_ALGO_DIRECT,
        "cudnnGetConvolutionForwardWorkspaceSize: algo DIRECT does not exist for rank 4")
    one(replace(D2, stride=(2, 2)), c.CUDNN_CONVOLUTION_FWD_ALGO_FFT,
        r"algo FFT cannot: strides must be 1; got \(2, 2\)")
    one(replace(D2, filter=(5, 5)), c.CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
        r"the filter must be 3x3; got \(5, 5\)")
    one(replace(D2, image_layout="nhwc"), c.CUDNN_CONVOLUTION_FWD_ALGO_FFT,
        "takes xDesc NCHW HW-packed; got dims")
    one(replace(D2, data=DOUBLE, math=DOUBLE), c.CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
        "takes the configurations PSEUDO_HALF .*; got DOUBLE")
    assert query is not None


# -- What serves them ----------------------------------------------------------------------------------------

DEVICES = {"ptx:sm_80": get("ptx:sm_80").facts, "h200": KNOWN["h200"]}
CALLS = {"forward": conv_compute.FORWARD, "filter": conv_compute.BACKWARD_FILTER,
         "data": conv_compute.BACKWARD_DATA}


def choices(direction, facts, descs):
    """{algorithm: the choice that serves it} of those that can."""
    found, call = {}, CALLS[direction]
    for number, word in TABLES[direction].enum:
        try:
            work = call.work((*descs[:3], number, descs[3]))
        except NotSupported:
            continue
        found[word] = call.choice(work, facts)
    return found


def problem(direction, layout, format, dtype=HALF, n=8, c=64, k=128, size=28):
    image, output = (tensor_desc(n, channels, size, size, dtype=dtype, layout=layout) for channels in (c, k))
    w, conv = filter_desc(k, c, 3, 3, dtype=dtype, format=format), conv_desc((1, 1))
    return {"forward": (image, w, conv, output), "filter": (image, output, conv, w),
            "data": (w, output, conv, image)}[direction]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("direction, layout, format, algorithms", [
    ("forward", "nhwc", NCHW, "IMPLICIT_GEMM=109 IMPLICIT_PRECOMP_GEMM=110/117 GEMM=102 WINOGRAD=115"),
    ("forward", "nhwc", NHWC, "IMPLICIT_GEMM=109 IMPLICIT_PRECOMP_GEMM=110/117"),
    ("forward", "nchw", NCHW, "IMPLICIT_GEMM=109 IMPLICIT_PRECOMP_GEMM=106 GEMM=102 WINOGRAD=115 FFT=112 "
                              "FFT_TILING=113"),
    ("filter", "nhwc", NHWC, "ALGO_0=154 ALGO_1=150/157"),
    ("filter", "nchw", NCHW, "ALGO_0=154 ALGO_1=144 ALGO_3=155 ALGO_FFT=152"),
    ("data", "nhwc", NHWC, "ALGO_1=130/137"),
    ("data", "nchw", NCHW, "ALGO_0=136 ALGO_1=124 ALGO_WINOGRAD=135 ALGO_FFT=132 ALGO_FFT_TILING=133")])
def test_algorithms_differ_in_what_runs(device, direction, layout, format, algorithms):
    """f16 on tensor cores where the row names them, on CUDA cores where it does not. ``110/117``: on sm_80
    and on the H200."""
    found = choices(direction, DEVICES[device], problem(direction, layout, format, n=32))
    pairs = [pair.replace("/", "=").split("=") for pair in algorithms.split()]
    assert {word: choice.engine.index for word, choice in found.items()} == {
        pair[0]: int(pair[-1 if device == "h200" else 1]) for pair in pairs}
    assert len(set(found.values())) == len({choice.engine for choice in found.values()})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("direction", TABLES)
def test_algorithms_differ_in_f32_too(device, direction):
    """There are no tensor cores to run on, and yet every algorithm is an engine of its own."""
    want = {"forward": dict(IMPLICIT_GEMM=109, IMPLICIT_PRECOMP_GEMM=116, GEMM=101, WINOGRAD=115,
                            FFT=112, FFT_TILING=113),
            "filter": dict(ALGO_0=154, ALGO_1=149, ALGO_3=155, ALGO_FFT=152),
            "data": dict(ALGO_0=136, ALGO_1=129, ALGO_WINOGRAD=135, ALGO_FFT=132,
                         ALGO_FFT_TILING=133)}[direction]
    found = choices(direction, DEVICES[device], problem(direction, "nchw", NCHW, FLOAT))
    assert want.items() <= {word: choice.engine.index for word, choice in found.items()}.items()


@pytest.mark.parametrize("target, facts", [("sm_80", None), ("sm_90", KNOWN["h200"])])
@pytest.mark.parametrize("dtype, measured", [(HALF, 4), (FLOAT, 4)])
def test_find_measures_every_plan_once(monkeypatch, target, facts, dtype, measured):
    """Algorithms share a time where one plan serves them, and only there."""
    times = iter(range(1, 8))
    monkeypatch.setattr(c.Handle, "milliseconds", lambda self, run: float(next(times)))
    handle = c.create(Mirror(target, facts))
    found = c.findConvolutionForwardAlgorithm(handle, *problem("forward", "nhwc", NCHW, dtype), 7)
    implicit, precomp = (next(p for p in found if p.algo == algo) for algo in (0, 1))
    assert [p.status for p in found] == [0, 0, 0, 0, 9, 9, 9] and next(times) == measured + 1
    assert implicit.time != precomp.time
    fastest = c.getConvolutionForwardAlgorithm(handle, *problem("forward", "nhwc", NCHW, dtype), 1, 0)
    assert fastest == (1 if dtype == HALF else 6)        # tensor cores; Winograd
    c.destroy(handle)


# -- Fourier transforms --------------------------------------------------------------------------------------

F3 = dict(spatial=(6, 7, 8), filter=(3, 2, 4), pad=(1, 0, 1), stride=(1, 1, 1))
TRANSFORMS = [("forward", "FFT", {}), ("forward", "FFT_TILING", {}), ("forward", "FFT_TILING", F3),
              ("filter", "ALGO_FFT", {}), ("data", "ALGO_FFT", {}), ("data", "ALGO_FFT_TILING", {}),
              ("data", "ALGO_FFT_TILING", F3)]


@pytest.fixture(scope="module")
def interpreter():
    handle = c.create(get("ptx:sm_80"))
    yield handle
    c.destroy(handle)


@pytest.mark.parametrize("data, math", [(FLOAT, FLOAT), (HALF, FLOAT), (BFLOAT16, FLOAT), (DOUBLE, DOUBLE)])
@pytest.mark.parametrize("direction, name, geometry", TRANSFORMS)
def test_transforms_need_a_workspace(interpreter, refused, direction, name, geometry, data, math):
    """DOUBLE is for the tiles of three dims alone."""
    number = getattr(c, DIRECTIONS[direction][1] + name)
    query = replace(D2, data=data, math=math, **geometry).query
    if data == DOUBLE and not geometry:
        refused(query, NotSupported, "takes the configurations PSEUDO_HALF .*; got DOUBLE",
                direction, interpreter, number)
    else:
        assert query(direction, interpreter, number) > 0


@pytest.mark.parametrize("change, words", [
    (dict(stride=(1, 2)), r"strides must be 1; got \(1, 2\)"),
    (dict(pad=(1, 3)), r"the filter must be larger than the padding in every dim; got \(3, 3\), padding "),
    (dict(output_layout="gap in w"), "takes .*Desc NCHW C?HW-packed; got dims"),
    (dict(data=HALF, math=HALF), "takes the configurations PSEUDO_HALF .*; got TRUE_HALF"),
])
@pytest.mark.parametrize("direction, name", [row[:2] for row in TRANSFORMS if not row[2]])
def test_what_transforms_refuse(interpreter, refused, direction, name, change, words):
    number, sentence = getattr(c, DIRECTIONS[direction][1] + name), f"algo {name} cannot: {words}"
    refused(replace(D2, **change).query, NotSupported, sentence, direction, interpreter, number)


@pytest.mark.parametrize("name, size, most", [("FFT", dict(spatial=(254, 5)), dict(spatial=(255, 5))),
                                              ("FFT_TILING", dict(filter=(3, 32), spatial=(7, 40)),
                                               dict(filter=(3, 33), spatial=(7, 40)))])
def test_how_far_transforms_reach(interpreter, refused, name, size, most):
    number = getattr(c, DIRECTIONS["forward"][1] + name)
    assert replace(D2, **size).query("forward", interpreter, number) > 0
    refused(replace(D2, **most).query, NotSupported, f"algo {name} cannot: ", "forward", interpreter, number)


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_workspaces_are_what_the_algorithms_keep_there(dtype):
    """Windows for GEMM, offsets for the precomputed ones, an f32 image where atomics add to 16 bits,
    transformed tiles for Winograd; IMPLICIT_GEMM and ALGO_0 are given none."""
    handle, size = c.create(Mirror("sm_90", KNOWN["h200"])), 2 if dtype == HALF else 4
    need = lambda direction, word: DIRECTIONS[direction][0](
        handle, *problem(direction, "nchw", NCHW, dtype),
        getattr(c, DIRECTIONS[direction][1] + word)) // 256 * 256
    up = lambda n: -(-n // 256) * 256
    assert need("forward", "IMPLICIT_GEMM") == need("filter", "ALGO_0") == need("data", "ALGO_0") == 0
    assert need("forward", "GEMM") >= 8 * 28 * 28 * 64 * 9 * size
    image = up(128 * 64 * 9 * 4) if dtype == HALF else 0
    assert need("filter", "ALGO_3") == up(20 * 28 * 28) + image
    assert need("forward", "WINOGRAD") == sum(up(36 * 4 * n) for n in (64 * 128, 392 * 64, 392 * 128))
    if dtype == FLOAT:
        assert need("forward", "IMPLICIT_PRECOMP_GEMM") == up(20 * 64 * 9)


@pytest.mark.parametrize("op, index", [("conv_fprop", 103), ("conv_dgrad", 121), ("conv_wgrad", 141)])
def test_the_direct_engines_are_for_graphs(op, index):
    graph = graph_of(Problem.parse(f"{op} n32c128h28w28 k128r3s3 groups=128 pad1 f16 nhwc"))
    for wish in (Wish(), Wish(engines=(index,))):
        assert best(graph, KNOWN["h200"], wish).engine.index == index

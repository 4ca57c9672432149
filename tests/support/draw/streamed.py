"""Problems that a kernel of Hopper's tile program takes by stream-K on four SMs, by its axes: a part of a
tile, of which the last block has nothing; ten tiles in two lanes, four of which are taken as a whole; five
that nobody shares in the end; two of two blocks each; and such as have several bands of tiles in each of two
matrices or groups. On eight SMs a tile that so many blocks have that each warp adds some of their parts."""
from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.engines.tile.cost import TILES
from cydnn.ops import Problem

from .cases import every_case
from .graphs import execute

SMS, MANY = 4, 8


def _matmul(m, n, depth, count, T, A_MAJOR, B_MAJOR, **_):
    a, b = f"{depth},1" if A_MAJOR == "ak" else f"1,{m}", f"1,{depth}" if B_MAJOR == "bk" else f"{n},1"
    if count > 1:
        a, b = f"{m * depth},{a}", f"{n * depth},{b}"
    many = f"{count}x" if count > 1 else ""
    return f"matmul a={many}{m}x{depth}@{a} b={many}{depth}x{n}@{b} c={many}{m}x{n} {T}"


def _unaligned(m, n, depth, count, T, A_MAJOR, B_MAJOR, **_):
    """Rows of a are apart and begin anywhere; those of b lie where TMA would take them."""
    a = f"{depth + 1},1" if A_MAJOR == "ak" else f"1,{m + 1}"
    b = f"1,{depth}" if B_MAJOR == "bk" else f"{n},1"
    if count > 1:
        a, b = f"{(m + 1) * (depth + 1)},{a}", f"{n * depth},{b}"
    many = f"{count}x" if count > 1 else ""
    return f"matmul a={many}{m}x{depth}:{T}@{a} b={many}{depth}x{n}:{T}@{b} c={many}{m}x{n}:{T}"


def conv(m, n, depth, count, T, W_MAJOR, **_):
    taps = {1: "r1s1", 2: "r2s1 pre_pad=1,0", 3: "r1s3 pad=0,1", 9: "r3s3 pad1"}
    deep, taps = (64, taps[depth // 64]) if depth // 64 in taps else (depth, taps[1])
    way, c, k = ("fprop", deep, n) if W_MAJOR == "bk" else ("dgrad", n, deep)
    return f"conv_{way} n1c{c * count}h{m // 16}w16 k{k * count}{taps} groups={count} {T} nhwc"


def _wgrad(m, n, depth, count, T, gap=0, **_):
    apart = f"dw={m * count}x{n}x1x1:{T}@{n + gap},1,1,1 " if gap else ""
    return f"conv_wgrad n1c{n * count}h{depth // 16}w16 k{m * count}r1s1 groups={count} {apart}{T} nhwc"


def _pieces(m, n, depth, count, T, **_):
    """A step of so many is of a piece of 8 channels."""
    return f"conv_fprop n1c{depth - 56}h{m // 16}w16 k{n}r1s1 {T} nhwc"


# of kernels whose sums may leave by TMA; one of them has tiles that nobody shares
TILED = {"matmul/matmul_wgmma.cu": _matmul, "conv/conv_wgmma.cu": conv, "conv/conv_wgrad_wgmma.cu": _wgrad,
         "conv/conv_wgmma_tall.cu": conv}
LINES = {source: TILED[source] for source in TILED if "tall" not in source}
LINES["matmul/matmul_wgmma_unaligned.cu"] = _unaligned
SOURCES = {**LINES, "conv/conv_wgmma_pieces.cu": _pieces}        # its depths have no order to look at


def names(source: str) -> list[str]:
    """The kernels of a source that know stream-K."""
    return [n for n in kernels.names() if kernels.get(n).source == source]


def tile_of(name: str) -> tuple:
    """Rows and columns of a tile."""
    axes = kernels.get(name).axes
    return axes.get("TILE_M", 128), axes.get("TILE_N", 128)


def cases(name: str, facts, *sizes) -> list[tuple]:
    """(case, facts of the card), by every way out, for (m, n, depth, matrices); those that the head of this
    file names, where none are given. None for other kernels."""
    kernel, card = kernels.get(name), replace(facts, sms=SMS)
    if name not in names(kernel.source) or kernel.source not in SOURCES:
        return []
    m, n = tile_of(name)
    lines = [SOURCES[kernel.source](*each, **kernel.axes)
             for each in sizes or ((m - 16, n, 576, 1), (2 * m, 5 * n, 192, 1), (5 * m, n, 64, 1),
                                     (m, 2 * n, 512, 1))]
    return [(case, card) for case, _ in every_case(name, card, lines)
            if case.config and case.config.get("stream_k")]


def many(name: str, facts) -> list[tuple]:
    """(case, facts of the card) of a tile that as many blocks have as a block has warps that add; of one that
    half as many have, with rows of dw that are no whole vectors."""
    kernel, card = kernels.get(name), replace(facts, sms=MANY)
    if name not in names(kernel.source) or kernel.source not in SOURCES:
        return []
    m, n = tile_of(name)
    lines = [SOURCES[kernel.source](m, n, depth * MANY, 1, gap=gap, **kernel.axes)
             for depth, gap in ((128, 0), (64, 1))]
    return [(case, card) for case, _ in every_case(name, card, lines)
            if case.config and case.config.get("stream_k") == 2]


def in_bands(name: str, facts) -> list[tuple]:
    """One case whose tiles are in several bands of each of two matrices."""
    m, n = tile_of(name)
    return cases(name, facts, (m * (TILES[f"{m}x{n}"].band + 1), 3 * n, 128, 2))[:1]


# ---- The order in which parts of a tile are added ----

TERMS = (2.0 ** 24, -2.0 ** 24, 1.0, 3.0)        # what a block has of a column, in one of all orders


def in_order(name: str, device) -> tuple:
    """(columns of the tile, what they are where block after block is added in f32). Of a depth of 768 four
    blocks have 192 each."""
    m, n = tile_of(name)
    case, card = cases(name, device.facts, (m, n, 768, 1))[0]
    problem = case.problem
    orders = itertools.cycle(itertools.permutations(TERMS))
    terms = np.float32([next(orders) for _ in range(n)])
    left, right = np.zeros(768), np.zeros((768, len(terms)))
    left[::192], right[::192] = 2.0 ** 12, terms.T / 2.0 ** 12
    graph, own, device.facts = graph_of(problem), device.facts, card
    values = {graph.nodes[0].operands[name]: value for name, value in _operands(problem, left, right).items()}
    try:
        built = plan.build(graph, device, case.wish)
        got = execute(built, values)[graph.nodes[0].operands[problem.op.writes[0]]]
    finally:
        plan.forget()
        device.facts = own
    want = np.zeros(len(terms), np.float32)
    for each in terms.T:
        want += each
    return _columns(problem, got), want


def _operands(problem, left, right) -> dict:
    """The operands whose product is the same row everywhere."""
    dims = {name: problem.operands[name].dims for name in problem.op.reads if name in problem.operands}
    name = problem.op.name
    if name == "matmul":
        return dict(a=np.broadcast_to(left, dims["a"]), b=right)
    if name == "conv_wgrad":
        return dict(dy=np.broadcast_to(left.reshape(dims["dy"][2:]), dims["dy"]),
                    x=right.T.reshape(dims["x"]))
    image = "x" if name == "conv_fprop" else "dy"
    return {image: np.broadcast_to(left[:, None, None], dims[image]),
            "w": (right.T if image == "x" else right).reshape(dims["w"])}


def _columns(problem, got):
    """The tile as rows of its columns."""
    if problem.op.name in ("conv_fprop", "conv_dgrad"):
        got = np.moveaxis(got, 1, -1)
    columns = got.shape[1] if problem.op.name == "conv_wgrad" else got.shape[-1]
    return got.reshape(-1, columns)

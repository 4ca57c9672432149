"""Graphs that end in sums of columns behind Hopper's tile program, and the kernels that make these: no
problem of one operation launches them."""
from __future__ import annotations

import numpy as np

from cydnn import device as devices, kernels, plan
from cydnn.engines import BY_INDEX
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.heuristics import Wish, candidates
from cydnn.ops import GenStats, Matmul, Pointwise, Problem, Reduction
from cydnn.tensor import TensorDesc

from . import fused
from ..draw import alone, graphs

X, W, BIAS, MADE, BIASED, Y, OUT, SQUARES, BESIDE = range(1, 10)     # uids
SCALE, SHIFT, SCALED, SHIFTED, CUT = range(20, 25)           # of what stands in front
FRONTED = {160: "", 161: "f32", 162: "f32"}      # engines with a front: the type of x behind it, "": x's own
INDEX = {"conv_fprop": 117, "conv_dgrad": 137, "matmul": 189, "prologue": 161}
TAILS = ("", "relu", "relu_bwd")
ENDS = ("stats", "bias")


def graph_of(problem, tail="relu", end="stats", kept="memory", inner="f32") -> Graph:
    """A product with nothing, bias and ReLU, or the gradient of ReLU behind it; then GenStats or the sum of
    columns of the last value, which is ``kept`` in memory, of the type of the product's output, or virtual,
    of the type ``inner``."""
    op, names = problem.op, (*problem.op.reads[:2], problem.op.writes[0])
    x, w, y = (problem.operands[name] for name in names)
    axis = y.rank - 1 if isinstance(op, Matmul) else 1
    thin = tuple(d if i == axis else 1 for i, d in enumerate(y.dims))
    wide = TensorDesc(inner, y.dims, y.strides)
    tensors, nodes, last = [Tensor(X, x), Tensor(W, w)], [Node(op, dict(zip(names, (X, W, MADE))))], Y
    if tail == "relu":
        tensors += [Tensor(MADE, wide, "virtual"), Tensor(BIASED, wide, "virtual"),
                    Tensor(BIAS, TensorDesc.packed(y.dtype, thin))]
        nodes += [Node(Pointwise(mode="add"), dict(x=MADE, b=BIAS, y=BIASED)),
                  Node(Pointwise(mode="relu_fwd"), dict(x=BIASED, y=Y))]
    elif tail == "relu_bwd":
        tensors += [Tensor(MADE, wide, "virtual"), Tensor(BESIDE, TensorDesc(y.dtype, y.dims, y.strides))]
        nodes.append(Node(Pointwise(mode="relu_bwd"), dict(x=MADE, b=BESIDE, y=Y)))
    else:
        last = MADE
    tensors.append(Tensor(last, y if kept == "memory" else wide, kept))
    sums = TensorDesc.packed("f32", thin)
    if end == "stats":
        tensors += [Tensor(OUT, sums), Tensor(SQUARES, sums)]
        nodes.append(Node(GenStats(), dict(x=last, sum=OUT, sq_sum=SQUARES)))
    else:
        tensors.append(Tensor(OUT, sums))
        nodes.append(Node(Reduction(mode="add"), dict(x=last, y=OUT)))
    return Graph(nodes, tensors)


def fronted(graph, between="f32") -> Graph:
    """The same with scale, bias and ReLU in front of x, whose values are of type ``between``."""
    x = graph.tensors[X].desc
    thin = TensorDesc.packed(x.dtype, [d if i == 1 else 1 for i, d in enumerate(x.dims)])
    tensors = [*graph.tensors.values(), Tensor(SCALE, thin), Tensor(SHIFT, thin)]
    tensors += [Tensor(u, TensorDesc(between, x.dims, x.strides), "virtual") for u in (SCALED, SHIFTED, CUT)]
    front = [Node(Pointwise(mode="mul"), dict(x=X, b=SCALE, y=SCALED)),
             Node(Pointwise(mode="add"), dict(x=SCALED, b=SHIFT, y=SHIFTED)),
             Node(Pointwise(mode="relu_fwd"), dict(x=SHIFTED, y=CUT))]
    conv, *behind = graph.nodes
    return Graph([*front, Node(conv.op, {**conv.operands, "x": CUT}, conv.scalars), *behind], tensors)


def between(engine, problem) -> str:
    """The type of x behind what must stand in front of it for an engine; "" where nothing must."""
    return FRONTED[engine.index] or problem.operands["x"].dtype.name if engine.index in FRONTED else ""


def match_of(engine, problem) -> Match:
    """A problem as an engine takes it: alone, or with a front, and sums behind it."""
    kind = between(engine, problem)
    if not kind:
        return alone.match(problem)
    return whole(fronted(graph_of(problem, ""), kind))


def whole(graph) -> Match:
    """All of a graph around its product."""
    number = next(i for i, node in enumerate(graph.nodes) if node.op.name in INDEX)
    front = {"x": (1 << number) - 1} if number else {}
    return Match.around(graph, number, (1 << len(graph.nodes)) - 1, front)


def choice_of(graph, facts, engine=None, is_meant=lambda config: True):
    """The choice of one part, by an engine in the first configuration that is meant."""
    named = "prologue" if SCALE in graph.tensors else graph.nodes[0].op.name
    engine = engine or BY_INDEX[INDEX[named]]
    found = candidates(graph, facts, Wish(engines=(engine.index,)))
    choice = next(c for c in found if len(c.parts) == 1 and c.parts[0].match.last)
    return fused.configured(choice, facts, is_meant)


def values_of(graph, rng, draw=None) -> dict:
    """Small whole numbers for all that is read, whose sums and products are exact; or what ``draw`` gives."""
    made = {u for node in graph.nodes for u in node.writes}
    draw = draw or (lambda dims: rng.integers(-1, 2, dims))
    return {u: np.asarray(draw(t.dims), np.float32) for u, t in graph.tensors.items() if u not in made}


def differences(device, graph, is_meant=lambda config: True, engine=None, choice=None) -> list:
    """What one plan gives against the NumPy device, of numbers of which each result is exact."""
    values = values_of(graph, np.random.default_rng(0))
    want = graphs.run(graph, values, devices.get("numpy"))
    choice = choice or choice_of(graph, device.facts, engine, is_meant)
    return graphs.differences(graph, graphs.execute(plan.made(choice, device), values), want)


def too_far(graph, got: dict) -> list:
    """Sums that are not those of the tensor in memory, as far as adding in f32, in any order, explains."""
    kept, found = np.asarray(got[_summed(graph)], np.float64), []
    axes = tuple(i for i, d in enumerate(graph.tensors[OUT].dims) if d == 1)
    for uid, value in ((OUT, kept), (SQUARES, kept ** 2)):
        if uid in graph.tensors:
            terms = value.size / max(graph.tensors[OUT].count, 1)
            bound = (terms + 2) * 2.0 ** -24 * np.abs(value).sum(axis=axes, keepdims=True)
            if not (np.abs(got[uid] - value.sum(axis=axes, keepdims=True)) <= bound).all():
                found.append(f"u{uid}: {np.abs(got[uid] - value.sum(axis=axes, keepdims=True)).max()}")
    return found


def _summed(graph) -> int:
    return graph.nodes[-1].reads[0]


# ---- The kernels ----

def names() -> tuple:
    """Kernels that no problem of one operation launches."""
    return tuple(name for name in kernels.names() if "_wgmma_sums_" in name or "_wgmma_prologue_" in name)


def made(name: str, line: str, *how) -> Graph:
    """A graph that launches a kernel."""
    graph = graph_of(Problem.parse(line), *how)
    return fronted(graph) if "_prologue_" in name else graph


def line_of(name: str, rows=200, more=0, depth=72) -> str:
    """A problem behind which a kernel makes sums, by the axes of the kernel; ``more`` columns than a tile."""
    axes = kernels.get(name).axes
    kind, n = axes["T"], axes["TILE_N"] + more
    if name.startswith("matmul"):
        step_a, step_b = -(-rows // 8) * 8, -(-n // 8) * 8
        return (f"matmul a={rows}x{depth}@{f'{depth},1' if axes['A_MAJOR'] == 'ak' else f'1,{step_a}'} "
                f"b={depth}x{n}@{f'1,{depth}' if axes['B_MAJOR'] == 'bk' else f'{step_b},1'} "
                f"c={rows}x{n} {kind}")
    way, c, k = ("fprop", depth, n) if axes.get("W_MAJOR") != "bn" else ("dgrad", n, depth)
    return f"conv_{way} n1c{c}h{rows // 20}w20 k{k}r1s1 {kind} nhwc"


def is_tile(name: str, out: str):
    """Whether a configuration launches the kernel, its output leaving in that way."""
    tile = "{TILE_M}x{TILE_N}".format_map(kernels.get(name).axes)
    return lambda config: config.tile == tile and config.store == out


def ways(name: str) -> list:
    """(graph, how its output leaves) of a kernel: in boxes and beside them, by rows, by elements; deeper than
    the ring; in one dim and in three."""
    found = [(made(name, line_of(name)), "tma"), (made(name, line_of(name, 140, 64), "relu_bwd"), "tma"),
             (made(name, line_of(name, 140), "", "bias"), "tma"),
             (made(name, line_of(name, 140, 16), "relu", "bias", "virtual", "f16"), "rows")]
    if kernels.get(name).axes.get("W_MAJOR") == "bn":        # filters across are read in whole 16 bytes
        last = made(name, line_of(name, 60, -56, 264), "relu", "stats", "virtual")
    else:
        last = made(name, line_of(name, 60, -3, 600), "", "stats")
    return [*found, (last, "rows"), *_in_space(name)]


def _in_space(name) -> list:
    if name.startswith("matmul"):
        return []
    axes = kernels.get(name).axes
    way, c, k = ("fprop", 64, 21) if axes.get("W_MAJOR") != "bn" else ("dgrad", 24, 16)
    line = f"conv_{way} n2c{c}d2h3w5 k{k}t2r3s2 pre_pad=1,0,2 post_pad=0,2,1 {axes['T']} nhwc"
    return [(made(name, line), "rows")]


def wrong(device, name: str, some) -> list:
    """The differences of some of the ways of a kernel."""
    return [f"{name} {out} {graph.nodes[0]}: {text}" for graph, out in some
            for text in differences(device, graph, is_tile(name, out))]

"""What is chosen: the same for every order of nodes, never dearer than other covers, what one launch can do
in one."""
from __future__ import annotations

import itertools
import random

import pytest

from cydnn import device, dtypes
from cydnn.device.facts import KNOWN
from cydnn.graph import Graph, Match, Node
from cydnn.heuristics import Wish, best, candidates, memory
from cydnn.heuristics.cover import in_order
from cydnn.heuristics.offers import Offers
from cydnn.layout import Layout
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Matmul, OpTensor, Pointwise, SoftmaxFwd
from cydnn.status import NotSupported
from cydnn.steps import Launch
from cydnn.tensor import TensorDesc
from support.draw.dags import dag

from . import graphs
from .graphs import LISTED, OUT, conv_tail, point, tensor

H200, DEVICES = KNOWN["h200"], ("t4", "a100", "h200")


def launches(choice) -> list:
    return [step.kernel for _, step in choice.steps if isinstance(step, Launch)]


# ---- Orders of nodes ----

def shuffled(graph: Graph, order) -> Graph:
    """Equal, and chosen anew."""
    memory.forget()
    return Graph([graph.nodes[i] for i in order], list(graph.tensors.values())[::-1])


def test_a_value_made_before_the_convolution_is_fused_in_any_order():
    tail = [point("abs", 5, 10), point("add", 3, 10, 11)]
    first = conv_tail(*tail, tensors=[tensor(5, OUT)], last=(11,))
    assert [len(p.region.nodes) for p in best(first, H200).parts] == [3]
    for order in itertools.permutations(range(3)):
        assert best(shuffled(first, order), H200) == best(first, H200)


@pytest.mark.parametrize("name", LISTED)
def test_every_permutation_gives_one_choice_and_one_text(name):
    graph = LISTED[name]()
    count, rng = len(graph.nodes), random.Random(name)
    some = [rng.sample(range(count), count) for _ in range(50)]
    orders = list(itertools.permutations(range(count))) if count <= 6 else some
    found = {(c.text, Layout(c).to_json()) for order in orders for c in [best(shuffled(graph, order), H200)]}
    assert len(found) == 1


@pytest.mark.parametrize("seed", range(24))
def test_permutations_of_random_graphs_have_one_key(seed):
    graph, _ = dag(seed)
    rng, want = random.Random(seed), best(graph, H200)
    for _ in range(5):
        other = shuffled(graph, rng.sample(range(len(graph.nodes)), len(graph.nodes)))
        assert other.key == graph.key and best(other, H200).text == want.text


# ---- Cost ----

def test_tensor_cores_and_a_second_launch_beat_cuda_cores_that_fuse():
    """f16 NCHW: only the engine on CUDA cores fuses the ReLU, and it takes several times as long."""
    dims, out, weights = (256, 64, 56, 56), (256, 64, 56, 56), (64, 64, 3, 3)
    tensors = [tensor(1, dims, layout="nchw"), tensor(2, weights, layout="nchw"),
               tensor(3, out, "f16", "virtual", "nchw"),
               tensor(4, out, layout="nchw")]
    graph = Graph([graphs.conv(1, 2, 3), point("relu_fwd", 3, 4)], tensors)
    choice = best(graph, H200)
    fused = best(graph, H200, Wish(engines=(109,)))
    assert "tensor_core" in choice.notes and choice.us < 0.5 * fused.us


@pytest.mark.parametrize("seed", range(60))
def test_never_dearer_than_node_by_node(seed):
    graph, _ = dag(seed)
    choice = best(graph, H200)
    assert choice.us <= best(graph, H200, Wish(mode="fallback")).us * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_never_dearer_than_an_engine_that_takes_all(seed):
    graph, _ = dag(seed)
    everything = (1 << len(graph.nodes)) - 1
    offers = Offers(graph, H200, Wish())
    whole = [p.us for i in offers.anchors for p in offers.anchored(i) if p.region.mask == everything]
    assert best(graph, H200).us <= min(whole, default=float("inf"))


@pytest.mark.parametrize("seed", range(40))
def test_covers_are_covers(seed):
    """Every node in one part, every part convex, in an order in which each has what it reads; candidates
    differ and come cheapest first."""
    graph, _ = dag(seed)
    found = candidates(graph, KNOWN["a100"])
    assert [c.us for c in found] == sorted(c.us for c in found) and len({c.text for c in found}) == len(found)
    for choice in found:
        masks = [p.region.mask for p in choice.parts]
        assert sum(masks) == (1 << len(choice.graph.nodes)) - 1
        assert all(p.region.is_convex for p in choice.parts)
        assert in_order(choice.graph, masks) == list(range(len(masks)))


# ---- One launch ----

@pytest.mark.parametrize("name", ["bias_residual_relu", "silu", "three_outputs", "dgrad_mul",
                                  "matmul_column"])
def test_one_launch(name):
    assert len(launches(best(LISTED[name](), H200))) == 1


def test_a_value_read_twice_by_one_node_is_fused():
    graph = conv_tail(point("mul", 3, 3, 10), last=(10,))
    assert graph.consumers[3] == (1,) and len(launches(best(graph, H200))) == 1


def test_softmax_is_recognised_in_what_it_is_made_of():
    choice = best(graphs.softmax_of_scores(), H200)
    assert choice.changes[0] == "compose 5" and any("softmax" in e.name for e in choice.engines)


def test_the_numpy_device_computes_a_graph_as_it_is():
    """What a part of the graph amounts to is looked for where a kernel may be the faster for it."""
    choice = best(graphs.softmax_of_scores(), device.get("numpy").facts)
    assert choice.changes == () and len(choice.parts) == 6


# ---- What is taken ----

@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("card", DEVICES)
def test_the_listed_graphs_are_taken(name, card):
    assert best(LISTED[name](), KNOWN[card]).us > 0


@pytest.mark.parametrize("card", DEVICES)
def test_300_random_graphs_are_taken(card):
    for seed in range(300):
        best(dag(seed)[0], KNOWN[card])


PAIRS = [(a.name, b.name) for a in dtypes.ALL for b in dtypes.ALL]


def pair(op_class, read: str, written: str) -> Graph:
    whole = read in ("i8", "u8", "i32") and written in ("i32", "i8")
    compute = "f64" if read == "f64" else "i32" if whole else "f32"
    shapes = {ConvFprop: dict(x=(2, 8, 5, 5), w=(16, 8, 3, 3), y=(2, 16, 3, 3)),
              ConvDgrad: dict(dy=(2, 16, 3, 3), w=(16, 8, 3, 3), dx=(2, 8, 5, 5)),
              ConvWgrad: dict(x=(2, 8, 5, 5), dy=(2, 16, 3, 3), dw=(16, 8, 3, 3)),
              Matmul: dict(a=(2, 9, 16), b=(2, 16, 8), c=(2, 9, 8))}[op_class]
    layout = "nchw" if op_class is Matmul else "nhwc"
    return Graph.single(
        op_class(compute=compute), {n: TensorDesc.packed(written if n in op_class.writes else read, d, layout)
                                                    for n, d in shapes.items()})


@pytest.mark.parametrize("op_class", [ConvFprop, ConvDgrad, ConvWgrad, Matmul], ids=lambda op: op.name)
@pytest.mark.parametrize("card", DEVICES)
def test_every_pair_of_input_and_output_types_is_taken(op_class, card):
    assert len(PAIRS) >= 81
    for read, written in PAIRS:
        best(pair(op_class, read, written), KNOWN[card])


# ---- Wishes ----

def test_the_composite_runs_node_by_node():
    graph = graphs.silu()
    for wish in (Wish(mode="fallback"), Wish(engines=(1,))):
        choice = best(graph, H200, wish)
        assert choice.name == "1:composite" and [len(p.region.nodes) for p in choice.parts] == [1, 1, 1]
    assert any(c.is_composite for c in candidates(graph, H200))


def test_notes_and_workspace_are_kept_to():
    graph = graphs.silu()
    assert all("tensor_core" not in c.notes
               for c in candidates(graph, H200, Wish(without_notes=("tensor_core",))))
    assert all("tensor_core" in e.notes for e in best(graph, H200, Wish(notes=("tensor_core",))).engines)
    needs = best(graph, H200, Wish(mode="fallback")).workspace_bytes
    assert needs > 0
    assert all(c.workspace_bytes < needs for c in candidates(graph, H200, Wish(workspace_bytes=needs - 1)))
    alone = Graph.single(ConvFprop(), dict(x=TensorDesc.packed("f16", (8, 24, 9, 9)),
                                           w=TensorDesc.packed("f16", (24, 24, 3, 3))))
    with pytest.raises(NotSupported,
                       match="no choice needs at most 0 bytes of workspace; the least is [1-9]"):
        candidates(alone, H200, Wish(engines=(111,), workspace_bytes=0))


def test_a_refusal_says_what_each_engine_said():
    odd = TensorDesc("bool", (4, 4), (8, 2))
    graph = Graph.single(Pointwise(mode="identity"), dict(x=odd, y=odd))
    with pytest.raises(NotSupported,
                       match="(?s)pointwise: no engine takes x=4x4:bool.*on NVIDIA H200:.*270:pointwise_vec"
                                           ".*271:pointwise_any: .*eight at once") as error:
        best(graph, H200)
    assert any(engine.index == 271 for engine, _ in error.value.facts["reasons"])


def test_an_unknown_feature_is_refused_for_all_engines():
    graph = conv_tail(point("relu_fwd", 3, 10), last=(10,))
    tensors = [t.replace(ragged=50) if t.uid == 1 else t
               for t in graph.tensors.values()] + [tensor(50, (5, 1, 1, 1), "i32")]
    with pytest.raises(NotSupported, match="does not understand ragged: uid 1"):
        best(Graph(graph.nodes, tensors), H200)


def test_numbers_in_memory_are_read_there():
    """alpha of a convolution in a tensor of the device: the sum is scaled by a pointwise launch."""
    from cydnn.graph import FromTensor
    x, w, y = tensor(1, (2, 8, 5, 5), "f32"), tensor(2, (8, 8, 1, 1), "f32"), tensor(3, (2, 8, 5, 5), "f32")
    graph = Graph([Node(ConvFprop(), dict(x=1, w=2, y=3),
                        dict(alpha=FromTensor(4)))], [x, w, y, tensor(4, (1, 1, 1, 1), "f32")])
    assert best(graph, H200).changes == ("cast 0",)
    blended = Graph.single(OpTensor(), dict(a=x.desc, b=x.desc))
    assert best(blended, H200).changes == ()
    assert Match.single(graph).features == {"f32 numbers in memory": "alpha"}


def test_a_refusal_is_that_of_the_node_which_no_change_helps():
    """The first node runs between casts; the second has offsets."""
    node = lambda uid, name: Node(SoftmaxFwd(), dict(x=uid, y=uid + 1), name=name)
    tensors = [*(tensor(uid, (8, 8), "i8") for uid in (1, 2)), tensor(3, (8, 8), ragged=5),
               tensor(4, (8, 8)), tensor(5, (9, 1), "i32")]
    with pytest.raises(NotSupported, match="^other: no engine takes .*\n.*does not understand ragged"):
        best(Graph([node(1, "one"), node(3, "other")], tensors), H200)

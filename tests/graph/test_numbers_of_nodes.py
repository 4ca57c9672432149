"""Numbers of operations that tensors give: one element, of any rank, in memory or given at execute."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nodes import unary, values_for
from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.graph import FromTensor, Graph, Node, Tensor
from cydnn.heuristics import Wish, best
from cydnn.ops import DropoutStates, Problem, Rng
from cydnn.status import NotSupported
from cydnn.steps import Scalar
from cydnn.tensor import TensorDesc
from support.draw import graphs
from support.check import matrix


@pytest.mark.parametrize("kind, where", [("memory", "numpy"), ("memory", "ptx:sm_80"),
                                         ("value", "ptx:sm_80")])
@pytest.mark.parametrize("dims", [(1,), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("line", ["batch_norm_training n2c8h4w4 f16", "batch_norm_inference n2c8h4w4 f32",
                                  "softmax_fwd x=2x8x4x4 axis=1 f16", "pooling_fwd n2c8h4w4 window=2 f32"])
def test_a_number_is_one_element_of_any_rank(line, dims, kind, where):
    """In memory or given at execute, of an op whose first output goes through another node; a node reads the
    number in its own rank, too."""
    problem = Problem.parse(line)
    plain = graph_of(problem)
    node, out = plain.nodes[0], plain.nodes[0].writes[0]
    names = {name: 100 + i for i, (name, x) in enumerate(node.op.scalars.items()) if x}
    numbers = [Tensor(uid, TensorDesc.packed("f32", dims), kind,
                      scalar=Scalar(uid, node.op.scalars[name]) if kind == "value" else None)
               for name, uid in names.items()]
    tensors = {**plain.tensors, out: plain.tensors[out].replace(kind="virtual", dtype="f32")}
    tensors[99] = plain.tensors[out].replace(uid=99)
    numbers += [n.replace(uid=n.uid + 100, kind="memory", scalar=None) for n in numbers]

    def graph(scalars, more=()):
        nodes = [Node(node.op, node.operands, scalars), unary(out, 99, "relu_fwd"),
                 *(unary(number.uid, number.uid + 100) for number in scalars.values())]
        return Graph(nodes, [*tensors.values(), *more])
    values = values_for(problem, 3) | {uid: np.full(dims, node.op.scalars[n]) for n, uid in names.items()}
    want = graphs.run(graph({}), values, get("numpy"))
    given = graph({name: FromTensor(uid) for name, uid in names.items()}, numbers)
    got = graphs.run(given, values, get(where))
    for uid, there in want.items():
        assert np.allclose(got[uid], there, rtol=2e-3, atol=2e-3), uid


@pytest.mark.parametrize("mode", ["a", "fallback"])
@pytest.mark.parametrize("line", [
    "batch_norm_training n2c8h4w4 f32", "batch_norm_bwd n2c8h4w4 f32", "softmax_fwd x=5x37 axis=1 f16",
    "conv_fprop n1c2h5w5 k2r3s3 f32", "matmul a=4x6 b=6x8 f32", "reduction x=5x7 y=5x1 f32",
    "op_tensor a=3x8:f32 b=3x8:f32 c=3x8:f32", "add_tensor a=1x8:f32 c=3x8:f32", "scale_tensor y=3x8:f32",
    "set_tensor y=3x8:f32", "transform 3x8 f32", "pointwise x=3x8:f16 b=3x8:f16 mode=add"])
def test_every_number_may_lie_in_memory(line, mode):
    """Factors of what an output held, too."""
    problem = Problem.parse(line)
    plain = graph_of(problem)
    node, scalars = plain.nodes[0], {k: x or 3.0 for k, x in matrix.blended(problem.op).items()}
    uids = {name: 100 + i for i, name in enumerate(scalars)}
    numbers = [Tensor(uid, TensorDesc.packed("f32", (1,))) for uid in uids.values()]
    there = Graph([Node(node.op, node.operands, {name: FromTensor(uid) for name, uid in uids.items()})],
                  [*plain.tensors.values(), *numbers])
    values = values_for(problem, 3) | {uid: np.full(1, scalars[name]) for name, uid in uids.items()}

    def computed(graph, device, wish):
        placed = graphs.Placed(plan.made(best(graph, device.facts, wish), device), values)
        for uid in placed.written:
            placed.buffers[uid].write(values[uid])
        placed.execute()
        return placed.found()
    want = computed(Graph([Node(node.op, node.operands, scalars)], plain.tensors), get("numpy"), Wish())
    for uid, found in computed(there, get("ptx:sm_80"), Wish(mode=mode)).items():
        assert np.allclose(found, want[uid], rtol=2e-3, atol=2e-3), uid


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
@pytest.mark.parametrize("line, numbers", [
    ("batch_norm_training n2c8h4w4 f16 nhwc running_mean=1x8x1x1:f32 running_var=1x8x1x1:f32 "
     "next_running_mean=1x8x1x1:f32 next_running_var=1x8x1x1:f32", dict(epsilon=0.5, factor=0.25)),
    ("batch_norm_training n2c3h5w5 f64", dict(epsilon=0.5)),
    ("batch_norm_inference n2c3h4w4 f32", dict(epsilon=0.5))])
def test_a_kernel_reads_numbers_in_memory(line, numbers, dtype):
    """Of its own type, or of another by way of a cast; the node is computed as it is."""
    problem = Problem.parse(line)
    plain, uids = graph_of(problem), {name: 100 + i for i, name in enumerate(numbers)}
    node = plain.nodes[0]
    memory = [Tensor(uid, TensorDesc.packed(dtype, (1,))) for uid in uids.values()]
    there = Graph([Node(node.op, node.operands, {name: FromTensor(uid) for name, uid in uids.items()})],
                  [*plain.tensors.values(), *memory])
    values = values_for(problem, 3) | {uid: np.full(1, numbers[name]) for name, uid in uids.items()}
    device = get("ptx:sm_80")
    choice = best(there, device.facts)
    assert choice.changes == () and choice.engine.op is type(node.op)
    want = graphs.run(Graph([Node(node.op, node.operands, numbers)], plain.tensors), values, get("numpy"))
    for uid, found in graphs.run(there, values, device).items():
        assert np.allclose(found, want[uid], rtol=2e-3, atol=2e-3), uid
    alpha = Graph([Node(node.op, node.operands, dict(alpha=FromTensor(100)))], there.tensors)
    with pytest.raises(NotSupported, match="alpha must be given at execute; got one in memory"):
        best(alpha, device.facts, Wish(engines=(choice.engine.index,)))


@pytest.mark.parametrize("where", ["numpy", "ptx:sm_80"])
@pytest.mark.parametrize("kind, dtype, seed", [("value", "i64", 2 ** 53 + 1), ("memory", "i64", 2 ** 53 + 1),
                                               ("memory", "i32", -2 ** 31 + 1), ("memory", "u8", 255)])
def test_a_whole_number_that_a_tensor_gives_stays_whole(kind, dtype, seed, where):
    scalar = Scalar(2, seed) if kind == "value" else None
    given = Tensor(2, TensorDesc.packed(dtype, (1,)), kind, scalar=scalar)
    graph = Graph([Node(DropoutStates(), dict(states=1), dict(seed=FromTensor(2)))],
                  [Tensor(1, TensorDesc.packed("i64", (2,))), given])
    assert graphs.run(graph, {2: np.array([seed])}, get(where))[1].tolist() == [seed, 0]


def test_a_number_of_a_type_that_no_kernel_reads():
    graph = Graph([Node(Rng(distribution="uniform"), dict(y=1), dict(seed=FromTensor(2)))],
                  [Tensor(1, TensorDesc.packed("f32", (2,))), Tensor(2, TensorDesc.packed("i8", (1,)))])
    with pytest.raises(NotSupported, match="470:.*: does not understand i8 numbers in memory: seed"):
        best(graph, get("ptx:sm_80").facts)

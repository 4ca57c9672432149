"""Graphs on the GPU: fused where an engine fuses, op by op where none does, captured,
with the pointers of other libraries."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn
from cydnn import data_type, heur_mode, plan as plans
from cydnn.dtypes import BY_NAME
from cydnn.ops import ConvFprop, Matmul
from cydnn.ops.pointwise import MODES, erf64
from support.guard.buffers import FILLS, Guarded, Space
from support.check.matrix import strays
from support.guard.zones import Zoned

TYPES = {"f16": data_type.HALF, "bf16": data_type.BFLOAT16, "f32": data_type.FLOAT}


class At:
    def __init__(self, device):
        self.device, self.stream = device, 0


def nhwc(d):
    return [d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]]


def run(gpu, g, inputs, y):
    """The output of a built graph as float64, the same beside either fill."""
    descs, values = {t: t.found.desc for t in (*inputs, y)}, inputs
    return both_fills(gpu, descs, values, y, g.get_workspace_size(), lambda at, space: g.execute(at, space))


def both_fills(gpu, descs, values, y, workspace_bytes, execute):
    """The output ``y`` of ``execute({key: address}, workspace)``, between zones that stay as they are."""
    found = []
    for fill in FILLS:
        buffers = {key: Guarded(gpu, desc, fill=fill) for key, desc in descs.items()}
        for key, value in values.items():
            buffers[key].write(value)
        space = Space(gpu, workspace_bytes, fill=fill)
        execute({key: buffer.ptr for key, buffer in buffers.items()}, space.ptr)
        gpu.synchronize()
        assert not strays(buffers, space, {y})
        found.append(buffers[y].read()[0])
    np.testing.assert_array_equal(*found)
    return found[0]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("shape", [(2, 16, 9, 7, 24), (3, 64, 14, 14, 64), (1, 8, 5, 5, 8)], ids=str)
@pytest.mark.parametrize("tail", ["gelu", "relu", "residual"])
def test_conv_epilogues_are_one_launch(gpu, dtype, shape, tail):
    n, c, h, w, k = shape
    rng = np.random.default_rng(1)
    g = cydnn.pygraph(io_data_type=TYPES[dtype], intermediate_data_type=data_type.FLOAT,
                      compute_data_type=data_type.FLOAT, handle=At(gpu))
    dims = dict(X=[n, c, h, w], W=[k, c, 3, 3], B=[1, k, 1, 1], R=[n, k, h, w])
    t = {name: g.tensor(d, nhwc(d)) for name, d in dims.items() if name != "R" or tail == "residual"}
    values = {name: BY_NAME[dtype].round(rng.uniform(-1, 1, dims[name])) for name in t}
    z = g.bias(g.conv_fprop(t["X"], t["W"], padding=[1, 1], stride=[1, 1], dilation=[1, 1]), t["B"])
    y = {"gelu": lambda: g.gelu(z), "relu": lambda: g.relu(z),
         "residual": lambda: g.relu(g.add(z, t["R"]))}[tail]().set_output(True)
    g.build([heur_mode.A])
    assert "+" not in g.get_plan_name_at_index(0), g.get_plan_name_at_index(0)
    want = ConvFprop(pre_pad=1, post_pad=1).reference(values["X"], values["W"])["y"] + values["B"]
    want = {"gelu": lambda v: v * 0.5 * (1 + erf64(v * 0.5 ** 0.5)), "relu": lambda v: np.maximum(v, 0),
            "residual": lambda v: np.maximum(v + values["R"], 0)}[tail](want)
    got = run(gpu, g, {t[name]: values[name] for name in t}, y)
    eps = BY_NAME[dtype].eps
    assert np.abs(got - want).max() <= eps * np.abs(want).max() + 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_matmul_bias_swish(gpu, dtype):
    rng = np.random.default_rng(2)
    g = cydnn.pygraph(io_data_type=TYPES[dtype], intermediate_data_type=data_type.FLOAT,
                      compute_data_type=data_type.FLOAT, handle=At(gpu))
    A, B, C = (g.tensor([1, 40, 64], [2560, 64, 1]), g.tensor([1, 64, 48], [3072, 48, 1]),
               g.tensor([1, 1, 48], [48, 48, 1]))
    values = {t: BY_NAME[dtype].round(rng.uniform(-1, 1, t.get_dim())) for t in (A, B, C)}
    Y = g.swish(g.bias(g.matmul(A, B), C)).set_output(True)
    g.build([heur_mode.A])
    z = Matmul().reference(values[A], values[B])["c"] + values[C]
    got = run(gpu, g, values, Y)
    assert np.abs(got - z / (1 + np.exp(-z))).max() <= BY_NAME[dtype].eps * 16 + 1e-4


@pytest.mark.gpu
def test_a_graph_that_nothing_fuses_runs_op_by_op(gpu):
    """Two convolutions with a value that is needed twice: several parts, intermediates in the workspace."""
    rng = np.random.default_rng(3)
    g = cydnn.pygraph(io_data_type=data_type.FLOAT, intermediate_data_type=data_type.FLOAT,
                      compute_data_type=data_type.FLOAT, handle=At(gpu))
    X, W = g.tensor([2, 8, 6, 6], nhwc([2, 8, 6, 6])), g.tensor([8, 8, 3, 3], nhwc([8, 8, 3, 3]))
    conv = lambda x: g.conv_fprop(x, W, padding=[1, 1], stride=[1, 1], dilation=[1, 1])
    a = g.tanh(conv(X))
    Y = g.add(conv(a), a).set_output(True)
    g.build([heur_mode.A, heur_mode.FALLBACK])
    values = {t: rng.uniform(-1, 1, t.get_dim()).astype(np.float32).astype(float) for t in (X, W)}
    ref = lambda v: ConvFprop(pre_pad=1, post_pad=1).reference(v, values[W])["y"]
    first = np.tanh(ref(values[X]))
    assert np.abs(run(gpu, g, values, Y) - ref(first) - first).max() < 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize("mode", [m for m in MODES if MODES[m].inputs == 1 and m not in ("gen_index",)])
def test_every_unary_mode_can_be_fused(gpu, mode):
    """conv + mode in one launch gives what the reference gives."""
    from cydnn.graph import Graph, Node, Tensor
    from cydnn.ops import Pointwise
    from cydnn.tensor import TensorDesc
    rng = np.random.default_rng(4)
    shapes = {1: ((1, 8, 5, 5), "memory"), 2: ((8, 8, 1, 1), "memory"), 3: ((1, 8, 5, 5), "virtual"),
              4: ((1, 8, 5, 5), "memory")}
    tensors = {u: Tensor(u, TensorDesc.packed("f32", d, "nhwc"), kind, name=f"t{u}") for u,
               (d, kind) in shapes.items()}
    nodes = [Node(ConvFprop(), dict(x=1, w=2, y=3)), Node(Pointwise(mode=mode), dict(x=3, y=4))]
    plan = plans.build(Graph(nodes, tensors), gpu)
    values = {u: rng.uniform(0.1, 1, shapes[u][0]).astype(np.float32).astype(float) for u in (1, 2)}
    got = both_fills(gpu, {u: tensors[u].desc for u in (1, 2, 4)}, values, 4, plan.workspace_bytes, plan.run)
    z = ConvFprop().reference(values[1], values[2])["y"]
    want = Pointwise(mode=mode).reference(z, None, None, 1.0, 1.0)["y"]
    assert len(plan.parts) == 1
    steps = np.abs(got - want) > 1e-4 * (1 + np.abs(want))
    assert not steps.any() or mode in ("ceil", "floor") and steps.mean() < 0.01


@pytest.mark.gpu
def test_execute_can_be_captured(gpu):
    """Stream capture in global mode: nothing in execute allocates, frees or waits."""
    torch = pytest.importorskip("torch")
    from cydnn.ops import Problem
    wants = []
    for fill in FILLS:
        case = Zoned(Problem.parse("conv_fprop n2c16h8w8 k16r3s3 pad1 f16 nhwc"), gpu, fill=fill)
        case()
        gpu.synchronize()
        wants.append(case.output("y"))
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(graph, stream=stream):
            case.plan.execute(case.pointers, case.workspace.ptr, stream=stream)
        y = case.buffers["y"]
        gpu.memset(y.ptr, 0xFF, y.size)
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_array_equal(case.output("y"), wants[0])
        assert not case.beside()


@pytest.mark.gpu
def test_pointers_of_other_libraries(gpu):
    """torch tensors, CuPy arrays and integers are taken as they are; streams too."""
    torch = pytest.importorskip("torch")
    handle = cydnn.create_handle(gpu.name)
    g = cydnn.pygraph(io_data_type=data_type.FLOAT, intermediate_data_type=data_type.FLOAT, handle=handle)
    x, y = torch.rand(4, 64, device="cuda"), torch.empty(4, 64, device="cuda")
    X = g.tensor_like(x)
    Y = g.exp(X).set_output(True)
    g.build([heur_mode.A])
    g.execute({X: x, Y: y}, 0)
    assert torch.allclose(y, x.exp(), rtol=1e-5)
    stream = torch.cuda.Stream()
    cydnn.set_stream(handle, stream)
    g.execute({X: x.data_ptr(), Y: y}, 0)
    stream.synchronize()
    cupy = pytest.importorskip("cupy")
    z = cupy.zeros((4, 64), cupy.float32)
    g.execute({X: x, Y: z}, 0)
    stream.synchronize()
    assert cupy.allclose(z, cupy.exp(cupy.from_dlpack(x)), rtol=1e-5)
    with pytest.raises(cydnn.BadParam):
        g.execute({X: x.cpu(), Y: y}, 0)

"""The programs of tests/frontend on a GPU with torch: its tensors in variant packs, its float64 as the
answer. Every tensor and workspace lies between zones, of one fill and of the other."""
from __future__ import annotations

from math import prod

import pytest

import cydnn.frontend as cudnn
from cydnn.dtypes import ML_DTYPES
from cydnn.status import BadParam
from cydnn.tensor import packed_strides
from frontend.programs import PROGRAMS
from frontend.worlds import order
from support.guard.buffers import FILLS, GUARD

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
DEVICE = "cuda"
TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
         "i8": torch.int8,
         "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8,
         **{kind: getattr(torch, name) for kind, name in ML_DTYPES.items()}}


class Exact:
    """What the programs should give, in torch float64."""
    exp, sqrt, tanh, where, erf, relu = torch.exp, torch.sqrt, torch.tanh, torch.where, torch.erf, torch.relu
    repeat, stack = torch.repeat_interleave, torch.stack
    sum = staticmethod(lambda x, dims: x.sum(dims, keepdim=True))
    mean = staticmethod(lambda x, dims: x.mean(dims, keepdim=True))
    amax = staticmethod(lambda x, dims: x.abs().amax(dims, keepdim=True))

    @staticmethod
    def index(x, dim):
        shape = [-1 if i == dim else 1 for i in range(x.dim())]
        return torch.arange(x.shape[dim], device=x.device).reshape(shape).expand(x.shape)

    @staticmethod
    def conv(x, w, pre, post, stride, dilation=(1, 1)):
        padded = torch.nn.functional.pad(x, (pre[1], post[1], pre[0], post[0]))
        return torch.nn.functional.conv2d(padded, w, stride=stride, dilation=dilation)

    @classmethod
    def dgrad(cls, dy, w, dims, pre, post, stride):
        x = torch.zeros(dims, dtype=dy.dtype, device=dy.device, requires_grad=True)
        return torch.autograd.grad(cls.conv(x, w, pre, post, stride), x, dy)[0]

    @classmethod
    def wgrad(cls, x, dy, dims, pre, post, stride):
        w = torch.zeros(dims, dtype=dy.dtype, device=dy.device, requires_grad=True)
        return torch.autograd.grad(cls.conv(x, w, pre, post, stride), w, dy)[0]


class World:
    """Tensors of torch on its current device and stream, between zones of ``fill``."""
    exact = Exact

    def __init__(self, fill=FILLS[0]):
        self.fill, self.rooms = fill, []         # (all bytes, how many of them are a tensor's)
        torch.manual_seed(0)
        torch.cuda.init()
        self.handle = cudnn.create_handle()
        cudnn.set_stream(handle=self.handle, stream=torch.cuda.current_stream().cuda_stream)

    def close(self):
        cudnn.destroy_handle(self.handle)
        torch.cuda.synchronize()
        beside = [int((room[:GUARD] != self.fill).sum() + (room[GUARD + size:] != self.fill).sum())
                  for room, size in self.rooms]
        assert not any(beside), f"bytes written beside tensors: {beside}"

    def room(self, size):
        """Bytes between zones."""
        room = torch.full((size + 2 * GUARD,), self.fill, device=DEVICE, dtype=torch.uint8)
        self.rooms.append((room, size))
        return room[GUARD:GUARD + size]

    def random(self, dims, kind="f32", layout="nhwc", low=-1.0, high=1.0):
        values = torch.rand(dims, device=DEVICE, dtype=torch.float64) * (high - low) + low
        whole = torch.randint(-4, 5, dims, device=DEVICE)
        return self.empty(dims, kind, layout).copy_(whole if kind in ("i8", "i32", "i64", "u8") else values)

    def empty(self, dims, kind="f32", layout="nhwc"):
        strides, size = packed_strides(dims, order(dims, layout)), TYPES[kind].itemsize
        flat = self.room(prod(dims) * size).view(TYPES[kind])
        return flat.as_strided(dims, strides, flat.storage_offset()).zero_()

    def bits(self, count):
        return self.room(-(-count // 8)).zero_()

    def whole(self, values, dims=(1, -1, 1)):
        return torch.tensor(values, dtype=torch.int32, device="cuda").reshape(dims)

    def number(self, value):
        return torch.full((1, 1, 1, 1), value)

    def workspace(self, size_bytes):
        return self.room(size_bytes)

    def double(self, x):
        return x.double()

    def unpacked(self, x, like):
        flat = (x[:, None] >> torch.arange(8, device=DEVICE,
                                           dtype=torch.uint8) & 1).reshape(-1)[:like.numel()]
        axes = sorted(range(like.dim()), key=lambda a: -like.stride(a))
        stored = flat.reshape([like.shape[a] for a in axes])
        return stored.permute([axes.index(a) for a in range(like.dim())]).double()

    def copy(self, x):
        return x.clone()

    def synchronize(self):
        torch.cuda.synchronize()

    def close_to(self, got, want, atol, rtol):
        torch.testing.assert_close(got.double(), want.double(), atol=atol, rtol=rtol)


@pytest.fixture(params=FILLS, ids=hex)
def world(request):
    found = World(request.param)
    yield found
    found.close()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(world, program):
    program(world)


def graph(world, **options):
    kind = cudnn.data_type.FLOAT
    return cudnn.pygraph(io_data_type=kind, intermediate_data_type=kind, compute_data_type=kind,
                         handle=world.handle, **options)


def conv_bias(world):
    """A built convolution with a bias, its variant pack and the result's memory."""
    x, w, b = world.random((2, 16, 9, 9)), world.random((32, 16, 3, 3)), world.random((1, 32, 1, 1))
    g = graph(world)
    X, W, B = map(g.tensor_like, (x, w, b))
    Y = g.bias(g.conv_fprop(X, W, [1, 1], [1, 1], [1, 1]), B).set_output(True)
    g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    y = world.empty((2, 32, 9, 9))
    want = torch.nn.functional.conv2d(x.double(), w.double(), b.double().flatten(), padding=1)
    return g, {X: x, W: w, B: b, Y: y}, y, want


def test_every_plan(world):
    """Each plan of the heuristics, each engine with each of its configurations, on one graph."""
    g, pack, y, want = conv_bias(world)
    for engine in range(g.get_engine_count()):
        for knob in g.get_knobs_for_engine(engine):
            for value in range(knob.min_value, knob.max_value + 1, knob.stride):
                g.create_execution_plan(engine, {knob.type: value})
    g.build_plans(cudnn.build_plan_policy.ALL)
    for index in range(g.get_execution_plan_count()):
        y.fill_(float("nan"))
        g.execute_plan_at_index(pack, world.workspace(g.get_workspace_size_plan_at_index(index)), index,
                                handle=world.handle)
        world.close_to(y, want, 1e-3, 1e-3)


def test_a_graph_is_captured(world):
    """Nothing in execute allocates, loads or waits."""
    g, pack, y, want = conv_bias(world)
    space = world.workspace(g.get_workspace_size())
    recorded, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    g.execute(pack, space, handle=world.handle)
    torch.cuda.synchronize()
    with torch.cuda.graph(recorded, stream=stream):
        cudnn.set_stream(handle=world.handle, stream=torch.cuda.current_stream().cuda_stream)
        g.execute(pack, space, handle=world.handle)
    y.zero_()
    recorded.replay()
    world.synchronize()
    world.close_to(y, want, 1e-3, 1e-3)


def test_work_goes_to_the_handles_stream(world):
    g, pack, y, want = conv_bias(world)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    cudnn.set_stream(handle=world.handle, stream=stream.cuda_stream)
    g.execute(pack, world.workspace(g.get_workspace_size()), handle=world.handle)
    stream.synchronize()
    world.close_to(y, want, 1e-3, 1e-3)


def test_tensors_of_the_host(world):
    """By value where the graph is told of them; refused as memory."""
    g = graph(world)
    x = world.random((4, 8), layout="nchw")
    X, number = g.tensor_like(x), g.tensor_like(torch.tensor(2.5))
    Y = g.mul(X, number).set_output(True)
    assert number.get_is_pass_by_value() and not X.get_is_pass_by_value()
    g.build([cudnn.heur_mode.A])
    y = world.empty((4, 8), layout="nchw")
    for value in (torch.tensor(2.5), torch.full((1, 1, 1), 2.5, dtype=torch.float64), 2.5):
        g.execute({X: x, number: value, Y: y}, 0)
        world.synchronize()
        world.close_to(y, x * 2.5, 0, 0)
    with pytest.raises(BadParam, match="pageable host memory"):
        g.execute({X: x.cpu(), number: 2.5, Y: y}, 0)
    with pytest.raises(BadParam, match="got memory of a device"):
        g.execute({X: x, number: torch.ones(1, device=DEVICE), Y: y}, 0)


def test_pointers_of_extensions(world):
    g, pack, y, want = conv_bias(world)
    by_uid = {t.get_uid(): x for t, x in pack.items()}
    pointers = [by_uid[uid].data_ptr() for uid in g._get_variant_pack_uids_sorted()]
    space = world.workspace(g.get_workspace_size() + 1)
    g._execute_with_ptrs(pointers, space.data_ptr(), world.handle)
    world.synchronize()
    world.close_to(y, want, 1e-3, 1e-3)


@pytest.mark.parametrize("handle", ["given", "auto"])
def test_a_graph_in_a_block(world, handle):
    """Written on tensors; results are allocated by torch with the inferred dims and strides."""
    x, w = world.random((2, 16, 9, 9), "f16"), world.random((32, 16, 3, 3), "f16")
    kinds = dict(io_data_type=torch.float16, intermediate_data_type=torch.float32,
                 compute_data_type=torch.float32)
    with cudnn.Graph(handle=world.handle if handle == "given" else "auto",
                     inputs=["conv2d::image", "conv2d::weight"],
                     outputs=["relu::OUT_0"], **kinds) as written:
        conv = written.conv_fprop(image=x, weight=w, padding=[1, 1], stride=[1, 1], dilation=[1, 1],
                                  name="conv2d")
        written.relu(conv, name="relu").set_output(True)
    want = torch.relu(torch.nn.functional.conv2d(x.double(), w.double(), padding=1))
    y = written(x, w)
    world.synchronize()
    assert y.dtype is torch.float16 and y.is_contiguous(memory_format=torch.channels_last)
    world.close_to(y, want, 2e-2, 2e-3)
    found = written({"conv2d::image": x, "conv2d::weight": w})
    world.synchronize()
    world.close_to(found["relu::OUT_0"], want, 2e-2, 2e-3)


def test_a_cache_makes_the_second_build_short(world):
    """The same graph again gives the plan that is there."""
    cache = cudnn.create_kernel_cache()
    plans = []
    for _ in range(2):
        g = graph(world, kernel_cache=cache)
        x = g.tensor([4, 64], [64, 1])
        g.exp(x).set_output(True)
        g.build([cudnn.heur_mode.A])
        plans.append(g._plan().ready[g.own_handle.device].plan)
    assert plans[0] is plans[1]

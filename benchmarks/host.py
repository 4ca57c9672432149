"""Host time: a raw launch from C, a positional plan execute, ``convolutionForward``; and plan build times.
``python benchmarks/host.py``.

A tiny problem, thousands of calls, the queue drained between rounds; the least round counts.
Allocation counts by tracemalloc.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np                                # noqa: E402

from cydnn import (_core, bench, cudnn, data_type, device as devices, heur_mode,  # noqa: E402
                   kernels, plan as plans, pygraph)
from cydnn.backend import cudnnBackendExecute     # noqa: E402
from cydnn.frontend import create_handle          # noqa: E402
from cydnn.graph import Graph, Node, Tensor       # noqa: E402
from cydnn.legacy import rnn_compute             # noqa: E402
from cydnn.ops import ConvFprop, Pointwise, Problem  # noqa: E402
from cydnn.tensor import TensorDesc               # noqa: E402
from cydnn.steps import Pointer, Scalar    # noqa: E402
from examples import forum_convolution as forum   # noqa: E402

TINY = "conv_fprop n1c8h8w8 k8r3s3 pad1 f32 acc=f32 nchw"


def allocations(call, calls=2000) -> float:
    """Bytes of Python memory that grow per call (0 when nothing is allocated and kept)."""
    call()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    for _ in range(calls):
        call()
    after = tracemalloc.take_snapshot()
    tracemalloc.stop()
    return sum(s.size_diff for s in after.compare_to(before, "filename")
               if "cydnn" in str(s.traceback)) / calls


def raw_launch(case, device):
    """A function that gives the microseconds of the same launch as the case's plan,
    by cuLaunchKernel in a loop in C."""
    step = case.plan.steps[0]
    concrete = (lambda v: case.pointers[v.uid] + v.addend if isinstance(v, Pointer)
                else v.default if isinstance(v, Scalar) else v)
    packed = kernels.get(step.kernel).pack({k: concrete(v) for k, v in step.args.items()}, **step.extra)
    function = device.function(step.kernel)
    return lambda calls: 1e-3 * _core.raw_launch_loop(function, packed.grid, packed.block,
                                                      bytes(packed.data), 0, calls, packed.smem)


def in_a_loop(call):
    """A function that gives the microseconds of one call, from a loop in Python."""
    def timed(calls):
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return (time.perf_counter_ns() - start) / calls * 1e-3
    return timed


def least_of(timed: dict, device, rounds=60, calls=300) -> dict:
    """The least time of each over many rounds in which they take turns: the processor's
    clock changes, so they must share it."""
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, one in timed.items():
            device.synchronize()
            best[name] = min(best[name], one(calls))
    device.synchronize()
    return best


def host_times(device, case=None) -> dict:
    """``case``: of TINY; one of its own where none is given."""
    case = case or bench.Case(Problem.parse(TINY), device)
    tape, pointers, workspace = case.plan.executable, case.pointers, int(case.workspace.ptr)
    size = case.plan.workspace_bytes
    execute = lambda: tape.execute(pointers, None, workspace, size, 0)
    plan_execute = lambda: case.plan.execute(pointers, workspace)
    handle = cudnn.create(device)
    x, w, y, conv = (cudnn.createTensorDescriptor(), cudnn.createFilterDescriptor(),
                     cudnn.createTensorDescriptor(), cudnn.createConvolutionDescriptor())
    cudnn.setTensor4dDescriptor(x, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 8, 8, 8)
    cudnn.setTensor4dDescriptor(y, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 8, 8, 8)
    cudnn.setFilter4dDescriptor(w, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 8, 8, 3, 3)
    cudnn.setConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, cudnn.CUDNN_CROSS_CORRELATION)
    algo = cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM       # one launch, as the plan has
    px, pw, py = pointers
    legacy_size = cudnn.getConvolutionForwardWorkspaceSize(handle, x, w, conv, y, algo)
    room = case.room("room", legacy_size)
    ws, forward = int(room.ptr), cudnn.convolutionForward
    call = lambda: forward(handle, 1.0, x, px, w, pw, conv, algo, ws, legacy_size, 0.0, y, py)
    call()
    found = least_of(
        {"raw": raw_launch(case, device), "nothing": in_a_loop(lambda: None), "plan": in_a_loop(plan_execute),
         "tape": in_a_loop(execute), "legacy": in_a_loop(call)}, device)
    return {"raw cuLaunchKernel from C": found["raw"],
            "plan.execute, positional": found["plan"] - found["nothing"],
            "tape.execute, positional": found["tape"] - found["nothing"],
            "convolutionForward, 13 arguments": found["legacy"] - found["nothing"],
            "launches of the plan": case.plan.executable.step_count,
            "bytes allocated per execute": allocations(plan_execute),
            "bytes allocated per convolutionForward": allocations(call)}


def rnn_times(device, steps=100) -> dict:
    """The three passes of training a tiny LSTM over arrays of descriptors: what a call costs above the
    positional execute of its plan. A plan that does nothing stands for it: hundreds of launches would hide
    the difference."""
    handle, nothing, found = cudnn.create(device), Nothing(), {}
    net = TinyNetwork(handle, cudnn.CUDNN_DATA_FLOAT, steps)
    for name, arguments in net.calls.items():
        call, pointers = getattr(cudnn, name), net.pointers[name]
        call(*arguments)
        net.put(name, nothing)
        best = least_of({"plan": in_a_loop(lambda: nothing.execute(pointers, None, net.room, 0, 0)),
                         "call": in_a_loop(lambda: call(*arguments))}, device)
        found[f"{name} above its plan, {steps} descriptors"] = best["call"] - best["plan"]
    cudnn.destroy(handle)
    return found


class Nothing:
    """A plan that does nothing."""
    workspace_bytes = 0

    def execute(self, pointers, scalars=None, workspace=None, workspace_bytes=0, stream=None):
        pass


class TinyNetwork:
    """Descriptors and memory of an LSTM of 8 units over two sequences; ``calls``: {function: arguments}."""

    def __init__(self, handle, f32, steps, width=8, batch=2):
        self.handle, alloc = handle, lambda count: int(self._keep(handle.device.alloc(4 * count)).ptr)
        self.kept = []
        dropout, rnn, w = (cudnn.createDropoutDescriptor(), cudnn.createRNNDescriptor(),
                           cudnn.createFilterDescriptor())
        cudnn.setDropoutDescriptor(dropout, handle, 0.0, 0, 0, 0)
        cudnn.setRNNDescriptor(rnn, width, 1, dropout, 0, 0, cudnn.CUDNN_LSTM, f32)
        xs, state = [cudnn.createTensorDescriptor() for _ in range(steps)], cudnn.createTensorDescriptor()
        for desc, dims in (*((d, (batch, width, 1)) for d in xs), (state, (1, batch, width))):
            cudnn.setTensorNdDescriptor(desc, f32, 3, dims, (dims[1] * dims[2], dims[2], 1))
        params = cudnn.getRNNParamsSize(handle, rnn, xs[0], f32) // 4
        cudnn.setFilterNdDescriptor(w, f32, cudnn.CUDNN_TENSOR_NCHW, 3, (params, 1, 1))
        self.room_bytes = cudnn.getRNNWorkspaceSize(handle, rnn, steps, xs)
        self.room = alloc(self.room_bytes // 4 + 1)
        size = cudnn.getRNNTrainingReserveSize(handle, rnn, steps, xs)
        x, y, dx, dy = (alloc(steps * batch * width) for _ in range(4))
        hx, cx, hy, cy, dhy, dcy, dhx, dcx = (alloc(batch * width) for _ in range(8))
        pw, dw, reserve = alloc(params), alloc(params), alloc(size // 4)
        room, kept, s = (self.room, self.room_bytes), (reserve, size), state
        head = (handle, rnn, steps)
        self.calls = {
            "RNNForwardTraining": (*head, xs, x, s, hx, s, cx, w, pw, xs, y, s, hy, s, cy, *room, *kept),
            "RNNBackwardData": (*head, xs, y, xs, dy, s, dhy, s, dcy, w, pw, s, hx, s, cx, xs, dx, s, dhx, s,
                                dcx, *room, *kept),
            "RNNBackwardWeights": (*head, xs, x, s, hx, xs, y, *room, w, dw, *kept)}
        self.pointers = {"RNNForwardTraining": (x, pw, hx, cx, y, hy, cy, reserve),
                         "RNNBackwardData": (y, dy, pw, dhy, dcy, hx, cx, dx, reserve, dhx, dcx),
                         "RNNBackwardWeights": (x, y, reserve, hx, dw)}
        net, sizes = (rnn, dropout, steps), (self.room_bytes, size)
        self.keys = {"RNNForwardTraining": (*net, xs, s, s, w, xs, s, s, *sizes),
                     "RNNBackwardData": (*net, xs, xs, s, s, w, s, s, xs, s, s, *sizes),
                     "RNNBackwardWeights": (*net, xs, s, xs, self.room_bytes, w, size)}

    def _keep(self, buffer):
        self.kept.append(buffer)
        return buffer

    def put(self, name, executable):
        """Let this call run something else."""
        compute = dict(RNNForwardTraining=rnn_compute.TRAINING, RNNBackwardData=rnn_compute.DATA,
                       RNNBackwardWeights=rnn_compute.WEIGHTS)[name]
        absent = 1 << 8 if name == "RNNForwardTraining" else 0            # the states of dropout
        self.handle.table.put(compute, self.keys[name], True, executable, absent)


def ten_nodes(n: int) -> Graph:
    """A convolution with nine pointwise nodes behind it, f16 NHWC, of batch n."""
    wide, row = (n, 64, 56, 56), (1, 64, 1, 1)
    memory = lambda uid, dims: Tensor(uid, TensorDesc.packed("f16", dims, "nhwc"))
    tensors = [memory(1, wide), memory(2, (64, 64, 3, 3))]
    nodes, last = [Node(ConvFprop(pre_pad=1, post_pad=1), dict(x=1, w=2, y=3))], 3
    modes = ("add", "relu_fwd", "mul", "sigmoid_fwd", "max", "abs", "sub", "relu_fwd", "add")
    for i, mode in enumerate(modes):
        tensors.append(Tensor(last, TensorDesc.packed("f32", wide, "nhwc"), kind="virtual"))
        operands = dict(x=last, y=10 + i)
        if "b" in Pointwise(mode=mode).inputs():
            tensors.append(memory(30 + i, row))
            operands["b"] = 30 + i
        nodes.append(Node(Pointwise(mode=mode), operands))
        last = 10 + i
    return Graph(nodes, [*tensors, memory(last, wide)])


def ten_node_times(device, rounds=30) -> dict:
    """Milliseconds from nothing to an executable of ten nodes whose kernel is loaded:
    each of another batch."""
    times = []
    for n in range(2, rounds + 2):
        start = time.perf_counter()
        plans.build(ten_nodes(n), device)
        times.append(1e3 * (time.perf_counter() - start))
    return {"build of ten nodes, kernel known, ms": float(np.median(times[1:])),
            "build of ten nodes, kernel known, least ms": min(times[1:])}


def build_times(device) -> dict:
    """Milliseconds to build conv + bias + GELU: first ever, a new shape of the known
    module, the same graph again."""
    found = {}
    for label, n in (("first of the process", 2), ("new shape, module known", 3), ("another shape", 5)):
        start = time.perf_counter()
        fused_graph(device, n)
        found[f"build conv+bias+gelu, {label}, ms"] = 1e3 * (time.perf_counter() - start)
    return found


class _At:
    """A handle-like object: a device and a stream."""

    def __init__(self, device):
        self.device, self.stream = device, 0


def fused_graph(device, n=2, c=64, k=64, size=28, dtype=data_type.HALF):
    g = pygraph(io_data_type=dtype, intermediate_data_type=data_type.FLOAT,
                compute_data_type=data_type.FLOAT, handle=_At(device))
    nhwc = lambda d: [d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]]
    X, W, B = (g.tensor(d, nhwc(d)) for d in ([n, c, size, size], [k, c, 3, 3], [1, k, 1, 1]))
    y = g.gelu(g.bias(g.conv_fprop(X, W, padding=[1, 1], stride=[1, 1], dilation=[1, 1]), B)).set_output(True)
    g.build([heur_mode.A])
    return g, (X, W, B, y)


def pygraph_times(device) -> dict:
    """Microseconds of ``pygraph.execute`` of the tiny problem with a dict of torch tensors,
    of its plan with the same tensors and with addresses. Nothing where there is no torch."""
    try:
        import torch
    except ImportError:
        return {}
    g = pygraph(io_data_type=data_type.FLOAT, compute_data_type=data_type.FLOAT, handle=_At(device))
    X, W = g.tensor([1, 8, 8, 8], [512, 64, 8, 1]), g.tensor([8, 8, 3, 3], [72, 9, 3, 1])
    Y = g.conv_fprop(X, W, padding=[1, 1], stride=[1, 1], dilation=[1, 1]).set_output(True)
    Y.set_stride([512, 64, 8, 1])
    g.build([heur_mode.A])
    arrays = {t: torch.randn(*t.get_dim(), device=device.name) for t in (X, W, Y)}
    room = torch.empty(max(g.get_workspace_size(), 1), device=device.name, dtype=torch.uint8)
    by_uid = {t.get_uid(): array for t, array in arrays.items()}
    addresses = {t: array.data_ptr() for t, array in arrays.items()}
    case = bench.Case(Problem.parse(TINY), device)
    found = least_of({
        "raw": raw_launch(case, device), "nothing": in_a_loop(lambda: None),
        "tensors": in_a_loop(lambda: g.execute(arrays, room)),
        "uids": in_a_loop(lambda: g.execute(by_uid, room)),
        "addresses": in_a_loop(lambda: g.execute(addresses, room))}, device)
    above = lambda name: found[name] - found["nothing"] - found["raw"]
    return {"pygraph.execute above raw, {tensor: torch tensor}": above("tensors"),
            "pygraph.execute above raw, {uid: torch tensor}": above("uids"),
            "pygraph.execute above raw, {tensor: address}": above("addresses")}


def descriptor_times(device) -> dict:
    """Microseconds of ``cudnnBackendExecute`` of a finalized plan and pack above the plan's own execute."""
    handle, dims = create_handle(device), ((4, 2, 8, 14, 14), (2, 16, 8, 3, 3), (4, 2, 16, 14, 14))
    tensors = [forum.tensor(uid, d) for uid, d in enumerate(dims, 1)]
    plan = forum.plan_of(handle, [forum.convolution(*tensors)])
    buffers = {uid: device.alloc(4 * int(np.prod(d))) for uid, d in enumerate(dims, 1)}
    pack, made = forum.pack_of(device, plan, buffers), plan.made.on(device).plan
    pointers, room = [int(buffers[t.uid].ptr) for t in made.slots], device.alloc(max(made.workspace_bytes, 1))
    own, call = made.execute, cudnnBackendExecute
    address = int(room.ptr)
    found = least_of({"plan": in_a_loop(lambda: own(pointers, address)),
                      "descriptors": in_a_loop(lambda: call(handle, plan, pack))}, device)
    return {"cudnnBackendExecute above plan.execute": found["descriptors"] - found["plan"]}


def fused_cost(device, n=256, c=64, k=64, size=56) -> dict:
    """Device time of conv + bias + GELU in one launch beside the convolution alone, bf16 NHWC."""
    clock = bench.Clock(device)
    g, (X, W, B, y) = fused_graph(device, n, c, k, size, data_type.BFLOAT16)
    rng, buffers = np.random.default_rng(0), {}
    for t in (X, W, B, y):
        values = rng.uniform(-1, 1, 1 << 20).astype(np.float32)
        count = int(np.prod(t.get_dim()))
        buffers[t] = device.alloc(2 * count)
        device.copy_in(buffers[t].ptr, np.resize((values.view(np.uint32) >> 16).astype(np.uint16), count))
    ws = device.alloc(max(g.get_workspace_size(), 1))
    pack = {t: int(b.ptr) for t, b in buffers.items()}
    alone = bench.Case(Problem.parse(f"conv_fprop n{n}c{c}h{size}w{size} k{k}r3s3 pad1 bf16 nhwc"), device)
    fused, plain = clock.times([lambda: g.execute(pack, int(ws.ptr)), alone], 30)
    return {"plan of the fused graph": g.get_plan_name_at_index(0), "conv alone, us": float(np.median(plain)),
            "conv+bias+gelu, us": float(np.median(fused))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", default=None)
    args = parser.parse_args()
    device = devices.get(args.device)
    rows = {**build_times(device), **ten_node_times(device), **host_times(device), **rnn_times(device),
            **descriptor_times(device), **pygraph_times(device), **fused_cost(device)}
    for name, value in rows.items():
        print(f"{name:<48}{value if isinstance(value, (str, int)) else round(value, 3)}")
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

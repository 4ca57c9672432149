"""Named corners beside the random draws: empty tensors, single elements, padding wider than the image,
special values. Both devices."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import device as devices, plan as plans
from cydnn.ops import Problem
from support.check.matrix import execute, graph_of, run

pytestmark = pytest.mark.usefixtures("between_zones")

CORNERS = [
    "conv_fprop n0c8h4w4 k8r3s3 pad1 f16 nhwc", "conv_dgrad n0c8h4w4 k8r3s3 pad1 f32",
    "conv_wgrad n0c8h4w4 k8r3s3 pad1 f16 nhwc", "conv_wgrad n0c3h4w4 k2r3s3 pad1 f64",
    "conv_bgrad n0c8h4w4 f16", "conv_fprop n1c1h1w1 k1r1s1 f32", "conv_fprop n1c1h1w1 k1r3s3 pad2 f64",
    "conv_fprop n2c16h3w3 k8r5s5 pad4 dil2 stride2 bf16 nhwc", "conv_dgrad n2c16h9w9 k8r1s1 stride3 f16 nhwc",
    "conv_fprop n1c2049h2w2 k3r1s1 f16 nhwc", "matmul 0x8 8x4 f32", "matmul 4x0 0x8 f16",
    "matmul 4x0 0x8 f32", "matmul 1x1 1x1 f64", "matmul 3x5000 5000x2 f32", "matmul 5000x1 1x3 bf16",
    "softmax_fwd 0x10 f32", "softmax_fwd 7x1 bf16", "softmax_fwd 1x1 f64", "softmax_bwd 3x1 f16",
    "softmax_fwd 2x200003 f16", "softmax_bwd 2x200003 f32", "pooling_fwd n0c4h4w4 window=2 stride=2 f16",
    "pooling_fwd n1c1h1w1 window=1 f32", "pooling_fwd n2c8h3w3 window=2 pre_pad=3 stride=2 mode=max f16 nhwc",
    "pooling_fwd n2c8h3w3 window=2 pre_pad=3 stride=2 mode=avg_exclude_padding f32",
    "pooling_bwd n2c8h3w3 window=2 pre_pad=3 stride=2 mode=max bf16 nhwc",
    "pooling_bwd n0c4h4w4 window=2 stride=2 f32", "batch_norm_training n1c5h1w1 f32",
    "batch_norm_inference n0c5h2w2 f16", "batch_norm_bwd n1c5h1w1 f32",
    "batch_norm_training n3c1h1w40000 f16 nhwc", "transform x=0x3x4x4:f16 y=0x3x4x4:f32",
    "transform x=1x1x1x1:f32 y=1x1x1x1:bf16", "add_tensor a=1x3x1x1 c=0x3x4x4", "set_tensor 0x3x4x4",
    "set_tensor y=2x3x4x4:f16@100,30,7,1", "scale_tensor y=2x3x4x4:f32@100,30,7,1",
    "op_tensor a=0x3x4x4 b=1x3x1x1 c=0x3x4x4", "pointwise 0x5 mode=exp", "pointwise 1x1 mode=tanh_fwd f16",
    "reduction x=0x5 y=0x1 mode=add", "reduction x=0x5 y=1x5 mode=add", "reduction x=0x5 y=1x1 mode=max",
    "reduction x=3x5 y=3x5 mode=norm2", "reduction x=1x1000003:f32 y=1x1 mode=add",
]


@pytest.mark.parametrize("text", CORNERS)
def test_corner_on_the_numpy_device(text, numpy_device):
    assert not run(Problem.parse(text), numpy_device).findings


@pytest.mark.gpu
@pytest.mark.parametrize("text", CORNERS)
def test_corner_on_the_gpu(text, gpu):
    outcome = run(Problem.parse(text), gpu)
    assert outcome.ran and not outcome.findings, outcome


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 65504.0, -65504.0,
           6e-8, -6e-8, 1e-40, 3.0e38, 0.5, 2.0]


def result(device, text, values):
    """Outputs of a problem with every input filled from ``values``, by name."""
    problem = Problem.parse(text)
    with np.errstate(all="ignore"):
        given = {n: np.resize(np.roll(values, 3 * i), problem.operands[n].dims)
                 for i, n in enumerate(problem.op.reads) if problem.operands[n] is not None}
        buffers, _ = execute(plans.build(graph_of(problem), device), problem, given, given, device)
    return {n: buffers[n].read()[0] for n in problem.op.writes if n in buffers}


SPECIAL_CASES = [
    *(f"pointwise 15x16 mode={m} {t}"
      for m in ("relu_fwd", "tanh_fwd", "sigmoid_fwd", "gelu_fwd", "exp", "sqrt", "abs", "elu_fwd",
                "swish_fwd", "softplus_fwd", "floor", "neg", "reciprocal", "erf", "logical_not")
      for t in ("f32", "f16", "bf16", "f64")),
    *(f"pointwise x=15x16:{t} b=15x16:{t} mode={m} nan={n}" for m in ("max", "min", "relu_bwd")
      for n in ("propagate", "ignore") for t in ("f32", "bf16", "f64")),
    *(f"pointwise 15x16 mode=relu_fwd nan=ignore {t}" for t in ("f32", "f64")),
    *(f"pointwise x=15x16:f32 b=15x16:f32 mode={m}"
      for m in ("cmp_eq", "cmp_lt", "cmp_ge", "add", "mul", "logical_and")),
    *(f"pooling_fwd n1c1h15w16 window=3 stride=2 mode={m} nan={n} {t}" for m in ("max", "avg_include_padding")
      for n in ("ignore", "propagate") for t in ("f32", "f16", "f64")),
    *(f"reduction x=15x16:{t} y=15x1:{t} mode={m}" for m in ("max", "min", "amax")
      for t in ("f32", "bf16", "f64")),
    "softmax_fwd 15x16 f32", "softmax_fwd 15x16 algorithm=log bf16",
    "transform x=3x5x4x4:f32 y=3x5x4x4:f16@nhwc", "op_tensor a=15x16 b=15x16 c=15x16 mode=max nan=propagate",
]


@pytest.mark.gpu
@pytest.mark.parametrize("text", SPECIAL_CASES)
def test_special_values(text, gpu):
    """Infinities, NaN, zeros and the largest numbers come out as the reference says: by class,
    sign of zero aside, and near otherwise."""
    want, got = (result(d, text, np.array(SPECIAL)) for d in (devices.get("numpy"), gpu))
    for name in want:
        w, g = want[name], got[name]
        wrong = ~((np.isnan(w) & np.isnan(g)) | (w == g) | (np.abs(w - g) <= 0.02 * np.abs(w) + 1e-6)
                  | (np.isinf(g) & (np.abs(w) > 1e36)))       # a sum of huge numbers may overflow on the way
        assert not wrong.any(), f"{name}: {wrong.sum()} wrong, first: got {g[wrong][0]}, want {w[wrong][0]}"


@pytest.mark.gpu
@pytest.mark.parametrize(
    "text", ["conv_fprop x=2x8x6x6:f16@576,1,96,16 w=8x8x3x3:f16@nhwc y=2x8x6x6:f16@576,1,96,16 pad1 acc=f32",
             "transform x=2x4x4x4:f32@128,1,32,8 y=2x4x4x4:f32@128,1,32,8"])
def test_an_output_may_be_other_channels_of_the_input_buffer(text, gpu):
    """As a dense block does it: the first channels of an NHWC buffer are read, the next ones written;
    values as with two buffers."""
    problem = Problem.parse(text)
    plan = plans.build(graph_of(problem), gpu)
    x, dtype = problem.operands["x"], problem.operands["x"].dtype
    rng, bits = np.random.default_rng(3), {2: np.uint16, 4: np.uint32}[x.dtype.bytes]
    both = dtype.encode(rng.uniform(-1, 1, x.dims[0] * x.strides[0])).view(bits)
    shared, apart, y = gpu.alloc(both.nbytes), gpu.alloc(both.nbytes), gpu.alloc(both.nbytes)
    w = gpu.alloc(1 << 16)
    gpu.copy_in(w.ptr, dtype.encode(rng.uniform(-1, 1, 8 * 8 * 9)))
    workspace, shift = gpu.alloc(max(plan.workspace_bytes, 1)), x.dims[1] * x.dtype.bytes
    found = []
    for x_at, y_at in ((int(apart.ptr), int(y.ptr) + shift), (int(shared.ptr), int(shared.ptr) + shift)):
        for buffer in (shared, apart, y):
            gpu.copy_in(buffer.ptr, both)
        where = {"x": x_at, "y": y_at, "w": int(w.ptr)}
        plan.execute([where[d.name] for d in plan.slots], int(workspace.ptr))
        gpu.synchronize()
        found.append(gpu.copy_out(y_at - shift, np.empty_like(both)))
    assert (found[0] != both).any() and (found[0] == found[1]).all()

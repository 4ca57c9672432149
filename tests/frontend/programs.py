"""Programs as users of the cudnn-frontend package write them. Each takes a world (worlds.py) and compares
with its exact mathematics; only the import says which library runs."""
from __future__ import annotations

import cydnn.frontend as cudnn

HALF, FLOAT, BFLOAT16, INT8, INT32 = (getattr(cudnn.data_type, n)
                                      for n in ("HALF", "FLOAT", "BFLOAT16", "INT8", "INT32"))
MODES = [cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK]


def graph(w, io=HALF):
    return cudnn.pygraph(io_data_type=io, intermediate_data_type=FLOAT, compute_data_type=FLOAT,
                         handle=w.handle)


def run(w, g, pack):
    """Everything from the check to the results."""
    g.validate()
    g.build_operation_graph()
    g.create_execution_plans(MODES)
    g.check_support()
    g.build_plans()
    g.execute(pack, w.workspace(g.get_workspace_size()), handle=w.handle)
    w.synchronize()


def conv_bias_relu(w):
    x, f, b = w.random((2, 16, 9, 7), "f16"), w.random((24, 16, 3, 3), "f16"), w.random((1, 24, 1, 1), "f16")
    g = graph(w)
    X, W, B = g.tensor_like(x), g.tensor_like(f), g.tensor_like(b)
    conv = g.conv_fprop(image=X, weight=W, padding=[1, 1], stride=[2, 2], dilation=[1, 1])
    Y = g.relu(name="relu", input=g.bias(name="bias", input=conv, bias=B), lower_clip=0.5, upper_clip=2.5)
    Y.set_output(True)
    y = w.empty((2, 24, 5, 4), "f16")
    run(w, g, {X: x, W: f, B: b, Y: y})
    z = w.exact.conv(w.double(x), w.double(f), (1, 1), (1, 1), (2, 2)) + w.double(b)
    w.close_to(w.double(y), z.clip(0.5, 2.5), 1e-3, 1e-3)


def conv_pre_and_post_padding(w):
    """Rows are padded in front only; keys of the variant pack are uids."""
    x, f = w.random((1, 8, 6, 8), "f32"), w.random((8, 8, 3, 2), "f32")
    g = graph(w, FLOAT)
    X = g.tensor(name="X", dim=[1, 8, 6, 8], stride=[384, 1, 64, 8], uid=0)
    W = g.tensor(name="W", dim=[8, 8, 3, 2], stride=[48, 1, 16, 8], uid=-7)
    g.leaky_relu(g.conv_fprop(X, W, [2, 0], [0, 1], [1, 1], [1, 1]), 0.25).set_output(True).set_uid(40)
    y = w.empty((1, 8, 6, 8), "f32")
    run(w, g, {0: x, -7: f, 40: y, None: None})
    z = w.exact.conv(w.double(x), w.double(f), (2, 0), (0, 1), (1, 1))
    w.close_to(w.double(y), w.exact.where(z > 0, z, 0.25 * z), 1e-4, 1e-4)


def dgrad_drelu(w):
    dy, f, x = w.random((2, 16, 4, 4), "f16"), w.random((16, 8, 3, 3), "f16"), w.random((2, 8, 8, 8), "f16")
    g = graph(w)
    DY, W, X = g.tensor_like(dy), g.tensor_like(f), g.tensor_like(x)
    dgrad = g.conv_dgrad(loss=DY, filter=W, padding=[1, 1], stride=[2, 2], dilation=[1, 1])
    dgrad.set_dim([2, 8, 8, 8])
    DX = g.relu_backward(loss=dgrad, input=X).set_output(True)
    dx = w.empty((2, 8, 8, 8), "f16")
    run(w, g, {DY: dy, W: f, X: x, DX: dx})
    z = w.exact.dgrad(w.double(dy), w.double(f), (2, 8, 8, 8), (1, 1), (1, 1), (2, 2))
    w.close_to(w.double(dx), w.exact.where(w.double(x) > 0, z, 0 * z), 4e-3, 2e-3)


def wgrad(w):
    """16-bit in, 32-bit out."""
    x, dy = w.random((2, 16, 6, 6), "f16"), w.random((2, 8, 6, 6), "f16")
    g = graph(w)
    X, DY = g.tensor_like(x), g.tensor_like(dy)
    DW = g.conv_wgrad(image=X, loss=DY, padding=[1, 1], stride=[1, 1], dilation=[1, 1], name="wgrad")
    DW.set_output(True).set_dim([8, 16, 3, 3]).set_data_type(FLOAT)
    dw = w.empty((8, 16, 3, 3), "f32")
    run(w, g, {X: x, DY: dy, DW: dw})
    z = w.exact.wgrad(w.double(x), w.double(dy), (8, 16, 3, 3), (1, 1), (1, 1), (1, 1))
    w.close_to(w.double(dw), z, 1e-4, 1e-4)


def matmul_of_mixed_types(w):
    """int8 times bf16: a cast in front of one operand, B column-major, no default types."""
    a, b = w.random((2, 24, 32), "i8", "nchw"), w.random((2, 32, 16), "bf16", "columns")
    bias = w.random((1, 1, 16), "bf16", "nchw")
    g = cudnn.pygraph(handle=w.handle)
    A = g.tensor(name="A", dim=[2, 24, 32], stride=[768, 32, 1], data_type=INT8)
    B = g.tensor(name="B", dim=[2, 32, 16], stride=[512, 1, 32], data_type=BFLOAT16)
    C = g.tensor_like(bias, "C")
    cast = g.identity(A, compute_data_type=FLOAT).set_data_type(BFLOAT16)
    product = g.matmul(cast, B, compute_data_type=FLOAT, name="matmul").set_data_type(FLOAT)
    sum_ = g.bias(input=product, bias=C, compute_data_type=FLOAT).set_data_type(FLOAT)
    Y = g.relu(sum_, compute_data_type=FLOAT).set_output(True).set_data_type(FLOAT)
    y = w.empty((2, 24, 16), "f32", "nchw")
    run(w, g, {A: a, B: b, C: bias, Y: y})
    w.close_to(w.double(y), w.exact.relu(w.double(a) @ w.double(b) + w.double(bias)), 1e-4, 1e-5)


def pointwise_graph(w):
    """Two outputs, a value that is read twice, a number, a mask."""
    x, r = w.random((4, 6, 8), "f32", "nchw"), w.random((4, 1, 8), "f32", "nchw")
    g = graph(w, FLOAT)
    X, R = g.tensor_like(x), g.tensor_like(r)
    number = g.tensor(dim=[1, 1, 1], stride=[1, 1, 1], is_pass_by_value=True, name="number")
    silu = g.mul(X, g.sigmoid(X)).set_output(True)
    shifted = g.add(g.mul(silu, number), R)
    column = g.gen_index(X, axis=2)
    three = g.tensor_scalar(3.0, cudnn.scalar_type.COMPILE_TIME_CONST)
    Y = g.binary_select(g.exp(shifted), g.neg(shifted), g.cmp_lt(column, three)).set_output(True)
    s, y = w.empty((4, 6, 8), "f32", "nchw"), w.empty((4, 6, 8), "f32", "nchw")
    run(w, g, {X: x, R: r, number: w.number(0.75), silu: s, Y: y})
    e, z = w.exact, w.double(x)
    want = z / (1 + e.exp(-z))
    moved = want * 0.75 + w.double(r)
    w.close_to(w.double(s), want, 1e-5, 1e-5)
    w.close_to(w.double(y), e.where(e.index(z, 2) < 3, e.exp(moved), -moved), 1e-5, 1e-5)


def reductions(w):
    """Sums of each channel, and the largest absolute value of each row."""
    x, s = w.random((2, 8, 6, 6), "f16"), w.random((1, 8, 1, 1), "f16")
    g = graph(w)
    X, S = g.tensor_like(x), g.tensor_like(s)
    scaled = g.scale(X, S)
    add = g.reduction(scaled, cudnn.reduction_mode.ADD, name="sum").set_dim([1, 8, 1, 1]).set_output(True)
    amax = g.reduction(scaled, mode=cudnn.reduction_mode.AMAX).set_dim([2, 1, 6, 6]).set_output(True)
    add.set_data_type(FLOAT)
    amax.set_data_type(FLOAT)
    total, largest = w.empty((1, 8, 1, 1), "f32"), w.empty((2, 1, 6, 6), "f32")
    run(w, g, {X: x, S: s, add: total, amax: largest})
    z = w.double(x) * w.double(s)
    w.close_to(w.double(total), w.exact.sum(z, (0, 2, 3)), 1e-4, 1e-4)
    w.close_to(w.double(largest), w.exact.amax(z, (1,)), 1e-5, 1e-5)


def batch_norm_training(w):
    """Running statistics in place, epsilon and momentum by value, a mask of one bit an element."""
    dims, c = (4, 16, 5, 6), (1, 16, 1, 1)
    x = w.random(dims, "f16")
    scale, bias, mean, var = (w.random(c, "f32", low=low) for low in (-1, -1, -1, 0))
    old_mean, old_var = w.double(w.copy(mean)), w.double(w.copy(var))
    g = graph(w)
    X, S, B, M, V = map(g.tensor_like, (x, scale, bias, mean, var))
    epsilon, momentum = (g.tensor(dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], data_type=FLOAT,
                                  is_pass_by_value=True)
                         for _ in range(2))
    zero = g.tensor_scalar(0.0, cudnn.scalar_type.RUNTIME_PARAM)
    normal, saved_mean, saved_rstd, next_mean, next_var = g.batchnorm(
        name="BN", input=X, scale=S, bias=B, in_running_mean=M, in_running_var=V, epsilon=epsilon,
                                                                      momentum=momentum)
    Y = g.relu(name="relu", input=normal).set_output(True)
    mask = g.cmp_gt(name="cmp", input=Y,
                    comparison=zero).set_output(True).set_data_type(cudnn.data_type.BOOLEAN)
    for t in (saved_mean, saved_rstd, next_mean, next_var):
        t.set_output(True).set_data_type(FLOAT)
    y, bits, sm, sr = w.empty(dims, "f16"), w.bits(4 * 16 * 5 * 6), w.empty(c), w.empty(c)
    run(w, g,
        {X: x, S: scale, B: bias, M: mean, V: var, epsilon: w.number(1e-3), momentum: w.number(0.1), Y: y,
               mask: bits, saved_mean: sm, saved_rstd: sr, next_mean: mean, next_var: var})
    z, axes, count = w.double(x), (0, 2, 3), 4 * 5 * 6
    m = w.exact.mean(z, axes)
    v = w.exact.mean((z - m) ** 2, axes)
    want = w.exact.relu(w.double(scale) * (z - m) / w.exact.sqrt(v + 1e-3) + w.double(bias))
    w.close_to(w.double(y), want, 2e-3, 2e-3)
    w.close_to(w.double(sm), m, 1e-5, 1e-5)
    w.close_to(w.double(sr), 1 / w.exact.sqrt(v + 1e-3), 1e-4, 1e-4)
    w.close_to(w.double(mean), 0.9 * old_mean + 0.1 * m, 1e-5, 1e-5)
    w.close_to(w.double(var), 0.9 * old_var + 0.1 * v * count / (count - 1), 1e-5, 1e-5)
    w.close_to(w.unpacked(bits, y), w.exact.where(w.double(y) > 0, 1.0 + 0 * z, 0 * z), 0, 0)


def batch_norm_backward(w):
    """The gradient of a ReLU in front, 16-bit images, 32-bit statistics."""
    dims, c = (4, 8, 5, 5), (1, 8, 1, 1)
    x, dy = w.random(dims, "f16"), w.random(dims, "f16")
    scale, mean = w.random(c, "f32"), w.random(c, "f32")
    rstd = w.random(c, "f32", low=0.5, high=2.0)
    g = graph(w)
    X, DY, S, M, R = map(g.tensor_like, (x, dy, scale, mean, rstd))
    y = g.batchnorm_inference(input=X, mean=M, inv_variance=R, scale=S, bias=M)
    drelu = g.relu_backward(loss=DY, input=y).set_data_type(FLOAT)
    DX, dscale, dbias = g.batchnorm_backward(name="DBN", grad=drelu, input=X, scale=S, mean=M, inv_variance=R)
    DX.set_output(True).set_data_type(HALF)
    dscale.set_output(True).set_data_type(FLOAT)
    dbias.set_output(True).set_data_type(FLOAT)
    dx, ds, db = w.empty(dims, "f16"), w.empty(c), w.empty(c)
    run(w, g, {X: x, DY: dy, S: scale, M: mean, R: rstd, DX: dx, dscale: ds, dbias: db})
    z, s, m, r, axes, count = w.double(x), w.double(scale), w.double(mean), w.double(rstd), (0, 2,
                                                                                             3), 4 * 5 * 5
    hat = (z - m) * r
    grad = w.exact.where(hat * s + m > 0, w.double(dy), 0 * z)
    bias, weight = w.exact.sum(grad, axes), w.exact.sum(grad * hat, axes)
    w.close_to(w.double(db), bias, 1e-3, 1e-4)
    w.close_to(w.double(ds), weight, 1e-3, 1e-4)
    w.close_to(w.double(dx), s * r * (grad - bias / count - hat * weight / count), 4e-3, 2e-3)


def matmul_stored_and_read(w):
    """A plan that is written down and read into another graph, run with the tensors of the first."""
    a, b = w.random((1, 16, 24), "f32", "nchw"), w.random((1, 24, 8), "f32", "nchw")
    g = graph(w, FLOAT)
    A, B = g.tensor_like(a), g.tensor_like(b)
    Y = g.gelu(g.matmul(A, B)).set_output(True)
    g.build([cudnn.heur_mode.A])
    again = cudnn.pygraph(handle=w.handle)
    again.deserialize(w.handle, bytes(g.serialize()))
    y = w.empty((1, 16, 8), "f32", "nchw")
    again.execute({A: a, B: b, Y: y}, w.workspace(again.get_workspace_size()))
    w.synchronize()
    z = w.double(a) @ w.double(b)
    w.close_to(w.double(y), z * 0.5 * (1 + w.exact.erf(z * 0.5 ** 0.5)), 1e-4, 1e-4)


def conv_of_whole_numbers(w):
    """int8 with sums in int32, exact."""
    x, f = w.random((2, 16, 6, 6), "i8"), w.random((8, 16, 3, 3), "i8")
    g = cudnn.pygraph(io_data_type=INT8, intermediate_data_type=INT32, compute_data_type=INT32,
                      handle=w.handle)
    X, W = g.tensor_like(x), g.tensor_like(f)
    conv = g.conv_fprop(image=X, weight=W, padding=[1, 1], stride=[1, 1], dilation=[1, 1])
    Y = g.identity(name="identity", input=conv).set_output(True).set_data_type(INT32)
    y = w.empty((2, 8, 6, 6), "i32")
    run(w, g, {X: x, W: f, Y: y})
    w.close_to(w.double(y), w.exact.conv(w.double(x), w.double(f), (1, 1), (1, 1), (1, 1)), 0, 0)


def mixture_of_experts(w):
    """Tokens in groups, one of which is empty, gathered to the first product, scattered behind the second."""
    tokens, up, down = (w.random(dims, "f16", layout) for dims, layout in (
        ((1, 20, 16), "nchw"), ((3, 16, 24), "columns"), ((3, 24, 8), "columns")))
    begins = w.whole([0, 9, 9], (3, 1, 1))
    token, slot = w.whole([7 * i % 20 for i in range(40)]), w.whole([i // 20 for i in range(40)])
    g = graph(w)
    X, U, D, B, I, S = map(g.tensor_like, (tokens, up, down, begins, token, slot))
    mode = cudnn.moe_grouped_matmul_mode
    h = g.relu(g.moe_grouped_matmul(X, U, B, token_index=I, mode=mode.GATHER, name="up")).set_data_type(HALF)
    Y = g.moe_grouped_matmul(h, D, B, I, S, mode.SCATTER, top_k=2, name="down").set_output(True)
    y = w.empty((1, 40, 8), "f16", "nchw")
    run(w, g, {X: tokens, U: up, D: down, B: begins, I: token, S: slot, Y: y})
    x, u, d, z = w.double(tokens)[0], w.double(up), w.double(down), w.double(y)[0]
    for i in range(40):
        expert, t = 0 if i < 9 else 2, 7 * i % 20
        w.close_to(z[2 * t + i // 20], w.exact.relu(x[t] @ u[expert]) @ d[expert], 1e-2, 1e-2)


def matmul_of_scaled_blocks(w):
    """Factors of 8 bits with powers of two for 32 elements each, those of one in tiles; the product into such
    numbers again."""
    t = cudnn.data_type
    a, b = w.random((1, 96, 64), "f8_e4m3", "nchw"), w.random((1, 64, 32), "f8_e4m3", "columns")
    one = w.random((1, 96, 2), "f8_e8m0", "nchw", 0.5, 4)
    two = w.random((1, 4, 128), "f8_e8m0", "columns", 0.5, 4)
    g = graph(w)
    A, B = (g.tensor_like(x).set_data_type(t.FP8_E4M3) for x in (a, b))
    S, R = (g.tensor_like(x).set_data_type(t.FP8_E8M0) for x in (one, two))
    R.set_reordering_type(cudnn.tensor_reordering.F8_128x4)
    product = g.matmul(g.block_scale_dequantize(A, S, [1, 32]),
                       g.block_scale_dequantize(input=B, descale=R, block_size=[32, 1]), name="mm")
    Y, Z = g.block_scale_quantize(product, block_size=16, axis=1, transpose=True)
    Y.set_output(True).set_data_type(t.FP8_E5M2), Z.set_output(True).set_data_type(t.FP8_E4M3)
    y, z = w.empty((1, 96, 32), "f8_e5m2", "columns"), w.empty((1, 6, 32), "f8_e4m3", "columns")
    run(w, g, {A: a, B: b, S: one, R: two, Y: y, Z: z})
    assert Y.get_stride() == [96, 1, 96]
    tiles = w.double(two)[0].T.reshape(-1)     # of columns below 32, at 16 * column, its four rows
    scales = w.exact.stack([tiles[16 * n:16 * n + 2] for n in range(32)], 1)
    spread = lambda s, axis: w.exact.repeat(s, 32, axis)
    want = (w.double(a)[0] * spread(w.double(one)[0], 1)) @ (w.double(b)[0] * spread(scales, 0))
    kept = w.double(y)[0] * w.exact.repeat(w.double(z)[0], 16, 0)
    w.close_to(kept, want, float(abs(want).max()) / 8, 0.13)


PROGRAMS = (conv_bias_relu, conv_pre_and_post_padding, dgrad_drelu, wgrad, matmul_of_mixed_types,
            pointwise_graph, reductions,
            batch_norm_training, batch_norm_backward, matmul_stored_and_read, conv_of_whole_numbers,
            mixture_of_experts, matmul_of_scaled_blocks)

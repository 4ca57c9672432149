"""Random problems from the declarations of the ops: every dtype, layouts, gaps, odd sizes,
size-1 dims, attributes, blends."""
from __future__ import annotations

import random
import zlib
from dataclasses import replace
from math import prod

from hypothesis import strategies as st

from cydnn import ops
from cydnn.ops.dropout import mask_desc
from cydnn.ops.pointwise import MODES as POINTWISE
from cydnn.ops.reduction import MODES as REDUCTIONS
from cydnn.ops.problem import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc

from . import attention, moves, parts, resample, spatial
from .declared import declared
from .rnn import NETWORKS, network
from .tensors import FLOATS, image as _image, size, spaced, tensor, types as _types

STORED = (*FLOATS, "f8_e5m2", "i8", "u8", "i32", "i64")      # whole bytes
# of the problems of ops that engines take in any types, and of others
MIXED, CAST = 0.2, 0.1
TENSOR_OPS = (ops.Transform, ops.AddTensor, ops.OpTensor, ops.SetTensor, ops.ScaleTensor)
BITS = (ops.Pointwise, *TENSOR_OPS)                          # ops that packed booleans are drawn for
TAKE_ANY = (ops.ConvFprop, ops.ConvDgrad, ops.ConvWgrad, ops.Matmul, ops.Reduction, *BITS)
ALIGNMENTS = (16,) * 14 + (8, 4, 1)                          # bytes


def problems(op_class) -> st.SearchStrategy[Problem]:
    """A hypothesis strategy of problems of one op."""
    return st.integers(0, 2 ** 40).map(lambda seed: draw(op_class, random.Random(seed)))


def gpu_draws(op_class, part, count):
    """The problems of the GPU matrix: ``count`` of one op in one of its parts. Always the same."""
    rng = random.Random(zlib.crc32(f"{op_class.name} {part}".encode()))
    return (draw(op_class, rng) for _ in range(count))


def draw(op_class, rng) -> Problem:
    """One random valid problem of an op; now and then of mixed types, now and then at odd addresses."""
    while True:
        try:
            found = _MAKERS.get(op_class, declared)(op_class, rng)
            if rng.random() < (MIXED if op_class in TAKE_ANY else CAST):
                found = _mixed(found, rng)
            alignment = max(rng.choice(ALIGNMENTS), 8 if op_class.shared else 1)         # that of a message
            return Problem(found.op, found.operands, alignment)
        except BadParam:
            continue                             # a geometry without output: draw again


def _mixed(problem, rng) -> Problem:
    """The problem with other types: of each operand one of its own, of the sums as well."""
    op = replace(problem.op, compute=rng.choice(["f32", "f32", "f64", "i32", "f16", "bf16"]))
    operands = {}
    for name, d in problem.operands.items():
        kinds = STORED
        if op.compute == "i32" and name in op.reads:
            kinds = ("i8", "u8", "i32") if rng.random() < 0.8 else STORED
        elif type(op) in BITS and (name in op.reads or d.is_dense):
            kinds = (*STORED, "bool", "bool")
        elif isinstance(op, ops.SdpaBwd):        # statistics that are not the scores' grow with whole numbers
            kinds = FLOATS if name != "stats" else (d.dtype.name,)
        several = d if isinstance(d, tuple) else () if d is None else (d,)
        made = tuple([one.replace(dtype=rng.choice(kinds)) for one in several])
        operands[name] = made if isinstance(d, tuple) else made[0] if made else None
    return Problem(op, operands)


def _conv(op_class, rng):
    dtype, compute = _types(rng)
    rank = rng.choices([1, 2, 3], [2, 11, 3])[0]
    groups, c, k = _channels(rng)
    spatial = [rng.randint(1, 18 if rank < 3 else 8) for _ in range(rank)]
    window = [rng.choice([1, 1, 2, 3, 3, 5, 7]) if rank < 3 else rng.randint(1, 3) for _ in range(rank)]
    stride, dilation = ([rng.choice(some) for _ in range(rank)] for some in ([1, 1, 2, 3], [1, 1, 1, 2]))
    if rng.random() < 0.16:                      # what the algorithms of 3x3 filters take
        groups, window, stride, dilation = 1, [3] * rank, [1] * rank, [1] * rank
        k = 1 + k % 8 if spatial[0] % 3 else k   # or those of few filters
    elif rank == 2 and rng.random() < 0.18:      # what sliding depthwise kernels take
        groups = c = k = 8 * rng.randint(1, 6)
        window, stride, dilation = [rng.choice([3, 5, 7])] * 2, [rng.choice([1, 2])] * 2, [1, 1]
    elif rng.random() < 0.15:                    # groups that are joined to 64 channels
        groups = rng.choice([2, 4, 8, 16]) * rng.randint(1, 2)
        c = k = 64 * rng.randint(1, 2)
    same, pre = rng.random() < 0.5, [rng.randint(0, 3) for _ in range(rank)]
    is_product = same and pre[0] == 3 and groups == 1
    if is_product:                               # one tap: a product of images as they lie
        window, stride, dilation, pre = [1] * rank, [1] * rank, [1] * rank, [0] * rank
    elif rank == 3 and rng.random() < 0.7:
        same, c = True, rng.choice([c, 4, 64]) if groups == 1 else c
        _along(rng, window, stride, pre)
    joins, splits = (same and groups == 1 and pre[0] == n for n in (2, 1))
    if joins or splits:
        dtype, c, k, window = _beside(rng, joins, spatial)
        stride, dilation, pre, compute = window, [1] * rank, [0] * rank, "f32"
    op = op_class(pre_pad=pre, post_pad=pre if same else [rng.randint(0, 3) for _ in range(rank)],
                  stride=stride, dilation=dilation, compute=compute,
                  mode=rng.choices(["cross_correlation", "convolution"], [3, 0 if splits else 1])[0])
    x, w = (rng.randint(1, 5), c, *spatial), (k, c // groups, *window)
    y = op.out_dims(x, w)
    if min(y) < 1:
        raise BadParam("empty output")
    layout = rng.choice(["nhwc", "nhwc", "nchw", None])
    layout = "nchw" if is_product else "nhwc" if joins or splits else layout
    x, w, y = (tensor(rng, dtype, d, layout) for d in (x, w, y))
    return Problem(op, {ops.ConvFprop: dict(x=x, w=w, y=y), ops.ConvDgrad: dict(dy=y, w=w, dx=x),
                        ops.ConvWgrad: dict(x=x, dy=y, dw=w)}[op_class])


def _channels(rng) -> tuple:
    """Groups, channels and filters."""
    groups = rng.choices([1, 2, 4, 3], [6, 1, 1, 1])[0]
    unit, most = (8, 5) if rng.random() < 0.6 else (1, 9)
    c, k = groups * unit * rng.randint(1, most), groups * unit * rng.randint(1, most)
    return (c, c, c * rng.randint(1, 2)) if rng.random() < 0.25 else (groups, c, k)      # depthwise


def _along(rng, *dims):
    """Volumes that are images: filters along some dims alone."""
    for i in rng.choice([(0,), (1, 2)]):
        for values, alone in zip(dims, (1, 1, 0)):
            values[i] = alone


def _beside(rng, joins, spatial) -> tuple:
    """Type, channels, filters and window of pixels that are joined, or of patches along the width."""
    taps = 1 if joins else rng.choice([2, 4])
    c, k = 8 * rng.choice([1, 1, 1, 2, 3, 5]), 8 * rng.randint(1, 9)
    spatial[-1] = 8 * taps if joins else taps * rng.randint(1, 6)
    return rng.choice(["f16", "bf16"]), c, k, [1] * (len(spatial) - 1) + [taps]


def _bgrad(op_class, rng):
    dtype, compute = _types(rng)
    dims = _image(rng, 64)
    dy = tensor(rng, dtype, dims)
    return Problem(op_class(compute=compute),
                   dict(dy=dy, db=TensorDesc.packed(dtype, (1, dims[1], *(1,) * (len(dims) - 2)))))


def _gen_stats(op_class, rng):
    dtype, compute = _types(rng)
    dims = _image(rng, 64)
    thin = TensorDesc.packed("f64" if dtype == "f64" else rng.choice(["f32", dtype]),
                             (1, dims[1], *(1,) * (len(dims) - 2)))
    return Problem(op_class(compute=compute), dict(x=tensor(rng, dtype, dims), sum=thin, sq_sum=thin))


def _matmul(op_class, rng):
    dtype, compute = _types(rng)
    unit = rng.choice([1, 8])
    m, n, k = (unit * size(rng, 260 // unit) for _ in range(3))
    batch = [rng.randint(1, 4) for _ in range(rng.choice([0, 0, 1, 2]))]
    share = lambda b, chance: 1 if chance < 0.3 else b // 2 if chance < 0.5 and b % 2 == 0 else b
    thin = lambda: tuple(share(b, rng.random()) for b in batch)
    kind = lambda: rng.choice(["nchw", "nchw", "t", "gaps"])

    def operand(dims):
        how = kind()
        order = list(range(len(dims)))
        if how == "t":
            order[-1], order[-2] = order[-2], order[-1]
        return TensorDesc.packed(dtype, dims, order) if how != "gaps" else tensor(rng, dtype, dims, "gaps")
    a, b = operand((*thin(), m, k)), operand((*thin(), k, n))
    out = op_class(compute=compute).infer(a, b)["c"].dims
    return Problem(op_class(compute=compute), dict(a=a, b=b, c=operand(out)))


def _pointwise(op_class, rng):
    mode = rng.choice(list(POINTWISE))
    dtype, compute = _types(rng)
    dims = _image(rng, ranks=(2, 3, 4, 4, 5))
    names = ("x", "b", "t")[:POINTWISE[mode].inputs]
    layout = rng.choice(["nchw", "nhwc", None])
    descs = {}
    for name in names:
        form = ("full" if name == names[0]
                else rng.choices(["full", "channel", "scalar", "some"], [4, 2, 1, 1])[0])
        these = {"full": dims, "channel": (1, dims[1], *(1,) * (len(dims) - 2)), "scalar": (1,) * len(dims),
                 "some": tuple(rng.choice([1, d]) for d in dims)}[form]
        descs[name] = tensor(rng, dtype if rng.random() < 0.85 else rng.choice(FLOATS), these, layout)
    op = op_class(mode=mode, axis=rng.randrange(len(dims)), relu_lower_clip_slope=rng.choice([0.0, 0.01]),
                  relu_upper_clip=rng.choice([float("inf"), 0.75]), elu_alpha=rng.choice([1.0, 0.5]),
                  softplus_beta=rng.choice([1.0, 2.0]), swish_beta=rng.choice([1.0, 1.5]),
                  nan=rng.choice(["propagate", "ignore"]), compute=compute)
    descs["y"] = tensor(rng, dtype, dims, layout)
    return Problem(op, descs)


def _reduction(op_class, rng):
    dtype, compute = _types(rng)
    dims = _image(rng, 96, ranks=(2, 2, 3, 4, 4, 5))
    out = rng.choice([tuple(1 for _ in dims), (1, *dims[1:]), (*dims[:-1], 1),
                      tuple(rng.choice([1, d]) for d in dims), (1, dims[1], *(1,) * (len(dims) - 2))])
    y_type = rng.choice([dtype, dtype, "f64" if dtype == "f64" else "f32"])
    return Problem(op_class(mode=rng.choice(list(REDUCTIONS)), compute=compute),
                   dict(x=tensor(rng, dtype, dims), y=tensor(rng, y_type, out)))


def _softmax(op_class, rng):
    dtype, compute = _types(rng)
    dims = rng.choice([lambda: (rng.randint(1, 20),
                                rng.choice([rng.randint(1, 300), 8 * rng.randint(1, 1200)])),
                       lambda: _image(rng, 64)])()
    op = op_class(algorithm=rng.choice(["accurate", "fast", "log"]),
                  mode=rng.choice(["channel", "instance"]), compute=compute)
    layout = rng.choice(["nchw", "nhwc", None])
    found = {name: tensor(rng, dtype, dims, layout) for name in op.operands() if name not in op.optional}
    kept = {n: op.thin(TensorDesc.packed(dtype, dims)) for n in sorted(op.optional) if rng.random() < 0.1}
    return Problem(op, found | kept)


def _pooling(op_class, rng):
    dtype, compute = _types(rng)
    how = rng.choices(["any", "network", "global"], [3, 4, 1])[0]
    dims = _image(rng, 48)
    if how != "any":                             # what networks do: whole vectors of channels or of pixels
        dims = (rng.randint(1, 4), 8 * rng.randint(1, 5), rng.randint(3, 20),
                rng.choice([8, 16, 24, 32, rng.randint(3, 20)]))
    rank = len(dims) - 2
    window, pad, stride = {"any": lambda: ([rng.randint(1, 4) for _ in range(rank)],
                                           [rng.choice([0, 0, 1, 2]) for _ in range(rank)],
                                           [rng.randint(1, 3) for _ in range(rank)]),
                           "network": lambda: (rng.choice([2, 3]), rng.choice([0, 1]), 2),
                           "global": lambda: (dims[2:], 0, 1)}[how]()
    op = op_class(mode=rng.choice(["max", "avg_include_padding", "avg_exclude_padding"]),
                  nan=rng.choice(["ignore", "propagate"]), window=window,
                  pre_pad=pad, stride=stride, compute=compute)
    out, layout = op.out_dims(dims), rng.choice(["nchw", "nhwc", None])
    if min(out) < 1:
        raise BadParam("empty output")
    return Problem(op,
                   {n: tensor(rng, dtype, dims if n in ("x", "dx") else out, layout) for n in op.operands()})


def _batch_norm(op_class, rng):
    dtype, compute = _types(rng)
    dims = _image(rng, 64, ranks=(2, 3, 4, 4, 4, 5))
    op = op_class(mode=rng.choices(["spatial", "per_activation"], [3, 1])[0], compute=compute)
    parameter = TensorDesc.packed("f64" if dtype == "f64" else "f32", op.parameter_dims(dims))
    layout = rng.choice(["nchw", "nhwc", "nhwc", None])
    absent = {n for pair in (("running_mean", "running_var", "next_running_mean", "next_running_var"),
                             ("mean", "rstd")) if rng.random() < 0.4 for n in pair} & op.optional
    image = ("x", "y", "dy", "dx")
    return Problem(op, {n: None if n in absent | op.shared else tensor(rng, dtype, dims, layout)
                        if n in image else parameter for n in op.operands()})


def _norm(op_class, rng):
    dtype, compute = _types(rng)
    dims = rng.choice([lambda: (rng.randint(1, 20), 8 * rng.randint(1, 300)),
                       lambda: _image(rng, 64, ranks=(2, 3, 4, 4, 5))])()
    mode = rng.choice(["layer", "rms", "ada_layer", *(["instance"] if len(dims) > 2 else [])])
    op = op_class(mode=mode, axis=rng.randint(1, len(dims) - 1), compute=compute)
    parameter, wide = op.parameter_dims(dims), "f64" if dtype == "f64" else "f32"
    absent = {n for n in sorted(op.optional) if rng.random() < 0.4}
    if "rstd" in op.reads:                       # mean is nothing without it
        absent = absent - {"mean"} | ({"mean"} if "rstd" in absent else set())
    absent |= {"mean"} if mode == "rms" else set()
    absent |= {"dscale"} if "scale" in absent else set()
    shapes = dict.fromkeys(("scale", "bias", "dscale", "dbias"), parameter)
    shapes |= dict.fromkeys(("mean", "rstd"), op.thin(dims))
    layout = rng.choice(["nchw", "nhwc", None])
    return Problem(op, {n: None if n in absent else TensorDesc.packed(wide, shapes[n]) if n in shapes
                        else tensor(rng, dtype, dims, layout) for n in op.operands()})


def _local_norm(op_class, rng, compute):
    return op_class(window=rng.randint(1, 16), scale=rng.choice([1e-4, 0.5, 2.0]),
                    offset=rng.choice([2.0, 0.5]), power=rng.choice([0.75, 0.75, 0.5, 1.0, 0.3, 2.5]),
                    compute=compute)


def _lrn(op_class, rng):
    dtype, compute = _types(rng)
    dims = _image(rng, 64, ranks=(2, 3, 4, 4, 4, 5))
    if rng.random() < 0.5:                       # what networks have: whole vectors of channels
        dims = (dims[0], 8 * rng.randint(1, 8), *dims[2:])
    op = _local_norm(op_class, rng, compute)
    layout = rng.choice(["nchw", "nhwc", "nhwc", None])
    return Problem(op, {n: tensor(rng, dtype, dims, layout) for n in op.operands()})


def _divisive_norm(op_class, rng):
    dtype, compute = _types(rng)
    op = _local_norm(op_class, rng, compute)
    rank = rng.choices([3, 4, 5], [1, 8, 1])[0]
    op = replace(op, window=op.window if rank < 5 else min(op.window, 4))
    most = {3: 60, 4: 24, 5: 7}[rank]
    dims = (rng.randint(1, 3), rng.choice([rng.randint(1, 9), 8 * rng.randint(1, 4)]),
            *(rng.choice([rng.randint(1, most), 4 * rng.randint(1, max(most // 4, 1))])
              for _ in range(rank - 2)))
    layout = rng.choice(["nchw", "nchw", "nhwc", None])
    absent = {n for n, share in (("means", 0.6), ("dmeans", 0.5)) if rng.random() < share} & op.optional
    return Problem(op, {n: None if n in absent else tensor(rng, dtype, dims, layout) for n in op.operands()})


def _tensor_op(op_class, rng):
    dtype, compute = _types(rng)
    dims = _image(rng, 48)
    op = op_class(compute=compute, **({"mode": rng.choice(["add", "mul", "min", "max"]),
                                       "nan": rng.choice(["ignore", "propagate"])}
                                      if op_class is ops.OpTensor else {}))
    layout = rng.choice(["nchw", "nhwc", None])
    thin = tuple(1 if rng.random() < 0.5 else d for d in dims)
    other = rng.choice(FLOATS) if op_class is ops.Transform and rng.random() < 0.3 else dtype
    make = dict(x=lambda: tensor(rng, other, dims), y=lambda: tensor(rng, dtype, dims),
                a=lambda: tensor(rng, dtype, thin if op_class is ops.AddTensor else dims, layout),
                b=lambda: tensor(rng, dtype, thin, layout), c=lambda: tensor(rng, dtype, dims, layout))
    return Problem(op, {n: make[n]() for n in op.operands()})


def _split(rng, count) -> tuple:
    """Some dims of so many elements."""
    dims = [count]
    for _ in range(rng.randint(0, 3)):
        last = dims.pop()
        by = rng.choice([d for d in range(1, min(last, 24) + 1) if last % d == 0])
        dims += [by, last // by]
    rng.shuffle(dims)
    return tuple(dims)


def _dropout(op_class, rng):
    dtype, compute = _types(rng)
    dims = rng.choice([lambda: _image(rng, 48),
                       lambda: (rng.randint(1, 3), 8 * rng.randint(1, 6), rng.randint(1, 6), 8),
                       lambda: (rng.randint(1, 3) * 4096 + rng.choice([0, 1, 8]),)])()
    count = prod(dims)
    op = op_class(p=rng.choice([0.5, 0.1, 0.9, 0.0, 1.0, rng.random()]), compute=compute)
    if op_class is ops.DropoutFactors:
        return Problem(op, dict(y=TensorDesc.packed(dtype, dims)))
    both = rng.choice(["nchw", "nhwc", None])
    read, written = (tensor(rng, dtype, d, both) for d in
                     (dims, dims if rng.random() < 0.6 else _split(rng, count)))
    operands = {op.reads[0]: read, op.writes[0]: written}
    return Problem(op, operands if op_class is ops.DropoutFwd else {**operands, "mask": mask_desc(count)})


def _im2col(op_class, rng):
    dtype, compute = _types(rng)
    dims = _image(rng, 24, ranks=(3, 4, 4, 5))
    some = lambda values: [rng.choice(values) for _ in dims[2:]]
    op = op_class(window=some([1, 2, 3, 5]), pre_pad=some([0, 0, 1, 2]), post_pad=some([0, 0, 1]),
                  stride=some([1, 1, 2, 3]), dilation=some([1, 1, 2]), compute=compute,
                  mode=rng.choice(["cross_correlation", "convolution"]))
    x = tensor(rng, dtype, dims)
    col = op.complete(dict(x=x))["col"]
    return Problem(op, dict(x=x, col=tensor(rng, dtype, col.dims, rng.choice(["nchw", "permuted", "gaps"]))))


def _states(op_class, rng):
    return Problem(op_class(compute=rng.choice(["f32", "f64"])), {})


def _transform(op_class, rng):
    found = _tensor_op(op_class, rng)
    if rng.random() < 0.85:
        return found
    return Problem(found.op, {n: spaced(rng, found.operands["y"].dtype.name, d.dims) for n,
                              d in found.operands.items()})


# Of operations whose random problems should be of certain kinds; others are drawn by their declarations.
_MAKERS = {**{op: network for op in NETWORKS}, **moves.MAKERS, **parts.MAKERS, **resample.MAKERS,
           **spatial.MAKERS,
           ops.ConvFprop: _conv, ops.ConvDgrad: _conv, ops.ConvWgrad: _conv, ops.ConvBgrad: _bgrad,
           ops.GenStats: _gen_stats,
           ops.Matmul: _matmul, ops.Pointwise: _pointwise, ops.Reduction: _reduction,
           ops.SoftmaxFwd: _softmax, ops.SoftmaxBwd: _softmax, ops.PoolingFwd: _pooling,
           ops.PoolingBwd: _pooling, ops.BatchNormTraining: _batch_norm, ops.BatchNormInference: _batch_norm,
           ops.BatchNormBwd: _batch_norm, ops.NormFwd: _norm, ops.NormBwd: _norm,
           ops.Sdpa: attention.sdpa, ops.SdpaBwd: attention.sdpa_bwd,
           **{op: _tensor_op for op in TENSOR_OPS},
           ops.Transform: _transform, ops.DropoutFwd: _dropout, ops.DropoutBwd: _dropout,
           ops.DropoutFactors: _dropout, ops.DropoutStates: _states, ops.LrnFwd: _lrn,
           ops.LrnBwd: _lrn, ops.Im2col: _im2col,
           ops.DivisiveNormFwd: _divisive_norm, ops.DivisiveNormBwd: _divisive_norm}

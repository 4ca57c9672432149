"""Random problems of random numbers, of batch normalization in parts, and of what attention is made of."""
from __future__ import annotations

from dataclasses import replace

from cydnn import ops
from cydnn.ops import block_scale
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc

from .tensors import image, tensor, types


def _bn_parts(op_class, rng):
    dtype, compute = types(rng)
    dims, op = image(rng, 64), op_class(compute=compute)
    wide = "f64" if dtype == "f64" else "f32"
    thin = TensorDesc.packed(wide, (1, dims[1], *(1,) * (len(dims) - 2)))
    if op_class is ops.BnBackwardWeights:
        layout = rng.choice(["nchw", "nhwc", None])
        return Problem(op, {n: tensor(rng, dtype, dims, layout) if n in ("x", "dy") else thin
                            for n in op.operands()})
    count = TensorDesc.packed(rng.choice([wide, "i64", "i32"]), (1,) * len(dims))
    absent = {n for n in op.optional if "running" in n} if rng.random() < 0.4 else set()
    absent |= {n for n in ("mean", "rstd") if rng.random() < 0.3}
    return Problem(op, {n: None if n in absent else count if n == "count" else thin for n in op.operands()})


def _rng(op_class, rng):
    dtype, compute = types(rng)
    dims = image(rng, 48, ranks=(2, 3, 4, 4, 5)) if rng.random() < 0.9 else (rng.randint(1, 3000),)
    op = op_class(distribution=rng.choice(["bernoulli", "uniform", "normal"]), compute=compute,
                  probability=rng.choice([0.5, 0.0, 1.0, rng.random()]), low=rng.choice([0.0, -3.0]),
                  high=rng.choice([1.0, 2.5]), mean=rng.choice([0.0, 2.0]), stdev=rng.choice([1.0, 0.25]))
    return Problem(op, dict(y=tensor(rng, dtype, dims)))


def _rope(op_class, rng):
    dtype, compute = types(rng)
    dims = image(rng, 40, ranks=(2, 3, 4, 4))
    d = rng.choice([rng.randint(1, 20), 8 * rng.randint(1, 8)])
    r = rng.choice([d // 2, d // 2, rng.randint(0, d // 2)])
    thin = tensor(rng, rng.choice([dtype, "f64" if dtype == "f64" else "f32"]),
                  (*(rng.choice([1, n]) for n in dims[:-1]), r))
    op = op_class(pairing=rng.choice(["half", "interleaved"]), inverse=rng.random() < 0.3, compute=compute)
    x = tensor(rng, dtype, (*dims[:-1], d), rng.choice(["nchw", None]))
    return Problem(op, dict(x=x, cos=thin, sin=thin, y=tensor(rng, dtype, x.dims,
                                                              rng.choice(["nchw", None]))))


def _paged_cache_load(op_class, rng):
    dtype, compute = types(rng)
    b, h, page, n = rng.randint(1, 4), rng.randint(1, 4), rng.choice([1, 4, 8, 13]), rng.randint(1, 6)
    d = rng.choice([rng.randint(1, 20), 8 * rng.randint(1, 6)])
    one = lambda dims: tensor(rng, "i32", dims, rng.choice(["nchw", "gaps"]))
    s = rng.choice([n * page, rng.randint(1, n * page)])
    layout = rng.choice(["nchw", None])
    return Problem(op_class(compute=compute), dict(
        container=tensor(rng, dtype, (rng.randint(1, 9), h, page, d), layout), table=one((b, 1, n, 1)),
        seq_len=one((b, 1, 1, 1)), y=tensor(rng, dtype, (b, h, s, d), layout)))


def _matmul_sized(op_class, rng):
    dtype, compute = types(rng)
    m, n, k = (rng.choice([1, rng.randint(1, 30), 8 * rng.randint(1, 6)]) for _ in range(3))
    batch = [rng.randint(1, 3) for _ in range(rng.choice([0, 1, 1, 2]))]
    layout = rng.choice(["nchw", None])
    sizes = {f"{x}_size": TensorDesc.packed(rng.choice(["i32", "i64"]),
                                            (*(rng.choice([1, b, b]) for b in batch), 1, 1))
             for x in "mnk" if rng.random() < 0.6}
    op = op_class(padding=rng.choice([0.0, -2.5]), compute=compute)
    thin = lambda: [rng.choice([1, b, b]) for b in batch]
    a, b = tensor(rng, dtype, (*thin(), m, k), layout), tensor(rng, dtype, (*thin(), k, n), layout)
    sizes = {name: d for name, d in sizes.items()
             if all(s in (1, c) for s, c in zip(d.dims, op.infer(a, b)["c"].dims[:-2]))}
    return Problem(op, dict(a=a, b=b, **sizes))


def _grouped(rng):
    """(types, experts, offsets, sizes) of grouped products."""
    experts, batches = rng.choice([1, rng.randint(1, 6)]), rng.choice([1, 1, 2])
    count = experts * batches + (experts == 1 or rng.random() < 0.5)
    offsets = tensor(rng, rng.choice(["i32", "i64"]), (count, 1, 1), rng.choice(["nchw", "gaps"]))
    sizes = [rng.choice([1, rng.randint(1, 30), 8 * rng.randint(1, 6)]) for _ in range(4)]
    return types(rng), experts, offsets, sizes


def _grouped_matmul(op_class, rng):
    (dtype, compute), experts, offsets, (t, m, n, k) = _grouped(rng)
    mode = rng.choice(["none", "gather", "scatter"])
    op = op_class(mode=mode, top_k=rng.choice([1, 2, 3]) if mode == "scatter" else 1, compute=compute)
    m = m if mode == "gather" else t
    one = lambda wanted: tensor(rng, "i32", (1, m, 1), rng.choice(["nchw", "gaps"])) if wanted else None
    return Problem(op, dict(x=tensor(rng, dtype, (1, t, k)), w=tensor(rng, dtype, (experts, k, n)),
                            offsets=offsets, index=one(mode != "none"), slot=one(mode == "scatter"),
                            y=tensor(rng, dtype, (1, m, n))))


def _grouped_matmul_wgrad(op_class, rng):
    (dtype, compute), experts, offsets, (t, _, n, k) = _grouped(rng)
    return Problem(op_class(compute=compute), dict(
        x=tensor(rng, dtype, (1, t, k)), dy=tensor(rng, dtype, (1, t, n)), offsets=offsets,
        dw=tensor(rng, dtype, (experts, k, n))))


def _block_scale(op_class, rng):
    return _blocks_of_rows(op_class, rng) if rng.random() < 0.25 else _blocks(op_class, rng)


def _blocks_of_rows(op_class, rng):
    """Whole eights of rows that lie side by side, of 8 bits and more."""
    size, to = 8 << rng.randrange(6), rng.choice(["f8_e4m3", "f8_e5m2"])
    batch = (rng.randint(1, 4) for _ in range(rng.choice([0, 1, 2])))
    dims = (*batch, rng.randint(1, 150), 8 * rng.randint(1, 40))
    is_tiled = rng.random() < 0.4
    scales = rng.choice(block_scale.SCALES[:2] if is_tiled else block_scale.SCALES)
    least = (*dims[:-1], -(-dims[-1] // size))
    scale = (TensorDesc.packed(scales, block_scale.padded(least, len(dims) - 1), range(len(dims))) if is_tiled
             else TensorDesc.packed(scales, least))
    wide = TensorDesc.packed(rng.choice(["f32", "f16", "bf16"]), dims)
    if op_class is ops.BlockScaleQuantize:
        return Problem(op_class(block=size, axis=len(dims) - 1, to=to, scales=scales, is_tiled=is_tiled),
                       dict(x=wide, scale=scale, y=TensorDesc.packed(to, dims)))
    return Problem(op_class(block=size, is_tiled=is_tiled),
                   dict(x=TensorDesc.packed(to, dims), scale=scale, y=wide))


def _blocks(op_class, rng):
    dtype, compute = types(rng)
    dims = image(rng, 40, ranks=(2, 3, 4, 4))
    dims = (*dims[:-1], rng.choice([dims[-1], rng.randint(1, 150)]))
    is_tiled, axis = rng.random() < 0.4, len(dims) - 1 - (rng.random() < 0.3)
    size = rng.choice([16, 32, rng.randint(1, 40)])
    scales = rng.choice(block_scale.SCALES[:2] if is_tiled else block_scale.SCALES)
    blocks = [size if i == axis else 1 for i in range(len(dims))]
    if op_class is ops.BlockScaleQuantize:
        to = rng.choice([name for name in block_scale.MOST if name != "f4_e2m1" or scales != "f32"])
        op = op_class(block=size, axis=axis, to=to, scales=scales,
                      is_tiled=is_tiled, compute=compute)
        if op.has_pairs:
            op, dims = replace(op, block=2 * size), tuple(
                [2 * n if i == axis else n for i, n in enumerate(dims)])
            blocks[axis] = 2 * size
        x = tensor(rng, dtype, dims)
    else:
        blocks = blocks if is_tiled else [n if i == axis else rng.choice([1, 1, 2, 5])
                                          for i, n in enumerate(blocks)]
        pairs = rng.choice([-1, -1, *range(len(dims))])
        op = op_class(block=blocks, is_tiled=is_tiled, compute=compute, pairs=pairs)
        x = tensor(rng, "u8" if pairs >= 0 else rng.choice([dtype, "f8_e4m3", "i8"]), dims)
        dims = tuple([2 * n if i == pairs else n for i, n in enumerate(dims)])
    least = [-(-n // one) + (rng.random() < 0.1) for n, one in zip(dims, blocks)]
    scale = tensor(rng, scales, least)
    if is_tiled:
        scale = TensorDesc.packed(scales, block_scale.padded(least, axis), block_scale.order(len(dims), axis))
    is_made = op_class is ops.BlockScaleQuantize
    y = tensor(rng, op.stored() if is_made else dtype,
               block_scale.in_pairs(dims, axis if is_made and op.has_pairs else -1))
    return Problem(op, dict(x=x, scale=scale, y=y))


def _signal(op_class, rng):
    dtype, _ = types(rng)
    dims = image(rng, 40)
    op = op_class(mode=rng.choice(["set", "wait"]), value=rng.choice([0, 1, 5]))
    return Problem(op, dict(x=tensor(rng, dtype, dims), y=tensor(rng, dtype, dims),
                            flag=TensorDesc.packed("i32", (1,) * rng.randint(1, 4))))


def _peer_reduction(op_class, rng):
    many, channels = rng.randint(1, 4), rng.choice([rng.randint(1, 20), rng.randint(1, 300)])
    op = op_class(mode=rng.choice(["moments", "sums"]), rank=rng.randrange(many),
                  share=rng.randint(1, 10 ** 6))
    dims = rng.choice([(1, channels), (1, channels, 1, 1), (channels,)])
    own = TensorDesc.packed("f32", dims)
    return Problem(op, dict(a=own, b=own, peers=(TensorDesc.packed("f32", (many, 4 * channels)),) * many))


MAKERS = {ops.BlockScaleQuantize: _block_scale, ops.BlockScaleDequantize: _block_scale,
          ops.GroupedMatmul: _grouped_matmul, ops.GroupedMatmulWgrad: _grouped_matmul_wgrad,
          ops.Signal: _signal, ops.PeerReduction: _peer_reduction, ops.MatmulSized: _matmul_sized,
          ops.Rope: _rope, ops.PagedCacheLoad: _paged_cache_load, ops.Rng: _rng, ops.BnFinalize: _bn_parts,
          ops.BnBackwardWeights: _bn_parts}

"""Random problems of resampling."""
from __future__ import annotations

from dataclasses import replace

from cydnn import ops
from cydnn.ops.problem import Problem
from cydnn.ops.resample import MODES
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc

from .tensors import image, tensor, types

UNITS = (1, 1, 1, 2, 3)


def _op(op_class, rng, rank, compute):
    mode, units = rng.choice(list(MODES)), rng.choice(UNITS)
    some = lambda *values: [rng.choice(values) for _ in range(rank)]
    window = {"bilinear": 2, "nearest": 1}.get(mode) or some(1, 2, 2, 3, 4)
    padding = rng.choice(["zero", "edge", *(["neg_inf"] * 2 if mode == "max" else [])])
    pad = some(0, 0, 1, 2)
    return op_class(mode=mode, window=window, pre_pad=pad, post_pad=rng.choice([pad, some(0, 1, 2, 3)]),
                    stride=some(*({1: (1, 2, 3), 2: (1, 1, 2, 3), 3: (1, 2, 4)}[units])), denominator=units,
                    padding=padding, nan=rng.choice(["ignore", "propagate"]), compute=compute)


def _resample(op_class, rng):
    dtype, compute = types(rng)
    dims = image(rng, 36)
    if rng.random() < 0.5:                       # whole vectors of channels
        dims = (dims[0], 8 * rng.randint(1, 4), *dims[2:])
    op = _op(op_class, rng, len(dims) - 2, compute)
    if op.mode == "max" and rng.random() < 0.4:  # windows side by side, with nothing between them
        window = op.geometry(len(dims))[0]
        op = replace(op, stride=window, pre_pad=0, post_pad=0, denominator=1)
        dims = (*dims[:2], *(max(d // w, 1) * w for d, w in zip(dims[2:], window)))
    out, layout = op.out_dims(dims), rng.choice(["nchw", "nhwc", "nhwc", None])
    if min(out) < 1:
        raise BadParam("empty output")
    made = lambda d: tensor(rng, dtype, d, layout)
    index = tensor(rng, rng.choice(["i8", "u8", "i32", "i64"]), out, layout) if (
        op.mode == "max" and rng.random() < 0.5) else None
    if op_class is ops.ResampleFwd:
        return Problem(op, dict(x=made(dims), y=made(out), **({"index": index} if index else {})))
    reads = op.mode == "max" and index is None or rng.random() < 0.5
    return Problem(op, dict(dy=made(out), x=made(dims) if reads else None, index=index, dx=made(dims),
                            y=TensorDesc.packed(dtype, out) if rng.random() < 0.2 else None))


MAKERS = {ops.ResampleFwd: _resample, ops.ResampleBwd: _resample}

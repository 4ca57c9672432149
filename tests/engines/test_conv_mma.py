"""The tensor-core convolutions without a GPU: refusals, contracts, and the CUDA source itself run thread by thread on the host."""
from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cuda_on_host as host
from cydnn.device.facts import KNOWN
from cydnn.dtypes import BY_NAME
from cydnn.engines import conv_dgrad_mma, conv_fprop_mma, conv_mma, conv_nhwc, conv_wgrad_mma
from cydnn.engines.engine import Match
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad
from cydnn.tensor import TensorDesc

H200 = KNOWN["h200"]
ENGINES = conv_fprop_mma.ENGINES + conv_dgrad_mma.ENGINES + conv_wgrad_mma.ENGINES + conv_nhwc.ENGINES


def match(op_class, x, w, *, dtype="f16", layouts=("nhwc",) * 3, **attributes) -> Match:
    """The Match of a convolution of x with w, given by dims; ``layouts`` of x, w and y."""
    op = op_class(**attributes)
    dims = {"x": x, "w": w, "y": op.out_dims(x, w)}
    part = {"dx": "x", "dw": "w", "dy": "y"}
    descs = {name: TensorDesc.packed(dtype, dims[part.get(name, name)], layouts["xwy".index(part.get(name, name))])
             for name in op.reads + op.writes}
    return Match(op, op.complete(descs), {name: i for i, name in enumerate(descs)})


def reasons(engine, p, dev=H200):
    return " | ".join(engine.refuse(p, dev))


def engine_for(p):
    return next(e for e in ENGINES if e.op is type(p.op) and e.accepts(p, H200))


def stored(desc, logical):
    """Raw storage of a tensor, 256-byte aligned, with the logical values at its strides."""
    raw = host.aligned(desc.extent * desc.dtype.bytes + 16)
    view(desc, raw)[...] = desc.dtype.encode(logical)
    return raw


def view(desc, raw):
    flat = raw.view(desc.dtype.numpy)
    return np.lib.stride_tricks.as_strided(flat, desc.dims, [s * desc.dtype.bytes for s in desc.strides])


def check_on_host(engine, p, *, alpha=1.0, beta=0.0, late=False, seed=0):
    """Run the engine's plan on the host and compare with the reference."""
    assert engine.accepts(p, H200), reasons(engine, p)
    rng = np.random.default_rng(seed)
    logical = {name: d.dtype.round(rng.uniform(-1, 1, d.dims)) for name, d in p.operands.items()}
    out = p.op.writes[0]
    if beta == 0:
        logical[out] = np.full(p.operands[out].dims, np.nan)
    tensors = {p.uids[name]: stored(d, logical[name]) for name, d in p.operands.items()}
    host.run(engine.plan(p, H200), tensors, dict(alpha=alpha, beta=beta), late=late)
    got = p.operands[out].dtype.decode(view(p.operands[out], tensors[p.uids[out]]).copy())
    want = p.op.run_reference({k: (v if k != out or beta else np.zeros_like(v)) for k, v in logical.items()}, dict(alpha=alpha, beta=beta))[out]
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    assert np.isfinite(got).all(), f"{p.op} {p.operands}: {np.argwhere(~np.isfinite(got))[:5]}"
    error = np.abs(got - want).max(initial=0)
    assert error <= 2 * p.operands[out].dtype.eps * scale, f"{p.op} {p.operands}: error {error} of {scale} at {np.argwhere(np.abs(got - want) > 2 * p.operands[out].dtype.eps * scale)[:5]}"


def draw(rng: random.Random, op_class, small=True) -> Match:
    """A random problem that some engine here may take; ``small``: for the host."""
    while True:
        spatial = rng.choice([1, 2, 2, 2, 3])
        groups = rng.choice([1, 1, 1, 1, 2, 3])
        if groups > 1:
            c, k = 8 * rng.randint(1, 3), 8 * rng.randint(1, 3)
        else:
            c, k = (rng.choice([1, 3, 8, 16, 20, 64, 72, 136]) for _ in range(2))
        each = lambda values: tuple(rng.choice(values) for _ in range(spatial))
        taps, stride, dilation = each([1, 2, 3, 3, 5]), each([1, 1, 2, 3]), each([1, 1, 2, 3])
        pre, post, size = each([0, 1, 2]), each([0, 1, 3]), each([3, 5, 8, 9] if spatial > 2 else [4, 7, 12, 13])
        x, w = (rng.randint(1, 3 if spatial > 2 else 4), c * groups, *size), (k * groups, c, *taps)
        attributes = dict(pre_pad=pre, post_pad=post, stride=stride, dilation=dilation,
                          mode=rng.choice(["cross_correlation", "cross_correlation", "convolution"]))
        layouts = tuple(rng.choice(["nhwc", "nhwc", "nchw"]) for _ in range(3))
        out = op_class(**attributes).out_dims(x, w)
        if min(out[2:]) >= 1 and np.prod(out) * np.prod(w[1:]) < (3e6 if small else 1e12):
            p = match(op_class, x, w, dtype=rng.choice(["f16", "bf16"]), layouts=layouts, **attributes)
            if any(e.op is op_class and e.accepts(p, H200) for e in ENGINES):
                return p

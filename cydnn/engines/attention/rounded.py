"""How far attention may be off whose weights, and their gradients, are rounded before they meet others."""
from __future__ import annotations

from math import sqrt

import numpy as np

from ...dtypes import bf16, f32
from ...ops.attention.sdpa import paged


def with_rounded_weights(op, arrays, scalars, results, least=0.0, kind=bf16, of_scores=0.0) -> dict:
    """What rounding errors of each output scale with: as the op says, and for o the roundings of weights to
    type ``kind``. ``least``: of a row whose largest is 1, a weight that may be off by as much as it is.
    ``of_scores``: by how much of the sum of its |q * k| a score may be off; 0: as sums of f32 are."""
    numbers = {name: arrays.get(name) for name in op.reads if name not in ("q", "k", "v")}
    given = {name: scalars.get(name, default) for name, default in op.scalars.items()}
    plain = op.reference(arrays["q"], arrays["k"], np.abs(arrays["v"]), **numbers, **given)["o"]
    sums = 8 + 2 * sqrt(arrays["q"].shape[3] + arrays["k"].shape[3])     # roundings of f32, as allowed
    found = op.magnitude(arrays, scalars, results)
    lost = least * np.nan_to_num(np.abs(arrays["v"])).sum()
    found |= dict(o=found["o"] + (np.nan_to_num(plain) * kind.eps / 2 + lost) / f32.eps / sums)
    found["o"] = np.where(_wild(op, arrays), np.nan, found["o"])
    more = max(1, of_scores / f32.eps / sums)
    return {name: size * more for name, size in found.items()}


def _wild(op, arrays) -> np.ndarray:
    """(b, h, 1, d): where a value within the lengths is no number, which meets weights of 0, too."""
    v, heads, keys = arrays["v"], arrays["q"].shape[1], arrays.get("len_kv")
    if (table := arrays.get("table_v")) is not None:
        v = paged(v, table, 2, op.max_kv or arrays["table_k"].shape[2] * arrays["k"].shape[3])
    there = True if keys is None else np.arange(v.shape[2])[:, None] < keys
    return np.repeat((~np.isfinite(v) & there).any(2, keepdims=True), heads // v.shape[1], 1)


LEAST = 2.0 ** -25                               # half the least number of f16


def with_rounded_gradients(op, arrays, scalars, results) -> dict:
    """The op's, and weights and gradients of scores, which are rounded before they meet the others, and where
    heads are long before the one is made of the other."""
    found = op.magnitude(arrays, scalars, results)
    q, k, v = (arrays[name] for name in "qkv")
    terms = q.shape[3] + v.shape[3] + max(k.shape[3], q.shape[1] * q.shape[2])
    made = op.off(arrays, scalars, _rounded)
    roundings = 8 + 2 * sqrt(terms)                              # of f32, as allowed
    return found | {name: found[name] + made[name] / f32.eps / roundings for name in made}


def _rounded(p, ds) -> tuple:
    """How far weights and gradients of scores are off, by their type or because they are small."""
    half = lambda x: np.where(x != 0, np.maximum(np.abs(x) * bf16.eps / 2, LEAST), 0.0)
    slope = np.abs(np.divide(ds, p, out=np.zeros_like(ds), where=p != 0))
    return half(p), half(ds) + slope * np.minimum(half(p), p)

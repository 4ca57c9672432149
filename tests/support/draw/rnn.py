"""Random recurrent networks."""
from __future__ import annotations

from cydnn import ops
from cydnn.ops.problem import Problem
from cydnn.ops.rnn_network import STATES

from .tensors import types

NETWORKS = (ops.RnnFwd, ops.RnnBwdData, ops.RnnBwdWeights)


def batches(rng, most):
    """Active sequences of one to eight steps, never more than before."""
    steps, batch = rng.choice([1, 2, rng.randint(1, 8)]), rng.choice([1, rng.randint(1, 5), most])
    if rng.random() < 0.4:
        return (batch,) * steps
    return tuple(sorted((rng.randint(1, batch) for _ in range(steps)), reverse=True))


def network(op_class, rng) -> Problem:
    """All cells, directions and depths; small networks, and such as whole tiles fit."""
    dtype, compute = types(rng)
    fits = rng.random() < 0.4
    hidden = 32 * rng.randint(1, 4) if fits else rng.choice([rng.randint(1, 9), rng.randint(1, 40)])
    skip = rng.random() < 0.25
    inputs = hidden if skip else 16 * rng.randint(1, 8) if fits else rng.randint(1, 40)
    op = op_class(cell=rng.choice(["relu", "tanh", "lstm", "lstm", "gru", "gru"]), hidden=hidden,
                  layers=rng.choice([1, 1, 2, 3]), bidirectional=rng.random() < 0.4,
                  input="skip" if skip else "linear", batches=batches(rng, 16 if fits else 7),
                  compute=compute, dropout=rng.choice([0.0, 0.0, 0.3, 1.0]))
    descs = op.described(dtype, inputs, *(n for n in op.operands() if n != "states"))
    split = rng.random() < 0.3
    for name in descs:
        if descs[name] is not None and name in STATES and split:
            descs[name] = op.split(dtype)
        if name in op.optional and rng.random() < 0.3:
            descs[name] = None
    if "states" in op.writes and not (descs["reserve"] and op.has_dropout):
        descs["states"] = None
    return Problem(op, descs)

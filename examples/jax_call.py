"""Functions on arrays of JAX, on the CPU or a GPU: called at once, and in ``jax.jit`` with their gradient.

    python examples/jax_call.py

A call reads the array through DLPack and hands one of JAX back. Inside of ``jit`` it is a callback; its
gradient is written with two more functions of ours. Needs jax.
"""
from __future__ import annotations

import sys

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit("jax_call: needs the package jax: pip install jax")

import numpy as np

import cydnn


def called(function, like, *arrays):
    """A function of cydnn as a callback, whose result looks like an array."""
    host = lambda *given: np.asarray(function(*[np.asarray(a) for a in given]), like.dtype)
    return jax.pure_callback(host, jax.ShapeDtypeStruct(like.shape, like.dtype), *arrays,
                             vmap_method="sequential")


@jax.custom_vjp
def linear(x, w):
    """x (n, c) times w (k, c) transposed."""
    return called(cydnn.linear, jnp.zeros((x.shape[0], w.shape[0]), x.dtype), x, w)


def backward(saved, dy):
    x, w = saved
    return called(cydnn.matmul, x, dy, w), called(lambda a, b: cydnn.matmul(a.T, b), w, dy, x)


linear.defvjp(lambda x, w: (linear(x, w), (x, w)), backward)


def main() -> float:
    """The largest error of result and gradients against JAX's own."""
    x, w = jax.random.normal(jax.random.key(0), (4, 6)), jax.random.normal(jax.random.key(1), (3, 6))
    y = cydnn.relu(cydnn.linear(x, w))
    assert isinstance(y, jax.Array)
    errors = [float(abs(y - jax.nn.relu(x @ w.T)).max())]
    loss = lambda product: lambda x, w: jnp.square(jnp.tanh(product(x, w))).sum()
    ours = jax.jit(jax.grad(loss(linear), (0, 1)))(x, w)
    theirs = jax.grad(loss(lambda x, w: x @ w.T), (0, 1))(x, w)
    errors += [float(abs(a - b).max()) for a, b in zip(ours, theirs)]
    print(f"largest error: {max(errors):.1g}")
    return max(errors)


if __name__ == "__main__":
    main()

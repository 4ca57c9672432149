"""Functions as operations of JAX: a small network, its gradient and a training loop, compiled by ``jax.jit``.

    python examples/jax_call.py

Beside it the same network of JAX's own operations. Runs on what JAX runs on, the CPU or a GPU. Needs jax.
"""
from __future__ import annotations

import sys
from functools import partial

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit("jax_call: needs the package jax: pip install jax")

import cydnn.jax as cj

STEPS, RATE = 40, 0.2


def ours(weights, x):
    filters, matrix = weights
    y = cj.max_pool(cj.relu(cj.conv(x, filters, padding="same")), 2)
    return cj.log_softmax(cj.linear(y.reshape(len(x), -1), matrix))


def theirs(weights, x):
    filters, matrix = weights
    y = jax.nn.relu(jax.lax.conv_general_dilated(x, filters, (1, 1), "SAME"))
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return jax.nn.log_softmax(y.reshape(len(x), -1) @ matrix.T)


@partial(jax.jit, static_argnums=0)
def step(network, weights, x, labels):
    """(loss, weights after a step of gradient descent)."""
    loss = lambda w: -jnp.take_along_axis(network(w, x), labels[:, None], 1).mean()
    found, grads = jax.value_and_grad(loss)(weights)
    return found, jax.tree.map(lambda w, g: w - RATE * g, weights, grads)


def train(network) -> list[float]:
    """Losses on bars in noise, upright ones and others."""
    keys = jax.random.split(jax.random.key(0), 4)
    labels = jax.random.bernoulli(keys[0], 0.5, (64,)).astype(jnp.int32)
    bars = jnp.zeros((8, 8)).at[:, 3].set(2.0)
    x = jnp.where(labels[:, None, None] == 1, bars, bars.T)[:, None]
    x += jax.random.normal(keys[1], x.shape)
    weights = [0.3 * jax.random.normal(keys[2], (4, 1, 3, 3)), 0.1 * jax.random.normal(keys[3], (2, 64))]
    losses = []
    for _ in range(STEPS):
        loss, weights = step(network, weights, x, labels)
        losses.append(float(loss))
    return losses


def main() -> dict:
    """The losses of both networks."""
    found = dict(ours=train(ours), theirs=train(theirs))
    for name, losses in found.items():
        print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}")
    return found


if __name__ == "__main__":
    main()

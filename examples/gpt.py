"""Train a small GPT on the reference manual that ships with Python (`help("LOOPING")` and its like), on cydnn
alone.

    python examples/gpt.py [--device numpy|cuda:0] [--steps 200] [--layers 2] [--record run.json]

A training step is one graph (``cydnn.pygraph``): embedding, blocks of RMS norm, causal attention with rotary
embeddings and a GELU layer, the loss, and every gradient; Adam is another. Each layer below adds its forward
operations and returns what adds its backward ones. The same program runs on a GPU and without one: the device
is one word. examples/decode.py writes with it.
"""
from __future__ import annotations

import argparse
import json
import time

import numpy as np

from cydnn import data_type, device as devices, heur_mode, norm_forward_phase, pygraph, reduction_mode
from cydnn.frontend import create_handle, scalar_type
from text import LETTERS, text

BATCH, CONTEXT, WIDTH, HEADS = 8, 32, 64, 4
SIZE = WIDTH // HEADS                            # of a head
OPTIONS = dict(attn_scale=SIZE ** -0.5)
RATE, BETA1, BETA2, EPSILON, WARM_UP = 3e-3, 0.9, 0.99, 1e-8, 20
HELD_OUT = 0.04                                  # of the text
PACKED = lambda dims: [int(np.prod(dims[i + 1:])) for i in range(len(dims))]


def turns_of(first: int, count: int) -> tuple:
    """(cosines, sines) of the rotary embedding of places, (1, 1, count, SIZE / 2) each."""
    angles = np.outer(np.arange(first, first + count), 1e4 ** (-2 * np.arange(SIZE // 2) / SIZE))
    return tuple(f(angles).astype(np.float32)[None, None] for f in (np.cos, np.sin))


def constant(g, number):
    return g.tensor_scalar(number, scalar_type.COMPILE_TIME_CONST)


class Network:
    """The graph of a step over (batch, context) letters. ``shapes``: of the weights, in the order in which
    they lie in one buffer; so do their gradients."""

    def __init__(self, handle, layers: int, batch=BATCH, context=CONTEXT):
        self.batch, self.context, self.rows = batch, context, batch * context
        self.g = pygraph(io_data_type=data_type.FLOAT, intermediate_data_type=data_type.FLOAT,
                         compute_data_type=data_type.FLOAT, handle=handle)
        self.shapes: dict = {}
        self.weights: dict = {}
        self.gradients: dict = {}
        self.letters, self.targets = self._one_hot(len(LETTERS)), self._one_hot(len(LETTERS))
        turns = [1, 1, context, SIZE // 2]
        self.turns = [self.g.tensor(turns, PACKED(turns)) for _ in range(2)]
        (x, back_of_letters), backs = self._linear(self.letters, "letters", len(LETTERS), WIDTH), []
        for i in range(layers):
            for part in (self._attention, self._feed_forward):
                x, back_of_part = part(x, f"{i}.")
                backs.append(back_of_part)
        x, back_of_norm = self._norm(x, "norm")
        logits, back_of_head = self._linear(x, "head", WIDTH, len(LETTERS))
        dx = back_of_norm(back_of_head(self._loss(logits)))
        for back_of_part in reversed(backs):
            dx = back_of_part(dx)
        back_of_letters(dx)
        self.g.build([heur_mode.A])

    def _one_hot(self, width):
        return self.g.tensor([1, self.rows, width], PACKED([1, self.rows, width]))

    # ---- Layers: (result, what adds their gradients) ----

    def _weight(self, name, *dims):
        self.shapes[name] = dims
        self.weights[name] = self.g.tensor(list(dims), PACKED(dims))
        return self.weights[name]

    def _gradient(self, name, made):
        self.gradients[name] = made.set_output(True).set_dim(self.shapes[name]).set_stride(
            PACKED(self.shapes[name]))

    def _linear(self, x, name, depth, width):
        g, w = self.g, self._weight(name, 1, depth, width)

        def back(dy):
            self._gradient(name, g.matmul(g.transpose(x, [0, 2, 1]), dy))
            return g.matmul(dy, g.transpose(w, [0, 2, 1]))
        return g.matmul(x, w), back

    def _norm(self, x, name):
        g, scale = self.g, self._weight(name, 1, 1, WIDTH)
        epsilon = constant(g, 1e-5)
        y, inverse = g.rmsnorm(norm_forward_phase.TRAINING, x, scale, None, epsilon)

        def back(dy):
            dx, dscale, _ = g.rmsnorm_backward(dy, x, scale, inverse, False)
            self._gradient(name, dscale)
            return dx
        return y, back

    def _attention(self, x, at):
        """x + attention of norm(x), each query of the keys up to its own."""
        g, (y, back_of_norm) = self.g, self._norm(x, at + "norm1")
        made = [self._linear(y, at + name, WIDTH, WIDTH) for name in "qkv"]
        q, k, v = (self._heads(t) for t, _ in made)
        turns, options = dict(zip(("cos", "sin"), self.turns)), dict(OPTIONS, use_causal_mask=True)
        q, k = g.rope(q, **turns), g.rope(k, **turns)
        o, stats = g.sdpa(q, k, v, generate_stats=True, **options)
        self._in_heads(o)
        out, back_of_out = self._linear(self._rows(o), at + "out", WIDTH, WIDTH)

        def back(dx):
            do = self._heads(back_of_out(dx))
            dq, dk, dv = map(self._in_heads, g.sdpa_backward(q, k, v, o, do, stats, **options))
            gradients, found = (g.rope_backward(dq, **turns), g.rope_backward(dk, **turns), dv), None
            for one, (_, back_of_one) in zip(gradients, made):
                dy = back_of_one(self._rows(one))
                found = dy if found is None else g.add(found, dy)
            return g.add(dx, back_of_norm(found))
        return g.add(x, out), back

    def _feed_forward(self, x, at):
        g, (y, back_of_norm) = self.g, self._norm(x, at + "norm2")
        wide, back_of_up = self._linear(y, at + "up", WIDTH, 4 * WIDTH)
        narrow, back_of_down = self._linear(g.gelu(wide), at + "down", 4 * WIDTH, WIDTH)

        def back(dx):
            dwide = g.gelu_backward(back_of_down(dx), wide)
            return g.add(dx, back_of_norm(back_of_up(dwide)))
        return g.add(x, narrow), back

    def _heads(self, t):
        """(1, rows, width) as (batch, heads, context, width of a head): a view."""
        dims = [self.batch, self.context, HEADS, SIZE]
        return self.g.transpose(self.g.reshape(t).set_dim(dims).set_stride(PACKED(dims)), [0, 2, 1, 3])

    def _in_heads(self, t):
        """Memory in which heads of a row lie side by side."""
        return t.set_dim([self.batch, HEADS, self.context, SIZE]).set_stride(
            [self.context * WIDTH, SIZE, WIDTH, 1])

    def _rows(self, t):
        """Back from heads: a view."""
        dims = [1, self.rows, WIDTH]
        return self.g.reshape(self.g.transpose(t, [0, 2, 1, 3])).set_dim(dims).set_stride(PACKED(dims))

    def _loss(self, logits):
        """The mean of -log(probability of the target), as an output; the gradient of the logits."""
        g = self.g
        share, sums = g.softmax(logits, axis=2, generate_stats=True)
        chosen = g.reduction(g.mul(logits, self.targets), reduction_mode.ADD).set_dim([1, self.rows, 1])
        self.loss = g.reduction(g.sub(sums, chosen), reduction_mode.AVG).set_dim([1, 1, 1])
        self.loss.set_output(True)
        return g.mul(g.sub(share, self.targets), constant(g, 1 / self.rows))


class Adam:
    """mean = b1 mean + (1 - b1) grad; square = b2 square + (1 - b2) grad^2;
    value -= rate * mean / (sqrt(square) + epsilon)."""

    def __init__(self, handle, size):
        g = pygraph(io_data_type=data_type.FLOAT, intermediate_data_type=data_type.FLOAT,
                    compute_data_type=data_type.FLOAT, handle=handle)
        self.g, self.steps = g, 0
        self.value, self.grad, self.mean, self.square = (g.tensor([1, size], [size, 1]) for _ in range(4))
        self.rate = g.tensor([1, 1], [1, 1], is_pass_by_value=True)
        b1, c1, b2, c2, epsilon = (constant(g, n) for n in (BETA1, 1 - BETA1, BETA2, 1 - BETA2, EPSILON))
        self.new_mean = g.add(g.mul(self.mean, b1), g.mul(self.grad, c1)).set_output(True)
        squares = g.mul(g.mul(self.grad, self.grad), c2)
        self.new_square = g.add(g.mul(self.square, b2), squares).set_output(True)
        way = g.div(self.new_mean, g.add(g.sqrt(self.new_square), epsilon))
        self.new_value = g.sub(self.value, g.mul(way, self.rate)).set_output(True)
        g.build([heur_mode.A])

    def pack(self, memory: dict, rate: float) -> dict:
        """``memory``: the addresses of value, grad, mean and square."""
        self.steps += 1
        unbiased = (1 - BETA2 ** self.steps) ** 0.5 / (1 - BETA1 ** self.steps)
        given = {getattr(self, name): at for name, at in memory.items()}
        given |= {getattr(self, f"new_{name}"): memory[name] for name in ("value", "mean", "square")}
        return given | {self.rate: rate * unbiased}


class Trainer:
    """Memory of the weights and of what Adam keeps, and a training step over it."""

    def __init__(self, device, layers=2, seed=0):
        self.device, handle, random = device, create_handle(device), np.random.default_rng(seed)
        self.network = n = Network(handle, layers)
        sizes = {name: int(np.prod(dims)) for name, dims in n.shapes.items()}
        start = {name: np.ones(size) if "norm" in name else random.normal(0, n.shapes[name][1] ** -0.5, size)
                 for name, size in sizes.items()}
        start["letters"] = random.normal(0, 0.1, sizes["letters"])
        self.count, self.adam = sum(sizes.values()), Adam(handle, sum(sizes.values()))
        self.memory = {name: device.alloc(4 * self.count) for name in ("value", "grad", "mean", "square")}
        for name, buffer in self.memory.items():
            values = np.concatenate(list(start.values())) if name == "value" else np.zeros(self.count)
            device.copy_in(buffer, values.astype(np.float32))
        self.offsets = dict(zip(sizes, np.cumsum([0, *sizes.values()])))
        self.buffers = [device.alloc(4 * n.rows * len(LETTERS)) for _ in range(2)]
        self.loss, self.turns = device.alloc(4), [device.alloc(2 * CONTEXT * SIZE) for _ in range(2)]
        for buffer, values in zip(self.turns, turns_of(0, CONTEXT)):
            device.copy_in(buffer, values)
        self.pack = {n.letters: self.buffers[0], n.targets: self.buffers[1], n.loss: self.loss}
        self.pack |= dict(zip(n.turns, self.turns))
        self.pack |= {t: self.address("value", name) for name, t in n.weights.items()}
        self.pack |= {t: self.address("grad", name) for name, t in n.gradients.items()}
        self.rooms = [device.alloc(max(g.get_workspace_size(), 1)) for g in (n.g, self.adam.g)]

    def address(self, which, name) -> int:
        """Where a weight lies, or what Adam keeps of it."""
        return int(self.memory[which].ptr) + 4 * int(self.offsets[name])

    def step(self, letters, rate) -> float:
        """Learn from (batch, context + 1) letters; the bits a letter before it."""
        for buffer, some in zip(self.buffers, (letters[:, :-1], letters[:, 1:])):
            self.device.copy_in(buffer, np.eye(len(LETTERS), dtype=np.float32)[some.reshape(-1)])
        self.network.g.execute(self.pack, self.rooms[0])
        addresses = {name: int(buffer.ptr) for name, buffer in self.memory.items()}
        self.adam.g.execute(self.adam.pack(addresses, rate), self.rooms[1])
        return float(self.device.copy_out(self.loss, np.empty(1, np.float32))[0]) / np.log(2)


def train(device=None, steps=200, layers=2, seed=0, say=print, trainer=None) -> dict:
    """The bits a letter of every step, and letters in a second. ``trainer``: what learns."""
    trainer = trainer or Trainer(devices.get(device), layers, seed)
    whole, random, bits = text(), np.random.default_rng(seed), []
    whole = whole[:int(len(whole) * (1 - HELD_OUT))]
    start = time.perf_counter()
    for i in range(steps):
        at = random.integers(0, len(whole) - CONTEXT - 1, BATCH)
        letters = np.stack([whole[a:a + CONTEXT + 1] for a in at])
        rate = RATE * min(1.0, (i + 1) / WARM_UP) * (0.51 + 0.49 * np.cos(np.pi * i / steps))
        bits.append(trainer.step(letters, rate))
        if say and (i + 1) % max(steps // 10, 1) == 0:
            say(f"step {i + 1:5}   {np.mean(bits[-20:]):.3f} bits a letter")
    seconds = time.perf_counter() - start
    return dict(device=trainer.device.name, weights=trainer.count, bits=bits,
                letters_per_second=steps * BATCH * CONTEXT / seconds)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", help="cuda:0, which is the default where there is one, numpy")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--record", default=None, help="write the numbers to this JSON file")
    args = parser.parse_args()
    result = train(args.device, args.steps, args.layers)
    if args.record:
        with open(args.record, "w") as f:
            json.dump(result, f)
    print(f"{result['device']}: {result['weights']:,} weights, "
          f"{result['letters_per_second']:,.0f} letters a second")


if __name__ == "__main__":
    main()

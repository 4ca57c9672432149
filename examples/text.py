"""Train a character LSTM on the reference manual that ships with Python (`help("LOOPING")` and its like), on
cydnn alone.

    python examples/text.py [--device numpy|cuda:0] [--epochs 8] [--picture text.png] [--record run.json]

Layers, loss and gradients are calls of the v5 API (``cydnn.cudnn``), Adam is one graph (``cydnn.pygraph``);
NumPy only makes the batches, picks the letters of the sample and draws the picture. The same program runs on
a GPU and without one: the device is one word.
"""
from __future__ import annotations

import argparse
import json
import re
import time
from pydoc_data.topics import topics

import numpy as np

from cydnn import cudnn, data_type, heur_mode, pygraph

try:
    from tqdm import tqdm
except ImportError as error:
    raise SystemExit(f"text: needs tqdm ({error}); pip install 'cydnn[demo]'") from None

BATCH, STEPS, HIDDEN, LAYERS, DROPOUT = 16, 32, 128, 2, 0.1
RATE, BETA1, BETA2, EPSILON, WARM_UP = 1e-2, 0.9, 0.99, 1e-8, 20
FORGET = 1                                       # the number of that gate
HELD_OUT = 0.04                                  # of the text
LETTERS = "\n" + "".join(map(chr, range(32, 127)))          # 96
F32 = cudnn.CUDNN_DATA_FLOAT
FORWARD = cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM          # of the dense layer, and its gradients
BY_FILTER, BY_DATA = cudnn.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, cudnn.CUDNN_CONVOLUTION_BWD_DATA_ALGO_1


def text() -> np.ndarray:
    """The manual as numbers of LETTERS, its chapters mixed; other characters as "?"."""
    names = np.random.default_rng(0).permutation(sorted(topics))
    whole = re.sub(" {4,}", "    ", "\n\n".join(topics[name].strip() for name in names))
    place = {letter: i for i, letter in enumerate(LETTERS)}
    return np.array([place.get(letter, place["?"]) for letter in whole])


class Tensor:
    """A packed f32 tensor: device memory and its descriptor."""

    def __init__(self, handle, dims, values=None):
        self.device, self.dims = handle.device, tuple(dims)
        strides = [int(np.prod(dims[i + 1:])) for i in range(len(dims))]
        self.desc = cudnn.createTensorDescriptor()
        cudnn.setTensorNdDescriptor(self.desc, F32, len(dims), self.dims, strides)
        self.buffer = self.device.alloc(4 * int(np.prod(dims)))
        self.ptr = int(self.buffer.ptr)
        self.write(np.zeros(dims) if values is None else values)

    def write(self, values):
        self.device.copy_in(self.ptr, np.ascontiguousarray(values, np.float32))

    def read(self):
        return self.device.copy_out(self.ptr, np.empty(self.dims, np.float32))


def step_descs(count, batch, width):
    """A descriptor for each step."""
    found = [cudnn.createTensorDescriptor() for _ in range(count)]
    for desc in found:
        cudnn.setTensorNdDescriptor(desc, F32, 3, (batch, width, 1), (width, 1, 1))
    return found


class Weights:
    """All weights in one buffer, the recurrent ones first; Adam as one graph over it."""

    def __init__(self, handle, rnn, blob, count, seed):
        self.handle, self.recurrent, random = handle, count, np.random.default_rng(seed)
        edge = HIDDEN ** -0.5
        start = random.uniform(-edge, edge, count + HIDDEN * len(LETTERS) + len(LETTERS))
        start[count + HIDDEN * len(LETTERS):] = 0
        self._begin(start, rnn, blob, random)
        self.value, self.grad, self.mean, self.square = (
            Tensor(handle, (1, start.size, 1, 1), v) for v in (start, *(np.zeros_like(start),) * 3))
        self.steps, (self.graph, self.pack) = 0, self._adam(start.size)
        self.room = handle.device.alloc(max(self.graph.get_workspace_size(), 1))

    def _begin(self, start, rnn, blob, random):
        """One letter at a time goes in, so its weights are large; LSTM begin by remembering."""
        x, found = step_descs(1, 1, len(LETTERS))[0], cudnn.createFilterDescriptor()
        for gate in range(4):
            at = cudnn.getRNNLinLayerMatrixParams(self.handle, rnn, 0, x, blob, 0, gate, found) // 4
            start[at:at + HIDDEN * len(LETTERS)] = random.uniform(-0.5, 0.5, HIDDEN * len(LETTERS))
        for layer in range(LAYERS):
            for gate in range(8):
                at = cudnn.getRNNLinLayerBiasParams(self.handle, rnn, layer, x, blob, 0, gate, found) // 4
                start[at:at + HIDDEN] = gate == FORGET

    def _adam(self, size):
        """mean = b1 mean + (1 - b1) grad; square = b2 square + (1 - b2) grad^2;
        value -= rate * mean / (sqrt(square) + epsilon)."""
        g = pygraph(io_data_type=data_type.FLOAT, intermediate_data_type=data_type.FLOAT,
                    compute_data_type=data_type.FLOAT, handle=self.handle)
        value, grad, mean, square = (g.tensor([1, size], [size, 1]) for _ in range(4))
        numbers = b1, c1, b2, c2, epsilon, rate = [g.tensor([1, 1], [1, 1], is_pass_by_value=True)
                                                   for _ in range(6)]
        new_mean = g.add(g.mul(mean, b1), g.mul(grad, c1)).set_output(True)
        new_square = g.add(g.mul(square, b2), g.mul(g.mul(grad, grad), c2)).set_output(True)
        way = g.div(new_mean, g.add(g.sqrt(new_square), epsilon))
        new_value = g.sub(value, g.mul(way, rate)).set_output(True)
        g.build([heur_mode.A])
        self.rate = rate
        memory = {value: self.value, new_value: self.value, grad: self.grad, mean: self.mean,
                  new_mean: self.mean, square: self.square, new_square: self.square}
        return g, {**{t: at.ptr for t, at in memory.items()},
                   **dict(zip(numbers, (BETA1, 1 - BETA1, BETA2, 1 - BETA2, EPSILON, 0.0)))}

    def step(self, rate):
        self.steps += 1
        unbiased = (1 - BETA2 ** self.steps) ** 0.5 / (1 - BETA1 ** self.steps)
        self.graph.execute({**self.pack, self.rate: rate * unbiased}, int(self.room.ptr), handle=self.handle)

    def at(self, part, which="value"):
        """The address of "recurrent", "dense" or "bias" among values or gradients."""
        before = dict(recurrent=0, dense=self.recurrent, bias=self.recurrent + HIDDEN * len(LETTERS))
        return getattr(self, which).ptr + 4 * before[part]


class Network:
    """LSTM layers, a dense layer and softmax over ``steps`` letters of ``batch`` streams at once; several
    networks may share weights."""

    def __init__(self, handle, batch, steps, seed=0, weights=None):
        self.handle, self.batch, self.steps, rows = handle, batch, steps, batch * steps
        count = self._describe(seed)
        self.weights = weights or Weights(handle, self.rnn, self.blob, count, seed)
        self.xs, self.hs = step_descs(steps, batch, len(LETTERS)), step_descs(steps, batch, HIDDEN)
        self.x, self.p, self.target = (Tensor(handle, (rows, len(LETTERS), 1, 1)) for _ in range(3))
        self.dx, self.h, self.dh = (Tensor(handle, (rows, n, 1, 1)) for n in (len(LETTERS), HIDDEN, HIDDEN))
        self.states = [Tensor(handle, (LAYERS, batch, HIDDEN)) for _ in range(4)]     # h c, first and last
        self.bias = Tensor(handle, (1, len(LETTERS), 1, 1)).desc
        self.room_bytes, self.reserve_bytes = self._sizes()
        self.room, self.reserve = (handle.device.alloc(max(size, 1))
                                   for size in (self.room_bytes, self.reserve_bytes))

    def _describe(self, seed) -> int:
        """Set the descriptors of weights and layers; returns how many recurrent weights there are."""
        h = self.handle
        self.generator = h.device.alloc(cudnn.dropoutGetStatesSize(h))
        self.dropout, self.rnn = cudnn.createDropoutDescriptor(), cudnn.createRNNDescriptor()
        cudnn.setDropoutDescriptor(self.dropout, h, DROPOUT, int(self.generator.ptr), self.generator.bytes,
                                   seed)
        cudnn.setRNNDescriptor(self.rnn, HIDDEN, LAYERS, self.dropout, cudnn.CUDNN_LINEAR_INPUT,
                               cudnn.CUDNN_UNIDIRECTIONAL, cudnn.CUDNN_LSTM, F32)
        self.dense, self.conv = cudnn.createFilterDescriptor(), cudnn.createConvolutionDescriptor()
        cudnn.setFilter4dDescriptor(self.dense, F32, cudnn.CUDNN_TENSOR_NCHW, len(LETTERS), HIDDEN, 1, 1)
        cudnn.setConvolution2dDescriptor(self.conv, 0, 0, 1, 1, 1, 1, cudnn.CUDNN_CROSS_CORRELATION)
        count = cudnn.getRNNParamsSize(h, self.rnn, step_descs(1, 1, len(LETTERS))[0], F32) // 4
        self.blob = cudnn.createFilterDescriptor()
        cudnn.setFilterNdDescriptor(self.blob, F32, cudnn.CUDNN_TENSOR_NCHW, 3, (count, 1, 1))
        return count

    def _sizes(self) -> tuple[int, int]:
        """Bytes of the workspace, which all calls share, and of what training keeps for the way back."""
        h, x, w, y = self.handle, self.h.desc, self.dense, self.p.desc
        rooms = (cudnn.getRNNWorkspaceSize(h, self.rnn, self.steps, self.xs),
                 cudnn.getConvolutionForwardWorkspaceSize(h, x, w, self.conv, y, FORWARD),
                 cudnn.getConvolutionBackwardFilterWorkspaceSize(h, x, y, self.conv, w, BY_FILTER),
                 cudnn.getConvolutionBackwardDataWorkspaceSize(h, w, y, self.conv, x, BY_DATA))
        return max(rooms), cudnn.getRNNTrainingReserveSize(h, self.rnn, self.steps, self.xs)

    def forget(self):
        """States as before the first letter."""
        for state in self.states:
            state.write(np.zeros(state.dims))

    def probabilities(self, letters, training=False):
        """(steps, batch, LETTERS) of the next letter, for letters (steps, batch); the states go on from where
        the last call ended."""
        h, w, eye = self.handle, self.weights, np.eye(len(LETTERS), dtype=np.float32)
        hx, cx, hy, cy = self.states = self.states[2:] + self.states[:2]
        self.x.write(eye[letters.reshape(-1)])
        given = (h, self.rnn, self.steps, self.xs, self.x.ptr, hx.desc, hx.ptr, cx.desc, cx.ptr, self.blob,
                 w.at("recurrent"), self.hs, self.h.ptr, hy.desc, hy.ptr, cy.desc, cy.ptr, int(self.room.ptr),
                 self.room_bytes)
        if training:
            cudnn.RNNForwardTraining(*given, int(self.reserve.ptr), self.reserve_bytes)
        else:
            cudnn.RNNForwardInference(*given)
        cudnn.convolutionForward(h, 1.0, self.h.desc, self.h.ptr, self.dense, w.at("dense"), self.conv,
                                 FORWARD, int(self.room.ptr), self.room_bytes, 0.0, self.p.desc,
                                 self.target.ptr)
        cudnn.addTensor(h, 1.0, self.bias, w.at("bias"), 1.0, self.p.desc, self.target.ptr)
        cudnn.softmaxForward(h, cudnn.CUDNN_SOFTMAX_ACCURATE, cudnn.CUDNN_SOFTMAX_MODE_CHANNEL, 1.0,
                             self.p.desc, self.target.ptr, 0.0, self.p.desc, self.p.ptr)
        return self.p.read().reshape(self.steps, self.batch, len(LETTERS))

    def bits(self, letters, nexts, training=False) -> float:
        """Mean bits that the next letters cost."""
        p = self.probabilities(letters, training)
        t, b = np.indices(nexts.shape)
        return float(-np.log2(np.maximum(p[t, b, nexts], 1e-12)).mean())

    def train(self, letters, nexts, rate) -> float:
        """One step; the bits a letter before it."""
        found, h, w, rows = self.bits(letters, nexts, training=True), self.handle, self.weights, letters.size
        cudnn.setTensor(h, w.grad.desc, w.grad.ptr, 0.0)
        self.target.write(np.eye(len(LETTERS), dtype=np.float32)[nexts.reshape(-1)])
        room = int(self.room.ptr), self.room_bytes
        p, dh, out = self.p, self.dh, self.h                   # the gradient of the loss: (p - target) / rows
        cudnn.addTensor(h, -1.0 / rows, self.target.desc, self.target.ptr, 1.0 / rows, p.desc, p.ptr)
        cudnn.convolutionBackwardBias(h, 1.0, p.desc, p.ptr, 0.0, self.bias, w.at("bias", "grad"))
        cudnn.convolutionBackwardFilter(h, 1.0, out.desc, out.ptr, p.desc, p.ptr, self.conv,
                                        BY_FILTER, *room, 0.0, self.dense, w.at("dense", "grad"))
        cudnn.convolutionBackwardData(h, 1.0, self.dense, w.at("dense"), p.desc, p.ptr, self.conv,
                                      BY_DATA, *room, 0.0, dh.desc, dh.ptr)
        self._through_the_steps()
        w.step(rate)
        return found

    def _through_the_steps(self):
        """Gradients of the recurrent weights; none comes from behind the last step."""
        h, w, (hx, cx, _, _) = self.handle, self.weights, self.states
        room, kept = (int(self.room.ptr), self.room_bytes), (int(self.reserve.ptr), self.reserve_bytes)
        cudnn.RNNBackwardData(h, self.rnn, self.steps, self.hs, self.h.ptr, self.hs, self.dh.ptr, None, 0,
                              None, 0, self.blob, w.at("recurrent"), hx.desc, hx.ptr, cx.desc, cx.ptr,
                              self.xs, self.dx.ptr, None, 0, None, 0, *room, *kept)
        cudnn.RNNBackwardWeights(h, self.rnn, self.steps, self.xs, self.x.ptr, hx.desc, hx.ptr, self.hs,
                                 self.h.ptr, *room, self.blob, w.at("recurrent", "grad"), *kept)


def streams(letters, batch):
    """(letters a stream, batch): stream b is the b-th part of the text."""
    length = len(letters) // batch
    return letters[:length * batch].reshape(batch, length).T


def judge(network, letters) -> float:
    """Mean bits a letter of a text that was not trained on."""
    part, found = streams(letters, network.batch), []
    network.forget()
    for start in range(0, len(part) - network.steps, network.steps):
        at = slice(start, start + network.steps)
        found.append(network.bits(part[at], part[start + 1:start + network.steps + 1]))
    return float(np.mean(found))


def sample(network, start="The ", count=400, temperature=0.6, seed=0) -> str:
    """Text that goes on behind ``start``, letter by letter. ``network`` has one stream and one step."""
    random, written = np.random.default_rng(seed), list(start)
    network.forget()
    for i in range(len(start) + count - 1):
        p = network.probabilities(np.array([[LETTERS.index(written[i])]]))[0, 0].astype(float)
        if i + 1 == len(written):
            p = p ** (1 / temperature)
            written.append(LETTERS[random.choice(len(LETTERS), p=p / p.sum())])
    return "".join(written)


def train(device=None, epochs=None, seed=0, bar=True, most_steps=None, letters=400):
    """Train; returns a dict with the bits of every step, those of the held-out text, a sample, and seconds
    per epoch. ``epochs``: 8 on a GPU, else 1."""
    handle, whole = cudnn.create(device), text()
    epochs = epochs or (8 if handle.device.context is not None else 1)
    edge = int(len(whole) * (1 - HELD_OUT))
    part, held = streams(whole[:edge], BATCH), whole[edge:]
    network = Network(handle, BATCH, STEPS, seed)
    writer = Network(handle, 1, 1, seed, network.weights)
    critic = Network(handle, 8, STEPS, seed, network.weights)
    steps, bits, tests, seconds = (len(part) - 1) // STEPS, [], [], []
    total = min(epochs * steps, most_steps or epochs * steps)
    with tqdm(total=total, disable=not bar, unit="step", desc=handle.device.name) as progress:
        while len(bits) < total:
            start = time.perf_counter()
            network.forget()
            for i in range(0, steps * STEPS, STEPS)[:total - len(bits)]:
                phase = len(bits) / total
                rate = RATE * min(1.0, (len(bits) + 1) / WARM_UP) * (0.51 + 0.49 * np.cos(np.pi * phase))
                bits.append(network.train(part[i:i + STEPS], part[i + 1:i + STEPS + 1], rate))
                progress.update()
                progress.set_postfix(bits=f"{np.mean(bits[-20:]):.2f}", refresh=False)
            seconds.append(time.perf_counter() - start)
            tests.append((len(bits), judge(critic, held)))
    return dict(device=handle.device.name, bits=bits, tests=tests, sample=sample(writer, count=letters),
                seconds_per_epoch=float(np.median(seconds)), letters_per_epoch=steps * STEPS * BATCH)


def draw(result, path):
    """The learning curve and the sample, as one picture."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
    left.plot(result["bits"], lw=0.8, color="tab:blue", label="trained on")
    left.plot(*zip(*result["tests"]), "o-", ms=4, color="tab:orange", label="held out")
    left.set(xlabel="step", ylabel="bits a letter", title=f"a character LSTM on {result['device']}")
    left.legend()
    right.axis("off")
    right.set_title("what it writes", loc="left")
    lines = [line[i:i + 68] for line in result["sample"].split("\n") for i in range(0, len(line) or 1, 68)]
    right.text(0, 1, "\n".join(lines[:24]), family="monospace", fontsize=7, va="top", parse_math=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", default=None, help="cuda:0, numpy; default: a GPU if there is one")
    parser.add_argument("--epochs", type=int, default=None, help="default: 8 on a GPU, else 1")
    parser.add_argument("--picture", default="text.png")
    parser.add_argument("--record", default=None, help="write the numbers to this JSON file")
    args = parser.parse_args()
    result = train(args.device, args.epochs)
    draw(result, args.picture)
    if args.record:
        with open(args.record, "w") as f:
            json.dump(result, f)
    print(f"\n{result['sample']}\n\n{'device':<12}{'s per epoch':>12}{'bits a letter, held out':>26}\n"
          f"{result['device']:<12}{result['seconds_per_epoch']:>12.2f}{result['tests'][-1][1]:>26.3f}\n\n"
          f"picture: {args.picture}")


if __name__ == "__main__":
    main()

"""Train a small CNN with batch norm on the 1,797 real handwritten digits
that scikit-learn ships, on cydnn alone.

    python examples/digits.py [--device numpy|cuda:0] [--epochs 20] [--picture digits.png] [--record run.json]

Forward, backward and momentum SGD are calls of the v5 API (``cydnn.cudnn``); NumPy only makes the batches
and draws the picture. The same program runs on a GPU and without one: the device is one word.
"""
from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from cydnn import cudnn

try:
    from sklearn.datasets import load_digits
    from tqdm import tqdm
except ImportError as error:
    raise SystemExit(f"digits: needs scikit-learn and tqdm ({error}); pip install 'cydnn[demo]'") from None

BATCH, TEST, CLASSES = 64, 360, 10
MOMENTUM, DECAY, PEAK_RATE, BN_EPSILON, BN_FACTOR = 0.9, 5e-4, 0.1, 1e-5, 0.1
F32 = cudnn.CUDNN_DATA_FLOAT


class Tensor:
    """A packed f32 NCHW tensor: device memory and its descriptor."""

    def __init__(self, handle, dims, values=None):
        self.device, self.dims = handle.device, tuple(dims)
        self.desc = cudnn.createTensorDescriptor()
        cudnn.setTensor4dDescriptor(self.desc, cudnn.CUDNN_TENSOR_NCHW, F32, *self.dims)
        self.buffer = self.device.alloc(4 * int(np.prod(dims)))
        self.ptr = int(self.buffer.ptr)
        if values is not None:
            self.write(values)

    def write(self, values):
        self.device.copy_in(self.ptr, np.ascontiguousarray(values, np.float32))

    def read(self):
        return self.device.copy_out(self.ptr, np.empty(self.dims, np.float32))


class Parameters:
    """All weights in one buffer, so that an optimiser step is three calls whatever the network."""

    def __init__(self, handle):
        self.handle, self.rows = handle, []

    def add(self, dims, values):
        start = sum(r[1].size for r in self.rows)
        self.rows.append((start, np.asarray(values, np.float32).reshape(-1)))
        return lambda which: getattr(self, which).ptr + 4 * start

    def place(self):
        total = np.concatenate([values for _, values in self.rows])
        dims = (1, total.size, 1, 1)
        self.weight, self.grad, self.speed = (Tensor(self.handle, dims, v)
                                              for v in (total, 0 * total, 0 * total))

    def step(self, rate):
        """speed = momentum * speed + grad + decay * weight;  weight -= rate * speed."""
        h, w, g, v = self.handle, self.weight, self.grad, self.speed
        cudnn.addTensor(h, 1.0, g.desc, g.ptr, MOMENTUM, v.desc, v.ptr)
        cudnn.addTensor(h, DECAY, w.desc, w.ptr, 1.0, v.desc, v.ptr)
        cudnn.addTensor(h, -rate, v.desc, v.ptr, 1.0, w.desc, w.ptr)


class Conv:
    """Convolution; no bias (a batch norm follows) unless ``bias``. A full-size
    filter makes it a dense layer."""

    def __init__(self, net, x_dims, k, size, pad, bias=False):
        self.net, h, (_, c, *_) = net, net.handle, x_dims
        self.w_desc, self.conv = cudnn.createFilterDescriptor(), cudnn.createConvolutionDescriptor()
        cudnn.setFilter4dDescriptor(self.w_desc, F32, cudnn.CUDNN_TENSOR_NCHW, k, c, size, size)
        cudnn.setConvolution2dDescriptor(self.conv, pad, pad, 1, 1, 1, 1, cudnn.CUDNN_CROSS_CORRELATION)
        std = np.sqrt(2.0 / (c * size * size))
        self.w = net.parameters.add((k, c, size, size), net.random.normal(0, std, (k, c, size, size)))
        self.b = net.parameters.add((1, k, 1, 1), np.zeros(k)) if bias else None
        x_desc = Tensor(h, x_dims).desc
        self.y = Tensor(h, cudnn.getConvolution2dForwardOutputDim(self.conv, x_desc, self.w_desc))
        self.dx = Tensor(h, x_dims)
        self.b_desc = Tensor(h, (1, k, 1, 1)).desc
        self.algos = (cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                      cudnn.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, cudnn.CUDNN_CONVOLUTION_BWD_DATA_ALGO_1)
        sizes = (cudnn.getConvolutionForwardWorkspaceSize(h, x_desc, self.w_desc, self.conv,
                                                          self.y.desc, self.algos[0]),
                 cudnn.getConvolutionBackwardFilterWorkspaceSize(h, x_desc, self.y.desc, self.conv,
                                                                 self.w_desc, self.algos[1]),
                 cudnn.getConvolutionBackwardDataWorkspaceSize(h, self.w_desc, self.y.desc, self.conv,
                                                               x_desc, self.algos[2]))
        self.bytes = max(sizes)
        self.workspace = net.handle.device.alloc(max(self.bytes, 1))

    def forward(self, x, training):
        self.x, h, y = x, self.net.handle, self.y
        cudnn.convolutionForward(h, 1.0, x.desc, x.ptr, self.w_desc, self.w("weight"), self.conv,
                                 self.algos[0], self.workspace.ptr, self.bytes, 0.0, y.desc, y.ptr)
        if self.b:
            cudnn.addTensor(h, 1.0, self.b_desc, self.b("weight"), 1.0, y.desc, y.ptr)
        return y

    def backward(self, dy):
        h, x, dx = self.net.handle, self.x, self.dx
        if self.b:
            cudnn.convolutionBackwardBias(h, 1.0, dy.desc, dy.ptr, 0.0, self.b_desc, self.b("grad"))
        cudnn.convolutionBackwardFilter(h, 1.0, x.desc, x.ptr, dy.desc, dy.ptr, self.conv, self.algos[1],
                                        self.workspace.ptr, self.bytes, 0.0, self.w_desc, self.w("grad"))
        cudnn.convolutionBackwardData(h, 1.0, self.w_desc, self.w("weight"), dy.desc, dy.ptr, self.conv,
                                      self.algos[2], self.workspace.ptr, self.bytes, 0.0, dx.desc, dx.ptr)
        return dx


class BatchNorm:
    def __init__(self, net, dims):
        self.net, c, h = net, dims[1], net.handle
        self.scale = net.parameters.add((1, c, 1, 1), np.ones(c))
        self.bias = net.parameters.add((1, c, 1, 1), np.zeros(c))
        self.mean, self.var, self.saved_mean, self.saved_rstd = (Tensor(h, (1, c, 1, 1), v * np.ones(c))
                                                                 for v in (0, 1, 0, 0))
        self.y, self.dx = Tensor(h, dims), Tensor(h, dims)
        self.mode = cudnn.CUDNN_BATCHNORM_SPATIAL

    def forward(self, x, training):
        self.x, h, y = x, self.net.handle, self.y
        scale, bias = self.scale("weight"), self.bias("weight")
        if training:
            cudnn.batchNormalizationForwardTraining(
                h, self.mode, 1.0, 0.0, x.desc, x.ptr, y.desc, y.ptr, self.mean.desc, scale, bias, BN_FACTOR,
                self.mean.ptr, self.var.ptr, BN_EPSILON, self.saved_mean.ptr, self.saved_rstd.ptr)
        else:
            cudnn.batchNormalizationForwardInference(h, self.mode, 1.0, 0.0, x.desc, x.ptr, y.desc, y.ptr,
                                                     self.mean.desc, scale, bias,
                                                     self.mean.ptr, self.var.ptr, BN_EPSILON)
        return y

    def backward(self, dy):
        x, dx = self.x, self.dx
        cudnn.batchNormalizationBackward(self.net.handle, self.mode, 1.0, 0.0, 1.0, 0.0, x.desc, x.ptr,
                                         dy.desc, dy.ptr, dx.desc, dx.ptr, self.mean.desc,
                                         self.scale("weight"), self.scale("grad"), self.bias("grad"),
                                         BN_EPSILON, self.saved_mean.ptr, self.saved_rstd.ptr)
        return dx


class Relu:
    def __init__(self, net, dims):
        self.net, self.y, self.dx = net, Tensor(net.handle, dims), Tensor(net.handle, dims)
        self.act = cudnn.createActivationDescriptor()
        cudnn.setActivationDescriptor(self.act, cudnn.CUDNN_ACTIVATION_RELU, cudnn.CUDNN_PROPAGATE_NAN, 0.0)

    def forward(self, x, training):
        self.x = x
        cudnn.activationForward(self.net.handle, self.act, 1.0, x.desc, x.ptr, 0.0, self.y.desc, self.y.ptr)
        return self.y

    def backward(self, dy):
        x, y, dx = self.x, self.y, self.dx
        cudnn.activationBackward(self.net.handle, self.act, 1.0, y.desc, y.ptr, dy.desc, dy.ptr,
                                 x.desc, x.ptr, 0.0, dx.desc, dx.ptr)
        return dx


class MaxPool:
    def __init__(self, net, dims):
        n, c, h, w = dims
        self.net, self.y, self.dx = net, Tensor(net.handle, (n, c, h // 2, w // 2)), Tensor(net.handle, dims)
        self.pool = cudnn.createPoolingDescriptor()
        cudnn.setPooling2dDescriptor(self.pool, cudnn.CUDNN_POOLING_MAX,
                                     cudnn.CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2)

    def forward(self, x, training):
        self.x = x
        cudnn.poolingForward(self.net.handle, self.pool, 1.0, x.desc, x.ptr, 0.0, self.y.desc, self.y.ptr)
        return self.y

    def backward(self, dy):
        x, y, dx = self.x, self.y, self.dx
        cudnn.poolingBackward(self.net.handle, self.pool, 1.0, y.desc, y.ptr, dy.desc, dy.ptr,
                              x.desc, x.ptr, 0.0, dx.desc, dx.ptr)
        return dx


class Network:
    """conv-bn-relu, conv-bn-relu, pool, conv-bn-relu, dense, softmax
    with cross-entropy. One fixed batch size."""

    def __init__(self, handle, batch, seed=0):
        self.handle, self.random, self.parameters = handle, np.random.default_rng(seed), Parameters(handle)
        self.layers, dims = [], (batch, 1, 8, 8)
        for make in (lambda d: Conv(self, d, 16, 3, 1), lambda d: BatchNorm(self, d), lambda d: Relu(self, d),
                     lambda d: Conv(self, d, 32, 3, 1), lambda d: BatchNorm(self, d), lambda d: Relu(self, d),
                     lambda d: MaxPool(self, d), lambda d: Conv(self, d, 64, 3, 1),
                     lambda d: BatchNorm(self, d), lambda d: Relu(self, d),
                     lambda d: Conv(self, d, CLASSES, 4, 0, bias=True)):
            self.layers.append(make(dims))
            dims = self.layers[-1].y.dims
        self.parameters.place()
        self.x, self.p, self.target = (Tensor(handle, (batch, 1, 8, 8)),
                                       Tensor(handle, dims), Tensor(handle, dims))

    def probabilities(self, images, training=False):
        self.x.write(images)
        y = self.x
        for layer in self.layers:
            y = layer.forward(y, training)
        cudnn.softmaxForward(self.handle, cudnn.CUDNN_SOFTMAX_ACCURATE, cudnn.CUDNN_SOFTMAX_MODE_CHANNEL, 1.0,
                             y.desc, y.ptr, 0.0, self.p.desc, self.p.ptr)
        return self.p.read().reshape(-1, CLASSES)

    def train(self, images, labels, rate) -> float:
        """One step; the mean cross-entropy before it."""
        p = self.probabilities(images, training=True)
        self.target.write(np.eye(CLASSES)[labels])
        batch = len(labels)         # gradient of the loss with respect to the logits: (p - target) / batch
        cudnn.addTensor(self.handle, -1.0 / batch, self.target.desc, self.target.ptr,
                        1.0 / batch, self.p.desc, self.p.ptr)
        dy = self.p
        for layer in reversed(self.layers):
            dy = layer.backward(dy)
        self.parameters.step(rate)
        return float(-np.log(np.maximum(p[np.arange(batch), labels], 1e-12)).mean())

    def copy_from(self, other):
        """Take weights and running statistics of a network of another batch size."""
        self.parameters.weight.write(other.parameters.weight.read())
        for mine, theirs in zip(self.layers, other.layers):
            if isinstance(mine, BatchNorm):
                mine.mean.write(theirs.mean.read())
                mine.var.write(theirs.var.read())


def shifted(images, random):
    """Each image moved by at most one pixel: what a pen does."""
    out = np.zeros((len(images), 1, 10, 10), np.float32)
    out[:, :, 1:9, 1:9] = images
    dy, dx = random.integers(0, 3, (2, len(images)))
    return np.stack([image[:, a:a + 8, b:b + 8] for image, a, b in zip(out, dy, dx)])


def data(seed=0):
    digits: Any = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.images))
    images, labels = (digits.images[order, None] / 8 - 1).astype(np.float32), digits.target[order]
    return images[TEST:], labels[TEST:], images[:TEST], labels[:TEST]


def train(device=None, epochs=20, seed=0, bar=True, most_steps=None):
    """Train; returns a dict with the losses of every step, accuracies, confusion
    matrix and seconds per epoch."""
    handle = cudnn.create(device)
    train_x, train_y, test_x, test_y = data(seed)
    network, judge = Network(handle, BATCH, seed), Network(handle, TEST, seed)
    random, steps = np.random.default_rng(seed + 1), len(train_x) // BATCH
    losses, accuracies, seconds = [], [], []
    guess = np.zeros_like(test_y)
    with tqdm(total=epochs * steps, disable=not bar, unit="step", desc=handle.device.name) as progress:
        for epoch in range(epochs):
            start, order = time.perf_counter(), random.permutation(len(train_x))
            for i in range(steps):
                rows = order[i * BATCH:(i + 1) * BATCH]
                phase = (epoch * steps + i) / (epochs * steps)
                rate = PEAK_RATE * min(1.0, 8 * phase + 0.1) * 0.5 * (1 + np.cos(np.pi * phase))
                losses.append(network.train(shifted(train_x[rows], random), train_y[rows], rate))
                progress.update()
                if most_steps and len(losses) >= most_steps:
                    return dict(losses=losses)
            handle.device.synchronize()
            seconds.append(time.perf_counter() - start)
            judge.copy_from(network)
            guess = judge.probabilities(test_x).argmax(1)
            accuracies.append(float((guess == test_y).mean()))
            progress.set_postfix(loss=f"{np.mean(losses[-steps:]):.3f}", test=f"{accuracies[-1]:.3f}")
    confusion = np.zeros((CLASSES, CLASSES), int)
    np.add.at(confusion, (test_y, guess), 1)
    return dict(device=handle.device.name, losses=losses, accuracies=accuracies, accuracy=accuracies[-1],
                confusion=confusion.tolist(), seconds_per_epoch=float(np.median(seconds)),
                steps_per_epoch=steps)


def draw(result, path):
    """Learning curve and confusion matrix, as one picture."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
    left.plot(result["losses"], lw=0.8, color="tab:blue")
    left.set(xlabel="step", ylabel="cross-entropy", yscale="log", title=f"digits on {result['device']}")
    twin = left.twinx()
    twin.plot(np.arange(1, len(result["accuracies"]) + 1) * result["steps_per_epoch"],
              result["accuracies"], "o-", ms=3, color="tab:orange")
    twin.set_ylabel("test accuracy")
    confusion = np.array(result["confusion"])
    right.imshow(np.log1p(confusion), cmap="Blues")
    right.set(xlabel="recognised as", ylabel="written", title=f"test accuracy {result['accuracy']:.1%}",
              xticks=range(10), yticks=range(10))
    for (i, j), count in np.ndenumerate(confusion):
        if count:
            right.text(j, i, count, ha="center", va="center", fontsize=7,
                       color="white" if i == j else "black")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", default=None, help="cuda:0, numpy; default: a GPU if there is one")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--picture", default="digits.png")
    parser.add_argument("--record", default=None, help="write the numbers to this JSON file")
    args = parser.parse_args()
    result = train(args.device, args.epochs)
    draw(result, args.picture)
    if args.record:
        with open(args.record, "w") as f:
            json.dump(result, f)
    print(f"\n{'device':<12}{'s per epoch':>12}{'test accuracy':>15}\n"
          f"{result['device']:<12}{result['seconds_per_epoch']:>12.3f}"
          f"{result['accuracy']:>15.2%}\n\npicture: {args.picture}")


if __name__ == "__main__":
    main()

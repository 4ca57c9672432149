"""A training step of ResNet-18: our functions in place of torch's, torch eager and compiled (torch; a GPU, or
the CPU where only the losses are compared).

    python benchmarks/training_step.py [--batch 64] [--size 224] [--json FILE]

bf16, channels last, batch norm's parameters f32, SGD. Every way starts from the same parameters and takes
the same batches; its losses must be those of torch eager, then the ways run in turns: the median of the step
times. ``captured``: the step as one CUDA graph.
"""
from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from contextlib import nullcontext

import torch
from torch import nn

import cydnn.torch

ROUNDS, STEPS = 7, 10


class Block(nn.Module):
    """Two convolutions and what is added to them."""

    def __init__(self, c: int, k: int, stride: int):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(a, k, 3, s, 1, bias=False) for a, s in ((c, stride), (k, 1)))
        self.norm1, self.norm2 = nn.BatchNorm2d(k), nn.BatchNorm2d(k)
        self.side = nn.Identity() if (c, stride) == (k, 1) else nn.Sequential(
            nn.Conv2d(c, k, 1, stride, bias=False), nn.BatchNorm2d(k))

    def forward(self, x):
        y = nn.functional.relu(self.norm1(self.conv1(x)))
        return nn.functional.relu(self.norm2(self.conv2(y)) + self.side(x))


def resnet18(classes: int = 1000, width: int = 64) -> nn.Module:
    """The network of He et al., 2015, without what makes it another for small images."""
    rows = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = width
    for stage in range(4):
        k = width << stage
        rows += [Block(before, k, 1 + (stage > 0)), Block(k, k, 1)]
        before = k
    return nn.Sequential(*rows, nn.AvgPool2d(7), nn.Flatten(), nn.Linear(before, classes))


class Way:
    """A model and its optimizer, and how a step of it runs."""

    def __init__(self, model, around=nullcontext, is_compiled=False):
        self.model, self.around = copy.deepcopy(model), around
        self.run = torch.compile(self.model) if is_compiled else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self, x, labels):
        """The loss of a batch, before the parameters move."""
        with self.around():
            self.optimizer.zero_grad(set_to_none=False)
            loss = nn.functional.cross_entropy(self.run(x).float(), labels)
            loss.backward()
            self.optimizer.step()
        return loss


class Captured:
    """The step of another way as one CUDA graph, on one batch."""

    def __init__(self, way: Way, x, labels):
        self.x, self.labels, self.graph = x.clone(), labels.clone(), torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                way.step(self.x, self.labels)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.loss = way.step(self.x, self.labels)

    def step(self, x, labels):
        self.graph.replay()
        return self.loss


def timed(way, x, labels) -> float:
    """Milliseconds of a step, the mean of some."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        way.step(x, labels)
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / STEPS


def compared(ways: dict, batches) -> dict:
    """{way: its last loss}; raises where that is not torch's, as far as bf16 tells."""
    losses = {name: [way.step(*batch).item() for batch in batches] for name, way in ways.items()}
    for name, found in losses.items():
        torch.testing.assert_close(torch.tensor(found), torch.tensor(losses["torch"]), rtol=0.03, atol=0.03,
                                   msg=lambda text: f"{name}: {text}")
    return {name: found[-1] for name, found in losses.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--json")
    asked = parser.parse_args()
    torch.manual_seed(0)
    place = "cuda" if torch.cuda.is_available() else "cpu"
    kind, form = (torch.bfloat16, torch.channels_last) if place == "cuda" else (
        torch.float32, torch.contiguous_format)                # torch's CPU ends in a double free otherwise
    model = resnet18(width=64 if place == "cuda" else 4).to(place, kind, memory_format=form)
    for one in model.modules():
        if isinstance(one, nn.BatchNorm2d):
            one.float()
    images = [torch.randn(asked.batch, 3, asked.size, asked.size, device=place, dtype=kind) for _ in range(3)]
    batches = [(x.to(memory_format=form), torch.randint(1000, (asked.batch,), device=place)) for x in images]
    ways = {"torch": Way(model), "cydnn": Way(model, cydnn.torch.replaced)}
    if place == "cuda":
        ways["torch compiled"] = Way(model, is_compiled=True)
    table = dict(card=torch.cuda.get_device_name() if place == "cuda" else "CPU", torch=torch.__version__,
                 batch=asked.batch, size=asked.size, losses=compared(ways, batches),
                 report=cydnn.torch.report().splitlines())
    if place == "cuda":
        for name in ("torch", "cydnn"):
            ways[f"{name} captured"] = Captured(ways[name], *batches[0])
        times: dict = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                times[name].append(timed(way, *batches[0]))
        table["ms"] = {name: round(statistics.median(found), 3) for name, found in times.items()}
    print(json.dumps(table, indent=1))
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()

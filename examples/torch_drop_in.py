"""A network of torch that trains with our functions in place of torch's, and what went to torch.

    python examples/torch_drop_in.py [device]

Two equal networks learn the same batches for a few steps, one inside ``cydnn.torch.replaced()``; their losses
are compared. ``device``: "cuda" (the default where there is one), "cpu" (the NumPy device computes).
"""
from __future__ import annotations

import copy
import sys

import torch
from torch import nn

import cydnn.torch


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3, padding=1), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(),
                         nn.Linear(64, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 4))


def step(model: nn.Module, optimizer, x, labels) -> float:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def main(device=None, steps=5) -> dict:
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    theirs = network().to(device)
    ours = copy.deepcopy(theirs)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (ours, theirs)]
    losses = []
    for _ in range(steps):
        x, labels = torch.randn(16, 1, 8, 8, device=device), torch.randint(4, (16,), device=device)
        with cydnn.torch.replaced():
            mine = step(ours, optimizers[0], x, labels)
        losses.append((mine, step(theirs, optimizers[1], x, labels)))
        print(f"loss with ours {mine:.6f}, with torch's {losses[-1][1]:.6f}")
    print(cydnn.torch.report())
    return dict(losses=losses)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else None)

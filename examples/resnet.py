"""ResNet-18 learns to tell two photographs apart by small pieces of them, beside the same network of torch.

    python examples/resnet.py [cpu | cuda]

The photographs ship with scikit-learn. Both networks begin equal and get the same pieces; every convolution,
normalization, activation, pool and product of ours is a function of ``cydnn.torch``. Prints the losses, how
many pieces both get right, and, on a GPU, the time of a step. Needs torch, scikit-learn, pillow.
"""
from __future__ import annotations

import sys
import time

try:
    import torch
    from PIL import Image  # noqa: F401  (scikit-learn reads the photographs by it)
    from sklearn.datasets import load_sample_images
except ImportError as error:
    sys.exit(f"resnet: needs the package {error.name}: pip install torch scikit-learn pillow")

import cydnn.torch

F, NORM = torch.nn.functional, ("weight", "bias", "running_mean", "running_var")


class Theirs:
    """What the network is made of, by torch."""
    conv, relu, linear, max_pool = F.conv2d, F.relu, F.linear, F.max_pool2d
    batch_norm = F.batch_norm


def parameters(width: int, classes: int, device: str) -> dict:
    """{name: tensor} of a ResNet-18 whose first stage has ``width`` channels."""
    made: dict = {}

    def conv(name: str, c: int, k: int, size: int):
        made[name] = torch.randn(k, c, size, size, device=device) * (2 / (c * size * size)) ** 0.5
        values = (torch.ones, torch.zeros, torch.zeros, torch.ones)
        made.update({f"{name}.{n}": value(k, device=device) for n, value in zip(NORM, values)})
    conv("stem", 3, width, 3)
    before = width
    for stage in range(4):
        k = width << stage
        for block in range(2):
            conv(f"{stage}{block}a", before, k, 3)
            conv(f"{stage}{block}b", k, k, 3)
            if before != k:
                conv(f"{stage}{block}s", before, k, 1)
            before = k
    made["head"] = torch.randn(classes, before, device=device) * before ** -0.5
    for name, value in made.items():
        value.requires_grad_("running" not in name)
    return made


def forward(p: dict, x, by, training: bool):
    """The network: a convolution, eight blocks of two, a product."""
    def unit(name: str, x, stride=1, is_last=False):
        y = by.conv(x, p[name], None, stride, p[name].shape[-1] // 2)
        weight, bias, mean, var = (p[f"{name}.{n}"] for n in NORM)
        y = by.batch_norm(y, mean, var, weight, bias, training)
        return y if is_last else by.relu(y)
    x = by.max_pool(unit("stem", x), 2, 2)
    for stage in range(4):
        for block in range(2):
            name, stride = f"{stage}{block}", 2 if stage and not block else 1
            beside = unit(name + "s", x, stride, is_last=True) if name + "s" in p else x
            x = by.relu(unit(name + "b", unit(name + "a", x, stride), is_last=True) + beside)
    return by.linear(x.mean((2, 3)), p["head"])


def pieces(count: int, size: int, generator, device: str):
    """(pieces of the photographs, which photograph each is of)."""
    photos = [torch.tensor(image).permute(2, 0, 1) / 128 - 1 for image in load_sample_images().images]
    labels = torch.randint(len(photos), (count,), generator=generator)
    found = []
    for label in labels:
        h, w = photos[label].shape[1:]
        top, left = (int(torch.randint(n - size, (), generator=generator)) for n in (h, w))
        found.append(photos[label][:, top:top + size, left:left + size])
    return torch.stack(found).to(device), labels.to(device)


def step(p: dict, x, labels, by, rate=0.02) -> float:
    """One step of gradient descent; the loss before it."""
    loss = F.cross_entropy(forward(p, x, by, True), labels)
    learned = [value for value in p.values() if value.requires_grad]
    with torch.no_grad():
        for value, grad in zip(learned, torch.autograd.grad(loss, learned)):
            value -= rate * grad
    return loss.item()


def main(device=None, steps=None, width=None, batch=None) -> dict:
    """Losses and right answers of both networks."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    small = device == "cpu"
    steps, width, batch = steps or (12 if small else 200), width or (4 if small else 64), batch or (
        16 if small else 128)
    torch.manual_seed(0)
    generator, ways = torch.Generator().manual_seed(1), dict(ours=cydnn.torch, torch=Theirs)
    first = parameters(width, 2, device)
    nets = {name: {k: v.detach().clone().requires_grad_(v.requires_grad) for k, v in first.items()}
            for name in ways}
    losses: dict = {name: [] for name in ways}
    seconds = dict.fromkeys(ways, 0.0)
    for i in range(steps):
        x, labels = pieces(batch, 32, generator, device)
        for name, by in ways.items():
            start = time.perf_counter()
            losses[name].append(step(nets[name], x, labels, by))       # .item() waits for the device
            seconds[name] += (time.perf_counter() - start) * (i > 0)   # the first builds plans
        print(f"step {i}: loss " + ", ".join(f"{name} {losses[name][-1]:.5f}" for name in ways))
    x, labels = pieces(4 * batch, 32, generator, device)
    with torch.no_grad():
        right = {name: float((forward(nets[name], x, by, False).argmax(1) == labels).float().mean())
                 for name, by in ways.items()}
    print("right: " + ", ".join(f"{name} {share:.0%}" for name, share in right.items()))
    if not small:
        print("ms a step: " + ", ".join(f"{n} {s / max(steps - 1, 1) * 1e3:.2f}" for n, s in seconds.items()))
    return dict(losses=losses, right=right)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Host time of a function on tensors of torch, over the launch that it ends in (torch; a GPU, or the CPU).

    python benchmarks/eager.py [--json FILE]

Small problems, whose device time is below the host's. Each way is checked against torch's own result first;
the ways run in turns, the least of some rounds counts. `plan`: the launch with addresses. On the CPU, where
the NumPy device computes, the launch is left out behind the check: what is timed is all that comes before it.
"""
from __future__ import annotations

import argparse
import json
import time

import torch

import cydnn
import cydnn.torch
from cydnn import functional

CALLS, ROUNDS = 2000, 15


def ways(name: str, arrays, options: dict) -> dict:
    """{way: a call of it}, of one function."""
    function = functional.FUNCTIONS[name]
    call = function.prepare(*arrays, **options)
    out = call(*arrays)
    inputs = [x for x in arrays if x is not None]
    addresses = [x.data_ptr() for x in (*inputs, out)]
    space = torch.empty(max(call.plan.workspace_bytes, 1), dtype=torch.uint8, device=out.device)
    room, stream = space.data_ptr(), torch.cuda.current_stream().cuda_stream if out.is_cuda else 0
    theirs = dict(conv=torch.nn.functional.conv2d, relu=torch.relu, softmax=torch.softmax,
                  linear=torch.nn.functional.linear)[name]
    operator = getattr(cydnn.torch, name)
    launch = call.plan.execute if out.is_cuda else _nothing
    return {
        "plan": lambda: launch(addresses, room, stream),
        "prepared, out=": lambda: call(*arrays, out=out),
        "prepared": lambda: call(*arrays),
        "function, out=": lambda: function(*arrays, **options, out=out),
        "function": lambda: function(*arrays, **options),
        "operator of torch": lambda: operator(*arrays, **options),
        "torch": lambda: theirs(*arrays, **options)}


def _nothing(*_):
    """A launch that is left out."""


def checked(found: dict):
    """Raise where two ways differ."""
    want = found["torch"]().float()
    for way in ("prepared", "function", "operator of torch"):
        torch.testing.assert_close(found[way]().float(), want, rtol=2e-2, atol=2e-2)


def measured(found: dict) -> dict:
    """{way: microseconds of the host a call}."""
    least = dict.fromkeys(found, float("inf"))
    for _ in range(ROUNDS):
        for way, call in found.items():
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            least[way] = min(least[way], (time.perf_counter() - start) / CALLS * 1e6)
    return least


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json")
    args, has_gpu = parser.parse_args(), torch.cuda.is_available()
    half = dict(dtype=torch.float16, device="cuda") if has_gpu else dict(dtype=torch.float32)
    image = torch.randn(1, 64, 8, 8, **half).to(memory_format=torch.channels_last)
    filters = torch.randn(64, 64, 3, 3, **half).to(memory_format=torch.channels_last)
    rows = torch.randn(64, 64, **half)
    cases = [("relu", (rows,), {}), ("softmax", (rows,), dict(dim=1)), ("linear", (rows, rows), {}),
             ("conv", (image, filters), dict(padding=1))]
    table = {}
    where = torch.cuda.get_device_name() if has_gpu else "CPU, no launch"
    print(f"# {where}, torch {torch.__version__}; host us a call, the least of {ROUNDS} rounds")
    with torch.no_grad():
        for name, arrays, options in cases:
            found = ways(name, arrays, options)
            checked(found)
            if not has_gpu:
                functional.FUNCTIONS[name].prepare(*arrays, **options).execute = _nothing
            table[name] = measured(found)
            base = table[name]["plan"]
            rows = [f"{way} {us:.2f} (+{us - base:.2f})" for way, us in table[name].items()]
            print(name, *rows, sep="\n    ")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()

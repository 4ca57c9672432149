"""Attention whose maxima rise block by block, the worst data for a kernel that goes on with an old maximum,
beside the same problem on random data, with the peer:
``python benchmarks/rising.py [--out DIR] [--repeat N] [--no-peer]``.

Scores rise by 32 each 128 keys. Writes rising.md and rising.json.
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from run import HERE, header                     # the folder of this script is on the path
from cydnn import bench

SIZES = [(4, 32, 4096, 128, "bf16"), (16, 16, 1024, 64, "bf16"), (4, 32, 2048, 256, "bf16")]


def lines() -> list[str]:
    """Full and causal problems of each size."""
    found = []
    for b, h, s, d, dtype in SIZES:
        rows = f"{b}x{h}x{s}x{d}:{dtype}"
        k = f"{b}x{h}x{d}x{s}:{dtype}@{h * s * d},{s * d},1,{d}"
        found += [f"sdpa q={rows} k={k} v={rows} o={rows}{end}" for end in ("", " right=0")]
    return found


def rising(case):
    """The first column of q is 1, that of k a quarter of the key's number."""
    for name, value in ("q", np.ones(1)), ("k", 0.25 * np.arange(case.problem.operands["k"].dims[3])):
        d, ptr = case.problem.operands[name], case.buffers[name].ptr
        raw = case.device.copy_out(ptr, np.empty(d.bytes, np.uint8))
        stored = np.lib.stride_tricks.as_strided(raw.view(d.dtype.numpy), d.dims,
                                                 [stride * d.dtype.bytes for stride in d.strides])
        stored[(..., 0) if name == "q" else (..., 0, slice(None))] = d.dtype.encode(value)
        case.device.copy_in(ptr, raw)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--no-peer", action="store_true")
    args = parser.parse_args()
    page, saved = header("rising", args, "python benchmarks/rising.py"), {}
    for title, data in ("maxima that rise block by block", rising), ("random", None):
        rows = bench.bench(lines(), args.device, None if args.no_peer else "torch", args.repeat, data=data)
        page += f"## {title}\n\n{bench.table(rows, markdown=True)}\n\n{bench.summary(rows)}\n\n"
        saved[title] = bench.as_json(rows)
        print(f"{title}\n{bench.table(rows)}", flush=True)
    (args.out / "rising.md").write_text(page)
    (args.out / "rising.json").write_text(json.dumps(saved, indent=1) + "\n")


if __name__ == "__main__":
    main()

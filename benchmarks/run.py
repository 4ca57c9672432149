"""Every problem file against the peer, in one run: ``python benchmarks/run.py [family…] [--out DIR]
[--repeat N] [--no-peer]``.

Writes <family>.md and <family>.json under ``--out`` (default benchmarks/results).
Above each table: GPU, driver, clocks, command.
"""
from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import numpy as np                               # noqa: E402

from cydnn import bench, device as devices       # noqa: E402


def header(family, args, command="") -> str:
    """What stands above a table. ``command``: how it is made, where not by this script."""
    facts = devices.get(args.device).facts
    asked = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.draw,driver_version",
             "--format=csv,noheader"]
    smi = (subprocess.run(asked, capture_output=True, text=True).stdout.strip() if shutil.which(asked[0])
           else "unknown")
    return (f"# {family}\n\n{facts.name}, CUDA {facts.driver // 1000}.{facts.driver % 1000 // 10}; clocks, "
            f"power, driver: {smi}; {time.strftime('%Y-%m-%d')}. Cold L2 (268 MB are read before each run), "
            f"median of {args.repeat} runs, ours and the peer's alternating, random inputs, results "
            "checked first. `ratio` is peer time over ours; `of copy` the share of the copy bandwidth "
            "measured in the same run.\n\n"
            f"Command: `{command or f'python benchmarks/run.py {family}'}`\n\n")


def in_groups(case):
    """Offsets of grouped matmul divide the rows evenly."""
    p = case.problem
    if p.op.name.startswith("grouped_matmul"):
        d, rows = p.operands["offsets"], p.operands["x"].dims[1]
        case.device.copy_in(case.buffers["offsets"].ptr,
                            (np.arange(d.count) * rows // d.count).astype(d.dtype.numpy))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*", help="files of benchmarks/problems without .txt; default: all")
    parser.add_argument("--out", default=str(HERE / "results"))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--no-peer", action="store_true")
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for family in args.family or sorted(p.stem for p in (HERE / "problems").glob("*.txt")):
        text = (HERE / "problems" / f"{family}.txt").read_text().splitlines()
        lines = [l.split("#")[0].strip() for l in text if l.split("#")[0].strip()]
        page = header(family, args)

        def keep(rows):                          # behind each row: a run that is cut off has what it did
            text = f"{page}{bench.table(rows, markdown=True)}\n\n{bench.summary(rows)}\n"
            (out / f"{family}.md").write_text(text)
            (out / f"{family}.json").write_text(json.dumps(bench.as_json(rows), indent=1) + "\n")
        rows = bench.bench(lines, args.device, None if args.no_peer else "torch", args.repeat, each=keep,
                           data=in_groups)
        print(f"\n{family}\n{bench.table(rows)}\n{bench.summary(rows)}", flush=True)


if __name__ == "__main__":
    main()

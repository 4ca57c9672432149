"""Recurrent networks in training: forward, gradients of data, gradients of weights, on shared buffers, and
the same by PyTorch with the closed library: ``python benchmarks/rnn.py [words…] [--out DIR] [--repeat N]
[--no-peer]``; only lines of problems/rnn.txt that have all words.

Passes run in the order of training, ours and the peer's in turns, so that every backward pass finds what its
forward pass left. The peer's backward is one call; ours is the sum of two.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import numpy as np                               # noqa: E402

from cydnn import bench, device as devices, plan as plans  # noqa: E402
from cydnn.ops import Problem, RnnBwdData, RnnBwdWeights  # noqa: E402
from cydnn.status import CydnnError              # noqa: E402
from run import header                           # noqa: E402

PASSES = ("forward", "data", "weights")
SMALL = ("dy", "dhy", "dcy")                     # gradients, so that f16 holds their sums


@dataclass
class Row:
    problem: str
    engines: str = ""
    forward: float = float("nan")
    data: float = float("nan")
    weights: float = float("nan")
    peer_forward: float = float("nan")
    peer_backward: float = float("nan")
    ratio_forward: float = float("nan")
    ratio_backward: float = float("nan")
    note: str = ""


class Training:
    """The three passes of a forward line on one set of buffers."""

    def __init__(self, line: str, device):
        forward = Problem.parse(line)
        facts = {name: getattr(forward.op, name) for name in forward.op.attributes()}
        x = forward.operands["x"]
        every = lambda op: {n: d for n, d in op.described(
            x.dtype, x.dims[1], *(n for n in op.operands() if n != "states")).items() if d}
        self.problems = [forward, *(Problem(op, every(op)) for op in (RnnBwdData(**facts),
                                                                      RnnBwdWeights(**facts)))]
        self.problem, self.device, self.buffers, self.calls, self.plans = forward, device, {}, [], []
        for problem in self.problems:
            self._add(problem)

    def _add(self, problem):
        graph = bench.graph_of(problem)
        built = plans.build(graph, self.device)
        names = [graph.tensors[uid].name for uid in graph.slots]
        for seed, (name, d) in enumerate(zip(names, built.slots)):
            if name not in self.buffers:
                self.buffers[name] = self.device.alloc(max(d.bytes, 1))
                values = bench.random_values(d, seed, lambda v, n=name: self._size(problem, n) * v)
                self.device.copy_in(self.buffers[name].ptr, values)
        pointers = tuple(int(self.buffers[name].ptr) for name in names)
        room = self.device.alloc(max(built.workspace_bytes, 1))
        self.plans.append(built)
        self.calls.append(lambda: built.execute(pointers, int(room.ptr)))

    @staticmethod
    def _size(problem, name):
        weight = problem.op.hidden ** -0.5
        return {"dw": 0.0, "w": weight, **dict.fromkeys(SMALL, 0.1)}.get(name, 1.0)

    def desc(self, name):
        return next(p.operands[name] for p in self.problems if p.operands.get(name) is not None)


def torch_copies(training):
    """{name: torch tensor} of what the passes read."""
    import torch
    from cydnn.bench.peer import _TYPES
    found = {}
    for name in ("x", "w", "hx", "cx", "dy", "dhy", "dcy"):
        if name in training.buffers:
            d = training.desc(name)
            found[name] = torch.empty(d.dims, dtype=_TYPES[d.dtype.name], device="cuda")
            training.device.context.copy(found[name].data_ptr(), int(training.buffers[name].ptr), d.bytes, 0)
    return found


def errors(training, network) -> dict:
    """{output: largest difference over the peer's largest value} after one round of both."""
    for call in training.calls:
        call()
    y, hy, cy = network.forward()
    dx, dhx, dcx, weights = network.backward()
    theirs = dict(y=y, hy=hy, cy=cy, dx=dx, dhx=dhx, dcx=dcx, dw=network.as_blob(weights))
    training.device.synchronize()
    found = {}
    for name, want in theirs.items():
        if name in training.buffers:
            d = training.desc(name)
            raw = training.device.copy_out(training.buffers[name].ptr, np.empty(d.bytes, np.uint8))
            ours, want = d.dtype.decode(raw.view(d.dtype.numpy)), want.double().cpu().numpy().reshape(-1)
            found[name] = float(np.nan_to_num(np.abs(ours - want), nan=np.inf).max() / np.abs(want).max())
    return found


def measure(line, device, clock, repeat, with_peer) -> Row:
    row = Row(line)
    try:
        training = Training(line, device)
    except CydnnError as error:
        row.note = str(error).splitlines()[0]
        return row
    row.engines = " ".join(built.name for built in training.plans)
    calls = list(training.calls)
    if with_peer:
        from cydnn.bench.peer_rnn import Network
        network = Network(training.problem.op, torch_copies(training))
        worst = errors(training, network)
        row.note = "largest difference " + " ".join(f"{n} {e:.1g}" for n, e in worst.items())
        dtype = training.desc("y").dtype         # in f32 both sum with as many digits as they store
        if not max(worst.values()) <= (256 if dtype.name == "f32" else 64) * dtype.eps:
            row.note = "WRONG: " + row.note
            return row
        calls += [network.forward, network.backward]
    found = [statistics.median(times) for times in clock.times(calls, repeat)]
    row.forward, row.data, row.weights = found[:3]
    if with_peer:
        row.peer_forward, row.peer_backward = found[3:]
        row.ratio_forward = row.peer_forward / row.forward
        row.ratio_backward = row.peer_backward / (row.data + row.weights)
    return row


def summary(rows) -> str:
    """Geometric means and the worst rows."""
    lines = [f"{len([r for r in rows if r.forward == r.forward])} of {len(rows)} rows measured"]
    for name in ("forward", "backward"):
        known = [(getattr(r, f"ratio_{name}"), r.problem) for r in rows
                 if getattr(r, f"ratio_{name}") == getattr(r, f"ratio_{name}")]
        if known:
            mean = float(np.exp(np.mean([np.log(ratio) for ratio, _ in known])))
            lines.append(f"{name}: peer / ours {mean:.2f} (geometric mean), worst {min(known)[0]:.2f} at "
                         f"{min(known)[1]}")
    return "; ".join(lines)


def table(rows) -> str:
    """A Markdown table."""
    number = lambda v, digits: f"{v:.{digits}f}" if v == v else ""
    head = ("problem", "engines", "forward us", "peer us", "ratio", "data us", "weights us", "peer us",
            "ratio", "note")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for r in rows:
        cells = (r.problem, r.engines, number(r.forward, 1), number(r.peer_forward, 1),
                 number(r.ratio_forward, 2), number(r.data, 1), number(r.weights, 1),
                 number(r.peer_backward, 1), number(r.ratio_backward, 2), r.note)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("words", nargs="*", help="words that a line must have")
    parser.add_argument("--out", type=Path, default=None, help="a folder for rnn.md and rnn.json")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--no-peer", action="store_true")
    args = parser.parse_args()
    device = devices.get(args.device)
    clock, rows = bench.Clock(device), []
    for line in (HERE / "problems" / "rnn.txt").read_text().splitlines():
        if line.startswith("rnn_fwd ") and all(word in line.split() for word in args.words):
            rows.append(measure(line, device, clock, args.repeat, not args.no_peer))
            plans.forget()
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    print(summary(rows))
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "rnn.md").write_text(header("rnn", args).replace("run.py rnn", "rnn.py") + table(rows)
                                         + "\n\n" + summary(rows) + "\n")
        (args.out / "rnn.json").write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()

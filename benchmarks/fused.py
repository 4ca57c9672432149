"""Convolution + bias + GELU over the layers of a problem file, in one run: our plain convolution, ours with
all in one launch, and the closed library's fused graph.
``python benchmarks/fused.py [family …] [--only TEXT] [--plans N] [--no-peer] [--beside] [--out DIR]``.

The peer is the package nvidia-cudnn-frontend: heuristics mode A, the first N plans timed, the fastest kept.
Every result is compared with torch's before it is timed. Writes fused_<family>.md and .json after each row.
``--beside``: also, in the same rounds, every configuration of the forms beside (filters that stay, first
layers with store=tma), plain and fused: a line each under the table, its ratio to
the plain choice.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from cydnn import bench, device as devices, plan as plans      # noqa: E402
from cydnn.heuristics import Wish                              # noqa: E402
from cydnn.heuristics.wish import ANYTHING                     # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402
from cydnn.status import BadParam                              # noqa: E402
from run import header                                         # noqa: E402

NAN = float("nan")


@dataclass
class Row:
    """Microseconds; ``fused_plain`` is ours fused over ours plain, ``ratio`` the peer's time over ours."""
    problem: str
    engine: str = ""
    plain_us: float = NAN
    us: float = NAN
    fused_plain: float = NAN
    peer_us: float = NAN
    ratio: float = NAN
    peer: str = ""                               # the plan that was the fastest
    note: str = ""
    beside: list = field(default_factory=list)    # [configuration, plain us, fused us, what is wrong]


def is_beside(config) -> bool:
    return bool(config.get("resident")) or config.get("store") == "tma" and not config.get("tile")


class Layer:
    """One layer in torch's memory, and the calls that are timed."""

    def __init__(self, problem, device, torch):
        self.problem, self.device, self.torch = problem, device, torch
        x, w, y = (problem.operands[name] for name in "xwy")
        kind = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[x.dtype.name]
        self.bound = 4 * x.dtype.eps             # of two roundings, with room
        make = lambda d: torch.empty(d.extent, device="cuda", dtype=kind).as_strided(d.dims, d.strides)
        self.x, self.w, self.out, self.theirs = (make(d) for d in (x, w, y, y))
        self.bias = torch.empty((1, y.c, 1, 1), device="cuda", dtype=kind).uniform_(-1, 1)
        self.x.uniform_(-1, 1)
        self.w.uniform_(-1, 1).mul_((3 / problem.op.terms(**problem.operands)) ** 0.5)
        self.rooms = []

    def at(self) -> dict:
        pre, post, stride, dilation = self.problem.op.geometry(4)
        if pre != post:
            raise BadParam(f"fused: paddings must be equal on both sides; got {pre} and {post}")
        return dict(padding=list(pre), stride=list(stride), dilation=list(dilation))

    def ours(self, graph, tensors, wish=ANYTHING):
        """(call, plan) of a graph; ``tensors``: by the uids of its slots."""
        plan = plans.build(graph, self.device, wish)
        room = self.torch.empty(max(plan.workspace_bytes, 1), device="cuda", dtype=self.torch.uint8)
        self.rooms.append(room)
        pointers = tuple(tensors[uid].data_ptr() for uid in graph.slots)
        return lambda: plan.execute(pointers, room.data_ptr()), plan

    def plain(self, wish=ANYTHING):
        return self.ours(bench.graph_of(self.problem), {1: self.x, 2: self.w, 3: self.out}, wish)

    def fused(self, wish=ANYTHING):
        return self.ours(bench.biased(self.problem), {1: self.x, 2: self.w, 4: self.bias, 6: self.out}, wish)

    def beside(self, plan, wants):
        """[[configuration, nan, nan, what is wrong], plain call, fused call] of what the engine of a plan
        has beside; ``wants``: the plain and the fused result."""
        part = plan.parts[0]
        for config in filter(is_beside, part.engine.configs(part.match, self.device.facts)):
            wish = Wish(engines=(part.engine.index,), config=config)
            calls = [make(wish)[0] for make in (self.plain, self.fused)]
            wrong = [self.wrong(call, self.out, want) for call, want in zip(calls, wants)]
            yield [str(config), NAN, NAN, " ".join(filter(None, wrong))], *calls

    def wants(self) -> tuple:
        """The plain and the fused result, as torch has them."""
        f, kind = self.torch.nn.functional, self.x.dtype
        plain = f.conv2d(self.x, self.w, **self.at())
        return plain, f.gelu(plain.float() + self.bias.float()).to(kind)

    def wrong(self, call, out, want) -> str:
        """What the numbers of a call are, where they are not as torch has them."""
        out.fill_(NAN)
        call()
        error = float(((out.float() - want.float()).abs().nan_to_num(1e30)).max() / want.float().abs().max())
        return "" if error <= self.bound else f"WRONG: {error:.2g} of the largest value"


def measure(row, device, clock, torch, peer, args):
    """Fill a row."""
    layer = Layer(Problem.parse(row.problem), device, torch)
    wants, (fused, plan), (plain, _) = layer.wants(), layer.fused(), layer.plain()
    want = wants[1]
    row.engine, row.note = plan.name, layer.wrong(fused, layer.out, want)
    calls = [plain] if row.note else [plain, fused]
    if peer and not row.note:
        try:
            theirs = peer(layer.x, layer.w, layer.bias, layer.theirs, layer.at(), clock, args.plans)
            row.peer, row.note = theirs.name, layer.wrong(theirs, layer.theirs, want)
            calls += [] if row.note else [theirs]
            row.note = row.note and f"the peer's is {row.note}"
        except Exception as error:               # the package has several errors of its own
            row.note = f"peer: {type(error).__name__}: {error}".splitlines()[0][:160]
    others = list(layer.beside(plan, wants)) if args.beside else []
    right = [other for other in others if not other[0][3]]
    every = calls + [call for _, *both in right for call in both]
    found = [statistics.median(times) for times in clock.times(every, args.repeat)]
    row.plain_us, row.us, row.peer_us = (*found[:len(calls)], NAN, NAN)[:3]
    row.fused_plain, row.ratio = row.us / row.plain_us, row.peer_us / row.us
    for at, (line, *_) in enumerate(right):
        line[1:3] = found[len(calls) + 2 * at:][:2]
    row.beside = [line for line, *_ in others]


def table(rows) -> str:
    number = lambda value, form: "" if value != value else format(value, form)
    lines = ["| problem | engine | plain us | fused us | fused / plain | peer us | ratio | note |",
             "|---|---|--:|--:|--:|--:|--:|---|"]
    lines += [f"| {r.problem} | {r.engine} | {number(r.plain_us, '.1f')} | {number(r.us, '.1f')} | "
              f"{number(r.fused_plain, '.2f')} | {number(r.peer_us, '.1f')} | {number(r.ratio, '.2f')} | "
              f"{r.note or r.peer} |" for r in rows]
    return "\n".join(lines)


def beside_table(rows) -> str:
    """The forms beside; empty where they were not asked for."""
    lines = [f"| {r.problem} | {config} | {plain:.1f} | {plain / r.plain_us:.2f} | {us:.1f} | "
             f"{us / r.plain_us:.2f} | {us / r.us:.2f} | {wrong} |"
             for r in rows for config, plain, us, wrong in r.beside]
    if not lines:
        return ""
    best = [min((us for _, _, us, _ in r.beside if us == us), default=NAN) for r in rows]
    both = [(us, r) for us, r in zip(best, rows) if us == us]
    total = sum(min(us, r.us) for us, r in both) / max(sum(r.plain_us for _, r in both), 1e-9)
    worst = max((min(us, r.us) / r.plain_us for us, r in both), default=NAN)
    head = ("\n\nBeside. `plain`, `fused`: over the plain choice; `over fused`: the fused one.\n\n"
            "| problem | configuration | plain us | plain | fused us | fused | over fused | note |\n"
            "|---|---|--:|--:|--:|--:|--:|---|\n")
    return head + "\n".join(lines) + (f"\n\nThe best fused form of each over the plain choice: {total:.3f} "
                                      f"(sums of {len(both)}), worst {worst:.2f}")


def summary(rows) -> str:
    """One line: sums over the layers that both have, geometric means, the worst."""
    good = [r for r in rows if r.us == r.us]
    if not good:
        return f"{len(rows)} layers, none measured"
    plain, us = sum(r.plain_us for r in good), sum(r.us for r in good)
    worst = max(good, key=lambda r: r.fused_plain)
    text = (f"{len(good)} of {len(rows)} layers; fused over plain {us / plain:.3f} (sums), "
            f"{statistics.geometric_mean([r.fused_plain for r in good]):.3f} (geometric mean), "
            f"worst {worst.fused_plain:.2f} at {worst.problem}")
    both = [r for r in good if r.ratio == r.ratio]
    if both:
        least = min(both, key=lambda r: r.ratio)
        text += (f"; peer over ours {sum(r.peer_us for r in both) / sum(r.us for r in both):.2f} (sums of "
                 f"{len(both)}), {statistics.geometric_mean([r.ratio for r in both]):.2f} (geometric mean), "
                 f"least {least.ratio:.2f} at {least.problem}")
    return text


def write(family, rows, args):
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    name = f"fused_{family}"
    page = header(name, args, f"python benchmarks/fused.py {family} --plans {args.plans}")
    out.joinpath(f"{name}.md").write_text(f"{page}{table(rows)}\n\n{summary(rows)}{beside_table(rows)}\n")
    plain = [{k: None if v != v else v for k, v in asdict(r).items()} for r in rows]
    out.joinpath(f"{name}.json").write_text(json.dumps(plain, indent=1) + "\n")


def packages(args):
    """(torch, the peer's class or None)."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise BadParam(f"fused: needs the package torch, for memory and checks; {error}") from None
    if args.no_peer:
        return torch, None
    from cydnn.bench.peer_graph import FusedConv
    return torch, FusedConv


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*", default=["conv_resnet50_bf16", "conv_resnet50_f16"])
    parser.add_argument("--only", default="", help="a part of the problem text")
    parser.add_argument("--plans", type=int, default=4, help="plans of the peer that are timed")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--beside", action="store_true", help="also the forms beside")
    parser.add_argument("--out", default=str(HERE / "results"))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeat", type=int, default=15)
    args = parser.parse_args()
    try:
        torch, peer = packages(args)
        device = devices.get(args.device)
    except BadParam as error:
        sys.exit(f"{error}. Without the peer: --no-peer")
    clock = bench.Clock(device)
    for family in args.family:
        lines = (HERE / "problems" / f"{family}.txt").read_text().splitlines()
        rows = [Row(line) for line in lines if line.startswith("conv_fprop") and args.only in line]
        for at, row in enumerate(rows):
            measure(row, device, clock, torch, peer, args)
            plans.forget()
            write(family, rows[:at + 1], args)
            print(table([row]).splitlines()[-1] + beside_table([row]), flush=True)
        print(summary(rows), flush=True)


if __name__ == "__main__":
    main()

"""Benchmarks: problem text lines in, one row each out: time, TFLOP/s or GB/s, share of the roof,
and the peer in the same run.

Rules: inputs are random, the result is checked before it is timed, the L2 is flushed before every timed call,
the median of many runs counts, ours and the peer's runs alternate. Rows where we lose stay.
"""
from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np

from .. import device as devices
from .. import dtypes
from .. import plan as plans
from ..clock import MOST_WALL, Clock
from ..device.numpy import read
from ..given import instance
from ..graph import Graph, Node, Tensor
from ..heuristics import ANYTHING
from ..ops import GenStats, Pointwise, Problem, Reduction
from ..status import CydnnError
from ..tensor import TensorDesc
from ..tune import tune

# best rates seen on an H200; the roof of math-bound rows
TFLOPS = {"f64": 60.0, "f32": 60.0, "f16": 700.0, "bf16": 790.0}


@dataclass
class Row:
    """One line of the table. Times in microseconds; ``roof`` is the share of the physical floor,
    ``ratio`` peer time over ours."""
    problem: str
    engine: str = ""
    us: float = float("nan")
    spread: float = float("nan")                 # (80th - 20th percentile) / median
    tflops: float = 0.0
    gbs: float = 0.0
    copy: float = 0.0                            # share of the bandwidth of a large copy measured in this run
    same: float = 0.0                       # share of the speed of a copy of just as many bytes, in this run
    roof: float = 0.0
    peer_us: float = float("nan")
    ratio: float = float("nan")
    note: str = ""
    reasons: list = field(default_factory=list)  # of the engines, where none took the problem


def graph_of(problem: Problem, scalars=()) -> Graph:
    """The one-op graph of a problem; uids count from 1 in operand order, names are those of the operands."""
    instance("graph_of: problem", problem, Problem)
    return Graph.single(problem.op, problem.operands, scalars, alignment=problem.alignment)


def biased(problem: Problem, mode: str = "gelu_fwd") -> Graph:
    """mode(conv(x, w) + bias), in that order of uids 1, 2, 4, 6; what lies between is float32 and stays in
    registers."""
    x, w, y = (problem.operands[name] for name in "xwy")
    wide, bias = TensorDesc.packed("f32", y.dims, "nhwc"), TensorDesc.packed(y.dtype, (1, y.c, 1, 1))
    tensors = [Tensor(1, x), Tensor(2, w), Tensor(3, wide, "virtual"), Tensor(4, bias),
               Tensor(5, wide, "virtual"), Tensor(6, y)]
    return Graph([Node(problem.op, dict(x=1, w=2, y=3)), Node(Pointwise(mode="add"), dict(x=3, b=4, y=5)),
                  Node(Pointwise(mode=mode), dict(x=5, y=6))], tensors)


def summed(problem: Problem, end: str = "bias") -> Graph:
    """The sum of the columns of a product (``end`` bias), or GenStats, behind it: uids 1 and 2 are read, 3 is
    the product, from 4 on the sums, in float32. ``end`` prologue: GenStats, and scale, bias and ReLU in front
    of x, whose values are float32 between them; uids 6 and 7 are read, too."""
    op = problem.op
    names = *op.reads[:2], op.writes[0]
    y, kept = problem.operands[names[2]], -1 if op.name == "matmul" else 1
    thin = TensorDesc.packed("f32", [d if i == kept % y.rank else 1 for i, d in enumerate(y.dims)])
    tensors = [Tensor(i + 1, problem.operands[name]) for i, name in enumerate(names)]
    last, writes = (Reduction(mode="add"), ["y"]) if end == "bias" else (GenStats(), ["sum", "sq_sum"])
    outputs = {name: 4 + i for i, name in enumerate(writes)}
    tensors += [Tensor(uid, thin) for uid in outputs.values()]
    read = dict(zip(names, (1, 2, 3)))
    front = _prologue(problem.operands[names[0]], tensors) if end == "prologue" else []
    if front:
        read[names[0]] = front[-1].writes[0]
    return Graph([*front, Node(op, read), Node(last, dict(x=3, **outputs))], tensors)


def _prologue(x, tensors: list) -> list:
    """The nodes that scale, shift and cut x, of uid 1; their tensors go to ``tensors``."""
    thin = TensorDesc.packed(x.dtype, [d if i == 1 else 1 for i, d in enumerate(x.dims)])
    between = TensorDesc("f32", x.dims, x.strides)
    tensors += [Tensor(uid, thin) for uid in (6, 7)]
    tensors += [Tensor(uid, between, "virtual") for uid in (8, 9, 10)]
    return [Node(Pointwise(mode="mul"), dict(x=1, b=6, y=8)),
            Node(Pointwise(mode="add"), dict(x=8, b=7, y=9)),
            Node(Pointwise(mode="relu_fwd"), dict(x=9, y=10))]


MOST_DRAWN = 1 << 20                             # random numbers; behind them they repeat


def random_values(desc, seed: int, admit=lambda values: values, *, once=False) -> np.ndarray:
    """Uniform in [-1, 1], or what ``admit`` makes of that, in storage type, of the tensor's whole
    extent: gaps hold numbers too. Behind a million elements they repeat; not with ``once``."""
    gen = np.random.default_rng(seed)
    if desc.dtype.bits < 8:
        return gen.integers(0, 256, desc.bytes, np.uint8)
    raw = gen.random(min(desc.extent, MOST_DRAWN), dtype=np.float32) * 2 - 1
    values = desc.dtype.encode(admit(raw))
    return values if once else np.resize(values, desc.extent)


def fill(device, ptr, desc, seed: int, admit):
    """Put ``random_values`` into memory; a GPU repeats them itself."""
    values = random_values(desc, seed, admit, once=device.context is not None)
    device.copy_in(ptr, values)
    have = values.nbytes
    while 0 < have < desc.bytes:
        part = min(have, desc.bytes - have)
        device.context.copy(int(ptr) + have, int(ptr), part, 0)
        have += part


class Case:
    """One problem on one device: buffers with random inputs, a plan, and a call that runs it."""

    def __init__(self, problem: Problem, device, wish=ANYTHING, scalars=()):
        self.problem, self.device = problem, device
        graph = graph_of(problem, scalars)
        self.plan = plans.build(graph, device, wish)
        self.names = [graph.tensors[uid].name for uid in graph.slots]    # an earlier plan may have others
        self.buffers = {n: self.room(n, d.bytes) for n, d in zip(self.names, self.plan.slots)}
        for seed, (name, d) in enumerate(zip(self.names, self.plan.slots)):
            fill(device, self.buffers[name].ptr, d, seed, partial(problem.op.admit, name))
        self.workspace = self.room("workspace", self.plan.workspace_bytes)
        self.pointers = tuple(int(self.buffers[n].ptr) for n in self.names)

    def room(self, name: str, size_bytes: int):
        """Memory of an operand, or of the workspace."""
        return self.device.alloc(max(size_bytes, 1))

    def __call__(self):
        self.plan.execute(self.pointers, int(self.workspace.ptr))

    def output(self, name):
        """A written tensor as float64."""
        d = self.problem.tensors[name]
        raw = self.device.copy_out(self.buffers[name].ptr, np.empty(d.bytes, np.uint8))
        return read(d, raw.ctypes.data) if d.count else np.empty(d.dims)


def measured(device, repeat: int) -> str:
    """What the times of a table are."""
    if device.context is not None:
        driver = device.facts.driver
        return f"driver CUDA {driver // 1000}.{driver % 1000 // 10}; device time, cold L2, median of {repeat}"
    what = ("of the interpreter, not of a GPU" if device.facts.kind == "cuda"
            else "of the NumPy reference, not of a kernel")
    return f"wall clock {what}, median of {min(repeat, MOST_WALL)}, caches as they are"


def bench(lines, device=None, against=None, repeat=30, wish=ANYTHING, check=True, each=None,
          data=None) -> list[Row]:
    """Rows for problem lines. ``against="torch"`` measures PyTorch in the same run
    and compares the results first. ``each`` is called with the rows so far behind each; ``data`` with a case
    whose buffers are filled, to fill them otherwise."""
    device = devices.get(device)
    clock = Clock(device)
    copy = (2 << 30) / clock.copy_us(2 << 30) * 1e-3
    peer = peer_of(against, device) if against else None
    rows = []
    for line in lines:
        row = Row(line)
        try:
            case = Case(Problem.parse(line), device, wish)
            if data:
                data(case)
            _measure(row, case, clock, copy, peer, repeat, check)
        except CydnnError as error:
            row.note, *row.reasons = str(error).splitlines()
        plans.forget()
        rows.append(row)
        if each:
            each(rows)
    return rows


def tuned(line: str, device, most: int = 20):
    """The choices of a problem line measured against each other, on random inputs."""
    case = Case(Problem.parse(line), device)
    pack = {t.uid: case.buffers[name].ptr for name, t in zip(case.names, case.plan.slots)}
    try:
        return tune(case.plan.graph, pack, device, most=most)
    finally:
        plans.forget()


def peer_of(name, device):
    """The module that makes a peer's calls."""
    from ..status import BadParam
    if name != "torch":
        raise BadParam(f"bench: against must be torch; got {name!r}")
    if device.context is None:
        raise BadParam(f"bench: --against {name} needs a CUDA device, where both run; got {device.name}")
    try:
        from . import peer
    except ModuleNotFoundError as error:
        raise BadParam(f"bench: against torch needs the package torch; {error}") from None
    return peer


def _measure(row, case, clock, copy, peer, repeat, check):
    problem = case.problem
    row.engine = case.plan.name
    theirs, error = peer.make(case) if peer else (None, None)
    if check:
        row.note = verdict(case, error)
    if row.note.startswith("WRONG"):
        return
    calls = [case] + ([theirs] if theirs else [])
    found = clock.times(calls, repeat)
    row.us = statistics.median(found[0])
    ordered = sorted(found[0])
    row.spread = (ordered[int(0.8 * (len(ordered) - 1))] - ordered[int(0.2 * (len(ordered) - 1))]) / row.us
    moved = problem.op.moved_bytes(**problem.operands)
    row.tflops, row.gbs = problem.flops / row.us * 1e-6, moved / row.us * 1e-3
    if clock.is_cuda:
        row.copy, row.same = row.gbs / copy, clock.copy_us(moved) / row.us
        row.roof = max(moved / copy * 1e-3,
                       problem.flops / TFLOPS.get(case.plan.slots[0].dtype.name, 60.0) * 1e-6) / row.us
    if theirs:
        row.peer_us = statistics.median(found[1])
        row.ratio = row.peer_us / row.us


def verdict(case, peer_error=None) -> str:
    """Check before timing: against the peer's full result where there is one, else against
    the reference when that is affordable.

    Where the two differ too much, float64 says whether it is our error or the peer's.
    """
    kept = {n: case.output(n) for n in case.problem.op.keeps if n in case.buffers}
    case()
    case.device.synchronize()
    if peer_error:
        errors, what = peer_error(), "torch"
    elif case.problem.flops < 2e8 and case.problem.bytes < 5e7:
        return _against_reference(case, kept)
    else:
        return "unchecked"
    bad = _too_large(errors, case.problem)
    if bad and peer_error:
        errors, what = peer_error(exact=True), "torch in float64"
        bad = _too_large(errors, case.problem)
    worst = max(errors.values(), default=0.0)
    return f"WRONG against {what}: {bad} of the largest value" if bad else f"error {worst:.1g} against {what}"


def _too_large(errors, problem) -> dict:
    """The outputs whose error is beyond what their type and the length of their sums explain."""
    return {n: e for n, e in errors.items() if not e <= _bound(problem, n)}


def _bound(problem, name) -> float:
    """What the type of an output and the length of its sums explain, over its largest value."""
    return max(16 * problem.operands[name].dtype.eps, _of_sums(problem))


def _of_sums(problem) -> float:
    """What the length of the sums explains, over what the op says that rounding errors scale with."""
    return (8 + 2 * problem.op.terms(**problem.operands) ** 0.5) * 2.0 ** -23


def _against_reference(case, kept) -> str:
    """The verdict by the op's definition. ``kept``: what outputs held before the call where that counts."""
    op, problem = case.problem.op, case.problem
    arrays = op.joined({n: case.output(n) for n in problem.tensors})
    with np.errstate(all="ignore"):
        wants = op.run_reference({**arrays, **kept}, dict(op.scalars))
        sizes = op.magnitude({**arrays, **kept}, dict(op.scalars), wants)
        found = [_elements(problem, n, arrays[n], want, sizes[n]) for n, want in wants.items() if n in arrays]
    wrong = "; ".join(text for _, text in found if text)
    return (f"WRONG against reference: {wrong}" if wrong
            else f"error {max((e for e, _ in found), default=0.0):.1g} against reference")


def _elements(problem, name, got, want, size) -> tuple:
    """(largest difference over the largest value, what is wrong or nothing). Right is what the value rounds
    to, what lies within the bound or that of the sums of ``size``, and as many of the smallest steps as there
    are terms: products of many fall below every type."""
    d, op = problem.operands[name].dtype, problem.op
    want = d.settle(np.broadcast_to(want, got.shape))
    same = (got == d.round(want)) | (np.isnan(got) & np.isnan(want))
    scale = np.abs(want[np.isfinite(want) & (want != d.lowest)]).max(initial=0.0) or 1.0
    steps = (op.terms(**problem.operands) + 2) * max(d.tiny, dtypes.BY_NAME[op.math].tiny)
    error = np.where(same, 0.0, np.maximum(np.abs(got - want) - steps - (d.kind == "int") / 2, 0.0) / scale)
    bad = ~(error <= np.fmax(_bound(problem, name), _of_sums(problem) * size / scale))
    if not bad.any():
        return float(error.max(initial=0.0)), ""
    at = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
    return np.inf, (f"{name}: {np.count_nonzero(bad)} of {bad.size} elements; the worst is "
                    f"{tuple(map(int, at))}: got {float(got[at])!r}, want {float(want[at])!r}")


def table(rows, markdown=False) -> str:
    """The rows as text, aligned, without columns in which nothing stands; or as a Markdown table."""
    columns = [("problem", lambda r: r.problem), ("engine", lambda r: r.engine),
               ("us", lambda r: f"{r.us:.1f}"), ("TFLOP/s", lambda r: f"{r.tflops:.1f}" if r.tflops else ""),
               ("GB/s", lambda r: f"{r.gbs:.0f}"), ("of copy", lambda r: f"{r.copy:.0%}" if r.copy else ""),
               ("of same-size copy", lambda r: f"{r.same:.0%}" if r.same else ""),
               ("of roof", lambda r: f"{r.roof:.0%}" if r.roof else ""),
               ("peer us", lambda r: f"{r.peer_us:.1f}" if r.peer_us == r.peer_us else ""),
               ("ratio", lambda r: f"{r.ratio:.2f}" if r.ratio == r.ratio else ""),
               ("note", lambda r: r.note)]
    cells = [[name for name, _ in columns]] + [[cell(r) for _, cell in columns] for r in rows]
    if markdown:
        lines = ["| " + " | ".join(line) + " |" for line in cells]
        return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    said = [i for i in range(len(columns)) if any(line[i] for line in cells[1:])]
    place = lambda i, cell: cell.ljust(widths[i]) if i in (0, 1, len(columns) - 1) else cell.rjust(widths[i])
    return "\n".join("  ".join([place(i, line[i]) for i in said]).rstrip() for line in cells)


def as_json(rows) -> list[dict]:
    """Rows as JSON takes them: what was not measured is null."""
    return [{k: None if v != v else v for k, v in asdict(r).items()} for r in rows]


def summary(rows) -> str:
    """One line: how many rows, geometric means of ratio and share of the copy, and the worst row by name."""
    good = [r for r in rows if r.us == r.us]
    if not good:
        return f"{len(rows)} rows, none measured"
    mean = lambda values: float(np.exp(np.mean(np.log(values)))) if values else float("nan")
    ratios = [r.ratio for r in good if r.ratio == r.ratio]
    text = (f"{len(good)} of {len(rows)} rows measured; "
            f"share of copy {mean([r.copy for r in good if r.copy]):.0%}, "
            f"of a same-size copy {mean([r.same for r in good if r.same]):.0%} (geometric means)")
    if ratios:
        worst = min((r for r in good if r.ratio == r.ratio), key=lambda r: r.ratio)
        text += (f"; peer / ours {mean(ratios):.2f} (geometric mean), "
                 f"worst {worst.ratio:.2f} at {worst.problem}")
    return text

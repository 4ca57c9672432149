"""One plan on a GPU and on the interpreter, with the same bytes in all buffers: are the outputs equal, bit for bit?

What the PTX of a plan has in it says how much is owed: ``plain`` the same bits; ``approx`` (.approx or .full instructions, whose bits are the
hardware's own) and ``order`` (floating-point atomics) the computed tolerance of the op on both; ``tensor`` that, an error against float64 of at
most four times the interpreter's, and the same bits where all numbers are small integers.
"""
from __future__ import annotations

import random
import re
from typing import NamedTuple

import numpy as np

from cydnn import fusion, kernels, plan
from cydnn.bench import graph_of
from cydnn.engines.steps import Launch

from .buffers import Guarded
from .compare import compare, tolerance
from .matrix import inputs_for, scalars_for

KINDS = (("tensor", re.compile(r"\b(mma\.sync|wgmma\.mma_async)\b")), ("order", re.compile(r"\b(atom|red)\.[\w.:]*\.(f16|bf16|f32|f64)")),
         ("approx", re.compile(r"\.(approx|full)\.")))
TIMES = 4                                        # a tensor core's error, in the interpreter's
ROUNDING = 2.0 ** -24                            # of a float32 sum: an error of the interpreter below it is luck


class Setting(NamedTuple):
    """What both devices are given and what float64 makes of it."""
    scalars: dict
    values: dict
    kept: set
    want: dict
    magnitude: dict


def setting(problem, seed: int, exact: bool) -> Setting:
    """Operands of a problem; ``exact``: small integers."""
    op, rng = problem.op, random.Random(seed)
    scalars = dict(op.scalars) if exact else scalars_for(op, rng)
    values = inputs_for(problem, rng, exact)
    kept = {o for o, (_, b) in op.blends.items() if scalars.get(b, 0.0) != 0} | (set(op.writes) if op.reads_output else set())
    arrays = {n: v if n in op.reads or n in kept else np.broadcast_to(np.nan, v.shape) for n, v in values.items()}
    raw = {n: v if v is None or problem.operands[n] is None else problem.operands[n].dtype.settle(v) for n, v in op.evaluate(arrays, scalars).items()}
    return Setting(scalars, values, kept, op.blend(raw, arrays, scalars), op.magnitude(arrays, scalars, raw))


def kind_of(built, device) -> str:
    """The first of KINDS that a kernel of the plan has in its text."""
    texts = []
    for step in built.steps:
        if isinstance(step, Launch):
            kernel = kernels.get(step.kernel)
            text = kernel.image_for(device.facts.sm).text()
            texts.append((text if step.fuse is None else fusion.splice(text, kernel, step.fuse)).decode())
    return next((name for name, pattern in KINDS if any(pattern.search(t) for t in texts)), "plain")


def outputs(case, device, given: Setting):
    """(kind, {output: (descriptor, values, raw bytes with the zones around)}) of one run."""
    problem, op = case.problem, case.problem.op
    built = plan.build(graph_of(problem, given.scalars), device, only=(case.engine,), config=case.config)
    buffers = {n: Guarded(device, d) for n, d in problem.operands.items() if d is not None}
    for name in buffers:
        if name in op.reads or name in given.kept:
            buffers[name].write(given.values[name])
    workspace = device.alloc(built.workspace_bytes + 512)
    device.memset(workspace.ptr, 0xFF, built.workspace_bytes + 512)
    names = {i + 1: n for i, n in enumerate(op.operands())}
    built.execute([buffers[names[d.uid]].ptr for d in built.slots], workspace.ptr)
    device.synchronize()
    kind = kind_of(built, device)
    plan.forget()
    return kind, {n: (b.desc, *b.read()) for n, b in buffers.items() if n in op.writes}


def differences(case, gpu, twin, seed: int, exact=False) -> tuple[str, bool, list[str]]:
    """(kind, whether all bits are equal, sentences about what is further apart than the kind allows)."""
    given = setting(case.problem, seed, exact)
    (kind, here), (_, there) = outputs(case, gpu, given), outputs(case, twin, given)
    equal = {n: np.array_equal(here[n][2], there[n][2]) for n in here}
    if kind == "plain" or exact and kind == "tensor":
        texts = [_apart(n, *(side[n][2] for side in (here, there)), here[n][0]) for n, same in equal.items() if not same]
    else:
        texts = [t for n in here if not equal[n] for t in FAR[kind](case.problem, n, here[n], there[n], given)]
    return kind, all(equal.values()), [f"{case} seed={seed}{' exact' if exact else ''}: {text}" for text in texts]


def _apart(name, here, there, desc) -> str:
    size = desc.dtype.bytes
    cells = [raw[:len(raw) // size * size].reshape(-1, size) for raw in (here, there)]
    wrong = np.flatnonzero((cells[0] != cells[1]).any(1))
    show = lambda side: side[wrong[0]][::-1].tobytes().hex()
    return f"{name}: {len(wrong)} elements differ; the GPU has {show(cells[0])}, the interpreter {show(cells[1])}"


def _tolerated(problem, name, here, there, given):
    """Both sides within the op's tolerance."""
    allowed = tolerance(problem, name, here[0], given.want[name], given.magnitude[name], given.scalars, given.values[name])
    for who, side in (("the GPU", here), ("the interpreter", there)):
        report = compare(side[1], given.want[name], allowed, side[0])
        if not report.ok:
            yield f"{name}: {who}: {report.text}"


def _four_times(problem, name, here, there, given):
    """Both sides within the op's tolerance, and the GPU's error at most four times the interpreter's."""
    yield from _tolerated(problem, name, here, there, given)
    want, floor = given.want[name], ROUNDING * float(np.max(given.magnitude[name], initial=0))
    error, allowed = float(np.abs(here[1] - want).max(initial=0)), TIMES * max(float(np.abs(there[1] - want).max(initial=0)), floor)
    if not error <= allowed:
        yield f"{name}: the GPU's error is {error:.3g}, {TIMES} times the interpreter's {allowed:.3g}"


FAR = {"approx": _tolerated, "order": _tolerated, "tensor": _four_times}

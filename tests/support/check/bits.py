"""One plan on a GPU and on the interpreter, with the same bytes in all buffers:
are the outputs equal, bit for bit?

What the PTX of a plan has in it says how much is owed: ``plain`` the same bits; ``order`` (floating-point
atomics), ``approx`` (.approx or .full instructions, whose bits are the hardware's own) and ``fused``
(a product that a sum takes up, neither with a rounding of its own: ptxas may make one instruction of them,
PTX ISA §mul) the computed tolerance of the engine on both; ``tensor`` that, an error against float64 of
at most four times the interpreter's, and the same bits where all numbers are small integers and the op
makes such of them.
"""
from __future__ import annotations

import re

import numpy as np

from cydnn import fusion, kernels, plan
from cydnn.graph import Match
from cydnn.steps import Launch

from ..guard.buffers import FILLS
from .compare import compare
from .matrix import Prepared, changed, execute, plain, strays
from ..draw.regimes import SUMS

FLOAT = r"(?:ftz\.)?(?:b?f16|b?f16x2|f32|f64)"
PRODUCT = re.compile(rf"\bmul\.{FLOAT}\s+(%\w+)")
SUM = re.compile(rf"\b(?:add|sub)\.{FLOAT}\s+%\w+,\s*(%\w+),\s*(%\w+)")


def may_be_fused(text: str) -> bool:
    return not set(PRODUCT.findall(text)).isdisjoint(r for pair in SUM.findall(text) for r in pair)


KINDS = (("order", re.compile(r"\b(atom|red)\.[\w.:]*\.(f16|bf16|f32|f64)").search),
         ("approx", re.compile(r"\.(approx|full)\.").search),
         ("tensor", re.compile(r"\b(mma\.sync|wgmma\.mma_async)\b").search),
         ("fused", may_be_fused))
TIMES = 4                                        # a tensor core's error, in the interpreter's
ROUNDING = 2.0 ** -24                       # of a float32 sum: an error of the interpreter below it is luck


def has_exact(kind: str, problem) -> bool:
    """The same bits are owed for small integers, though not for others."""
    return kind == "tensor" and problem.op.name in SUMS


def setting(case, seed: int, exact: bool, facts=None) -> Prepared:
    """What both devices are given and what float64 makes of it; ``exact``: small integers. An engine that
    does not blend is given the numbers of a plain store."""
    made = lambda scalars: Prepared(case.problem, seed, scalars, exact=exact)
    given = made(plain(case.problem.op) if exact else None)
    if facts is None or case.engine.accepts(Match.single(given.graph), facts):
        return given
    return made(plain(case.problem.op))


def kind_of(built, device) -> str:
    """The first of KINDS that a kernel of the plan has in its text."""
    texts = []
    for step in built.steps:
        if isinstance(step, Launch):
            kernel = kernels.get(step.kernel)
            text = kernel.image_for(device.facts.sm).text()
            texts.append((fusion.splice(text, kernel, step.fuse) if step.fuse else text).decode())
    return next((name for name, has in KINDS if any(map(has, texts))), "plain")


def outputs(case, device, given: Prepared):
    """(kind, {output: (descriptor, values, bytes)}) of one run."""
    op = case.problem.op
    built = plan.build(given.graph, device, case.wish)
    filled = given.values.keys() - (set(op.writes) - given.reads_old)
    buffers, space = execute(built, case.problem, given.values, filled, device, fill=FILLS[0])
    beside = strays(buffers, space, changed(op, buffers))
    assert not beside, f"{case}: {beside}"
    kind = kind_of(built, device)
    plan.forget()
    return kind, {n: (b.desc, b.read()[0], np.frombuffer(b.own_bytes(), np.uint8))
                  for n, b in buffers.items() if n in op.writes}


def differences(case, gpu, twin, seed: int, exact=False) -> tuple[str, bool, list[str]]:
    """(kind, whether all bits are equal, sentences about what is further apart than the kind allows)."""
    given = setting(case, seed, exact, gpu.facts)
    (kind, here), (_, there) = outputs(case, gpu, given), outputs(case, twin, given)
    equal = {n: np.array_equal(here[n][2], there[n][2]) for n in here}
    if kind == "plain" or exact and kind == "tensor":
        texts = [_apart(n, *(side[n][2] for side in (here, there)), here[n][0])
                 for n, same in equal.items() if not same]
    else:
        texts = [t for n in here if not equal[n]
                 for t in FAR[kind](case, n, here[n], there[n], given)]
    return (kind, all(equal.values()),
            [f"{case} seed={seed}{' exact' if exact else ''}: {text}" for text in texts])


def _apart(name, here, there, desc) -> str:
    size = desc.dtype.bytes_of(1)
    cells = [raw[:len(raw) // size * size].reshape(-1, size) for raw in (here, there)]
    wrong = np.flatnonzero((cells[0] != cells[1]).any(1))
    show = lambda side: side[wrong[0]][::-1].tobytes().hex()
    return (f"{name}: {len(wrong)} elements differ; the GPU has {show(cells[0])}, "
            f"the interpreter {show(cells[1])}")


def _tolerated(case, name, here, there, given):
    """Both sides within the tolerance of the engine."""
    allowed = given.allowed(name, here[0], case.engine)
    for who, side in (("the GPU", here), ("the interpreter", there)):
        report = compare(side[1], given.want[name], allowed, side[0])
        if not report.ok:
            yield f"{name}: {who}: {report.text}"


def _four_times(case, name, here, there, given):
    """Both sides within the tolerance, and the GPU's error at most four times the interpreter's."""
    yield from _tolerated(case, name, here, there, given)
    want, floor = given.want[name], ROUNDING * float(np.max(given.magnitude[name], initial=0))
    error, allowed = (float(np.abs(here[1] - want).max(initial=0)),
                      TIMES * max(float(np.abs(there[1] - want).max(initial=0)), floor))
    if not error <= allowed:
        yield f"{name}: the GPU's error is {error:.3g}, {TIMES} times the interpreter's {allowed:.3g}"


FAR = {"order": _tolerated, "approx": _tolerated, "tensor": _four_times, "fused": _tolerated}

"""Would a wrong result be seen? Random problems whose reference has a fault: another padding, stride,
dilation, window or mode that gives the same sizes, a tap, a group, a tail or a whole operand that is another.
What the right reference gives must then be wrong, for the tolerance of all tests; and most outputs are not 0.

A fault counts where it changes what uniform positive numbers give.
"""
from __future__ import annotations

import random
import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cydnn import ops
from cydnn.status import BadParam
from support.check import matrix
from support.draw import regimes
from support.check.compare import compare
from support.draw import draw

SUMS = (ops.ConvFprop, ops.ConvDgrad, ops.ConvWgrad, ops.ConvBgrad, ops.Matmul, ops.Reduction, ops.PoolingFwd,
        ops.PoolingBwd, ops.SoftmaxFwd, ops.SoftmaxBwd, ops.BatchNormTraining, ops.BatchNormBwd, ops.Im2col,
        ops.LrnFwd, ops.LrnBwd, ops.SpatialSamplerFwd, ops.AddTensor, ops.OpTensor, ops.Transform)
PROBLEMS, ELEMENTS, FLOPS = 12, 4000, 3e5        # of an op; of a problem at most
CAUGHT, NOT_ZERO = 0.95, 0.7


def _geometry(fault, **changes):
    """Faults of attributes: what has the same sizes of everything."""
    def faulty(problem, rng):
        op = problem.op
        for name, change in changes.items():
            if name not in op.attributes():
                return
            value = getattr(op, name)
            value = value if isinstance(value, tuple) else (value,) * (problem.descs[0].rank - 2)
            one = rng.randrange(len(value)) if value else 0
            changed = tuple(max(v + change * (i == one), 0) for i, v in enumerate(value))
            for post in (None, *range(6)) if "post_pad" in op.attributes() else (None,):
                try:
                    other = replace(op, **{name: changed}, **({} if post is None else dict(post_pad=post)))
                    other.complete(problem.operands)
                except BadParam:
                    continue
                yield lambda arrays, other=other: (other, arrays)
                break
    faulty.__name__ = fault
    return faulty


def mode(problem, rng):
    for name in ("mode", "algorithm"):
        a = problem.op.attributes().get(name)
        if a and problem.op.name not in ("reduction", "op_tensor"):
            for word in a.accepts:
                if word != getattr(problem.op, name):
                    try:
                        other = replace(problem.op, **{name: word})
                        other.complete(problem.operands)
                    except BadParam:
                        continue
                    yield lambda arrays, other=other: (other, arrays)


def _on_arrays(fault, names, change):
    """Faults of what is read: ``change`` of one of the operands."""
    def faulty(problem, rng):
        for name in names:
            if name in problem.op.reads and problem.operands.get(name) is not None:
                seed = rng.random()              # each time the same slice
                yield lambda arrays, name=name, seed=seed: (
                    problem.op, {**arrays, name: change(arrays[name], random.Random(seed))})
    faulty.__name__ = fault
    return faulty


def _tail(x, rng):
    """The last slice of a dim is not there."""
    axes, y = [a for a in range(x.ndim) if x.shape[a] > 1], x.copy()
    if axes:
        np.moveaxis(y, rng.choice(axes), 0)[-1] = 0.0
    return y


def _shift(x, rng):
    """By one in the last dim."""
    y = np.zeros_like(x)
    y[..., 1:] = x[..., :-1]
    return y


def _tap(w, rng):
    y = w.copy()
    y[(slice(None), slice(None), *(rng.randrange(n) for n in w.shape[2:]))] = 0.0
    return y


FAULTS = (_geometry("pad", pre_pad=1), _geometry("less pad", pre_pad=-1), _geometry("stride", stride=1),
          _geometry("dilation", dilation=1), _geometry("window", window=-1), mode,
          _on_arrays("tap", ("w",), _tap), _on_arrays("group", ("w",), lambda w, rng: np.roll(w, 1, 0)),
          _on_arrays("channels", ("x", "dy", "a"), lambda x, rng: np.roll(x, 1, 1) if x.ndim > 1 else x),
          _on_arrays("tail", ("x", "w", "dy", "a", "b"), _tail),
          _on_arrays("shift", ("x", "dy", "a", "b"), _shift))


def differ(one, two, factor=1e-9) -> bool:
    return any(v is not None and one[n] is not None
               and (np.abs(v - one[n]) > factor * (1 + np.abs(v))).any() for n, v in two.items())


def evaluated(op, made, arrays):
    with np.errstate(all="ignore"):
        return op.evaluate(arrays, made.scalars)


def real(problem, made, fault, seed) -> bool:
    """Does it change what uniform positive numbers give?"""
    gen = np.random.default_rng(seed)
    arrays = {n: gen.uniform(0.5, 1.5, np.shape(v)) for n, v in made.arrays.items()}
    op, faulty = fault(arrays)
    return differ(evaluated(problem.op, made, arrays), evaluated(op, made, faulty))


def caught(problem, made, fault) -> bool:
    """Is the right result wrong, measured by what the fault makes of it?"""
    op, arrays = fault(made.arrays)
    raw = evaluated(op, made, arrays)
    want = op.blend(raw, made.arrays, made.scalars)
    for name in want:
        desc = problem.operands.get(name)
        if desc is not None and not compare(desc.dtype.round(made.want[name]), want[name],
                                            made.allowed(name, desc, matrix.COMPOSITE), desc).ok:
            return True
    return False


def small(op_class, rng):
    while True:
        problem = draw(op_class, rng)
        if problem.flops <= FLOPS and 1 < sum(d.count for d in problem.descs) <= ELEMENTS and all(
                d.dtype.kind == "float" for d in problem.descs):
            return problem


def draws():
    """(problem, prepared with what tests draw, random numbers)"""
    for op_class in SUMS:
        rng = random.Random(zlib.crc32(op_class.name.encode()))
        for _ in range(PROBLEMS):
            problem, seed = small(op_class, rng), rng.randrange(2 ** 31)
            yield problem, matrix.Prepared(problem, seed, matrix.plain(problem.op)), rng


@pytest.fixture(scope="module")
def counts():
    """{kind of fault: how many there were, how many were caught}, and which were not."""
    there, found, missed = Counter(), Counter(), []
    for problem, made, rng in draws():
        for kind in FAULTS:
            for fault in kind(problem, rng):
                if real(problem, made, fault, 3):
                    there[kind.__name__] += 1
                    seen = caught(problem, made, fault)
                    found[kind.__name__] += seen
                    missed += [] if seen else [f"{kind.__name__}: {problem}"]
    return there, found, missed


def test_faults_are_caught(counts):
    there, found, missed = counts
    assert min(there.values()) >= 5 and len(there) == len(FAULTS), there
    assert sum(found.values()) >= CAUGHT * sum(there.values()), (there, found, "\n".join(missed))


@pytest.mark.parametrize("kind", FAULTS, ids=lambda f: f.__name__)
def test_every_kind_is_caught(kind, counts):
    there, found, missed = counts
    name = kind.__name__
    assert found[name] >= 0.9 * there[name], "\n".join(m for m in missed if m.startswith(name + ":"))


def test_most_outputs_are_not_0():
    """Of the elements that uniform positive numbers make other than 0; for each op of sums."""
    for op_class in SUMS:
        rng, shares = random.Random(5), []
        while len(shares) < 6:
            problem = small(op_class, rng)
            made = matrix.Prepared(problem, 7, matrix.plain(problem.op), exact=op_class.name in regimes.SUMS)
            for name, want in made.want.items():
                if want is not None and (there := made.magnitude[name] != 0).any():
                    shares.append((want[there] != 0).mean())
        assert np.mean(shares) >= NOT_ZERO, (op_class.name, shares)

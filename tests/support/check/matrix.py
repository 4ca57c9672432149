"""One problem, one device, every engine that accepts it: guarded and filled buffers, on a GPU two runs with
another fill and equal bits, against float64."""
from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.engines import COMPOSITE, Engine, engines_for
from cydnn.graph import Match
from cydnn.heuristics import ANYTHING, Wish

from ..draw import regimes
from ..guard.buffers import FILLS, Guarded, Space, fill_of, kept, shift_of
from .compare import compare, tolerance


@dataclass
class Outcome:
    """Engines that ran (name -> list of findings, empty when right) and engines
    that refused (name -> reasons)."""
    ran: dict = field(default_factory=dict)
    refused: dict = field(default_factory=dict)

    @property
    def findings(self):
        return [f"{engine}: {text}" for engine, texts in self.ran.items() for text in texts]


def scalars_for(op, rng) -> dict:
    """By-value numbers: usually the defaults, sometimes a blend."""
    values = dict(op.scalars)
    for name in values:
        if name in ("epsilon",):
            continue
        if name == "factor":
            values[name] = rng.choice([1.0, 0.125])
        elif isinstance(values[name], int):
            values[name] = rng.randrange(-2 ** 63, 2 ** 63)
        elif name == "value":
            values[name] = rng.choice([0.0, -1.5, 3.25])
        elif rng.random() < 0.3:
            values[name] = (rng.choice([0.5, -1.25, 2.0]) if name.startswith("alpha")
                            else rng.choice([0.0, 1.0, 0.5]))
    return values


def plain(op) -> dict:
    """By-value numbers of a case that stores what it computes."""
    return dict(op.scalars)


def blended(op) -> dict:
    """By-value numbers of a case that scales and adds: no alpha is 1, no beta is 0, a factor mixes."""
    mixed = dict(alpha=-1.25, beta=0.5, factor=0.125)
    return {name: mixed.get(name.split("_")[0].rstrip("12"), default) for name, default in op.scalars.items()}


def scaled(op) -> dict:
    """By-value numbers of a case that scales and does not add."""
    return {name: 0.0 if name.startswith("beta") else value for name, value in blended(op).items()}


def flavours(op) -> tuple:
    """Which inputs tell this op's mistakes apart: those of draw/regimes.py, "wide" ones show a maximum
    that is none, "nan" ones how NaN are treated."""
    wide = ("wide",) if op.name == "softmax_fwd" and op.algorithm != "fast" else ()
    first = ("regimes",) if regimes.of(op) and getattr(op, "algorithm", "") != "fast" else ()
    return (*first, "drawn", *wide, *(("nan",) if hasattr(op, "nan") else ()))


def _multiplies(op) -> bool:
    return getattr(op, "mode", "").startswith("mul")


def inputs_for(problem, rng, exact: bool, flavour: str = "drawn") -> dict:
    """Float64 values of every operand, representable in its type. ``exact``: small integers,
    so that every sum is exact."""
    gen = np.random.default_rng(rng.randrange(2 ** 32))
    values, start = {}, rng.randrange(1 << 20)
    for name, d in problem.tensors.items():
        if flavour == "regimes":
            raw = regimes.draw(problem, name, gen, start)
        elif exact:
            most = regimes.large(problem.op, d) if flavour == "large" else 4
            raw = regimes.whole_numbers(problem.op, d, gen, most)
        elif flavour in ("ties", "special"):
            raw = gen.integers(-4, 5, d.dims) / 2.0
            if flavour == "special" and name == "x":
                raw = np.where(gen.random(d.dims) < 0.3,
                               gen.choice([np.nan, -np.inf, np.inf, -0.0], d.dims), raw)
        else:
            raw = gen.uniform(-1, 1, d.dims) * (rng.choice([1.0, 1.0, 3.0]) if flavour != "wide" else 2000.0)
        if d.dtype.kind == "int" and not (exact or flavour == "regimes" or _multiplies(problem.op)):
            raw = 40.0 * raw                     # products of many would leave every type
        if flavour == "nan" and name in problem.op.reads and d.dtype.eps:
            raw = np.where(gen.random(d.dims) < 0.05, np.nan, raw)
        if flavour == "one nan" and name == problem.op.reads[0] and d.dtype.eps and raw.size:
            raw = regimes.with_one_nan(problem, name, gen, raw)
        if flavour == "negative" and name == problem.op.reads[0] and d.dtype.lowest != 0:
            raw = -np.abs(raw)
        if flavour == "nan rows" and d.dtype.eps:
            raw = regimes.with_nan_rows(problem, name, raw)
        if flavour == "lowest" and name == problem.op.reads[0] and d.dtype.eps:
            raw = np.full(d.dims, -np.inf)
        if flavour == "masked" and name == problem.op.reads[0] and d.dtype.eps:
            raw = regimes.masked(raw, rng.random() < 0.5)
        if flavour == "zero edges" and name == problem.op.reads[0]:
            raw = regimes.with_zero_edges(raw)
        values[name] = kept(d, d.dtype.round(raw if exact else problem.op.admit(name, raw)))
    return values


def with_nans(values, names, seed) -> dict:
    """The values, half of those of the named operands NaN."""
    gen = np.random.default_rng(seed)
    return {n: np.where(gen.random(v.shape) < 0.5, np.nan, v) if n in names else v for n, v in values.items()}


class Prepared:
    """A problem with inputs of a flavour, by-value numbers, and what must come out. Small integers are drawn
    for some seeds, or where ``exact``."""

    def __init__(self, problem, seed: int = 0, scalars=None, flavour: str = "drawn", nans=(),
                 scale: float | dict = 1.0, exact: bool | None = None):
        rng = random.Random(seed)
        self.problem, op = problem, problem.op
        self.scalars = scalars or scalars_for(op, rng)
        if exact is None:
            exact = op.name in regimes.SUMS and (
                flavour == "large" or flavour != "regimes" and rng.random() < 0.4)
        drawn = inputs_for(problem, rng, exact, flavour)
        numbers = [n for n in drawn if n.partition(".")[0] not in op.shared]      # messages are none
        factors = scale if isinstance(scale, dict) else dict.fromkeys(numbers, scale)
        scaled = (drawn if scale == 1
                  else {n: d.dtype.round(factors[n] * v) if n in factors and
                        (d := problem.tensors[n]).dtype.kind == "float" else v for n, v in drawn.items()})
        self.values = with_nans(
            scaled, [n for n in nans if n in scaled and problem.tensors[n].dtype.kind == "float"], seed)
        self.reads_old = ({o for o, (_, b) in op.blends.items() if self.scalars.get(b, 0.0) != 0}
                          | op.keeps)
        arrays = op.joined({n: np.broadcast_to(np.nan, v.shape) if n in op.writes and n not in self.reads_old
                            else v for n, v in self.values.items()})
        self.arrays = arrays
        self._own = None, None                   # an engine, its magnitude
        with np.errstate(all="ignore"):
            self.raw = raw = {n: v if v is None or problem.operands[n] is None
                              else problem.operands[n].dtype.settle(v)
                              for n, v in op.evaluate(arrays, self.scalars).items()}
            self.want = op.blend(raw, arrays, self.scalars)
            self.magnitude = op.magnitude(arrays, self.scalars, raw)
            self.inner = op.inner_error(arrays, self.scalars, problem.operands)
        self.graph = graph_of(problem, self.scalars)
        old = {n: arrays.get(n) for n in op.writes if n in self.reads_old}
        self.is_exact = regimes.exact(problem, self.scalars) or (
            exact and scale == 1 and not nans
            and regimes.sums_exactly(problem, self.scalars, self.magnitude, old))

    def once(self, built, device, bits, fill=None) -> list[str]:
        """Run a plan of the problem; the sentences of what is wrong. Appends the outputs' bytes to ``bits``.
        ``fill``: of all that is not written; drawn where none is given."""
        return _once(self, built, device, bits, fill)

    def allowed(self, name, desc, engine):
        """Absolute error that each element of an output of an engine may have: none where values only
        move, or where every sum is exact."""
        if self.is_exact and not regimes.OTHER_NUMBERS & set(engine.notes):
            return 0.0
        magnitude = self.magnitude_of(engine)[name]
        if (reached := self.reached(name, engine)).any():    # a number there is made of the others
            numbers = self.problem.op.joined({n: np.where(np.isfinite(v), v, 0.0) for n, v in
                                              self.problem.op.tensors(self.arrays).items()})
            others = engine.magnitude(self.problem.op, numbers, self.scalars, self.raw)[name]
            magnitude = np.where(reached, others, magnitude)
        return self.inner.get(name, 0.0) + tolerance(self.problem, name, desc, self.want[name],
                                                     magnitude, self.scalars, self.values[name])

    def magnitude_of(self, engine) -> dict:
        """The op's, or that of an engine with other sums; of the last one it is kept."""
        if type(engine).magnitude is Engine.magnitude:
            return self.magnitude
        if self._own[0] is not engine:
            self._own = engine, engine.magnitude(self.problem.op, self.arrays, self.scalars, self.raw)
        return self._own[1]

    def reached(self, name, engine):
        """Which elements of an output a NaN or an infinity may reach by what an engine multiplies, and not by
        what the op does: a tile, or the window of a transform."""
        return ~np.isfinite(self.magnitude_of(engine)[name]) & np.isfinite(self.magnitude[name])


def run(problem, device, seed=0, engines=None, config=None, scalars=None, nans=(), scale=1.0,
        flavour="drawn") -> Outcome:
    """Every engine on one problem; where none takes it, the plan that is made of others, as "composite". A
    finding is a sentence that starts with what went wrong.

    ``config``: one of the configurations of the one engine given. ``scalars``: all by-value numbers,
    in place of drawn ones. ``nans``: operands that hold NaN (an output: before the call, where it is read).
    ``scale``: of the inputs that are no whole numbers; a dict has that of each it names. ``flavour``: their
    kind; besides ``flavours`` there are "ties" (few values, so that maxima meet) and "special" (these, with
    NaN, infinities and -0 in x), "one nan" (in half of the slices of the first input), and "large" (whole
    numbers of whose sums some lie just between two of 16 bits).
    """
    outcome, made = Outcome(), Prepared(problem, seed, scalars, flavour, nans, scale)
    match = Match.single(made.graph)
    for engine in engines or engines_for(problem.op):
        reasons = list(engine.reasons(match, device.facts))
        if reasons:
            outcome.refused[engine.name] = reasons
        else:
            wish = Wish(engines=(engine.index,), config=config)
            outcome.ran[engine.name] = _findings(made, device, wish)
    if not outcome.ran and engines is None:      # an op that is made of others, or types that are cast first
        outcome.ran[COMPOSITE.name] = _findings(made, device, ANYTHING)
    return outcome


def sizes(problem, device, engine, names, exponents, seed=0) -> list[str]:
    """The findings of an engine on inputs of which the named ones are 2^exponent times as large."""
    found = []
    for e in exponents:
        outcome = run(problem, device, seed, [engine], scalars=plain(problem.op),
                      scale=dict.fromkeys(names, 2.0 ** e))
        assert outcome.ran, outcome.refused
        found += [f"2^{e}: {text}" for text in outcome.findings]
    return found


def _findings(made, device, wish) -> list[str]:
    """What is wrong with a plan; on a GPU also when it gives other bits the second time, where memory that
    is not its own holds other numbers."""
    texts, bits, built = [], [], plan.build(made.graph, device, wish)
    for fill in FILLS if device.name.startswith("cuda") else (None,):
        texts += made.once(built, device, bits, fill)
        if texts:
            break
    if len(bits) == 2 and "deterministic" in built.choice.notes and bits[0] != bits[1]:
        texts.append("two runs, one beside 0xFF and one beside 0xA5, differ in bits")
    plan.forget()
    return texts


def execute(built, problem, values, filled, device, inplace=(), fill=None):
    """(buffers, workspace) after one run: the operands in ``filled`` hold their values,
    all other bytes the fill, which is drawn where none is given.

    ``inplace``: (written, read) pairs that share a buffer.
    """
    key = str(problem)
    fill = fill_of(key) if fill is None else fill
    buffers = {n: Guarded(device, d, shift_of(n, d, problem.alignment, key), fill)
               for n, d in problem.tensors.items()}
    for name in (n for n in buffers if {n, n.partition(".")[0]} & set(filled)):
        buffers[name].write(values[name])
    buffers.update((written, buffers[read]) for written, read in inplace)
    workspace = Space.for_plan(built, fill)
    built.execute([buffers[d.name].ptr for d in built.slots], workspace.ptr)
    device.synchronize()
    return buffers, workspace


def changed(op, buffers) -> list[str]:
    """The names of what an operation writes, mailboxes among them."""
    return [n for n in buffers if n in op.writes or n.partition(".")[0] in op.shared]


def strays(buffers, workspace, writes) -> list[str]:
    """What a run has changed besides the elements of its outputs."""
    texts = []
    for name, buffer in buffers.items():
        raw = buffer.read()[1]
        if name not in writes and (raw != buffer.before).any():
            texts.append(f"input {name} was changed")
        elif name in writes and (stray := buffer.stray_bytes(raw)):
            texts.append(f"{name}: {stray} bytes written outside the tensor")
    if beside := workspace.changed_beside():
        texts.append(f"{beside} bytes written beside the workspace")
    return texts


def _once(made, built, device, bits, fill) -> list[str]:
    problem = made.problem
    filled = made.values.keys() - (set(problem.op.writes) - made.reads_old)
    buffers, workspace = execute(built, problem, made.values, filled, device, fill=fill)
    texts, all_bits = strays(buffers, workspace, changed(problem.op, buffers)), b""
    for name in (name for name in buffers if name in problem.op.writes):
        buffer = buffers[name]
        got, raw = buffer.read()
        engine = built.choice.engine
        report = compare(got, made.want[name], made.allowed(name, buffer.desc, engine), buffer.desc,
                         made.reached(name, engine))
        if not report.ok:
            texts.append(f"{name}: {report.text}")
        all_bits += (raw & buffer.own_bits(with_spare=False)).tobytes()
    bits.append(all_bits)
    return texts

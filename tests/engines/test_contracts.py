"""Without a GPU: whatever an engine accepts, its plan packs: every kernel is in the manifest,
every argument and limit fits. What none accepts is made of others."""
from __future__ import annotations

import random
import zlib
from inspect import getsource
from re import findall

import pytest

from cydnn import engines, kernels, ops
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import COMPOSITE, REFERENCE, TABLE, engines_for
from cydnn.engines.engine import Engine
from cydnn.frontend.enums import numerical_note
from cydnn.graph import Core, Many
from cydnn.heuristics import Wish, best
from cydnn.layout import Layout
from cydnn.steps import Launch, Memset, Pointer, Scalar
from support.check import streams
from support.check.sums import FRONTED
from support.draw.alone import match, steps, takers
from support.draw import draw, gpu_draws

CARDS = ("h200", "a100", "t4")
DRAWS = 60
NOTES = {"deterministic", *(note.name.lower() for note in numerical_note)}     # as the API has them
MADE_OF_OTHERS = tuple(op for op in ops.OPS if engines_for(op) == (REFERENCE,))         # they are lowered


def plans_of(op):
    """(problem, engine, facts, match) of everything that takes random problems on several cards."""
    rng = random.Random(zlib.crc32(op.name.encode()))
    for _ in range(DRAWS):
        problem, facts = draw(op, rng), KNOWN[rng.choice(CARDS)]
        p = match(problem)
        for engine in takers(p, facts):
            yield problem, engine, facts, p


@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
def test_every_accepted_problem_packs(op):
    ran = set()
    for problem, engine, facts, p in plans_of(op):
        ran.add(engine.name)
        for step in steps(engine, p, facts):
            assert isinstance(step, (Launch, Memset)), (str(problem), engine)
            if isinstance(step, Memset):
                assert isinstance(step.pointer, Pointer) and step.bytes > 0
                continue
            check_launch(step, facts, str(problem))
        assert engine.cost(p, facts, engine.best(p, facts)) >= 0
    assert bool(ran) == (op not in MADE_OF_OTHERS), f"no engine takes any {op.name}"


def check_launch(step, facts, problem):
    """The kernel has an image for the card, its arguments pack, what is spliced finds its marks, and all
    fits."""
    kernel = kernels.get(step.kernel)
    packed, image = kernel.pack(step.args, **step.extra), kernel.image_for(facts.sm)
    total = packed.smem + image.smem_static
    assert total <= facts.smem_bytes, (problem, step.kernel, total)
    assert (all(isinstance(p, Pointer) for _, p in packed.pointers)
            and all(isinstance(s, Scalar) for *_, s in packed.scalars))
    assert set(step.fuse) <= set(kernel.row["marks"]), (problem, step.kernel)
    for fused in step.fuse.values():
        program = fused.program
        assert len(fused.pointers) == len(program.tensors) and len(fused.scalars) == program.scalars
        assert len(fused.numbers) == program.numbers and len(fused.divisors) == program.divisors


RARE = {"resample_fwd_linear_rows"}             # what few draws reach: the lines of its contract do


@pytest.mark.parametrize("op", [op for op in ops.OPS if op not in MADE_OF_OTHERS], ids=lambda o: o.name)
def test_the_gpu_matrix_reaches_every_engine(op):
    """An engine that takes hardly any of the problems drawn for the GPU is not tested there."""
    taken = {e.name: 0 for e in engines_for(op)[:-1]
             if e.index not in FRONTED and e.name not in RARE and not streams.of_peers(e)}
    for problem in (p for part in range(4) for p in gpu_draws(op, part, 80)):
        for engine in takers(match(problem), KNOWN["h200"]):     # none that needs a front is among them
            if engine.name in taken:
                taken[engine.name] += 1
    assert min(taken.values(), default=4) >= 4, taken


@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
def test_something_takes_every_problem(op):
    """On the oldest card, whatever the types; also node by node. Every choice can be laid out."""
    rng, facts = random.Random(5), KNOWN["t4"]
    for _ in range(DRAWS):
        graph = graph_of(draw(op, rng))
        for wish in (Wish(), Wish(mode="fallback")):
            choice = best(graph, facts, wish)
            layout = Layout(choice)
            assert layout.workspace_bytes % 256 == 0
            assert all(e.index > COMPOSITE.index for e in choice.engines)


# ---- The table ----

FAMILY = {"attention": "sdpa", "convolution": "conv", "batch normalization": ("batch_norm", "peer_reduction"),
          "spatial transformer": "spatial", "local response normalization": "lrn",
          "recurrent networks": "rnn", "divisive normalization": "divisive_norm",
          "layer, RMS and instance normalization": "norm_", "statistics": "gen_stats",
          "paged cache load": "paged_cache_load", "grouped matmul": "grouped_matmul",
          "block scale": "block_scale",
          "moving": ("slice", "reshape", "transpose", "concatenate"),
          "tensor operations": ("transform", "add_tensor", "op_tensor", "scale_tensor", "set_tensor")}


def spans() -> dict:
    """{family: [(first index, last index), …]}, as the comments of the table say."""
    lines = [line.strip("# ") for line in getsource(engines).splitlines() if line.startswith("    # ")]
    return {line.split(":")[0]: [(int(a), int(b)) for a, b in findall(r"(\d+) to (\d+)", line)]
            for line in lines}


def test_indexes_are_unique():
    every = (REFERENCE, COMPOSITE, *TABLE)
    assert len({e.index for e in every}) == len(every), sorted((e.index, e.name) for e in every)
    ranges = sorted(span for family in spans().values() for span in family)
    assert all(low <= high < following for (low, high), (following, _) in zip(ranges, ranges[1:]))


def test_every_engine_is_of_a_family_and_in_its_range():
    seen = []
    for family, ranges in spans().items():
        mine = [e for e in TABLE if e.op.name.startswith(FAMILY.get(family, family))]
        assert mine and all(any(low <= e.index <= high for low, high in ranges) for e in mine), family
        seen += mine
    assert sorted(e.index for e in seen) == sorted(e.index for e in TABLE)
    assert all(e.name.startswith(e.op.name + "_") for e in TABLE)
    forward, data, weight, later = spans()["convolution"]
    for direction, ranges in dict(fprop=(forward, later), dgrad=(data, later), wgrad=(weight, later)).items():
        mine = [e.index for e in TABLE if e.op.name == f"conv_{direction}"]
        assert mine and all(any(low <= i <= high for low, high in ranges) for i in mine)


def test_most_engines_are_read_in_one_file():
    """Refusals, cost and plan stand in the file of the engine; docs/design.md names those that are not."""
    def is_whole(cls):
        return {next(c.__module__ for c in cls.__mro__ if name in vars(c)) for name in (
            "refuse", "cost", "plan")} == {cls.__module__}
    apart = [str(e) for e in TABLE if not is_whole(type(e))]
    assert 10 * len(apart) <= 3 * len(TABLE), apart


@pytest.mark.parametrize("engine", TABLE, ids=str)
def test_an_engine_says_what_it_is(engine):
    """A file whose words are in its name or in that of a base there, or that has the name of its operations;
    a docstring, a pattern, an index of its own, notes that are known; its knobs have one name each."""
    module = type(engine).__module__
    stem, operations = module.rpartition(".")[2], engine.op.__module__.rpartition(".")[2]
    names = [c.__name__.lower() for c in type(engine).__mro__ if c.__module__ == module]
    assert stem == operations or any(all(w in name for w in stem.split("_")) for name in names), module
    assert "index" in vars(type(engine))
    assert type(engine).__doc__ and type(engine).__doc__ != Engine.__doc__
    assert isinstance(engine.takes, (Core, Many)) and engine.op in ops.OPS
    assert set(engine.notes) <= NOTES and set(engine.only_for) <= set(engine.notes)
    assert len({k.name for k in engine.knobs}) == len(engine.knobs)

"""The problems in a kernel's contract run at least 95 % of the instructions of each of its images,
without a finding and with right values.

Each problem once as it is. While less has run: with random bits that meet a threshold, scaled and blended,
with NaN, in every other configuration, and planned for a card of one SM (or of four, which hold a cluster)
and little cache, where loops are long. Blocks that ask each other also come in a random order; what changes
sums in pairs runs in a text with bias, residual and ReLU. An image whose text is that of another but for its
target runs once.

So it is for the smallest image of every source, of which each loop has turned, too (turning.py), for one
more that is drawn of a drawn quarter of the sources, and by ``CYDNN_ALL=1`` for all.
Of the others a drawn quarter runs, one of its problems each, which is drawn too; of those in LONG a few.
"""
from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace

import numpy as np
import pytest

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.engines.tile.store import FUSED
from cydnn.graph import FromTensor, Graph, Node, Tensor
from cydnn.kernels import kinds
from cydnn.ops import Problem, philox
from cydnn.tensor import TensorDesc
from support.check import fused, sums
from support.draw import graphs, streamed
from lab import sampling
from support.draw.cases import cases, every_case
from support.check.matrix import blended, flavours, inputs_for, plain, scaled
from lab.shipped import run_lines

from . import turning
import watched

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_90a")
BAR = 0.95
LESS = {"sdpa_bwd_any_dsink_f64": 0.92}          # exp has a branch for results below 2^-1000 alone
NAN_READERS = ("softmax_fwd", "softmax_bwd", "pooling_fwd", "pooling_bwd",
               "reduction", "batch_norm_inference")
OLDEST = {"conv_groups_part": "sm_90"}           # whose engines of several pixels are for Hopper
SOURCES = sorted({kernels.get(n).source for n in kernels.names()})
SMS = {"conv/conv_dgrad_few.cu": 4,              # sums are split further where more SMs are to be filled
       "conv/conv_depthwise_planes_wgrad.cu": 1}


def device_for(name: str, target: str):
    """A device that runs this image of the kernel: of its target, or of the next that takes it."""
    for each in TARGETS[TARGETS.index(OLDEST.get(name.rpartition("_")[0], target)):]:
        device = watched.PtxDevice(each)
        device.facts = replace(device.facts, sms=SMS.get(kernels.get(name).source, device.facts.sms))
        has_case = name in sums.names() or cases(name, device.facts)
        if kernels.get(name).image_for(device.facts.sm).target == target and has_case:
            return device
    raise AssertionError(f"{name}: no problem launches its image for {target}")


def ran(device, name) -> tuple:
    """(share of the shipped instructions that have run in any of the texts they were spliced into, those that
    have not)."""
    shipped = kernels.get(name).image_for(device.facts.sm).text().decode()
    code, done = device.code(name), run_lines(device.codes, name, shipped)
    idle = [f"{code.line(i)}: {i.text}" for i in code.instructions if code.line(i) not in done]
    return 1 - len(idle) / len(code.instructions), idle


def with_nans(case) -> dict:
    """Half of what is blended is NaN, and of the inputs where NaN takes its own way."""
    op = case.problem.op
    return dict(scalars=blended(op), nans=(*op.blends, *(("x", "dy") if op.name in NAN_READERS else ())))


def only_nans(case) -> dict:
    return dict(scalars=plain(case.problem.op), nans=("x",))


def far_apart(case) -> dict:
    """Inputs of a wide range: exp and log of f64 have code for numbers that under- and overflow."""
    return dict(scalars=plain(case.problem.op), scale=1000.0 if case.problem.op.compute == "f64" else 1.0)


def far_products(case) -> dict:
    """The same where exp has a product of two inputs."""
    return dict(scalars=plain(case.problem.op), scale=30.0 if case.problem.op.compute == "f64" else 1.0)


def with_numbers(numbers):
    """A mode: by-value numbers that a function of the op says."""
    return lambda case: dict(scalars=numbers(case.problem.op))


def ties(case, most=16):
    """Seeds for an op that draws: a random number meets the threshold in its upper half, as in one octet of
    8192, and the lower half decides."""
    op = case.problem.op
    if "states" not in op.keeps or not hasattr(op, "p"):
        return iter(())
    count, upper = case.problem.operands["y"].count, min(int(op.p * 2 ** 16), 2 ** 16 - 1)

    def is_met(seed):
        states = inputs_for(case.problem, random.Random(seed), False)["states"]
        kept, kept_above = (philox.kept(states, count, n / 2 ** 16) for n in (upper, upper + 1))
        return (kept & ~kept_above).any()
    return itertools.islice(filter(is_met, range(4000)), most)


def ties_of_weights(case, most=16):
    """Seeds for attention with dropout: a random number meets the threshold in its upper half."""
    op, given = case.problem.op, case.problem.operands
    if not getattr(op, "drop", 0):
        return iter(())
    tables = [given["table_k"]] if "table_k" in given else []
    *rows, keys = op.space(given["q"], given["k"], *tables)
    upper = philox.threshold(op.drop) >> 16
    is_met = lambda seed: (philox.numbers(seed, 0, int(np.prod(rows)), keys) >> np.uint64(16) == upper).any()
    return itertools.islice(filter(is_met, range(4000)), most)


def of_modes(name, cards, modes):
    """The kernel's cases as each card plans them, in each mode."""
    yield from ((card, case, mode(case)) for mode in modes for card in cards for case in cases(name, card))


def ways(name, facts):
    """(facts, case, keywords) in the order to try them."""
    yield from ((card, case, with_numbers(blended)(case)) for case, card in streamed.many(name, facts))
    yield from ((card, case, dict(scalars=plain(case.problem.op)))
                for case, card in streamed.cases(name, facts))
    yield from ((facts, case, dict(scalars=plain(case.problem.op), seed=seed))
                for case in cases(name, facts) for seed in ties(case))
    yield from ((facts, case, dict(scalars=dict(plain(case.problem.op), seed=seed)))
                for case in cases(name, facts) for seed in ties_of_weights(case))
    cards = [replace(facts, sms=sms, l2_bytes=4096) for sms in (1, 4)]
    reads_nan = any(case.problem.op.name in NAN_READERS for case in cases(name, facts))
    yield from of_modes(name, [facts], (with_numbers(blended),
                                        *((with_nans, only_nans) if reads_nan else ())))
    yield from of_modes(name, cards, (with_numbers(plain), with_numbers(blended)))
    if kernels.get(name).row.get("cooperative"):             # in what order blocks come is a way to go
        configured = ((None, case) for case, _ in every_case(name, facts) if case.config)
        yield from ((facts, case, dict(scalars=plain(case.problem.op), order=order))
                    for order, case in itertools.chain([(1, cases(name, facts)[-1])], configured))
    yield from of_modes(name, [facts], (with_numbers(scaled), with_nans, far_apart, far_products))
    yield from of_modes(name, cards, (with_nans,))
    yield from ((facts, case, with_numbers(blended)(case)) for case,
                _ in every_case(name, facts) if case.config)


# Of one whole tile and a part of another, by the axes of the kernel: what is fused leaves in boxes.
WHOLE_TILES = {
    "matmul/matmul_wgmma.cu": lambda T, TILE_M, TILE_N, A_MAJOR, B_MAJOR, **_:
        f"matmul a={TILE_M + 8}x72@{'72,1' if A_MAJOR == 'ak' else f'1,{TILE_M + 8}'} "
        f"b=72x{TILE_N}@{'1,72' if B_MAJOR == 'bk' else f'{TILE_N},1'} c={TILE_M + 8}x{TILE_N} {T}",
    "conv/conv_wgmma.cu": lambda T, TILE_N, W_MAJOR, **_:
        f"conv_{'fprop' if W_MAJOR == 'bk' else 'dgrad'} n1c{8 if W_MAJOR == 'bk' else TILE_N}h9w16 "
        f"k{TILE_N if W_MAJOR == 'bk' else 8}r1s1 {T} nhwc",
    "conv/conv_wgmma_kept.cu": lambda T, TILE_N, W_MAJOR:
        f"conv_{'fprop' if W_MAJOR == 'bk' else 'dgrad'} n1c{8 if W_MAJOR == 'bk' else TILE_N}h9w16 "
        f"k{TILE_N if W_MAJOR == 'bk' else 8}r1s1 {T} nhwc",
    "conv/conv_wgmma_tall.cu": lambda T, TILE_N, W_MAJOR, **_:
        f"conv_{'fprop' if W_MAJOR == 'bk' else 'dgrad'} n1c{8 if W_MAJOR == 'bk' else TILE_N}h13w16 "
        f"k{TILE_N if W_MAJOR == 'bk' else 8}r1s1 {T} nhwc",
    "conv/conv_wgmma_pieces.cu": lambda T, TILE_N, **_: f"conv_fprop n1c8h9w16 k{TILE_N}r1s1 {T} nhwc",
    "conv/conv_wgrad_wgmma.cu": lambda T, TILE_M, TILE_N, **_:
        f"conv_wgrad n1c{TILE_N}h5w5 k{TILE_M + 8}r1s1 {T} nhwc",
    "conv/conv_first.cu": lambda T, **_: (
        f"conv_fprop x=1x8x5x70:{T}@2800,1,560,8 w=72x8x7x7:{T}@392,1,56,8 y=1x72x5x70:{T}@25200,1,5040,72 "
        "pad3")}


def behind(device, name) -> list[str]:
    """The differences where an alpha, bias, residual and ReLU are fused behind a kernel of sums in pairs."""
    kernel = kernels.get(name)
    if "pairs" not in kernel.marks:
        return []
    line = WHOLE_TILES[kernel.source](**kernel.axes)
    config = dict(store="tma")                               # of first layers
    if "TILE_M" in kernel.axes:
        config = dict(tile="{TILE_M}x{TILE_N}".format_map(kernel.axes), store="tma", splits=1,
                      cluster_k=1, stream_k=None)
    elif "TILE_N" in kernel.axes:
        config = dict(resident=kernel.axes["TILE_N"])
    return fused.differences(
        device, cases(name, device.facts)[0].engine, fused.graph_of(Problem.parse(line), alpha=2.0),
        lambda c: all(c.get(knob) == value for knob, value in config.items()), FUSED, name)


def from_memory(device, name) -> list[str]:
    """The differences where numbers that a kernel may read in memory lie there."""
    case, params = cases(name, device.facts)[0], kernels.get(name).row["params"]
    plain_, op = graph_of(case.problem), case.problem.op
    types = {row["name"]: kinds.find(row["type"]).patch for row in params
             if row["type"].startswith("Number<") and row["name"] in op.scalars}
    there = {uid: Tensor(uid, TensorDesc.packed(kind, (1,))) for uid, kind in enumerate(types.values(), 100)}
    values = inputs_for(case.problem, random.Random(0), False)
    values = {uid: values[tensor.name] for uid, tensor in plain_.tensors.items()}
    values |= {uid: np.array([3]) for uid in there}
    numbers = [dict.fromkeys(types, 3), dict(zip(types, map(FromTensor, there)))]
    graphs_ = [Graph([Node(op, plain_.nodes[0].operands, given)], {**plain_.tensors, **there})
               for given in numbers if types]
    found = [graphs.execute(plan.build(graph, device, case.wish), values) for graph in graphs_]
    return graphs.differences(plain_, *found) if found else []


def in_batches(device, name) -> list[str]:
    """The differences where batches begin at offsets, of 32 and of 64 bits, which say where they lie: where
    they would without, or an element further on each."""
    params = {row["name"] for row in kernels.get(name).row["params"]}
    if "wide" not in params:
        return []
    is_split = lambda case: case.config is None or case.config.get("splits", 1) != 1
    case = min(cases(name, device.facts), key=is_split)      # the first, in one piece where there is a choice
    plain_ = graph_of(case.problem)
    values = inputs_for(case.problem, random.Random(0), False)
    values = {uid: values[tensor.name] for uid, tensor in plain_.tensors.items()}
    mine = [t for t in plain_.tensors.values() if f"{t.name}_at" in params]
    found = [graphs.execute(plan.build(plain_, device, case.wish), values)]
    for kind, gap in (("i32", 0), ("i64", 0), ("i32", 1)):
        there = {100 + t.uid: Tensor(100 + t.uid, TensorDesc.packed(kind, (t.dims[0] + 1, 1, 1, 1)))
                 for t in mine}
        steps = {t.uid: (t.strides[0] + gap, *t.strides[1:]) for t in mine}
        values |= {100 + uid: np.arange(there[100 + uid].dims[0]).reshape(-1, 1, 1, 1) * step[0]
                   for uid, step in steps.items()}
        ragged = {t.uid: t.replace(ragged=100 + t.uid, strides=steps[t.uid]) for t in mine}
        graph = Graph(plain_.nodes, {**plain_.tensors, **ragged, **there})
        found.append(graphs.execute(plan.build(graph, device, case.wish), values))
    return [text for other in found[1:] for text in graphs.differences(plain_, found[0], other)]


def as_they_are(name, facts) -> list:
    return [(facts, case, dict(scalars=plain(case.problem.op), flavour=flavours(case.problem.op)[0]))
            for case in cases(name, facts)]


def run_one(device, name) -> list[str]:
    """The findings of one of the problems, or graphs; of more, where a larger share is asked for."""
    if name in sums.names():
        return sums.wrong(device, name, sampling.of(sums.ways(name), 1, name))
    wrong = []
    for number, (_, case, more) in sampling.of(enumerate(as_they_are(name, device.facts)), 1, name):
        outcome = watched.run(case.problem, device, number, [case.engine], config=case.config, **more)
        wrong += [f"{case} {more}: {text}" for text in outcome.findings]
    return wrong


def cover(device, name) -> list[str]:
    """Run until enough has run; the findings."""
    if name in sums.names():
        device.facts = replace(facts := device.facts, sms=2)
        found = sums.wrong(device, name, sums.ways(name))
        device.facts = facts
        return found
    facts, tried = device.facts, set()
    first = as_they_are(name, facts)
    wrong = behind(device, name) + from_memory(device, name) + in_batches(device, name)
    for number, (card, case, more) in enumerate(itertools.chain(first, ways(name, facts))):
        way = str((card.sms, case, {"scale": 1.0, "nans": (), "order": None, **more, "flavour": None}))
        if way in tried:                                     # not every way is another one for every op
            continue
        if number >= len(first) and ran(device, name)[0] >= BAR:
            break
        tried.add(way)
        device.facts, device.seed = card, more.pop("order", None)
        outcome = watched.run(case.problem, device, **{"seed": number, **more}, engines=[case.engine],
                              config=case.config)
        wrong += [f"{case} {more}: {text}" for text in outcome.findings]
    device.facts, device.seed = facts, None
    return wrong


# How many others run where there are many, or such that take long. test_census.py decodes all of them.
LONG = {"rnn/rnn_persist.cu": 0, "rnn/rnn_persist_bwd.cu": 0, "conv/conv_wgmma.cu": 3,
        "conv/conv_wgmma_pieces.cu": 1,
        "conv/conv_wgrad_wgmma.cu": 3, "matmul/matmul_wgmma.cu": 3,
        **{f"divisive_norm/divisive_norm_{w}.cu": 3 for w in ("fwd_planes", "bwd_planes", "bwd_channels")}}
TWICE = sampling.of([s for s in SOURCES if sampling.ALL or s not in LONG], len(SOURCES) // 4, "two images")


@pytest.mark.share(80)
@pytest.mark.parametrize("source", SOURCES)
def test_instructions_have_run(source):
    wrong, found = [], images(source)
    least = min(found, key=smallest)
    whole = {least, *(sampling.of(found, 1, source) if source in TWICE else ())}
    rest = [image for image in found if image not in whole]
    some = sampling.of(rest, LONG.get(source, -(-len(rest) // 4)), f"{source} once")
    for name, target in (image for image in found if image in whole or image in some):
        device = device_for(name, target)
        wrong += cover(device, name) if (name, target) in whole else run_one(device, name)
        wrong += misdeclared(device, name)
        if (name, target) not in whole:
            continue
        fraction, idle = ran(device, name)
        if fraction < LESS.get(name, BAR):
            wrong.append(f"{name} for {target}: {fraction:.1%} of its instructions have run, "
                         f"at least {BAR:.0%} must; not: {idle[:6]}")
        if (name, target) == least:
            wrong += turning.turn(device, name)
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])


def smallest(image) -> tuple:
    """Of operands whose depth is contiguous and more than 16 columns, where a source has others, too:
    turning.py knows them."""
    name, target = image
    axes = kernels.get(name).axes
    across = {"am", "bn", "wm", "fn"} & set(map(str, axes.values()))
    return len(across), axes.get("COLUMNS") == 16, kernels.get(name).images[target].bytes, image


def misdeclared(device, name) -> list[str]:
    """Is what has run what the manifest says? Spliced code has parameters of its own."""
    kernel, found = kernels.get(name), [c.program for c in device.codes.values() if c.program.name == name]
    image = kernel.image_for(device.facts.sm)
    return [f"{name} for {image.target}: {p.bytes}" for p in found if p.bytes["shared"] != image.smem_static
            or p.bytes["param"] < kernel.param_bytes] if found else [f"{name} did not run"]


def images(source) -> list:
    """(kernel, target) of every image whose text is not that of an earlier one but for its target."""
    found = {}
    for name in (n for n in kernels.names() if kernels.get(n).source == source):
        for target, image in kernels.get(name).images.items():
            if target in TARGETS:
                text = re.sub(rb"(?m)^\.(target|version) .*$", b"", image.text())
                found.setdefault(text, (name, target))
    return list(found.values())
